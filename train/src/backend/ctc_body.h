/* ctc_body.h: the arithmetic of ctc.h, for one type and instruction set. Include once per file,
 * after defining
 *
 *     HEAD                  linkage, type and name of the function
 *     real, vec, ivec       a number; LANES of them; as many unsigned integers of the same size
 *     LANES                 a divisor of SPSH__CTC_LANES_MAX
 *     TARGET, INLINE        attributes of a function, and of an always inlined function
 *     vec_max(a, b)         a > b ? a : b per lane: b if either is NaN
 *     MANTISSA_BITS, BIAS   of the type; TERMS of the series of e^r, |r| <= ln 2 / 2
 *     LN2_HIGH, LN2_LOW     ln 2 in two parts: an exponent times the first is exact
 *
 * A probability is m 2^e, with an integer e in a `real`, so it cannot underflow. Addition shifts
 * the smaller number by the difference of exponents. Multiplication is a product and a sum. The
 * only transcendental function is one exp per logit. Between steps m is in [1, 2). Zero is (1,
 * NOTHING). Values derived only from zero keep an exponent so low that they differ from every path,
 * and they count as 0 in a sum with any path. The exponent of such a value need not be exact. The
 * exponents of paths are exact.
 *
 * Emissions are e^(logit - maximum of the frame). The factor to the softmax is the same for all
 * paths, and is added only to the loss. The sum of the emissions has SPSH__CTC_LANES_MAX partial
 * sums, so LANES does not change it. The posteriors of a frame are divided by their sum, so the
 * gradients of the frame add up to 0.
 *
 * Memory: states as pairs. A frame has four arrays of `row` elements: mantissas of blanks 0 ... L,
 * their exponents, mantissas of labels, their exponents. In a row of alpha, label i is stored at i
 * + 1 and index 0 holds zero, so label i - 1 is loaded at i. In a row of beta, label i is stored at
 * i, with zero at the end, so label i + 1 is loaded at i + 1. Lanes past the last label have
 * emission zero.
 */

/* 1.5 2^MANTISSA_BITS: adding a number to it rounds the number to an integer, in the lowest bits.
 */
#define ROUND   ((real)3 * (real)((uint64_t)1 << (MANTISSA_BITS - 1)))
#define INTEGER ((real)((uint64_t)1 << MANTISSA_BITS))
#define NOTHING ((real)-4194304)
#define LOWEST  ((real)-2900000) /* nats: below NOTHING / 2 */
#define LOG2_E  ((real)1.44269504088896340736)

static const real series[14] = {(real)1,
                                (real)1,
                                (real)(1.0 / 2),
                                (real)(1.0 / 6),
                                (real)(1.0 / 24),
                                (real)(1.0 / 120),
                                (real)(1.0 / 720),
                                (real)(1.0 / 5040),
                                (real)(1.0 / 40320),
                                (real)(1.0 / 362880),
                                (real)(1.0 / 3628800),
                                (real)(1.0 / 39916800),
                                (real)(1.0 / 479001600),
                                (real)(1.0 / 6227020800)};

/* ---------------------------------------------------------------------------------- numbers */

/* Number of vectors that hold SPSH__CTC_LANES_MAX numbers. */
enum { PARTS = SPSH__CTC_LANES_MAX / LANES };

typedef struct number {
    vec m, e;
} number;

