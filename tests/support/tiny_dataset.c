/* tiny_dataset.c: uses only the public interface, except for the hasher. */
#include "tiny_dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checksum.h"
#include "speechshard/pcm.h"
#include "spsh_test.h"

enum { PAYLOAD_MAX = 1 << 20, PCM_MAX = 20000 };

const uint8_t tiny_dataset_id[16] = "tiny dataset id";

const char *const tiny_dataset_ids[TINY_UTTERANCES] = {
    "u0", "u1", "u2", "u3", "v0", "v1", "v2", "w0", "w1", "w2", "x0", "x1", "x2",
};

/* A recording as stored. */
typedef struct stored {
    char recording;
    spsh_codec codec;
    uint32_t sample_rate_hz, channels;
    uint64_t samples; /* in the payload */
    uint32_t flags;
    uint64_t stated_samples;
} stored;

typedef struct planned_row {
    uint32_t record; /* number in the unit */
    uint64_t start, samples;
    const char *text; /* NULL: none */
    const char *domain, *split, *speaker;
} planned_row;

typedef struct shard_plan {
    uint64_t unit;
    uint32_t number;
    uint64_t first_record, first_utterance;
    stored records[3];
    uint32_t record_count;
    planned_row rows[4];
    uint32_t row_count;
} shard_plan;

static const shard_plan plans[TINY_SHARDS] = {
    {0,
     0, 0,
     0, {{'A', SPSH_CODEC_PCM, 16000, 1, TINY_SAMPLES_A, SPSH_RECORD_PCM_HASH, TINY_SAMPLES_A},
      {'B', SPSH_CODEC_WAV, 8000, 2, TINY_SAMPLES_B, SPSH_RECORD_PCM_HASH, TINY_SAMPLES_B}},
     2, {{0, 0, TINY_SAMPLES_A, "first", "en", "train", "ann"},
      {0, 100, 500, "part", "en", "train", "ann"},
      {1, 0, TINY_SAMPLES_B, NULL, "de", "train", "bob"},
      {0, 100, 500, "part again", "en", "test", ""}},
     4},
    {0,
     1, 2,
     4, {{'C', SPSH_CODEC_FLAC, 16000, 1, TINY_SAMPLES_C, SPSH_RECORD_PCM_HASH, TINY_SAMPLES_C}},
     1, {{2, 0, TINY_SAMPLES_C, "long", "", "", "cyd"},
      {0, 0, TINY_SAMPLES_A, "", "de", "test", "bob"},
      {2, 5000, 123, "inside", "en", "train", ""}},
     3},
    {1,
     0, 0,
     0, {{'A', SPSH_CODEC_PCM, 16000, 1, TINY_SAMPLES_A, SPSH_RECORD_PCM_HASH, TINY_SAMPLES_A},
      {'A', SPSH_CODEC_WAV, 16000, 1, TINY_SAMPLES_A, SPSH_RECORD_PCM_HASH, TINY_SAMPLES_A},
      {'D', SPSH_CODEC_PCM, 22050, 1, TINY_SAMPLES_D, SPSH_RECORD_PCM_HASH, TINY_SAMPLES_D}},
     3, {{0, 0, TINY_SAMPLES_A, "same bytes", "en", "train", "ann"},
      {1, 0, TINY_SAMPLES_A, "same samples", "en", "train", "dan"},
      {2, 0, TINY_SAMPLES_D, "other", "fr", "train", "dan"}},
     3},
    {2,
     0, 0,
     0, {{'D', SPSH_CODEC_PCM, 22050, 1, TINY_SAMPLES_D, SPSH_RECORD_PCM_HASH, TINY_SAMPLES_D},
      {'E', SPSH_CODEC_FLAC, 16000, 1, 0, SPSH_RECORD_UNDECODABLE, 777},
      {'F', SPSH_CODEC_WAV, 16000, 1, TINY_SAMPLES_F + 10, SPSH_RECORD_TRUSTED, TINY_SAMPLES_F}},
     3, {{0, 0, TINY_SAMPLES_D, "other again", "fr", "train", "eve"},
      {1, 0, 777, "cannot be decoded", "fr", "train", ""},
      {2, 0, TINY_SAMPLES_F, "longer than stated", "fr", "train", ""}},
     3},
};

