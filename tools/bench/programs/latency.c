/* End to end: one record a Produce at a steady rate on one connection, a consumer that waits for them on another, both on one
   clock. What is measured is the time from handing a request to the kernel to having the answer of the fetch that brought its
   record.

       latency port=9092 produce_version=7 fetch_version=11 templates=FILE rate=1000 messages=3000

   The file holds two templates, the Produce and the Fetch, for one partition that is empty: record n has offset n. The rate
   is kept whatever the broker does: a slow answer delays no later request, so that no wait hides behind another. One record
   goes round before the measured ones: what a broker does for the first record of a partition is no part of its latency. */
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

struct side {
    int socket;
    struct settings settings;
    struct checker checker;
    struct consumer consumer;
    struct inbox in;
    uint64_t sent, answered; /* requests; the correlation id is the low half of `sent` */
};

static struct side producer, reader;
static const struct template *produce, *fetch;
static struct histogram latencies;
static uint8_t *requests;       /* every Produce of the run, one after another */
static size_t pushed;           /* bytes of them that the kernel has */
static uint64_t *sent_at_ns;    /* by offset */
static uint64_t rate, messages, records, sum_ns, start; /* records: the measured messages and one before them */
static int poller, timer;

static void parse_setting(const char *argument, const char **templates) {
    char name[32];
    long long value;
    if (strncmp(argument, "templates=", 10) == 0) *templates = argument + 10;
    else if (sscanf(argument, "%31[a-z_]=%lld", name, &value) != 2 || value <= 0) die("not name=number: %s", argument);
    else if (strcmp(name, "port") == 0) producer.settings.port = reader.settings.port = (int)value;
    else if (strcmp(name, "produce_version") == 0) producer.settings.version = (int)value;
    else if (strcmp(name, "fetch_version") == 0) reader.settings.version = (int)value;
    else if (strcmp(name, "rate") == 0) rate = (uint64_t)value;
    else if (strcmp(name, "messages") == 0) messages = (uint64_t)value, records = messages + 1;
    else if (strcmp(name, "wait") == 0) producer.settings.wait = true;
    else die("no such setting: %s", argument);
}

static void watch(int descriptor, uint32_t events) {
    struct epoll_event event = {.events = events, .data.fd = descriptor};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, descriptor, &event) != 0) die("epoll_ctl: %s", strerror(errno));
}

static void open_side(struct side *side, int api) {
    side->settings.api = api;
    side->checker.settings = &side->settings;
    side->consumer.session_epoch = -1;
    side->socket = connect_to_broker(side->settings.port);
    watch(side->socket, EPOLLIN);
}

static void build_requests(void) {
    requests = allocate(records * produce->length);
    sent_at_ns = allocate(records * sizeof *sent_at_ns);
    for (uint64_t i = 0; i < records; i++) {
        uint8_t *frame = requests + i * produce->length;
        memcpy(frame, produce->frame, produce->length);
        put_big_endian(frame + CORRELATION_POSITION, (uint32_t)i, 4);
    }
}

static void start_timer(void) {
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    long interval_ns = (long)(1000000000u / rate);
    struct itimerspec times = {{interval_ns / 1000000000, interval_ns % 1000000000}, {0, 1}};
    if (timer < 0 || timerfd_settime(timer, 0, &times, NULL) != 0) die("timerfd: %s", strerror(errno));
    watch(timer, EPOLLIN);
}

/* ---- sending ---- */

/* The records before number `due`, and what the kernel had no room for before. */
static void send_until(uint64_t due, uint64_t now) {
    while (producer.sent < records && producer.sent < due) sent_at_ns[producer.sent++] = now;
    while (pushed < producer.sent * produce->length) {
        ssize_t count = send(producer.socket, requests + pushed, producer.sent * produce->length - pushed, MSG_NOSIGNAL);
        if (count < 0 && errno != EAGAIN && errno != EINTR) die("send: %s", strerror(errno));
        if (count < 0) break;
        pushed += (size_t)count;
    }
}

static void send_due(void) {
    uint64_t now = now_ns();
    send_until((uint64_t)((double)(now - start) / 1e9 * (double)rate) + 2, now);
}

static void send_fetch(void) {
    put_big_endian(fetch->frame + CORRELATION_POSITION, (uint32_t)reader.sent++, 4);
    put_big_endian(fetch->frame + fetch->offset_position, (uint64_t)reader.consumer.next_offset, 8);
    if (send(reader.socket, fetch->frame, fetch->length, MSG_NOSIGNAL) != (ssize_t)fetch->length)
        die("send of a fetch: %s", strerror(errno));
}

