/* extract_pipeline.h: utterances extracted on threads, handed out in order: a kind of ordered work
 * whose user is a spsh__extract_jobs, and whose results are spsh__extract_result.
 */
#ifndef SPSH_DEDUP_EXTRACT_PIPELINE_H
#define SPSH_DEDUP_EXTRACT_PIPELINE_H

#include "common/ordered_work.h"
#include "extract.h"
#include "records/call_watch.h"

/* Neighbouring utterances of one shard. */
typedef struct spsh__extract_job {
    uint64_t first; /* position */
    uint32_t count;
} spsh__extract_job;

typedef struct spsh__extract_result {
    spsh__segment_writer *rows; /* the job's part of the segment */
    double seconds;             /* of audio that was decoded */
} spsh__extract_result;

/* All borrowed. watch (may be NULL) is checked before each utterance. */
typedef struct spsh__extract_jobs {
    const spsh_dataset *dataset;
    const spsh__extract_job *jobs;
    const spsh__call_watch *watch;
} spsh__extract_jobs;

extern const spsh__ordered_work_kind spsh__extraction;

#endif
