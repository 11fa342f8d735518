/* no_dataset.h: the message about a path that is not a dataset. */
#ifndef SPSH_NO_DATASET_H
#define SPSH_NO_DATASET_H

#include <stdbool.h>

#include "speechshard/io.h"

/* True if the folder has something of that name. A lack of memory counts as no. */
bool spsh__dataset_has(const spsh_io *io, const spsh_allocator *allocator, const char *dataset_path,
                       const char *name);

/* Describe what the path is instead of a dataset. rc, err: the failure to open its manifest, which
 * is kept if there is nothing to add. Returns SPSH_E_NOT_SPEECHSHARD for a file of another program,
 * SPSH_E_NOT_FOUND for a file of a dataset, else rc. */
spsh_status spsh__no_dataset(const spsh_io *io, const spsh_allocator *allocator,
                             const char *dataset_path, spsh_status rc, spsh_error *err);

#endif
