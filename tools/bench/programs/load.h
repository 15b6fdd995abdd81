/* Shared by the generators: what one run is made of. */
#ifndef HEADGATE_BENCH_LOAD_H
#define HEADGATE_BENCH_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    API_PRODUCE = 0,
    API_FETCH = 1,
    API_METADATA = 3,
    API_OFFSET_COMMIT = 8,
    API_OFFSET_FETCH = 9,
    API_HEARTBEAT = 12,
    API_CREATE_TOPICS = 19,
    API_DELETE_TOPICS = 20,
    API_INIT_PRODUCER_ID = 22,
    API_ADD_PARTITIONS_TO_TXN = 24,
    API_ADD_OFFSETS_TO_TXN = 25,
    API_END_TXN = 26,
    API_TXN_OFFSET_COMMIT = 28,
    API_DESCRIBE_CONFIGS = 32,
    API_CONSUMER_GROUP_HEARTBEAT = 68
};

/* A request built by Python; a position of 0 means that the request has no such field. */
struct template {
    uint32_t length;           /* of the whole frame, its size field included */
    uint32_t offset_position;  /* where the offset is that is fetched from, or committed, int64 */
    uint32_t session_position; /* where session id and session epoch are, int32 each */
    uint32_t load_bytes;       /* bytes of record batches that one request carries */
    int64_t first_offset;      /* where a consumer starts */
    uint8_t *frame;
};

struct settings {
    int api, version, port;
    int connections, in_flight;
    double seconds;          /* stop sending after so long; 0: only limits below */
    uint64_t requests;       /* per connection; 0: no limit */
    uint64_t byte_limit;     /* of all connections, sent and received; 0: no limit */
    uint64_t record_bytes;   /* fetch: what a record counts, whatever became of it; 0: its bytes in the answer */
    bool wrap;               /* fetch: begin again at 0 at the high watermark; an empty answer is a failure */
    bool opening;            /* the first template opens every connection, and is not measured */
    bool rotate;             /* every connection sends all templates in turn */
    bool committed;          /* fetch: only committed records count; aborted ones may be in the answer */
    bool many_partitions;    /* produce: a request may have several partitions of its topic */
    bool retries;            /* an error after which a client repeats its request is no failure */
    bool wait;               /* for whoever measures; see wait_for_go */
    const char *expected;    /* fetch: file with the batch that every stored batch must equal, or NULL */
    const char *templates;
};

/* What an answer changes: what is known of one consumer or producer. The session's epoch is that of the next request; -1: the
   consumer has no session. */
struct consumer {
    int64_t next_offset, high_watermark;
    int32_t session_id, session_epoch;
    int64_t producer_id;
    int16_t producer_epoch, retriable_error; /* the last one, see `retries`; 0: none */
};

struct checker {
    const struct settings *settings;
    const uint8_t *batch; /* expected bytes, NULL: not compared */
    size_t batch_length;
};

bool can_check(int api);
/* Read one answer (from behind its correlation id to its end); returns the bytes of complete record batches in it,
   or dies. The consumer is used for Fetch, and for OffsetCommit, whose next offset is one further. */
uint64_t check_answer(const struct checker *checker, struct consumer *consumer, const uint8_t *body, size_t length);

/* Log-linear latency histogram: 64 steps an octave, so an error below 1.6 percent. */
#define HISTOGRAM_STEPS 64
struct histogram {
    uint64_t counts[64 * HISTOGRAM_STEPS];
    uint64_t total, maximum_ns;
};
void histogram_add(struct histogram *histogram, uint64_t nanoseconds);
double histogram_quantile_us(const struct histogram *histogram, double quantile);

#define SILENCE_MS 15000 /* no answer at all for so long is a failure */
#define CORRELATION_POSITION 8

/* What came on a connection and was not taken yet. All zero: empty; it grows to the largest answer. */
struct inbox {
    uint8_t *bytes;
    size_t size, used;
};
/* The number of bytes that came; 0: the peer closed; -1: there was nothing. */
ssize_t inbox_receive(struct inbox *inbox, int socket);
/* The whole answer at `*at`, from its correlation id on, and `*at` moved behind it; NULL when there is no other: what was
   taken is then gone from the inbox. */
const uint8_t *inbox_next(struct inbox *inbox, size_t *at, size_t *length);

extern const char *program; /* its name, before every complaint */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
void *allocate(size_t size);
uint64_t now_ns(void);
void put_big_endian(uint8_t *at, uint64_t value, int count);
uint32_t get_uint32(const uint8_t *at);
uint8_t *read_file(const char *path, size_t *length);
struct template *read_templates(const char *path, size_t *count);
extern bool is_encrypted;        /* connections use TLS */
void stream_open(int socket);    /* the handshake of a connection that blocks, if connections use TLS */
/* As send and recv; a receive over TLS gives the bytes of one record at most, and needs room for all of them. */
ssize_t stream_send(int socket, const void *bytes, size_t length);
ssize_t stream_receive(int socket, void *bytes, size_t length);
int connect_to_broker(int port); /* on loopback, greeted, without delay, not blocking */

/* Around what is measured: says "ready" and waits for a byte, before; after the result, until whoever reads it has closed
   the input. The connections are open all the time, so that neither opening nor closing them is measured. */
void wait_for_go(void);
void wait_for_end(void);

#endif
