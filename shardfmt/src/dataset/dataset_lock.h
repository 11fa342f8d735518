/* dataset_lock.h: the writer lock of a dataset; publish.h has the part for other libraries. */
#ifndef SPSH_DATASET_LOCK_H
#define SPSH_DATASET_LOCK_H

#include "io/io_internal.h"
#include "speechshard/publish.h"

typedef enum spsh__lock_kind {
    SPSH__LOCK_EXCLUSIVE = 0, /* editors: they read a manifest and replace it */
    SPSH__LOCK_SHARED = 1,    /* publishers: several may write the same bytes at a time */
} spsh__lock_kind;

/* spsh_dataset_lock_open with a kind and an allocator. A shared lock removes leftovers too, if
 * there is no other writer. */
spsh_status spsh__dataset_lock_open(const char *dataset_path, spsh__lock_kind kind,
                                    const spsh_io *io, const spsh_allocator *allocator,
                                    spsh_dataset_lock **ret_lock, spsh_error *err);

#endif
