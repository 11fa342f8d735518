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
    spsh__overlay *overlays; /* info.overlay_count of them */
    spsh__shard_cache *cache;
};

/* Check a dataset index as opening does. verify uses this function, too. */
spsh_status spsh__dataset_check_index(const spsh__manifest *manifest, const spsh__container *index,
                                      spsh_error *err);

/* A row of the index; fails as spsh_dataset_rows. */
spsh_status spsh__dataset_row(const spsh_dataset *dataset, uint64_t position, spsh_row *ret_row,
                              spsh_error *err);

/* Entry of by_id, and the hash there. */
spsh_status spsh__dataset_by_id(const spsh_dataset *dataset, uint64_t at, uint64_t *ret_position,
                                uint64_t *ret_hash, spsh_error *err);

/* The first entry of by_id whose hash is the wanted one or greater; the count of utterances when
 * there is none. */
spsh_status spsh__dataset_find_hash(const spsh_dataset *dataset, uint64_t wanted, uint64_t *ret_at,
                                    spsh_error *err);

#endif
