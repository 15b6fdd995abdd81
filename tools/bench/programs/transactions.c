/* Transactions of many producers: one connection each, one request in flight, one transaction after another. Python builds the
   requests; this program patches what changes, retries as a client does, and prints one line of JSON.

       transactions port=9092 templates=FILE producers=64 steps=5 seconds=4

   The file holds for each producer its InitProducerId, then the `steps` requests of a transaction, the last of which ends it. A
   request is: uint32 length of the frame, uint32 number of patches, for each patch uint32 kind and uint32 position, then the
   frame (tools/bench/requests/transaction_frames.py writes it; little-endian but for the frame). Before the measurement every
   producer gets its id. In the result a request is a whole transaction, p50 and p99 are those of the last request (the
   commit), from sending it to the answer that accepts it; transaction_p50_us and _p99_us are those of the whole. */
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

/* The pauses of the Java client before it repeats a refused request: retry.backoff.ms, but a shorter one for the request that
   begins a transaction, as the last transaction may still be ending. */
#define RETRY_NS 100000000u
#define BEGIN_RETRY_NS 20000000u
#define EVENTS 64
#define NEVER UINT64_MAX

/* Positions in a batch, and the smallest size of one. */
enum { BATCH_LENGTH = 8, BATCH_CRC = 17, BATCH_CHECKED = 21, BATCH_PRODUCER = 43, BATCH_SEQUENCE = 53, BATCH_COUNT = 57, BATCH_HEADER = 61 };

/* producer: id and epoch, int64 and int16; batch: that of a record batch, its sequence and its CRC; offset: the committed
   offset, int64, one further each time. */
enum kind { PATCH_PRODUCER = 1, PATCH_BATCH = 2, PATCH_OFFSET = 3 };

struct patch {
    uint32_t kind, position;
};

struct request {
    uint32_t length, patch_count;
    const struct patch *patches;
    uint8_t *frame;
    int api, version;
    uint64_t batch_bytes;
};

struct producer {
    int socket, number;
    struct request *requests; /* the first one is InitProducerId */
    int step;                 /* of the request that is open, or is sent next */
    bool open, is_idle;
    uint32_t correlation_id;
    int32_t sequence; /* in each partition */
    int32_t records;  /* of a transaction in each partition */
    uint64_t due_ns;  /* when to send; NEVER while a request is open */
    uint64_t begun_ns, asked_ns, batch_bytes;
    struct inbox in;
    struct consumer state;
};

static struct settings settings;
static struct checker checker;
static struct producer *producers;
static struct histogram commits, transactions;
static int steps, poller, open_requests, idle_producers;
static uint64_t most_transactions, interval_ns, ended, record_bytes, sum_ns, heard_ns;
static uint64_t *counts; /* transactions of each producer */
static bool stopping;

/* ---- set-up ---- */

static void parse_setting(const char *argument) {
    char name[32];
    double value;
    if (strncmp(argument, "templates=", 10) == 0) settings.templates = argument + 10;
    else if (sscanf(argument, "%31[a-z_]=%lf", name, &value) != 2 || value < 0) die("not name=number: %s", argument);
    else if (strcmp(name, "port") == 0) settings.port = (int)value;
    else if (strcmp(name, "producers") == 0) settings.connections = (int)value;
    else if (strcmp(name, "steps") == 0) steps = (int)value;
    else if (strcmp(name, "seconds") == 0) settings.seconds = value;
    else if (strcmp(name, "transactions") == 0) most_transactions = (uint64_t)value;
    else if (strcmp(name, "interval_us") == 0) interval_ns = (uint64_t)(value * 1000);
    else if (strcmp(name, "wait") == 0) settings.wait = value != 0;
    else die("no such setting: %s", argument);
}

static uint32_t get_little_endian(const uint8_t *at) { return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24; }

static uint32_t batch_length(const uint8_t *batch) { return 12 + get_uint32(batch + BATCH_LENGTH); }

