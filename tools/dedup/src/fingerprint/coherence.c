/* coherence.c: correlation in blocks of 8,192 samples, whose spectra are added before the inverse
 * transform.
 *
 * a's block is shorter than b's by twice the maximum lag, so nothing wraps around. Spectra are
 * added, so any length is possible, and the sums are the long-term spectra that whitening needs.
 *
 * Lags are fractional: at 8 kHz, rounding a lag to a whole sample costs up to 0.1 of correlation.
 * The cross-correlation is band-limited, so it is interpolated instead of the signals.
 */
#include "coherence.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/compare.h"
#include "real_fft.h"
#include "sinc_table.h"
#include "speechshard/inside.h"

enum {
    SIZE = 8192,
    MARGIN = 2 * SPSH__LAG_MAX, /* samples by which b is longer than a */
    STEP = SIZE - MARGIN,
    LAGS = MARGIN + 1,
    BIN_LOW = 307, /* 300 Hz */
    BIN_HIGH = 3482,
    SMOOTH = 64, /* half width of the mean over a long-term spectrum, in bins: 62 Hz */
    FILTER_HALF = SPSH__FILTER_HALF,
    FILTER_TAPS = 2 * FILTER_HALF + 1,
    SINC_HALF = 16,
    HALVINGS = 6,          /* steps of find_peak: 1/4 to 1/128 of a sample */
    PARTS = 2 << HALVINGS, /* positions between two samples that find_peak tries */
    TONE_SIZE = 1024,
    BLOCK = 1600,
    BLOCK_SIZE = 2048, /* size of the transform: BLOCK + TRACKED - 1 or more */
    TRACK = 64,        /* maximum change of the lag between blocks, in samples: 4 % */
    TRACKED = 2 * TRACK + 1,
    GAP_BLOCKS = 2,
    FINE_SIZE = 32,
    FINE_HOP = 8,
    FINE_FIRST = 2,
    FINE_BANDS = 12,
    FINE_GROUPS = FINE_BANDS / 4,
    FINE_MEAN = 16,
    FINE_LAG = 40
};
static const double pi = 3.141592653589793;
/* All blocks of an exact copy have a correlation of 1, and a vowel has almost 1 at a lag that is
 * wrong by one period. A block is trusted less if its lag differs from the stretch's lag. The
 * first of several equal blocks is used, so that rounding does not choose one. */
static const double lag_price = 1e-4;
static const double trust_tie = 1e-5;

static double sinc(double x)
{
    return fabs(x) < 1e-9 ? 1 : sin(pi * x) / (pi * x);
}

typedef double lanes __attribute__((vector_size(32)));

/* Constants that take thousands of sines. prepare() computes them once per process. */
static struct tables {
    double tone_window[TONE_SIZE];
    double filter[FILTER_TAPS];                 /* band-pass from 300 to 3,400 Hz */
    double sinc[PARTS][2 * SINC_HALF];          /* for a position of part / PARTS after a sample */
    double taper[PARTS][2 * SINC_HALF];         /* window of the sinc */
    lanes fine_cosines[FINE_SIZE][FINE_GROUPS]; /* four bands each */
    lanes fine_sines[FINE_SIZE][FINE_GROUPS];
} tables;

typedef double double_pair __attribute__((vector_size(16)));

static inline double_pair load_pair(const double *x)
{
    double_pair pair;
    memcpy(&pair, x, sizeof(pair));
    return pair;
}

/* Return the dot product. Four separate sums avoid a chain of dependent additions, and are added
 * two at a time. */
static double dot(const double *x, const double *y, size_t count)
{
    double_pair even = {0, 0};
    double_pair odd = {0, 0};
    const size_t whole = count / 4 * 4;
    for (size_t i = 0; i < whole; i += 4) {
        even += load_pair(x + i) * load_pair(y + i);
        odd += load_pair(x + i + 2) * load_pair(y + i + 2);
    }
    double sums[4] = {even[0], even[1], odd[0], odd[1]};
    for (size_t i = whole; i < count; i++)
        sums[0] += x[i] * y[i];
    return sums[0] + sums[1] + sums[2] + sums[3];
}

enum { CHAINS = 4 };

/* Add to four sums of products, as dot() does: lanes 0 and 1 are its even sums. */
__attribute__((always_inline)) static inline void add_products(lanes *sums, const lanes *x,
                                                               const double *y)
{
    lanes factors;
    memcpy(&factors, y, sizeof(factors));
    *sums += *x * factors;
}