/* ---- receiving ---- */

static void note_arrivals(int64_t from, int64_t to) {
    uint64_t now = now_ns();
    if (to > (int64_t)producer.sent) die("offset %" PRId64 " was fetched, %" PRIu64 " were sent", to - 1, producer.sent);
    for (int64_t offset = from > 0 ? from : 1; offset < to; offset++) {
        histogram_add(&latencies, now - sent_at_ns[offset]);
        sum_ns += now - sent_at_ns[offset];
    }
}

static void take_answer(struct side *side, const uint8_t *frame, size_t length) {
    uint32_t correlation_id = get_uint32(frame);
    if (side->answered == side->sent || correlation_id != (uint32_t)side->answered)
        die("correlation id %u, %u was next", correlation_id, (uint32_t)side->answered);
    side->answered++;
    int64_t before = side->consumer.next_offset;
    check_answer(&side->checker, &side->consumer, frame + 4, length - 4);
    if (side == &producer) return;
    note_arrivals(before, side->consumer.next_offset);
    if ((uint64_t)side->consumer.next_offset < records) send_fetch();
}

static void receive(struct side *side) {
    ssize_t count = inbox_receive(&side->in, side->socket);
    if (count == 0) die("closed by the broker after %" PRIu64 " records", (uint64_t)reader.consumer.next_offset);
    if (count < 0) return;
    const uint8_t *frame;
    for (size_t at = 0, length; (frame = inbox_next(&side->in, &at, &length));) take_answer(side, frame, length);
}

/* ---- the run ---- */

static void turn(void) {
    struct epoll_event events[3];
    uint64_t expirations;
    int count = epoll_wait(poller, events, 3, SILENCE_MS);
    if (count < 0 && errno != EINTR) die("epoll_wait: %s", strerror(errno));
    for (int i = 0; i < count; i++) {
        if (events[i].data.fd == timer) {
            if (read(timer, &expirations, sizeof expirations) > 0) send_due();
        } else receive(events[i].data.fd == producer.socket ? &producer : &reader);
    }
}

static uint64_t received(void) { return (uint64_t)reader.consumer.next_offset; }

static void check_progress(void) {
    static uint64_t seen, seen_at;
    uint64_t now = now_ns();
    if (seen != received() + producer.answered || !seen_at) {
        seen = received() + producer.answered;
        seen_at = now;
    } else if (now - seen_at > (uint64_t)SILENCE_MS * 1000000)
        die("nothing came for %d s: %" PRIu64 " records sent, %" PRIu64 " fetched", SILENCE_MS / 1000, producer.sent, received());
}

static void run_until(uint64_t count) {
    while (received() < count || producer.answered < count) {
        turn();
        check_progress();
    }
}

int main(int count, char **arguments) {
    program = "latency";
    const char *path = NULL;
    for (int i = 1; i < count; i++) parse_setting(arguments[i], &path);
    if (!path || !producer.settings.port || !rate || !messages) die("port, templates, rate and messages are needed");
    size_t template_count;
    const struct template *templates = read_templates(path, &template_count);
    if (template_count != 2) die("%s: %zu templates, Produce and Fetch are needed", path, template_count);
    produce = &templates[0], fetch = &templates[1];
    build_requests();
    poller = epoll_create1(EPOLL_CLOEXEC);
    open_side(&producer, API_PRODUCE);
    open_side(&reader, API_FETCH);
    send_fetch();
    send_until(1, now_ns());
    run_until(1);
    if (producer.settings.wait) wait_for_go();
    start = now_ns();
    start_timer();
    run_until(records);
    printf("{\"requests\": %" PRIu64 ", \"record_bytes\": %" PRIu64 ", \"seconds\": %.6f, \"p50_us\": %.2f, \"p99_us\": %.2f"
           ", \"max_us\": %.2f, \"mean_us\": %.2f}\n",
           messages, messages * produce->load_bytes, (double)(now_ns() - start) / 1e9, histogram_quantile_us(&latencies, 0.5),
           histogram_quantile_us(&latencies, 0.99), (double)latencies.maximum_ns / 1000, (double)sum_ns / (double)messages / 1000);
    if (producer.settings.wait) wait_for_end();
    return 0;
}
