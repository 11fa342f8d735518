/* bench_read.c: how fast sealed shards are read and checked; bench/read.sh compares it with fio.
 *
 *     bench_read make DATASET GIBIBYTES        shards of 1 GiB, records of 160,000 random bytes
 *     bench_read verify DATASET [cached] [JOBS]
 *     bench_read shuffled DATASET COUNT DEPTH  records in random order, each checked
 *
 * Each prints one line: bytes, seconds, MB/s, CPU seconds per GB (user and system of the process).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "bench_kit.h"
#include "speechshard/publish.h"
#include "speechshard/read_engine.h"
#include "speechshard/verify.h"

enum {
    PAYLOAD_BYTES = 160000, /* ten seconds of 16 kHz speech in FLAC */
    SAMPLES = 160000,
    SHARDS_MAX = 64,
};
#define SHARD_BYTES (UINT64_C(1) << 30)

/* ---- clocks ---- */

typedef struct stopwatch {
    double wall, cpu;
} stopwatch;

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static stopwatch now(void)
{
    struct timespec wall;
    struct rusage used;
    (void)clock_gettime(CLOCK_MONOTONIC, &wall);
    (void)getrusage(RUSAGE_SELF, &used);
    return (stopwatch){(double)wall.tv_sec + (double)wall.tv_nsec / 1e9,
                       seconds_of(used.ru_utime) + seconds_of(used.ru_stime)};
}

static void print_line(const char *what, stopwatch begin, uint64_t bytes)
{
    stopwatch end = now();
    double wall = end.wall - begin.wall, cpu = end.cpu - begin.cpu;
    printf("%s %" PRIu64 " bytes %.3f s %.0f MB/s %.3f cpu-s/GB\n", what, bytes, wall,
           (double)bytes / 1e6 / wall, cpu / ((double)bytes / 1e9));
}

/* ---- make ---- */

static spsh_bytes text_of(const char *text)
{
    return (spsh_bytes){(const uint8_t *)text, strlen(text)};
}

static void make_shard(const char *directory, uint32_t unit, spsh_shard_seal *ret_seal)
{
    static uint64_t payload[PAYLOAD_BYTES / 8];
    spsh_shard_writer_options opt = SPSH_SHARD_WRITER_OPTIONS_INIT;
    spsh_shard_writer *writer = NULL;
    uint64_t random = unit;
    opt.directory = directory;
    opt.unit = unit;
    memset(opt.dataset_id, 0x42, 16);
    check_ok(spsh_shard_writer_open(&opt, &writer, &failure));
    for (uint32_t n = 0; spsh_shard_writer_size(writer) + PAYLOAD_BYTES < SHARD_BYTES; n++) {
        char id[64], speaker[32];
        uint64_t record = 0;
        (void)snprintf(id, sizeof(id), "speaker-%u/chapter-%u/utterance-%06u", n % 251, unit, n);
        (void)snprintf(speaker, sizeof(speaker), "speaker-%u", n % 251);
        for (size_t i = 0; i < sizeof(payload) / 8; i++)
            payload[i] = next_random(&random);
        const spsh_record head = {.id = text_of(id),
                                  .payload_bytes = PAYLOAD_BYTES,
                                  .samples = SAMPLES,
                                  .sample_rate_hz = 16000,
                                  .nominal_rate_hz = 16000,
                                  .channels = 1,
                                  .codec = SPSH_CODEC_FLAC,
                                  .format = SPSH_SAMPLE_I16,
                                  .bits_per_sample = 16};
        check_ok(spsh_shard_writer_add_record(writer, &head, payload, &record, &failure));
        const spsh_utterance row = {
            .id = text_of(id),
            .record = record,
            .samples = SAMPLES,
            .flags = SPSH_UTTERANCE_HAS_TEXT,
            .domain = text_of("read"),
            .split = text_of("train"),
            .speaker = text_of(speaker),
            .language = text_of("en"),
            .text = text_of("a sentence of about the length that people read aloud in ten seconds, "
                            "give or take a few words, which is what corpora of speech consist of"),
            .source = text_of(id)};
        check_ok(spsh_shard_writer_add_utterance(writer, &row, &failure));
    }
    check_ok(spsh_shard_writer_seal(writer, ret_seal, &failure));
    spsh_shard_writer_free(writer);
}

static int make(const char *path, uint64_t shards)
{
    static spsh_shard_seal seals[SHARDS_MAX];
    char directory[4096];
    spsh_publish_options opt = SPSH_PUBLISH_OPTIONS_INIT;
    if (shards == 0 || shards > SHARDS_MAX)
        return 2;
    (void)snprintf(directory, sizeof(directory), "%s/shards", path);
    if (mkdir(path, 0777) != 0 || mkdir(directory, 0777) != 0) {
        fprintf(stderr, "bench_read: %s: cannot be made\n", path);
        return 1;
    }
    for (uint32_t unit = 0; unit < shards; unit++)
        make_shard(directory, unit, &seals[unit]);
    opt.path = path;
    memset(opt.dataset_id, 0x42, 16);
    opt.seals = seals;
    opt.seal_count = shards;
    opt.options_json = text_of("{}");
    check_ok(spsh_dataset_publish(&opt, NULL, &failure));
    return 0;
}