__attribute__((always_inline)) static inline void slide_lanes(const double *x, size_t size,
                                                              const double *y, double *out)
{
    const size_t whole = size / 4 * 4;
    lanes chains[CHAINS] = {0};
    for (size_t k = 0; k < whole; k += 4) {
        lanes factors;
        memcpy(&factors, x + k, sizeof(factors));
        add_products(&chains[0], &factors, y + k);
        add_products(&chains[1], &factors, y + k + 1);
        add_products(&chains[2], &factors, y + k + 2);
        add_products(&chains[3], &factors, y + k + 3);
    }
    for (size_t i = 0; i < CHAINS; i++) {
        for (size_t k = whole; k < size; k++)
            chains[i][0] += x[k] * y[i + k];
        out[i] = chains[i][0] + chains[i][1] + chains[i][2] + chains[i][3];
    }
}

/* Write out[i] = dot(x, y + i, size) for CHAINS values of i. */
typedef void (*slide_fn)(const double *x, size_t size, const double *y, double *out);

static void slide_plain(const double *x, size_t size, const double *y, double *out)
{
    slide_lanes(x, size, y, out);
}

#if defined(__x86_64__)
__attribute__((target("avx"))) static void slide_avx(const double *x, size_t size, const double *y,
                                                     double *out)
{
    slide_lanes(x, size, y, out);
}

static slide_fn choose_slide(void)
{
    return __builtin_cpu_supports("avx") ? slide_avx : slide_plain;
}
#else
static slide_fn choose_slide(void)
{
    return slide_plain;
}
#endif

/* Write out[i] = dot(x, y + i, size), with the same bits. The additions of one dot product wait for
 * each other, so several products are computed in parallel. */
static void slide(const double *x, size_t size, const double *y, double *out, size_t count)
{
    const slide_fn some = choose_slide();
    size_t i = 0;
    for (; i + CHAINS <= count; i += CHAINS)
        some(x, size, y + i, out + i);
    for (; i < count; i++)
        out[i] = dot(x, y + i, size);
}

/* Interpolate x at a position that is a multiple of 1 / PARTS. Values outside of x are 0. */
static double between(const double *x, size_t count, double place)
{
    const double whole = floor(place);
    const size_t part = (size_t)((place - whole) * PARTS);
    const int64_t first = (int64_t)whole + 1 - SINC_HALF;
    double sum = 0;
    for (int64_t k = 0; k < INT64_C(2) * SINC_HALF; k++)
        if (first + k >= 0 && first + k < (int64_t)count)
            sum += x[first + k] * tables.sinc[part][k] * tables.taper[part][k];
    return sum;
}

/* Make a Hann-windowed band-pass from 300 to 3,400 Hz. */
static void make_filter(double *filter)
{
    for (int n = -FILTER_HALF; n <= FILTER_HALF; n++)
        filter[n + FILTER_HALF] = (2 * 3400.0 / 8000 * sinc(2 * 3400.0 / 8000 * n) -
                                   2 * 300.0 / 8000 * sinc(2 * 300.0 / 8000 * n)) *
                                  (0.5 + 0.5 * cos(pi * n / (FILTER_HALF + 1)));
}

static void make_tables(void)
{
    make_filter(tables.filter);
    for (size_t n = 0; n < TONE_SIZE; n++)
        tables.tone_window[n] = 0.5 - 0.5 * cos(2 * pi * (double)n / TONE_SIZE);
    for (size_t part = 0; part < PARTS; part++) {
        for (int k = 0; k < 2 * SINC_HALF; k++) {
            const double distance = k + 1 - SINC_HALF - (double)part / PARTS;
            tables.sinc[part][k] = sinc(distance);
            tables.taper[part][k] = 0.5 + 0.5 * cos(pi * distance / (SINC_HALF + 1));
        }
    }
    for (size_t n = 0; n < FINE_SIZE; n++) {
        const double window = 0.5 - 0.5 * cos(2 * pi * (double)n / FINE_SIZE);
        for (size_t band = 0; band < FINE_BANDS; band++) {
            const double angle = 2 * pi * (double)((band + FINE_FIRST) * n) / FINE_SIZE;
            tables.fine_cosines[n][band / 4][band % 4] = window * cos(angle);
            tables.fine_sines[n][band / 4][band % 4] = window * sin(angle);
        }
    }
}

static void prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, make_tables);
}

