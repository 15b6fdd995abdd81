/* A bystander: one connection that sends one small Produce every interval, one at a time, whatever else the broker has to do.

       bystander port=9092 version=7 templates=FILE interval_us=2000 seconds=6

   The file holds one template. Requests are sent at multiples of the interval. A wait longer than the interval counts as well
   for every request that was due in it, each with the rest of the wait (the correction for coordinated omission that
   HdrHistogram's recordValueWithExpectedInterval makes). So a quantile is one of time: a broker that stands still for a tenth
   of the run cannot hide that in one slow request. One request goes before the measured ones, for what a broker does for the
   first record of a partition. */
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static struct settings settings = {.api = API_PRODUCE};
static struct checker checker = {.settings = &settings};
static struct consumer nobody = {.session_epoch = -1};
static struct template *request;
static struct inbox inbox;
static struct histogram latencies;
static uint64_t interval_ns, sent, sum_ns, slowest_ns;
static int descriptor;

static void parse_setting(const char *argument) {
    char name[32];
    double value;
    if (strncmp(argument, "templates=", 10) == 0) settings.templates = argument + 10;
    else if (sscanf(argument, "%31[a-z_]=%lf", name, &value) != 2 || value <= 0) die("not name=number: %s", argument);
    else if (strcmp(name, "port") == 0) settings.port = (int)value;
    else if (strcmp(name, "version") == 0) settings.version = (int)value;
    else if (strcmp(name, "interval_us") == 0) interval_ns = (uint64_t)(value * 1000);
    else if (strcmp(name, "seconds") == 0) settings.seconds = value;
    else if (strcmp(name, "wait") == 0) settings.wait = true;
    else die("no such setting: %s", argument);
}

static const uint8_t *receive_answer(size_t *length) {
    struct pollfd readable = {.fd = descriptor, .events = POLLIN};
    for (;;) {
        size_t at = 0;
        const uint8_t *frame = inbox_next(&inbox, &at, length);
        if (frame) {
            inbox.used = 0; /* one request in flight: nothing follows its answer; the bytes stay where they are */
            return frame;
        }
        if (poll(&readable, 1, SILENCE_MS) == 0) die("no answer for %d s", SILENCE_MS / 1000);
        if (inbox_receive(&inbox, descriptor) == 0) die("closed by the broker after %" PRIu64 " requests", sent);
    }
}

/* Nanoseconds from handing the request to the kernel to having its answer. */
static uint64_t exchange(void) {
    put_big_endian(request->frame + CORRELATION_POSITION, (uint32_t)sent, 4);
    uint64_t start = now_ns();
    if (send(descriptor, request->frame, request->length, MSG_NOSIGNAL) != (ssize_t)request->length)
        die("send: %s", strerror(errno));
    size_t length;
    const uint8_t *frame = receive_answer(&length);
    uint64_t latency = now_ns() - start;
    if (get_uint32(frame) != (uint32_t)sent) die("correlation id %u, %u was next", get_uint32(frame), (uint32_t)sent);
    check_answer(&checker, &nobody, frame + 4, length - 4);
    sent++;
    return latency;
}

static void count_wait(uint64_t latency) {
    sum_ns += latency;
    if (latency > slowest_ns) slowest_ns = latency;
    histogram_add(&latencies, latency);
    for (uint64_t rest = latency; rest >= 2 * interval_ns;) histogram_add(&latencies, rest -= interval_ns);
}

static void sleep_until(uint64_t when) {
    struct timespec time = {(time_t)(when / 1000000000), (long)(when % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR) continue;
}

int main(int count, char **arguments) {
    program = "bystander";
    for (int i = 1; i < count; i++) parse_setting(arguments[i]);
    if (!settings.port || !settings.templates || !interval_ns || settings.seconds <= 0)
        die("port, templates, interval_us and seconds are needed");
    size_t template_count;
    request = read_templates(settings.templates, &template_count);
    descriptor = connect_to_broker(settings.port);
    exchange();
    if (settings.wait) wait_for_go();
    uint64_t start = now_ns(), deadline = start + (uint64_t)(settings.seconds * 1e9), now;
    while ((now = now_ns()) < deadline) {
        sleep_until(start + ((now - start) / interval_ns + 1) * interval_ns);
        count_wait(exchange());
    }
    uint64_t measured = sent - 1;
    printf("{\"requests\": %" PRIu64 ", \"record_bytes\": %" PRIu64 ", \"seconds\": %.6f, \"p50_us\": %.2f, \"p99_us\": %.2f"
           ", \"max_us\": %.2f, \"mean_us\": %.2f}\n",
           measured, measured * request->load_bytes, (double)(now - start) / 1e9, histogram_quantile_us(&latencies, 0.5),
           histogram_quantile_us(&latencies, 0.99), (double)slowest_ns / 1000, (double)sum_ns / (double)measured / 1000);
    if (settings.wait) wait_for_end();
    return 0;
}
