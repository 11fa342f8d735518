/* claim_keeper.c: see claim_keeper.h. */
#include "claim_keeper.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

#include "speechshard/inside.h"

static struct timespec next_beat(const spsh__own_claim *claim)
{
    const uint64_t pause_ns = claim->claims->lease_s * (UINT64_C(1000000000) / SPSH__CLAIM_BEATS);
    struct timespec at = {0, 0};

    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    const uint64_t ns = (uint64_t)at.tv_nsec + pause_ns;
    at.tv_sec += (time_t)(ns / UINT64_C(1000000000));
    at.tv_nsec = (long)(ns % UINT64_C(1000000000));
    return at;
}

static void *keep(void *user)
{
    spsh__claim_keeper *keeper = (spsh__claim_keeper *)user;

    (void)pthread_mutex_lock(&keeper->mutex);
    while (!keeper->ends) {
        const struct timespec at = next_beat(keeper->claim);
        int rc = 0;
        while (rc != ETIMEDOUT && !keeper->ends)
            rc = pthread_cond_timedwait(&keeper->may_end, &keeper->mutex, &at);
        if (keeper->ends)
            break;
        (void)pthread_mutex_unlock(&keeper->mutex);
        spsh__claim_beat(keeper->claim);
        (void)pthread_mutex_lock(&keeper->mutex);
    }
    (void)pthread_mutex_unlock(&keeper->mutex);
    return NULL;
}

spsh_status spsh__claim_keeper_start(spsh__claim_keeper *keeper, spsh__own_claim *claim,
                                     spsh_error *err)
{
    pthread_condattr_t attributes;
    sigset_t all;
    sigset_t before;

    *keeper = (spsh__claim_keeper){.claim = claim};
    (void)pthread_mutex_init(&keeper->mutex, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&keeper->may_end, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    /* A signal must reach a thread whose system call it can interrupt, such as a read of a pipe. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&keeper->thread, NULL, keep, keeper);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed == 0)
        return SPSH_OK;
    (void)pthread_cond_destroy(&keeper->may_end);
    (void)pthread_mutex_destroy(&keeper->mutex);
    return SPSH_FAIL_OS(err, SPSH_E_NO_MEMORY, failed, "cannot start a thread");
}

void spsh__claim_keeper_stop(spsh__claim_keeper *keeper)
{
    (void)pthread_mutex_lock(&keeper->mutex);
    keeper->ends = true;
    (void)pthread_cond_signal(&keeper->may_end);
    (void)pthread_mutex_unlock(&keeper->mutex);
    (void)pthread_join(keeper->thread, NULL);
    (void)pthread_cond_destroy(&keeper->may_end);
    (void)pthread_mutex_destroy(&keeper->mutex);
}
