/* tiny_shard.c: uses only the public interface, except for the hasher. */
#include "tiny_shard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "spsh_test.h"

enum { PAYLOAD_MAX = 5000000 };

static spsh_bytes text(const char *string)
{
    return (spsh_bytes){(const uint8_t *)string, strlen(string)};
}

static void fill(uint8_t *payload, size_t size_bytes, uint64_t seed)
{
    for (size_t i = 0; i < size_bytes; i++)
        payload[i] = (uint8_t)test_random(&seed);
}

static spsh_status add_records(spsh_shard_writer *writer, tiny_kind kind, uint8_t *payload,
                               spsh_error *err)
{
    static const spsh_seek_point points[3] = {
        {0,    0  },
        {4000, 60 },
        {9000, 131}
    };
    static const uint32_t flags[5] = {
        SPSH_RECORD_PCM_HASH, SPSH_RECORD_PCM_HASH, SPSH_RECORD_UNDECODABLE,
        SPSH_RECORD_TRUSTED | SPSH_RECORD_TRANSCODED, SPSH_RECORD_PCM_HASH | SPSH_RECORD_RESAMPLED};
    static const uint64_t sizes[5] = {100, 256, 1, 0, 0};
    static const spsh_codec codecs[5] = {SPSH_CODEC_WAV, SPSH_CODEC_FLAC, SPSH_CODEC_FLAC,
                                         SPSH_CODEC_OPUS, SPSH_CODEC_PCM};
    uint64_t count = kind == TINY_SMALL ? 4 : 5;
    spsh_status rc = SPSH_OK;
    for (uint64_t i = 0; i < count && rc == SPSH_OK; i++) {
        char id[32];
        uint64_t number = 0;
        (void)snprintf(id, sizeof(id), "rec/%llu-\xc3\xa9", (unsigned long long)i);
        spsh_record record = {
            .id = text(id),
            .payload_bytes = i < 4 ? sizes[i] : (kind == TINY_TWO ? 70000 : PAYLOAD_MAX),
            .samples = 10000 + i,
            .sample_rate_hz = i == 3 ? 48000 : 16000,
            .nominal_rate_hz = i == 3 ? 8000 : 16000,
            .channels = (uint32_t)(1 + i % 2),
            .codec = codecs[i],
            .format = SPSH_SAMPLE_I16,
            .bits_per_sample = i == 3 ? 0 : 16,
            .flags = flags[i],
            .seek_points = i == 1 ? points : NULL,
            .seek_point_count = i == 1 ? 3 : 0,
        };
        if ((flags[i] & SPSH_RECORD_PCM_HASH) != 0)
            memset(record.pcm_hash, (int)(0x40 + i), 16);
        fill(payload, (size_t)record.payload_bytes, i);
        rc = spsh_shard_writer_add_record(writer, &record, payload, &number, err);
        if (rc == SPSH_OK && number != TINY_FIRST_RECORD + i)
            rc = SPSH_E_MISMATCH;
    }
    return rc;
}

static spsh_status add_rows(spsh_shard_writer *writer, tiny_kind kind, spsh_error *err)
{
    static const char *const speakers[3] = {"ann", "bob", ""};
    uint64_t count = kind == TINY_TWO ? 1100 : 5;
    spsh_status rc = SPSH_OK;
    for (uint64_t i = 0; i < count && rc == SPSH_OK; i++) {
        char id[32];
        char words[64];
        (void)snprintf(id, sizeof(id), "utt-%llu", (unsigned long long)(i * 7919 % 10007));
        (void)snprintf(words, sizeof(words), "das ist Satz %llu", (unsigned long long)i);
        spsh_utterance utterance = {
            .id = text(id),
            .record = i == 0 ? 3 : TINY_FIRST_RECORD + i % 4, /* 3: in an earlier shard */
            .start_sample = i * 3,
            .samples = 500,
            .flags = i % 3 == 2 ? 0 : SPSH_UTTERANCE_HAS_TEXT,
            .domain = text(i % 2 == 0 ? "en" : "de"),
            .split = text("train"),
            .speaker = text(speakers[i % 3]),
            .text = text(i % 3 == 2 ? "" : words),
            .source = text(i == 1 ? "a/b c.flac" : ""),
            .extras = text(i == 2 ? "{\"snr\":12}" : ""),
        };
        rc = spsh_shard_writer_add_utterance(writer, &utterance, err);
    }
    return rc;
}

