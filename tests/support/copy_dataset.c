/* copy_dataset.c: records are written with the library's own writer. */
#include "copy_dataset.h"

#include "speechshard/pcm.h"
#include "spsh_test.h"

enum { UNITS_MAX = 8, POINT_SAMPLES = 16000, WAV_HEAD = 44 };

struct copy_dataset {
    char path[512], shards[600];
    uint8_t id[16];
    spsh_shard_writer *writer;
    spsh_shard_seal seals[UNITS_MAX];
    uint32_t unit;
    uint32_t utterances;
    uint32_t records;
};

static spsh_error err = SPSH_ERROR_INIT;

static void require(spsh_status status)
{
    if (status != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    REQUIRE(status == SPSH_OK);
}

static void put(uint8_t *at, uint32_t value, uint32_t size_bytes)
{
    for (uint32_t n = 0; n < size_bytes; n++)
        at[n] = (uint8_t)(value >> (8 * n));
}

static size_t make_wav(const copy_audio *audio, uint8_t *file)
{
    const uint32_t bytes = audio->bits / 8;
    const uint32_t values = audio->samples * audio->channels;
    memcpy(file, "RIFF....WAVEfmt ....................data....", WAV_HEAD);
    put(file + 4, 36 + bytes * values, 4);
    put(file + 16, 16, 4);
    put(file + 20, 1, 2);
    put(file + 22, audio->channels, 2);
    put(file + 24, audio->rate_hz, 4);
    put(file + 28, audio->rate_hz * audio->channels * bytes, 4);
    put(file + 32, audio->channels * bytes, 2);
    put(file + 34, audio->bits, 2);
    put(file + 40, bytes * values, 4);
    for (uint32_t n = 0; n < values; n++)
        put(file + WAV_HEAD + (size_t)bytes * n, (uint32_t)audio->pcm[n] << (audio->bits - 16),
            bytes);
    return WAV_HEAD + (size_t)bytes * values;
}

static size_t encode(const copy_audio *audio, uint8_t *file, size_t capacity_bytes)
{
    size_t size = 0;
    if (audio->codec == SPSH_CODEC_WAV)
        return make_wav(audio, file);
    if (audio->codec == SPSH_CODEC_FLAC)
        require(spsh_flac_encode(audio->pcm, SPSH_SAMPLE_I16, 16, audio->samples, audio->channels,
                                 audio->rate_hz, file, capacity_bytes, &size, &err));
    else
        require(spsh_pcm_encode(audio->pcm, audio->samples, audio->channels, file, capacity_bytes,
                                &size, &err));
    return size;
}

static void open_writer(copy_dataset *set)
{
    spsh_shard_writer_options opt = SPSH_SHARD_WRITER_OPTIONS_INIT;
    opt.directory = set->shards;
    memcpy(opt.dataset_id, set->id, sizeof(set->id));
    opt.unit = set->unit;
    require(spsh_shard_writer_open(&opt, &set->writer, &err));
    set->records = 0;
}

static void seal(copy_dataset *set)
{
    require(spsh_shard_writer_seal(set->writer, &set->seals[set->unit], &err));
    spsh_shard_writer_free(set->writer);
    set->writer = NULL;
    set->unit++;
}

copy_dataset *copy_dataset_open(const char *path, uint8_t tag)
{
    copy_dataset *set = calloc(1, sizeof(*set));
    REQUIRE(set != NULL);
    set->id[0] = tag;
    (void)snprintf(set->path, sizeof(set->path), "%s", path);
    (void)snprintf(set->shards, sizeof(set->shards), "%s/shards", path);
    REQUIRE(mkdir(path, 0700) == 0 && mkdir(set->shards, 0700) == 0);
    open_writer(set);
    return set;
}

void copy_dataset_next_unit(copy_dataset *set)
{
    REQUIRE(set->unit + 1 < UNITS_MAX);
    seal(set);
    open_writer(set);
}

/* file: the recording that the record claims; bytes, of the same size: its contents. */
static uint64_t add_record(copy_dataset *set, spsh_bytes file, const uint8_t *bytes,
                           spsh_codec codec, uint32_t rate_hz, uint64_t *ret_samples)
{
    spsh_decoder_options opt = SPSH_DECODER_OPTIONS_INIT;
    spsh_decode_result decoded = SPSH_DECODE_RESULT_INIT;
    uint64_t number = 0;
    uint64_t point_count = 0;
    char id[64];
    opt.sample_rate_hz = rate_hz;
    require(spsh_audio_decode_memory(file, codec, &opt, NULL, NULL, &decoded, &err));
    const uint64_t points_max = decoded.samples / POINT_SAMPLES + 2;
    spsh_seek_point *points = calloc(points_max, sizeof(*points));
    REQUIRE(points != NULL);
    require(
        spsh_audio_seek_points(file, codec, POINT_SAMPLES, points, points_max, &point_count, &err));
    (void)snprintf(id, sizeof(id), "r%u-%u", set->unit, set->records++);
    spsh_record record = {.id = text_of(id),
                          .payload_bytes = file.size_bytes,
                          .samples = decoded.samples,
                          .sample_rate_hz = decoded.info.sample_rate_hz,
                          .nominal_rate_hz = decoded.info.sample_rate_hz,
                          .channels = decoded.info.channels,
                          .codec = codec,
                          .format = decoded.info.format,
                          .bits_per_sample = decoded.info.bits_per_sample,
                          .flags = SPSH_RECORD_PCM_HASH,
                          .seek_points = point_count > 1 ? points : NULL,
                          .seek_point_count = point_count > 1 ? point_count : 0};
    memcpy(record.pcm_hash, decoded.pcm_hash, sizeof(record.pcm_hash));
    require(spsh_shard_writer_add_record(set->writer, &record, bytes, &number, &err));
    free(points);
    *ret_samples = decoded.samples;
    return number;
}

uint64_t copy_dataset_file(copy_dataset *set, spsh_bytes file, spsh_codec codec, uint32_t rate_hz,
                           uint64_t *ret_samples)
{
    return add_record(set, file, file.data, codec, rate_hz, ret_samples);
}

/* at: position of a byte to damage; SIZE_MAX: none. */
static uint64_t add_audio(copy_dataset *set, const copy_audio *audio, size_t at, uint8_t value)
{
    const size_t capacity = 1024 + (size_t)8 * audio->samples * audio->channels;
    uint8_t *file = malloc(capacity);
    uint8_t *bytes = malloc(capacity);
    uint64_t samples = 0;
    REQUIRE(file != NULL && bytes != NULL);
    const spsh_bytes good = {file, encode(audio, file, capacity)};
    memcpy(bytes, file, good.size_bytes);
    if (at < good.size_bytes)
        bytes[at] = value;
    const uint64_t number = add_record(set, good, bytes, audio->codec, audio->rate_hz, &samples);
    REQUIRE(samples == audio->samples);
    free(file);
    free(bytes);
    return number;
}

uint64_t copy_dataset_record(copy_dataset *set, const copy_audio *audio)
{
    return add_audio(set, audio, SIZE_MAX, 0);
}

void copy_dataset_row(copy_dataset *set, const spsh_utterance *row)
{
    require(spsh_shard_writer_add_utterance(set->writer, row, &err));
}

void copy_dataset_utterance(copy_dataset *set, uint64_t record, uint64_t start, uint64_t samples,
                            const char *split)
{
    char id[64];
    (void)snprintf(id, sizeof(id), "u%u", set->utterances++);
    const spsh_utterance row = {.id = text_of(id),
                                .record = record,
                                .start_sample = start,
                                .samples = samples,
                                .split = text_of(split)};
    copy_dataset_row(set, &row);
}

void copy_dataset_add(copy_dataset *set, const copy_audio *audio)
{
    copy_dataset_utterance(set, copy_dataset_record(set, audio), 0, audio->samples, "train");
}

void copy_dataset_add_spoiled(copy_dataset *set, const copy_audio *audio, size_t at, uint8_t value)
{
    copy_dataset_utterance(set, add_audio(set, audio, at, value), 0, audio->samples, "train");
}

void copy_dataset_close(copy_dataset *set, spsh_dedupe dedupe)
{
    spsh_publish_options opt = SPSH_PUBLISH_OPTIONS_INIT;
    seal(set);
    opt.path = set->path;
    memcpy(opt.dataset_id, set->id, sizeof(set->id));
    opt.seals = set->seals;
    opt.seal_count = set->unit;
    opt.dedupe = dedupe;
    opt.options_json = text_of("{}");
    require(spsh_dataset_publish(&opt, NULL, &err));
    free(set);
}

void copy_dataset_make(const char *path, uint8_t tag, const copy_audio *audios, size_t count)
{
    copy_dataset *set = copy_dataset_open(path, tag);
    for (size_t i = 0; i < count; i++)
        copy_dataset_add(set, &audios[i]);
    copy_dataset_close(set, SPSH_DEDUPE_NONE);
}
