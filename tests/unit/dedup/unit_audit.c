/* unit_audit.c: leak kinds, masks, evidence, and cells of matches made by hand. */
#include "audit/audit.h"
#include "spsh_test.h"

/* Train: ordinals 0 to 9 split 0, 10 to 19 split 1. Test: 20 to 24 split 0, 30 to 34 split 1, each
 * of 2 seconds. 40 is on no side. */
enum { TEST_COUNT = 10 };
static const spsh__leak_split train_splits[] = {
    {"a.spsh: one", 10, 20},
    {"b.spsh: two", 10, 20}
};
static const spsh__leak_split test_splits[] = {
    {"a.spsh: x", 5, 10},
    {"a.spsh: y", 5, 10}
};
static const uint64_t test_ordinals[TEST_COUNT] = {20, 21, 22, 23, 24, 30, 31, 32, 33, 34};
static const uint32_t test_split_numbers[TEST_COUNT] = {0, 0, 0, 0, 0, 1, 1, 1, 1, 1};
static const double test_seconds[TEST_COUNT] = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2};

static spsh_status train_split(const void *user, uint64_t ordinal, uint32_t *ret_split,
                               spsh_error *err)
{
    (void)user;
    (void)err;
    *ret_split = ordinal < 10 ? 0 : ordinal < 20 ? 1 : SPSH_NONE_U32;
    return SPSH_OK;
}

static const spsh__audit_roster roster = {
    .train = train_splits,
    .test = test_splits,
    .train_count = 2,
    .test_count = 2,
    .test_ordinals = test_ordinals,
    .test_splits = test_split_numbers,
    .test_seconds = test_seconds,
    .test_utterance_count = TEST_COUNT,
    .train_split_fn = train_split,
};

static spsh__match match_of(uint64_t a, uint64_t b, spsh_copy_tier tier, spsh_copy_class kind)
{
    return (spsh__match){
        .a = a, .b = b, .tier = tier, .kind = kind, .coverage_a = 1, .coverage_b = 1, .scale = 1};
}

static spsh__audit *audit_of(const spsh__match *matches, size_t count, spsh__leaks *ret_leaks)
{
    spsh__audit *audit = NULL;
    REQUIRE(spsh__audit_open(&roster, &audit, NULL) == SPSH_OK);
    const spsh__match_sink sink = spsh__audit_sink(audit);
    for (size_t i = 0; i < count; i++)
        REQUIRE(sink.match_fn(sink.user, &matches[i], NULL) == SPSH_OK);
    REQUIRE(spsh__audit_count(audit, ret_leaks, NULL) == SPSH_OK);
    return audit;
}

static unsigned mask_of(const spsh__leaks *leaks, uint64_t ordinal)
{
    return leaks->masks[spsh__audit_test_number(&roster, ordinal)];
}

static const spsh__leak_evidence *evidence_of(const spsh__leaks *leaks, uint64_t ordinal,
                                              spsh_leak leak)
{
    return &leaks->evidence[spsh__audit_test_number(&roster, ordinal) * SPSH_LEAK_COUNT + leak];
}

#define BIT(name_) (1U << SPSH_LEAK_##name_)

