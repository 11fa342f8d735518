/* prepare_pipeline.h: prepare recordings on worker threads, and hand them out in order, as a kind
 * of common/ordered_work.h.
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
 * Bytes in flight stay below memory_bytes of the pack, except that one job always runs.
 */
#ifndef SPSH_PREPARE_PIPELINE_H
#define SPSH_PREPARE_PIPELINE_H

#include "common/ordered_work.h"
#include "prepare.h"

/** One recording to prepare: a group of adjacent plan items. */
typedef struct spsh__prepare_job {
    uint64_t first_item_bytes; /* offset of its first item in the unit's items */
    uint32_t item_count;
    uint64_t cost_bytes; /* memory that it is expected to take */
} spsh__prepare_job;

/** The jobs of a unit. */
typedef struct spsh__prepare_plan {
    const spsh_pack_options *pack;
    spsh_bytes items; /* of the unit */
    spsh__prepare_job *jobs;
    size_t job_count, first_job;
} spsh__prepare_plan;

typedef struct spsh__job_result {
    size_t job;
    spsh__prepared prepared;
    spsh__builder text; /* of the first item's sidecar, if it has one */
    spsh_reject_reason text_reason;
    const char *text_detail; /* why that sidecar is rejected, or NULL */
} spsh__job_result;

/** plan is borrowed until spsh__ordered_work_stop. Results are spsh__job_result. */
spsh_status spsh__prepare_start(spsh__prepare_plan *plan, spsh__ordered_work **ret_work,
                                spsh_error *err);

/** Free the content of a result before it is released. */
void spsh__job_result_clear(spsh__job_result *result);

/** The items from those of a job on. */
spsh_bytes spsh__job_items(const spsh__prepare_plan *plan, size_t job);

#endif