/* Filter one piece and return doubles. Samples outside of the signal are 0. */
static void filter_part(spsh__cut cut, double *out, size_t count)
{
    enum { PIECE = 1024 };
    double piece[PIECE + FILTER_TAPS - 1];
    for (size_t done = 0; done < count; done += PIECE) {
        const size_t left = count - done;
        for (size_t i = 0; i < PIECE + FILTER_TAPS - 1; i++) {
            const int64_t at = cut.first + (int64_t)(done + i) - FILTER_HALF;
            piece[i] = at >= 0 && at < (int64_t)cut.size ? (double)cut.samples[at] : 0;
        }
        slide(tables.filter, FILTER_TAPS, piece, out + done, left < PIECE ? left : PIECE);
    }
}

spsh_status spsh__stretch_make(spsh__cut a, spsh__cut b, size_t count, spsh__stretch *ret_stretch,
                               spsh_error *err)
{
    spsh__stretch stretch = {.count = count};
    stretch.a = calloc(count + 1, sizeof(double));
    stretch.b = calloc(count + LAGS, sizeof(double));
    if (stretch.a == NULL || stretch.b == NULL) {
        spsh__stretch_free(&stretch);
        return SPSH_NO_MEMORY(err);
    }
    prepare();
    b.first -= SPSH__LAG_MAX;
    filter_part(a, stretch.a, count);
    filter_part(b, stretch.b, count + MARGIN);
    *ret_stretch = stretch;
    return SPSH_OK;
}

void spsh__stretch_free(spsh__stretch *stretch)
{
    free(stretch->a);
    free(stretch->b);
    *stretch = (spsh__stretch){0};
}

/* Memory of a correlation: spectra summed over blocks, and buffers for the transforms. */
typedef struct workspace {
    spsh__real_fft a; /* also transforms the sums back */
    spsh__real_fft b;
    spsh__complex cross[SIZE / 2];
    double power_a[SIZE / 2];
    double power_b[SIZE / 2];
    double smooth_a[SIZE / 2];
    double smooth_b[SIZE / 2];
} workspace;

/* Transform count samples, followed by zeros. */
static void transform(spsh__real_fft *fft, const double *samples, size_t count)
{
    memcpy(fft->samples, samples, count * sizeof(*samples));
    memset(fft->samples + count, 0, (fft->size - count) * sizeof(*samples));
    spsh__real_fft_forward(fft);
}

/* Return the conjugate of a times b. */
static spsh__complex cross_of(spsh__complex a, spsh__complex b)
{
    return (spsh__complex){a.re * b.re + a.im * b.im, a.re * b.im - a.im * b.re};
}

static void add_block(workspace *work, const spsh__stretch *stretch, size_t first)
{
    const size_t left = stretch->count - first;
    const size_t a_count = left < STEP ? left : STEP;
    transform(&work->a, stretch->a + first, a_count);
    transform(&work->b, stretch->b + first, a_count + MARGIN);
    for (size_t k = 1; k < SIZE / 2; k++) {
        const spsh__complex a = work->a.bins[k];
        const spsh__complex b = work->b.bins[k];
        const spsh__complex cross = cross_of(a, b);
        work->cross[k].re += cross.re;
        work->cross[k].im += cross.im;
        work->power_a[k] += cross_of(a, a).re;
        work->power_b[k] += cross_of(b, b).re;
    }
}

/* Compute the running mean over SMOOTH bins on each side. */
static void smooth(const double *x, double *out)
{
    double sum = 0;
    for (size_t k = 0; k < SMOOTH; k++)
        sum += x[k];
    for (size_t k = 0; k < SIZE / 2; k++) {
        if (k + SMOOTH < SIZE / 2)
            sum += x[k + SMOOTH];
        out[k] = sum / (2 * SMOOTH + 1);
        if (k >= SMOOTH)
            sum -= x[k - SMOOTH];
    }
}

/* Compute the inverse transform of the sums. Returns LAGS values, borrowed from work: value l is the
 * sum over i of a[i] b[i + l]. */
static const double *back_to_lags(workspace *work, bool is_white)
{
    const size_t low = is_white ? BIN_LOW : 1;
    const size_t high = is_white ? BIN_HIGH : SIZE / 2;
    memset(work->a.bins, 0, (SIZE / 2 + 1) * sizeof(*work->a.bins));
    for (size_t k = low; k < high; k++) {
        double weight = 1.0 / SIZE;
        if (is_white)
            weight /= sqrt(work->smooth_a[k] * work->smooth_b[k]);
        work->a.bins[k] = (spsh__complex){work->cross[k].re * weight, work->cross[k].im * weight};
    }
    spsh__real_fft_inverse(&work->a);
    return work->a.samples;
}

