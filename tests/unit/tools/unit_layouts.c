/* unit_layouts.c: the utterances and rejects of each layout, on small trees that are built here,
 * with the flaws of real corpora. The test compares every utterance and every reject.
 *
 * An utterance is one line: id, source, text ("..." or ~sidecar or -), domain, split, speaker,
 * language, document, extras, start-end. A reject is one line: !reason, source, line, rows. Lines
 * are sorted.
 */
#include "spsh_test.h"

#include <fcntl.h>

#include "common/file_names.h"
#include "ingest/layouts/layouts.h"
#include "test_tree.h"

static void make_parents(const char *path)
{
    char part[1024];
    (void)snprintf(part, sizeof(part), "%s", path);
    for (char *slash = strchr(part + strlen(base) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        REQUIRE(mkdir(part, 0777) == 0 || errno == EEXIST);
        *slash = '/';
    }
}

static void make_bytes(const char *relative, const void *data, size_t size)
{
    const char *path = at(relative);
    make_parents(path);
    FILE *file = fopen(path, "wb");
    REQUIRE(file != NULL);
    REQUIRE(size == 0 || fwrite(data, 1, size, file) == size);
    REQUIRE(fclose(file) == 0);
}

static void make(const char *relative, const char *text)
{
    make_bytes(relative, text, strlen(text));
}

static void make_link(const char *target, const char *relative)
{
    const char *path = at(relative);
    make_parents(path);
    REQUIRE(symlink(target, path) == 0);
}

static void begin(void)
{
    test_temp_dir(base, sizeof(base));
}

static void end(void)
{
    test_remove_tree(base);
}

/** Lines that a scan returned. */
typedef struct lines {
    char *lines[64];
    size_t count;
    uint64_t items, rows_lost;
    spsh_status stop_with; /* what emit returns */
} lines;

static void add_line(lines *l, const spsh__builder *text)
{
    if (l->count == sizeof(l->lines) / sizeof(l->lines[0]))
        return;
    l->lines[l->count] = strndup((const char *)text->data, text->size_bytes);
    REQUIRE(l->lines[l->count++] != NULL);
}

static void add_value(spsh__builder *line, spsh_bytes value)
{
    spsh__builder_append_text(line, " ");
    if (value.size_bytes == 0)
        spsh__builder_append_text(line, "-");
    spsh__builder_append_bytes(line, value);
}

static spsh_status take_item(void *user, const spsh_ingest_item *item, spsh_error *err)
{
    lines *l = user;
    char range[64];
    spsh__builder line = {0};
    (void)err;
    spsh__builder_append_bytes(&line, item->id);
    add_value(&line, item->source);
    spsh__builder_append_text(&line, " ");
    if (item->has_text) {
        spsh__builder_append_text(&line, "\"");
        spsh__builder_append_bytes(&line, item->text);
        spsh__builder_append_text(&line, "\"");
    } else if (item->sidecar.path != NULL) {
        spsh__builder_append_text(&line, "~");
        spsh__builder_append_text(&line, strrchr(item->sidecar.path, '/') + 1);
        CHECK(access(item->sidecar.path, R_OK) == 0);
    } else {
        spsh__builder_append_text(&line, "-");
    }
    const spsh_bytes values[] = {item->domain,   item->split,    item->speaker,
                                 item->language, item->document, item->extras};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        add_value(&line, values[i]);
    if (item->end_ns != SPSH_SEGMENT_END || item->start_ns != 0) {
        (void)snprintf(range, sizeof(range), " %" PRIu64 "-%" PRIu64, item->start_ns,
                       item->end_ns == SPSH_SEGMENT_END ? 0 : item->end_ns);
        spsh__builder_append_text(&line, range);
    }
    REQUIRE(!line.failed);
    CHECK(access(item->audio.path, F_OK) == 0);
    CHECK(item->recording_id.size_bytes > 0);
    add_line(l, &line);
    spsh__builder_free(&line);
    l->items++;
    return l->stop_with;
}

static spsh_status take_reject(void *user, const spsh_reject *reject, spsh_error *err)
{
    lines *l = user;
    char place[64];
    spsh__builder line = {0};
    (void)err;
    spsh__builder_append_text(&line, "!");
    spsh__builder_append_text(&line, spsh__reject_reason_text(reject->reason));
    add_value(&line, reject->source);
    (void)snprintf(place, sizeof(place), " %" PRIu64 " %" PRIu64, reject->line, reject->rows);
    spsh__builder_append_text(&line, place);
    CHECK((reject->line == 0) == (reject->offset_bytes == SPSH_OFFSET_NONE));
    CHECK(reject->excerpt.size_bytes <= 200);
    add_line(l, &line);
    spsh__builder_free(&line);
    l->rows_lost += reject->rows;
    return SPSH_OK;
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/** Options for a root without a view. */
typedef struct corpus_options {
    const char *root, *domain_rule, *split_filter;
    bool follow_links;
} corpus_options;

static spsh_status scan_into(const char *layout, const corpus_options *options,
                             const spsh_ingest_sink *sink, spsh_error *err)
{
    spsh__view *view = NULL;
    const spsh__view_options view_options = {.root = options->root,
                                             .follow_links = options->follow_links};
    const spsh_layout *found = spsh__layout_find(layout);
    REQUIRE(found != NULL);
    spsh_status rc = spsh__view_open(&view_options, &view, err);
    const spsh_ingest_options ingest = {
        .view = view, .domain_rule = options->domain_rule, .split_filter = options->split_filter};
    if (rc == SPSH_OK)
        rc = spsh__layout_scan(found, &ingest, sink, err);
    spsh__view_close(view);
    return rc;
}

static spsh_status detect(const char *root, const spsh_layout **ret_layout,
                          spsh_layout_probe *ret_probe, spsh_error *err)
{
    spsh__view *view = NULL;
    const spsh__view_options options = {.root = root};
    spsh_status rc = spsh__view_open(&options, &view, err);
    if (rc == SPSH_OK)
        rc = spsh__layout_detect(view, ret_layout, ret_probe, err);
    spsh__view_close(view);
    return rc;
}

static spsh_status scan(const char *layout, const corpus_options *options, lines *l,
                        spsh_error *err)
{
    const spsh_ingest_sink sink = {take_item, take_reject, NULL, NULL, NULL, NULL, l};
    spsh_status rc = scan_into(layout, options, &sink, err);
    qsort(l->lines, l->count, sizeof(l->lines[0]), compare_lines);
    return rc;
}

static void free_lines(lines *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->lines[i]);
    *l = (lines){0};
}

/* Scan, and compare all lines. want: NULL-terminated. */
static void check_scan(const char *layout, const corpus_options *options, const char *const *want)
{
    lines got = {0};
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = scan(layout, options, &got, &err);
    if (rc != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    CHECK_I64(rc, SPSH_OK);
    size_t count = 0;
    for (; want[count] != NULL; count++)
        CHECK_STR(count < got.count ? got.lines[count] : "(nothing)", want[count]);
    CHECK_U64(got.count, count);
    for (size_t i = count; i < got.count; i++)
        fprintf(stderr, "    more: %s\n", got.lines[i]);
    free_lines(&got);
}

static void check_refused(const char *layout, const corpus_options *options, spsh_status want,
                          const char *words)
{
    lines got = {0};
    spsh_error err = SPSH_ERROR_INIT;
    CHECK_I64(scan(layout, options, &got, &err), want);
    if (strstr(err.message, words) == NULL)
        CHECK_STR(err.message, words);
    CHECK_U64(got.items, 0);
    free_lines(&got);
}

static void check_detected(const char *root, const char *want)
{
    const spsh_layout *layout = NULL;
    spsh_layout_probe probe = {0};
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = detect(root, &layout, &probe, &err);
    CHECK_STR(rc == SPSH_OK ? layout->name : spsh_status_name(rc), want);
    CHECK((rc == SPSH_OK ? probe.evidence : err.message)[0] != '\0');
}

static void make_librispeech(const char *top)
{
    char path[256];
    const struct {
        const char *name, *text;
    } files[] = {
        {"SPEAKERS.TXT",                                      ";ID  |SEX| SUBSET           |MINUTES| NAME\n"
                         "60   | M | train-clean-100  | 20.18 | |CBW|Simon\n"
                         "84   | F | dev-clean        | 8.02  | Christie Nowak\n"},
        {"train-clean-100/60/121082/60-121082.trans.txt",
         "60-121082-0000 A NAME WITH PIPES\r\n60-121082-0001 NO AUDIO\r\n\r\n"
         "60-121082-0002\tTAB AND   BLANKS \r\n"                                                         },
        {"train-clean-100/60/121082/60-121082-0000.flac",     "x"                                        },
        {"train-clean-100/60/121082/60-121082-0002.flac",     "x"                                        },
        {"train-clean-100/60/121082/60-121082-0002.wav",      "x"                                        },
        {"train-clean-100/60/121082/60-121082-0003.flac",     "x"                                        },
        {"train-clean-100/60/121082/60-121082.alignment.txt", "60-121082-0000 \",A\" \"0.1\"\n"          },
        {"dev-other/84/9/84-9.trans.txt",                     "84-9-0000 LAST LINE"                      },
        {"dev-other/84/9/84-9-0000.wav",                      "x"                                        },
        {"dev-clean-2/7/1/7-1.trans.txt",                     "7-1-0000 \xff\nnot an id\n7-1-0001 \n"    },
        {"dev-clean-2/7/1/7-1-0000.flac",                     "x"                                        },
        {"dev-clean-2/7/1/7-1-0001.flac",                     "x"                                        },
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s%s", top, files[i].name);
        make(path, files[i].text);
    }
}

static void test_librispeech(void)
{
    static const char *const want[] = {
        "!excluded_by_rule LibriSpeech/train-clean-100/60/121082/60-121082-0002.wav 0 0",
        "!missing_audio LibriSpeech/train-clean-100/60/121082/60-121082-0001.flac 2 1",
        "!orphan_audio LibriSpeech/train-clean-100/60/121082/60-121082-0003.flac 0 0",
        "!row_syntax LibriSpeech/dev-clean-2/7/1/7-1.trans.txt 2 1",
        "!text_invalid_utf8 LibriSpeech/dev-clean-2/7/1/7-1-0000.flac 1 1",
        "60-121082-0000 LibriSpeech/train-clean-100/60/121082/60-121082-0000.flac "
        "\"A NAME WITH PIPES\" librispeech/clean train librispeech/60 en 121082 "
        "{\"gender\":\"M\",\"subset\":\"train-clean-100\"}",
        "60-121082-0002 LibriSpeech/train-clean-100/60/121082/60-121082-0002.flac "
        "\"TAB AND   BLANKS\" librispeech/clean train librispeech/60 en 121082 "
        "{\"gender\":\"M\",\"subset\":\"train-clean-100\"}",
        "7-1-0001 LibriSpeech/dev-clean-2/7/1/7-1-0001.flac \"\" librispeech/clean dev "
        "librispeech/7 en 1 {\"subset\":\"dev-clean-2\"}",
        "84-9-0000 LibriSpeech/dev-other/84/9/84-9-0000.wav \"LAST LINE\" librispeech/other dev "
        "librispeech/84 en 9 {\"gender\":\"F\",\"subset\":\"dev-other\"}",
        NULL};
    begin();
    make_librispeech("LibriSpeech/");
    check_detected(base, "librispeech");
    check_scan("librispeech", &(corpus_options){.root = base}, want);
    end();
}

/* The same from a subset, a reader, and a chapter: the path of the root supplies their names. */
static void test_librispeech_roots(void)
{
    static const char *const roots[] = {"dev-other", "dev-other/84", "dev-other/84/9/"};
    static const char *const sources[] = {"84/9/84-9-0000.wav", "9/84-9-0000.wav", "84-9-0000.wav"};
    begin();
    make_librispeech("");
    for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
        char want[256];
        (void)snprintf(want, sizeof(want),
                       "84-9-0000 %s \"LAST LINE\" librispeech/other dev librispeech/84 en 9 "
                       "{\"subset\":\"dev-other\"}",
                       sources[i]);
        check_detected(at(roots[i]), "librispeech");
        check_scan("librispeech", &(corpus_options){.root = at(roots[i])},
                   (const char *const[]){want, NULL});
    }
    end();
}

static void test_librispeech_rules(void)
{
    const char *const want = "84-9-0000 dev-other/84/9/84-9-0000.wav \"LAST LINE\" 84 dev "
                             "librispeech/84 en 9 {\"gender\":\"F\",\"subset\":\"dev-other\"}";
    lines got = {0};
    begin();
    make_librispeech("");
    const corpus_options options = {
        .root = base, .domain_rule = "dir:2", .split_filter = "test,dev-other"};
    CHECK(scan("librispeech", &options, &got, NULL) == SPSH_OK);
    CHECK_U64(got.items, 1);
    /* Rows of the excluded splits do not count as lost, although one lacks audio. The lost row is
     * the line without an id. */
    CHECK_U64(got.rows_lost, 1);
    CHECK_STR(got.lines[got.count - 1], want);
    free_lines(&got);
    check_refused("librispeech", &(corpus_options){.root = base, .domain_rule = "column:speaker"},
                  SPSH_E_INVALID_ARG, "no columns");
    end();
}

static void test_table_csv(void)
{
    static const char *const want[] = {
        "!bad_id b.wav 10 1",
        "!missing_audio t.csv 9 1",
        "!missing_audio wavs/none.wav 6 1",
        "!remote_source https://example.org/a.wav 7 1",
        "!row_field_count t.csv 5 1",
        "!row_syntax t.csv 12 1",
        "!text_invalid_utf8 b.wav 8 1",
        "first wavs/a.wav \"\"hi\", two\" news train anna de - {\"n\":\"x\\\"y\",\"dur\":\"1.5\"}",
        "wavs/b b.wav - default - - - - -",
        NULL};
    begin();
    make("wavs/a.wav", "x");
    make("b.wav", "x");
    make("t.csv", "\xef\xbb\xbf\"ID\",File-Name,sentence,Speaker ID,lang,domain,split,n,dur\r\n"
                  "first,wavs/a.wav,\"\"\"hi\"\", two\",anna,de,news,train,\"x\"\"y\",1.5\r\n"
                  "\r\n"
                  "wavs/b,./b.wav,,N/A,-,unknown\r\n"
                  "a,b.wav,t,s,l,d,s,n,1,too many\r\n"
                  "a,wavs/none.wav,t\r\n"
                  "a,https://example.org/a.wav,t\r\n"
                  "a,b.wav,\xff\xfe\r\n"
                  "a,,t\r\n"
                  "\"a\nb\",b.wav,t\r\n"
                  "\"open,b.wav,t\r\n");
    check_detected(base, "table");
    check_detected(at("t.csv"), "table");
    check_scan("table", &(corpus_options){.root = base}, want);
    end();
}

static void test_table_raw_tsv(void)
{
    static const char *const want[] = {
        "common_voice_en_1 clips/common_voice_en_1.mp3 \"An unbalanced \" quote\" en - 3f en - "
        "{\"up_votes\":\"2\"}",
        "common_voice_en_2 clips/common_voice_en_2.mp3 \"nan\" en - 3f en - {\"age\":\"teens\"}",
        NULL};
    begin();
    make("clips/common_voice_en_1.mp3", "x");
    make("clips/common_voice_en_2.mp3", "x");
    make("manifest.tsv", "speaker\tpath\tsentence\tup_votes\tage\tlocale\n"
                         "3f\tcommon_voice_en_1.mp3\tAn unbalanced \" quote\t2\t\ten\n"
                         "3f\tcommon_voice_en_2\tnan\t\tteens\ten\n");
    check_detected(base, "table");
    check_scan("table", &(corpus_options){.root = base}, want);
    end();
}

static void test_table_quoting(void)
{
    static const char *const raw[] = {"a a.wav \"\"b\"\" default - - - - -", NULL};
    static const char *const rfc[] = {"a a.wav \"b\" default - - - - -", NULL};
    begin();
    make("a.wav", "x");
    make("t.tsv", "path\ttext\na.wav\t\"b\"\n");
    const corpus_options options = {.root = at("t.tsv")};
    check_refused("table", &options, SPSH_E_SYNTAX, "from line 2 on");
    check_refused("table", &options, SPSH_E_SYNTAX, "layout_name table-raw");
    check_scan("table-raw", &options, raw);
    check_scan("table-rfc", &options, rfc);
    end();
}

static void test_table_segments(void)
{
    static const char *const want[] = {
        "!segment_range long.flac 5 1",
        "!segment_range long.flac 6 1",
        "!segment_range long.flac 7 1",
        "long long.flac \"whole\" default - - - - -",
        "long#0-500000000 long.flac \"head\" default - - - - - 0-500000000",
        "long#1250000000-2500000000 long.flac \"a\" default - - - - {\"duration\":\"9\"} "
        "1250000000-2500000000",
        "long#3000000000-4500000000 long.flac \"b\" default - - - - {\"duration\":\"1.5\"} "
        "3000000000-4500000000",
        "long#7000000000-end long.flac \"tail\" default - - - - - 7000000000-0",
        NULL};
    begin();
    make("long.flac", "x");
    make("t.csv", "audio,text,start,end_ms,duration\n"
                  "long,a,1.25,2500,9\n"
                  "long,b,3,,1.5\n"
                  "long,whole,,,\n"
                  "long,c,2,1000,\n"
                  "long,d,one,2000,\n"
                  "long,e,1,-1,\n"
                  "long,tail,7,nan,\n"
                  "long,head,,500,\n");
    check_scan("table", &(corpus_options){.root = base}, want);
    end();
}

/* Files that differ only by their extension keep it in their id. Others lose it. */
static void test_table_mixed_extensions(void)
{
    static const char *const want[] = {"a.flac a.flac - default - - - - -",
                                       "a.wav a.wav - default - - - - -",
                                       "b b.mp3 - default - - - - -", NULL};
    begin();
    make("a.wav", "x");
    make("a.flac", "x");
    make("b.mp3", "x");
    make("t.txt", "path\tspk\na.wav\t\na.flac\t\nb.mp3\t\n");
    check_detected(base, "table");
    check_scan("table", &(corpus_options){.root = at("t.txt")}, want);
    end();
}

static void test_table_paths(void)
{
    char table[2048];
    char outside[1300];
    char stem[600];
    static const char *want[] = {"!not_regular pipe.wav 5 1",
                                 NULL,
                                 "in in.wav - default - - - - -",
                                 "odd%0Aname odd%0Aname.wav - default - - - - -",
                                 "with.dots with.dots.wav - default - - - - -",
                                 NULL};
    begin();
    make("c/in.wav", "x");
    make("c/with.dots.wav", "x");
    make("c/odd\nname.wav", "x");
    make("out.wav", "x");
    REQUIRE(mkfifo(at("c/pipe.wav"), 0666) == 0);
    (void)snprintf(table, sizeof(table),
                   "wav\n\"%s/c/in.wav\"\n%s/out.wav\nwith.dots\npipe.wav\n\"odd\nname.wav\"\n",
                   base, base);
    make("c/list.csv", table);
    (void)snprintf(stem, sizeof(stem), "%s/out", base);
    (void)snprintf(outside, sizeof(outside), "%s %s.wav - default - - - - -", stem, stem);
    want[1] = outside;
    check_scan("table", &(corpus_options){.root = at("c")}, want);
    end();
}

/* Paths that do not name a file. */
static void test_table_empty_paths(void)
{
    static const char *const want[] = {"!missing_audio ./ 2 1",
                                       "!missing_audio / 3 1",
                                       "!missing_audio clips/ 4 1",
                                       "!missing_audio t.csv 5 1",
                                       "a clips/a.wav - default - - - - -",
                                       NULL};
    begin();
    make("clips/a.wav", "x");
    make("t.csv", "wav,speaker\n./\n/\nclips/\n,x\na\n");
    check_scan("table", &(corpus_options){.root = at("t.csv")}, want);
    end();
}

static void test_table_rules(void)
{
    static const char *const column[] = {
        "!excluded_by_rule ROOT 0 1", "d/a d/a.wav - red train - - - {\"colour\":\"red\"}", NULL};
    lines got = {0};
    begin();
    make("d/a.wav", "x");
    make("d/b.wav", "x");
    make("t.csv", "path,split,colour\nd/a.wav,train,red\nd/b.wav,test,\n");
    corpus_options options = {
        .root = base, .domain_rule = "column:Colour", .split_filter = "dev,train"};
    CHECK(scan("table", &options, &got, NULL) == SPSH_OK);
    CHECK_U64(got.count, 2);
    CHECK_U64(got.rows_lost, 0);
    CHECK_STR(got.lines[1], column[1]);
    free_lines(&got);
    options.domain_rule = "column:nothing";
    check_refused("table", &options, SPSH_E_INVALID_ARG, "no column 'nothing'");
    options.domain_rule = "dir:0";
    check_refused("table", &options, SPSH_E_INVALID_ARG, "dir:-1");
    make("t.csv", "path\nd/a.wav\n");
    options.domain_rule = NULL;
    check_refused("table", &options, SPSH_E_INVALID_ARG, "no splits");
    end();
}

static void test_table_refusals(void)
{
    begin();
    make("a.wav", "x");
    make("one.csv", "path,text\na.wav,x\n");
    make("two.csv", "path,text\na.wav,y\n");
    make("nope.csv", "name,text\nb,c\n");
    make("gone.csv", "path,text\nb.wav,c\n");
    check_detected(base, "SPSH_E_INVALID_ARG");
    check_detected(at("nope.csv"), "SPSH_E_NOT_FOUND");
    check_detected(at("gone.csv"), "table");
    check_refused("table", &(corpus_options){.root = base}, SPSH_E_INVALID_ARG,
                  "one.csv and two.csv");
    check_refused("table", &(corpus_options){.root = at("nope.csv")}, SPSH_E_SYNTAX,
                  "it begins 'name,text'");
    make_bytes("u16.csv", "\xff\xfep\0a\0", 6);
    check_refused("table", &(corpus_options){.root = at("u16.csv")}, SPSH_E_SYNTAX, "UTF-16");
    make_bytes("z.csv", "\x1f\x8b\x08", 3);
    check_refused("table", &(corpus_options){.root = at("z.csv")}, SPSH_E_SYNTAX, "compressed");
    end();
}

static void test_table_dialects(void)
{
    static const char *const want[] = {"a a.wav \"x, \"y\" z\" default - - - - "
                                       "{\"column3\":\"u\",\"n\":\"1\",\"n#5\":\"2\"}",
                                       NULL};
    static const char *const texts[] = {
        "path|text||n|n\na.wav | x, \"y\" z |u|1|2\n",
        "path;text;;n;n\na.wav;x, \"y\" z;u;1;2\n",
        "path\ttext\t\tn\tn\na.wav\tx, \"y\" z\tu\t1\t2\n",
        "path,text,,n,n\na.wav,\"x, \"\"y\"\" z\",u,1,2\n",
    };
    begin();
    make("a.wav", "x");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        /* The extension suggests the delimiter to try first. Another one is possible. */
        make("t.csv", texts[i]);
        check_scan("table", &(corpus_options){.root = at("t.csv")}, want);
    }
    end();
}

