/* run_shared.h: memory that all processes of a node share. It is a file in /dev/shm or, if that
 * does not exist, in the run's folder. The file is unlinked once all processes have opened it.
 */
#ifndef SPSH_TRAIN_RUN_SHARED_H
#define SPSH_TRAIN_RUN_SHARED_H

#include "run_world.h"
#include "speechshard/io.h"

typedef struct spsh__shared_memory {
    float *elements; /* zeros at first; NULL: not open */
    size_t size_bytes;
} spsh__shared_memory;

/* All ranks. The memory must be closed even after a failure. SPSH_E_UNSUPPORTED: the ranks are on
 * several nodes, or a rank cannot map it; _NO_MEMORY. */
spsh_status spsh__shared_open(const spsh__run_world *world, const char *folder, const spsh_io *io,
                              size_t size_bytes, spsh__shared_memory *ret, spsh_error *err);
void spsh__shared_close(spsh__shared_memory *m); /* accepts an all-zero struct */

#endif