/* Find the largest magnitude, also between samples. Returns the signed value. */
static double find_peak(const double *x, size_t count, double *ret_place)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (fabs(x[i]) > fabs(x[best]))
            best = i;
    double place = (double)best;
    double value = x[best];
    double step = 0.25;
    for (int halving = 0; halving < HALVINGS; halving++) {
        for (int side = -1; side <= 1; side += 2) {
            const double other = between(x, count, place + side * step);
            if (fabs(other) > fabs(value)) {
                value = other;
                place += side * step;
            }
        }
        step /= 2;
    }
    *ret_place = place;
    return value;
}

static double energy(const double *x, size_t count)
{
    return dot(x, x, count);
}

/* Return the peak of the whitened correlation. b_energy: energy of the part of b that a overlaps.
 * The blocks of b extend past that part, and the rest must not count. */
static double whitened(workspace *work, double b_energy)
{
    double a = 0;
    double b = 0;
    double b_all = 0;
    double place = 0;
    smooth(work->power_a, work->smooth_a);
    smooth(work->power_b, work->smooth_b);
    for (size_t k = BIN_LOW; k < BIN_HIGH; k++) {
        if (work->smooth_a[k] <= 0 || work->smooth_b[k] <= 0)
            return 0;
        a += work->power_a[k] / work->smooth_a[k];
        b += work->power_b[k] / work->smooth_b[k];
        b_all += work->power_b[k] * 2 / SIZE;
    }
    const double peak = find_peak(back_to_lags(work, true), LAGS, &place) * SIZE / 2;
    const double value = peak / sqrt(a * b * (b_energy < b_all ? b_energy / b_all : 1));
    return value > 1 ? 1 : value < -1 ? -1 : value;
}

static void close_workspace(workspace *work)
{
    if (work == NULL)
        return;
    spsh__real_fft_close(&work->a);
    spsh__real_fft_close(&work->b);
    free(work);
}

static spsh_status open_workspace(workspace **ret_work, spsh_error *err)
{
    workspace *work = calloc(1, sizeof(*work));
    spsh_status rc = work == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    if (rc == SPSH_OK)
        rc = spsh__real_fft_open(SIZE, &work->a, err);
    if (rc == SPSH_OK)
        rc = spsh__real_fft_open(SIZE, &work->b, err);
    if (rc == SPSH_OK)
        *ret_work = work;
    else
        close_workspace(work);
    return rc;
}

spsh_status spsh__correlate(const spsh__stretch *stretch, spsh__correlation *ret_correlation,
                            spsh_error *err)
{
    workspace *work = NULL;
    const spsh_status rc = open_workspace(&work, err);
    if (rc != SPSH_OK)
        return rc;
    *ret_correlation = (spsh__correlation){0};
    prepare();
    for (size_t first = 0; first < stretch->count; first += STEP)
        add_block(work, stretch, first);

    double place = SPSH__LAG_MAX;
    const double peak = find_peak(back_to_lags(work, false), LAGS, &place);
    const double whole = place < 0 ? 0 : place > LAGS - 1 ? LAGS - 1 : place;
    const double a = energy(stretch->a, stretch->count);
    const double b = energy(stretch->b + (size_t)lrint(whole), stretch->count);
    if (a > 0 && b > 0) {
        ret_correlation->ncc = peak / sqrt(a * b);
        ret_correlation->lag = place - SPSH__LAG_MAX;
        ret_correlation->ncc_white = whitened(work, b);
    }
    close_workspace(work);
    return SPSH_OK;
}

typedef struct block_lag {
    double middle; /* samples */
    double ncc;
    double lag;
    bool is_loud;
} block_lag;

/* A stretch, and buffers for the correlation of one block. */
typedef struct tracker {
    const spsh__stretch *stretch;
    spsh__real_fft a;
    spsh__real_fft b;
} tracker;

