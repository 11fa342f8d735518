/* ordered_work.h: run jobs on threads in any order and return their results in order.
 *
 *     spsh__ordered_work_start(&options, &work, err);
 *     while ((rc = spsh__ordered_work_next(work, &job, &result, err)) == SPSH_OK) {  // _E_END
 *         put(result);
 *         spsh__ordered_work_release(work);
 *     }
 *     spsh__ordered_work_stop(work);
 *
 * Results come in the order of the jobs for any number of threads. Only a bounded number of jobs
 * runs ahead of the consumer.
 */
#ifndef SPSH_ORDERED_WORK_H
#define SPSH_ORDERED_WORK_H

#include <stdbool.h>

#include "speechshard/base.h"

/* A kind of work. All functions get the user pointer of the options. */
typedef struct spsh__ordered_work_kind {
    /* Called by each thread before its first job. A failure becomes the failure of that job. NULL
     * (like close_fn): threads need no state. */
    spsh_status (*open_fn)(void *user, void **ret_worker, spsh_error *err);
    void (*close_fn)(void *worker); /* NULL is fine */
    /* Allocate the memory of a result, which is reused for later jobs. */
    spsh_status (*result_new_fn)(void *user, void **ret_result, spsh_error *err);
    void (*result_free_fn)(void *result); /* NULL is fine */
    spsh_status (*run_fn)(void *user, void *worker, size_t job, void *result, spsh_error *err);
} spsh__ordered_work_kind;

typedef struct spsh__ordered_work_options {
    const spsh__ordered_work_kind *kind;
    void *user;
    size_t first_job, job_count; /* jobs first_job to job_count - 1 */
    uint32_t threads;            /* 0: 1 thread */
    uint32_t ahead;              /* results per thread that may be ahead */
    /* Bound the cost of the jobs that are not released yet. A single job may exceed cost_max.
     * cost_fn NULL: no bound. */
    uint64_t (*cost_fn)(void *user, size_t job);
    uint64_t cost_max;
} spsh__ordered_work_options;

typedef struct spsh__ordered_work spsh__ordered_work;

spsh_status spsh__ordered_work_start(const spsh__ordered_work_options *options,
                                     spsh__ordered_work **ret_work, spsh_error *err);
/* Wait for the next job in order. The result is borrowed until release. SPSH_E_END after the last
 * job; else the error of that job. */
spsh_status spsh__ordered_work_next(spsh__ordered_work *work, size_t *ret_job, void **ret_result,
                                    spsh_error *err);
void spsh__ordered_work_release(spsh__ordered_work *work);
/* Wait for the jobs in progress, then free everything. NULL is fine. */
void spsh__ordered_work_stop(spsh__ordered_work *work);

#endif
