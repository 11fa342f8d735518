/* duplicates.c: find records of equal audio over unit borders.
 *
 *     records -> sorted by what must be equal    equal records are adjacent: a group
 *     groups -> pairs of a group's first record and each later one, sorted by shards
 *     pairs -> compared in full                  equal: an alias; different: the next round
 *
 * A hash proves nothing about files of unknown origin, so payloads are compared byte by byte, and
 * decoded PCM sample by sample if payloads differ. Records that differ from the first one of their
 * group form the same group in the next round. Its first record is kept, too. After ROUNDS_MAX
 * rounds, all records that are left are kept.
 *
 * To open a shard costs more than to compare two short records. Pairs are therefore sorted by
 * blocks of shards: while the pairs of two blocks are compared, all shards of both stay open.
 *
 * Records without a PCM hash (not decoded, or not decodable) are compared by their payloads.
 */
#include <inttypes.h>

#include "publish_internal.h"

enum {
    GROUP_KEY_BYTES = 64,                   /* what must be equal, padded with zeros */
    RECORD_KEY_BYTES = GROUP_KEY_BYTES + 8, /* and shard and record, big-endian */
    PAIR_KEY_BYTES = 24,                    /* blocks, shards, and records of both, big-endian */
    BLOCK_SHARDS = SPSH__PUBLISH_SHARDS_OPEN / 2,
    ROUNDS_MAX = 8,
    COMPARE_BYTES = 1 << 18,
    COMPARE_STEP = 256, /* pairs between two progress reports */
    CLASS_PCM = 1,
    CLASS_PAYLOAD = 2,
};

static void store_u32be(uint8_t *bytes, uint32_t value)
{
    spsh__store_u32le(bytes, __builtin_bswap32(value));
}

static uint32_t load_u32be(const uint8_t *bytes)
{
    return __builtin_bswap32(spsh__load_u32le(bytes));
}

void spsh__alias_key(uint32_t shard, uint32_t record, uint8_t dst[SPSH__ALIAS_KEY_BYTES])
{
    store_u32be(dst, shard);
    store_u32be(dst + 4, record);
}

void spsh__alias_value(const spsh__audio_place *place, uint8_t dst[SPSH__ALIAS_VALUE_BYTES])
{
    spsh__store_u32le(dst, place->shard);
    spsh__store_u32le(dst + 4, place->record);
    spsh__store_u64le(dst + 8, place->record_offset);
    spsh__store_u32le(dst + 16, place->record_bytes);
    spsh__store_u64le(dst + 20, place->samples);
    spsh__store_u32le(dst + 28, place->sample_rate_hz);
    spsh__store_u16le(dst + 32, place->channels);
    spsh__store_u16le(dst + 34, place->codec);
}

void spsh__alias_load(const uint8_t value[SPSH__ALIAS_VALUE_BYTES], spsh__audio_place *ret_place)
{
    ret_place->shard = spsh__load_u32le(value);
    ret_place->record = spsh__load_u32le(value + 4);
    ret_place->record_offset = spsh__load_u64le(value + 8);
    ret_place->record_bytes = spsh__load_u32le(value + 16);
    ret_place->samples = spsh__load_u64le(value + 20);
    ret_place->sample_rate_hz = spsh__load_u32le(value + 28);
    ret_place->channels = spsh__load_u16le(value + 32);
    ret_place->codec = spsh__load_u16le(value + 34);
}

spsh_status spsh__audio_place_get(const spsh_shard *shard, uint64_t shard_number, uint64_t record,
                                  spsh__audio_place *ret_place, uint64_t *ret_payload_bytes,
                                  spsh_error *err)
{
    spsh_record info;
    spsh_record_place place;
    spsh_status rc = spsh_shard_record(shard, record, &info, &place, err);
    if (rc != SPSH_OK)
        return rc;
    *ret_place = (spsh__audio_place){.shard = (uint32_t)shard_number,
                                     .record = (uint32_t)record,
                                     .record_offset = place.offset_bytes,
                                     .record_bytes = (uint32_t)place.record_bytes,
                                     .samples = info.samples,
                                     .sample_rate_hz = info.sample_rate_hz,
                                     .channels = (uint16_t)info.channels,
                                     .codec = (uint16_t)info.codec};
    if (ret_payload_bytes != NULL)
        *ret_payload_bytes = info.payload_bytes;
    return SPSH_OK;
}

