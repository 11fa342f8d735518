/* bench_kit.h: what benches of datasets share: giving up, the clock, numbers, medians. */
#ifndef BENCH_KIT_H
#define BENCH_KIT_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "speechshard/base.h"

static spsh_error err = SPSH_ERROR_INIT;

_Noreturn static inline void stop(const char *what)
{
    fprintf(stderr, "%s: %s: %s %s\n", program_invocation_short_name, what, err.message,
            errno != 0 ? strerror(errno) : "");
    exit(1);
}

static inline void check(spsh_status rc, const char *what)
{
    if (rc != SPSH_OK)
        stop(what);
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

static inline int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A member of a JSON object. */
static inline void print_times(const char *name, double *times, size_t rounds, const char *end)
{
    qsort(times, rounds, sizeof(*times), compare_doubles);
    printf("  \"%s\": {\"median\": %.3f, \"least\": %.3f, \"most\": %.3f}%s\n", name,
           times[rounds / 2], times[0], times[rounds - 1], end);
}

#endif