static void check_patches(struct request *request) {
    for (uint32_t i = 0; i < request->patch_count; i++) {
        uint32_t kind = request->patches[i].kind, position = request->patches[i].position;
        if (kind < PATCH_PRODUCER || kind > PATCH_OFFSET || position + 10 > request->length) die("a patch of kind %u at %u", kind, position);
        if (kind != PATCH_BATCH) continue;
        if (position + BATCH_HEADER > request->length || position + batch_length(request->frame + position) > request->length)
            die("the batch at %u is cut", position);
        request->batch_bytes += batch_length(request->frame + position);
    }
}

static size_t read_request(struct request *request, const uint8_t *content, size_t at, size_t length) {
    if (length - at < 8) die("%s: cut", settings.templates);
    request->length = get_little_endian(content + at);
    request->patch_count = get_little_endian(content + at + 4);
    size_t patches = at + 8, frame = patches + 8 * (size_t)request->patch_count;
    if (frame + request->length > length || request->length < 14) die("%s: cut in a request", settings.templates);
    struct patch *list = allocate((request->patch_count + 1) * sizeof *list);
    for (uint32_t i = 0; i < request->patch_count; i++)
        list[i] = (struct patch){get_little_endian(content + patches + 8 * i), get_little_endian(content + patches + 8 * i + 4)};
    request->patches = list;
    request->frame = allocate(request->length);
    memcpy(request->frame, content + frame, request->length);
    request->api = (int)(get_uint32(request->frame + 4) >> 16), request->version = (int)(get_uint32(request->frame + 4) & 0xffff);
    if (!can_check(request->api)) die("api=%d: answers of it are not known here", request->api);
    check_patches(request);
    return frame + request->length;
}

static int32_t records_of(const struct producer *p) {
    for (int step = 1; step <= steps; step++)
        for (uint32_t i = 0; i < p->requests[step].patch_count; i++)
            if (p->requests[step].patches[i].kind == PATCH_BATCH)
                return (int32_t)get_uint32(p->requests[step].frame + p->requests[step].patches[i].position + BATCH_COUNT);
    return 0;
}

static void open_producers(void) {
    size_t length, at = 0;
    const uint8_t *content = read_file(settings.templates, &length);
    for (int i = 0; i < settings.connections; i++) {
        struct producer *p = &producers[i];
        p->number = i;
        p->state.session_epoch = -1;
        p->requests = allocate((size_t)(steps + 1) * sizeof *p->requests);
        for (int step = 0; step <= steps; step++) at = read_request(&p->requests[step], content, at, length);
        p->records = records_of(p);
        p->socket = connect_to_broker(settings.port);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = p};
        if (epoll_ctl(poller, EPOLL_CTL_ADD, p->socket, &event) != 0) die("epoll_ctl: %s", strerror(errno));
    }
    if (at != length) die("%s: not %d producers of %d requests", settings.templates, settings.connections, steps + 1);
}

/* ---- sending ---- */

/* CRC-32C, as in every batch of version 2. */
static uint32_t crc32c(const uint8_t *bytes, size_t length) {
    static uint32_t table[256];
    if (!table[1])
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t value = i;
            for (int bit = 0; bit < 8; bit++) value = value >> 1 ^ (value & 1 ? 0x82f63b78u : 0);
            table[i] = value;
        }
    uint32_t crc = ~0u;
    for (size_t i = 0; i < length; i++) crc = crc >> 8 ^ table[(crc ^ bytes[i]) & 0xff];
    return ~crc;
}

static void patch_producer(const struct producer *p, uint8_t *at) {
    put_big_endian(at, (uint64_t)p->state.producer_id, 8);
    put_big_endian(at + 8, (uint16_t)p->state.producer_epoch, 2);
}