static void test_kinds(void)
{
    static const struct {
        spsh_copy_tier tier;
        spsh_copy_class kind;
        spsh_leak leak;
    } cases[] = {
        {SPSH_TIER_BYTES,        SPSH_COPY_SAME_RECORDING,   SPSH_LEAK_RECORDING    },
        {SPSH_TIER_PCM,          SPSH_COPY_SAME_RECORDING,   SPSH_LEAK_RECORDING    },
        {SPSH_TIER_BYTES,        SPSH_COPY_CONTAINED,        SPSH_LEAK_RECORDING    },
        {SPSH_TIER_CHUNKS,       SPSH_COPY_CONTAINED,        SPSH_LEAK_RECORDING    },
        {SPSH_TIER_ACOUSTIC,     SPSH_COPY_SAME_RECORDING,   SPSH_LEAK_RECORDING    },
        {SPSH_TIER_ACOUSTIC,     SPSH_COPY_CONTAINED,        SPSH_LEAK_RECORDING    },
        {SPSH_TIER_ACOUSTIC,     SPSH_COPY_SHARED_SEGMENT,   SPSH_LEAK_SEGMENT      },
        {SPSH_TIER_CHUNKS,       SPSH_COPY_SHARED_SEGMENT,   SPSH_LEAK_SEGMENT      },
        {SPSH_TIER_ACOUSTIC,     SPSH_COPY_TIME_SCALED,      SPSH_LEAK_PERFORMANCE  },
        {SPSH_TIER_ACOUSTIC,     SPSH_COPY_SAME_PERFORMANCE, SPSH_LEAK_PERFORMANCE  },
        {SPSH_TIER_ACOUSTIC,     SPSH_COPY_PROBABLE_COPY,    SPSH_LEAK_PERFORMANCE  },
        {SPSH_TIER_SCALED,       SPSH_COPY_SAME_RECORDING,   SPSH_LEAK_PERFORMANCE  },
        {SPSH_TIER_SCALED,       SPSH_COPY_SHARED_SEGMENT,   SPSH_LEAK_PERFORMANCE  },
        {SPSH_TIER_ACOUSTIC,     SPSH_COPY_REREAD,           SPSH_LEAK_COUNT        },
        {SPSH_TIER_ACOUSTIC,     SPSH_COPY_NONE,             SPSH_LEAK_COUNT        },
        {SPSH_TIER_TEXT_EXACT,   SPSH_COPY_NONE,             SPSH_LEAK_SENTENCE     },
        {SPSH_TIER_TEXT_NEAR,    SPSH_COPY_NONE,             SPSH_LEAK_SENTENCE_NEAR},
        {SPSH_TIER_TEXT_COVERED, SPSH_COPY_NONE,             SPSH_LEAK_SENTENCE_NEAR},
        {SPSH_TIER_SPEAKER,      SPSH_COPY_NONE,             SPSH_LEAK_SPEAKER      },
        {SPSH_TIER_DOCUMENT,     SPSH_COPY_NONE,             SPSH_LEAK_DOCUMENT     },
        {SPSH_TIER_SOURCE,       SPSH_COPY_NONE,             SPSH_LEAK_SOURCE       },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        spsh__match match = match_of(1, 20, cases[i].tier, cases[i].kind);
        match.active_s = 1.5;
        CHECK_STR(spsh_leak_text(spsh__leak_of(&match)), spsh_leak_text(cases[i].leak));
    }
}

static void test_a_segment_is_a_leak_from_a_second_on(void)
{
    spsh__match match = match_of(1, 20, SPSH_TIER_ACOUSTIC, SPSH_COPY_SHARED_SEGMENT);
    match.active_s = 1.0;
    CHECK(spsh__leak_of(&match) == SPSH_LEAK_SEGMENT);
    match.active_s = 0.99;
    CHECK(spsh__leak_of(&match) == SPSH_LEAK_COUNT);
    match.active_s = 0; /* exact tiers may know only the length */
    match.rate_hz = 16000;
    match.count = 16000;
    CHECK(spsh__leak_of(&match) == SPSH_LEAK_SEGMENT);
    match.count = 15999;
    CHECK(spsh__leak_of(&match) == SPSH_LEAK_COUNT);
}

static void test_intervals(void)
{
    static const struct {
        uint64_t part, whole;
        double low, high;
    } cases[] = {
        {0,  0,    0,        1       },
        {0,  10,   0,        0.277533},
        {10, 10,   0.722467, 1       },
        {1,  10,   0.017876, 0.404150},
        {50, 100,  0.403832, 0.596168},
        {3,  1000, 0.001021, 0.008783},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        double low = -1;
        double high = -1;
        spsh__leak_interval(cases[i].part, cases[i].whole, &low, &high);
        CHECK(low > cases[i].low - 1e-6 && low < cases[i].low + 1e-6);
        CHECK(high > cases[i].high - 1e-6 && high < cases[i].high + 1e-6);
    }
}

