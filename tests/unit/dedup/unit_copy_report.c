/* unit_copy_report.c: the pages of plans and audits, from results made by hand, over a small
 * dataset with hostile ids and texts. With an argument the pages are written there, for a test that
 * reads them as XML (cli/copy_page_test.py).
 */
#include "spsh_test.h"

#include "audit/audit.h"
#include "audit/audit_report.h"
#include "copy_dataset.h"
#include "fail_malloc.h"
#include "pair/explain.h"
#include "pair/pair_audio.h"
#include "pair/pair_view.h"
#include "plan/copy_report.h"
#include "print_set_kit.h"
#include "print_signals.h"

enum {
    RATE_HZ = 16000,
    SECONDS = 3,
    SAMPLES = SECONDS * RATE_HZ,
    CLIPS = 6,
    MATCHES = 60, /* more than the page draws */
};

static spsh_error err = SPSH_ERROR_INIT;

static const char *const ids[CLIPS] = {
    "a/<script>alert(1)</script>",       "b]]>\"quoted\" & 'so'", "c/plain",
    "d\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d", "e %s %n <!-- -->",      "f"};
static const char *const texts[CLIPS] = {
    "</q></svg><b>bold</b>",   "one\x01\ttwo", "the same words", "the same words", "",
    "\xe5\x90\x8d\xe5\x89\x8d"};