/* Keys of extras are unique even if names are empty, repeated, or not UTF-8. */
static void test_table_odd_columns(void)
{
    static const char *const want[] = {
        "a a.wav - default - - - - "
        "{\"n#5\":\"1\",\"\xef\xbf\xbd\":\"2\",\"n\":\"3\",\"n#5#5\":\"4\","
        "\"\xef\xbf\xbd#6\":\"5\",\"column7\":\"6\",\"column7#8\":\"7\"}",
        NULL};
    begin();
    make("a.wav", "x");
    make("t.csv", "path,n#5,\xc3,n,n,\xff,,column7\na.wav,1,2,3,4,5,6,7\n");
    check_scan("table", &(corpus_options){.root = at("t.csv")}, want);
    end();
}

static void test_folder(void)
{
    static const char *const want[] = {"!not_regular s/fifo.wav 0 1",
                                       "!orphan_text s/lonely.lab 0 0",
                                       "!unreadable s/dead.flac 0 1",
                                       "%FF%0A %FF%0A.wav - default - - - - -",
                                       "100%25ab 100%25ab.wav - default - - - - -",
                                       "a.b a.b.WAV ~a.b.txt default - - - - -",
                                       "deep/er/x deep/er/x.ogg - default - - - - -",
                                       "file file.wav - default - - - - -",
                                       "s/both.flac s/both.flac ~both.txt default - - - - -",
                                       "s/both.wav s/both.wav ~both.txt default - - - - -",
                                       "s/n s/n.mp3 ~n.normalized.txt default - - - - -",
                                       "s/p s/p.opus ~p.lab default - - - - -",
                                       "s/twice s/twice.wav - default - - - - -",
                                       "s/twice.wav.flac s/twice.wav.flac - default - - - - -",
                                       NULL};
    const char *const files[] = {
        "100%ab.wav",
        "\xff\n.wav",
        "a.b.WAV",
        "a.b.txt",
        "deep/er/x.ogg",
        "file.wav",
        "deep/README.txt",
        "s/both.flac",
        "s/both.wav",
        "s/both.txt",
        "s/both.lab",
        "s/n.mp3",
        "s/n.normalized.txt",
        "s/n.original.txt",
        "s/p.opus",
        "s/p.lab",
        "s/p.trn",
        "s/lonely.lab",
        "s/twice.wav",
        "s/twice.wav.flac",
        "s/notes.md",
        "._file.wav",
        ".cache/c.wav",
        "s/x.wav.part",
        ".git/y.wav",
        "s/.wav",
    };
    begin();
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        make(files[i], "x");
    REQUIRE(mkfifo(at("s/fifo.wav"), 0666) == 0);
    make_link("nowhere", "s/dead.flac");
    check_detected(base, "folder");
    check_scan("folder", &(corpus_options){.root = base}, want);
    end();
}

