/* duplicates.c: find records of equal audio over unit borders.
 *
 * Every record goes to a sorter under a key of hash, format and length:
 *
 *     values that must be equal: u8 class, h128 hash, codec or sample format, channels, rate,
 *                                samples, payload bytes
 *     order inside a group:      u32 shard, u32 record, big-endian
 *
 * So equal records are adjacent, and the record of the lowest unit comes first. That record is
 * kept. Each other record is compared with it in full, payloads byte by byte or decoded PCM sample
 * by sample, since a hash proves nothing about files of unknown origin. If different audio shares a
 * hash, the group has a second kept record, up to KEPT_MAX.
 *
 * Records without a PCM hash (not decoded, or not decodable) are compared by their payloads.
 */
#include <inttypes.h>

#include "publish_internal.h"

enum {
    GROUP_KEY_BYTES = 64, /* what must be equal, padded with zeros */
    ENTRY_KEY_BYTES = GROUP_KEY_BYTES + 8,
    KEPT_MAX = 8,
    COMPARE_BYTES = 1 << 18,
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

static void group_key(const spsh_record *record, spsh_dedupe dedupe, uint8_t key[GROUP_KEY_BYTES])
{
    bool by_pcm = dedupe == SPSH_DEDUPE_PCM && (record->flags & SPSH_RECORD_PCM_HASH) != 0;
    memset(key, 0, GROUP_KEY_BYTES);
    key[0] = by_pcm ? CLASS_PCM : CLASS_PAYLOAD;
    memcpy(key + 1, by_pcm ? record->pcm_hash : record->payload_hash, 16);
    spsh__store_u32le(key + 20, by_pcm ? (uint32_t)record->format : (uint32_t)record->codec);
    spsh__store_u32le(key + 24, record->channels);
    spsh__store_u32le(key + 28, record->sample_rate_hz);
    spsh__store_u64le(key + 32, record->samples);
    spsh__store_u64le(key + 40, by_pcm ? 0 : record->payload_bytes);
}

static spsh_status add_shard(spsh__publish *p, uint64_t number, spsh_sorter *sorter,
                             spsh_error *err)
{
    const spsh_shard *shard = NULL;
    uint8_t key[ENTRY_KEY_BYTES];
    spsh_status rc = spsh__shard_cache_acquire(p->cache, number, &shard, err);
    if (rc != SPSH_OK)
        return rc;
    uint64_t count = p->opt.seals[number].record_count;
    for (uint64_t i = 0; rc == SPSH_OK && i < count; i++) {
        spsh_record record;
        spsh_record_place place;
        rc = spsh_shard_record(shard, i, &record, &place, err);
        if (rc != SPSH_OK)
            break;
        p->payload_bytes += record.payload_bytes;
        if (sorter == NULL)
            continue;
        group_key(&record, p->opt.dedupe, key);
        spsh__alias_key((uint32_t)number, (uint32_t)i, key + GROUP_KEY_BYTES);
        rc = spsh_sorter_add(sorter, (spsh_bytes){key, sizeof(key)}, (spsh_bytes){NULL, 0}, err);
    }
    spsh__shard_cache_release(p->cache, number);
    return rc;
}

/* ---- comparing ---- */

/* A record being compared; zeroed: not open. */
typedef struct side {
    uint32_t shard_number;
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

static spsh_status open_side(spsh__publish *p, uint32_t shard_number, uint32_t record, bool decode,
                             side *s, spsh_error *err)
{
    s->shard_number = shard_number;
    spsh_status rc = spsh__shard_cache_acquire(p->cache, shard_number, &s->shard, err);
    if (rc != SPSH_OK) {
        s->shard = NULL;
        return rc;
    }
    rc = spsh_record_reader_open(s->shard, record, &s->reader, err);
    if (rc != SPSH_OK || !decode)
        return rc;
    const spsh_record *info = spsh_record_reader_info(s->reader);
    const spsh_audio_source source = spsh_record_reader_source(s->reader);
    spsh_decoder_options opt = SPSH_DECODER_OPTIONS_INIT;
    opt.allocator = &p->allocator;
    opt.sample_rate_hz = info->sample_rate_hz;
    opt.skip_md5 = true; /* the payload is under checksums already */
    return spsh_decoder_open(&source, info->codec, &opt, &s->decoder, err);
}

static spsh_status compare_payloads(const side *a, const side *b, uint8_t *buffer, bool *ret_equal,
                                    spsh_error *err)
{
    uint64_t payload_bytes = spsh_record_reader_info(a->reader)->payload_bytes;
    *ret_equal = payload_bytes == spsh_record_reader_info(b->reader)->payload_bytes;
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

/* ---- groups ---- */

typedef struct group {
    uint8_t key[GROUP_KEY_BYTES];
    uint32_t shards[KEPT_MAX], records[KEPT_MAX]; /* shards and records of the kept copies */
    uint32_t kept_count;
    uint8_t *buffer; /* two times COMPARE_BYTES */
} group;

static spsh_status compare_with_kept(spsh__publish *p, const group *g, uint32_t kept,
                                     const uint8_t *at, bool *ret_equal, spsh_error *err)
{
    side a = {0};
    side b = {0};
    bool decode = g->key[0] == CLASS_PCM;
    spsh_status rc = open_side(p, g->shards[kept], g->records[kept], decode, &a, err);
    if (rc == SPSH_OK)
        rc = open_side(p, load_u32be(at), load_u32be(at + 4), decode, &b, err);
    if (rc == SPSH_OK && decode)
        rc = spsh_decoder_compare(a.decoder, b.decoder, ret_equal, err);
    else if (rc == SPSH_OK)
        rc = compare_payloads(&a, &b, g->buffer, ret_equal, err);
    close_side(p, &a);
    close_side(p, &b);
    return rc;
}

static spsh_status add_alias(spsh__publish *p, const group *g, uint32_t kept, const uint8_t *at,
                             spsh_error *err)
{
    const spsh_shard *shard = NULL;
    spsh__audio_place place;
    uint8_t value[SPSH__ALIAS_VALUE_BYTES];
    spsh_status rc = spsh__shard_cache_acquire(p->cache, load_u32be(at), &shard, err);
    if (rc != SPSH_OK)
        return rc;
    uint64_t payload_bytes = 0;
    rc = spsh__audio_place_get(shard, load_u32be(at), load_u32be(at + 4), &place, &payload_bytes,
                               err);
    spsh__shard_cache_release(p->cache, load_u32be(at));
    if (rc == SPSH_OK)
        rc = spsh__shard_cache_acquire(p->cache, g->shards[kept], &shard, err);
    if (rc != SPSH_OK)
        return rc;
    p->unused_payload_bytes += payload_bytes;
    rc = spsh__audio_place_get(shard, g->shards[kept], g->records[kept], &place, NULL, err);
    spsh__shard_cache_release(p->cache, g->shards[kept]);
    if (rc != SPSH_OK)
        return rc;
    spsh__alias_value(&place, value);
    return spsh_sorter_add(p->aliases, (spsh_bytes){at, SPSH__ALIAS_KEY_BYTES},
                           (spsh_bytes){value, sizeof(value)}, err);
}

/* key: of the next record in order. */
static spsh_status next_record(spsh__publish *p, group *g, const uint8_t *key, spsh_error *err)
{
    const uint8_t *at = key + GROUP_KEY_BYTES;
    if (g->kept_count == 0 || memcmp(g->key, key, GROUP_KEY_BYTES) != 0) {
        memcpy(g->key, key, GROUP_KEY_BYTES);
        g->kept_count = 0;
    }
    for (uint32_t kept = 0; kept < g->kept_count; kept++) {
        bool equal = false;
        spsh_status rc = compare_with_kept(p, g, kept, at, &equal, err);
        if (rc != SPSH_OK)
            return rc;
        if (equal)
            return add_alias(p, g, kept, at, err);
    }
    if (g->kept_count < KEPT_MAX) {
        g->shards[g->kept_count] = load_u32be(at);
        g->records[g->kept_count] = load_u32be(at + 4);
        g->kept_count++;
    }
    return SPSH_OK;
}

static spsh_status match(spsh__publish *p, spsh_sorter *sorter, spsh_error *err)
{
    spsh_bytes key = {NULL, 0};
    spsh_bytes value = {NULL, 0};
    group g = {.kept_count = 0};
    spsh_status rc = spsh__publish_sorter(p, 2, &p->aliases, err);
    if (rc != SPSH_OK)
        return rc;
    g.buffer = (uint8_t *)spsh__alloc(&p->allocator, (size_t)2 * COMPARE_BYTES);
    if (g.buffer == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: comparing records", p->opt.path);
    for (uint64_t n = 0; rc == SPSH_OK; n++) {
        if (n % SPSH__PUBLISH_STEP == 0)
            rc = spsh__publish_progress(p, "copies", n, spsh_sorter_count(sorter), err);
        if (rc == SPSH_OK)
            rc = spsh_sorter_next(sorter, &key, &value, err);
        if (rc == SPSH_OK)
            rc = next_record(p, &g, key.data, err);
    }
    spsh__free(&p->allocator, g.buffer);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

spsh_status spsh__duplicates_find(spsh__publish *p, spsh_error *err)
{
    spsh_sorter *sorter = NULL;
    spsh_status rc = SPSH_OK;
    if (p->opt.dedupe != SPSH_DEDUPE_NONE)
        rc = spsh__publish_sorter(p, 5, &sorter, err);
    for (uint64_t i = 0; rc == SPSH_OK && i < p->opt.seal_count; i++) {
        rc = spsh__publish_progress(p, "records", i, p->opt.seal_count, err);
        if (rc == SPSH_OK)
            rc = add_shard(p, i, sorter, err);
    }
    if (rc == SPSH_OK && sorter != NULL)
        rc = match(p, sorter, err);
    spsh_sorter_free(sorter);
    return rc;
}
