/* run_shared.h: memory that all processes of a node share: a file without a name once all have it,
 * in /dev/shm or, if there is none, in the run's folder.
 */
#ifndef SPSH_TRAIN_RUN_SHARED_H
#define SPSH_TRAIN_RUN_SHARED_H

#include "run_world.h"
#include "speechshard/io.h"

typedef struct spsh__shared_memory {
    float *elements; /* zeros at first; NULL: there is none */
    size_t size_bytes;
} spsh__shared_memory;

/* All ranks. After a failure, too, the memory must be closed. SPSH_E_UNSUPPORTED: they are on
 * several nodes, or one of them cannot map it; _NO_MEMORY. */
spsh_status spsh__shared_open(const spsh__run_world *world, const char *folder, const spsh_io *io,
                              size_t size_bytes, spsh__shared_memory *ret, spsh_error *err);
void spsh__shared_close(spsh__shared_memory *m); /* zeros are fine */

#endif