static void require(spsh_status status)
{
    if (status != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    REQUIRE(status == SPSH_OK);
}

/* ---- the dataset: 0 and 1 are the same speech, 1 begins half a second later ---- */

static void make_dataset(const char *path)
{
    static int16_t pcm[SAMPLES + RATE_HZ / 2];
    copy_dataset *set = copy_dataset_open(path, 1);
    for (size_t i = 0; i < CLIPS; i++) {
        const copy_audio audio = {.codec = SPSH_CODEC_WAV,
                                  .bits = 16,
                                  .rate_hz = RATE_HZ,
                                  .channels = 1,
                                  .pcm = pcm + (i == 1 ? RATE_HZ / 2 : 0),
                                  .samples = SAMPLES};
        make_signal(SIGNAL_SPEECH, RATE_HZ, i == 1 ? 100 : 100 + i, pcm, SAMPLES + RATE_HZ / 2);
        const spsh_utterance row = {.id = text_of(ids[i]),
                                    .record = copy_dataset_record(set, &audio),
                                    .samples = SAMPLES,
                                    .flags = texts[i][0] == '\0' ? 0 : SPSH_UTTERANCE_HAS_TEXT,
                                    .domain = text_of("pages"),
                                    .split = text_of(i < 3 ? "train" : "test <i>"),
                                    .speaker = text_of("A & B"),
                                    .language = text_of("en"),
                                    .text = text_of(texts[i])};
        copy_dataset_row(set, &row);
    }
    copy_dataset_close(set, SPSH_DEDUPE_NONE);
    make_segments(path);
}

/* ---- facts ---- */

typedef struct world {
    spsh__print_set *set;
    spsh__match matches[MATCHES + SPSH_TIER_COUNT];
    spsh__copies_facts copies;
    spsh__copy_facts common;
    spsh_copy_cluster clusters[2];
    spsh__member members[5];
    spsh__boilerplate boilerplate;
    spsh__clusters all;
    spsh__policy policy;
    spsh__plan_facts plan;
    spsh__text_facts text_facts;
    spsh__leak_split splits[2];
    spsh__leak_cell cell;
    uint8_t masks[3];
    uint64_t tests[3];
    spsh__audit_roster roster;
    spsh__leaks leaks;
    spsh__audit_facts audit;
} world;

static spsh__match make_match(uint64_t a, uint64_t b, spsh_copy_tier tier, spsh_copy_class kind)
{
    return (spsh__match){.a = a,
                         .b = b,
                         .tier = tier,
                         .kind = kind,
                         .rate_hz = 8000,
                         .a_first = 4000,
                         .count = 20000,
                         .lag = -4000,
                         .coverage_a = 0.8,
                         .coverage_b = 1,
                         .active_s = 2,
                         .ber = 0.05,
                         .words_hz = 50,
                         .ncc = 0.9,
                         .ncc_white = 0.8,
                         .scale = 1,
                         .similarity = 0.9};
}

static void fill_matches(world *w)
{
    for (size_t i = 0; i < MATCHES; i++) {
        const spsh_copy_class kind = (spsh_copy_class)(1 + i % (SPSH_COPY_CLASS_COUNT - 1));
        w->matches[i] =
            make_match(i % CLIPS, (i + 1 + i / CLIPS % 4) % CLIPS, SPSH_TIER_ACOUSTIC, kind);
        w->matches[i].ncc = 0.4 + 0.01 * (double)i;
        w->common.by_tier_class[SPSH_TIER_ACOUSTIC][kind]++;
    }
    w->matches[0] = make_match(0, 1, SPSH_TIER_ACOUSTIC, SPSH_COPY_SAME_RECORDING);
    w->matches[0].a_first = 4000;
    w->matches[0].b_first = 0;
    for (unsigned t = 0; t < SPSH_TIER_COUNT; t++) {
        spsh__match *m = &w->matches[MATCHES + t];
        *m = make_match(t % 3, 3 + t % 3, (spsh_copy_tier)t,
                        t < SPSH_TIER_TEXT_EXACT ? SPSH_COPY_SAME_RECORDING : SPSH_COPY_NONE);
        m->count = t < SPSH_TIER_TEXT_EXACT ? m->count : 0;
        w->common.by_tier_class[t][m->kind]++;
    }
    w->common.match_count = MATCHES + SPSH_TIER_COUNT;
}

static void fill_plan(world *w)
{
    const uint64_t none = SPSH_NONE_U64;
    w->members[0] = (spsh__member){0, SPSH_DECISION_KEEP, none, "lossless"};
    w->members[1] = (spsh__member){1, SPSH_DECISION_DROP, 0, "lower <bandwidth>"};
    w->members[2] = (spsh__member){2, SPSH_DECISION_UNPROVEN, none, ""};
    w->members[3] = (spsh__member){3, SPSH_DECISION_KEEP, none, "first"};
    w->members[4] = (spsh__member){4, SPSH_DECISION_PROTECTED, MATCHES, "of test"};
    w->clusters[0] = (spsh_copy_cluster){0, 3, SECONDS, 96000, true};
    w->clusters[1] = (spsh_copy_cluster){3, 2, 0, 0, false};
    w->boilerplate = (spsh__boilerplate){5, 0.5, 1.5, 40};
    w->all = (spsh__clusters){.clusters = w->clusters,
                              .cluster_count = 2,
                              .members = w->members,
                              .member_count = 5,
                              .boilerplate = &w->boilerplate,
                              .boilerplate_count = 1};
    w->policy = (spsh__policy){.prefer_count = 1, .drop_from = "train,<b>", .boilerplate_min = 20};
    w->plan = (spsh__plan_facts){.common = w->common,
                                 .matches = w->matches,
                                 .clusters = &w->all,
                                 .policy = &w->policy,
                                 .dropped_count = 1,
                                 .dropped_bytes = 96000,
                                 .dropped_seconds = SECONDS,
                                 .total_seconds = CLIPS * SECONDS};
}

static void fill_sides(world *w, const spsh__leak_split *test)
{
    w->roster = (spsh__audit_roster){.train = &w->splits[0],
                                     .test = test,
                                     .train_count = 1,
                                     .test_count = 1,
                                     .test_ordinals = w->tests,
                                     .test_utterance_count = 3};
    w->leaks = (spsh__leaks){.masks = w->masks, .cells = &w->cell, .totals = &w->cell};
    w->audit = (spsh__audit_facts){
        .common = w->common, .roster = &w->roster, .leaks = &w->leaks, .texts = &w->text_facts};
}

static void fill_audit(world *w)
{
    w->text_facts = (spsh__text_facts){.train_count = 3, .test_count = 3, .test_empty_count = 1};
    w->splits[0] = (spsh__leak_split){"pages: train", 3, 9};
    w->splits[1] = (spsh__leak_split){"pages: test <i>", 3, 9};
    for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++) {
        w->cell.utterances[k] = k == SPSH_LEAK_DOCUMENT ? 0 : 1 + k % 3;
        w->cell.seconds[k] = 3.0 * (double)w->cell.utterances[k];
    }
    w->masks[0] = 1;
    fill_sides(w, &w->splits[1]);
    w->leaks.matches = w->matches;
    w->audit.is_failed = true;
    for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++)
        w->audit.fail_limits[k] = k == 0 ? 0.01 : 2;
}

