/* bench_publish.c: publishing a dataset, which a merge of packed units ends with: time, memory, and
 * index size per utterance, with and without the search for copies across units.
 *
 *     bench_publish DIRECTORY UTTERANCES MEMORY_MIB
 *
 * Writes shards of 100,000 recordings of 16 samples into the new folder DIRECTORY. One recording in
 * a hundred is a copy of one of an earlier shard. Then publishes them twice. Output: JSON.
 */
#include <inttypes.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench_kit.h"
#include "speechshard/pcm.h"
#include "speechshard/publish.h"

enum { SHARD_UTTERANCES = 100000, SAMPLES = 16, PAYLOAD_MAX = 4096, COPY_EVERY = 100 };

static uint8_t dataset_id[16];

/* Processor time of all threads. */
static double all_cpu_seconds(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* The number of the recording that utterance n has: its own, or that of one of an earlier shard. */
static uint64_t recording_of(uint64_t n)
{
    uint64_t state = n;
    const uint64_t earlier = n / SHARD_UTTERANCES * SHARD_UTTERANCES;
    const uint64_t other = earlier == 0 ? 0 : next_random(&state) % earlier;
    return n % COPY_EVERY == 0 && earlier > 0 && other % COPY_EVERY != 0 ? other : n;
}

static void add(spsh_shard_writer *writer, uint64_t n)
{
    const uint64_t audio = recording_of(n);
    uint64_t state = audio;
    int16_t pcm[SAMPLES];
    uint8_t payload[PAYLOAD_MAX];
    size_t payload_bytes = 0;
    uint64_t number = 0;
    char id[32];
    char text[64];
    const uint64_t hash[2] = {mix64(audio + 1), mix64(audio + UINT64_C(0x123456789))};

    for (size_t i = 0; i < SAMPLES; i++)
        pcm[i] = (int16_t)(next_random(&state) >> 48);
    check_ok(spsh_pcm_encode(pcm, SAMPLES, 1, payload, sizeof(payload), &payload_bytes, &failure));
    const int id_bytes = snprintf(id, sizeof(id), "%03" PRIu64 "/%010" PRIu64, n % 997, n);
    const int text_bytes = snprintf(text, sizeof(text), "the text of utterance %" PRIu64, n);
    const spsh_bytes name = {(const uint8_t *)id, (size_t)id_bytes};
    spsh_record record = {.id = name,
                          .payload_bytes = payload_bytes,
                          .samples = SAMPLES,
                          .sample_rate_hz = 16000,
                          .nominal_rate_hz = 16000,
                          .channels = 1,
                          .codec = SPSH_CODEC_PCM,
                          .format = SPSH_SAMPLE_I16,
                          .bits_per_sample = 16,
                          .flags = SPSH_RECORD_PCM_HASH};
    memcpy(record.pcm_hash, hash, sizeof(hash));
    check_ok(spsh_shard_writer_add_record(writer, &record, payload, &number, &failure));
    const spsh_utterance row = {
        .id = name,
        .record = number,
        .samples = SAMPLES,
        .flags = SPSH_UTTERANCE_HAS_TEXT,
        .text = {(const uint8_t *)text, (size_t)text_bytes}
    };
    check_ok(spsh_shard_writer_add_utterance(writer, &row, &failure));
}

static void write_shard(const char *shards, uint64_t unit, uint64_t utterances,
                        spsh_shard_seal *ret_seal)
{
    spsh_shard_writer_options options = SPSH_SHARD_WRITER_OPTIONS_INIT;
    spsh_shard_writer *writer = NULL;
    const uint64_t first = unit * SHARD_UTTERANCES;

    options.directory = shards;
    options.unit = unit;
    check_ok(spsh_shard_writer_open(&options, &writer, &failure));
    for (uint64_t n = first; n < utterances && n < first + SHARD_UTTERANCES; n++)
        add(writer, n);
    check_ok(spsh_shard_writer_seal(writer, ret_seal, &failure));
    spsh_shard_writer_free(writer);
}

static uint64_t file_bytes(const char *directory, const char *name, bool removes)
{
    char path[4096];
    struct stat state = {0};
    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    must(stat(path, &state) == 0, path);
    if (removes)
        (void)unlink(path);
    return (uint64_t)state.st_size;
}

static void publish(spsh_publish_options *options, spsh_dedupe dedupe)
{
    spsh_dataset_info info = SPSH_DATASET_INFO_INIT;
    struct rusage usage;
    const double begin_ms = now_ms();
    const double begin_cpu_s = all_cpu_seconds();

    options->dedupe = dedupe;
    check_ok(spsh_dataset_publish(options, &info, &failure));
    const double cpu_s = all_cpu_seconds() - begin_cpu_s;
    (void)getrusage(RUSAGE_SELF, &usage);
    printf("{\"dedupe\": \"%s\", \"utterances\": %" PRIu64 ", \"wall_s\": %.2f, \"cpu_s\": %.2f, "
           "\"cpu_ns_per_utterance\": %.0f, \"peak_mib\": %ld, \"index_bytes\": %" PRIu64
           ", \"manifest_bytes\": %" PRIu64 "}\n",
           dedupe == SPSH_DEDUPE_NONE ? "none" : "pcm", info.utterance_count,
           (now_ms() - begin_ms) / 1e3, cpu_s, 1e9 * cpu_s / (double)info.utterance_count,
           usage.ru_maxrss / 1024,
           file_bytes(options->path, "index-00000001.spsh", dedupe == SPSH_DEDUPE_NONE),
           file_bytes(options->path, "manifest.spsh", dedupe == SPSH_DEDUPE_NONE));
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    must(argc == 4, "usage: bench_publish DIRECTORY UTTERANCES MEMORY_MIB");
    const uint64_t utterances = strtoull(argv[2], NULL, 10);
    const uint64_t count = (utterances + SHARD_UTTERANCES - 1) / SHARD_UTTERANCES;
    spsh_publish_options options = SPSH_PUBLISH_OPTIONS_INIT;
    spsh_shard_seal *seals = calloc(count + 1, sizeof(*seals));
    char shards[4096];

    (void)snprintf(shards, sizeof(shards), "%s/shards", argv[1]);
    must(seals != NULL && mkdir(argv[1], 0777) == 0 && mkdir(shards, 0777) == 0, argv[1]);
    for (uint64_t unit = 0; unit < count; unit++)
        write_shard(shards, unit, utterances, &seals[unit]);
    options.path = argv[1];
    memcpy(options.dataset_id, dataset_id, sizeof(dataset_id));
    options.seals = seals;
    options.seal_count = count;
    options.options_json = (spsh_bytes){(const uint8_t *)"{}", 2};
    options.source_row_count = utterances;
    options.memory_bytes = strtoull(argv[3], NULL, 10) << 20;
    publish(&options, SPSH_DEDUPE_NONE);
    publish(&options, SPSH_DEDUPE_PCM);
    free(seals);
    return 0;
}
