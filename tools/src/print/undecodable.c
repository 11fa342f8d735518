/* undecodable.c: see undecodable.h. */
#include "undecodable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speechshard/shard.h"

typedef struct count {
    void (*named_fn)(void *user, spsh_bytes id);
    void *user;
    uint64_t found;
} count;

static void name_record(const count *c, const spsh_shard *shard, uint64_t number)
{
    spsh_record_reader *reader = NULL;
    if (spsh_record_reader_open(shard, number, &reader, NULL) == SPSH_OK)
        c->named_fn(c->user, spsh_record_reader_info(reader)->id);
    spsh_record_reader_close(reader);
}

static void count_shard(count *c, const char *path, const spsh_shard_seal *seal)
{
    spsh_shard_options opt = SPSH_SHARD_OPTIONS_INIT;
    spsh_shard *shard = NULL;
    opt.expected = seal;
    if (spsh_shard_open(path, &opt, &shard, NULL) != SPSH_OK)
        return;
    for (uint64_t n = 0; n < seal->record_count; n++) {
        spsh_record record;
        spsh_record_place place;
        if (spsh_shard_record(shard, n, &record, &place, NULL) != SPSH_OK)
            break;
        if ((record.flags & SPSH_RECORD_UNDECODABLE) == 0)
            continue;
        c->found++;
        if (c->named_fn != NULL)
            name_record(c, shard, n);
    }
    spsh_shard_close(shard);
}

uint64_t spsh__undecodable_count(const spsh_dataset *dataset,
                                 void (*named_fn)(void *user, spsh_bytes id), void *user)
{
    count c = {.named_fn = named_fn, .user = user};
    const char *folder = spsh_dataset_path(dataset);
    const uint64_t shards = spsh_dataset_info_get(dataset)->shard_count;
    const size_t capacity = strlen(folder) + 64;
    char *path = (char *)malloc(capacity);
    for (uint64_t n = 0; path != NULL && n < shards; n++) {
        spsh_shard_seal seal;
        char name[32];
        if (spsh_dataset_shard(dataset, n, &seal, NULL) != SPSH_OK)
            continue;
        spsh_shard_file_name(seal.unit, seal.number, name);
        (void)snprintf(path, capacity, "%s/shards/%s", folder, name);
        count_shard(&c, path, &seal);
    }
    free(path);
    return c.found;
}
