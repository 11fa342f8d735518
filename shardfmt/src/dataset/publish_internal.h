/* publish_internal.h: declarations shared by the steps of publishing a dataset.
 *
 * publish.c runs the steps: it checks the seals, collects names and sums, and writes the manifest.
 * duplicates.c finds records that are stored more than once. index_writer.c writes the dataset
 * index.
 */
#ifndef SPSH_PUBLISH_INTERNAL_H
#define SPSH_PUBLISH_INTERNAL_H

#include "base/buffer.h"
#include "base/string_table.h"
#include "manifest.h"
#include "shard_cache.h"
#include "speechshard/sorter.h"

typedef struct spsh__publish {
    spsh_publish_options opt;
    spsh_allocator allocator;
    const spsh_io *io;
    spsh__shard_cache *cache;

    /* For each shard: number of its first utterance and record in the dataset (plus one entry for
     * the totals), and number of the first shard of its unit. */
    uint64_t *utterance_begin, *record_begin;
    uint32_t *unit_begin;

    spsh__names *names[SPSH_NAME_KINDS]; /* name tables of the dataset */
    spsh_sorter *aliases;                /* see spsh__duplicates_find; NULL: none */
    spsh__names *groups;                 /* keys of 12 bytes: domain, split, rate, big-endian */
    spsh__buffer group_sums;             /* one spsh__group_sum per group */

    uint64_t duplicate_count;
    uint64_t payload_bytes, unused_payload_bytes;
    spsh__footer index_footer;
} spsh__publish;

typedef struct spsh__group_sum {
    uint64_t utterances;
    uint64_t samples;
} spsh__group_sum;

/* Number of shards that are kept open. */
enum { SPSH__PUBLISH_SHARDS_OPEN = 256 };

/* Number of sorter entries or rows between two progress reports. */
#define SPSH__PUBLISH_STEP UINT64_C(65536)

/* Report progress; SPSH_E_CANCELED if the caller cancels. */
spsh_status spsh__publish_progress(const spsh__publish *p, const char *phase, uint64_t done,
                                   uint64_t total, spsh_error *err);

/* Open a sorter that may use `eighths` eighths of the memory that the caller allows. */
spsh_status spsh__publish_sorter(const spsh__publish *p, uint32_t eighths, spsh_sorter **ret_sorter,
                                 spsh_error *err);

/* Location of the audio of a record. */
typedef struct spsh__audio_place {
    uint32_t shard;
    uint32_t record;
    uint64_t record_offset;
    uint32_t record_bytes;
    uint64_t samples;
    uint32_t sample_rate_hz;
    uint16_t channels;
    uint16_t codec;
} spsh__audio_place;

spsh_status spsh__audio_place_get(const spsh_shard *shard, uint64_t shard_number, uint64_t record,
                                  spsh__audio_place *ret_place, uint64_t *ret_payload_bytes,
                                  spsh_error *err);

enum { SPSH__ALIAS_KEY_BYTES = 8, SPSH__ALIAS_VALUE_BYTES = 36 };
void spsh__alias_key(uint32_t shard, uint32_t record, uint8_t dst[SPSH__ALIAS_KEY_BYTES]);
void spsh__alias_value(const spsh__audio_place *place, uint8_t dst[SPSH__ALIAS_VALUE_BYTES]);
void spsh__alias_load(const uint8_t value[SPSH__ALIAS_VALUE_BYTES], spsh__audio_place *ret_place);

/* Sum the payloads of all records and, if the options request it, find those that equal an earlier
 * one. p->aliases then has one entry for each: spsh__alias_key of the later record,
 * spsh__alias_value of the first one. */
spsh_status spsh__duplicates_find(spsh__publish *p, spsh_error *err);

/* Write and publish the index of generation 1. Sets groups, group_sums, duplicate_count, and
 * index_footer. */
spsh_status spsh__index_publish(spsh__publish *p, spsh_error *err);

#endif
