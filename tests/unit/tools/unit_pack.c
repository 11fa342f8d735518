/* unit_pack.c: packing through speechshard/pack.h: options, report, cancellation. */
#include "speechshard/pack.h"

#include "spsh_test.h"
#include "test_file.h"

static char directory[256];
static char corpus[300];
static char output[300];
static const char *const corpora[] = {corpus};

static spsh_pack_options options_of_test(void)
{
    spsh_pack_options options = SPSH_PACK_OPTIONS_INIT;
    options.corpora = corpora;
    options.corpus_count = 1;
    options.output = output;
    options.threads = 1;
    return options;
}

static void write_file(const char *name, const void *data, size_t size)
{
    char path[400];
    (void)snprintf(path, sizeof(path), "%s/%s", corpus, name);
    FILE *file = fopen(path, "wb");
    REQUIRE(file != NULL && fwrite(data, 1, size, file) == size);
    REQUIRE(fclose(file) == 0);
}

/* Two clips of a quarter of a second, one with a transcript, and a file that is not audio. */
static void make_corpus(void)
{
    static const uint8_t wav[44 + 4000] =
        "RIFF\xC4\x0F\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1F\0\0\x80\x3E\0\0\2\0\x10\0data\xA0\x0F";
    uint8_t other[sizeof(wav)];
    memcpy(other, wav, sizeof(wav));
    other[100] = 1;
    test_temp_dir(directory, sizeof(directory));
    (void)snprintf(corpus, sizeof(corpus), "%s/corpus", directory);
    (void)snprintf(output, sizeof(output), "%s/corpus.spsh", directory);
    REQUIRE(mkdir(corpus, 0777) == 0);
    write_file("a.wav", wav, sizeof(wav));
    write_file("a.txt", "hello", 5);
    write_file("b.wav", other, sizeof(other));
    write_file("c.wav", "no audio", 8);
}

/* A pack with these options is rejected, and the message has the word. */
static void check_rejected(const spsh_pack_options *options, const char *word)
{
    spsh_pack_report *report = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    CHECK_I64(spsh_pack(options, &report, &err), SPSH_E_INVALID_ARG);
    CHECK(report == NULL);
    CHECK(strstr(err.message, word) != NULL);
    if (strstr(err.message, word) == NULL)
        fprintf(stderr, "no %s: %s\n", word, err.message);
    CHECK(access(output, F_OK) != 0);
}

static void test_options(void)
{
    static const char *const columns[] = {"txt=class"};
    static const char *const two[] = {corpus, "-"};
    const struct {
        size_t offset, size;
        uint64_t value;
        const char *word;
    } wrong[] = {
        {offsetof(spsh_pack_options, output),          sizeof(char *),           0,       "output"      },
        {offsetof(spsh_pack_options, corpus_count),    sizeof(size_t),           0,       "corpora"     },
        {offsetof(spsh_pack_options, shard_bytes),     sizeof(uint64_t),         1,       "shard_bytes" },
        {offsetof(spsh_pack_options, memory_bytes),    sizeof(uint64_t),         1,       "memory_bytes"},
        {offsetof(spsh_pack_options, rejects_max_ppm), sizeof(uint64_t),         1000001,
         "rejects_max_ppm"                                                                              },
        {offsetof(spsh_pack_options, threads),         sizeof(uint32_t),         1025,    "threads"     },
        {offsetof(spsh_pack_options, rate_hz),         sizeof(uint32_t),         999,     "rate_hz"     },
        {offsetof(spsh_pack_options, codec),           sizeof(spsh_pack_codec),  4,       "codec"       },
        {offsetof(spsh_pack_options, dedupe),          sizeof(spsh_pack_dedupe), 4,       "dedupe"      },
        {offsetof(spsh_pack_options, struct_size),     sizeof(size_t),           1,       "struct_size" },
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        spsh_pack_options options = options_of_test();
        memcpy((uint8_t *)&options + wrong[i].offset, &wrong[i].value, wrong[i].size);
        check_rejected(&options, wrong[i].word);
    }
    spsh_pack_options options = options_of_test();
    options.rate_hz = 8000;
    options.codec = SPSH_PACK_KEEP;
    check_rejected(&options, "rate_hz");
    options.rate_hz = 0;
    options.codec = SPSH_PACK_FLAC;
    options.trusts_headers = true;
    check_rejected(&options, "trusts_headers");
    options = options_of_test();
    options.layout_name = "nothing";
    check_rejected(&options, "layout_name");
    options.layout_name = NULL;
    options.column_rules = columns;
    options.column_rule_count = 1;
    check_rejected(&options, "txt=class");
    options.column_rule_count = 0;
    options.corpora = two;
    options.corpus_count = 2;
    check_rejected(&options, "\"-\"");
    CHECK(spsh_pack_column_is_valid("text=class") && !spsh_pack_column_is_valid("text="));
}

static void test_layouts(void)
{
    bool has_folder = false;
    for (size_t i = 0; i < spsh_pack_layout_count(); i++) {
        has_folder = has_folder || strcmp(spsh_pack_layout_name(i), "folder") == 0;
        CHECK(spsh_pack_layout_summary(i)[0] != '\0');
    }
    CHECK(has_folder);
}

static void test_missing_corpus(void)
{
    const char *const missing[] = {"/nowhere/corpus"};
    spsh_pack_options options = options_of_test();
    spsh_pack_report *report = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    options.corpora = missing;
    CHECK_I64(spsh_pack(&options, &report, &err), SPSH_E_NOT_FOUND);
    CHECK(strstr(err.message, "/nowhere/corpus") != NULL);
    CHECK(access(output, F_OK) != 0);
}