/* Correlate a block of a with b at TRACKED lags. Returns the sums, borrowed from the tracker. */
static const double *correlate_block(tracker *t, const double *a, const double *b)
{
    transform(&t->a, a, BLOCK);
    transform(&t->b, b, BLOCK + TRACKED - 1);
    for (size_t k = 0; k <= t->a.size / 2; k++) {
        const spsh__complex cross = cross_of(t->a.bins[k], t->b.bins[k]);
        t->a.bins[k] = (spsh__complex){cross.re / BLOCK_SIZE, cross.im / BLOCK_SIZE};
    }
    spsh__real_fft_inverse(&t->a);
    return t->a.samples;
}

/* Find the best lag of one block within TRACK of `near`. */
static void fit_block(tracker *t, size_t index, double near, block_lag *block)
{
    const spsh__stretch *stretch = t->stretch;
    const double *a = stretch->a + index * BLOCK;
    const int64_t start =
        (int64_t)(index * BLOCK) + SPSH__LAG_MAX + (int64_t)floor(near + 0.5) - TRACK;
    const int64_t b_size = (int64_t)stretch->count + MARGIN;
    double place = 0;

    *block = (block_lag){.middle = ((double)index + 0.5) * BLOCK};
    if (start < 0 || start + TRACKED - 1 + BLOCK > b_size)
        return;
    const double *sums = correlate_block(t, a, stretch->b + start);
    const double peak = find_peak(sums, TRACKED, &place);
    double whole = floor(place + 0.5);
    whole = whole < 0 ? 0 : whole > TRACKED - 1 ? TRACKED - 1 : whole;
    const double b_energy = energy(stretch->b + start + (int64_t)whole, BLOCK);
    const double a_energy = energy(a, BLOCK);
    if (a_energy <= 0 || b_energy <= 0)
        return;
    block->ncc = peak / sqrt(a_energy * b_energy);
    block->lag = (double)start + place - (double)(index * BLOCK) - SPSH__LAG_MAX;
}

/* Return the median. Sorts x. */
static double median_of(double *x, size_t count)
{
    if (count == 0)
        return 0;
    qsort(x, count, sizeof(*x), spsh__compare_real);
    return count % 2 == 1 ? x[count / 2] : (x[count / 2 - 1] + x[count / 2]) / 2;
}

/* Fit the blocks outward from `from`, each near the line through the earlier good blocks on its
 * side. */
static void track(tracker *t, block_lag *blocks, size_t count, size_t from, double good_min)
{
    for (int side = -1; side <= 1; side += 2) {
        double near = blocks[from].lag;
        double slope = 0; /* change of the lag per block */
        size_t good_at = from;
        for (size_t i = from; side < 0 ? i > 0 : i + 1 < count;) {
            i = side < 0 ? i - 1 : i + 1;
            const double away = (double)i - (double)good_at;
            const bool is_loud = blocks[i].is_loud;
            fit_block(t, i, near + slope * away, &blocks[i]);
            blocks[i].is_loud = is_loud;
            if (!is_loud || fabs(blocks[i].ncc) < good_min)
                continue;
            const double total = (double)i - (double)from;
            slope = (blocks[i].lag - blocks[from].lag) / total;
            near = blocks[i].lag;
            good_at = i;
        }
    }
}

/* Fit a line by the Theil-Sen estimator, the median of all slopes. `scratch` has capacity for one
 * value per pair of blocks. */
static void fit_line(const block_lag *good, size_t count, double *scratch, spsh__drift *drift)
{
    size_t pairs = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = i + 1; k < count; k++)
            scratch[pairs++] = (good[k].lag - good[i].lag) / (good[k].middle - good[i].middle);
    const double slope = median_of(scratch, pairs);
    for (size_t i = 0; i < count; i++)
        scratch[i] = good[i].lag - slope * good[i].middle;
    const double level = median_of(scratch, count);
    for (size_t i = 0; i < count; i++)
        scratch[i] = fabs(good[i].lag - slope * good[i].middle - level);
    drift->slope_ppm = slope * 1e6;
    drift->spread_ms = median_of(scratch, count) / 8;
}

/* Find the longest run of loud blocks that do not agree. Quiet blocks between them belong to the
 * run. */
static void find_gap(const block_lag *blocks, size_t count, double gap_max, spsh__drift *drift)
{
    size_t first = 0; /* start of the current run */
    size_t loud = 0;
    for (size_t i = 0; i < count; i++) {
        if (!blocks[i].is_loud)
            continue;
        if (fabs(blocks[i].ncc) >= gap_max) {
            loud = 0;
            continue;
        }
        if (loud == 0)
            first = i;
        loud++;
        if (loud >= GAP_BLOCKS && (i + 1 - first) * BLOCK > drift->gap_count) {
            drift->gap_first = first * BLOCK;
            drift->gap_count = (i + 1 - first) * BLOCK;
        }
    }
}

