/* backend_cuda_count.h: how much memory operators of the backend `cuda` take while they work. They
 * are called as ever, and nothing is put onto a stream: only what they ask for is noted. Whatever
 * sizes follow from is asked as ever: libraries, and how a recurrent layer is done.
 */
#ifndef SPSH_TRAIN_BACKEND_CUDA_COUNT_H
#define SPSH_TRAIN_BACKEND_CUDA_COUNT_H

#include "backend/backend.h"

/* From now on. Buffers need no memory; nothing comes to the host but zeros. */
void spsh__cuda_count_begin(spsh__backend *b);
/* No longer. bytes: of scratch, with the quarter that it may grow by, of lengths, and of the
 * largest layer that was tried. Failures are those of the operators since begin. */
spsh_status spsh__cuda_count_end(spsh__backend *b, uint64_t *ret_bytes, spsh_error *err);

/* What the libraries were given when the backend was opened. */
uint64_t spsh__cuda_open_bytes(const spsh__backend *b);

#endif
