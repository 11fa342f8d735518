/* unit_ctc.c: edge cases of ctc.h, in double and in float. */
#include "ctc_kit.h"

enum { SYMBOLS = 5, FRAMES = 7, COUNT = SYMBOLS * FRAMES };

static double logits[COUNT];
static double dlogits[COUNT];

/* Run each build on logits. The gradient starts as 7s. */
static spsh__ctc_result run(ctc_kind kind, const spsh__ctc_utterance *u)
{
    for (size_t i = 0; i < COUNT; i++)
        dlogits[i] = 7;
    return ctc_run(kind, u, logits, dlogits);
}

static void fill(uint64_t seed)
{
    for (size_t i = 0; i < COUNT; i++)
        logits[i] = 3 * ctc_random(&seed);
}

static spsh__ctc_utterance utterance(uint32_t frames, const uint32_t *labels, uint32_t count)
{
    return (spsh__ctc_utterance){.frames = frames,
                                 .symbols = SYMBOLS,
                                 .stride = SYMBOLS,
                                 .labels = labels,
                                 .label_count = count,
                                 .scale = 1};
}

static bool gradient_is_zero(uint32_t frames)
{
    bool is_zero = true;
    for (size_t i = 0; i < (size_t)frames * SYMBOLS; i++)
        is_zero = is_zero && dlogits[i] == 0;
    return is_zero;
}

/* -ln of symbol k's softmax at t. */
static double cost(size_t t, size_t k)
{
    double sum = 0;
    for (size_t j = 0; j < SYMBOLS; j++)
        sum += exp(logits[t * SYMBOLS + j]);
    return log(sum) - logits[t * SYMBOLS + k];
}

static void test_an_empty_label_is_the_path_of_blanks(void)
{
    const spsh__ctc_utterance u = utterance(FRAMES, NULL, 0);
    double want = 0;
    fill(1);
    for (size_t t = 0; t < FRAMES; t++)
        want += cost(t, 0);
    for (ctc_kind kind = CTC_F64; kind < ctc_kinds(); kind++) {
        const spsh__ctc_result result = run(kind, &u);
        CHECK(!result.is_infeasible && ctc_near(result.loss, want, ctc_tolerances[kind]));
        for (size_t i = 0; i < COUNT; i++)
            CHECK(ctc_near(dlogits[i], exp(-cost(i / SYMBOLS, i % SYMBOLS)) - (i % SYMBOLS == 0),
                           ctc_tolerances[kind]));
    }
}

static void test_no_frames_say_nothing(void)
{
    const uint32_t labels[] = {1};
    const spsh__ctc_utterance nothing = utterance(0, NULL, 0);
    const spsh__ctc_utterance something = utterance(0, labels, 1);
    for (ctc_kind kind = CTC_F64; kind < ctc_kinds(); kind++) {
        spsh__ctc_result result = run(kind, &nothing);
        CHECK(result.loss == 0 && !result.is_infeasible);
        CHECK(dlogits[0] == 7);
        result = run(kind, &something);
        CHECK(isinf(result.loss) && result.is_infeasible);
        CHECK(dlogits[0] == 7);
    }
}

static void test_too_few_frames_are_infeasible(void)
{
    const uint32_t labels[] = {1, 1, 2, 3, 3, 3};
    spsh__ctc_utterance u = utterance(FRAMES, labels, 6);
    fill(2);
    CHECK_U64(spsh__ctc_frames_min(&u), 9);
    for (ctc_kind kind = CTC_F64; kind < ctc_kinds(); kind++) {
        const spsh__ctc_result result = run(kind, &u);
        CHECK(isinf(result.loss) && result.loss > 0 && result.is_infeasible);
        CHECK(gradient_is_zero(FRAMES));
    }
}

static void test_just_enough_frames_have_one_path(void)
{
    const uint32_t labels[] = {1, 1, 2, 4, 4};
    const size_t path[] = {1, 0, 1, 2, 4, 0, 4};
    const spsh__ctc_utterance u = utterance(FRAMES, labels, 5);
    double want = 0;
    fill(3);
    for (size_t t = 0; t < FRAMES; t++)
        want += cost(t, path[t]);
    for (ctc_kind kind = CTC_F64; kind < ctc_kinds(); kind++) {
        const spsh__ctc_result result = run(kind, &u);
        CHECK(!result.is_infeasible && ctc_near(result.loss, want, ctc_tolerances[kind]));
        for (size_t i = 0; i < COUNT; i++)
            CHECK(
                ctc_near(dlogits[i],
                         exp(-cost(i / SYMBOLS, i % SYMBOLS)) - (i % SYMBOLS == path[i / SYMBOLS]),
                         ctc_tolerances[kind]));
    }
}

