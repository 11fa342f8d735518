/* bench_kit.h: functions that benchmarks share: giving up, clocks, numbers, medians. */
#ifndef BENCH_KIT_H
#define BENCH_KIT_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "speechshard/base.h"

static spsh_error failure = SPSH_ERROR_INIT;

_Noreturn static inline void stop(const char *what)
{
    fprintf(stderr, "%s: %s: %s %s\n", program_invocation_short_name, what, failure.message,
            errno != 0 ? strerror(errno) : "");
    exit(1);
}

static inline void check(spsh_status rc, const char *what)
{
    if (rc != SPSH_OK)
        stop(what);
}

/* For calls whose message says enough. */
static inline void check_ok(spsh_status rc)
{
    check(rc, "failed");
}

static inline void must(bool is_good, const char *what)
{
    if (!is_good)
        stop(what);
}

/* Processor time of this thread. */
static inline double cpu_seconds(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static inline double now_ms(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static inline uint64_t mix64(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* SplitMix64. */
static inline uint64_t next_random(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return mix64(*state);
}

static inline int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct figure {
    double median, least, most;
    double spread_percent; /* range, relative to the median */
} figure;

/* Sorts the rounds. */
static inline figure figure_of(double *rounds, size_t count)
{
    qsort(rounds, count, sizeof(*rounds), compare_doubles);
    const double median = rounds[count / 2];
    const double least = rounds[0];
    const double most = rounds[count - 1];
    return (figure){median, least, most, (most - least) / median * 100};
}

/* A member of a JSON object. */
static inline void print_times(const char *name, double *times, size_t rounds, const char *end)
{
    const figure f = figure_of(times, rounds);
    printf("  \"%s\": {\"median\": %.3f, \"least\": %.3f, \"most\": %.3f}%s\n", name, f.median,
           f.least, f.most, end);
}

#endif