/* ---- verify ---- */

static int verify(const char *path, bool cached, uint32_t jobs)
{
    spsh_verify_options opt = SPSH_VERIFY_OPTIONS_INIT;
    spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
    opt.jobs = jobs;
    opt.flags = cached ? SPSH_VERIFY_CACHED : 0;
    stopwatch begin = now();
    check_ok(spsh_verify(path, &opt, &result, &failure));
    char what[64];
    (void)snprintf(what, sizeof(what), "verify %s%s jobs %u", result.engine,
                   result.direct ? " direct" : " cached", jobs);
    print_line(what, begin, result.bytes);
    return result.damage_count == 0 ? 0 : 1;
}

/* ---- shuffled records ---- */

typedef struct place {
    uint32_t shard, record_bytes;
    uint64_t offset_bytes;
} place;

static void choose(const spsh_dataset *dataset, place *places, uint64_t count)
{
    const spsh_dataset_info *info = spsh_dataset_info_get(dataset);
    uint64_t random = 1;
    for (uint64_t n = 0; n < count; n++) {
        spsh_row row;
        check_ok(spsh_dataset_rows(dataset, next_random(&random) % info->utterance_count, 1, &row,
                                   &failure));
        places[n] = (place){row.payload_shard, row.record_bytes, row.record_offset_bytes};
    }
}

static int shuffled(const char *path, uint64_t count, uint32_t depth)
{
    spsh_dataset *dataset = NULL;
    spsh_read_engine *engine = NULL;
    uint32_t files[SHARDS_MAX];
    uint8_t file_ids[SHARDS_MAX][16];
    check_ok(spsh_dataset_open(path, NULL, &dataset, &failure));
    const uint64_t shards = spsh_dataset_info_get(dataset)->shard_count;
    place *places = shards <= SHARDS_MAX ? malloc((size_t)count * sizeof(*places)) : NULL;
    if (places == NULL)
        return 1;
    choose(dataset, places, count);
    const spsh_read_engine_options opt = {
        .struct_size = sizeof(opt),
        .arena_bytes = (size_t)depth * (PAYLOAD_BYTES + 16384),
        .requests_max = depth,
        .files_max = SHARDS_MAX,
    };
    check_ok(spsh_read_engine_open(&opt, &engine, &failure));
    for (uint64_t n = 0; n < shards; n++) {
        char name[32], file[4200];
        spsh_shard_seal seal;
        check_ok(spsh_dataset_shard(dataset, n, &seal, &failure));
        spsh_shard_file_name(seal.unit, seal.number, name);
        (void)snprintf(file, sizeof(file), "%s/shards/%s", path, name);
        check_ok(spsh_read_engine_add_file(engine, file, &files[n], &failure));
        memcpy(file_ids[n], seal.file_id, 16);
    }
    uint64_t asked = 0, bytes = 0;
    stopwatch begin = now();
    for (uint64_t n = 0; n < count; n++) {
        spsh_read_completion done;
        spsh_record record;
        spsh_bytes payload;
        for (; asked < count && spsh_read_has_space(engine, places[asked].record_bytes); asked++)
            check_ok(spsh_read_submit(engine, files[places[asked].shard],
                                      places[asked].offset_bytes, places[asked].record_bytes, asked,
                                      &failure));
        check_ok(spsh_read_wait(engine, &done, &failure));
        must(done.status == SPSH_OK, "read");
        check_ok(spsh_record_check(file_ids[places[n].shard], done.offset_bytes, done.data,
                                   done.got_bytes, &record, &payload, &failure));
        bytes += done.got_bytes;
        spsh_read_recycle(engine, &done);
    }
    char what[64];
    (void)snprintf(what, sizeof(what), "shuffled %s depth %u", spsh_read_engine_name(engine),
                   depth);
    print_line(what, begin, bytes);
    spsh_read_engine_close(engine);
    spsh_dataset_close(dataset);
    free(places);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "make") == 0)
        return make(argv[2], strtoull(argv[3], NULL, 10));
    if (argc >= 3 && strcmp(argv[1], "verify") == 0) {
        const bool cached = argc > 3 && strcmp(argv[3], "cached") == 0;
        const char *jobs = argc > 3 && !cached ? argv[3] : argc > 4 ? argv[4] : "0";
        return verify(argv[2], cached, (uint32_t)strtoul(jobs, NULL, 10));
    }
    if (argc == 5 && strcmp(argv[1], "shuffled") == 0)
        return shuffled(argv[2], strtoull(argv[3], NULL, 10), (uint32_t)strtoul(argv[4], NULL, 10));
    fprintf(stderr, "usage: bench_read make DATASET GIBIBYTES | verify DATASET [cached] [JOBS] |\n"
                    "                  shuffled DATASET COUNT DEPTH\n");
    return 2;
}
