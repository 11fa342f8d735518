/* unit_clusters.c: kept and dropped utterances, from matches made by hand. */
#include "copies/clusters.h"
#include "spsh_test.h"

enum { UTTERANCES_MAX = 64, CHECKS_MAX = 64 };

/* A world of utterances of 5 s; tests change the relevant fields. */
typedef struct world {
    spsh__copy_quality qualities[UTTERANCES_MAX];
    spsh__match matches[256];
    size_t match_count;
    spsh__match provable[CHECKS_MAX]; /* results of the check, if it runs */
    size_t provable_count, check_count;
    spsh__policy policy;
    spsh__clusters result;
} world;

static spsh_status get_quality(void *user, uint64_t ordinal, spsh__copy_quality *ret_quality,
                               spsh_error *err)
{
    const world *w = user;
    (void)err;
    *ret_quality = w->qualities[ordinal];
    if (ret_quality->sound_seconds == 0) /* default: no zeros around the sound */
        ret_quality->sound_seconds = ret_quality->seconds;
    return SPSH_OK;
}

/* The covered share of an utterance, all of which is active. */
static spsh_status get_covered(void *user, uint64_t ordinal, const spsh__copy_stretch *stretches,
                               size_t count, double *ret_share, spsh_error *err)
{
    const world *w = user;
    double end = 0;
    double sum = 0;
    (void)err;
    for (size_t i = 0; i < count; i++) {
        const double first = stretches[i].first_s > end ? stretches[i].first_s : end;
        const double last = stretches[i].first_s + stretches[i].seconds;
        sum += last > first ? last - first : 0;
        end = last > end ? last : end;
    }
    *ret_share = sum / w->qualities[ordinal].seconds;
    return SPSH_OK;
}

static spsh_status check_pair(void *user, uint64_t a, uint64_t b, spsh__match_sink sink,
                              spsh_error *err)
{
    world *w = user;
    w->check_count++;
    CHECK(a < b);
    for (size_t i = 0; i < w->provable_count; i++) {
        if (w->provable[i].a == a && w->provable[i].b == b)
            return sink.match_fn(sink.user, &w->provable[i], err);
    }
    return SPSH_OK;
}

static void world_init(world *w)
{
    memset(w, 0, sizeof(*w));
    for (uint64_t i = 0; i < UTTERANCES_MAX; i++)
        w->qualities[i] = (spsh__copy_quality){.ordinal = i,
                                               .seconds = 5,
                                               .bytes = 1000,
                                               .is_lossless = true,
                                               .bandwidth_hz = 8000,
                                               .payload_bps = 128000};
    w->policy.boilerplate_min = 20;
}

static spsh__match make_match(uint64_t a, uint64_t b, spsh_copy_tier tier, spsh_copy_class kind)
{
    return (spsh__match){.a = a,
                         .b = b,
                         .tier = tier,
                         .kind = kind,
                         .rate_hz = 8000,
                         .count = 40000,
                         .coverage_a = 1,
                         .coverage_b = 1,
                         .scale = 1};
}

static spsh__match *add(world *w, uint64_t a, uint64_t b, spsh_copy_tier tier, spsh_copy_class kind)
{
    w->matches[w->match_count] = make_match(a, b, tier, kind);
    return &w->matches[w->match_count++];
}

static void same(world *w, uint64_t a, uint64_t b)
{
    (void)add(w, a, b, SPSH_TIER_ACOUSTIC, SPSH_COPY_SAME_RECORDING);
}

/* Add a match: part is inside whole, from second `at` on. */
static void inside(world *w, uint64_t part, uint64_t whole, double at)
{
    const bool part_is_a = part < whole;
    spsh__match *m = add(w, part_is_a ? part : whole, part_is_a ? whole : part, SPSH_TIER_ACOUSTIC,
                         SPSH_COPY_CONTAINED);
    m->count = (uint64_t)(w->qualities[part].seconds * 8000);
    *(part_is_a ? &m->b_first : &m->a_first) = (uint64_t)(at * 8000);
    *(part_is_a ? &m->coverage_b : &m->coverage_a) =
        w->qualities[part].seconds / w->qualities[whole].seconds;
}

