/* talk_dataset.c: noise under a tone, written with the library's own writer. */
#include "talk_dataset.h"

#include "speechshard/pcm.h"
#include "spsh_test.h"

enum {
    SAMPLES_MAX = TALK_LONG_SECONDS * 16000,
    CHANNELS_MAX = 2,
    FILE_BYTES_MAX = 4 * SAMPLES_MAX * CHANNELS_MAX,
    FILES_MAX = 4096,
};

static const uint8_t dataset_id[16] = {'t', 'a', 'l', 'k', 1, 2, 3};

static spsh_error err = SPSH_ERROR_INIT;

static spsh_bytes text_of(const char *text)
{
    return (spsh_bytes){(const uint8_t *)text, strlen(text)};
}

static void require(spsh_status status)
{
    if (status != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    REQUIRE(status == SPSH_OK);
}

/* ---- audio ---- */

typedef struct recording {
    spsh_codec codec;
    uint32_t rate_hz, channels, samples;
    uint64_t seed;
} recording;

static void make_pcm(const recording *r, int16_t *pcm)
{
    uint64_t random = r->seed;
    const uint32_t period = 30 + (uint32_t)(r->seed % 50);
    for (uint32_t n = 0; n < r->samples * r->channels; n++) {
        const int32_t noise = (int32_t)(test_random(&random) % 2000) - 1000;
        const int32_t tone = (int32_t)(n % period) * 8000 / (int32_t)period - 4000;
        pcm[n] = (int16_t)(tone + noise);
    }
}

static void put(uint8_t *at, uint32_t value, int size_bytes)
{
    for (int n = 0; n < size_bytes; n++)
        at[n] = (uint8_t)(value >> (8 * n));
}

static size_t make_wav(const recording *r, const int16_t *pcm, uint8_t *file)
{
    const uint32_t data_bytes = 2 * r->samples * r->channels;
    memcpy(file, "RIFF....WAVEfmt ....................data....", 44);
    put(file + 4, 36 + data_bytes, 4);
    put(file + 16, 16, 4);
    put(file + 20, 1, 2);
    put(file + 22, r->channels, 2);
    put(file + 24, r->rate_hz, 4);
    put(file + 28, r->rate_hz * r->channels * 2, 4);
    put(file + 32, r->channels * 2, 2);
    put(file + 34, 16, 2);
    put(file + 40, data_bytes, 4);
    for (uint32_t n = 0; n < r->samples * r->channels; n++)
        put(file + 44 + (size_t)2 * n, (uint16_t)pcm[n], 2);
    return 44 + data_bytes;
}

static size_t encode(const recording *r, uint8_t *file)
{
    static int16_t pcm[SAMPLES_MAX * CHANNELS_MAX];
    size_t size = 0;
    make_pcm(r, pcm);
    if (r->codec == SPSH_CODEC_WAV)
        return make_wav(r, pcm, file);
    if (r->codec == SPSH_CODEC_FLAC)
        require(spsh_flac_encode(pcm, SPSH_SAMPLE_I16, 16, r->samples, r->channels, r->rate_hz,
                                 file, FILE_BYTES_MAX, &size, &err));
    else
        require(spsh_pcm_encode(pcm, r->samples, r->channels, file, FILE_BYTES_MAX, &size, &err));
    return size;
}

/* ---- shards ---- */

static uint64_t add_record(spsh_shard_writer *writer, const char *id, spsh_bytes file,
                           spsh_codec codec, uint32_t rate_hz, uint64_t *ret_samples)
{
    static spsh_seek_point points[256];
    spsh_decoder_options opt = SPSH_DECODER_OPTIONS_INIT;
    spsh_decode_result decoded;
    uint64_t number = 0;
    uint64_t point_count = 0;
    opt.sample_rate_hz = rate_hz;
    require(spsh_audio_decode_memory(file, codec, &opt, NULL, NULL, &decoded, &err));
    require(spsh_audio_seek_points(file, codec, 16000, points, 256, &point_count, &err));
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
    memcpy(record.pcm_hash, decoded.pcm_hash, 16);
    require(spsh_shard_writer_add_record(writer, &record, file.data, &number, &err));
    *ret_samples = decoded.samples;
    return number;
}

static spsh_shard_writer *open_writer(const char *shards, uint32_t unit)
{
    spsh_shard_writer_options opt = SPSH_SHARD_WRITER_OPTIONS_INIT;
    spsh_shard_writer *writer = NULL;
    opt.directory = shards;
    memcpy(opt.dataset_id, dataset_id, sizeof(dataset_id));
    opt.unit = unit;
    require(spsh_shard_writer_open(&opt, &writer, &err));
    return writer;
}

static void add_utterance(spsh_shard_writer *writer, uint32_t shard, uint32_t n, uint64_t record,
                          uint64_t start, uint64_t samples)
{
    static const char *const speakers[] = {"ann", "bob", "cem", "dia"};
    char id[64];
    char text[64];
    (void)snprintf(id, sizeof(id), "s%u-u%u", shard, n);
    (void)snprintf(text, sizeof(text), "words %u of %u", n, shard);
    const bool has_text = n % 7 != 3;
    const spsh_utterance row = {.id = text_of(id),
                                .record = record,
                                .start_sample = start,
                                .samples = samples,
                                .flags = has_text ? SPSH_UTTERANCE_HAS_TEXT : 0,
                                .domain = text_of(n % 3 == 0 ? "talk" : "read"),
                                .split = text_of("train"),
                                .speaker = text_of(speakers[n % 4]),
                                .language = text_of("en"),
                                .text = text_of(has_text ? text : "")};
    require(spsh_shard_writer_add_utterance(writer, &row, &err));
}

static void make_shard(const char *shards, uint32_t shard, talk_kind kind,
                       spsh_shard_seal *ret_seal)
{
    static const spsh_codec codecs[] = {SPSH_CODEC_WAV, SPSH_CODEC_FLAC, SPSH_CODEC_PCM};
    static uint8_t file[FILE_BYTES_MAX];
    spsh_shard_writer *writer = open_writer(shards, shard);
    uint64_t samples = 0;
    for (uint32_t n = 0; n <= TALK_SHORT; n++) {
        const bool is_long = n == TALK_SHORT;
        const bool mixed = kind == TALK_MIXED;
        const uint32_t rate_hz = mixed && n % 2 == 1 ? 8000 : 16000;
        const recording r = {.codec = codecs[(n + shard) % 3],
                             .rate_hz = rate_hz,
                             .channels = mixed && n % 5 == 2 ? 2 : 1,
                             .samples = is_long ? TALK_LONG_SECONDS * rate_hz
                                                : rate_hz / 20 + 131 * (n * 7 % TALK_SHORT),
                             .seed = 1000 * shard + n + 1};
        char id[64];
        (void)snprintf(id, sizeof(id), "s%u-r%u", shard, n);
        const size_t size = encode(&r, file);
        const uint64_t record =
            add_record(writer, id, (spsh_bytes){file, size}, r.codec, r.rate_hz, &samples);
        CHECK_U64(samples, r.samples);
        for (uint32_t segment = 0; is_long && segment < TALK_SEGMENTS; segment++)
            add_utterance(writer, shard, n + segment, record,
                          (uint64_t)segment * rate_hz * (TALK_LONG_SECONDS / TALK_SEGMENTS) + 17,
                          rate_hz / 4 + 101 * segment);
        if (!is_long)
            add_utterance(writer, shard, n, record, 0, samples);
    }
    require(spsh_shard_writer_seal(writer, ret_seal, &err));
    spsh_shard_writer_free(writer);
}

static void make_folders(const char *path, char *shards, size_t capacity_bytes)
{
    (void)snprintf(shards, capacity_bytes, "%s/shards", path);
    REQUIRE(mkdir(path, 0700) == 0 && mkdir(shards, 0700) == 0);
}

static void publish(const char *path, const spsh_shard_seal *seals, uint64_t count)
{
    spsh_publish_options opt = SPSH_PUBLISH_OPTIONS_INIT;
    opt.path = path;
    memcpy(opt.dataset_id, dataset_id, sizeof(dataset_id));
    opt.seals = seals;
    opt.seal_count = count;
    opt.options_json = text_of("{}");
    require(spsh_dataset_publish(&opt, NULL, &err));
}

void talk_dataset_make(const char *path, talk_kind kind)
{
    spsh_shard_seal seals[TALK_SHARDS];
    char shards[600];
    make_folders(path, shards, sizeof(shards));
    for (uint32_t shard = 0; shard < TALK_SHARDS; shard++)
        make_shard(shards, shard, kind, &seals[shard]);
    publish(path, seals, TALK_SHARDS);
}

void talk_dataset_shard(const char *path, uint32_t shard, char *ret_path, size_t capacity_bytes)
{
    char name[32];
    spsh_shard_file_name(shard, 0, name);
    (void)snprintf(ret_path, capacity_bytes, "%s/shards/%s", path, name);
}

/* ---- files ---- */

static char *found[FILES_MAX];
static uint32_t found_count;

static int find_flac(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)walk;
    const size_t length = strlen(path);
    if (kind == FTW_F && length > 5 && strcmp(path + length - 5, ".flac") == 0 &&
        found_count < FILES_MAX)
        found[found_count++] = strdup(path);
    return 0;
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

uint32_t talk_dataset_pack(const char *path, const char *source, uint32_t count_max)
{
    spsh_shard_seal seal;
    char shards[600];
    make_folders(path, shards, sizeof(shards));
    found_count = 0;
    REQUIRE(nftw(source, find_flac, 16, FTW_PHYS) == 0);
    qsort((void *)found, found_count, sizeof(found[0]), compare_names);
    const uint32_t count = found_count < count_max ? found_count : count_max;
    spsh_shard_writer *writer = open_writer(shards, 0);
    for (uint32_t n = 0; n < found_count; n++) {
        uint8_t *data = NULL;
        size_t size = 0;
        uint64_t samples = 0;
        if (n < count) {
            require(spsh_io_read_file(spsh_io_default(), found[n], (size_t)64 << 20,
                                      spsh_allocator_default(), &data, &size, &err));
            char id[64];
            (void)snprintf(id, sizeof(id), "r%u", n);
            const uint64_t record =
                add_record(writer, id, (spsh_bytes){data, size}, SPSH_CODEC_FLAC, 0, &samples);
            add_utterance(writer, 0, n, record, 0, samples);
        }
        free(data);
        free(found[n]);
    }
    require(spsh_shard_writer_seal(writer, &seal, &err));
    spsh_shard_writer_free(writer);
    publish(path, &seal, 1);
    return count;
}
