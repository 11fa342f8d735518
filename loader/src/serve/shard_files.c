/* shard_files.c: a table with linear search: it is short, and searched once per read, not once per
 * utterance. */
#include "shard_files.h"

#include <errno.h>
#include <stdio.h>

static void close_entry(spsh__shard_files *files, spsh__shard_file *entry)
{
    if (entry->is_open)
        spsh_read_engine_remove_file(files->engine, entry->file);
    entry->is_open = false;
}

/* The least recently used open file. NULL: reads of every open file are pending. */
static spsh__shard_file *find_oldest(spsh__shard_files *files)
{
    spsh__shard_file *oldest = NULL;
    for (uint32_t n = 0; n < files->count; n++) {
        spsh__shard_file *entry = &files->entries[n];
        if (entry->is_open && entry->pending == 0 &&
            (oldest == NULL || entry->used_at < oldest->used_at))
            oldest = entry;
    }
    return oldest;
}

/* A free entry, else one that can be closed, else NULL. */
static spsh__shard_file *take_entry(spsh__shard_files *files)
{
    for (uint32_t n = 0; n < files->count; n++)
        if (!files->entries[n].is_open)
            return &files->entries[n];
    return find_oldest(files);
}

/* Close the least recently used file. false: no file can be closed. */
static bool close_oldest(spsh__shard_files *files)
{
    spsh__shard_file *oldest = find_oldest(files);
    if (oldest != NULL)
        close_entry(files, oldest);
    return oldest != NULL;
}

static spsh_status open_entry(spsh__shard_files *files, spsh__shard_file *entry, spsh_error *err)
{
    const spsh_dataset *dataset = files->datasets[entry->dataset];
    const char *root = spsh_dataset_path(dataset);
    spsh_shard_seal seal;
    char name[32];
    spsh_error why = SPSH_ERROR_INIT;
    spsh_status rc = spsh_dataset_shard(dataset, entry->shard, &seal, err);
    if (rc != SPSH_OK)
        return rc;
    const size_t capacity = strlen(root) + sizeof(name) + sizeof("/shards/");
    char *path = (char *)spsh__new(files->allocator, 1, capacity);
    if (path == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "loader: path");
    spsh_shard_file_name(seal.unit, seal.number, name);
    (void)snprintf(path, capacity, "%s/shards/%s", root, name);
    do /* retry if the process is out of file descriptors */
        rc = spsh_read_engine_add_file(files->engine, path, &entry->file, &why);
    while (rc != SPSH_OK && (why.os_errno == EMFILE || why.os_errno == ENFILE) &&
           close_oldest(files));
    spsh__free(files->allocator, path);
    if (rc != SPSH_OK) {
        if (err != NULL)
            *err = why;
        return rc;
    }
    memcpy(entry->file_id, seal.file_id, sizeof(entry->file_id));
    entry->is_open = true;
    entry->pending = 0;
    return SPSH_OK;
}

spsh_status spsh__shard_files_get(spsh__shard_files *files, uint32_t dataset, uint32_t shard,
                                  spsh__shard_file **ret_file, spsh_error *err)
{
    spsh__shard_file *entry = NULL;
    spsh_status rc = SPSH_OK;
    for (uint32_t n = 0; n < files->count && entry == NULL; n++) {
        spsh__shard_file *candidate = &files->entries[n];
        if (candidate->is_open && candidate->dataset == dataset && candidate->shard == shard)
            entry = candidate;
    }
    if (entry == NULL) {
        entry = take_entry(files);
        if (entry == NULL)
            return SPSH_FAIL(err, SPSH_E_LIMIT, "loader: all %u slots for open shards are in use",
                             files->count);
        close_entry(files, entry);
        entry->dataset = dataset;
        entry->shard = shard;
        rc = open_entry(files, entry, err);
    }
    if (rc != SPSH_OK)
        return rc;
    entry->used_at = ++files->clock;
    *ret_file = entry;
    return SPSH_OK;
}