static void run(world *w, bool with_check)
{
    const spsh__quality_source source = {get_quality, get_covered, w};
    const spsh__pair_check check = {with_check ? check_pair : NULL, w};
    spsh_error err = SPSH_ERROR_INIT;
    qsort(w->matches, w->match_count, sizeof(*w->matches), spsh__match_compare);
    spsh__clusters_free(&w->result);
    REQUIRE(spsh__clusters_of(&source, w->matches, w->match_count, &w->policy, check, &w->result,
                              &err) == SPSH_OK);
}

static const spsh__member *member(const world *w, uint64_t ordinal)
{
    for (uint64_t i = 0; i < w->result.member_count; i++) {
        if (w->result.members[i].ordinal == ordinal)
            return &w->result.members[i];
    }
    return NULL;
}

/* "keep", "drop", ... ; "none": in no cluster */
static const char *decision(const world *w, uint64_t ordinal)
{
    const spsh__member *m = member(w, ordinal);
    return m == NULL ? "none" : spsh_copy_decision_text(m->decision);
}

static const char *reason(const world *w, uint64_t ordinal)
{
    const spsh__member *m = member(w, ordinal);
    REQUIRE(m != NULL);
    return m->reason;
}

static uint64_t proof(const world *w, uint64_t ordinal)
{
    const spsh__member *m = member(w, ordinal);
    REQUIRE(m != NULL);
    return m->match;
}

static void test_nothing(void)
{
    world w;
    world_init(&w);
    run(&w, true);
    CHECK_U64(w.result.cluster_count, 0);
    CHECK_U64(w.result.member_count, 0);
    spsh__clusters_free(&w.result);
}