static void test_labels_that_are_no_symbols_are_infeasible(void)
{
    const uint32_t blank[] = {1, 0};
    const uint32_t beyond[] = {1, SYMBOLS};
    const spsh__ctc_utterance rows[] = {utterance(FRAMES, blank, 2), utterance(FRAMES, beyond, 2)};
    fill(4);
    for (size_t i = 0; i < 2; i++) {
        for (ctc_kind kind = CTC_F64; kind < ctc_kinds(); kind++) {
            const spsh__ctc_result result = run(kind, &rows[i]);
            CHECK(isinf(result.loss) && result.is_infeasible && gradient_is_zero(FRAMES));
        }
    }
    spsh__ctc_utterance u = utterance(FRAMES, blank, 1);
    u.blank = SYMBOLS;
    CHECK_U64(spsh__ctc_frames_min(&u), UINT64_MAX);
}

static void test_the_blank_can_be_any_symbol(void)
{
    const uint32_t first[] = {4, 4, 1};
    const uint32_t turned[] = {0, 0, 2};
    const spsh__ctc_utterance u = utterance(FRAMES, first, 3);
    spsh__ctc_utterance v = utterance(FRAMES, turned, 3);
    v.blank = 1; /* every symbol k is k + 1 now */
    for (ctc_kind kind = CTC_F64; kind < ctc_kinds(); kind++) {
        fill(5);
        const spsh__ctc_result want = run(kind, &u);
        double wanted[COUNT];
        memcpy(wanted, dlogits, sizeof(wanted));
        fill(5);
        double moved[COUNT];
        for (size_t i = 0; i < COUNT; i++)
            moved[i / SYMBOLS * SYMBOLS + (i % SYMBOLS + 1) % SYMBOLS] = logits[i];
        memcpy(logits, moved, sizeof(moved));
        const spsh__ctc_result got = run(kind, &v);
        CHECK(ctc_near(got.loss, want.loss, ctc_tolerances[kind]));
        for (size_t i = 0; i < COUNT; i++)
            CHECK(ctc_near(dlogits[i / SYMBOLS * SYMBOLS + (i % SYMBOLS + 1) % SYMBOLS], wanted[i],
                           ctc_tolerances[kind]));
    }
}

static void test_the_scale_counts(void)
{
    const uint32_t labels[] = {3, 1};
    spsh__ctc_utterance u = utterance(FRAMES, labels, 2);
    fill(6);
    for (ctc_kind kind = CTC_F64; kind < ctc_kinds(); kind++) {
        double wanted[COUNT];
        u.scale = 1;
        const spsh__ctc_result want = run(kind, &u);
        memcpy(wanted, dlogits, sizeof(wanted));
        u.scale = 65536; /* scale of mixed precision: a power of two, so exact */
        const spsh__ctc_result got = run(kind, &u);
        CHECK(got.loss == want.loss);
        for (size_t i = 0; i < COUNT; i++)
            CHECK(dlogits[i] == 65536 * wanted[i]);
        u.scale = 0;
        (void)run(kind, &u);
        CHECK(gradient_is_zero(FRAMES));
    }
}

static void test_between_rows_nothing_is_touched(void)
{
    const uint32_t labels[] = {1, 2};
    spsh__ctc_utterance u = utterance(3, labels, 2);
    u.symbols = 3;
    fill(7);
    for (size_t t = 0; t < FRAMES; t++)
        logits[t * SYMBOLS + 3] = logits[t * SYMBOLS + 4] =
            (double)NAN; /* these must not be read */
    for (ctc_kind kind = CTC_F64; kind < ctc_kinds(); kind++) {
        const spsh__ctc_result result = run(kind, &u);
        CHECK(isfinite(result.loss));
        for (size_t t = 0; t < FRAMES; t++) {
            CHECK(dlogits[t * SYMBOLS + 3] == 7 && dlogits[t * SYMBOLS + 4] == 7);
            CHECK((dlogits[t * SYMBOLS] == 7) == (t >= 3));
        }
    }
}

