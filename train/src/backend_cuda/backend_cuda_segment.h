/* backend_cuda_segment.h: what became of a step's segments (backend_cuda_segment.c), for those who
 * tell people. */
#ifndef SPSH_TRAIN_BACKEND_CUDA_SEGMENT_H
#define SPSH_TRAIN_BACKEND_CUDA_SEGMENT_H

#include "backend/backend.h"

/* Segments since open. */
typedef struct spsh__cuda_segment_counts {
    uint64_t begun, kept, launched;
    uint64_t refused; /* could not be kept, and will not be tried again */
} spsh__cuda_segment_counts;

/* Of a backend `cuda`. */
spsh__cuda_segment_counts spsh__cuda_segments_counted(const spsh__backend *b);

#endif
