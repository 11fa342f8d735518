/* clip_dataset.c: WAV files through the library's own writer. */
#include "clip_dataset.h"

#include "fingerprint_run.h"
#include "speechshard/publish.h"
#include "spsh_test.h"

enum { HEAD = 44 };

static const uint8_t dataset_id[16] = {'c', 'l', 'i', 'p', 's', 1};
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

static void put(uint8_t *at, uint32_t value, int size_bytes)
{
    for (int n = 0; n < size_bytes; n++)
        at[n] = (uint8_t)(value >> (8 * n));
}

/* *ret_file from malloc. */
static size_t make_wav(const clip *one, uint8_t **ret_file)
{
    const size_t values = (size_t)one->samples * one->channels;
    const uint32_t data_bytes = (uint32_t)(2 * values);
    uint8_t *file = malloc(HEAD + 2 * values);
    REQUIRE(file != NULL);
    memcpy(file, "RIFF....WAVEfmt ....................data....", HEAD);
    put(file + 4, 36 + data_bytes, 4);
    put(file + 16, 16, 4);
    put(file + 20, 1, 2);
    put(file + 22, one->channels, 2);
    put(file + 24, one->rate_hz, 4);
    put(file + 28, one->rate_hz * one->channels * 2, 4);
    put(file + 32, one->channels * 2, 2);
    put(file + 34, 16, 2);
    put(file + 40, data_bytes, 4);
    for (size_t n = 0; n < values; n++)
        put(file + HEAD + 2 * n, (uint16_t)one->pcm[n], 2);
    *ret_file = file;
    return HEAD + 2 * values;
}

static void add_clip(spsh_shard_writer *writer, const clip *one)
{
    uint8_t *file = NULL;
    uint64_t number = 0;
    spsh_decode_result decoded;
    const size_t size = make_wav(one, &file);
    require(spsh_audio_decode_memory((spsh_bytes){file, size}, SPSH_CODEC_WAV, NULL, NULL, NULL,
                                     &decoded, &err));
    spsh_record record = {.id = text_of(one->id),
                          .payload_bytes = size,
                          .samples = decoded.samples,
                          .sample_rate_hz = one->rate_hz,
                          .nominal_rate_hz = one->rate_hz,
                          .channels = one->channels,
                          .codec = SPSH_CODEC_WAV,
                          .format = SPSH_SAMPLE_I16,
                          .bits_per_sample = 16,
                          .flags = SPSH_RECORD_PCM_HASH};
    memcpy(record.pcm_hash, decoded.pcm_hash, 16);
    require(spsh_shard_writer_add_record(writer, &record, file, &number, &err));
    free(file);
    const spsh_utterance row = {.id = text_of(one->id),
                                .record = number,
                                .samples = one->samples,
                                .domain = text_of("clips"),
                                .split = text_of("train"),
                                .language = text_of("en")};
    require(spsh_shard_writer_add_utterance(writer, &row, &err));
}

void clip_dataset_make(const char *path, const clip *clips, size_t count)
{
    spsh_shard_writer_options opt = SPSH_SHARD_WRITER_OPTIONS_INIT;
    spsh_publish_options publish = SPSH_PUBLISH_OPTIONS_INIT;
    spsh_shard_writer *writer = NULL;
    spsh_shard_seal seal;
    char shards[600];
    (void)snprintf(shards, sizeof(shards), "%s/shards", path);
    REQUIRE(mkdir(path, 0700) == 0 && mkdir(shards, 0700) == 0);
    opt.directory = shards;
    memcpy(opt.dataset_id, dataset_id, sizeof(dataset_id));
    require(spsh_shard_writer_open(&opt, &writer, &err));
    for (size_t i = 0; i < count; i++)
        add_clip(writer, &clips[i]);
    require(spsh_shard_writer_seal(writer, &seal, &err));
    spsh_shard_writer_free(writer);
    publish.path = path;
    memcpy(publish.dataset_id, dataset_id, sizeof(dataset_id));
    publish.seals = &seal;
    publish.seal_count = 1;
    publish.options_json = text_of("{}");
    require(spsh_dataset_publish(&publish, NULL, &err));
}

spsh__print_set *clip_dataset_open(const char *path)
{
    const spsh__print_source source = {path, NULL, SPSH__SIDE_TRAIN};
    const spsh__fingerprint_run_options opt = {.threads = 2, .part_count = 1};
    spsh__fingerprint_run_facts facts;
    spsh__print_set *set = NULL;
    require(spsh__fingerprint_run(path, &opt, NULL, &facts, &err));
    require(spsh__print_set_open(&source, 1, NULL, &set, &err));
    return set;
}