static spsh_bytes text(const char *string)
{
    return (spsh_bytes){(const uint8_t *)string, string == NULL ? 0 : strlen(string)};
}

int16_t tiny_dataset_sample(char recording, uint64_t i)
{
    uint64_t seed = (uint64_t)(unsigned char)recording * 1000003 + i;
    return (int16_t)((int)(test_random(&seed) % 2000) - 1000 + (int)(i % 64) * 20);
}

static uint8_t *put(uint8_t *at, uint32_t value, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++)
        *at++ = (uint8_t)(value >> (8 * i));
    return at;
}

static size_t make_wav(const stored *what, const int16_t *pcm, uint8_t *payload)
{
    uint32_t data_bytes = (uint32_t)what->samples * what->channels * 2;
    memcpy(payload, "RIFF", 4);
    uint8_t *at = put(payload + 4, 36 + data_bytes, 4);
    memcpy(at, "WAVEfmt ", 8);
    at = put(at + 8, 16, 4);
    at = put(at, 1, 2);
    at = put(at, what->channels, 2);
    at = put(at, what->sample_rate_hz, 4);
    at = put(at, what->sample_rate_hz * what->channels * 2, 4);
    at = put(at, what->channels * 2, 2);
    at = put(at, 16, 2);
    memcpy(at, "data", 4);
    at = put(at + 4, data_bytes, 4);
    for (uint64_t i = 0; i < what->samples * what->channels; i++)
        at = put(at, (uint32_t)(uint16_t)pcm[i], 2); /* NOLINT(clang-analyzer-core.CallAndMessage):
                                                        calloc has filled the rest */
    return (size_t)(at - payload);
}

static size_t make_payload(const stored *what, uint8_t *payload)
{
    int16_t *pcm = (int16_t *)calloc(PCM_MAX, sizeof(*pcm));
    size_t payload_bytes = 0;
    REQUIRE(pcm != NULL && what->samples * what->channels <= PCM_MAX);
    for (uint64_t i = 0; i < what->samples * what->channels; i++)
        pcm[i] = tiny_dataset_sample(what->recording, i);
    if (what->codec == SPSH_CODEC_WAV) {
        payload_bytes = make_wav(what, pcm, payload);
    } else if (what->codec == SPSH_CODEC_PCM) {
        REQUIRE(spsh_pcm_encode(pcm, what->samples, what->channels, payload, PAYLOAD_MAX,
                                &payload_bytes, NULL) == SPSH_OK);
    } else if (what->recording == 'E') {
        memcpy(payload, "fLaC, but not really", 20);
        payload_bytes = 20;
    } else {
        REQUIRE(spsh_flac_encode(pcm, SPSH_SAMPLE_I16, 16, what->samples, what->channels,
                                 what->sample_rate_hz, payload, PAYLOAD_MAX, &payload_bytes,
                                 NULL) == SPSH_OK);
    }
    free(pcm);
    return payload_bytes;
}

static void add_record(spsh_shard_writer *writer, const stored *what, uint8_t *payload)
{
    char id[] = {'r', 'e', 'c', '-', what->recording, '\0'};
    spsh_seek_point points[16];
    uint64_t number = 0;
    spsh_record record = {.id = text(id),
                          .payload_bytes = make_payload(what, payload),
                          .samples = what->stated_samples,
                          .sample_rate_hz = what->sample_rate_hz,
                          .nominal_rate_hz = what->sample_rate_hz,
                          .channels = what->channels,
                          .codec = what->codec,
                          .format = SPSH_SAMPLE_I16,
                          .bits_per_sample = 16,
                          .flags = what->flags};
    const spsh_bytes file = {payload, (size_t)record.payload_bytes};
    if ((what->flags & SPSH_RECORD_PCM_HASH) != 0) {
        spsh_decoder_options opt = SPSH_DECODER_OPTIONS_INIT;
        spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
        opt.sample_rate_hz = what->sample_rate_hz;
        REQUIRE(spsh_audio_decode_memory(file, what->codec, &opt, NULL, NULL, &result, NULL) ==
                SPSH_OK);
        REQUIRE(result.samples == what->samples);
        memcpy(record.pcm_hash, result.pcm_hash, 16);
    }
    if (what->recording == 'C') {
        REQUIRE(spsh_audio_seek_points(file, what->codec, 4000, points, 16,
                                       &record.seek_point_count, NULL) == SPSH_OK);
        REQUIRE(record.seek_point_count >= 2);
        record.seek_points = points;
    }
    REQUIRE(spsh_shard_writer_add_record(writer, &record, payload, &number, NULL) == SPSH_OK);
}

