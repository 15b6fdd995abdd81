/* Load generator of the bench: one thread, one epoll, any number of connections. It pumps requests that Python built, patches
   what changes from one to the next, checks every answer and prints one line of JSON.

       load api=0 version=7 port=9092 templates=FILE connections=1 in_flight=5 seconds=4

   A template file holds, one after another, five little-endian fields and the frame (see `struct template`, and
   tools/bench/templates.py, which writes it). Connection n uses template n modulo their number. With `opening=1` the first
   template is left out of that: each connection sends it once, before anything is measured (a fetch session begins so). With
   `rotate=1` every connection sends all templates in turn, whatever their APIs. Anything unexpected ends the run with one
   line on stderr and exit code 1: a figure with an error in it is no figure. */
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define RECEIVED_AT_ONCE 65536
#define OUT_BUFFER 65536 /* several small requests leave in one send, as real pipelining clients do */

struct connection {
    int socket, number;
    const struct template *template;
    uint8_t *out; /* `slots` copies of the frame */
    size_t slots, out_length, out_sent;
    struct inbox in;
    uint64_t sent, answered; /* requests; the correlation id is the low half of `sent` */
    uint64_t *sent_at_ns;    /* by request modulo in_flight */
    struct consumer consumer;
    bool wants_write;
};

static struct settings settings;
static struct checker checker;
static struct histogram latencies;
static struct connection *connections;
static struct template *templates; /* of the requests that are measured */
static size_t template_count, largest_frame;
static uint64_t staged_requests, answered_requests, record_bytes, bytes_sent, bytes_received, answered_bytes;
static int poller;
static bool stopping;

/* ---- set-up ---- */

static void parse_setting(const char *argument) {
    const char *value = strchr(argument, '=');
    size_t length = value ? (size_t)(value - argument) : 0;
    if (!length) die("not name=value: %s", argument);
    value++;
#define IS(name) (length == sizeof name - 1 && memcmp(argument, name, length) == 0)
    if (IS("api")) settings.api = atoi(value);
    else if (IS("version")) settings.version = atoi(value);
    else if (IS("port")) settings.port = atoi(value);
    else if (IS("connections")) settings.connections = atoi(value);
    else if (IS("in_flight")) settings.in_flight = atoi(value);
    else if (IS("seconds")) settings.seconds = atof(value);
    else if (IS("requests")) settings.requests = strtoull(value, NULL, 10);
    else if (IS("byte_limit")) settings.byte_limit = strtoull(value, NULL, 10);
    else if (IS("record_bytes")) settings.record_bytes = strtoull(value, NULL, 10);
    else if (IS("wrap")) settings.wrap = atoi(value) != 0;
    else if (IS("opening")) settings.opening = atoi(value) != 0;
    else if (IS("rotate")) settings.rotate = atoi(value) != 0;
    else if (IS("committed")) settings.committed = atoi(value) != 0;
    else if (IS("wait")) settings.wait = atoi(value) != 0;
    else if (IS("tls")) is_encrypted = atoi(value) != 0;
    else if (IS("expected")) settings.expected = value;
    else if (IS("templates")) settings.templates = value;
    else die("no such setting: %s", argument);
#undef IS
}

static void check_settings(void) {
    if (!can_check(settings.api)) die("api=%d: answers of it are not known here", settings.api);
    if (settings.connections < 1 || settings.in_flight < 1 || !settings.port || !settings.templates)
        die("port, templates, connections and in_flight are needed");
    if (settings.rotate && settings.in_flight != 1) die("rotate: in_flight must be 1");
    if (settings.seconds <= 0 && !settings.requests && !settings.byte_limit)
        die("one of seconds, requests, byte_limit is needed");
}

static void check_templates(void) {
    for (size_t i = 0; i < template_count; i++) {
        int api = (int)(get_uint32(templates[i].frame + 4) >> 16);
        if (settings.rotate && !can_check(api)) die("api=%d: answers of it are not known here", api);
        if (settings.api == API_FETCH && templates[i].offset_position && settings.in_flight != 1)
            die("a consumer asks for the next offset only when it has the last answer: in_flight must be 1");
        if (templates[i].length > largest_frame) largest_frame = templates[i].length;
    }
}

static void patch_session(struct consumer *consumer, uint8_t *at) {
    put_big_endian(at, (uint32_t)consumer->session_id, 4);
    put_big_endian(at + 4, (uint32_t)consumer->session_epoch, 4);
    consumer->session_epoch = consumer->session_epoch == INT32_MAX ? 1 : consumer->session_epoch + 1;
}