static void test_folder_links(void)
{
    static const char *const plain[] = {
        "!excluded_by_rule en/loop 0 0",     "!excluded_by_rule en_US 0 0",
        "!excluded_by_rule outside 0 0",     "en/a en/a.wav - default - - - - -",
        "en/b en/b.wav - default - - - - -", NULL};
    static const char *const followed[] = {"!excluded_by_rule en/loop 0 0",
                                           "!excluded_by_rule en_US 0 0",
                                           "en/a en/a.wav - default - - - - -",
                                           "en/b en/b.wav - default - - - - -",
                                           "outside/sub/c outside/sub/c.wav - default - - - - -",
                                           NULL};
    begin();
    make("root/en/a.wav", "x");
    make("other/sub/c.wav", "x");
    make_link("a.wav", "root/en/b.wav");
    make_link("..", "root/en/loop");
    make_link("en", "root/en_US");
    make_link("../other", "root/outside");
    check_scan("folder", &(corpus_options){.root = at("root")}, plain);
    check_scan("folder", &(corpus_options){.root = at("root"), .follow_links = true}, followed);
    end();
}

static void test_folder_domains(void)
{
    const struct {
        const char *rule, *deep, *flat;
    } cases[] = {
        {NULL,     "default", "default"},
        {"radio",  "radio",   "radio"  },
        {"dir:1",  "x",       "default"},
        {"dir:2",  "y",       "default"},
        {"dir:3",  "default", "default"},
        {"dir:-1", "y",       "default"},
        {"dir:-2", "x",       "default"},
        {"dir:-3", "default", "default"},
    };
    begin();
    make("x/y/a.wav", "x");
    make("b.wav", "x");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char deep[128];
        char flat[128];
        (void)snprintf(deep, sizeof(deep), "x/y/a x/y/a.wav - %s - - - - -", cases[i].deep);
        (void)snprintf(flat, sizeof(flat), "b b.wav - %s - - - - -", cases[i].flat);
        check_scan("folder", &(corpus_options){.root = base, .domain_rule = cases[i].rule},
                   (const char *const[]){flat, deep, NULL});
    }
    check_refused("folder", &(corpus_options){.root = base, .domain_rule = "column:x"},
                  SPSH_E_INVALID_ARG, "no columns");
    check_refused("folder", &(corpus_options){.root = base, .domain_rule = "dir:x"},
                  SPSH_E_INVALID_ARG, "dir:1");
    check_refused("folder", &(corpus_options){.root = base, .domain_rule = ""}, SPSH_E_INVALID_ARG,
                  "write a name");
    check_refused("folder", &(corpus_options){.root = base, .split_filter = "train"},
                  SPSH_E_INVALID_ARG, "no splits");
    end();
}