spsh_status tiny_shard_write(const char *directory, tiny_kind kind, const spsh_allocator *allocator,
                             const spsh_io *io, spsh_shard_seal *ret_seal, spsh_error *err)
{
    spsh_shard_writer *writer = NULL;
    spsh_shard_writer_options options = SPSH_SHARD_WRITER_OPTIONS_INIT;
    uint8_t *payload = (uint8_t *)malloc(PAYLOAD_MAX);
    REQUIRE(payload != NULL);
    options.allocator = allocator;
    options.io = io;
    options.directory = directory;
    memcpy(options.dataset_id, "tiny dataset id!", 16);
    options.unit = TINY_UNIT;
    options.number = TINY_NUMBER;
    options.first_record = TINY_FIRST_RECORD;
    options.first_utterance = TINY_FIRST_UTTERANCE;
    options.reserve_bytes = 100000;
    spsh_status rc = spsh_shard_writer_open(&options, &writer, err);
    if (rc == SPSH_OK)
        rc = add_records(writer, kind, payload, err);
    if (rc == SPSH_OK)
        rc = add_rows(writer, kind, err);
    if (rc == SPSH_OK)
        rc = spsh_shard_writer_seal(writer, ret_seal, err);
    spsh_shard_writer_free(writer);
    free(payload);
    return rc;
}

/* ---- reading ---- */

static void mix(spsh__hasher *hasher, const void *data, size_t size_bytes)
{
    uint64_t size = size_bytes;
    spsh__hasher_update(hasher, &size, sizeof(size));
    spsh__hasher_update(hasher, data, size_bytes);
}

static spsh_status read_rows(const spsh_shard *shard, spsh_metadata_reader *metadata,
                             spsh__hasher *hasher, spsh_error *err)
{
    uint64_t count = spsh_shard_info(shard)->utterance_count;
    spsh_status rc = SPSH_OK;
    for (uint64_t i = 0; i < count && rc == SPSH_OK; i++) {
        spsh_shard_row row;
        spsh_utterance u;
        uint64_t found = 0;
        rc = spsh_shard_row_get(shard, i, &row, err);
        if (rc == SPSH_OK)
            rc = spsh_metadata_reader_get(metadata, i, &u, err);
        if (rc != SPSH_OK)
            break;
        const uint64_t numbers[] = {row.id_hash,  row.record,   row.start_sample, row.samples,
                                    row.flags,    row.domain,   row.split,        row.speaker,
                                    row.language, row.document, row.text_bytes};
        const spsh_bytes strings[] = {u.id,       u.domain, u.split,  u.speaker, u.language,
                                      u.document, u.text,   u.source, u.extras};
        mix(hasher, numbers, sizeof(numbers));
        for (size_t s = 0; s < sizeof(strings) / sizeof(strings[0]); s++)
            mix(hasher, strings[s].data, strings[s].size_bytes);
        rc = spsh_shard_find(shard, metadata, u.id, &found, err);
        mix(hasher, &found, sizeof(found));
    }
    for (unsigned kind = 0; kind < SPSH_NAME_KINDS && rc == SPSH_OK; kind++) {
        uint64_t names = spsh_shard_name_count(shard, (spsh_name_kind)kind);
        for (uint32_t i = 0; i < names && rc == SPSH_OK; i++) {
            spsh_bytes name;
            rc = spsh_shard_name(shard, (spsh_name_kind)kind, i, &name, err);
            if (rc == SPSH_OK)
                mix(hasher, name.data, name.size_bytes);
        }
    }
    return rc;
}

