/* prepare_pipeline.h: prepare recordings on worker threads and return them in order, with
 * common/ordered_work.h.
 *
 *     spsh__prepare_start(&plan, &work, err);
 *     while (spsh__ordered_work_next(work, &job, &memory, err) == SPSH_OK) {
 *         spsh__job_result *result = memory;
 *         place(result);
 *         spsh__job_result_clear(result);
 *         spsh__ordered_work_release(work);
 *     }
 *     spsh__ordered_work_stop(work);
 *
 * Jobs in flight take at most memory_bytes of the pack, except that one job always runs.
 */
#ifndef SPSH_PREPARE_PIPELINE_H
#define SPSH_PREPARE_PIPELINE_H

#include "common/ordered_work.h"
#include "prepare.h"

/** One recording to prepare: a group of adjacent plan items. */
typedef struct spsh__prepare_job {
    uint64_t first_item_bytes; /* offset of its first item in the unit's items */
    uint32_t item_count;
    uint64_t cost_bytes; /* estimate of the memory that the job takes */
} spsh__prepare_job;

/** The jobs of a unit. */
typedef struct spsh__prepare_plan {
    const spsh_pack_options *pack;
    spsh_bytes items; /* the unit's items */
    spsh__prepare_job *jobs;
    size_t job_count, first_job;
} spsh__prepare_plan;

/** The sidecar transcript of an item, if it has one. */
typedef struct spsh__job_text {
    spsh__builder text;
    spsh_reject_reason reason;
    const char *detail; /* message why the sidecar is rejected, or NULL */
} spsh__job_text;

typedef struct spsh__job_result {
    size_t job;
    spsh__prepared prepared;
    spsh__job_text *texts; /* one for each item of the job; NULL: no item has a sidecar */
    uint32_t text_count;
} spsh__job_result;

/** Start the threads. plan is borrowed until spsh__ordered_work_stop. Results: spsh__job_result. */
spsh_status spsh__prepare_start(spsh__prepare_plan *plan, spsh__ordered_work **ret_work,
                                spsh_error *err);

/** Free the content of a result. Call before the release. */
void spsh__job_result_clear(spsh__job_result *result);

/** Return the unit's items from the first item of a job to the end. */
spsh_bytes spsh__job_items(const spsh__prepare_plan *plan, size_t job);

#endif