/* ---- collecting ---- */

static bool is_compared_by_pcm(const spsh__publish *p, const spsh_record *record)
{
    return p->opt.dedupe == SPSH_DEDUPE_PCM && (record->flags & SPSH_RECORD_PCM_HASH) != 0;
}

static spsh_status add_record(const spsh__publish *p, spsh_sorter *sorter, uint32_t shard,
                              uint32_t number, const spsh_record *record, spsh_error *err)
{
    uint8_t key[RECORD_KEY_BYTES] = {0};
    bool by_pcm = is_compared_by_pcm(p, record);
    key[0] = by_pcm ? CLASS_PCM : CLASS_PAYLOAD;
    memcpy(key + 1, by_pcm ? record->pcm_hash : record->payload_hash, 16);
    spsh__store_u32le(key + 20, by_pcm ? (uint32_t)record->format : (uint32_t)record->codec);
    spsh__store_u32le(key + 24, record->channels);
    spsh__store_u32le(key + 28, record->sample_rate_hz);
    spsh__store_u64le(key + 32, record->samples);
    spsh__store_u64le(key + 40, by_pcm ? 0 : record->payload_bytes);
    spsh__alias_key(shard, number, key + GROUP_KEY_BYTES);
    return spsh_sorter_add(sorter, (spsh_bytes){key, sizeof(key)}, (spsh_bytes){NULL, 0}, err);
}

static spsh_status add_shard(spsh__publish *p, uint64_t number, spsh_sorter *sorter,
                             spsh_error *err)
{
    const spsh_shard *shard = NULL;
    spsh_status rc = spsh__shard_cache_acquire(p->cache, number, &shard, err);
    if (rc != SPSH_OK)
        return rc;
    uint64_t count = p->opt.seals[number].record_count;
    for (uint64_t i = 0; rc == SPSH_OK && i < count; i++) {
        spsh_record record;
        spsh_record_place place;
        rc = spsh_shard_record(shard, i, &record, &place, err);
        if (rc == SPSH_OK)
            p->payload_bytes += record.payload_bytes;
        if (rc == SPSH_OK && sorter != NULL)
            rc = add_record(p, sorter, (uint32_t)number, (uint32_t)i, &record, err);
    }
    spsh__shard_cache_release(p->cache, number);
    return rc;
}

/* ---- pairs ---- */

static spsh_status add_pair(spsh_sorter *pairs, const uint8_t first[8], const uint8_t later[8],
                            spsh_error *err)
{
    uint8_t key[PAIR_KEY_BYTES];
    store_u32be(key, load_u32be(first) / BLOCK_SHARDS);
    store_u32be(key + 4, load_u32be(later) / BLOCK_SHARDS);
    memcpy(key + 8, first, 4);
    memcpy(key + 12, later, 4);
    memcpy(key + 16, first + 4, 4);
    memcpy(key + 20, later + 4, 4);
    return spsh_sorter_add(pairs, (spsh_bytes){key, sizeof(key)}, (spsh_bytes){NULL, 0}, err);
}