static spsh_status read_payload(spsh_record_reader *reader, uint64_t payload_bytes,
                                spsh__hasher *hasher, spsh_error *err)
{
    static const size_t steps[2] = {SIZE_MAX, 40000}; /* whole; parts that cross pages */
    uint8_t *payload = (uint8_t *)malloc(payload_bytes == 0 ? 1 : (size_t)payload_bytes);
    spsh_status rc = SPSH_OK;
    REQUIRE(payload != NULL);
    for (unsigned pass = 0; pass < 2 && rc == SPSH_OK; pass++) {
        memset(payload, 0, (size_t)payload_bytes);
        for (uint64_t at = 0; at < payload_bytes && rc == SPSH_OK;) {
            uint64_t left = payload_bytes - at;
            size_t size = left < steps[pass] ? (size_t)left : steps[pass];
            rc = spsh_record_reader_read(reader, at, payload + at, size, err);
            at += size;
        }
        if (rc == SPSH_OK)
            mix(hasher, payload, (size_t)payload_bytes);
    }
    free(payload);
    return rc;
}

static void mix_record(spsh__hasher *hasher, const spsh_record *r)
{
    const uint64_t numbers[] = {r->payload_bytes,    r->samples,         r->sample_rate_hz,
                                r->nominal_rate_hz,  r->channels,        (uint64_t)r->codec,
                                (uint64_t)r->format, r->bits_per_sample, r->flags};
    mix(hasher, numbers, sizeof(numbers));
    mix(hasher, r->id.data, r->id.size_bytes);
    mix(hasher, r->pcm_hash, 16);
    mix(hasher, r->payload_hash, 16);
    for (uint64_t i = 0; i < r->seek_point_count; i++) {
        const uint64_t point[2] = {r->seek_points[i].sample, r->seek_points[i].offset_bytes};
        mix(hasher, point, sizeof(point));
    }
}

static spsh_status read_records(const spsh_shard *shard, spsh__hasher *hasher, spsh_error *err)
{
    uint64_t count = spsh_shard_info(shard)->record_count;
    spsh_status rc = SPSH_OK;
    for (uint64_t i = 0; i < count && rc == SPSH_OK; i++) {
        spsh_record_reader *reader = NULL;
        spsh_record record;
        spsh_record_place place;
        rc = spsh_shard_record(shard, i, &record, &place, err);
        if (rc == SPSH_OK)
            rc = spsh_record_reader_open(shard, i, &reader, err);
        if (rc != SPSH_OK)
            break;
        mix_record(hasher, &record);
        mix_record(hasher, spsh_record_reader_info(reader));
        rc = read_payload(reader, record.payload_bytes, hasher, err);
        spsh_record_reader_close(reader);
    }
    return rc;
}

spsh_status tiny_shard_read(const char *path, const spsh_allocator *allocator, const spsh_io *io,
                            uint8_t ret_digest[16], spsh_error *err)
{
    spsh_shard_options options = SPSH_SHARD_OPTIONS_INIT;
    spsh_shard *shard = NULL;
    spsh_metadata_reader *metadata = NULL;
    spsh__hasher *hasher = spsh__hasher_new(spsh_allocator_default());
    REQUIRE(hasher != NULL);
    options.allocator = allocator;
    options.io = io;
    spsh_status rc = spsh_shard_open(path, &options, &shard, err);
    if (rc == SPSH_OK)
        rc = spsh_metadata_reader_open(shard, &metadata, err);
    if (rc == SPSH_OK) {
        const uint64_t firsts[2] = {spsh_shard_first_record(shard),
                                    spsh_shard_first_utterance(shard)};
        mix(hasher, firsts, sizeof(firsts));
        mix(hasher, spsh_shard_info(shard)->root_hash, 16);
        rc = read_rows(shard, metadata, hasher, err);
    }
    if (rc == SPSH_OK)
        rc = read_records(shard, hasher, err);
    if (rc == SPSH_OK)
        spsh__hasher_digest128(hasher, ret_digest);
    spsh__hasher_free(hasher);
    spsh_metadata_reader_close(metadata);
    spsh_shard_close(shard);
    return rc;
}
