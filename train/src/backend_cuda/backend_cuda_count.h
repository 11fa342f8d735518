/* backend_cuda_count.h: measure the memory that operators of the backend `cuda` take. Operators are
 * called as usual, but enqueue no work: only their requests are counted. Queries that determine
 * sizes are made as usual: of libraries, and for the choice of a recurrent algorithm.
 */
#ifndef SPSH_TRAIN_BACKEND_CUDA_COUNT_H
#define SPSH_TRAIN_BACKEND_CUDA_COUNT_H

#include "backend/backend.h"

/* Begin counting. Buffers need no memory, and reads on the host return zeros. */
void spsh__cuda_count_begin(spsh__backend *b);
/* End counting. *ret_bytes: scratch, with the quarter by which it may grow, lengths, and the memory
 * for the largest layer that was tried. Returns a failure of the operators since begin. */
spsh_status spsh__cuda_count_end(spsh__backend *b, uint64_t *ret_bytes, spsh_error *err);

/* Bytes that the libraries took when the backend was opened. */
uint64_t spsh__cuda_open_bytes(const spsh__backend *b);

#endif
