/* bench_metadata.c: the cost of reading an utterance's text, at random positions.
 *
 *     bench_metadata make DATASET UTTERANCES
 *     bench_metadata read DATASET CALLS [SHARDS-OPEN]
 *
 * make writes text of about 150 bytes, and ids and paths like those of corpora. It prints the sizes
 * of the metadata blocks, the shard indexes, and the dataset index. read prints microseconds of
 * processor time per call of spsh_reader_metadata, five rounds.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench_kit.h"
#include "speechshard/publish.h"

enum { ROUNDS = 5, WORDS = 4000, SHARDS_MAX = 64, SHARD_ROWS = 25000 };

static char words[WORDS][12];

static spsh_bytes text_of(const char *text)
{
    return (spsh_bytes){(const uint8_t *)text, strlen(text)};
}

static void make_words(void)
{
    static const char *const parts[] = {"th", "an", "er", "on", "re", "st", "al", "i",
                                        "in", "e",  "o",  "ou", "t",  "en", "w",  "l"};
    uint64_t random = 7;
    for (size_t i = 0; i < WORDS; i++) {
        size_t size = 0;
        for (size_t n = 1 + (size_t)(next_random(&random) % 4); n > 0; n--)
            size += (size_t)snprintf(words[i] + size, sizeof(words[i]) - size, "%s",
                                     parts[next_random(&random) % 16]);
    }
}

/* Words as often as in language: the n-th about 1 / n times as often as the first. */
static void make_text(uint64_t *random, char dst[400])
{
    size_t size = 0;
    const size_t wanted = 60 + (size_t)(next_random(random) % 180);
    while (size < wanted) {
        double u = (double)(next_random(random) >> 11) / 9007199254740992.0;
        size_t word = 0;
        while (word < WORDS - 1 && u > 0.11)
            u -= 0.11 / (double)++word;
        size += (size_t)snprintf(dst + size, 400 - size, "%s%s", size == 0 ? "" : " ", words[word]);
    }
}

static void make_shard(const char *directory, uint32_t unit, uint64_t rows, spsh_shard_seal *seal)
{
    spsh_shard_writer_options opt = SPSH_SHARD_WRITER_OPTIONS_INIT;
    spsh_shard_writer *writer = NULL;
    uint64_t random = unit, record = 0;
    opt.directory = directory;
    opt.unit = unit;
    check_ok(spsh_shard_writer_open(&opt, &writer, &failure));
    const spsh_record head = {.id = text_of("recording"),
                              .payload_bytes = 5,
                              .samples = 160000,
                              .sample_rate_hz = 16000,
                              .nominal_rate_hz = 16000,
                              .channels = 1,
                              .codec = SPSH_CODEC_FLAC,
                              .format = SPSH_SAMPLE_I16,
                              .bits_per_sample = 16,
                              .flags = SPSH_RECORD_UNDECODABLE};
    check_ok(spsh_shard_writer_add_record(writer, &head, "hello", &record, &failure));
    for (uint64_t row = 0; row < rows; row++) {
        char id[64], source[128], speaker[16], text[400];
        const uint32_t who = (uint32_t)(next_random(&random) % 2000);
        const uint32_t chapter = (uint32_t)(next_random(&random) % 200000);
        (void)snprintf(id, sizeof(id), "%u-%u-%04" PRIu64, who, chapter, row % 60);
        (void)snprintf(id + strlen(id), sizeof(id) - strlen(id), "-%u-%" PRIu64, unit, row);
        (void)snprintf(source, sizeof(source), "train-clean/%u/%u/%s.flac", who, chapter, id);
        (void)snprintf(speaker, sizeof(speaker), "%u", who);
        make_text(&random, text);
        const spsh_utterance utterance = {.id = text_of(id),
                                          .record = record,
                                          .samples = 160000,
                                          .flags = SPSH_UTTERANCE_HAS_TEXT,
                                          .domain = text_of("read"),
                                          .split = text_of("train"),
                                          .speaker = text_of(speaker),
                                          .language = text_of("en"),
                                          .text = text_of(text),
                                          .source = text_of(source)};
        check_ok(spsh_shard_writer_add_utterance(writer, &utterance, &failure));
    }
    check_ok(spsh_shard_writer_seal(writer, seal, &failure));
    spsh_shard_writer_free(writer);
}

static int make(const char *path, uint64_t utterances)
{
    static spsh_shard_seal seals[SHARDS_MAX];
    spsh_publish_options opt = SPSH_PUBLISH_OPTIONS_INIT;
    char file[4200];
    struct stat info;
    uint64_t shard_bytes = 0;
    const uint64_t shards = (utterances + SHARD_ROWS - 1) / SHARD_ROWS;
    (void)snprintf(file, sizeof(file), "%s/shards", path);
    if (shards == 0 || shards > SHARDS_MAX || mkdir(path, 0777) != 0 || mkdir(file, 0777) != 0) {
        fprintf(stderr, "bench_metadata: %s: cannot be made\n", path);
        return 1;
    }
    make_words();
    for (uint64_t n = 0; n < shards; n++) {
        const uint64_t left = utterances - n * SHARD_ROWS;
        make_shard(file, (uint32_t)n, left < SHARD_ROWS ? left : SHARD_ROWS, &seals[n]);
        shard_bytes += seals[n].file_bytes;
    }
    opt.path = path;
    opt.seals = seals;
    opt.seal_count = shards;
    opt.options_json = text_of("{}");
    check_ok(spsh_dataset_publish(&opt, NULL, &failure));
    (void)snprintf(file, sizeof(file), "%s/index-00000001.spsh", path);
    if (stat(file, &info) != 0)
        return 1;
    printf("bytes an utterance: shards (metadata and index) %.2f, dataset index %.2f\n",
           (double)shard_bytes / (double)utterances, (double)info.st_size / (double)utterances);
    return 0;
}

static int read_all(const char *path, uint64_t calls, uint32_t shards_open)
{
    spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
    spsh_dataset *dataset = NULL;
    spsh_reader *reader = NULL;
    uint64_t random = 1, bytes = 0;
    opt.shards_open_max = shards_open;
    check_ok(spsh_dataset_open(path, &opt, &dataset, &failure));
    check_ok(spsh_reader_open(dataset, &reader, &failure));
    const uint64_t count = spsh_dataset_info_get(dataset)->utterance_count;
    for (int round = 0; round < ROUNDS; round++) {
        const double begin = cpu_seconds();
        for (uint64_t i = 0; i < calls; i++) {
            spsh_utterance utterance;
            check_ok(
                spsh_reader_metadata(reader, next_random(&random) % count, &utterance, &failure));
            bytes += utterance.text.size_bytes;
        }
        printf("%.2f us a call\n", (cpu_seconds() - begin) * 1e6 / (double)calls);
    }
    printf("text: %.1f bytes a call\n", (double)bytes / (double)(calls * ROUNDS));
    spsh_reader_close(reader);
    spsh_dataset_close(dataset);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "make") == 0)
        return make(argv[2], strtoull(argv[3], NULL, 10));
    if (argc >= 4 && argc <= 5 && strcmp(argv[1], "read") == 0)
        return read_all(argv[2], strtoull(argv[3], NULL, 10),
                        argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0);
    fprintf(stderr,
            "usage: bench_metadata make DATASET UTTERANCES | read DATASET CALLS [SHARDS-OPEN]\n");
    return 2;
}