/* is_empty: a search that found nothing. */
static world *make_world(const char *path, bool is_empty)
{
    world *w = (world *)calloc(1, sizeof(*w));
    REQUIRE(w != NULL);
    w->set = open_print_set(path);
    w->copies.judge.decoded_count = 1234567;
    w->copies.undecoded_count = is_empty ? 0 : 2;
    w->common = (spsh__copy_facts){.set = w->set,
                                   .copies = &w->copies,
                                   .limits = &spsh__align_limits_default,
                                   .command = "speechshard dedupe 'x & <y>'",
                                   .mode = "mild"};
    if (is_empty) {
        w->plan = (spsh__plan_facts){
            .common = w->common, .clusters = &w->all, .policy = &w->policy, .total_seconds = 18};
        w->splits[0] = (spsh__leak_split){"pages: train", 3, 9};
        fill_sides(w, &w->splits[0]);
        for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++)
            w->audit.fail_limits[k] = 2;
        return w;
    }
    for (size_t i = 0; i < SPSH__HISTOGRAM_BARS; i++) {
        w->common.ber_same[i] = i < 15 ? UINT64_C(1000) >> (i / 2) : 0;
        w->common.ber_other[i] = i > 20 ? 10000 : 0;
        w->common.ncc_same[i] = i > 40 ? 5 : 0;
        w->common.ncc_other[i] = i < 30 ? 100 : 0;
    }
    fill_matches(w);
    fill_plan(w);
    fill_audit(w);
    return w;
}

static void free_world(world *w)
{
    spsh__print_set_close(w->set);
    free(w);
}

/* ---- pages ---- */

static char scratch[512];
static char dataset[600];

static const char *plan_of(const world *w, spsh__builder *out)
{
    spsh__builder_clear(out);
    require(spsh__plan_page(&w->plan, out, &err));
    const char *text = spsh__builder_text(out);
    REQUIRE(text != NULL);
    return text;
}

static const char *audit_of(const world *w, spsh__builder *out)
{
    spsh__builder_clear(out);
    require(spsh__audit_page(&w->audit, out, &err));
    const char *text = spsh__builder_text(out);
    REQUIRE(text != NULL);
    return text;
}

static size_t count_of(const char *text, const char *what)
{
    size_t count = 0;
    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what))
        count++;
    return count;
}

static void check_has(const char *page, const char *what)
{
    if (strstr(page, what) == NULL)
        fprintf(stderr, "the page lacks: %s\n", what);
    CHECK(strstr(page, what) != NULL);
}

static void check_escaped(const char *page)
{
    CHECK_U64(count_of(page, "<script"), 1); /* the script of the page itself (page.c) */
    CHECK(strstr(page, "<b>bold") == NULL);
    CHECK(strstr(page, "<!-- -->") == NULL);
    CHECK(strstr(page, "<y>") == NULL);
    CHECK(strstr(page, "\x01") == NULL);
    check_has(page, "a/&lt;script&gt;alert(1)&lt;/script&gt;");
    check_has(page, "x &amp; &lt;y&gt;");
}

