/* steady_wait.h: wait on a condition until a time of spsh__now_ns, unaffected by the wall clock. */
#ifndef SPSH_TRAIN_STEADY_WAIT_H
#define SPSH_TRAIN_STEADY_WAIT_H

#include <pthread.h>
#include <stdbool.h>

#include "speechshard/inside.h"

static inline struct timespec spsh__timespec_of(uint64_t ns)
{
    const uint64_t second = UINT64_C(1000000000);
    return (struct timespec){(time_t)(ns / second), (long)(ns % second)};
}

static inline struct timespec spsh__timespec_after_ms(uint32_t ms)
{
    return spsh__timespec_of(spsh__now_ns() + ms * UINT64_C(1000000));
}

/* Initialize cond for pthread_cond_timedwait with times of spsh__now_ns. Returns false if the system
 * lacks the resources. cond may be destroyed then, too, but not waited for. */
static inline SPSH_NODISCARD bool spsh__steady_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    *cond = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    if (pthread_condattr_init(&attributes) != 0)
        return false;
    const bool is_ready = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
                          pthread_cond_init(cond, &attributes) == 0;
    (void)pthread_condattr_destroy(&attributes);
    return is_ready;
}

#endif
