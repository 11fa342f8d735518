/* dataset_internal.h: an open dataset, as its readers see it. */
#ifndef SPSH_DATASET_INTERNAL_H
#define SPSH_DATASET_INTERNAL_H

#include "manifest.h"
#include "overlay.h"
#include "shard_cache.h"
#include "speechshard/dataset.h"

struct spsh_dataset {
    spsh_allocator allocator;
    const spsh_io *io;
    char *path;
    spsh__manifest manifest;
    spsh__container *index;
    spsh__overlay *overlays; /* info.overlay_count elements */
    spsh__shard_cache *cache;
};

/* Check a dataset index as opening does. verify uses this function too. */
spsh_status spsh__dataset_check_index(const spsh__manifest *manifest, const spsh__container *index,
                                      spsh_error *err);

/* Read a row of the index. Fails as spsh_dataset_rows. */
spsh_status spsh__dataset_row(const spsh_dataset *dataset, uint64_t position, spsh_row *ret_row,
                              spsh_error *err);

/* Read an entry of by_id: its position and hash. */
spsh_status spsh__dataset_by_id(const spsh_dataset *dataset, uint64_t at, uint64_t *ret_position,
                                uint64_t *ret_hash, spsh_error *err);

/* Find the first entry of by_id whose hash is at least the wanted one; the count of utterances if
 * there is no such entry. */
spsh_status spsh__dataset_find_hash(const spsh_dataset *dataset, uint64_t wanted, uint64_t *ret_at,
                                    spsh_error *err);

#endif
