/* Latencies in constant memory: below 64 ns exact, above in 64 steps an octave. */
#include "load.h"

static unsigned bucket_of(uint64_t value) {
    if (value < HISTOGRAM_STEPS) return (unsigned)value;
    unsigned octave = 63 - (unsigned)__builtin_clzll(value); /* 6 or more */
    return (octave - 5) * HISTOGRAM_STEPS + (unsigned)(value >> (octave - 6)) - HISTOGRAM_STEPS;
}

static double middle_of(unsigned bucket) {
    if (bucket < HISTOGRAM_STEPS) return bucket;
    unsigned octave = bucket / HISTOGRAM_STEPS + 5;
    uint64_t step = 1ull << (octave - 6);
    return (double)((bucket % HISTOGRAM_STEPS + HISTOGRAM_STEPS) * step) + (double)step / 2;
}

void histogram_add(struct histogram *histogram, uint64_t nanoseconds) {
    histogram->counts[bucket_of(nanoseconds)]++;
    histogram->total++;
    if (nanoseconds > histogram->maximum_ns) histogram->maximum_ns = nanoseconds;
}

double histogram_quantile_us(const struct histogram *histogram, double quantile) {
    uint64_t wanted = (uint64_t)(quantile * (double)histogram->total), seen = 0;
    for (unsigned i = 0; i < 64 * HISTOGRAM_STEPS; i++) {
        seen += histogram->counts[i];
        if (seen > wanted) return middle_of(i) / 1000;
    }
    return (double)histogram->maximum_ns / 1000;
}