static void check_report(const spsh_pack_report *report)
{
    const spsh_pack_facts *facts = spsh_pack_report_facts(report);
    CHECK_U64(facts->rows_in, 3);
    CHECK_U64(facts->packed, 2);
    CHECK_U64(facts->rejected, 1);
    CHECK_U64(facts->without_text, 1);
    CHECK_U64(facts->audio_ms, 500);
    CHECK_U64(facts->shard_count, 1);
    CHECK(facts->seconds == 0.5 && facts->min_seconds == 0.25 && facts->max_seconds == 0.25);
    CHECK(facts->percent_1_seconds == 0.25 && facts->percent_99_seconds == 0.25);
    REQUIRE(facts->source_count == 1 && facts->reject_count == 1);
    REQUIRE(facts->domain_count == 1 && facts->split_count == 1 && facts->kind_count == 1);
    const spsh_pack_source *source = spsh_pack_report_source(report, 0);
    CHECK(source->corpus[0] == '/' && strcmp(source->root, ".") == 0);
    CHECK(strcmp(source->layout, "folder") == 0);
    CHECK_U64(source->rows_in, 3);
    CHECK_U64(source->rejected, 1);
    const spsh_pack_reject *reject = spsh_pack_report_reject(report, 0);
    CHECK(reject->lines == 1 && reject->rows == 1);
    CHECK_U64(spsh_pack_report_domain(report, 0)->utterances, 2);
    CHECK_U64(spsh_pack_report_split(report, 0)->utterances, 2);
    const spsh_pack_kind *kind = spsh_pack_report_kind(report, 0);
    CHECK(kind->sample_rate_hz == 8000 && kind->channels == 1 && kind->utterances == 2);
}

static void test_report(void)
{
    const spsh_pack_options options = options_of_test();
    spsh_pack_report *report = NULL;
    spsh_pack_report *again = NULL;
    REQUIRE(spsh_pack(&options, &report, NULL) == SPSH_OK);
    check_report(report);
    REQUIRE(spsh_pack(&options, &again, NULL) == SPSH_OK);
    const spsh_pack_facts *facts = spsh_pack_report_facts(again);
    CHECK(facts->is_already_packed);
    CHECK_U64(facts->packed, 2);
    CHECK(memcmp(facts->dataset_id, spsh_pack_report_facts(report)->dataset_id, 16) == 0);
    spsh_pack_report_free(again);
    spsh_pack_report_free(report);
    test_remove_tree(output);
}

static void test_strict(void)
{
    spsh_pack_options options = options_of_test();
    spsh_pack_report *report = NULL;
    options.is_strict = true;
    REQUIRE(spsh_pack(&options, &report, NULL) == SPSH_OK);
    const spsh_pack_facts *facts = spsh_pack_report_facts(report);
    CHECK(facts->is_withheld && facts->kind_count == 0);
    CHECK_U64(facts->rejected, 1);
    spsh_pack_report_free(report);
    test_remove_tree(output);
}

typedef struct watch {
    const char *cancel_at; /* phase at which to cancel; NULL: never */
    bool has_canceled;
    bool has_merged; /* the index reported its shards */
    uint64_t utterances, rejected;
    unsigned lines;
} watch;

static int on_progress(void *user, const char *phase, uint64_t done, uint64_t total)
{
    watch *w = (watch *)user;
    w->has_merged = w->has_merged || (strcmp(phase, "index") == 0 && done < total);
    if (w->cancel_at == NULL || strcmp(phase, w->cancel_at) != 0)
        return 0;
    w->has_canceled = true;
    return 1;
}

static void on_counts(void *user, uint64_t utterances, uint64_t rejected_rows)
{
    watch *w = (watch *)user;
    w->utterances = utterances;
    w->rejected = rejected_rows;
}

static void on_log(void *user, spsh_log_level level, const char *text)
{
    watch *w = (watch *)user;
    (void)level;
    w->lines += strchr(text, '\n') == NULL;
}

static void test_cancel(void)
{
    static const char *const phases[] = {"scan", "pack", "merge", "names", "index", "views"};
    spsh_pack_options options = options_of_test();
    options.progress_fn = on_progress;
    options.counts_fn = on_counts;
    options.log_fn = on_log;
    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
        spsh_pack_report *report = NULL;
        watch w = {.cancel_at = phases[i]};
        options.user = &w;
        spsh_error err = SPSH_ERROR_INIT;
        CHECK_I64(spsh_pack(&options, &report, &err), SPSH_E_CANCELED);
        CHECK(w.has_canceled && report == NULL);
        CHECK(strstr(err.message, "repeat the same pack") != NULL);
        w.cancel_at = NULL;
        REQUIRE(spsh_pack(&options, &report, NULL) == SPSH_OK);
        check_report(report);
        CHECK(w.lines > 0 && w.has_merged);
        CHECK_U64(w.utterances, 3); /* including the rejected one */
        CHECK_U64(w.rejected, 1);
        spsh_pack_report_free(report);
        test_remove_tree(output);
    }
}

TEST_MAIN(unit_pack)
{
    make_corpus();
    RUN(test_options);
    RUN(test_layouts);
    RUN(test_missing_corpus);
    RUN(test_report);
    RUN(test_strict);
    RUN(test_cancel);
    test_remove_tree(directory);
    return TEST_RESULT();
}