static void test_cells(void)
{
    spsh__match matches[] = {
        match_of(3, 20, SPSH_TIER_ACOUSTIC, SPSH_COPY_SAME_RECORDING),
        match_of(13, 20, SPSH_TIER_ACOUSTIC, SPSH_COPY_CONTAINED),
        match_of(3, 20, SPSH_TIER_TEXT_EXACT, SPSH_COPY_NONE),
        match_of(4, 20, SPSH_TIER_TEXT_EXACT, SPSH_COPY_NONE),
        match_of(12, 21, SPSH_TIER_SPEAKER, SPSH_COPY_NONE),
        match_of(12, 30, SPSH_TIER_SPEAKER, SPSH_COPY_NONE),
        match_of(5, 31, SPSH_TIER_ACOUSTIC, SPSH_COPY_REREAD),
        match_of(1, 2, SPSH_TIER_ACOUSTIC, SPSH_COPY_SAME_RECORDING),
    };
    spsh__leaks leaks;
    spsh__audit *audit = audit_of(matches, sizeof(matches) / sizeof(matches[0]), &leaks);
    CHECK_U64(leaks.match_count, 7); /* all but the one inside train */
    CHECK_U64(mask_of(&leaks, 20), BIT(RECORDING) | BIT(SENTENCE));
    CHECK_U64(mask_of(&leaks, 21), BIT(SPEAKER));
    CHECK_U64(mask_of(&leaks, 30), BIT(SPEAKER));
    CHECK_U64(mask_of(&leaks, 31), 0);
    /* Two train splits leak into one utterance: each cell counts it, the total counts it once. */
    CHECK_U64(leaks.cells[0].utterances[SPSH_LEAK_RECORDING], 1);
    CHECK_U64(leaks.cells[2].utterances[SPSH_LEAK_RECORDING], 1);
    CHECK_U64(leaks.totals[0].utterances[SPSH_LEAK_RECORDING], 1);
    CHECK(leaks.totals[0].seconds[SPSH_LEAK_RECORDING] == 2);
    CHECK_U64(leaks.cells[0].utterances[SPSH_LEAK_SENTENCE], 1);
    CHECK_U64(leaks.cells[2].utterances[SPSH_LEAK_SENTENCE], 0);
    CHECK_U64(leaks.cells[3].utterances[SPSH_LEAK_SPEAKER], 1);
    CHECK_U64(leaks.totals[1].utterances[SPSH_LEAK_SPEAKER], 1);
    CHECK_U64(leaks.totals[1].utterances[SPSH_LEAK_RECORDING], 0);
    /* The whole recording is stronger evidence than a part. */
    const spsh__leak_evidence *evidence = evidence_of(&leaks, 20, SPSH_LEAK_RECORDING);
    REQUIRE(evidence->match < leaks.match_count);
    CHECK_U64(leaks.matches[evidence->match].a, 3);
    CHECK_U64(evidence->of, 20);
    CHECK(evidence_of(&leaks, 20, SPSH_LEAK_SPEAKER)->match == SPSH_NONE_U64);
    spsh__audit_close(audit);
}

