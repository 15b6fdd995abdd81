/* Shared by the load generator: what one run is made of. */
#ifndef HEADGATE_BENCH_LOAD_H
#define HEADGATE_BENCH_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { API_PRODUCE = 0, API_FETCH = 1, API_METADATA = 3 };

/* A request built by Python; a position of 0 means that the request has no such field. */
struct template {
    uint32_t length;           /* of the whole frame, its size field included */
    uint32_t offset_position;  /* where the fetch offset is, int64 */
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
    bool wrap;               /* fetch: begin again at 0 at the high watermark; an empty answer is a failure */
    const char *expected;    /* fetch: file with the batch that every stored batch must equal, or NULL */
    const char *templates;
};

/* What a fetch answer changes; also what is known of one consumer. */
struct consumer {
    int64_t next_offset, high_watermark;
    int32_t session_id, session_epoch;
};

struct checker {
    const struct settings *settings;
    const uint8_t *batch; /* expected bytes, NULL: not compared */
    size_t batch_length;
};

/* Read one answer (from behind its correlation id to its end); returns the bytes of complete record batches in it,
   or dies. The consumer is used for Fetch only. */
uint64_t check_answer(const struct checker *checker, struct consumer *consumer, const uint8_t *body, size_t length);

/* Log-linear latency histogram: 64 steps an octave, so an error below 1.6 percent. */
#define HISTOGRAM_STEPS 64
struct histogram {
    uint64_t counts[64 * HISTOGRAM_STEPS];
    uint64_t total, maximum_ns;
};
void histogram_add(struct histogram *histogram, uint64_t nanoseconds);
double histogram_quantile_us(const struct histogram *histogram, double quantile);

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