/* Pair the first record of each group with the later ones. */
static spsh_status pair_groups(const spsh__publish *p, spsh_sorter *records, spsh_sorter *pairs,
                               spsh_error *err)
{
    uint8_t first[RECORD_KEY_BYTES] = {0}; /* no record: its class is 0 */
    spsh_bytes key = {NULL, 0};
    spsh_bytes value = {NULL, 0};
    spsh_status rc = SPSH_OK;
    for (uint64_t n = 0; rc == SPSH_OK; n++) {
        if (n % SPSH__PUBLISH_STEP == 0)
            rc = spsh__publish_progress(p, "groups", n, spsh_sorter_count(records), err);
        if (rc == SPSH_OK)
            rc = spsh_sorter_next(records, &key, &value, err);
        if (rc == SPSH_OK && memcmp(first, key.data, GROUP_KEY_BYTES) == 0)
            rc = add_pair(pairs, first + GROUP_KEY_BYTES, key.data + GROUP_KEY_BYTES, err);
        else if (rc == SPSH_OK)
            memcpy(first, key.data, sizeof(first));
    }
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

/* ---- comparing ---- */

/* A record being compared; zeroed: not open. */
typedef struct side {
    uint32_t shard_number, record;
    const spsh_shard *shard;
    spsh_record_reader *reader;
    spsh_decoder *decoder;
} side;

static void close_side(spsh__publish *p, side *s)
{
    spsh_decoder_free(s->decoder);
    spsh_record_reader_close(s->reader);
    if (s->shard != NULL)
        spsh__shard_cache_release(p->cache, s->shard_number);
}

static spsh_status open_side(spsh__publish *p, const uint8_t shard[4], const uint8_t record[4],
                             side *s, spsh_error *err)
{
    s->shard_number = load_u32be(shard);
    s->record = load_u32be(record);
    spsh_status rc = spsh__shard_cache_acquire(p->cache, s->shard_number, &s->shard, err);
    if (rc == SPSH_OK)
        return spsh_record_reader_open(s->shard, s->record, &s->reader, err);
    s->shard = NULL;
    return rc;
}

static spsh_status open_decoder(spsh__publish *p, side *s, spsh_error *err)
{
    const spsh_record *info = spsh_record_reader_info(s->reader);
    const spsh_audio_source source = spsh_record_reader_source(s->reader);
    spsh_decoder_options opt = SPSH_DECODER_OPTIONS_INIT;
    opt.allocator = &p->allocator;
    opt.sample_rate_hz = info->sample_rate_hz;
    opt.skip_md5 = true; /* the payload is under checksums already */
    return spsh_decoder_open(&source, info->codec, &opt, &s->decoder, err);
}

/* buffer: of two times COMPARE_BYTES. */
static spsh_status compare_payloads(const side *a, const side *b, uint8_t *buffer, bool *ret_equal,
                                    spsh_error *err)
{
    const spsh_record *x = spsh_record_reader_info(a->reader);
    const spsh_record *y = spsh_record_reader_info(b->reader);
    uint64_t payload_bytes = x->payload_bytes;
    *ret_equal = x->codec == y->codec && payload_bytes == y->payload_bytes;
    for (uint64_t at = 0; *ret_equal && at < payload_bytes; at += COMPARE_BYTES) {
        uint64_t left = payload_bytes - at;
        size_t size_bytes = left < COMPARE_BYTES ? (size_t)left : COMPARE_BYTES;
        spsh_status rc = spsh_record_reader_read(a->reader, at, buffer, size_bytes, err);
        if (rc == SPSH_OK)
            rc = spsh_record_reader_read(b->reader, at, buffer + COMPARE_BYTES, size_bytes, err);
        if (rc != SPSH_OK)
            return rc;
        *ret_equal = memcmp(buffer, buffer + COMPARE_BYTES, size_bytes) == 0;
    }
    return SPSH_OK;
}

/* Equal payloads decode to equal PCM: codec, rate, format, and channels are equal, too. */
static spsh_status compare_sides(spsh__publish *p, side *a, side *b, uint8_t *buffer,
                                 bool *ret_equal, spsh_error *err)
{
    spsh_status rc = compare_payloads(a, b, buffer, ret_equal, err);
    if (rc != SPSH_OK || *ret_equal || !is_compared_by_pcm(p, spsh_record_reader_info(a->reader)))
        return rc;
    rc = open_decoder(p, a, err);
    if (rc == SPSH_OK)
        rc = open_decoder(p, b, err);
    return rc != SPSH_OK ? rc : spsh_decoder_compare(a->decoder, b->decoder, ret_equal, err);
}

static spsh_status add_alias(spsh__publish *p, const side *kept, const side *copy, spsh_error *err)
{
    spsh__audio_place place;
    uint8_t key[SPSH__ALIAS_KEY_BYTES];
    uint8_t value[SPSH__ALIAS_VALUE_BYTES];
    spsh_status rc =
        spsh__audio_place_get(kept->shard, kept->shard_number, kept->record, &place, NULL, err);
    if (rc != SPSH_OK)
        return rc;
    p->unused_payload_bytes += spsh_record_reader_info(copy->reader)->payload_bytes;
    spsh__alias_key(copy->shard_number, copy->record, key);
    spsh__alias_value(&place, value);
    return spsh_sorter_add(p->aliases, (spsh_bytes){key, sizeof(key)},
                           (spsh_bytes){value, sizeof(value)}, err);
}

/* different: gets the later record if it is not equal to the first. */
static spsh_status compare_pair(spsh__publish *p, const uint8_t key[PAIR_KEY_BYTES],
                                uint8_t *buffer, spsh_sorter *different, spsh_error *err)
{
    side a = {0};
    side b = {0};
    bool equal = false;
    spsh_status rc = open_side(p, key + 8, key + 16, &a, err);
    if (rc == SPSH_OK)
        rc = open_side(p, key + 12, key + 20, &b, err);
    if (rc == SPSH_OK)
        rc = compare_sides(p, &a, &b, buffer, &equal, err);
    if (rc == SPSH_OK && equal)
        rc = add_alias(p, &a, &b, err);
    else if (rc == SPSH_OK)
        rc = add_record(p, different, b.shard_number, b.record, spsh_record_reader_info(b.reader),
                        err);
    close_side(p, &a);
    close_side(p, &b);
    return rc;
}

static spsh_status compare_pairs(spsh__publish *p, spsh_sorter *pairs, spsh_sorter *different,
                                 spsh_error *err)
{
    spsh_bytes key = {NULL, 0};
    spsh_bytes value = {NULL, 0};
    spsh_status rc = SPSH_OK;
    uint8_t *buffer = (uint8_t *)spsh__alloc(&p->allocator, (size_t)2 * COMPARE_BYTES);
    if (buffer == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: comparing records", p->opt.path);
    for (uint64_t n = 0; rc == SPSH_OK; n++) {
        if (n % COMPARE_STEP == 0)
            rc = spsh__publish_progress(p, "copies", n, spsh_sorter_count(pairs), err);
        if (rc == SPSH_OK)
            rc = spsh_sorter_next(pairs, &key, &value, err);
        if (rc == SPSH_OK)
            rc = compare_pair(p, key.data, buffer, different, err);
    }
    spsh__free(&p->allocator, buffer);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

/* Find the copies of the first record of each group. Replaces *records by those that differ from
 * the first record of their group. */
static spsh_status find_copies(spsh__publish *p, spsh_sorter **records, spsh_error *err)
{
    spsh_sorter *pairs = NULL;
    spsh_sorter *different = NULL;
    spsh_status rc = spsh__publish_sorter(p, 1, &pairs, err);
    if (rc == SPSH_OK)
        rc = spsh__publish_sorter(p, 1, &different, err);
    if (rc == SPSH_OK)
        rc = pair_groups(p, *records, pairs, err);
    spsh_sorter_free(*records);
    *records = different;
    if (rc == SPSH_OK)
        rc = compare_pairs(p, pairs, different, err);
    spsh_sorter_free(pairs);
    return rc;
}

spsh_status spsh__duplicates_find(spsh__publish *p, spsh_error *err)
{
    spsh_sorter *records = NULL; /* NULL: do not search */
    spsh_status rc = SPSH_OK;
    if (p->opt.dedupe != SPSH_DEDUPE_NONE)
        rc = spsh__publish_sorter(p, 4, &records, err);
    if (rc == SPSH_OK && records != NULL)
        rc = spsh__publish_sorter(p, 2, &p->aliases, err);
    for (uint64_t i = 0; rc == SPSH_OK && i < p->opt.seal_count; i++) {
        rc = spsh__publish_progress(p, "records", i, p->opt.seal_count, err);
        if (rc == SPSH_OK)
            rc = add_shard(p, i, records, err);
    }
    for (uint32_t round = 0; rc == SPSH_OK && records != NULL && round < ROUNDS_MAX; round++) {
        if (spsh_sorter_count(records) > 1)
            rc = find_copies(p, &records, err);
    }
    spsh_sorter_free(records);
    return rc;
}