/* The acoustic tier compares only the first of equal utterances. The others inherit its leaks. */
static void test_copies_inherit(void)
{
    spsh__match trimmed = match_of(21, 30, SPSH_TIER_PCM, SPSH_COPY_SAME_RECORDING);
    trimmed.coverage_b = 0.5; /* zeros around it */
    spsh__match overlapping = match_of(32, 33, SPSH_TIER_BYTES, SPSH_COPY_SAME_RECORDING);
    overlapping.coverage_a = 0.9;
    const spsh__match matches[] = {
        match_of(3, 21, SPSH_TIER_ACOUSTIC, SPSH_COPY_SAME_RECORDING),
        match_of(3, 15, SPSH_TIER_BYTES, SPSH_COPY_SAME_RECORDING),
        match_of(3, 4, SPSH_TIER_BYTES, SPSH_COPY_SAME_RECORDING),
        trimmed,
        match_of(30, 31, SPSH_TIER_BYTES, SPSH_COPY_SAME_RECORDING),
        match_of(3, 21, SPSH_TIER_SPEAKER, SPSH_COPY_NONE),
        overlapping,
        match_of(5, 32, SPSH_TIER_ACOUSTIC, SPSH_COPY_SAME_RECORDING),
    };
    spsh__leaks leaks;
    spsh__audit *audit = audit_of(matches, sizeof(matches) / sizeof(matches[0]), &leaks);
    CHECK_U64(mask_of(&leaks, 21), BIT(RECORDING) | BIT(SPEAKER));
    CHECK_U64(mask_of(&leaks, 30), BIT(RECORDING)); /* copies do not inherit leaks by name */
    CHECK_U64(mask_of(&leaks, 31), BIT(RECORDING)); /* the copy of a copy */
    CHECK_U64(mask_of(&leaks, 32), BIT(RECORDING));
    CHECK_U64(mask_of(&leaks, 33), 0); /* mostly the same stretch is not the same samples */
    CHECK_U64(leaks.cells[0].utterances[SPSH_LEAK_RECORDING], 1);
    CHECK_U64(leaks.cells[1].utterances[SPSH_LEAK_RECORDING], 3);
    CHECK_U64(leaks.cells[2].utterances[SPSH_LEAK_RECORDING], 1); /* 15 is 3's copy in split 1 */
    CHECK_U64(leaks.cells[3].utterances[SPSH_LEAK_RECORDING], 2);
    const spsh__leak_evidence *evidence = evidence_of(&leaks, 31, SPSH_LEAK_RECORDING);
    REQUIRE(evidence->match < leaks.match_count);
    CHECK_U64(leaks.matches[evidence->match].a, 3);
    CHECK_U64(leaks.matches[evidence->match].b, 21);
    CHECK_U64(evidence->of, 21);
    spsh__audit_close(audit);
}

