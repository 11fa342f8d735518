/* shard_cache.h: the open shards of a dataset, at most open_max, shared by all threads. */
#ifndef SPSH_SHARD_CACHE_H
#define SPSH_SHARD_CACHE_H

#include "base/base_internal.h"
#include "speechshard/shard.h"

typedef struct spsh__shard_cache spsh__shard_cache;

/* Return the seal of a shard before it is opened; file id, size, and root hash must then match it.
 */
typedef spsh_status (*spsh__seal_fn)(const void *user, uint64_t shard, spsh_shard_seal *ret_seal,
                                     spsh_error *err);

typedef struct spsh__shard_cache_options {
    const spsh_allocator *allocator; /* copied */
    const spsh_io *io;               /* borrowed */
    const char *dataset_path;        /* borrowed; the files are in its shards/ */
    uint64_t shard_count;
    uint32_t open_max; /* exceeded only while more shards are in use */
    spsh__seal_fn seal_fn;
    const void *user; /* for seal_fn, which may be called from any thread */
} spsh__shard_cache_options;

/* Open the cache. Opens no shard; the table of shards is allocated when the first one is opened. */
spsh_status spsh__shard_cache_open(const spsh__shard_cache_options *options,
                                   spsh__shard_cache **ret_cache, spsh_error *err);

/* Close the cache. No shard may be in use. NULL is allowed. */
void spsh__shard_cache_close(spsh__shard_cache *cache);

/* Acquire a shard. It stays open until it has been released as often as acquired. Thread-safe. */
spsh_status spsh__shard_cache_acquire(spsh__shard_cache *cache, uint64_t shard,
                                      const spsh_shard **ret_shard, spsh_error *err);
void spsh__shard_cache_release(spsh__shard_cache *cache, uint64_t shard);

#endif
