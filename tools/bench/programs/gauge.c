/* How fast the machine is at the moment: on each CPU that this process may use, a thread that sleeps, does always the same
   work, and looks how much of its own CPU time that took. A virtual CPU whose sibling hyperthread is busy with another
   machine's work counts as many CPU seconds and gets half as much done; nothing else tells.

       gauge      for each line on stdin prints a line: the nanoseconds since the last one, a JSON list for each CPU

   The work is what suffers most from a busy sibling: many instructions a cycle, and branches that are well predicted. It
   takes about 60 us of every 20 ms. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PERIOD_NS 20000000
#define WARM_UP_ROUNDS 2000
#define SUM_ROUNDS 40000
#define BRANCH_ROUNDS 40000
#define TABLE 4096 /* bytes, a power of two */
#define KEPT 8192  /* durations of one CPU: those of the last 164 s if nobody asks */

struct gauge {
    int cpu;
    pthread_mutex_t lock;
    uint32_t durations_ns[KEPT];
    size_t count; /* ever, of which the last KEPT are there */
};

static uint8_t table[TABLE];

static void fail(const char *what, int error) {
    fprintf(stderr, "gauge: %s: %s\n", what, strerror(error));
    exit(1);
}

static uint64_t thread_cpu_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

/* Eight sums that do not wait for each other; the compiler may neither join nor leave out any. */
static void add(uint64_t rounds) {
    uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8;
    for (uint64_t i = 0; i < rounds; i++) {
        a += i, b ^= i, c -= i, d |= i, e += 3, f ^= 5, g -= i, h += i;
        __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g), "+r"(h));
    }
}

static void branch(uint64_t rounds) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < rounds; i++) {
        uint8_t value = table[i % TABLE];
        switch (value % 4) {
        case 0: sum += value; break;
        case 1: sum ^= value; break;
        case 2: sum -= i; break;
        default: sum = sum * 3 + 1;
        }
        __asm__ volatile("" : "+r"(sum));
    }
}

static void keep(struct gauge *gauge, uint64_t duration_ns) {
    pthread_mutex_lock(&gauge->lock);
    gauge->durations_ns[gauge->count++ % KEPT] = (uint32_t)duration_ns;
    pthread_mutex_unlock(&gauge->lock);
}

static void *watch(void *argument) {
    struct gauge *gauge = argument;
    for (;;) {
        struct timespec period = {.tv_nsec = PERIOD_NS};
        nanosleep(&period, NULL);
        add(WARM_UP_ROUNDS); /* whoever ran here before has filled the caches */
        uint64_t start = thread_cpu_ns();
        add(SUM_ROUNDS);
        branch(BRANCH_ROUNDS);
        keep(gauge, thread_cpu_ns() - start);
    }
    return NULL;
}

static void start(struct gauge *gauge) {
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET((size_t)gauge->cpu, &here);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setaffinity_np(&attributes, sizeof here, &here);
    pthread_mutex_init(&gauge->lock, NULL);
    pthread_t thread;
    int error = pthread_create(&thread, &attributes, watch, gauge);
    if (error) fail("a thread for each CPU", error);
}

static void print_and_forget(struct gauge *gauge) {
    pthread_mutex_lock(&gauge->lock);
    size_t first = gauge->count > KEPT ? gauge->count - KEPT : 0;
    putchar('[');
    for (size_t i = first; i < gauge->count; i++) printf("%s%u", i == first ? "" : ", ", gauge->durations_ns[i % KEPT]);
    putchar(']');
    gauge->count = 0;
    pthread_mutex_unlock(&gauge->lock);
}

int main(void) {
    for (size_t i = 0; i < TABLE; i++) table[i] = i % 16;
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) fail("sched_getaffinity", errno);
    static struct gauge *gauges[CPU_SETSIZE];
    size_t number = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET((size_t)cpu, &allowed)) continue;
        struct gauge *gauge = gauges[number++] = calloc(1, sizeof *gauge);
        if (!gauge) fail("calloc", errno);
        gauge->cpu = cpu;
        start(gauge);
    }
    for (int c; (c = getchar()) != EOF;) { /* ends with whoever started it */
        if (c != '\n') continue;
        for (size_t i = 0; i < number; i++) {
            fputs(i ? ", " : "[", stdout);
            print_and_forget(gauges[i]);
        }
        puts("]");
        fflush(stdout);
    }
    return 0;
}