static void patch(struct producer *p, struct request *request) {
    for (uint32_t i = 0; i < request->patch_count; i++) {
        uint8_t *at = request->frame + request->patches[i].position;
        if (request->patches[i].kind == PATCH_OFFSET) put_big_endian(at, (uint64_t)++p->state.next_offset, 8);
        else if (request->patches[i].kind == PATCH_PRODUCER) patch_producer(p, at);
        else {
            patch_producer(p, at + BATCH_PRODUCER);
            put_big_endian(at + BATCH_SEQUENCE, (uint32_t)p->sequence, 4);
            put_big_endian(at + BATCH_CRC, crc32c(at + BATCH_CHECKED, batch_length(at) - BATCH_CHECKED), 4);
        }
    }
}

/* The kernel takes a small request at once; a large one may need a moment, in which nothing else is sent. */
static void send_whole(const struct producer *p, const uint8_t *bytes, size_t length) {
    while (length > 0) {
        ssize_t count = send(p->socket, bytes, length, MSG_NOSIGNAL);
        if (count < 0 && errno != EAGAIN && errno != EINTR) die("producer %d: send: %s", p->number, strerror(errno));
        struct pollfd descriptor = {.fd = p->socket, .events = POLLOUT};
        if (count < 0 && poll(&descriptor, 1, SILENCE_MS) == 0) die("producer %d: the broker takes no request", p->number);
        if (count > 0) bytes += count, length -= (size_t)count;
    }
}

static void send_request(struct producer *p, uint64_t now) {
    struct request *request = &p->requests[p->step];
    if (!p->asked_ns) { /* else it is repeated as it was */
        patch(p, request);
        p->asked_ns = now;
        if (p->step == 1) p->begun_ns = now;
    }
    put_big_endian(request->frame + CORRELATION_POSITION, p->correlation_id, 4);
    p->due_ns = NEVER;
    p->open = true;
    open_requests++;
    send_whole(p, request->frame, request->length);
}

/* ---- receiving ---- */

static void become_idle(struct producer *p) {
    p->is_idle = true;
    p->due_ns = NEVER;
    idle_producers++;
}

static void begin(struct producer *p, uint64_t now) {
    p->step = 1;
    if (steps == 0 || stopping || (most_transactions && counts[p->number] >= most_transactions)) become_idle(p);
    else p->due_ns = interval_ns && p->begun_ns + interval_ns > now ? p->begun_ns + interval_ns : now;
}

static void end_transaction(struct producer *p, uint64_t now, uint64_t asked_ns, int16_t epoch_before) {
    histogram_add(&commits, now - asked_ns);
    histogram_add(&transactions, now - p->begun_ns);
    sum_ns += now - p->begun_ns;
    counts[p->number]++;
    ended++;
    record_bytes += p->batch_bytes;
    p->batch_bytes = 0;
    p->sequence = p->state.producer_epoch == epoch_before ? p->sequence + p->records : 0;
    begin(p, now);
}

static void accept_answer(struct producer *p, uint64_t now, int16_t epoch_before) {
    uint64_t asked_ns = p->asked_ns;
    p->asked_ns = 0;
    p->batch_bytes += p->requests[p->step].batch_bytes;
    if (p->step == 0) become_idle(p);
    else if (p->step == steps) end_transaction(p, now, asked_ns, epoch_before);
    else {
        p->step++;
        p->due_ns = now;
    }
}

static void take_answer(struct producer *p, const uint8_t *frame, size_t length, uint64_t now) {
    if (!p->open || get_uint32(frame) != p->correlation_id) die("producer %d: an answer that nobody asked for", p->number);
    int16_t epoch_before = p->state.producer_epoch;
    settings.api = p->requests[p->step].api, settings.version = p->requests[p->step].version;
    p->open = false;
    p->correlation_id++;
    open_requests--;
    p->state.retriable_error = 0;
    check_answer(&checker, &p->state, frame + 4, length - 4);
    if (p->state.retriable_error) p->due_ns = now + (p->step <= 1 ? BEGIN_RETRY_NS : RETRY_NS);
    else accept_answer(p, now, epoch_before);
}

