/* bench_jsonl.c: how many MB of JSON Lines are read per second of one core.
 *
 *     bench_jsonl [MEGABYTES] > table
 *
 * The text is made here, in memory. Some lines are like NeMo's manifests (about 250 bytes, English
 * and Russian text). Others are like The People's Speech (one line per document, with lists of
 * labels, names, and durations, which are read to their end). Five rounds, the texts in turn.
 * Printed: the median of MB and lines per second of processor time, and the spread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_kit.h"
#include "common/jsonl.h"

#define ROUNDS            5
#define MEGABYTES_DEFAULT 100U

typedef struct text {
    const char *name;
    spsh__builder bytes;
    uint64_t lines;
} text;

static void append_nemo(text *t, const char *words)
{
    char line[512];
    int length = snprintf(
        line, sizeof(line),
        "{\"audio_filepath\": \"train/audio/%" PRIu64 "/%" PRIu64 ".flac\", \"duration\": %" PRIu64
        ".%03" PRIu64 ", \"text\": \"%s\", "
        "\"lang\": \"en\", \"speaker\": \"speaker-%" PRIu64 "\", \"orig_sample_rate\": 48000}\n",
        t->lines / 1000, t->lines, 4 + t->lines % 11, t->lines % 1000, words, t->lines % 5000);
    spsh__builder_append(&t->bytes, line, (size_t)length);
    t->lines++;
}

static void append_document(text *t)
{
    char piece[160];
    const uint64_t segments = 100;
    spsh__builder_append_text(&t->bytes, "{\"identifier\": \"gov_uscourts_1\", \"training_data\": "
                                         "{\"duration_ms\": [");
    for (uint64_t i = 0; i < segments; i++)
        spsh__builder_append_text(&t->bytes, i == 0 ? "14920" : ", 14985");
    spsh__builder_append_text(&t->bytes, "], \"label\": [");
    for (uint64_t i = 0; i < segments; i++) {
        spsh__builder_append_text(&t->bytes, i == 0 ? "" : ", ");
        spsh__builder_append_text(
            &t->bytes, "\"and so the question before the council tonight is whether we should "
                       "extend the contract for another year or put it out to bid as we said "
                       "we would when we met in the spring and heard from the public\"");
    }
    spsh__builder_append_text(&t->bytes, "], \"name\": [");
    for (uint64_t i = 0; i < segments; i++) {
        int length = snprintf(piece, sizeof(piece),
                              "%s\"gov_uscourts_1_SLASH_Council_Meeting_%" PRIu64
                              "_DOT_mp3_%05" PRIu64 ".flac\"",
                              i == 0 ? "" : ", ", t->lines, i);
        spsh__builder_append(&t->bytes, piece, (size_t)length);
    }
    spsh__builder_append_text(&t->bytes, "]}}\n");
    t->lines++;
}

static uint64_t count_elements(const spsh__json_value *value)
{
    spsh_bytes rest = value->raw;
    spsh__json_value element;
    uint64_t count = 0;
    while (value->kind == SPSH__JSON_ARRAY && spsh__json_array_next(&rest, &element))
        count++;
    return count;
}

static uint64_t read_text(const text *t)
{
    static const char *const names[] = {"audio_filepath",
                                        "audio_filename",
                                        "duration",
                                        "offset",
                                        "text",
                                        "text_filepath",
                                        "normalized_text",
                                        "lang",
                                        "speaker",
                                        "_skipme",
                                        "training_data.label",
                                        "training_data.name",
                                        "training_data.duration_ms"};
    const size_t count = sizeof(names) / sizeof(names[0]);
    const spsh__text_memory memory = {t->bytes.data, t->bytes.size_bytes};
    const spsh__text_input input = spsh__text_input_memory(&memory, "bench");
    spsh__jsonl_reader *reader = NULL;
    spsh__jsonl_line line;
    uint64_t lines = 0;
    uint64_t sum_ns = 0;
    must(spsh__jsonl_reader_new(&input, names, count, &reader, NULL) == SPSH_OK, "reader");
    while (spsh__jsonl_reader_next(reader, &line, NULL) == SPSH_OK) {
        uint64_t ns = 0;
        lines += line.problem == NULL;
        if (spsh__json_seconds(&line.values[2], &ns) == SPSH__TIME_OK)
            sum_ns += ns;
        for (size_t i = 10; i < count; i++)
            sum_ns += count_elements(&line.values[i]);
    }
    spsh__jsonl_reader_free(reader);
    must(sum_ns > 0, "durations");
    return lines;
}

int main(int argc, char **argv)
{
    const size_t size_bytes =
        (size_t)1000000 * (argc > 1 ? strtoull(argv[1], NULL, 10) : MEGABYTES_DEFAULT);
    text texts[] = {{.name = "nemo"}, {.name = "nemo, Cyrillic"}, {.name = "documents"}};
    enum { TEXTS = sizeof(texts) / sizeof(texts[0]) };
    double seconds[TEXTS][ROUNDS];
    must(size_bytes > 0, "MEGABYTES");
    while (texts[0].bytes.size_bytes < size_bytes)
        append_nemo(&texts[0], "it is a long established fact that a reader will be distracted by "
                               "the readable content of a page when looking at its layout");
    while (texts[1].bytes.size_bytes < size_bytes)
        append_nemo(&texts[1], "давно выяснено что при оценке дизайна и композиции читаемый "
                               "текст мешает сосредоточиться");
    while (texts[2].bytes.size_bytes < size_bytes)
        append_document(&texts[2]);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < TEXTS; i++) {
            must(!texts[i].bytes.failed, "memory");
            const double begin = cpu_seconds();
            must(read_text(&texts[i]) == texts[i].lines, "lines");
            seconds[i][round] = cpu_seconds() - begin;
        }
    }
    printf("%-16s %10s %12s %8s\n", "text", "MB/s", "lines/s", "spread");
    for (size_t i = 0; i < TEXTS; i++) {
        const figure time = figure_of(seconds[i], ROUNDS);
        printf("%-16s %10.0f %12.0f %7.0f%%\n", texts[i].name,
               (double)texts[i].bytes.size_bytes / time.median * 1e-6,
               (double)texts[i].lines / time.median, time.spread_percent);
        spsh__builder_free(&texts[i].bytes);
    }
    return 0;
}