/* Equal groups that begin on the train or the test side. 12, 21, and 34 are linked only by 3. */
static void test_equal_samples_across_sides(void)
{
    const spsh__match matches[] = {
        match_of(3, 21, SPSH_TIER_PCM, SPSH_COPY_SAME_RECORDING),
        match_of(3, 12, SPSH_TIER_PCM, SPSH_COPY_SAME_RECORDING),
        match_of(3, 34, SPSH_TIER_PCM, SPSH_COPY_SAME_RECORDING),
        match_of(22, 23, SPSH_TIER_BYTES, SPSH_COPY_SAME_RECORDING),
    };
    spsh__leaks leaks;
    spsh__audit *audit = audit_of(matches, sizeof(matches) / sizeof(matches[0]), &leaks);
    CHECK_U64(mask_of(&leaks, 21), BIT(RECORDING));
    CHECK_U64(mask_of(&leaks, 34), BIT(RECORDING));
    CHECK_U64(mask_of(&leaks, 22), 0); /* copies inside test are not leaks */
    CHECK_U64(mask_of(&leaks, 23), 0);
    for (size_t i = 0; i < 4; i++)
        CHECK_U64(leaks.cells[i].utterances[SPSH_LEAK_RECORDING], 1);
    CHECK_U64(evidence_of(&leaks, 34, SPSH_LEAK_RECORDING)->of, 34);
    spsh__audit_close(audit);
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static bool is_same_cell(const spsh__leak_cell *left, const spsh__leak_cell *right)
{
    bool same = true;
    for (size_t k = 0; k < SPSH_LEAK_COUNT; k++)
        same = same && left->utterances[k] == right->utterances[k] &&
               left->seconds[k] == right->seconds[k];
    return same;
}

static void test_neither_order_nor_repetition_counts(void)
{
    enum { MATCHES = 200 };
    spsh__match matches[2 * MATCHES];
    uint64_t state = 7;
    spsh__leaks one, two;
    for (size_t i = 0; i < MATCHES; i++) {
        const uint64_t a = next_random(&state) % 20;
        const uint64_t b = test_ordinals[next_random(&state) % TEST_COUNT];
        matches[i] = match_of(a, b, (spsh_copy_tier)(next_random(&state) % SPSH_TIER_COUNT),
                              (spsh_copy_class)(next_random(&state) % SPSH_COPY_CLASS_COUNT));
        matches[i].ncc = (double)(next_random(&state) % 3) / 4;
        if (i % 50 == 0)
            matches[i] = match_of(b - 1 > 19 && b % 10 != 0 ? b - 1 : a, b, SPSH_TIER_PCM,
                                  SPSH_COPY_SAME_RECORDING);
    }
    spsh__audit *first = audit_of(matches, MATCHES, &one);
    for (size_t i = 0; i < MATCHES; i++) {
        const size_t other = next_random(&state) % MATCHES;
        const spsh__match held = matches[i];
        matches[i] = matches[other];
        matches[other] = held;
    }
    memcpy(matches + MATCHES, matches, MATCHES * sizeof(matches[0]));
    spsh__audit *second = audit_of(matches, 2 * MATCHES, &two);
    CHECK_U64(one.match_count, two.match_count);
    CHECK(memcmp(one.masks, two.masks, TEST_COUNT) == 0);
    CHECK(memcmp(one.evidence, two.evidence,
                 TEST_COUNT * SPSH_LEAK_COUNT * sizeof(*one.evidence)) == 0);
    for (size_t i = 0; i < 4; i++)
        CHECK(is_same_cell(&one.cells[i], &two.cells[i]));
    for (size_t i = 0; i < 2; i++)
        CHECK(is_same_cell(&one.totals[i], &two.totals[i]));
    spsh__audit_close(first);
    spsh__audit_close(second);
}

static void test_an_utterance_of_no_side_is_refused(void)
{
    const spsh__match match = match_of(20, 40, SPSH_TIER_ACOUSTIC, SPSH_COPY_SAME_RECORDING);
    spsh__audit *audit = NULL;
    spsh__leaks leaks;
    REQUIRE(spsh__audit_open(&roster, &audit, NULL) == SPSH_OK);
    const spsh__match_sink sink = spsh__audit_sink(audit);
    REQUIRE(sink.match_fn(sink.user, &match, NULL) == SPSH_OK);
    CHECK(spsh__audit_count(audit, &leaks, NULL) == SPSH_E_CORRUPT);
    spsh__audit_close(audit);
}

static void test_nothing(void)
{
    spsh__leaks leaks;
    spsh__audit *audit = audit_of(NULL, 0, &leaks);
    CHECK_U64(leaks.match_count, 0);
    for (size_t i = 0; i < TEST_COUNT; i++)
        CHECK_U64(leaks.masks[i], 0);
    CHECK_U64(leaks.totals[1].utterances[SPSH_LEAK_SPEAKER], 0);
    spsh__audit_close(audit);
}

TEST_MAIN(unit_audit)
{
    RUN(test_kinds);
    RUN(test_a_segment_is_a_leak_from_a_second_on);
    RUN(test_intervals);
    RUN(test_cells);
    RUN(test_copies_inherit);
    RUN(test_equal_samples_across_sides);
    RUN(test_neither_order_nor_repetition_counts);
    RUN(test_an_utterance_of_no_side_is_refused);
    RUN(test_nothing);
    return TEST_RESULT();
}