/* Permissions do not restrict root, so a process of root scans as another user. */
static void test_unreadable_folder(void)
{
    static const char *const want[] = {"!unreadable shut 0 0", "a a.wav - default - - - - -", NULL};
    const bool root = geteuid() == 0;
    begin();
    make("a.wav", "x");
    make("shut/b.wav", "x");
    REQUIRE(chmod(at("shut"), 0) == 0 && chmod(base, 0755) == 0);
    REQUIRE(!root || seteuid(65534) == 0);
    if (eaccess(base, R_OK | X_OK) == 0)
        check_scan("folder", &(corpus_options){.root = base}, want);
    REQUIRE(!root || seteuid(0) == 0);
    REQUIRE(chmod(at("shut"), 0777) == 0);
    end();
}

/* A path that is longer than the kernel accepts is reported. The scan continues with other files.
 */
static void test_path_too_long(void)
{
    enum { DEPTH = 25 };
    char name[201];
    int fds[DEPTH + 1];
    lines got = {0};
    memset(name, 'd', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    begin();
    make("a.wav", "x");
    fds[0] = open(base, O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < DEPTH; i++) {
        REQUIRE(fds[i] >= 0 && mkdirat(fds[i], name, 0777) == 0);
        fds[i + 1] = openat(fds[i], name, O_RDONLY | O_DIRECTORY);
    }
    CHECK(scan("folder", &(corpus_options){.root = base}, &got, NULL) == SPSH_OK);
    CHECK_U64(got.items, 1);
    CHECK_U64(got.count, 2);
    CHECK(strncmp(got.lines[0], "!unreadable ddd", 15) == 0);
    free_lines(&got);
    for (int i = DEPTH; i > 0; i--) {
        REQUIRE(close(fds[i]) == 0);
        REQUIRE(unlinkat(fds[i - 1], name, AT_REMOVEDIR) == 0);
    }
    REQUIRE(close(fds[0]) == 0);
    end();
}

static void test_many_files_in_one_folder(void)
{
    enum { FILES = 20000 };
    lines got = {0};
    begin();
    int fd = open(base, O_RDONLY | O_DIRECTORY);
    REQUIRE(fd >= 0);
    for (int i = 0; i < FILES; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "clip_%d.%s", i / 2, i % 2 == 0 ? "wav" : "txt");
        int file = openat(fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
        REQUIRE(file >= 0 && close(file) == 0);
    }
    REQUIRE(close(fd) == 0);
    CHECK(scan("folder", &(corpus_options){.root = base}, &got, NULL) == SPSH_OK);
    CHECK_U64(got.items, FILES / 2);
    CHECK_U64(got.rows_lost, 0);
    free_lines(&got);
    end();
}

static spsh_status cancel(void *user, uint64_t files_seen, spsh_error *err)
{
    uint64_t *calls = user;
    ++*calls;
    spsh_error_set(err, SPSH_E_CANCELED, 0, SPSH_OFFSET_NONE, "canceled at %" PRIu64, files_seen);
    return SPSH_E_CANCELED;
}

static spsh_status ignore_item(void *user, const spsh_ingest_item *item, spsh_error *err)
{
    (void)user, (void)item, (void)err;
    return SPSH_OK;
}

static void test_stopping(void)
{
    static const char *const layouts[] = {"librispeech", "table", "folder"};
    begin();
    make_librispeech("");
    make("t.csv", "path\ndev-other/84/9/84-9-0000.wav\n");
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        uint64_t calls = 0;
        lines got = {.stop_with = SPSH_E_NO_SPACE};
        const corpus_options options = {.root = base};
        const spsh_ingest_sink sink = {ignore_item, take_reject, cancel, NULL, NULL, NULL, &calls};
        CHECK_I64(scan(layouts[i], &options, &got, NULL), SPSH_E_NO_SPACE);
        CHECK_U64(got.items, 1);
        free_lines(&got);
        /* take_reject would write to the counter as if it were lines. Only the table has no
         * rejects. */
        if (strcmp(layouts[i], "table") == 0)
            CHECK_I64(scan_into(layouts[i], &options, &sink, NULL), SPSH_E_CANCELED);
    }
    end();
}

