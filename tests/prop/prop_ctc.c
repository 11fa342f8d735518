/* prop_ctc.c: CTC compared with the enumeration of all paths, with finite differences, and, for
 * many paths, with the recursion in logarithms. */
#include "ctc_kit.h"

static uint64_t seed;

/* ---- all paths ---- */

enum { FRAMES_MAX = 6, SYMBOLS_MAX = 4, LABELS_MAX = 4 };

typedef struct small_case {
    spsh__ctc_utterance u;
    uint32_t labels[LABELS_MAX];
    double logits[FRAMES_MAX * SYMBOLS_MAX];
    double softmax[FRAMES_MAX * SYMBOLS_MAX];
} small_case;

static void make_case(uint64_t *random, double spread, small_case *c)
{
    const uint32_t symbols = 2 + (uint32_t)(test_random(random) % (SYMBOLS_MAX - 1));
    c->u = (spsh__ctc_utterance){.frames = (uint32_t)(test_random(random) % (FRAMES_MAX + 1)),
                                 .symbols = symbols,
                                 .blank = (uint32_t)(test_random(random) % symbols),
                                 .stride = symbols,
                                 .labels = c->labels,
                                 .label_count = (uint32_t)(test_random(random) % (LABELS_MAX + 1)),
                                 .scale = 1};
    for (uint32_t i = 0; i < c->u.label_count; i++)
        c->labels[i] = (c->u.blank + 1 + (uint32_t)(test_random(random) % (symbols - 1))) % symbols;
    for (size_t t = 0; t < c->u.frames; t++) {
        double sum = 0;
        for (size_t k = 0; k < symbols; k++) {
            const double value = (double)(float)(spread * ctc_random(random));
            c->logits[t * symbols + k] = value;
            sum += exp(value);
        }
        for (size_t k = 0; k < symbols; k++)
            c->softmax[t * symbols + k] = exp(c->logits[t * symbols + k]) / sum;
    }
}

/* Return whether the path without its blanks and repeats equals the labels. */
static bool path_says(const spsh__ctc_utterance *u, const uint32_t *path)
{
    uint32_t found = 0;
    for (uint32_t t = 0; t < u->frames; t++) {
        if (path[t] == u->blank || (t > 0 && path[t] == path[t - 1]))
            continue;
        if (found == u->label_count || u->labels[found] != path[t])
            return false;
        found++;
    }
    return found == u->label_count;
}

/* Probability of the labels, and of their paths with symbol k at time t. */
static double all_paths(const small_case *c, double *of_symbols)
{
    const uint32_t symbols = c->u.symbols;
    uint32_t paths = 1;
    double p = 0;
    memset(of_symbols, 0, sizeof(c->softmax));
    for (uint32_t t = 0; t < c->u.frames; t++)
        paths *= symbols;
    for (uint32_t number = 0; number < paths; number++) {
        uint32_t path[FRAMES_MAX];
        uint32_t rest = number;
        double of_path = 1;
        for (uint32_t t = 0; t < c->u.frames; t++, rest /= symbols) {
            path[t] = rest % symbols;
            of_path *= c->softmax[t * symbols + path[t]];
        }
        if (!path_says(&c->u, path))
            continue;
        p += of_path;
        for (uint32_t t = 0; t < c->u.frames; t++)
            of_symbols[t * symbols + path[t]] += of_path;
    }
    return p;
}

static void check_case(const small_case *c, double p, const double *of_symbols)
{
    const size_t count = (size_t)c->u.frames * c->u.symbols;
    for (ctc_kind kind = CTC_F64; kind < ctc_kinds(); kind++) {
        double got[FRAMES_MAX * SYMBOLS_MAX];
        const spsh__ctc_result result = ctc_run(kind, &c->u, c->logits, got);
        CHECK(result.is_infeasible == (p == 0));
        CHECK(p == 0 ? isinf(result.loss) : ctc_near(result.loss, -log(p), ctc_tolerances[kind]));
        for (size_t i = 0; i < count; i++)
            CHECK(ctc_near(got[i], p == 0 ? 0 : c->softmax[i] - of_symbols[i] / p,
                           ctc_tolerances[kind]));
    }
}

static void test_it_is_the_sum_of_all_paths(void)
{
    uint64_t random = seed;
    unsigned feasible = 0;
    for (unsigned round = 0; round < 1500; round++) {
        small_case c;
        double of_symbols[FRAMES_MAX * SYMBOLS_MAX];
        make_case(&random, round % 3 == 0 ? 20 : 2, &c);
        const double p = all_paths(&c, of_symbols);
        feasible += p > 0;
        check_case(&c, p, of_symbols);
    }
    CHECK(feasible > 500 && feasible < 1400);
}

/* ---- longer utterances ---- */

typedef struct long_case {
    spsh__ctc_utterance u;
    uint32_t *labels;
    double *logits;
} long_case;

