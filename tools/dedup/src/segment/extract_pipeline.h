/* extract_pipeline.h: utterances extracted on threads, handed out in order.
 *
 *     spsh__extract_pipeline_start(dataset, jobs, job_count, threads, &pipeline, err);
 *     while ((rc = spsh__extract_pipeline_next(pipeline, &result, err)) == SPSH_OK) {  // _E_END
 *         append(result->rows);
 *         spsh__extract_pipeline_release(pipeline);
 *     }
 *     spsh__extract_pipeline_stop(pipeline);
 */
#ifndef SPSH_DEDUP_EXTRACT_PIPELINE_H
#define SPSH_DEDUP_EXTRACT_PIPELINE_H

#include "extract.h"
#include "records/call_watch.h"

/* Neighbouring utterances of one shard. */
typedef struct spsh__extract_job {
    uint64_t shard; /* number in the manifest */
    uint64_t first; /* position */
    uint32_t count;
} spsh__extract_job;

typedef struct spsh__extract_result {
    spsh__extract_job job;
    spsh__segment_writer *rows; /* the job's part of the segment */
    double seconds;             /* of audio that was decoded */
} spsh__extract_result;

typedef struct spsh__extract_pipeline spsh__extract_pipeline;

/* dataset and jobs are borrowed until stop. watch (may be NULL) is checked before each utterance.
 */
typedef struct spsh__extract_pipeline_options {
    const spsh_dataset *dataset;
    const spsh__extract_job *jobs;
    size_t job_count;
    uint32_t threads;
    const spsh__call_watch *watch;
} spsh__extract_pipeline_options;

spsh_status spsh__extract_pipeline_start(const spsh__extract_pipeline_options *options,
                                         spsh__extract_pipeline **ret_pipeline, spsh_error *err);
/* Waits for the next job in order; borrowed until release. SPSH_E_END after the last;
 * SPSH_E_CANCELED; what extraction of that job failed with. */
spsh_status spsh__extract_pipeline_next(spsh__extract_pipeline *pipeline,
                                        const spsh__extract_result **ret_result, spsh_error *err);
void spsh__extract_pipeline_release(spsh__extract_pipeline *pipeline);
/* Waits for what the threads have in hand. NULL is fine. */
void spsh__extract_pipeline_stop(spsh__extract_pipeline *pipeline);

#endif