static void write_shard(const char *directory, const shard_plan *plan, const char *const *ids,
                        spsh_shard_seal *ret_seal)
{
    spsh_shard_writer_options opt = SPSH_SHARD_WRITER_OPTIONS_INIT;
    spsh_shard_writer *writer = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    uint8_t *payload = (uint8_t *)malloc(PAYLOAD_MAX);
    REQUIRE(payload != NULL);
    opt.directory = directory;
    memcpy(opt.dataset_id, tiny_dataset_id, 16);
    opt.unit = plan->unit;
    opt.number = plan->number;
    opt.first_record = plan->first_record;
    opt.first_utterance = plan->first_utterance;
    REQUIRE(spsh_shard_writer_open(&opt, &writer, &err) == SPSH_OK);
    for (uint32_t i = 0; i < plan->record_count; i++)
        add_record(writer, &plan->records[i], payload);
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const planned_row *r = &plan->rows[i];
        const spsh_utterance utterance = {.id = text(ids[i]),
                                          .record = r->record,
                                          .start_sample = r->start,
                                          .samples = r->samples,
                                          .flags = r->text == NULL ? 0 : SPSH_UTTERANCE_HAS_TEXT,
                                          .domain = text(r->domain),
                                          .split = text(r->split),
                                          .speaker = text(r->speaker),
                                          .text = text(r->text)};
        if (spsh_shard_writer_add_utterance(writer, &utterance, &err) != SPSH_OK)
            test_stop(__FILE__, __LINE__, err.message);
    }
    REQUIRE(spsh_shard_writer_seal(writer, ret_seal, &err) == SPSH_OK);
    spsh_shard_writer_free(writer);
    free(payload);
}

void tiny_dataset_write(tiny_dataset *dataset, const char *path)
{
    char directory[600];
    uint32_t first = 0;
    REQUIRE(snprintf(dataset->path, sizeof(dataset->path), "%s", path) < 512);
    REQUIRE(mkdir(path, 0777) == 0);
    (void)snprintf(directory, sizeof(directory), "%s/shards", path);
    REQUIRE(mkdir(directory, 0777) == 0);
    for (uint32_t i = 0; i < TINY_SHARDS; i++) {
        write_shard(directory, &plans[i], tiny_dataset_ids + first, &dataset->seals[i]);
        first += plans[i].row_count;
    }
    REQUIRE(first == TINY_UTTERANCES);
}

spsh_status tiny_dataset_publish(const tiny_dataset *dataset, spsh_dedupe dedupe,
                                 const spsh_allocator *allocator, const spsh_io *io,
                                 spsh_dataset_info *ret_info, spsh_error *err)
{
    spsh_publish_options opt = SPSH_PUBLISH_OPTIONS_INIT;
    opt.allocator = allocator;
    opt.io = io;
    opt.path = dataset->path;
    memcpy(opt.dataset_id, tiny_dataset_id, 16);
    opt.seals = dataset->seals;
    opt.seal_count = TINY_SHARDS;
    opt.dedupe = dedupe;
    opt.options_json = text("{\"codec\":\"keep\"}");
    opt.reject_count = 2;
    opt.source_row_count = 15;
    opt.memory_bytes = 8 << 20;
    return spsh_dataset_publish(&opt, ret_info, err);
}

/* ---- reading ---- */

static void mix(spsh__hasher *hasher, const void *data, size_t size_bytes)
{
    uint64_t size = size_bytes;
    spsh__hasher_update(hasher, &size, sizeof(size));
    if (size_bytes > 0)
        spsh__hasher_update(hasher, data, size_bytes);
}