static long_case make_long(uint64_t *random, uint32_t frames, uint32_t labels, uint32_t symbols)
{
    long_case c = {0};
    c.labels = (uint32_t *)ctc_block(labels * sizeof(uint32_t));
    c.logits = (double *)ctc_block((size_t)frames * symbols * sizeof(double));
    for (uint32_t i = 0; i < labels; i++)
        c.labels[i] = 1 + (uint32_t)(test_random(random) % (symbols - 1));
    c.u = (spsh__ctc_utterance){.frames = frames,
                                .symbols = symbols,
                                .stride = symbols,
                                .labels = c.labels,
                                .label_count = labels,
                                .scale = 1};
    return c;
}

static void free_long(long_case *c)
{
    free(c->labels);
    free(c->logits);
}

static double log_sum(double a, double b)
{
    const double greatest = a > b ? a : b;
    return isinf(greatest) ? greatest : greatest + log(exp(a - greatest) + exp(b - greatest));
}

static uint32_t symbol_of(const spsh__ctc_utterance *u, size_t state)
{
    return state % 2 == 0 ? u->blank : u->labels[state / 2];
}

static bool may_skip(const spsh__ctc_utterance *u, size_t state)
{
    return state >= 3 && state % 2 == 1 && symbol_of(u, state) != symbol_of(u, state - 2);
}

/* lp: logarithms of softmax. */
static void fill_alpha(const spsh__ctc_utterance *u, const double *lp, size_t states, double *alpha)
{
    for (size_t t = 0; t < u->frames; t++)
        for (size_t s = 0; s < states; s++) {
            const double *before = t == 0 ? NULL : alpha + (t - 1) * states;
            double sum = t == 0 && s < 2 ? 0 : -(double)INFINITY;
            if (t > 0) {
                sum = before[s];
                sum = s > 0 ? log_sum(sum, before[s - 1]) : sum;
                sum = may_skip(u, s) ? log_sum(sum, before[s - 2]) : sum;
            }
            alpha[t * states + s] = sum + lp[t * u->symbols + symbol_of(u, s)];
        }
}

static void fill_beta(const spsh__ctc_utterance *u, const double *lp, size_t states, double *beta)
{
    for (size_t t = u->frames; t-- > 0;)
        for (size_t s = 0; s < states; s++) {
            const double *next = beta + (t + 1) * states;
            const double *of_next = lp + (t + 1) * u->symbols;
            double sum = t + 1 == u->frames && s + 2 >= states ? 0 : -(double)INFINITY;
            for (size_t to = s; t + 1 < u->frames && to < states && to <= s + 2; to++)
                if (to < s + 2 || may_skip(u, to))
                    sum = log_sum(sum, next[to] + of_next[symbol_of(u, to)]);
            beta[t * states + s] = sum;
        }
}

/* The recursion as textbooks have it. dlogits: softmax - posterior. */
static double in_logarithms(const spsh__ctc_utterance *u, const double *logits, double *dlogits)
{
    const size_t states = 2 * (size_t)u->label_count + 1;
    const size_t count = (size_t)u->frames * u->symbols;
    double *lp = (double *)ctc_block(count * sizeof(double));
    double *alpha = (double *)ctc_block(u->frames * states * sizeof(double));
    double *beta = (double *)ctc_block(u->frames * states * sizeof(double));
    for (size_t t = 0; t < u->frames; t++) {
        double sum = -(double)INFINITY;
        for (size_t k = 0; k < u->symbols; k++)
            sum = log_sum(sum, logits[t * u->symbols + k]);
        for (size_t k = 0; k < u->symbols; k++)
            lp[t * u->symbols + k] = logits[t * u->symbols + k] - sum;
    }
    fill_alpha(u, lp, states, alpha);
    fill_beta(u, lp, states, beta);
    const double *last = alpha + (u->frames - 1) * states;
    const double p = log_sum(last[states - 1], last[states - 2]);
    for (size_t i = 0; i < count; i++)
        dlogits[i] = exp(lp[i]);
    for (size_t t = 0; t < u->frames; t++)
        for (size_t s = 0; s < states; s++)
            dlogits[t * u->symbols + symbol_of(u, s)] -=
                exp(alpha[t * states + s] + beta[t * states + s] - p);
    free(beta);
    free(alpha);
    free(lp);
    return -p;
}

/* Compare all builds on one case with the result in doubles and logarithms. Floats have the same
 * bits at any vector width. */