static void sum_up(block_lag *blocks, size_t count, double good_min, double *scratch,
                   spsh__drift *drift)
{
    size_t good = 0;
    for (size_t i = 0; i < count; i++)
        if (blocks[i].is_loud)
            scratch[drift->block_count++] = fabs(blocks[i].ncc);
    drift->block_median = median_of(scratch, drift->block_count);
    for (size_t i = 0; i < count; i++)
        if (blocks[i].is_loud && fabs(blocks[i].ncc) >= good_min)
            blocks[good++] = blocks[i];
    drift->good_count = (uint32_t)good;
    if (drift->block_count > 0)
        drift->block_share = (double)good / drift->block_count;
    if (good >= 2)
        fit_line(blocks, good, scratch, drift);
}

spsh_status spsh__follow_drift(const spsh__stretch *stretch, double lag, double good_min,
                               double gap_max, spsh__drift *ret_drift, spsh_error *err)
{
    const size_t count = stretch->count / BLOCK;
    tracker t = {.stretch = stretch};
    block_lag *blocks = calloc(count + 1, sizeof(*blocks));
    double *scratch = calloc(count * count + 2, sizeof(*scratch));
    double loudest = 0;
    double most_trust = 0;
    size_t best = 0;

    prepare();
    *ret_drift = (spsh__drift){0};
    spsh_status rc = blocks == NULL || scratch == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    if (rc == SPSH_OK)
        rc = spsh__real_fft_open(BLOCK_SIZE, &t.a, err);
    if (rc == SPSH_OK)
        rc = spsh__real_fft_open(BLOCK_SIZE, &t.b, err);
    if (rc != SPSH_OK)
        goto out;
    for (size_t i = 0; i < count; i++) {
        const double loudness = energy(stretch->a + i * BLOCK, BLOCK);
        loudest = loudness > loudest ? loudness : loudest;
    }
    for (size_t i = 0; i < count; i++) {
        fit_block(&t, i, lag, &blocks[i]);
        /* 20 dB below the loudest block: quieter blocks contain as much codec noise as speech. */
        blocks[i].is_loud = loudest > 0 && energy(stretch->a + i * BLOCK, BLOCK) > loudest * 0.01;
        const double trust = fabs(blocks[i].ncc) - lag_price * fabs(blocks[i].lag - lag);
        if (blocks[i].is_loud && trust > most_trust + trust_tie) {
            most_trust = trust;
            best = i;
        }
    }
    if (count > 0) {
        track(&t, blocks, count, best, good_min);
        find_gap(blocks, count, gap_max, ret_drift);
        sum_up(blocks, count, good_min, scratch, ret_drift);
    }
out:
    spsh__real_fft_close(&t.a);
    spsh__real_fft_close(&t.b);
    free(blocks);
    free(scratch);
    return rc;
}

spsh_status spsh__undo_drift(spsh__stretch *stretch, double slope_ppm, double lag, spsh_error *err)
{
    const size_t size = stretch->count + MARGIN;
    const double middle = (double)stretch->count / 2 + SPSH__LAG_MAX;
    const double *table = spsh__sinc_table();
    double *b = calloc(size + 1, sizeof(*b));
    double *wide =
        calloc(size + (size_t)2 * SPSH__SINC_TAPS, sizeof(*wide)); /* surrounded by zeros */
    if (b == NULL || wide == NULL) {
        free(b);
        free(wide);
        return SPSH_NO_MEMORY(err);
    }
    memcpy(wide + SPSH__SINC_TAPS, stretch->b, size * sizeof(*wide));
    for (size_t i = 0; i < size; i++) {
        const double from_middle = (double)i - middle;
        const double place = middle + lag + from_middle * (1 + slope_ppm / 1e6);
        const double whole = floor(place);
        const double first = whole + SPSH__SINC_TAPS - (SPSH__SINC_HALF - 1);
        if (first >= 0 && first <= (double)size + SPSH__SINC_TAPS)
            b[i] = spsh__sinc_at(table, wide + (size_t)first, place - whole);
    }
    free(wide);
    free(stretch->b);
    stretch->b = b;
    return SPSH_OK;
}