static void wait_for(int socket, short events) {
    struct pollfd descriptor = {.fd = socket, .events = events};
    if (poll(&descriptor, 1, SILENCE_MS) == 0) die("no answer for %d s to an opening request", SILENCE_MS / 1000);
}

/* Sends the request and waits for its answer: later requests need what the answer says. */
static void exchange_opening(struct connection *c, const struct template *opening) {
    if (opening->session_position) patch_session(&c->consumer, opening->frame + opening->session_position);
    for (size_t sent = 0; sent < opening->length;) {
        ssize_t count = stream_send(c->socket, opening->frame + sent, opening->length - sent);
        if (count < 0 && errno != EAGAIN && errno != EINTR) die("send: %s", strerror(errno));
        if (count < 0) wait_for(c->socket, POLLOUT);
        else sent += (size_t)count;
    }
    size_t at = 0, length;
    const uint8_t *frame;
    while (!(frame = inbox_next(&c->in, &at, &length))) {
        wait_for(c->socket, POLLIN);
        if (inbox_receive(&c->in, c->socket) == 0) die("connection %d: closed by the broker after an opening request", c->number);
    }
    check_answer(&checker, &c->consumer, frame + 4, length - 4);
    while (inbox_next(&c->in, &at, &length)) die("connection %d: an answer that nobody asked for", c->number);
}

static void open_connection(struct connection *c, int number, const struct template *template) {
    *c = (struct connection){.socket = connect_to_broker(settings.port), .number = number, .template = template};
    c->slots = OUT_BUFFER / template->length;
    if (c->slots < 1) c->slots = 1;
    if (c->slots > (size_t)settings.in_flight) c->slots = (size_t)settings.in_flight;
    c->out = allocate(settings.rotate ? largest_frame : c->slots * template->length);
    for (size_t i = 0; i < c->slots; i++) memcpy(c->out + i * template->length, template->frame, template->length);
    c->sent_at_ns = allocate((size_t)settings.in_flight * sizeof *c->sent_at_ns);
    c->consumer.next_offset = template->first_offset;
    c->consumer.session_epoch = template->session_position ? 0 : -1;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, c->socket, &event) != 0) die("epoll_ctl: %s", strerror(errno));
}

/* ---- sending ---- */

static bool may_send(const struct connection *c) {
    return !stopping && c->sent - c->answered < (uint64_t)settings.in_flight &&
           (!settings.requests || c->sent < settings.requests);
}

static void take_next_template(struct connection *c) {
    c->template = &templates[c->sent % template_count];
    memcpy(c->out, c->template->frame, c->template->length);
}

static void stage_requests(struct connection *c, uint64_t now) {
    if (settings.rotate && may_send(c)) take_next_template(c);
    const struct template *template = c->template;
    c->out_sent = c->out_length = 0;
    for (size_t slot = 0; slot < c->slots && may_send(c); slot++) {
        uint8_t *frame = c->out + slot * template->length;
        put_big_endian(frame + CORRELATION_POSITION, (uint32_t)c->sent, 4);
        if (template->offset_position)
            put_big_endian(frame + template->offset_position, (uint64_t)c->consumer.next_offset, 8);
        if (template->session_position) patch_session(&c->consumer, frame + template->session_position);
        c->sent_at_ns[c->sent++ % (uint64_t)settings.in_flight] = now;
        c->out_length += template->length;
        staged_requests++;
    }
}

static void watch_write(struct connection *c, bool wanted) {
    if (c->wants_write == wanted) return;
    c->wants_write = wanted;
    struct epoll_event event = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0), .data.ptr = c};
    if (epoll_ctl(poller, EPOLL_CTL_MOD, c->socket, &event) != 0) die("epoll_ctl: %s", strerror(errno));
}

static void send_requests(struct connection *c, uint64_t now) {
    for (;;) {
        if (c->out_sent == c->out_length) stage_requests(c, now);
        if (c->out_sent == c->out_length) break;
        ssize_t count = stream_send(c->socket, c->out + c->out_sent, c->out_length - c->out_sent);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) break;
        if (count < 0) die("connection %d: send: %s", c->number, strerror(errno));
        c->out_sent += (size_t)count;
        bytes_sent += (uint64_t)count;
    }
    watch_write(c, c->out_sent != c->out_length);
}

/* ---- receiving ---- */