static void test_what_is_no_number_is_said(void)
{
    const uint32_t labels[] = {1, 2};
    const spsh__ctc_utterance u = utterance(FRAMES, labels, 2);
    const double bad[] = {(double)NAN, (double)INFINITY};
    for (size_t i = 0; i < 2 * COUNT; i++) {
        fill(8);
        logits[i / 2] = bad[i % 2];
        for (ctc_kind kind = CTC_F64; kind < ctc_kinds(); kind++) {
            const spsh__ctc_result result = run(kind, &u);
            CHECK(isnan(result.loss) && !result.is_infeasible && gradient_is_zero(FRAMES));
        }
    }
    fill(8);
    for (size_t k = 0; k < SYMBOLS; k++)
        logits[2 * SYMBOLS + k] = -(double)INFINITY;
    for (ctc_kind kind = CTC_F64; kind < ctc_kinds(); kind++) {
        CHECK(isnan(run(kind, &u).loss) && gradient_is_zero(FRAMES));
    }
}

static void test_impossible_symbols(void)
{
    const uint32_t labels[] = {1, 2};
    const spsh__ctc_utterance u = utterance(FRAMES, labels, 2);
    for (ctc_kind kind = CTC_F64; kind < ctc_kinds(); kind++) {
        fill(9); /* one symbol is impossible: paths without it still count */
        for (size_t t = 0; t < FRAMES; t++)
            logits[t * SYMBOLS + 4] = -(double)INFINITY;
        CHECK(isfinite(run(kind, &u).loss));
        CHECK(dlogits[4] == 0 && dlogits[0] != 0);
        for (size_t t = 0; t < FRAMES; t++) /* a symbol that all paths need */
            logits[t * SYMBOLS + 2] = -(double)INFINITY;
        const spsh__ctc_result result = run(kind, &u);
        CHECK(isinf(result.loss) && !result.is_infeasible && gradient_is_zero(FRAMES));
    }
}

static void test_loss_without_gradient(void)
{
    const uint32_t labels[] = {1, 2};
    const spsh__ctc_utterance u = utterance(FRAMES, labels, 2);
    fill(10);
    for (ctc_kind kind = CTC_F64; kind < ctc_kinds(); kind++) {
        CHECK(ctc_run(kind, &u, logits, NULL).loss == run(kind, &u).loss);
    }
}

/* A network that has learned to output only blanks, and one that is sure of a wrong symbol. Paths
 * of probability e^-10000 must still count, and their posteriors must be finite. */
static void test_hopeless_paths_count(void)
{
    const uint32_t labels[] = {1, 2, 1};
    const spsh__ctc_utterance u = utterance(FRAMES, labels, 3);
    for (size_t i = 0; i < COUNT; i++)
        logits[i] = i % SYMBOLS == 0 ? 0 : -4000;
    for (ctc_kind kind = CTC_F64; kind < ctc_kinds(); kind++) {
        /* 35 ways to place three labels, each the only one at its frame */
        const spsh__ctc_result result = run(kind, &u);
        CHECK(ctc_near(result.loss, 12000 - log(35), ctc_tolerances[kind]));
        for (size_t t = 0; t < FRAMES; t++) {
            double sum = 0;
            for (size_t k = 0; k < SYMBOLS; k++)
                sum += dlogits[t * SYMBOLS + k];
            CHECK(ctc_near(sum, 0, ctc_tolerances[kind]));
            CHECK(ctc_near(dlogits[t * SYMBOLS], 3.0 / 7, 100 * ctc_tolerances[kind]));
        }
    }
}

TEST_MAIN(unit_ctc)
{
    RUN(test_an_empty_label_is_the_path_of_blanks);
    RUN(test_no_frames_say_nothing);
    RUN(test_too_few_frames_are_infeasible);
    RUN(test_just_enough_frames_have_one_path);
    RUN(test_labels_that_are_no_symbols_are_infeasible);
    RUN(test_the_blank_can_be_any_symbol);
    RUN(test_the_scale_counts);
    RUN(test_between_rows_nothing_is_touched);
    RUN(test_what_is_no_number_is_said);
    RUN(test_impossible_symbols);
    RUN(test_loss_without_gradient);
    RUN(test_hopeless_paths_count);
    return TEST_RESULT();
}