/* Write the levels of the four bands of a group. The roots reduce the weight of loud vowels. */
static void measure_bands(const double *x, size_t group, double *out)
{
    lanes re = {0};
    lanes im = {0};
    for (size_t n = 0; n < FINE_SIZE; n++) {
        re += x[n] * tables.fine_cosines[n][group];
        im += x[n] * tables.fine_sines[n][group];
    }
    const lanes powers = re * re + im * im;
    for (size_t i = 0; i < 4; i++)
        out[i] = sqrt(sqrt(powers[i]));
}

/* Compute the envelopes: FINE_BANDS values per ms, minus their mean over 33 ms. */
static double *make_envelopes(const double *x, size_t size, size_t *ret_count)
{
    const size_t count = size < FINE_SIZE ? 0 : (size - FINE_SIZE) / FINE_HOP + 1;
    double *raw = calloc((count + 1) * FINE_BANDS, sizeof(*raw));
    double *fine = calloc((count + 1) * FINE_BANDS, sizeof(*fine));

    *ret_count = count;
    if (raw == NULL || fine == NULL) {
        free(raw);
        free(fine);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        for (size_t group = 0; group < FINE_GROUPS; group++)
            measure_bands(x + i * FINE_HOP, group, raw + i * FINE_BANDS + 4 * group);
    for (size_t i = 0; i < count * FINE_BANDS; i++) {
        const size_t at = i / FINE_BANDS;
        const size_t low = at < FINE_MEAN ? 0 : at - FINE_MEAN;
        const size_t high = at + FINE_MEAN < count ? at + FINE_MEAN : count - 1;
        double sum = 0;
        for (size_t k = low; k <= high; k++)
            sum += raw[k * FINE_BANDS + i % FINE_BANDS];
        fine[i] = raw[i] - sum / (double)(high - low + 1);
    }
    free(raw);
    return fine;
}

static double correlation_at(const double *a, const double *b, size_t count)
{
    const double energies = energy(a, count) * energy(b, count);
    return energies > 0 ? dot(a, b, count) / sqrt(energies) : 0;
}

spsh_status spsh__correlate_envelopes(const spsh__stretch *stretch, double lag,
                                      double *ret_correlation, spsh_error *err)
{
    size_t a_count = 0;
    size_t b_count = 0;
    prepare();
    double *a = make_envelopes(stretch->a, stretch->count, &a_count);
    double *b = make_envelopes(stretch->b, stretch->count + MARGIN, &b_count);
    spsh_status rc = SPSH_OK;

    *ret_correlation = 0;
    if (a == NULL || b == NULL) {
        rc = SPSH_NO_MEMORY(err);
        goto out;
    }
    const int64_t middle = SPSH__LAG_MAX / FINE_HOP + (int64_t)floor(lag / FINE_HOP + 0.5);
    for (int64_t at = middle - FINE_LAG; at <= middle + FINE_LAG; at++) {
        if (at < 0 || (size_t)at + a_count > b_count)
            continue;
        const double found = correlation_at(a, b + at * FINE_BANDS, a_count * FINE_BANDS);
        if (found > *ret_correlation)
            *ret_correlation = found;
    }
out:
    free(a);
    free(b);
    return rc;
}

spsh_status spsh__find_tonality(const spsh__stretch *stretch, double *ret_share, spsh_error *err)
{
    enum { PART = TONE_SIZE, BINS = PART / 2, STRONGEST = 8 };
    spsh__real_fft fft = {0};
    double power[BINS] = {0};
    double total = 0;
    double strong = 0;

    *ret_share = 0;
    const spsh_status rc = spsh__real_fft_open(PART, &fft, err);
    if (rc != SPSH_OK)
        return rc;
    prepare();
    for (size_t first = 0; first < stretch->count; first += PART / 2) {
        for (size_t n = 0; n < PART; n++)
            fft.samples[n] =
                first + n < stretch->count ? stretch->a[first + n] * tables.tone_window[n] : 0;
        spsh__real_fft_forward(&fft);
        for (size_t k = 0; k < BINS; k++)
            power[k] += cross_of(fft.bins[k], fft.bins[k]).re;
    }
    spsh__real_fft_close(&fft);
    qsort(power, BINS, sizeof(power[0]), spsh__compare_real);
    for (size_t k = 0; k < BINS; k++) {
        total += power[k];
        strong += k >= BINS - STRONGEST ? power[k] : 0;
    }
    if (total > 0)
        *ret_share = strong / total;
    return SPSH_OK;
}
