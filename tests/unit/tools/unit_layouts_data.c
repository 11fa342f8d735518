/* unit_layouts_data.c: real corpora, detected and counted. Missing corpora are skipped. */
#include "spsh_test.h"

#include "common/file_names.h"
#include "ingest/layouts/layouts.h"

typedef struct counts {
    uint64_t items, rejects, rows_lost, texts, bytes;
    uint64_t reasons[SPSH_REJECT_COUNT];
} counts;

static spsh_status count_item(void *user, const spsh_ingest_item *item, spsh_error *err)
{
    counts *c = user;
    (void)err;
    c->items++;
    c->texts += item->has_text || item->sidecar.path != NULL;
    c->bytes += item->source_bytes;
    CHECK(access(item->audio.path, R_OK) == 0);
    return SPSH_OK;
}

static spsh_status count_reject(void *user, const spsh_reject *reject, spsh_error *err)
{
    counts *c = user;
    (void)err;
    c->rejects++;
    c->rows_lost += reject->rows;
    c->reasons[reject->reason]++;
    return SPSH_OK;
}

/* The rows of a corpus are its utterances and the lost rows. Audio may exist only for some. */
static void check_corpus(const char *relative, const char *layout, uint64_t rows, bool complete)
{
    char root[1024];
    const spsh_layout *found = NULL;
    spsh_layout_probe probe = {0};
    spsh_error err = SPSH_ERROR_INIT;
    counts c = {0};
    test_data_path(root, sizeof(root), relative);
    spsh__view *view = NULL;
    const spsh__view_options view_options = {.root = root};
    REQUIRE(spsh__view_open(&view_options, &view, &err) == SPSH_OK);
    const spsh_ingest_options options = {.view = view};
    const spsh_ingest_sink sink = {count_item, count_reject, NULL, NULL, NULL, NULL, &c};
    CHECK_I64(spsh__layout_detect(view, &found, &probe, &err), SPSH_OK);
    REQUIRE(found != NULL);
    CHECK_STR(found->name, layout);
    CHECK_I64(spsh__layout_scan(found, &options, &sink, &err), SPSH_OK);
    spsh__view_close(view);
    printf("       %s: %" PRIu64 " utterances, %" PRIu64 " with text, %" PRIu64 " rejects\n",
           relative, c.items, c.texts, c.rejects);
    CHECK_U64(c.items + c.rows_lost, rows);
    CHECK_U64(c.reasons[SPSH_REJECT_MISSING_AUDIO], c.rejects);
    CHECK(c.items > 0);
    if (complete)
        CHECK_U64(c.rejects, 0);
}

static void test_manifests(void)
{
    check_corpus("fsdd", "table", 3000, true);
    check_corpus("fsdd/MANIFEST.tsv", "table", 3000, true);
    check_corpus("kerstin-pairs", "table", 120, true);
    check_corpus("yesno", "table", 60, true);
    check_corpus("ljspeech-3codecs", "table", 96, true);
    check_corpus("librispeech-351", "table", 351, true);
    check_corpus("precise-community/MANIFEST.tsv", "table", 1014, false);
    check_corpus("esc10-noise/MANIFEST.tsv", "table", 400, false);
}

static void test_folders(void)
{
    check_corpus("fsdd/recordings", "folder", 3000, true);
    check_corpus("kerstin-pairs/original", "folder", 120, true);
    check_corpus("librispeech-351/librispeech_train-clean-100", "folder", 251, true);
}

static void test_librispeech(void)
{
    static const char *const roots[] = {"", "/LibriSpeech", "/LibriSpeech/test-clean"};
    for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
        char root[128];
        (void)snprintf(root, sizeof(root), "librispeech-layout%s", roots[i]);
        check_corpus(root, "librispeech", 4, true);
    }
}

/* Manifests whose recordings are outputs of commands: every row is reported, and no command is run.
 */
