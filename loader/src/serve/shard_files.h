/* shard_files.h: which shards the read engine has open; the one unused longest makes room. */
#ifndef SPSH_SHARD_FILES_H
#define SPSH_SHARD_FILES_H

#include "speechshard/dataset.h"
#include "speechshard/inside.h"
#include "speechshard/read_engine.h"

typedef struct spsh__shard_file {
    bool is_open;
    uint32_t dataset, shard;
    uint32_t file;    /* the engine's */
    uint32_t pending; /* reads not delivered */
    uint64_t used_at;
    uint8_t file_id[16]; /* as the manifest states it */
} spsh__shard_file;

typedef struct spsh__shard_files {
    const spsh_allocator *allocator;
    spsh_read_engine *engine;
    const spsh_dataset *const *datasets;
    spsh__shard_file *entries;
    uint32_t count; /* more than there can be reads in flight */
    uint64_t clock;
} spsh__shard_files;

/* Open a shard, or find it open. Borrowed until the next call, unless pending is raised. */
spsh_status spsh__shard_files_get(spsh__shard_files *files, uint32_t dataset, uint32_t shard,
                                  spsh__shard_file **ret_file, spsh_error *err);

#endif