static void test_best_is_kept(void)
{
    static const struct {
        spsh__copy_quality better, worse; /* compared with the other one */
        const char *kept, *dropped;
    } cases[] = {
        {{.is_lossless = true},              {.is_lossless = false}, "lossless",         "lossy"               },
        {{.bandwidth_hz = 7000},             {.bandwidth_hz = 4000}, "higher bandwidth", "lower bandwidth"     },
        {{.payload_bps = 64000},             {.payload_bps = 24000}, "higher bit rate",  "lower bit rate"      },
        {{.seconds = 6},                     {.seconds = 5},         "longer",           "shorter"             },
        {{.seconds = 5, .sound_seconds = 5},
         {.seconds = 6, .sound_seconds = 4},
         "longer",                                                                       "shorter"             },
        {{.has_text = true},                 {.has_text = false},    "has a transcript", "no transcript"       },
        {{.clipped_count = 0},
         {.clipped_count = 9},
         "fewer clipped samples",                                                        "more clipped samples"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        world w;
        world_init(&w);
        w.qualities[3] = cases[i].worse;
        w.qualities[3].ordinal = 3;
        w.qualities[9] = cases[i].better;
        w.qualities[9].ordinal = 9;
        same(&w, 3, 9);
        run(&w, false);
        REQUIRE(w.result.cluster_count == 1 && w.result.member_count == 2);
        CHECK_U64(w.result.members[0].ordinal, 9);
        CHECK_STR(decision(&w, 9), "keep");
        CHECK_STR(decision(&w, 3), "drop");
        CHECK_STR(reason(&w, 9), cases[i].kept);
        CHECK_STR(reason(&w, 3), cases[i].dropped);
        CHECK(w.result.members[0].match == SPSH_NONE_U64);
        CHECK_U64(w.result.members[1].match, 0);
        spsh__clusters_free(&w.result);
    }
}

/* A higher bit rate does not make a WAV better than a FLAC. */
static void test_lossless_are_alike(void)
{
    world w;
    world_init(&w);
    w.qualities[2].payload_bps = 100000;
    w.qualities[7].payload_bps = 256000;
    same(&w, 2, 7);
    run(&w, false);
    CHECK_STR(decision(&w, 2), "keep");
    CHECK_STR(reason(&w, 2), "first of equals");
    CHECK_STR(decision(&w, 7), "drop");
    CHECK_U64(w.result.clusters[0].saved_bytes, 1000);
    CHECK(w.result.clusters[0].saved_seconds == 5);
    spsh__clusters_free(&w.result);
}

static void test_keep_rules(void)
{
    world w;
    world_init(&w);
    w.qualities[4].is_lossless = false;
    w.qualities[5].seconds = 5.5;
    w.qualities[5].is_lossless = false;
    w.qualities[6].dataset = 1;
    w.qualities[6].is_lossless = false;
    same(&w, 4, 5);
    same(&w, 4, 6);
    same(&w, 4, 7);
    same(&w, 5, 6);
    same(&w, 5, 7);
    same(&w, 6, 7);
    run(&w, false);
    CHECK_STR(decision(&w, 7), "keep");
    w.policy.keep = SPSH_KEEP_FIRST;
    run(&w, false);
    CHECK_STR(decision(&w, 4), "keep");
    w.policy.keep = SPSH_KEEP_LONGEST;
    run(&w, false);
    CHECK_STR(decision(&w, 5), "keep");
    CHECK_STR(reason(&w, 5), "longest");
    w.policy.prefer[0] = 1;
    w.policy.prefer_count = 1;
    run(&w, false);
    CHECK_STR(decision(&w, 6), "keep");
    CHECK_STR(reason(&w, 6), "of a preferred dataset");
    CHECK_STR(decision(&w, 7), "drop");
    spsh__clusters_free(&w.result);
}

/* A matches B, B matches C, and A does not match C. C is kept unless a check proves it a copy. */
static void test_chain(void)
{
    world w;
    world_init(&w);
    same(&w, 1, 2);
    same(&w, 2, 3);
    run(&w, false);
    CHECK_STR(decision(&w, 1), "keep");
    CHECK_STR(decision(&w, 2), "drop");
    CHECK_STR(decision(&w, 3), "unproven");
    CHECK(proof(&w, 3) == SPSH_NONE_U64);
    CHECK_U64(w.result.clusters[0].saved_bytes, 1000);

    run(&w, true);
    CHECK_U64(w.check_count, 1);
    CHECK_STR(decision(&w, 3), "unproven");

    w.provable[0] = make_match(1, 3, SPSH_TIER_ACOUSTIC, SPSH_COPY_REREAD);
    w.provable_count = 1;
    run(&w, true);
    CHECK_STR(decision(&w, 3), "unproven");

    w.provable[0].kind = SPSH_COPY_SAME_RECORDING;
    run(&w, true);
    CHECK_STR(decision(&w, 3), "drop");
    CHECK_U64(w.result.checked_count, 1);
    CHECK_U64(proof(&w, 3), 2);
    CHECK_U64(w.result.checked[0].b, 3);
    spsh__clusters_free(&w.result);
}

/* Members with equal samples match only the first, and can replace each other in proofs. */
static void test_equal_samples(void)
{
    world w;
    world_init(&w);
    w.qualities[3].has_text = true; /* the kept one is not the first */
    w.qualities[9].is_lossless = false;
    (void)add(&w, 1, 2, SPSH_TIER_BYTES, SPSH_COPY_SAME_RECORDING);
    (void)add(&w, 1, 3, SPSH_TIER_PCM, SPSH_COPY_SAME_RECORDING);
    same(&w, 1, 9);
    run(&w, true);
    CHECK_U64(w.check_count, 0);
    CHECK_STR(decision(&w, 3), "keep");
    CHECK_STR(decision(&w, 1), "drop");
    CHECK_STR(decision(&w, 2), "drop");
    CHECK_STR(decision(&w, 9), "drop");
    CHECK_U64(proof(&w, 1), 1);
    CHECK_U64(proof(&w, 2), 0);
    CHECK_U64(proof(&w, 9), 2);
    spsh__clusters_free(&w.result);

    /* Views that overlap are not equal. */
    world_init(&w);
    add(&w, 1, 2, SPSH_TIER_BYTES, SPSH_COPY_SAME_RECORDING)->coverage_a = 0.9;
    add(&w, 2, 3, SPSH_TIER_BYTES, SPSH_COPY_SAME_RECORDING)->coverage_a = 0.9;
    run(&w, false);
    CHECK_STR(decision(&w, 3), "unproven");
    spsh__clusters_free(&w.result);
}

static void test_protected(void)
{
    world w;
    world_init(&w);
    w.qualities[2].is_protected = true;
    w.qualities[2].is_lossless = false;
    w.qualities[4].is_protected = true;
    w.qualities[4].is_lossless = false;
    same(&w, 1, 2);
    same(&w, 1, 4);
    same(&w, 2, 4);
    run(&w, false);
    CHECK_STR(decision(&w, 2), "keep");
    CHECK_STR(decision(&w, 1), "drop");
    CHECK_STR(decision(&w, 4), "protected");
    spsh__clusters_free(&w.result);
}

static void test_never_dropped(void)
{
    static const spsh_copy_class kinds[] = {SPSH_COPY_TIME_SCALED, SPSH_COPY_PROBABLE_COPY,
                                            SPSH_COPY_SAME_PERFORMANCE};
    for (size_t i = 0; i < 3; i++) {
        world w;
        world_init(&w);
        (void)add(&w, 1, 2, SPSH_TIER_ACOUSTIC, kinds[i]);
        run(&w, true);
        CHECK_STR(decision(&w, 1), "keep");
        CHECK_STR(decision(&w, 2), "tag");
        CHECK_U64(w.result.clusters[0].saved_bytes, 0);
        spsh__clusters_free(&w.result);
    }
    static const spsh_copy_tier tiers[] = {SPSH_TIER_SCALED, SPSH_TIER_TEXT_EXACT,
                                           SPSH_TIER_SPEAKER};
    for (size_t i = 0; i < 3; i++) {
        world w;
        world_init(&w);
        (void)add(&w, 1, 2, tiers[i], SPSH_COPY_SAME_RECORDING);
        (void)add(&w, 1, 3, SPSH_TIER_ACOUSTIC, SPSH_COPY_REREAD);
        (void)add(&w, 1, 4, SPSH_TIER_ACOUSTIC, SPSH_COPY_SHARED_SEGMENT);
        run(&w, true);
        CHECK_U64(w.result.member_count, 0);
        spsh__clusters_free(&w.result);
    }
}

/* Utterance 8 (10 s) contains 1 and 2 (5 s each). 3 is a copy of 1. */
static void make_whole(world *w)
{
    world_init(w);
    w->qualities[8].seconds = 10;
    inside(w, 1, 8, 0);
    inside(w, 2, 8, 5);
}

static void test_contained(void)
{
    world w;
    make_whole(&w);
    run(&w, true);
    CHECK_STR(decision(&w, 8), "keep");
    CHECK_STR(decision(&w, 1), "tag");
    CHECK_STR(decision(&w, 2), "tag");
    w.policy.contained = SPSH_CONTAINED_KEEP_LONG;
    run(&w, true);
    CHECK_STR(decision(&w, 8), "keep");
    CHECK_STR(decision(&w, 1), "drop");
    CHECK_STR(decision(&w, 2), "drop");
    CHECK_STR(reason(&w, 1), "lies inside it");
    CHECK_STR(reason(&w, 8), "longer");
    w.policy.contained = SPSH_CONTAINED_KEEP_PART;
    run(&w, true);
    CHECK_STR(decision(&w, 8), "drop");
    CHECK_STR(decision(&w, 1), "keep");
    CHECK_STR(decision(&w, 2), "none");
    spsh__clusters_free(&w.result);
}

/* The whole is dropped only if the parts cover its speech. */
static void test_uncovered_whole_stays(void)
{
    world w;
    make_whole(&w);
    w.qualities[8].seconds = 12;
    w.policy.contained = SPSH_CONTAINED_KEEP_PART;
    run(&w, true);
    CHECK_STR(decision(&w, 8), "keep");
    CHECK_STR(decision(&w, 1), "tag");
    spsh__clusters_free(&w.result);

    make_whole(&w); /* two parts of the same half */
    w.matches[1].a_first = w.matches[1].b_first = 0;
    w.policy.contained = SPSH_CONTAINED_KEEP_PART;
    run(&w, true);
    CHECK_STR(decision(&w, 8), "keep");
    spsh__clusters_free(&w.result);

    make_whole(&w);
    w.qualities[8].is_protected = true;
    w.policy.contained = SPSH_CONTAINED_KEEP_PART;
    run(&w, true);
    CHECK_STR(decision(&w, 8), "keep");
    CHECK_STR(decision(&w, 1), "tag");
    spsh__clusters_free(&w.result);
}

/* A part that is kept for its copies is dropped only if they are parts of the whole, too. */
static void test_part_with_copies(void)
{
    world w;
    make_whole(&w);
    w.qualities[3].is_lossless = false;
    same(&w, 1, 3);
    w.policy.contained = SPSH_CONTAINED_KEEP_LONG;
    run(&w, true);
    CHECK_STR(decision(&w, 8), "keep");
    CHECK_STR(decision(&w, 1), "keep");
    CHECK_STR(decision(&w, 3), "drop");
    CHECK_STR(decision(&w, 2), "drop");
    inside(&w, 3, 8, 0);
    run(&w, true);
    CHECK_U64(w.result.cluster_count, 1);
    CHECK_STR(decision(&w, 8), "keep");
    CHECK_STR(decision(&w, 1), "drop");
    CHECK_STR(decision(&w, 3), "drop");
    spsh__clusters_free(&w.result);
}

/* A part of a dropped utterance must be proven against one that stays, or stay itself. */
static void test_nested(void)
{
    world w;
    world_init(&w);
    w.qualities[8].seconds = 20;
    w.qualities[7].seconds = 10;
    w.policy.contained = SPSH_CONTAINED_KEEP_LONG;
    inside(&w, 7, 8, 3);
    inside(&w, 1, 7, 2);
    run(&w, true);
    CHECK_STR(decision(&w, 7), "drop");
    CHECK_STR(decision(&w, 1), "none");
    CHECK_U64(w.check_count, 1);
    inside(&w, 1, 8, 5);
    run(&w, true);
    CHECK_STR(decision(&w, 1), "drop");
    spsh__clusters_free(&w.result);
}

static void add_jingle(world *w, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        for (uint64_t k = 1; k <= 2 && i + k < count; k++) {
            spsh__match *m = add(w, i, i + k, SPSH_TIER_ACOUSTIC, SPSH_COPY_SHARED_SEGMENT);
            m->count = 16000;
            m->a_first = 80 * i;
            m->b_first = 80 * (i + k);
        }
    }
}