static void test_plan_page(void)
{
    static const char *const want[] = {
        "3.00 s</b><span>would be dropped, 16.7 % of 18.00 s",
        "Worth a look",
        "Dropped utterances, by evidence",
        "Pairs that were found",
        "How clearly copies differ",
        "from 0.15 to 0.21, so",
        "from 0.60 to 0.82, so",
        "Clusters by size",
        "The largest clusters",
        "lower &lt;bandwidth&gt;",
        "Copies whose transcripts differ",
        "Examples of pairs",
        "Segments that many utterances share",
        "only copies of <bdi>train,&lt;b&gt;",
        "<h2>Method</h2>",
        "Every limit (version 1)",
        "bit error rate</td><td>at most 0.28",
        "1,234,567 pairs whose audio was compared here, fewer than 5.",
        "What this search does not find"};
    world *w = make_world(dataset, false);
    spsh__builder out = {0};
    const char *page = plan_of(w, &out);
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
        check_has(page, want[i]);
    check_escaped(page);
    CHECK(count_of(page, "<svg class=\"pair\"") >= 20); /* several per class, each pair once */
    CHECK(count_of(page, "<svg class=\"pair\"") <= 40);
    CHECK_U64(count_of(page, "no picture"), 0);
    CHECK(strstr(page, "nan") == NULL && strstr(page, "inf ") == NULL);
    spsh__builder_free(&out);
    free_world(w);
}

static void test_audit_page(void)
{
    static const char *const want[] = {"<b class=\"bad\">Failed</b>",
                                       "Of 3 test utterances, 2 share no recording",
                                       "What the test side shares",
                                       "<td class=\"n\">33.33 %</td><td class=\"n\">6.15 to 79.23",
                                       "Which split leaks into which",
                                       "<td class=\"h5\">1<br/>33.33 %",
                                       "Nothing was found for: <code>document</code>",
                                       "client_id",
                                       "2505.22251",
                                       "Examples",
                                       "<code>default-1</code>",
                                       "<h2>Method</h2>",
                                       "pages: test &lt;i&gt;"};
    world *w = make_world(dataset, false);
    spsh__builder out = {0};
    const char *page = audit_of(w, &out);
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
        check_has(page, want[i]);
    check_escaped(page);
    CHECK(count_of(page, "<svg class=\"pair\"") > 3);
    spsh__builder_free(&out);
    free_world(w);
}

/* A passed audit is green only if no leak is outside the limits. */
static void test_verdict(void)
{
    static const struct {
        unsigned shared;
        double limit; /* for speakers */
        const char *verdict;
    } cases[] = {
        {0, 2,   "good"   },
        {3, 2,   "caution"},
        {3, 1,   "caution"},
        {1, 0.5, "good"   },
    };
    world *w = make_world(dataset, false);
    spsh__builder out = {0};
    char verdict[64];
    w->audit.is_failed = false;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        memset(&w->cell, 0, sizeof(w->cell));
        w->cell.utterances[SPSH_LEAK_SPEAKER] = cases[i].shared;
        w->audit.fail_limits[SPSH_LEAK_SPEAKER] = cases[i].limit;
        (void)snprintf(verdict, sizeof(verdict), "<b class=\"%s\">Passed</b>", cases[i].verdict);
        const char *page = audit_of(w, &out);
        check_has(page, verdict);
        CHECK_U64(count_of(page, "the same speaker (<code>speaker</code>): 100.0 %"),
                  cases[i].verdict[0] == 'c');
        check_has(page, "<td class=\"words\">the same speaker</td>");
    }
    spsh__builder_free(&out);
    free_world(w);
}

static void test_nothing_found(void)
{
    world *w = make_world(dataset, true);
    spsh__builder out = {0};
    const char *page = plan_of(w, &out);
    check_has(page, "No two utterances share audio");
    check_has(page, "What this search does not find");
    CHECK_U64(count_of(page, "<svg class=\"pair\""), 0);
    w->plan.common.mode = "exact";
    check_has(plan_of(w, &out), "<li>everything except equal bytes and samples");
    page = audit_of(w, &out);
    check_has(page, "Nothing was found to leak");
    check_has(page, "Of 3 test utterances, 3 share no recording");
    spsh__builder_free(&out);
    free_world(w);
}

static void test_same_bytes(void)
{
    world *w = make_world(dataset, false);
    world *other = make_world(dataset, false);
    spsh__builder first = {0};
    spsh__builder second = {0};
    CHECK_STR(plan_of(w, &first), plan_of(other, &second));
    CHECK_STR(audit_of(w, &first), audit_of(other, &second));
    spsh__builder_free(&first);
    spsh__builder_free(&second);
    free_world(w);
    free_world(other);
}