static void mix_bytes(spsh__hasher *hasher, spsh_bytes bytes)
{
    mix(hasher, bytes.data, bytes.size_bytes);
}

/* Padding must not reach the digest. */
static void mix_row(spsh__hasher *hasher, const spsh_row *r)
{
    const uint64_t values[] = {r->id_hash,
                               r->shard,
                               r->shard_row,
                               r->payload_shard,
                               r->payload_record,
                               r->record_bytes,
                               r->record_offset_bytes,
                               r->start_sample,
                               r->samples,
                               r->sample_rate_hz,
                               r->channels,
                               (uint64_t)r->codec,
                               r->flags,
                               r->duplicate_of,
                               r->domain,
                               r->split,
                               r->speaker,
                               r->language,
                               r->document,
                               r->text_bytes};
    mix(hasher, values, sizeof(values));
}

static spsh_status read_manifest(const spsh_dataset *dataset, spsh__hasher *hasher, spsh_error *err)
{
    const spsh_dataset_info *info = spsh_dataset_info_get(dataset);
    spsh_bytes json = {NULL, 0};
    spsh_status rc = spsh_dataset_pack_options(dataset, &json, err);
    mix(hasher, info, sizeof(*info));
    mix_bytes(hasher, json);
    for (uint64_t i = 0; rc == SPSH_OK && i < info->shard_count; i++) {
        spsh_shard_seal seal;
        rc = spsh_dataset_shard(dataset, i, &seal, err);
        if (rc != SPSH_OK)
            break;
        mix(hasher, seal.file_id, 16);
        mix(hasher, seal.root_hash, 16);
        const uint64_t values[] = {seal.file_bytes, seal.unit, seal.number, seal.record_count,
                                   seal.utterance_count};
        mix(hasher, values, sizeof(values));
    }
    for (uint64_t i = 0; rc == SPSH_OK && i < spsh_dataset_group_count(dataset); i++) {
        spsh_dataset_group group;
        rc = spsh_dataset_group_get(dataset, i, &group, err);
        if (rc != SPSH_OK)
            break;
        mix_bytes(hasher, group.domain);
        mix_bytes(hasher, group.split);
        const uint64_t values[] = {group.sample_rate_hz, group.utterance_count, group.samples};
        mix(hasher, values, sizeof(values));
    }
    for (uint64_t i = 0; rc == SPSH_OK && i < info->overlay_count; i++) {
        spsh_overlay_info overlay = SPSH_OVERLAY_INFO_INIT;
        rc = spsh_dataset_overlay(dataset, i, &overlay, err);
        if (rc == SPSH_OK)
            mix_bytes(hasher, overlay.name);
    }
    return rc;
}

static spsh_status read_names(const spsh_dataset *dataset, spsh__hasher *hasher, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (uint32_t kind = 0; kind < SPSH_NAME_KINDS; kind++) {
        uint64_t count = spsh_dataset_name_count(dataset, (spsh_name_kind)kind);
        for (uint64_t i = 0; rc == SPSH_OK && i < count; i++) {
            spsh_bytes name = {NULL, 0};
            rc = spsh_dataset_name(dataset, (spsh_name_kind)kind, (uint32_t)i, &name, err);
            mix_bytes(hasher, name);
        }
    }
    return rc;
}

static spsh_status read_skips(const spsh_dataset *dataset, spsh__hasher *hasher, spsh_error *err)
{
    uint64_t positions[TINY_UTTERANCES] = {0};
    uint64_t count = 0;
    spsh_status rc =
        spsh_dataset_skipped_positions(dataset, positions, TINY_UTTERANCES, &count, err);
    mix(hasher, &count, sizeof(count));
    mix(hasher, positions, sizeof(positions));
    return rc;
}