static void receive(struct producer *p) {
    ssize_t count = inbox_receive(&p->in, p->socket);
    if (count < 0) return;
    if (count == 0) die("producer %d: closed by the broker", p->number);
    const uint8_t *frame;
    heard_ns = now_ns();
    for (size_t at = 0, length; (frame = inbox_next(&p->in, &at, &length));) take_answer(p, frame, length, heard_ns);
}

/* ---- the run ---- */

static int wait_ms(uint64_t now) {
    uint64_t due = NEVER;
    for (int i = 0; i < settings.connections; i++)
        if (producers[i].due_ns < due) due = producers[i].due_ns;
    if (due <= now) return 0;
    return due - now > (uint64_t)SILENCE_MS * 1000000 ? SILENCE_MS : (int)((due - now + 999999) / 1000000);
}

static void turn(uint64_t deadline) {
    struct epoll_event events[EVENTS];
    int count = epoll_wait(poller, events, EVENTS, wait_ms(now_ns()));
    if (count < 0 && errno != EINTR) die("epoll_wait: %s", strerror(errno));
    uint64_t now = now_ns();
    stopping = now >= deadline;
    for (int i = 0; i < count; i++) receive(events[i].data.ptr);
    if (open_requests && now - heard_ns > (uint64_t)SILENCE_MS * 1000000 && count == 0)
        die("no answer for %d s with %d requests open", SILENCE_MS / 1000, open_requests);
    for (int i = 0; i < settings.connections; i++) {
        if (stopping && producers[i].step == 1 && !producers[i].open && !producers[i].asked_ns && !producers[i].is_idle) become_idle(&producers[i]);
        if (producers[i].due_ns <= now_ns()) send_request(&producers[i], now_ns());
    }
}

static void run_until(uint64_t deadline) {
    heard_ns = now_ns();
    while (idle_producers < settings.connections) turn(deadline);
}

static void start_each(uint64_t now) {
    idle_producers = 0;
    for (int i = 0; i < settings.connections; i++) {
        producers[i].is_idle = false;
        begin(&producers[i], now);
        if (interval_ns && producers[i].due_ns != NEVER) /* spread over the interval */
            producers[i].due_ns = now + interval_ns * (uint64_t)i / (uint64_t)settings.connections;
    }
}

static void print_result(double seconds) {
    printf("{\"requests\": %" PRIu64 ", \"record_bytes\": %" PRIu64 ", \"seconds\": %.6f, \"p50_us\": %.2f, \"p99_us\": %.2f"
           ", \"max_us\": %.2f, \"mean_us\": %.2f, \"transaction_p50_us\": %.2f, \"transaction_p99_us\": %.2f}\n",
           ended, record_bytes, seconds, histogram_quantile_us(&commits, 0.5), histogram_quantile_us(&commits, 0.99),
           (double)commits.maximum_ns / 1000, ended ? (double)sum_ns / (double)ended / 1000 : 0.0,
           histogram_quantile_us(&transactions, 0.5), histogram_quantile_us(&transactions, 0.99));
}

int main(int count, char **arguments) {
    program = "transactions";
    for (int i = 1; i < count; i++) parse_setting(arguments[i]);
    if (!settings.port || !settings.templates || settings.connections < 1) die("port, templates and producers are needed");
    if (steps && settings.seconds <= 0 && !most_transactions) die("one of seconds and transactions is needed");
    settings.retries = settings.many_partitions = true;
    checker.settings = &settings;
    producers = allocate((size_t)settings.connections * sizeof *producers);
    counts = allocate((size_t)settings.connections * sizeof *counts);
    poller = epoll_create1(EPOLL_CLOEXEC);
    open_producers();
    run_until(NEVER);
    if (settings.wait) wait_for_go();
    uint64_t start = now_ns();
    start_each(start);
    run_until(settings.seconds > 0 ? start + (uint64_t)(settings.seconds * 1e9) : NEVER);
    print_result((double)(now_ns() - start) / 1e9);
    if (settings.wait) wait_for_end();
    return 0;
}
