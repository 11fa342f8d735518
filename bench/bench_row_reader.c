/* bench_row_reader.c: how many rows of corpus metadata are read per second of one core.
 *
 *     bench_row_reader [ROWS] > table
 *
 * The text is made here: rows like Common Voice's validated.tsv (13 columns, about 230 bytes) and
 * LibriSpeech's .trans.txt, in memory. Five rounds, the ways in turn, so that a busy machine slows
 * all alike. Printed: the median of rows and of MB per second of processor time, and the spread.
 *
 *     memchr   only find every line end and TAB: the limit of any reader
 *     RAW, RFC, RFC quoted, KALDI: the readers
 *     table    the whole layout "table" over a file: parse, ids, extras as JSON, one stat per row
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench_kit.h"
#include "common/byte_builder.h"
#include "common/row_reader.h"
#include "ingest/layouts/layouts.h"

#define ROUNDS       5
#define ROWS_DEFAULT 500000U
#define AUDIO_FILES  1000U

typedef struct text {
    spsh__builder bytes;
    spsh__dialect dialect;
} text;

static uint64_t rows_wanted = ROWS_DEFAULT;
static char folder[] = "/tmp/bench_row_reader-XXXXXX";

static void append_cell(text *t, const char *cell, bool quoted, bool last)
{
    if (quoted)
        spsh__builder_append(&t->bytes, "\"", 1);
    spsh__builder_append_text(&t->bytes, cell);
    if (quoted)
        spsh__builder_append(&t->bytes, "\"", 1);
    spsh__builder_append(&t->bytes, last ? "\n" : (const char *)&t->dialect.delimiter, 1);
}

static void make_table(text *t, bool quoted)
{
    static const char *const header[] = {"client_id",       "path",     "sentence_id", "sentence",
                                         "sentence_domain", "up_votes", "down_votes",  "age",
                                         "gender",          "accents",  "variant",     "locale",
                                         "segment"};
    const size_t count = sizeof(header) / sizeof(header[0]);
    for (size_t i = 0; i < count; i++)
        append_cell(t, header[i], false, i + 1 == count);
    for (uint64_t row = 0; row < rows_wanted; row++) {
        char path[64];
        char id[80];
        (void)snprintf(path, sizeof(path), "common_voice_en_%u.mp3",
                       (unsigned)(row * 7 % AUDIO_FILES));
        (void)snprintf(id, sizeof(id), "%064" PRIx64, row * UINT64_C(0x9e3779b97f4a7c15));
        const char *const cells[] = {
            id,
            path,
            id,
            "It is a long established fact that a reader will be distracted.",
            "",
            "2",
            "0",
            "twenties",
            "female_feminine",
            "United States English",
            "",
            "en",
            ""};
        for (size_t i = 0; i < count; i++)
            append_cell(t, cells[i], quoted, i + 1 == count);
    }
    must(!t->bytes.failed, "memory");
}

static void make_transcripts(text *t)
{
    for (uint64_t row = 0; row < rows_wanted; row++) {
        char line[160];
        int length = snprintf(line, sizeof(line),
                              "1089-%llu-%04u HE HOPED THERE WOULD BE STEW FOR DINNER TURNIPS AND "
                              "CARROTS AND BRUISED POTATOES AND FAT MUTTON\n",
                              (unsigned long long)(row / 40), (unsigned)(row % 40));
        spsh__builder_append(&t->bytes, line, (size_t)length);
    }
    must(!t->bytes.failed, "memory");
}

static uint64_t read_memchr(const text *t)
{
    const uint8_t *at = t->bytes.data;
    const uint8_t *const end = at + t->bytes.size_bytes;
    uint64_t found = 0;
    uint64_t rows = 0;
    while (at < end) {
        const uint8_t *lf = memchr(at, '\n', (size_t)(end - at));
        for (const uint8_t *tab = at; (tab = memchr(tab, '\t', (size_t)(lf - tab))) != NULL; tab++)
            found++;
        at = lf + 1;
        rows++;
    }
    must(found > 0, "no TABs");
    return rows;
}

static uint64_t read_rows(const text *t)
{
    const spsh__text_memory memory = {t->bytes.data, t->bytes.size_bytes};
    const spsh__text_input input = spsh__text_input_memory(&memory, "bench");
    spsh__row_reader *reader = NULL;
    spsh__row row;
    uint64_t rows = 0;
    must(spsh__row_reader_new(&input, &t->dialect, &reader, NULL) == SPSH_OK, "reader");
    while (spsh__row_reader_next(reader, &row, NULL) == SPSH_OK)
        rows += row.problem == NULL;
    spsh__row_reader_free(reader);
    return rows;
}

static spsh_status count_item(void *user, const spsh_ingest_item *item, spsh_error *ret_err)
{
    uint64_t *rows = user;
    (void)item, (void)ret_err;
    ++*rows;
    return SPSH_OK;
}

static spsh_status count_reject(void *user, const spsh_reject *reject, spsh_error *ret_err)
{
    (void)user, (void)reject, (void)ret_err;
    return SPSH_OK;
}

static void path_of(char *path, size_t size, const char *name)
{
    must((size_t)snprintf(path, size, "%s/%s", folder, name) < size, "path");
}

static void write_folder(const text *t)
{
    char path[128];
    char name[64];
    must(mkdtemp(folder) != NULL, folder);
    path_of(path, sizeof(path), "clips");
    must(mkdir(path, 0777) == 0, path);
    for (unsigned i = 0; i < AUDIO_FILES; i++) {
        (void)snprintf(name, sizeof(name), "clips/common_voice_en_%u.mp3", i);
        path_of(path, sizeof(path), name);
        FILE *file = fopen(path, "wb");
        must(file != NULL && fclose(file) == 0, path);
    }
    path_of(path, sizeof(path), "validated.tsv");
    FILE *file = fopen(path, "wb");
    must(file != NULL && fwrite(t->bytes.data, t->bytes.size_bytes, 1, file) == 1 &&
             fclose(file) == 0,
         path);
}

static void remove_folder(void)
{
    char path[128];
    char name[64];
    for (unsigned i = 0; i < AUDIO_FILES; i++) {
        (void)snprintf(name, sizeof(name), "clips/common_voice_en_%u.mp3", i);
        path_of(path, sizeof(path), name);
        must(unlink(path) == 0, path);
    }
    path_of(path, sizeof(path), "validated.tsv");
    must(unlink(path) == 0, path);
    path_of(path, sizeof(path), "clips");
    must(rmdir(path) == 0 && rmdir(folder) == 0, folder);
}

static uint64_t read_layout(const text *t)
{
    char path[128];
    uint64_t rows = 0;
    (void)t;
    path_of(path, sizeof(path), "validated.tsv");
    spsh__view *view = NULL;
    const spsh__view_options view_options = {.root = path};
    must(spsh__view_open(&view_options, &view, NULL) == SPSH_OK, path);
    const spsh_ingest_options options = {.view = view};
    const spsh_ingest_sink sink = {.emit_fn = count_item, .reject_fn = count_reject, .user = &rows};
    must(spsh__layout_scan(&spsh__layout_table, &options, &sink, NULL) == SPSH_OK, "scan");
    spsh__view_close(view);
    return rows;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        rows_wanted = strtoull(argv[1], NULL, 10);
    text raw = {
        .dialect = {.kind = SPSH__DIALECT_RAW, .delimiter = '\t'}
    };
    text rfc = {
        .dialect = {.kind = SPSH__DIALECT_RFC, .delimiter = ','}
    };
    text quoted = {
        .dialect = {.kind = SPSH__DIALECT_RFC, .delimiter = ','}
    };
    text kaldi = {.dialect = {.kind = SPSH__DIALECT_KALDI}};
    const struct {
        const char *name;
        const text *text;
        uint64_t (*read_fn)(const text *t);
    } ways[] = {
        {"memchr",     &raw,    read_memchr},
        {"RAW",        &raw,    read_rows  },
        {"RFC",        &rfc,    read_rows  },
        {"RFC quoted", &quoted, read_rows  },
        {"KALDI",      &kaldi,  read_rows  },
        {"table",      &raw,    read_layout}
    };
    enum { WAYS = sizeof(ways) / sizeof(ways[0]) };
    double seconds[WAYS][ROUNDS];
    uint64_t rows[WAYS];
    must(rows_wanted > 0, "ROWS");
    make_table(&raw, false);
    make_table(&rfc, false);
    make_table(&quoted, true);
    make_transcripts(&kaldi);
    write_folder(&raw);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < WAYS; i++) {
            const double begin = cpu_seconds();
            rows[i] = ways[i].read_fn(ways[i].text);
            seconds[i][round] = cpu_seconds() - begin;
        }
    }
    remove_folder();
    printf("%-12s %12s %10s %8s\n", "way", "rows/s", "MB/s", "spread");
    for (size_t i = 0; i < WAYS; i++) {
        const figure time = figure_of(seconds[i], ROUNDS);
        printf("%-12s %12.0f %10.0f %7.0f%%\n", ways[i].name, (double)rows[i] / time.median,
               (double)ways[i].text->bytes.size_bytes / time.median * 1e-6, time.spread_percent);
    }
    spsh__builder_free(&raw.bytes);
    spsh__builder_free(&rfc.bytes);
    spsh__builder_free(&quoted.bytes);
    spsh__builder_free(&kaldi.bytes);
    return 0;
}