/* The page shows each limit of the rule: another value makes another page. */
static void test_every_limit(void)
{
    enum { FIRST = offsetof(spsh__align_limits, bit_worth) / sizeof(double) };
    const size_t blocks = offsetof(spsh__align_limits, blocks_performance) / sizeof(double);
    const size_t end = sizeof(spsh__align_limits) / sizeof(double);
    world *w = make_world(dataset, true);
    spsh__builder out = {0};
    spsh__builder changed = {0};
    (void)plan_of(w, &out);
    for (size_t i = FIRST; i < end; i++) {
        spsh__align_limits limits = spsh__align_limits_default;
        double value = 0;
        uint8_t *at = (uint8_t *)&limits + i * sizeof(double);
        memcpy(&value, at, sizeof(value));
        value *= 1.5;
        if (i == blocks)
            limits.blocks_performance += 2;
        else
            memcpy(at, &value, sizeof(value));
        w->plan.common.limits = &limits;
        if (strcmp(plan_of(w, &changed), spsh__builder_text(&out)) == 0)
            fprintf(stderr, "limit %zu of the rule is not on the page\n", i - FIRST);
        CHECK(strcmp(spsh__builder_text(&changed), spsh__builder_text(&out)) != 0);
    }
    spsh__builder_free(&changed);
    spsh__builder_free(&out);
    free_world(w);
}

/* ---- pictures and cuts ---- */

/* b begins half a second later: the common part matches sample by sample. */
static void test_window(void)
{
    world *w = make_world(dataset, false);
    spsh__pair_window *window = NULL;
    require(spsh__pair_window_make(w->set, &w->matches[0], &window, &err));
    CHECK(window->seconds > 3.49 && window->seconds < 3.51);
    CHECK(window->match_first_s > 0.49 && window->match_first_s < 0.51);
    CHECK(window->b.first_s < -0.49 && window->b.first_s > -0.51);
    CHECK_U64(window->block_count, 12);
    for (size_t i = 0; i < window->block_count; i++)
        CHECK(window->blocks[i] < 0 || window->blocks[i] > 0.99F);
    CHECK(window->has_gain && window->gain_db > -0.1 && window->gain_db < 0.1);
    CHECK(window->b.high[0] < window->b.low[0]); /* b has not begun */
    CHECK(window->a.high[0] >= window->a.low[0]);
    spsh__pair_window_free(window);
    free_world(w);
}

static void test_listen(void)
{
    enum { STEREO_HEAD = 44 };
    static uint8_t file[STEREO_HEAD + 4 * 5 * RATE_HZ];
    world *w = make_world(dataset, false);
    char path[700];
    (void)snprintf(path, sizeof(path), "%s/cut.wav", scratch);
    require(spsh__pair_view_listen(w->set, &w->matches[0], path, &err));
    FILE *stream = fopen(path, "rb");
    REQUIRE(stream != NULL);
    const size_t size = fread(file, 1, sizeof(file), stream);
    CHECK_U64(size, STEREO_HEAD + 4 * 72000); /* 2.5 s, and a second before and after */
    CHECK(fclose(stream) == 0);
    CHECK(memcmp(file, "RIFF", 4) == 0 && file[22] == 2);
    size_t differ = 0;
    for (size_t n = RATE_HZ; n < RATE_HZ * 7 / 2; n++) {
        const uint8_t *at = file + STEREO_HEAD + 4 * n;
        differ += memcmp(at, at + 2, 2) != 0;
    }
    CHECK_U64(differ, 0);
    free_world(w);
}

/* The audio is lost: the page omits the pictures and keeps the rest. */
static void test_broken_audio(void)
{
    char broken[600];
    char shard[800];
    (void)snprintf(broken, sizeof(broken), "%s/broken.spsh", scratch);
    make_dataset(broken);
    (void)snprintf(shard, sizeof(shard), "%s/shards/000000-000.spsh", broken);
    FILE *stream = fopen(shard, "r+b");
    REQUIRE(stream != NULL);
    CHECK(fseek(stream, 40000, SEEK_SET) == 0 && fputs("damaged", stream) >= 0);
    CHECK(fclose(stream) == 0);
    world *w = make_world(broken, false);
    spsh__builder out = {0};
    const char *page = plan_of(w, &out);
    CHECK(count_of(page, "no picture: ") > 0);
    CHECK(count_of(page, "<svg class=\"pair\"") > 0);
    check_has(page, "What this search does not find");
    spsh__builder_free(&out);
    free_world(w);
}

