/* prepare_pipeline.h: prepare recordings on worker threads and hand them out in order.
 *
 *     spsh__pipeline_start(&options, jobs, job_count, first, &pipeline, err);
 *     while (spsh__pipeline_next(pipeline, &result, err) == SPSH_OK)   // job first, first + 1, ...
 *         place(result), spsh__pipeline_release(pipeline);
 *     spsh__pipeline_stop(pipeline);
 *
 * Whatever the number of threads, results arrive in job order; bytes in flight stay under the
 * budget, except that one job always runs.
 */
#ifndef SPSH_PREPARE_PIPELINE_H
#define SPSH_PREPARE_PIPELINE_H

#include "prepare.h"

/** One recording to prepare: a group of neighbouring plan items. */
typedef struct spsh__prepare_job {
    uint64_t first_item_bytes; /* offset of its first item in the unit's items */
    uint32_t item_count;
    uint64_t cost_bytes; /* memory that it is expected to take */
} spsh__prepare_job;

typedef struct spsh__pipeline_options {
    const spsh_pack_options *pack;
    spsh_bytes items; /* of the unit; borrowed until stop */
    const spsh__prepare_job *jobs;
    size_t job_count;
    size_t first_job;
} spsh__pipeline_options;

typedef struct spsh__job_result {
    const spsh__prepare_job *job;
    size_t job_index;
    spsh__prepared prepared;
    spsh__builder text; /* of the first item's sidecar, if it has one */
    spsh_reject_reason text_reason;
    const char *text_detail; /* why that sidecar is rejected, or NULL */
} spsh__job_result;

typedef struct spsh__pipeline spsh__pipeline;

spsh_status spsh__pipeline_start(const spsh__pipeline_options *options,
                                 spsh__pipeline **ret_pipeline, spsh_error *err);

/** Wait for the next job in order. The result is borrowed until release. SPSH_E_END after the last.
 */
spsh_status spsh__pipeline_next(spsh__pipeline *pipeline, spsh__job_result **ret_result,
                                spsh_error *err);
void spsh__pipeline_release(spsh__pipeline *pipeline);

/** Also in the middle of the jobs: waits for what the workers have in hand. NULL is fine. */
void spsh__pipeline_stop(spsh__pipeline *pipeline);

#endif
