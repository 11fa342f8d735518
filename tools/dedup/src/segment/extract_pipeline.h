/* extract_pipeline.h: extract utterances on threads and return the results in order. An
 * ordered-work implementation: its user pointer is a spsh__extract_jobs, and its results are
 * spsh__extract_result.
 */
#ifndef SPSH_DEDUP_EXTRACT_PIPELINE_H
#define SPSH_DEDUP_EXTRACT_PIPELINE_H

#include "common/ordered_work.h"
#include "extract.h"
#include "records/call_watch.h"

/* Adjacent utterances of one shard. */
typedef struct spsh__extract_job {
    uint64_t first; /* position in the dataset */
    uint32_t count;
} spsh__extract_job;

typedef struct spsh__extract_result {
    spsh__segment_writer *rows; /* part of the segment that the job computed */
    double seconds;             /* duration of the decoded audio */
} spsh__extract_result;

/* All pointers are borrowed. watch is checked before each utterance, and may be NULL. */
typedef struct spsh__extract_jobs {
    const spsh_dataset *dataset;
    const spsh__extract_job *jobs;
    const spsh__call_watch *watch;
} spsh__extract_jobs;

extern const spsh__ordered_work_kind spsh__extraction;

#endif