static void test_boilerplate(void)
{
    world w;
    world_init(&w);
    add_jingle(&w, 19);
    run(&w, true);
    CHECK_U64(w.result.boilerplate_count, 0);
    spsh__clusters_free(&w.result);
    world_init(&w);
    add_jingle(&w, 20);
    run(&w, true);
    CHECK_U64(w.result.cluster_count, 0);
    REQUIRE(w.result.boilerplate_count == 1);
    CHECK_U64(w.result.boilerplate[0].utterance_count, 20);
    CHECK_U64(w.result.boilerplate[0].ordinal, 0);
    CHECK(w.result.boilerplate[0].seconds == 2);
    spsh__clusters_free(&w.result);

    /* The jingle, which is not part of a longer clip, must be kept. Copies of one recording count
     * once. */
    world_init(&w);
    w.policy.contained = SPSH_CONTAINED_KEEP_LONG;
    w.qualities[40].seconds = 1;
    for (uint64_t i = 0; i < 20; i++)
        inside(&w, 40, i, 2);
    run(&w, true);
    CHECK_U64(w.result.boilerplate_count, 1);
    CHECK_STR(decision(&w, 40), "none");
    for (uint64_t i = 1; i < 10; i++)
        same(&w, 0, i);
    run(&w, true);
    CHECK_U64(w.result.boilerplate_count, 0);
    CHECK_STR(decision(&w, 40), "drop");
    spsh__clusters_free(&w.result);
}