static void check_commands(const char *relative, const char *layout, uint64_t rows)
{
    char root[1024];
    char scratch[512];
    const spsh_layout *found = NULL;
    spsh_layout_probe probe = {0};
    spsh__view *view = NULL;
    counts c = {0};
    test_data_path(root, sizeof(root), relative);
    test_temp_dir(scratch, sizeof(scratch));
    const spsh__view_options view_options = {.root = root, .scratch_directory = scratch};
    REQUIRE(spsh__view_open(&view_options, &view, NULL) == SPSH_OK);
    const spsh_ingest_options options = {.view = view};
    const spsh_ingest_sink sink = {count_item, count_reject, NULL, NULL, NULL, NULL, &c};
    CHECK_I64(spsh__layout_detect(view, &found, &probe, NULL), SPSH_OK);
    REQUIRE(found != NULL);
    CHECK_STR(found->name, layout);
    CHECK_I64(spsh__layout_scan(found, &options, &sink, NULL), SPSH_OK);
    CHECK_U64(c.items, 0);
    CHECK_U64(c.rows_lost, rows);
    CHECK_U64(c.reasons[SPSH_REJECT_COMMAND_SOURCE], rows);
    CHECK_U64(c.rejects, rows);
    spsh__view_close(view);
    test_remove_tree(scratch);
}

static void test_commands(void)
{
    check_commands("lhotse-fixtures/test/fixtures/mini_librispeech", "kaldi", 38);
    check_commands("lhotse-fixtures/test/fixtures/mini_librispeech2", "kaldi", 3);
    check_commands("lhotse-fixtures/test/fixtures/mini_librispeech/lhotse", "lhotse", 38);
    check_commands("lhotse-fixtures/test/fixtures/mini_librispeech/lhotse-b", "lhotse", 38);
    check_commands("lhotse-fixtures/test/fixtures/mini_librispeech2/lhotse", "lhotse", 3);
    check_commands("lhotse-fixtures/test/fixtures/mini_librispeech2/lhotse/supervisions.jsonl.gz",
                   "lhotse", 3);
}

/* Lhotse's own clips, named by absolute paths. */
static void test_lhotse(void)
{
    static const char *const clips[] = {"libri/libri-1088-134315-0000.wav",
                                        "mix_cut_test/audio/storage/2412-153948-0000.flac",
                                        "common_voice_en_651325.mp3", "stereo.opus"};
    char folder[512];
    char clip[1024];
    char path[1024];
    counts c = {0};
    spsh__view *view = NULL;
    test_temp_dir(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/cuts.jsonl", folder);
    FILE *file = fopen(path, "wb");
    REQUIRE(file != NULL);
    for (size_t i = 0; i < sizeof(clips) / sizeof(clips[0]); i++) {
        char relative[256];
        (void)snprintf(relative, sizeof(relative), "lhotse-fixtures/test/fixtures/%s", clips[i]);
        test_data_path(clip, sizeof(clip), relative);
        (void)fprintf(file,
                      "{\"id\": \"%zu\", \"type\": \"MonoCut\", \"start\": 0.1, \"duration\": 0.2, "
                      "\"channel\": 0, \"supervisions\": [], \"recording\": {\"id\": \"r%zu\", "
                      "\"sources\": [{\"type\": \"file\", \"channels\": [0], \"source\": \"%s\"}], "
                      "\"sampling_rate\": 16000, \"num_samples\": 16000, \"duration\": 1.0}}\n",
                      i, i, clip);
    }
    REQUIRE(fclose(file) == 0);
    const spsh__view_options view_options = {.root = folder};
    REQUIRE(spsh__view_open(&view_options, &view, NULL) == SPSH_OK);
    const spsh_ingest_options options = {.view = view};
    const spsh_ingest_sink sink = {count_item, count_reject, NULL, NULL, NULL, NULL, &c};
    CHECK_I64(spsh__layout_scan(spsh__layout_find("lhotse"), &options, &sink, NULL), SPSH_OK);
    CHECK_U64(c.items, sizeof(clips) / sizeof(clips[0]));
    CHECK_U64(c.rejects, 0);
    spsh__view_close(view);
    test_remove_tree(folder);
}

TEST_MAIN(unit_layouts_data)
{
    RUN(test_manifests);
    RUN(test_folders);
    RUN(test_librispeech);
    RUN(test_commands);
    RUN(test_lhotse);
    return TEST_RESULT();
}