static void check_long(const long_case *c, double loss, const double *want, double *got)
{
    const uint32_t symbols = c->u.symbols;
    const size_t bytes = ctc_count(&c->u) * sizeof(double);
    double *narrow = (double *)ctc_block(bytes);
    for (ctc_kind kind = CTC_F64; kind < ctc_kinds(); kind++) {
        const spsh__ctc_result result = ctc_run(kind, &c->u, c->logits, got);
        double worst = 0;
        double worst_row = 0;
        if (kind == CTC_SIMD128)
            memcpy(narrow, got, bytes);
        CHECK(kind != CTC_AVX2 || memcmp(got, narrow, bytes) == 0);
        for (size_t t = 0; t < c->u.frames; t++) {
            double row = 0;
            for (size_t k = 0; k < symbols; k++) {
                worst = fmax(worst, fabs(got[t * symbols + k] - want[t * symbols + k]));
                row += got[t * symbols + k];
            }
            worst_row = fmax(worst_row, fabs(row));
        }
        CHECK(ctc_near(result.loss, loss, kind == CTC_F64 ? 1e-12 : 1e-6));
        CHECK(worst <= (kind == CTC_F64 ? 1e-10 : 3e-6));
        CHECK(worst_row <= (kind == CTC_F64 ? 1e-13 : 3e-6));
    }
    free(narrow);
}

/* spread 60: like confident networks that are mostly wrong. */
static void test_it_is_the_recursion_in_logarithms(void)
{
    static const struct {
        uint32_t frames, labels, symbols;
        double spread;
    } rows[] = {
        {60,  20,  29,   1  },
        {120, 7,   5,    60 },
        {300, 139, 29,   5  },
        {200, 80,  3,    400},
        {40,  16,  1000, 3  },
        {500, 1,   29,   60 },
        {33,  15,  9,    60 },
        {90,  23,  12,   30 }
    };
    uint64_t random = seed + 1;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        long_case c = make_long(&random, rows[i].frames, rows[i].labels, rows[i].symbols);
        const size_t count = ctc_count(&c.u);
        double *want = (double *)ctc_block(count * sizeof(double));
        double *got = (double *)ctc_block(count * sizeof(double));
        for (size_t j = 0; j < count; j++)
            c.logits[j] = (double)(float)(rows[i].spread * ctc_random(&random));
        const double loss = in_logarithms(&c.u, c.logits, want);
        check_long(&c, loss, want, got);
        free(got);
        free(want);
        free_long(&c);
    }
}

static void test_gradients_are_differences_of_losses(void)
{
    uint64_t random = seed + 2;
    const double step = 1e-5;
    for (unsigned round = 0; round < 12; round++) {
        long_case c = make_long(&random, 12 + round, 1 + round / 2, 4);
        const size_t count = ctc_count(&c.u);
        double *got = (double *)ctc_block(count * sizeof(double));
        for (size_t i = 0; i < count; i++)
            c.logits[i] = 2 * ctc_random(&random);
        c.u.scale = 0.5 + round;
        CHECK(!ctc_run(CTC_F64, &c.u, c.logits, got).is_infeasible);
        for (size_t i = 0; i < count; i++) {
            const double logit = c.logits[i];
            c.logits[i] = logit + step;
            const double above = ctc_run(CTC_F64, &c.u, c.logits, NULL).loss;
            c.logits[i] = logit - step;
            const double below = ctc_run(CTC_F64, &c.u, c.logits, NULL).loss;
            c.logits[i] = logit;
            const double want = c.u.scale * (above - below) / (2 * step);
            CHECK(ctc_near(got[i], want, 1e-8));
        }
        free(got);
        free_long(&c);
    }
}

/* Previous contents of the scratch memory have no effect. */
static void test_results_repeat_to_the_bit(void)
{
    uint64_t random = seed + 3;
    long_case c = make_long(&random, 70, 21, 29);
    const size_t count = ctc_count(&c.u);
    const size_t scratch_count = spsh__ctc_scratch(70, 21, 29);
    float *logits = (float *)ctc_block(count * sizeof(float));
    float *first = (float *)ctc_block(count * sizeof(float));
    float *second = (float *)ctc_block(count * sizeof(float));
    float *scratch = (float *)ctc_block(scratch_count * sizeof(float));
    for (size_t i = 0; i < count; i++)
        logits[i] = (float)(9 * ctc_random(&random));
    const spsh__ctc_result a = spsh__ctc_f32(&c.u, logits, first, scratch);
    const spsh__ctc_result b = spsh__ctc_f32(&c.u, logits, second, scratch);
    CHECK(a.loss == b.loss && memcmp(first, second, count * sizeof(float)) == 0);
    for (size_t i = 0; i < scratch_count; i++)
        scratch[i] = NAN;
    CHECK(spsh__ctc_f32(&c.u, logits, second, scratch).loss == a.loss);
    CHECK(memcmp(first, second, count * sizeof(float)) == 0);
    free(scratch);
    free(second);
    free(first);
    free(logits);
    free_long(&c);
}

TEST_MAIN(prop_ctc)
{
    seed = test_seed(7);
    RUN(test_it_is_the_sum_of_all_paths);
    RUN(test_it_is_the_recursion_in_logarithms);
    RUN(test_gradients_are_differences_of_losses);
    RUN(test_results_repeat_to_the_bit);
    return TEST_RESULT();
}