INLINE ivec bits_of(vec value)
{
    ivec bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

INLINE vec from_bits(ivec bits)
{
    vec value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

INLINE vec splat(real value)
{
    vec zero;
    memset(&zero, 0, sizeof(zero));
    return zero + value;
}

INLINE vec load(const real *from)
{
    vec value;
    memcpy(&value, from, sizeof(value));
    return value;
}

INLINE void store(real *to, vec value)
{
    memcpy(to, &value, sizeof(value));
}

/* 2^e, e <= 0 an integer; 0 below the normal numbers. */
INLINE vec power_of_two(vec e)
{
    const ivec bits = bits_of(vec_max(e, splat((real)-BIAS)) + splat(ROUND));
    return from_bits((bits + BIAS) << MANTISSA_BITS);
}

/* m > 0, a normal number. */
INLINE number normalised(vec m, vec e)
{
    const ivec bits = bits_of(m);
    const ivec zero = bits & 0;
    const ivec one = (zero + BIAS) << MANTISSA_BITS;
    const ivec integer = (zero + BIAS + MANTISSA_BITS) << MANTISSA_BITS;
    const ivec power = bits >> MANTISSA_BITS;
    const vec shift = from_bits(power | integer) - splat(INTEGER + (real)BIAS);
    return (number){from_bits((bits - (power << MANTISSA_BITS)) | one), e + shift};
}

INLINE number sum2(number a, number b)
{
    const vec e = vec_max(a.e, b.e);
    return (number){a.m * power_of_two(a.e - e) + b.m * power_of_two(b.e - e), e};
}

INLINE number sum3(number a, number b, number c)
{
    const vec e = vec_max(vec_max(a.e, b.e), c.e);
    return (number){
        a.m * power_of_two(a.e - e) + b.m * power_of_two(b.e - e) + c.m * power_of_two(c.e - e), e};
}

/* m in [1/2, 4). */
INLINE number product(number a, number b)
{
    return (number){a.m * b.m, a.e + b.e};
}

/* e^x, LOWEST <= x <= 0; m in [0.7, 1.42]. */
INLINE number exponential(vec x)
{
    const vec e = (x * splat(LOG2_E) + splat(ROUND)) - splat(ROUND);
    const vec rest = (x - e * splat(LN2_HIGH)) - e * splat(LN2_LOW);
    vec m = splat(series[TERMS]);
    for (int i = TERMS - 1; i >= 0; i--)
        m = m * rest + splat(series[i]);
    return (number){m, e};
}

INLINE number load_number(const real *m, const real *e)
{
    return (number){load(m), load(e)};
}

INLINE void store_number(real *m, real *e, number value)
{
    store(m, value.m);
    store(e, value.e);
}

/* Sum SPSH__CTC_LANES_MAX numbers, in ascending order. */
INLINE real sum_of(const vec *values)
{
    real lanes[SPSH__CTC_LANES_MAX];
    memcpy(lanes, values, sizeof(lanes));
    real sum = lanes[0];
    for (int i = 1; i < SPSH__CTC_LANES_MAX; i++)
        sum += lanes[i];
    return sum;
}

INLINE real greatest_of_lanes(vec value)
{
    real lanes[LANES];
    memcpy(lanes, &value, sizeof(lanes));
    real greatest = lanes[0];
    for (int i = 1; i < LANES; i++)
        greatest = lanes[i] > greatest ? lanes[i] : greatest;
    return greatest;
}

/* ----------------------------------------------------------------------------------- memory */

typedef struct work {
    const spsh__ctc_utterance *u;
    size_t symbols; /* padded */
    size_t lanes;   /* pairs of states, padded */
    size_t row;
    real *symbol_m, *symbol_e; /* emissions of a frame */
    real *posterior;           /* per symbol; not divided by their sum */
    real *label_m, *label_e;   /* emissions of the labels */
    real *skip;                /* exponent of the step from label i - 1 to i: 0 or NOTHING */
    real *alpha;               /* a row of four arrays before each frame and after the last; two
                                  rows in turn if only the loss is computed */
    real *beta;                /* one row: after a frame, times the emissions of the next */
    real *states;              /* one row: posteriors */
} work;

/* Blanks and labels of one row of four arrays. */
typedef struct states {
    real *blank_m, *blank_e, *label_m, *label_e;
} states;

INLINE states states_at(const work *w, real *first)
{
    return (states){first, first + w->row, first + 2 * w->row, first + 3 * w->row};
}

static void put_nothing(const work *w, real *first)
{
    for (size_t part = 0; part < 4; part++)
        for (size_t i = 0; i < w->row; i++)
            first[part * w->row + i] = part % 2 == 0 ? 1 : NOTHING;
}

static work make_work(const spsh__ctc_utterance *u, real *scratch)
{
    const size_t symbols = spsh__ctc_padded(u->symbols);
    const size_t row = spsh__ctc_row(u->label_count);
    work w = {.u = u,
              .symbols = symbols,
              .lanes = spsh__ctc_padded((size_t)u->label_count + 1),
              .row = row};
    w.symbol_m = scratch;
    w.symbol_e = w.symbol_m + symbols;
    w.posterior = w.symbol_e + symbols;
    w.label_m = w.posterior + symbols;
    w.label_e = w.label_m + row;
    w.skip = w.label_e + row;
    w.beta = w.skip + 2 * row; /* four label arrays precede beta; one is unused */
    w.states = w.beta + 4 * row;
    w.alpha = w.states + 4 * row;
    for (size_t i = 0; i < row; i++) {
        w.label_m[i] = 1;
        w.label_e[i] = NOTHING;
        w.skip[i] = i > 0 && i < u->label_count && u->labels[i] != u->labels[i - 1] ? 0 : NOTHING;
    }
    return w;
}

/* --------------------------------------------------------------------------------- one frame */

/* Compute the emissions of symbols and labels. Return their sum over symbols, which is NaN if the
 * frame has no valid softmax. */
TARGET static real emit(const work *w, const real *logits)
{
    const uint32_t count = w->u->symbols;
    real greatest = logits[0];
    for (uint32_t k = 1; k < count; k++)
        greatest = logits[k] > greatest ? logits[k] : greatest;
    for (uint32_t k = 0; k < count; k++)
        w->symbol_m[k] = logits[k] - greatest;
    for (size_t k = count; k < w->symbols; k++)
        w->symbol_m[k] = LOWEST;
    vec sums[PARTS];
    for (int part = 0; part < PARTS; part++)
        sums[part] = splat(0);
    for (size_t k = 0; k < w->symbols; k += SPSH__CTC_LANES_MAX) {
        for (int part = 0; part < PARTS; part++) {
            real *const m = w->symbol_m + k + (size_t)part * LANES;
            const number value = exponential(vec_max(splat(LOWEST), load(m)));
            store_number(m, m + (w->symbol_e - w->symbol_m), value);
            sums[part] += value.m * power_of_two(value.e);
        }
    }
    for (uint32_t i = 0; i < w->u->label_count; i++) {
        w->label_m[i] = w->symbol_m[w->u->labels[i]];
        w->label_e[i] = w->symbol_e[w->u->labels[i]];
    }
    return sum_of(sums);
}

INLINE number blank_emission(const work *w)
{
    return (number){splat(w->symbol_m[w->u->blank]), splat(w->symbol_e[w->u->blank])};
}

TARGET static void step_forward(const work *w, real *from_row, real *to_row)
{
    const states from = states_at(w, from_row);
    const states to = states_at(w, to_row);
    const number blank = blank_emission(w);
    to.label_m[0] = 1;
    to.label_e[0] = NOTHING;
    for (size_t i = 0; i < w->lanes; i += LANES) {
        const number here = load_number(from.blank_m + i, from.blank_e + i);
        const number label = load_number(from.label_m + i + 1, from.label_e + i + 1);
        const number before = load_number(from.label_m + i, from.label_e + i);
        const number jump = {before.m, before.e + load(w->skip + i)};
        const number stay = product(sum2(here, before), blank);
        const number next =
            product(sum3(label, here, jump), load_number(w->label_m + i, w->label_e + i));
        store_number(to.blank_m + i, to.blank_e + i, normalised(stay.m, stay.e));
        store_number(to.label_m + i + 1, to.label_e + i + 1, normalised(next.m, next.e));
    }
}

/* Compute the posteriors of all states of a frame, not divided by their sum, with a maximum of
 * about 1, and move beta back by one frame. In ascending order this works in place: reads are at or
 * ahead of writes. */
TARGET static void step_backward(const work *w, real *alpha_row)
{
    const states alpha = states_at(w, alpha_row);
    const states beta = states_at(w, w->beta);
    const states found = states_at(w, w->states);
    const number blank = blank_emission(w);
    vec greatest = splat(4 * NOTHING);
    for (size_t i = 0; i < w->lanes; i += LANES) {
        const number label = load_number(beta.label_m + i, beta.label_e + i);
        const number after = load_number(beta.blank_m + i + 1, beta.blank_e + i + 1);
        const number next = load_number(beta.label_m + i + 1, beta.label_e + i + 1);
        const number jump = {next.m, next.e + load(w->skip + i + 1)};
        const number sum_blank = sum2(load_number(beta.blank_m + i, beta.blank_e + i), label);
        const number sum_label = sum3(label, after, jump);
        const number of_blank = normalised(sum_blank.m, sum_blank.e);
        const number of_label = normalised(sum_label.m, sum_label.e);
        const number both = product(of_blank, load_number(alpha.blank_m + i, alpha.blank_e + i));
        const number both_label =
            product(of_label, load_number(alpha.label_m + i + 1, alpha.label_e + i + 1));
        store_number(found.blank_m + i, found.blank_e + i, both);
        store_number(found.label_m + i, found.label_e + i, both_label);
        greatest = vec_max(greatest, vec_max(both.e, both_label.e));
        const number emitted = product(of_blank, blank);
        const number emitted_label = product(of_label, load_number(w->label_m + i, w->label_e + i));
        store_number(beta.blank_m + i, beta.blank_e + i, emitted);
        store_number(beta.label_m + i, beta.label_e + i, emitted_label);
    }
    const vec top = splat(greatest_of_lanes(greatest));
    for (size_t i = 0; i < w->lanes; i += LANES) {
        store(found.blank_m + i,
              load(found.blank_m + i) * power_of_two(load(found.blank_e + i) - top));
        store(found.label_m + i,
              load(found.label_m + i) * power_of_two(load(found.label_e + i) - top));
    }
}

/* Gradients of a frame, from its emissions, their sum, and posteriors of states. */
TARGET static void put_gradient(const work *w, real sum, real *dlogits)
{
    const spsh__ctc_utterance *u = w->u;
    const states found = states_at(w, w->states);
    real blank = 0;
    real total = 0;
    memset(w->posterior, 0, w->symbols * sizeof(real));
    for (uint32_t i = 0; i < u->label_count; i++) {
        blank += found.blank_m[i];
        w->posterior[u->labels[i]] += found.label_m[i];
        total += found.label_m[i];
    }
    blank += found.blank_m[u->label_count];
    w->posterior[u->blank] = blank;
    total += blank;
    const real scale = (real)u->scale;
    const real per_sum = scale / sum;
    const real per_total = scale / total;
    for (size_t k = 0; k < w->symbols; k += LANES) {
        const vec emission = load(w->symbol_m + k) * power_of_two(load(w->symbol_e + k));
        store(w->symbol_m + k,
              emission * splat(per_sum) - load(w->posterior + k) * splat(per_total));
    }
    memcpy(dlogits, w->symbol_m, u->symbols * sizeof(real));
}

/* ------------------------------------------------------------------------------ an utterance */

/* Compute alpha of all frames, or keep only the last frame; return -ln p. */
TARGET static double go_forward(const work *w, const real *logits, bool keeps_all)
{
    const spsh__ctc_utterance *u = w->u;
    const size_t row = 4 * w->row;
    const size_t kept = keeps_all ? SIZE_MAX : 1; /* a mask of frames */
    double normaliser = 0;
    put_nothing(w, w->alpha);
    states_at(w, w->alpha).blank_e[0] = 0; /* before the first frame: the first blank */
    for (size_t t = 0; t < u->frames; t++) {
        const real sum = emit(w, logits + t * u->stride);
        if (!(sum > 0))
            return (double)NAN;
        normaliser += log((double)sum);
        step_forward(w, w->alpha + (t & kept) * row, w->alpha + ((t + 1) & kept) * row);
    }
    const states last = states_at(w, w->alpha + (u->frames & kept) * row);
    const size_t end = u->label_count; /* index of the last blank and the last label */
    const double blank = (double)last.blank_e[end];
    const double label = (double)last.label_e[end];
    const double greatest = blank > label ? blank : label;
    if (greatest < (double)NOTHING / 2)
        return (double)INFINITY;
    const double mantissa = (double)last.blank_m[end] * exp2(blank - greatest) +
                            (double)last.label_m[end] * exp2(label - greatest);
    return normaliser - log(mantissa) - greatest * 0.69314718055994530942;
}

TARGET static void go_backward(const work *w, const real *logits, real *dlogits)
{
    const spsh__ctc_utterance *u = w->u;
    put_nothing(w, w->beta);
    states_at(w, w->beta).blank_e[u->label_count] = 0; /* after the last frame: only the last
                                                          blank */
    for (size_t t = u->frames; t-- > 0;) {
        const real sum = emit(w, logits + t * u->stride);
        step_backward(w, w->alpha + (t + 1) * 4 * w->row);
        put_gradient(w, sum, dlogits + t * u->stride);
    }
}

static void put_zeros(const spsh__ctc_utterance *u, real *dlogits)
{
    for (size_t t = 0; t < u->frames; t++)
        memset(dlogits + t * u->stride, 0, u->symbols * sizeof(real));
}

HEAD(const spsh__ctc_utterance *u, const real *logits, real *dlogits, real *scratch)
{
    spsh__ctc_result result = {.loss = (double)INFINITY,
                               .is_infeasible = spsh__ctc_frames_min(u) > u->frames};
    const work w = make_work(u, scratch);
    if (!result.is_infeasible)
        result.loss = go_forward(&w, logits, dlogits != NULL);
    if (dlogits == NULL)
        return result;
    if (isfinite(result.loss))
        go_backward(&w, logits, dlogits);
    else
        put_zeros(u, dlogits);
    return result;
}
