/* backend_cuda_segment.h: statistics of captured segments (backend_cuda_segment.c), for logs. */
#ifndef SPSH_TRAIN_BACKEND_CUDA_SEGMENT_H
#define SPSH_TRAIN_BACKEND_CUDA_SEGMENT_H

#include "backend/backend.h"

/* Segments since open. */
typedef struct spsh__cuda_segment_counts {
    uint64_t begun, kept, launched;
    uint64_t refused;  /* could not be captured, and will not be tried again */
    uint64_t evicted;  /* shapes that were replaced by another one */
    uint64_t batches;  /* each has a segment 0 */
    uint64_t replayed; /* batches of which each segment was launched */
} spsh__cuda_segment_counts;

/* Return the statistics of a backend `cuda`. */
spsh__cuda_segment_counts spsh__cuda_segments_counted(const spsh__backend *b);

#endif
