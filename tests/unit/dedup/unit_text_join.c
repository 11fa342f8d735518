/* unit_text_join.c: each tier on small datasets, and pairs that must not match. */
#include "common/file_names.h"
#include "speechshard/publish.h"
#include "spsh_test.h"
#include "text/name_match.h"
#include "text/source_match.h"
#include "text/text_join.h"
#include "text_dataset.h"

enum { MATCHES_MAX = 400 };

static char folder[400];
static spsh_error err = SPSH_ERROR_INIT;

/* Result of a run. */
static struct {
    spsh__match matches[MATCHES_MAX];
    size_t count;
    spsh__text_facts facts;
} result;

static spsh_status take(void *user, const spsh__match *match, spsh_error *error)
{
    (void)user, (void)error;
    REQUIRE(result.count < MATCHES_MAX);
    result.matches[result.count++] = *match;
    return SPSH_OK;
}

static const char *path_of(const char *name)
{
    static char path[600];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static spsh__print_set *open_set(const char *train, const char *test)
{
    char train_path[600];
    spsh__print_set *set = NULL;
    (void)snprintf(train_path, sizeof(train_path), "%s", path_of(train));
    const spsh_dedup_source sources[] = {
        {train_path,    "train", SPSH_SIDE_TRAIN},
        {path_of(test), "test",  SPSH_SIDE_TEST }
    };
    const spsh_status rc = spsh__print_set_open(sources, 2, NULL, &set, &err);
    if (rc != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    REQUIRE(rc == SPSH_OK);
    return set;
}

static void run_set(const spsh__print_set *set, const spsh__text_join_options *options)
{
    const spsh__match_sink sink = {take, NULL};
    free(result.facts.tests);
    memset(&result, 0, sizeof(result));
    const spsh_status rc = spsh__text_join_run(set, options, sink, &result.facts, &err);
    if (rc != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    REQUIRE(rc == SPSH_OK);
}

static const spsh__text_join_options plain = {.memory_bytes = UINT64_C(1) << 28, .threads = 2};

static void run(const char *train, const char *test, const spsh__text_join_options *options)
{
    spsh__print_set *set = open_set(train, test);
    run_set(set, options);
    spsh__print_set_close(set);
}

/* The match of two ordinals in a tier, or NULL. */
static const spsh__match *find(uint64_t a, uint64_t b, spsh_copy_tier tier)
{
    for (size_t i = 0; i < result.count; i++) {
        const spsh__match *m = &result.matches[i];
        if (m->tier == tier && m->a == (a < b ? a : b) && m->b == (a < b ? b : a))
            return m;
    }
    return NULL;
}

/* ---- texts ---- */

#define LONG_TEXT                                                                                  \
    "it was a bright cold day in the valley and the clocks of both churches were striking one "    \
    "hour after the other while nobody at all was listening to them"

static void test_texts(void)
{
    static const text_row rows[] = {
        {.id = "0", .split = "train", .text = "The Quick brown fox."                           },
        {.id = "1", .split = "train", .text = "the quick brown fix"                            },
        {.id = "2", .split = "train", .text = "before it " LONG_TEXT " and more came behind it"},
        {.id = "3", .split = "train", .text = NULL                                             },
        {.id = "4", .split = "train", .text = "..."                                            },
        {.id = "5", .split = "dev",   .text = "the quick brown fox"                            },
        {.id = "6", .split = "test",  .text = "the quick, brown fox"                           },
        {.id = "7", .split = "test",  .text = LONG_TEXT                                        },
        {.id = "8", .split = "test",  .text = NULL                                             },
        {.id = "9", .split = "test",  .text = "!"                                              },
        {.id = "A", .split = "test",  .text = "yes"                                            },
        {.id = "B", .split = "train", .text = "yet"                                            },
    };
    text_dataset_make(path_of("texts"), 1, rows, sizeof(rows) / sizeof(rows[0]));
    run("texts", "texts", &plain);
    CHECK_U64(result.count, 3);
    const spsh__match *exact = find(0, 6, SPSH_TIER_TEXT_EXACT);
    const spsh__match *near = find(1, 6, SPSH_TIER_TEXT_NEAR);
    const spsh__match *covered = find(2, 7, SPSH_TIER_TEXT_COVERED);
    REQUIRE(exact != NULL && near != NULL && covered != NULL);
    CHECK(exact->similarity == 1);
    CHECK(near->similarity > 0.94 && near->similarity < 0.95);
    CHECK(covered->coverage_b == 1 && covered->coverage_a > 0.5 && covered->coverage_a < 0.9);
    CHECK_U64(result.facts.train_count, 6);
    CHECK_U64(result.facts.test_count, 5);
    CHECK_U64(result.facts.train_empty_count, 2);
    CHECK_U64(result.facts.test_empty_count, 2);
    const spsh__text_counts *tests = result.facts.tests;
    CHECK(tests[0].exact == 1 && tests[0].near == 1 && tests[0].covered == 0);
    CHECK(tests[1].covered == 1 && tests[1].covered_share == 1);
    CHECK(tests[2].exact == 0 && tests[3].exact == 0 && tests[4].near == 0);
}

/* An overlay's transcript counts, and skipped utterances do not. */
static void test_overlays(void)
{
    static const text_row rows[] = {
        {.id = "a", .split = "train", .text = "wrong words" },
        {.id = "b", .split = "train", .text = "the sentence"},
        {.id = "c", .split = "test",  .text = "the sentence"},
        {.id = "d", .split = "test",  .text = "right words" },
    };
    text_dataset_make(path_of("overlays"), 1, rows, 4);
    const spsh_overlay_entry texts[] = {
        {spsh__bytes_of("a"), spsh__bytes_of("Right words!")}
    };
    const spsh_overlay_entry skips[] = {
        {spsh__bytes_of("b"), spsh__bytes_of("no")}
    };
    REQUIRE(spsh_overlay_add(path_of("overlays"), "texts", SPSH_OVERLAY_TRANSCRIPT, texts, 1, NULL,
                             &err) == SPSH_OK);
    REQUIRE(spsh_overlay_add(path_of("overlays"), "skips", SPSH_OVERLAY_SKIP, skips, 1, NULL,
                             &err) == SPSH_OK);
    run("overlays", "overlays", &plain);
    CHECK_U64(result.count, 1);
    CHECK(find(0, 3, SPSH_TIER_TEXT_EXACT) != NULL);
    CHECK_U64(result.facts.train_count, 1);
}

/* All matches are counted, but only the lowest ordinals are kept. */
static void test_many_are_counted(void)
{
    enum { MANY = 60 };
    static char ids[MANY][8];
    text_row rows[MANY];
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(ids[i], sizeof(ids[i]), "u%02u", i);
        rows[i] = (text_row){.id = ids[i],
                             .split = i % 20 == 7 ? "test" : "train",
                             .text = "the very same",
                             .speaker = "ann"};
    }
    text_dataset_make(path_of("many"), 1, rows, MANY);
    spsh__text_join_options options = plain;
    for (uint32_t threads = 1; threads <= 4; threads *= 2) {
        options.threads = threads;
        run("many", "many", &options);
        CHECK_U64(result.count, 3 * 20);
        for (size_t i = 0; i < result.count; i++) {
            const bool is_speaker = i % 20 >= 10;
            const uint64_t test = i / 20 * 20 + 7;
            const uint64_t train = i % 10 < 7 ? i % 10 : i % 10 + 1;
            CHECK(result.matches[i].tier ==
                  (is_speaker ? SPSH_TIER_SPEAKER : SPSH_TIER_TEXT_EXACT));
            CHECK(result.matches[i].a == (test < train ? test : train) &&
                  result.matches[i].b == (test < train ? train : test));
        }
        CHECK_U64(result.facts.tests[2].exact, MANY - 3);
        CHECK_U64(result.facts.tests[2].speaker, MANY - 3);
    }
    options.matches_max = 2;
    run("many", "many", &options);
    CHECK_U64(result.count, 3 * 4);
}

/* ---- names ---- */

static void test_speakers_and_documents(void)
{
    static const text_row train[] = {
        {.id = "0",         .split = "train", .speaker = "mls/12", .document = "77",              .domain = "mls"},
        {.id = "1",                 .split = "train",                         .speaker = "Ann",            .document = "78", .domain = "mls"},
        {.id = "2",  .split = "train",                  .speaker = "",                             .document = NULL,                                         .domain = "mls"},
        {.id = "3", .split = "train",  .speaker = "B. B.",.document = "Moby Dick"},
    };
    static const text_row test[] = {
        {.id = "4",        .split = "test", .speaker = "librispeech/12", .document = "77",    .domain = "ls"},
        {.id = "5",                .split = "test",                       .speaker = "ann",                    .document = "78", .domain = "mls"},
        {.id = "6", .split = "test",                .speaker = NULL,                                   .document = "",                                       .domain = "mls"},
        {.id = "7",  .split = "test",  .speaker = "Bob",.document = "moby  dick!"},
    };
    static const char aliases[] = "# readers of LibriVox\r\n"
                                  "mls/*\tlibrivox/*\r\n"
                                  "librispeech/*\tlibrivox/*\n\n"
                                  "B. B.\tBob";
    text_dataset_make(path_of("names-a"), 1, train, 4);
    text_dataset_make(path_of("names-b"), 2, test, 4);
    run("names-a", "names-b", &plain);
    /* Numbers are compared inside a domain; absent names not at all. */
    CHECK_U64(result.count, 1);
    CHECK(find(1, 5, SPSH_TIER_DOCUMENT) != NULL);
    CHECK(result.facts.train_speaker_count == 3 && result.facts.test_speaker_count == 3 &&
          result.facts.shared_speaker_count == 0);
    CHECK(result.facts.train_document_count == 3 && result.facts.test_document_count == 3 &&
          result.facts.shared_document_count == 1);

    char alias_path[600];
    (void)snprintf(alias_path, sizeof(alias_path), "%s/aliases.tsv", folder);
    FILE *file = fopen(alias_path, "w");
    REQUIRE(file != NULL && fputs(aliases, file) >= 0 && fclose(file) == 0);
    spsh__text_join_options options = plain;
    options.alias_path = alias_path;
    options.fold_names = true;
    run("names-a", "names-b", &options);
    CHECK_U64(result.count, 5);
    CHECK(find(0, 4, SPSH_TIER_SPEAKER) != NULL && find(1, 5, SPSH_TIER_SPEAKER) != NULL &&
          find(3, 7, SPSH_TIER_SPEAKER) != NULL && find(3, 7, SPSH_TIER_DOCUMENT) != NULL);
    CHECK_U64(result.facts.shared_speaker_count, 3);
}

static void test_bad_aliases_are_named(void)
{
    static const struct {
        const char *text, *want;
    } bad[] = {
        {"a\tb\nno tab\n", "line 2"          },
        {"\tb\n",          "line 1"          },
        {"a\t\n",          "line 1"          },
        {"a\tb\na\tc\n",   "line 2: the same"},
    };
    char alias_path[600];
    (void)snprintf(alias_path, sizeof(alias_path), "%s/bad.tsv", folder);
    spsh__name_rules *rules = NULL;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        FILE *file = fopen(alias_path, "w");
        REQUIRE(file != NULL && fputs(bad[i].text, file) >= 0 && fclose(file) == 0);
        CHECK(spsh__name_rules_open(alias_path, false, &rules, &err) == SPSH_E_SYNTAX);
        CHECK(strstr(err.message, bad[i].want) != NULL && strstr(err.message, "bad.tsv") != NULL);
    }
    CHECK(spsh__name_rules_open("/nonexistent/aliases", false, &rules, &err) == SPSH_E_NOT_FOUND);
}

/* ---- sources ---- */

#define MLS(start_, end_)                                                                          \
    "{\"source_url\":\"http://www.archive.org/download/x/y_64kb.mp3\",\"source_start\":\"" start_  \
    "\",\"source_end\":\"" end_ "\"}"

static void test_sources(void)
{
    static const text_row train[] = {
        {.id = "0",          .split = "train",      .source = "a.wav"                   },
        {.id = "1",          .split = "train",      .source = "b.wav",                    .extras = MLS("10", "20.5")},
        {.id = "2",           .split = "train",                                .source = "c.wav",                                                            .extras = MLS("30.25", "40")},
        {.id = "3", .split = "train",.source = "https://X.org/A.opus?token=1"},
        {.id = "4",
         .split = "train",
         .source = "e.wav",
         .extras = "{\"url\":\"https://youtu.example/w#t=3\",\"n\":1}"},
        {.id = "5",          .split = "train",                          .source = "f.wav",                                                               .extras = "not json"},
        {.id = "6",                  .split = "test",                               .source = "a.wav"                                         },
    };
    static const text_row test[] = {
        {.id = "7",          .split = "test",   .source = "a.wav"               },
        {.id = "8",          .split = "test",   .source = "h.wav",                .extras = MLS("20", "30.25")},
        {.id = "9",          .split = "test",                           .source = "i.wav",                                                   .extras = MLS("0", "100")},
        {.id = "A", .split = "test",.source = "http://www.x.org/A.opus"},
        {.id = "B",
         .split = "test",
         .source = "k.wav",
         .extras = "{\"url\":\"http://youtu.example/w\"}"},
        {.id = "C",          .split = "test",                       .source = "http://www.x.org/a.opus"                                                      },
    };
    text_dataset_make(path_of("sources-a"), 1, train, 7);
    text_dataset_make(path_of("sources-b"), 2, test, 6);
    run("sources-a", "sources-a", &plain);
    CHECK_U64(result.count, 1);
    CHECK(find(0, 6, SPSH_TIER_SOURCE) != NULL);
    run("sources-a", "sources-b", &plain);
    CHECK_U64(result.count, 5);
    const spsh__match *edge = find(1, 8, SPSH_TIER_SOURCE);
    REQUIRE(edge != NULL);
    /* They share 20 s to 20.5 s, which begins 10 s into a, and at the start of b. */
    CHECK(edge->rate_hz == 8000 && edge->a_first == 80000 && edge->b_first == 0);
    CHECK(find(1, 9, SPSH_TIER_SOURCE) != NULL && find(2, 9, SPSH_TIER_SOURCE) != NULL);
    CHECK(find(3, 10, SPSH_TIER_SOURCE) != NULL && find(4, 11, SPSH_TIER_SOURCE) != NULL);
    CHECK_U64(result.facts.tests[2].source, 2);
}

/* source_start and source_end count only with the URL that they belong to. */
static void test_times_without_a_url(void)
{
    spsh__builder scratch = {0};
    spsh__source_key key;
    const spsh_utterance utterance = {
        .source = spsh__bytes_of("a.wav"),
        .extras = spsh__bytes_of(
            "{\"source_url\":\"tape 7\",\"source_start\":\"1\",\"source_end\":\"2\"}")};
    REQUIRE(spsh__source_key_of(&utterance, 0, &scratch, &key, &err) == SPSH_OK);
    CHECK(key.is_known && !key.is_stretch);
    spsh__builder_free(&scratch);
}

/* Stretches of one recording give the pairs that comparing all with all gives. */
static void test_stretches(void)
{
    enum { STRETCHES = 400, PROBES = 2000, KEEP = 400 };
    uint64_t random = test_seed(5);
    spsh__source_index *index = NULL;
    uint64_t begins[STRETCHES], ends[STRETCHES];
    static uint64_t want[STRETCHES];
    uint32_t number = 0;
    REQUIRE(spsh__source_index_open((spsh__hit_rule){KEEP, NULL}, &index, &err) == SPSH_OK);
    for (uint32_t i = 0; i < STRETCHES; i++) {
        begins[i] = test_random(&random) % 1000000;
        ends[i] = begins[i] + 1 + test_random(&random) % (i % 50 == 0 ? 300000 : 3000);
        const spsh__source_key key = {
            true, true, {i % 3, 7},
              begins[i], ends[i]
        };
        REQUIRE(spsh__source_index_add(index, &key, &number, &err) == SPSH_OK);
        CHECK_U64(number, i);
    }
    REQUIRE(spsh__source_index_finish(index, &err) == SPSH_OK);
    for (uint64_t p = 0; p < PROBES; p++) {
        const uint64_t begin = test_random(&random) % 1000000;
        const spsh__source_key key = {
            true, true, {p % 4, 7},
              begin, begin + 1 + test_random(&random) % 2000
        };
        spsh__source_index_probe(index, p, &key);
        for (uint32_t i = 0; i < STRETCHES; i++)
            want[i] += i % 3 == p % 4 && begins[i] < key.end_ns && key.begin_ns < ends[i];
    }
    for (uint32_t i = 0; i < STRETCHES; i++) {
        const spsh__hit *hits = NULL;
        uint32_t kept = 0;
        CHECK_U64(spsh__source_index_hits(index, i, &hits, &kept), want[i]);
    }
    spsh__source_index_free(index);
}

/* ---- limits ---- */

static void test_memory_is_told(void)
{
    spsh__print_set *set = open_set("texts", "texts");
    const spsh__match_sink sink = {take, NULL};
    spsh__text_facts facts = {0};
    spsh__text_join_options options = plain;
    options.memory_bytes = 100;
    CHECK(spsh__text_join_run(set, &options, sink, &facts, &err) == SPSH_E_LIMIT);
    CHECK(strstr(err.message, "memory") != NULL);
    CHECK(facts.tests == NULL);
    spsh__print_set_close(set);
}

static spsh_status refuse(void *user, const spsh__match *match, spsh_error *error)
{
    (void)user, (void)match, (void)error;
    return SPSH_E_CANCELED;
}

static void test_the_sink_may_refuse(void)
{
    spsh__print_set *set = open_set("texts", "texts");
    const spsh__match_sink sink = {refuse, NULL};
    spsh__text_facts facts = {0};
    CHECK(spsh__text_join_run(set, &plain, sink, &facts, &err) == SPSH_E_CANCELED);
    spsh__print_set_close(set);
}

TEST_MAIN(unit_text_join)
{
    test_temp_dir(folder, sizeof(folder));
    RUN(test_texts);
    RUN(test_overlays);
    RUN(test_many_are_counted);
    RUN(test_speakers_and_documents);
    RUN(test_bad_aliases_are_named);
    RUN(test_sources);
    RUN(test_times_without_a_url);
    RUN(test_stretches);
    RUN(test_memory_is_told);
    RUN(test_the_sink_may_refuse);
    free(result.facts.tests);
    test_remove_tree(folder);
    return TEST_RESULT();
}