/* Overlapping windows of one recording form a chain, but no stretch is common to all. */
static void test_windows_are_no_boilerplate(void)
{
    world w;
    world_init(&w);
    for (uint64_t i = 0; i + 1 < 40; i++) {
        spsh__match *m = add(&w, i, i + 1, SPSH_TIER_CHUNKS, SPSH_COPY_SHARED_SEGMENT);
        m->a_first = 16000;
        m->count = 24000;
    }
    run(&w, true);
    CHECK_U64(w.result.boilerplate_count, 0);
    spsh__clusters_free(&w.result);
}

static void test_texts(void)
{
    world w;
    world_init(&w);
    same(&w, 1, 2);
    w.qualities[1].text_hash = 5;
    run(&w, true);
    CHECK(!w.result.clusters[0].texts_differ);
    w.qualities[2].text_hash = 5;
    run(&w, true);
    CHECK(!w.result.clusters[0].texts_differ);
    w.qualities[2].text_hash = 6;
    run(&w, true);
    CHECK(w.result.clusters[0].texts_differ);
    spsh__clusters_free(&w.result);
}

TEST_MAIN(unit_clusters)
{
    RUN(test_nothing);
    RUN(test_best_is_kept);
    RUN(test_lossless_are_alike);
    RUN(test_keep_rules);
    RUN(test_chain);
    RUN(test_equal_samples);
    RUN(test_protected);
    RUN(test_never_dropped);
    RUN(test_contained);
    RUN(test_uncovered_whole_stays);
    RUN(test_part_with_copies);
    RUN(test_nested);
    RUN(test_boilerplate);
    RUN(test_windows_are_no_boilerplate);
    RUN(test_texts);
    return TEST_RESULT();
}
