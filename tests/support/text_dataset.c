/* text_dataset.c: see text_dataset.h. */
#include "text_dataset.h"

#include "segment/segment.h"
#include "speechshard/publish.h"
#include "spsh_test.h"

enum { SAMPLES = 100, SHARDS = 2, WAV_BYTES = 44 + 2 * SAMPLES };

static spsh_error err = SPSH_ERROR_INIT;

static void require(spsh_status status)
{
    if (status != SPSH_OK)
        fprintf(stderr, "text_dataset: %s\n", err.message);
    REQUIRE(status == SPSH_OK);
}

static spsh_bytes bytes_of(const char *text)
{
    return text == NULL ? (spsh_bytes){0} : (spsh_bytes){(const uint8_t *)text, strlen(text)};
}

static uint64_t add_record(spsh_shard_writer *writer)
{
    static const uint8_t head[44] = {'R',         'I', 'F', 'F', WAV_BYTES - 8,
                                     0,           0,   0,   'W', 'A',
                                     'V',         'E', 'f', 'm', 't',
                                     ' ',         16,  0,   0,   0,
                                     1,           0,   1,   0,   0x80,
                                     0x3e,        0,   0,   0,   0x7d,
                                     0,           0,   2,   0,   16,
                                     0,           'd', 'a', 't', 'a',
                                     2 * SAMPLES, 0,   0,   0};
    uint8_t file[WAV_BYTES] = {0};
    uint64_t number = 0;
    memcpy(file, head, sizeof(head));
    const spsh_record record = {.id = bytes_of("recording"),
                                .payload_bytes = sizeof(file),
                                .samples = SAMPLES,
                                .sample_rate_hz = 16000,
                                .nominal_rate_hz = 16000,
                                .channels = 1,
                                .codec = SPSH_CODEC_WAV,
                                .format = SPSH_SAMPLE_I16,
                                .bits_per_sample = 16};
    require(spsh_shard_writer_add_record(writer, &record, file, &number, &err));
    return number;
}

static void make_shard(const char *shards, const uint8_t dataset_id[16], uint32_t unit,
                       const text_row *rows, size_t count, spsh_shard_seal *ret_seal)
{
    spsh_shard_writer_options opt = SPSH_SHARD_WRITER_OPTIONS_INIT;
    spsh_shard_writer *writer = NULL;
    opt.directory = shards;
    memcpy(opt.dataset_id, dataset_id, 16);
    opt.unit = unit;
    require(spsh_shard_writer_open(&opt, &writer, &err));
    const uint64_t record = add_record(writer);
    for (size_t i = 0; i < count; i++) {
        const spsh_utterance row = {.id = bytes_of(rows[i].id),
                                    .record = record,
                                    .samples = SAMPLES,
                                    .flags = rows[i].text != NULL ? SPSH_UTTERANCE_HAS_TEXT : 0,
                                    .domain = bytes_of(rows[i].domain),
                                    .split = bytes_of(rows[i].split),
                                    .speaker = bytes_of(rows[i].speaker),
                                    .document = bytes_of(rows[i].document),
                                    .text = bytes_of(rows[i].text),
                                    .source = bytes_of(rows[i].source),
                                    .extras = bytes_of(rows[i].extras)};
        require(spsh_shard_writer_add_utterance(writer, &row, &err));
    }
    require(spsh_shard_writer_seal(writer, ret_seal, &err));
    spsh_shard_writer_free(writer);
}

static void make_segments(const char *path)
{
    spsh_dataset *dataset = NULL;
    require(spsh_dataset_open(path, NULL, &dataset, &err));
    for (uint64_t s = 0; s < spsh_dataset_info_get(dataset)->shard_count; s++) {
        spsh_shard_seal seal;
        spsh__segment_writer *writer = NULL;
        require(spsh_dataset_shard(dataset, s, &seal, &err));
        require(spsh__segment_writer_open(&writer, &err));
        for (uint64_t i = 0; i < seal.utterance_count; i++) {
            const spsh__segment_entry entry = {
                .row = {.sample_rate_hz = 16000, .channels = 1}
            };
            require(spsh__segment_writer_add(writer, &entry, &err));
        }
        require(spsh__segment_writer_publish(writer, dataset, &seal, spsh_io_default(), &err));
        spsh__segment_writer_free(writer);
    }
    spsh_dataset_close(dataset);
}

void text_dataset_make(const char *path, uint8_t tag, const text_row *rows, size_t count)
{
    const uint8_t dataset_id[16] = {'t', 'e', 'x', 't', tag};
    const size_t half = count / 2;
    spsh_publish_options opt = SPSH_PUBLISH_OPTIONS_INIT;
    spsh_shard_seal seals[SHARDS];
    char shards[600];
    (void)snprintf(shards, sizeof(shards), "%s/shards", path);
    REQUIRE(mkdir(path, 0700) == 0 && mkdir(shards, 0700) == 0);
    make_shard(shards, dataset_id, 0, rows, half > 0 ? half : count, &seals[0]);
    if (half > 0)
        make_shard(shards, dataset_id, 1, rows + half, count - half, &seals[1]);
    opt.path = path;
    memcpy(opt.dataset_id, dataset_id, sizeof(dataset_id));
    opt.seals = seals;
    opt.seal_count = half > 0 ? 2 : 1;
    opt.options_json = bytes_of("{}");
    require(spsh_dataset_publish(&opt, NULL, &err));
    make_segments(path);
}