static void take_answer(struct connection *c, const uint8_t *frame, size_t length, uint64_t now) {
    if (c->answered == c->sent) die("connection %d: an answer that nobody asked for", c->number);
    uint32_t correlation_id = get_uint32(frame);
    if (correlation_id != (uint32_t)c->answered)
        die("connection %d: correlation id %u, %u was next", c->number, correlation_id, (uint32_t)c->answered);
    if (settings.rotate) {
        uint32_t key_and_version = get_uint32(c->template->frame + 4);
        settings.api = (int)(key_and_version >> 16), settings.version = (int)(key_and_version & 0xffff);
    }
    uint64_t fetched = check_answer(&checker, &c->consumer, frame + 4, length - 4);
    histogram_add(&latencies, now - c->sent_at_ns[c->answered++ % (uint64_t)settings.in_flight]);
    answered_requests++;
    record_bytes += fetched + c->template->load_bytes;
    answered_bytes += length + 4 + c->template->length;
}

static void receive(struct connection *c) {
    size_t before = c->in.used;
    ssize_t count = inbox_receive(&c->in, c->socket);
    if (count < 0) return;
    /* A record of TLS has 16 KiB at most: several are one receive, as for plain bytes */
    while (is_encrypted && count > 0 && c->in.used - before < RECEIVED_AT_ONCE) {
        ssize_t more = inbox_receive(&c->in, c->socket);
        if (more <= 0) break;
        count += more;
    }
    if (count == 0) die("connection %d: closed by the broker with %" PRIu64 " requests open", c->number, c->sent - c->answered);
    bytes_received += (uint64_t)count;
    uint64_t now = now_ns();
    const uint8_t *frame;
    for (size_t at = 0, length; (frame = inbox_next(&c->in, &at, &length));) take_answer(c, frame, length, now);
}

/* ---- the run ---- */

static uint64_t open_requests(void) { return staged_requests - answered_requests; }

static void turn(uint64_t deadline) {
    struct epoll_event events[64];
    int count = epoll_wait(poller, events, 64, SILENCE_MS);
    if (count < 0 && errno != EINTR) die("epoll_wait: %s", strerror(errno));
    if (count == 0) die("no answer for %d s with %" PRIu64 " requests open", SILENCE_MS / 1000, open_requests());
    uint64_t now = now_ns();
    stopping = now >= deadline || (settings.byte_limit && answered_bytes >= settings.byte_limit);
    for (int i = 0; i < count; i++) {
        struct connection *c = events[i].data.ptr;
        if (events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP)) receive(c);
        send_requests(c, now_ns());
    }
}

static void print_result(double seconds) {
    printf("{\"requests\": %" PRIu64 ", \"record_bytes\": %" PRIu64 ", \"bytes_sent\": %" PRIu64
           ", \"bytes_received\": %" PRIu64 ", \"seconds\": %.6f, \"p50_us\": %.2f, \"p99_us\": %.2f, \"max_us\": %.2f"
           "}\n",
           answered_requests, record_bytes, bytes_sent, bytes_received, seconds, histogram_quantile_us(&latencies, 0.5),
           histogram_quantile_us(&latencies, 0.99), (double)latencies.maximum_ns / 1000);
}

int main(int count, char **arguments) {
    program = "load";
    for (int i = 1; i < count; i++) parse_setting(arguments[i]);
    check_settings();
    checker.settings = &settings;
    if (settings.expected) checker.batch = read_file(settings.expected, &checker.batch_length);
    templates = read_templates(settings.templates, &template_count);
    const struct template *opening = settings.opening ? templates++ : NULL;
    if (opening && --template_count == 0) die("%s: no template besides the opening one", settings.templates);
    check_templates();
    poller = epoll_create1(EPOLL_CLOEXEC);
    connections = allocate((size_t)settings.connections * sizeof *connections);
    for (int i = 0; i < settings.connections; i++)
        open_connection(&connections[i], i, &templates[(size_t)i % template_count]);
    for (int i = 0; opening && i < settings.connections; i++) exchange_opening(&connections[i], opening);
    if (settings.wait) wait_for_go();
    uint64_t start = now_ns();
    uint64_t deadline = settings.seconds > 0 ? start + (uint64_t)(settings.seconds * 1e9) : UINT64_MAX;
    for (int i = 0; i < settings.connections; i++) send_requests(&connections[i], now_ns());
    while (open_requests() > 0) turn(deadline);
    print_result((double)(now_ns() - start) / 1e9);
    if (settings.wait) wait_for_end();
    return 0;
}