/* ---- without memory ---- */

typedef spsh_status task(const world *w, spsh_error *err_);

static spsh_status draw_plan(const world *w, spsh_error *err_)
{
    spsh__builder out = {0};
    const spsh_status rc = spsh__plan_page(&w->plan, &out, err_);
    spsh__builder_free(&out);
    return rc;
}

static spsh_status draw_audit(const world *w, spsh_error *err_)
{
    spsh__builder out = {0};
    const spsh_status rc = spsh__audit_page(&w->audit, &out, err_);
    spsh__builder_free(&out);
    return rc;
}

static spsh_status cut(const world *w, spsh_error *err_)
{
    char path[700];
    (void)snprintf(path, sizeof(path), "%s/memory.wav", scratch);
    return spsh__pair_view_listen(w->set, &w->matches[0], path, err_);
}

static spsh_status explain(const world *w, spsh_error *err_)
{
    spsh__explain_facts facts;
    return spsh__explain_find(w->set, 0, 2, &facts, err_);
}

/* Each allocation fails once: it must be reported, and earlier allocations freed (the address
 * sanitizer checks). The many allocations of the pictures are tried in growing steps. */
static uint64_t step_part = 8; /* the next failing call is 1/step_part of the previous ones later */

static void test_without_memory(void)
{
    static task *const tasks[] = {draw_plan, draw_audit, cut, explain};
    world *w = make_world(dataset, false);
    w->plan.common.match_count = 1;
    w->audit.common.match_count = 1;
    for (size_t i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++) {
        uint64_t failures = 0;
        for (uint64_t at = 0;; at += 1 + at / step_part) {
            fail_malloc.calls = 0;
            fail_malloc.at = at;
            const spsh_status rc = tasks[i](w, &err);
            const bool was_reached = fail_malloc.calls > at;
            fail_malloc.at = UINT64_MAX;
            CHECK(rc != SPSH_OK || !was_reached || i < 2); /* the page may omit a picture */
            failures += rc == SPSH_E_NO_MEMORY;
            if (!was_reached)
                break;
        }
        CHECK(failures > 3);
    }
    free_world(w);
}

/* ---- for the reader of XML ---- */

static void write_page(const char *folder, const char *name, const char *page)
{
    char path[700];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *stream = fopen(path, "wb");
    REQUIRE(stream != NULL && fputs(page, stream) >= 0 && fclose(stream) == 0);
}

static void write_pages(const char *folder)
{
    spsh__builder out = {0};
    for (int empty = 0; empty < 2; empty++) {
        world *w = make_world(dataset, empty == 1);
        write_page(folder, empty == 1 ? "empty-plan.html" : "plan.html", plan_of(w, &out));
        write_page(folder, empty == 1 ? "empty-audit.html" : "audit.html", audit_of(w, &out));
        if (empty == 0) {
            spsh__builder_clear(&out);
            require(spsh__pair_view_draw(w->set, &w->matches[0], true, &out, &err));
            write_page(folder, "pair.svg", spsh__builder_text(&out));
        }
        free_world(w);
    }
    spsh__builder_free(&out);
}

TEST_MAIN(unit_copy_report)
{
    test_temp_dir(scratch, sizeof(scratch));
    (void)snprintf(dataset, sizeof(dataset), "%s/pages.spsh", scratch);
    make_dataset(dataset);
    if (test_wants_fewer(argc, argv))
        step_part = 2;
    if (argc == 2 && !test_wants_fewer(argc, argv)) {
        write_pages(argv[1]);
        test_remove_tree(scratch);
        return 0;
    }
    RUN(test_plan_page);
    RUN(test_audit_page);
    RUN(test_verdict);
    RUN(test_nothing_found);
    RUN(test_same_bytes);
    RUN(test_every_limit);
    RUN(test_window);
    RUN(test_listen);
    RUN(test_broken_audio);
    RUN(test_without_memory);
    test_remove_tree(scratch);
    return TEST_RESULT();
}