static spsh_status read_text(spsh_reader *reader, const spsh_dataset *dataset, uint64_t position,
                             spsh__hasher *hasher, spsh_error *err)
{
    spsh_utterance u;
    char id[64];
    uint64_t found = 0;
    bool skipped = false;
    spsh_bytes reason = {NULL, 0};
    spsh_status rc = spsh_reader_metadata(reader, position, &u, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh_bytes strings[] = {u.id,       u.domain, u.split,  u.speaker, u.language,
                                  u.document, u.text,   u.source, u.extras};
    for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++)
        mix_bytes(hasher, strings[i]);
    mix(hasher, &u.flags, sizeof(u.flags));
    REQUIRE(u.id.size_bytes < sizeof(id));
    memcpy(id, u.id.data, u.id.size_bytes);
    const spsh_bytes copy = {(const uint8_t *)id, u.id.size_bytes};
    rc = spsh_dataset_skipped(dataset, copy, &skipped, &reason, err);
    mix(hasher, &skipped, sizeof(skipped));
    mix_bytes(hasher, reason);
    if (rc == SPSH_OK)
        rc = spsh_reader_find(reader, copy, &found, err);
    if (rc == SPSH_OK && found != position)
        rc = SPSH_E_MISMATCH;
    return rc;
}

static spsh_status read_audio(spsh_reader *reader, const spsh_row *row, uint64_t position,
                              spsh__hasher *hasher, spsh_error *err)
{
    const spsh_record *record = NULL;
    uint64_t samples = 0;
    uint64_t got = 0;
    int16_t *pcm = NULL;
    uint8_t *payload = NULL;
    spsh_status rc = spsh_reader_record(reader, position, &record, err);
    if (rc != SPSH_OK)
        return rc;
    size_t payload_bytes = (size_t)record->payload_bytes;
    uint32_t flags = record->flags;
    payload = (uint8_t *)malloc(payload_bytes);
    pcm = (int16_t *)malloc(row->samples * row->channels * 2 + 2);
    REQUIRE(payload != NULL && pcm != NULL);
    rc = spsh_reader_payload(reader, position, 0, payload, payload_bytes, err);
    if (rc == SPSH_OK)
        mix(hasher, payload, payload_bytes);
    while (rc == SPSH_OK && samples < row->samples) {
        rc = spsh_reader_read_i16(reader, position, samples, pcm + samples * row->channels, 700,
                                  &got, err);
        samples += rc == SPSH_OK ? got : 0;
    }
    mix(hasher, pcm, (size_t)samples * row->channels * 2);
    if (rc == SPSH_E_AUDIO && (flags & (SPSH_RECORD_UNDECODABLE | SPSH_RECORD_TRUSTED)) != 0)
        rc = SPSH_OK;
    free(pcm);
    free(payload);
    return rc;
}

spsh_status tiny_dataset_read(const char *path, const spsh_dataset_options *options, bool decode,
                              uint8_t ret_digest[16], spsh_error *err)
{
    spsh_dataset *dataset = NULL;
    spsh_reader *reader = NULL;
    spsh__hasher *hasher = spsh__hasher_new(spsh_allocator_default());
    REQUIRE(hasher != NULL);
    spsh__hasher_reset128(hasher);
    spsh_status rc = spsh_dataset_open(path, options, &dataset, err);
    if (rc != SPSH_OK)
        goto out;
    rc = spsh_reader_open(dataset, &reader, err);
    if (rc == SPSH_OK)
        rc = read_manifest(dataset, hasher, err);
    if (rc == SPSH_OK)
        rc = read_names(dataset, hasher, err);
    if (rc == SPSH_OK)
        rc = read_skips(dataset, hasher, err);
    uint64_t count = spsh_dataset_info_get(dataset)->utterance_count;
    for (uint64_t i = 0; rc == SPSH_OK && i < count; i++) {
        spsh_row r;
        rc = spsh_dataset_rows(dataset, i, 1, &r, err);
        if (rc == SPSH_OK)
            mix_row(hasher, &r);
        if (rc == SPSH_OK)
            rc = read_text(reader, dataset, i, hasher, err);
        if (rc == SPSH_OK && decode)
            rc = read_audio(reader, &r, i, hasher, err);
    }
    if (rc == SPSH_OK)
        spsh__hasher_digest128(hasher, ret_digest);
out:
    spsh_reader_close(reader);
    spsh_dataset_close(dataset);
    spsh__hasher_free(hasher);
    return rc;
}
