/* ordered_work.h: jobs done on threads in any order, results handed out in order.
 *
 *     spsh__ordered_work_start(&options, &work, err);
 *     while ((rc = spsh__ordered_work_next(work, &job, &result, err)) == SPSH_OK) {  // _E_END
 *         put(result);
 *         spsh__ordered_work_release(work);
 *     }
 *     spsh__ordered_work_stop(work);
 *
 * Whatever the number of threads, results come in the order of the jobs. A bounded number of them
 * is done ahead.
 */
#ifndef SPSH_ORDERED_WORK_H
#define SPSH_ORDERED_WORK_H

#include <stdbool.h>

#include "speechshard/base.h"

/* A kind of work. All functions get the options' user. */
typedef struct spsh__ordered_work_kind {
    /* Called by each thread before its first job. Its failure is that job's failure. NULL, as
     * close_fn: threads have nothing of their own. */
    spsh_status (*open_fn)(void *user, void **ret_worker, spsh_error *err);
    void (*close_fn)(void *worker); /* NULL is fine */
    /* Memory of a result, which is used again and again. */
    spsh_status (*result_new_fn)(void *user, void **ret_result, spsh_error *err);
    void (*result_free_fn)(void *result); /* NULL is fine */
    spsh_status (*run_fn)(void *user, void *worker, size_t job, void *result, spsh_error *err);
} spsh__ordered_work_kind;

typedef struct spsh__ordered_work_options {
    const spsh__ordered_work_kind *kind;
    void *user;
    size_t first_job, job_count; /* jobs first_job to job_count - 1 */
    uint32_t threads;            /* 0: 1 */
    uint32_t ahead;              /* results a thread may be ahead */
    /* Bound the cost of the jobs that are not released yet. A single job may cost more than
     * cost_max. cost_fn NULL: no bound. */
    uint64_t (*cost_fn)(void *user, size_t job);
    uint64_t cost_max;
} spsh__ordered_work_options;

typedef struct spsh__ordered_work spsh__ordered_work;

spsh_status spsh__ordered_work_start(const spsh__ordered_work_options *options,
                                     spsh__ordered_work **ret_work, spsh_error *err);
/* Waits for the next job in order; the result is borrowed until release. SPSH_E_END after the last;
 * what that job failed with. */
spsh_status spsh__ordered_work_next(spsh__ordered_work *work, size_t *ret_job, void **ret_result,
                                    spsh_error *err);
void spsh__ordered_work_release(spsh__ordered_work *work);
/* Waits for what the threads have in hand. NULL is fine. */
void spsh__ordered_work_stop(spsh__ordered_work *work);

#endif
