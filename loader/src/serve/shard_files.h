/* shard_files.h: an LRU cache of the shards that the read engine has open. */
#ifndef SPSH_SHARD_FILES_H
#define SPSH_SHARD_FILES_H

#include "speechshard/dataset.h"
#include "speechshard/inside.h"
#include "speechshard/read_engine.h"

typedef struct spsh__shard_file {
    bool is_open;
    uint32_t dataset, shard;
    uint32_t file;    /* file number in the engine */
    uint32_t pending; /* reads that have not been delivered */
    uint64_t used_at;
    uint8_t file_id[16]; /* from the manifest */
} spsh__shard_file;

typedef struct spsh__shard_files {
    const spsh_allocator *allocator;
    spsh_read_engine *engine;
    const spsh_dataset *const *datasets;
    spsh__shard_file *entries;
    uint32_t count; /* larger than the maximum of reads in flight */
    uint64_t clock;
} spsh__shard_files;

/* Find an open shard, or open it. *ret_file: borrowed until the next call, or while its pending is
 * above 0. */
spsh_status spsh__shard_files_get(spsh__shard_files *files, uint32_t dataset, uint32_t shard,
                                  spsh__shard_file **ret_file, spsh_error *err);

#endif