static void test_nothing_is_recognised(void)
{
    const spsh_layout *layout = NULL;
    spsh_layout_probe probe = {0};
    spsh_error err = SPSH_ERROR_INIT;
    begin();
    make("x/notes.md", "x");
    make("x/paper.pdf", "x");
    make("x/more.md", "x");
    CHECK(detect(base, &layout, &probe, &err) == SPSH_E_NOT_FOUND);
    CHECK(strstr(err.message, "2 .md") != NULL && strstr(err.message, "1 .pdf") != NULL);
    CHECK(detect(at("absent"), &layout, &probe, &err) == SPSH_E_NOT_FOUND);
    CHECK(detect(at("x/notes.md"), &layout, &probe, &err) == SPSH_E_NOT_FOUND);
    CHECK(layout == NULL);
    CHECK(spsh__layout_find("no such layout") == NULL);
    end();
}

TEST_MAIN(unit_layouts)
{
    RUN(test_librispeech);
    RUN(test_librispeech_roots);
    RUN(test_librispeech_rules);
    RUN(test_table_csv);
    RUN(test_table_raw_tsv);
    RUN(test_table_quoting);
    RUN(test_table_segments);
    RUN(test_table_mixed_extensions);
    RUN(test_table_paths);
    RUN(test_table_empty_paths);
    RUN(test_table_rules);
    RUN(test_table_refusals);
    RUN(test_table_dialects);
    RUN(test_table_odd_columns);
    RUN(test_folder);
    RUN(test_folder_links);
    RUN(test_folder_domains);
    RUN(test_unreadable_folder);
    RUN(test_path_too_long);
    RUN(test_many_files_in_one_folder);
    RUN(test_stopping);
    RUN(test_nothing_is_recognised);
    return TEST_RESULT();
}
