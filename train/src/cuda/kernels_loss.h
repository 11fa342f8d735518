/* kernels_loss.h: softmax of rows, cross-entropy, CTC.
 *
 * Rows. A group of threads processes a row. The group size is a power of two that depends on the
 * width, and is also the distance between a thread's elements. The maximum and the sum of e^(x -
 * maximum) are folded in halves within the group. Only the shape determines the order.
 *
 * CTC (ctc.h). Numbers are pairs m 2^e, with m a float in [1, 2) and e an integer, as in
 * ctc_body.h, with its exponential, and for its reasons. Three kernels:
 *
 *     ctc_rows      a group per row            logits --> the row's maximum, its sum of emissions
 *     ctc_states    a block per utterance      alpha of all frames, ln p; then beta backwards, and
 *                                              posteriors in the memory of alpha
 *     ctc_gradient  a group per row            softmax minus the posteriors of a symbol's states
 *
 * A state of alpha or beta depends only on adjacent states of the previous frame: one phase per
 * frame, between two rows in turn. Each frame needs data from global memory: the emissions (of each
 * symbol in the label, once) and, backwards, alpha. They are loaded for a `chunk` of frames at
 * once, so that the latency occurs once per chunk. Rows and chunks are in shared memory, or in
 * device memory for labels that are too long for it.
 *
 * A pair of states is blank i and label i, 0 <= i <= labels; the last label is zero. Posteriors are
 * alpha beta 2^-e of p. The last kernel divides them by their sum. The host sorts the positions of
 * a symbol in the label, which gives the order of the symbol's sum.
 */
#ifndef SPSH_TRAIN_KERNELS_LOSS_H
#define SPSH_TRAIN_KERNELS_LOSS_H

#include "device_half.h"
#include "speechshard/device_text.h"

/* X(NUMBER, name, type of the job) */
#define SPSH__KERNELS_LOSS(X)                                                                      \
    X(LOG_SOFTMAX, log_softmax, spsh__softmax_job)                                                 \
    X(ARGMAX, argmax, spsh__argmax_job)                                                            \
    X(CROSS_ENTROPY, cross_entropy, spsh__entropy_job)                                             \
    X(ENTROPY_SUMS, entropy_sums, spsh__entropy_sums_job)                                          \
    X(CTC_ROWS, ctc_rows, spsh__ctc_job)                                                           \
    X(CTC_STATES, ctc_states, spsh__ctc_job)                                                       \
    X(CTC_GRADIENT, ctc_gradient, spsh__ctc_job)

/* Shared memory of kernels with a group of threads per row. */
#define SPSH__LOSS_ROW_BYTES (SPSH__DEVICE_THREADS * 12U)
/* Fixed shared memory of ctc_states, before the memory per utterance. */
#define SPSH__CTC_FIXED_BYTES (SPSH__DEVICE_THREADS * 16U + 16U)
#define SPSH__ENTROPY_BYTES   (SPSH__DEVICE_THREADS * 32U)

typedef struct spsh__softmax_job {
    spsh__device_array x, y;
    uint64_t rows;
    uint32_t width, group_log2;
} spsh__softmax_job;

typedef struct spsh__argmax_job {
    spsh__device_array x;
    uint32_t *found; /* [rows] */
    uint64_t rows;
    uint32_t width, group_log2;
} spsh__argmax_job;

/* A row with a label: loss = most - own + ln sum. most: maximum logit; own: logit of the label. */
typedef struct spsh__entropy_row {
    float most, own, sum; /* row that is not trained on: 0, 0, 1 */
    uint32_t is_right;
} spsh__entropy_row;

typedef struct spsh__entropy_job {
    spsh__device_array x, dx; /* dx.data NULL: none */
    const uint32_t *states;
    spsh__entropy_row *found;
    uint64_t rows;
    uint32_t width, group_log2;
    float scale;
} spsh__entropy_job;

/* The product of factors: value * 2^power, or NaN if a factor is NaN. */
typedef struct spsh__loss_product {
    double value;
    int64_t power;
} spsh__loss_product;

typedef struct spsh__entropy_sum {
    double gaps; /* sum of most - own */
    spsh__loss_product sums;
    uint64_t right;
} spsh__entropy_sum;

typedef struct spsh__entropy_sums_job { /* one block per part */
    const spsh__entropy_row *rows;
    spsh__entropy_sum *parts;
    uint64_t row_count, part_rows;
} spsh__entropy_sums_job;

typedef struct spsh__ctc_number {
    float m;
    int32_t e;
} spsh__ctc_number;

typedef struct spsh__ctc_pair {
    spsh__ctc_number blank, label;
} __attribute__((aligned(16))) spsh__ctc_pair;

typedef struct spsh__ctc_row {
    float most, sum; /* sum: not above 0, or NaN, if the row has no valid softmax */
} spsh__ctc_row;

/* An utterance. In words, from words_at on: symbols[symbol_count], the blank first, then the
 * symbols of the label; begins[symbol_count + 1] and order[label_count]: the positions of symbol d
 * are order[i], begins[d] <= i < begins[d + 1]; slots[label_count]: twice the index of the label's
 * symbol in symbols, plus 1 if the previous label is different. */
typedef struct spsh__ctc_item {
    uint64_t alpha_at; /* in pairs */
    uint64_t words_at;
    uint64_t spill_at; /* in bytes; UINT64_MAX: the block's memory is enough */
    uint32_t frames, label_count, symbol_count;
    uint32_t chunk;
    uint32_t is_feasible, is_learnt;
    float scale;
} spsh__ctc_item;

typedef struct spsh__ctc_found {
    spsh__loss_product sums;       /* product of the frames' softmax sums */
    spsh__ctc_number blank, label; /* alpha of the last states */
    uint32_t is_bad;               /* a frame has no softmax */
    uint32_t has_gradient;
} spsh__ctc_found;

typedef struct spsh__ctc_job {
    spsh__device_array x, dx; /* dx.data NULL: none */
    const spsh__ctc_item *items;
    const uint32_t *words;
    spsh__ctc_row *rows;
    spsh__ctc_pair *alpha;
    spsh__ctc_found *found;
    uint8_t *spill;
    uint32_t frames, batch, symbols;
    uint32_t group_log2;
} spsh__ctc_job;

/* Shared memory that an utterance needs: two rows, the slots, and a chunk. */
SPSH__INLINE uint64_t spsh__ctc_near_bytes(const spsh__ctc_item *item, uint32_t chunk)
{
    const uint64_t pairs = (uint64_t)item->label_count + 1;
    const uint64_t slots = (pairs * sizeof(uint32_t) + 15) / 16 * 16;
    const uint64_t emissions = (uint64_t)item->symbol_count * sizeof(spsh__ctc_number);
    return 2 * pairs * sizeof(spsh__ctc_pair) + slots +
           chunk * (pairs * sizeof(spsh__ctc_pair) + emissions);
}

/* ------------------------------------------------------------------------------------- numbers */

#define LOSS_ROUND                                                                                 \
    12582912.0F /* 1.5 2^23: adding a number to it rounds the number to an
                                     integer */
#define LOSS_LOG2_E   1.44269504088896340736F
#define LOSS_LN2_HIGH 0.693359375F /* high part of ln 2; its last 15 bits are 0 */
#define LOSS_LN2_LOW  (-2.12194440e-4F)
#define LOSS_LOWEST   (-2900000.0F) /* nats: below CTC_NOTHING / 2 */
#define CTC_NOTHING   (-4194304)
#define CTC_FLOOR     (-268435456) /* minimum exponent: lower ones need not be distinguished */

/* 2^e; 0 below the normal numbers; e at most 127. */
DEVICE float device_power_of_two(int32_t e)
{
    return spsh__f32_of_bits((uint32_t)((e < -127 ? -127 : e) + 127) << 23);
}

/* e^x, x <= 0. NaN stays NaN, in m. */
DEVICE spsh__ctc_number device_exponential(float given)
{
    const float x = LOSS_LOWEST > given ? LOSS_LOWEST : given;
    const float e = (x * LOSS_LOG2_E + LOSS_ROUND) - LOSS_ROUND;
    const float rest = (x - e * LOSS_LN2_HIGH) - e * LOSS_LN2_LOW;
    float m = 1.0F / 5040;
    m = m * rest + 1.0F / 720;
    m = m * rest + 1.0F / 120;
    m = m * rest + 1.0F / 24;
    m = m * rest + 1.0F / 6;
    m = m * rest + 0.5F;
    m = m * rest + 1;
    m = m * rest + 1;
    const spsh__ctc_number value = {m, e == e ? (int32_t)e : 0};
    return value;
}

DEVICE float device_exp(float x)
{
    const spsh__ctc_number value = device_exponential(x);
    return value.m * device_power_of_two(value.e);
}

/* m > 0, a normal number. */
DEVICE spsh__ctc_number device_normalised(float m, int32_t e)
{
    const uint32_t bits = spsh__bits_of_f32(m);
    const int32_t power = (int32_t)(bits >> 23) - 127;
    const int32_t sum = e + power;
    const spsh__ctc_number value = {spsh__f32_of_bits((bits & 0x7fffffU) | 127U << 23),
                                    sum > CTC_FLOOR ? sum : CTC_FLOOR};
    return value;
}

/* Return (a + b + c) * by. */
DEVICE spsh__ctc_number device_sum_times(spsh__ctc_number a, spsh__ctc_number b, spsh__ctc_number c,
                                         spsh__ctc_number by)
{
    const int32_t e_ab = a.e > b.e ? a.e : b.e;
    const int32_t e = e_ab > c.e ? e_ab : c.e;
    const float m = a.m * device_power_of_two(a.e - e) + b.m * device_power_of_two(b.e - e) +
                    c.m * device_power_of_two(c.e - e);
    return device_normalised(m * by.m, e + by.e);
}

DEVICE spsh__ctc_number device_nothing(void)
{
    const spsh__ctc_number nothing = {1, CTC_NOTHING};
    return nothing;
}

DEVICE spsh__ctc_number device_one(void)
{
    const spsh__ctc_number one = {1, 0};
    return one;
}

/* Rescale, so that the next product neither overflows nor underflows a double. */
DEVICE void device_multiply(spsh__loss_product *product, double factor, int64_t power)
{
    const double value = product->value * factor;
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(bits));
    const int64_t exponent = (int64_t)(bits >> 52 & 0x7ff);
    product->power += power;
    if (exponent == 0x7ff || exponent == 0) {
        product->value = value - value; /* NaN for infinity and NaN; 0 for tiny numbers */
        return;
    }
    bits = (bits & UINT64_C(0x800fffffffffffff)) | UINT64_C(1023) << 52;
    memcpy(&product->value, &bits, sizeof(bits));
    product->power += exponent - 1023;
}

/* ln x, x >= 1: x = m 2^e with m from 0.7 to 1.42, and ln m = 2 artanh of (m - 1) / (m + 1). */
DEVICE double device_log(double x)
{
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof(bits));
    if ((bits >> 52 & 0x7ff) == 0x7ff)
        return x;
    int64_t e = (int64_t)(bits >> 52) - 1023;
    bits = (bits & UINT64_C(0x000fffffffffffff)) | UINT64_C(1023) << 52;
    double m = 0;
    memcpy(&m, &bits, sizeof(m));
    if (m > 1.41421356237309504880) {
        m *= 0.5;
        e++;
    }
    const double s = (m - 1) / (m + 1);
    const double q = s * s;
    double sum = 1.0 / 17;
    for (int32_t k = 15; k > 0; k -= 2)
        sum = sum * q + 1.0 / k;
    return 2 * s * sum + (double)e * 0.69314718055994530942;
}

/* ---------------------------------------------------------------------------------------- rows */

/* A thread's part of a row of `width` elements that begins at `first`. */
typedef struct device_line {
    uint64_t row, first;
    uint32_t lane, width, step;
    bool is_there;
} device_line;

/* Arrays in shared memory, with one value per thread of the block. */
typedef struct device_line_layout {
    float *best;
    uint32_t *place;
    float *sum;
} device_line_layout;

DEVICE device_line device_line_of(const spsh__kernel_block *block, uint32_t group_log2,
                                  uint64_t rows, uint32_t width, uint32_t thread)
{
    device_line line;
    line.step = 1U << group_log2;
    line.lane = thread & (line.step - 1);
    line.row = (uint64_t)block->x * (SPSH__DEVICE_THREADS >> group_log2) + (thread >> group_log2);
    line.first = line.row * width;
    line.width = width;
    line.is_there = line.row < rows;
    return line;
}

DEVICE device_line_layout device_line_layout_of(const spsh__kernel_block *block)
{
    device_line_layout layout;
    layout.best = (float *)block->shared;
    layout.place = (uint32_t *)block->shared + SPSH__DEVICE_THREADS;
    layout.sum = (float *)block->shared + (size_t)2 * SPSH__DEVICE_THREADS;
    return layout;
}

/* Find the maximum of a thread's elements, and its first position. */
DEVICE void device_line_best(const device_line *line, const spsh__device_array *x,
                             const device_line_layout *layout, uint32_t thread)
{
    float best = spsh__f32_of_bits(0xff800000U);
    uint32_t place = UINT32_MAX;
    if (line->is_there) {
        for (uint32_t k = line->lane; k < line->width; k += line->step) {
            const float value = spsh__device_get(x, line->first + k);
            if (value > best || place == UINT32_MAX) {
                place = k;
                best = value;
            }
        }
    }
    layout->best[thread] = best;
    layout->place[thread] = place;
}

DEVICE void device_fold_best(const device_line_layout *layout, uint32_t step, uint32_t half,
                             uint32_t thread)
{
    if ((thread & (step - 1)) >= half)
        return;
    const float mine = layout->best[thread], other = layout->best[thread + half];
    if (other > mine || (other == mine && layout->place[thread + half] < layout->place[thread])) {
        layout->best[thread] = other;
        layout->place[thread] = layout->place[thread + half];
    }
}

DEVICE void device_line_sum(const device_line *line, const spsh__device_array *x,
                            const device_line_layout *layout, uint32_t thread)
{
    const float most = layout->best[thread - line->lane];
    float sum = 0;
    if (line->is_there) {
        for (uint32_t k = line->lane; k < line->width; k += line->step)
            sum += device_exp(spsh__device_get(x, line->first + k) - most);
    }
    layout->sum[thread] = sum;
}

DEVICE void device_fold_sum(float *sums, uint32_t step, uint32_t half, uint32_t thread)
{
    if ((thread & (step - 1)) < half)
        sums[thread] += sums[thread + half];
}

/* Results of a row's threads. */
typedef struct device_line_found {
    float most, sum;
} device_line_found;

DEVICE device_line_found device_line_found_of(const spsh__kernel_block *block,
                                              const device_line *line, uint32_t thread)
{
    const device_line_layout layout = device_line_layout_of(block);
    const device_line_found found = {layout.best[thread - line->lane],
                                     layout.sum[thread - line->lane]};
    return found;
}

/* best and place of each group, at the group's first thread. */
#define DEVICE_BEST(block_, line_, x_, layout_, group_log2_)                                       \
    do {                                                                                           \
        const uint32_t best_step_ = 1U << (group_log2_);                                           \
        EACH_THREAD(block_, device_line here_ = (line_);                                           \
                    device_line_best(&here_, x_, layout_, thread));                                \
        for (uint32_t half_ = best_step_ / 2; half_ > 0; half_ /= 2)                               \
            EACH_THREAD(block_, device_fold_best(layout_, best_step_, half_, thread));             \
    } while (0)

/* ... and sum. */
#define DEVICE_LINES(block_, line_, x_, layout_, group_log2_)                                      \
    do {                                                                                           \
        const uint32_t step_ = 1U << (group_log2_);                                                \
        DEVICE_BEST(block_, line_, x_, layout_, group_log2_);                                      \
        EACH_THREAD(block_, device_line here_ = (line_);                                           \
                    device_line_sum(&here_, x_, layout_, thread));                                 \
        for (uint32_t half_ = step_ / 2; half_ > 0; half_ /= 2)                                    \
            EACH_THREAD(block_, device_fold_sum((layout_)->sum, step_, half_, thread));            \
    } while (0)

/* --------------------------------------------------------------------------------- log softmax */

DEVICE void device_put_log_softmax(const spsh__softmax_job *job, const spsh__kernel_block *block,
                                   uint32_t thread)
{
    const device_line line = device_line_of(block, job->group_log2, job->rows, job->width, thread);
    if (!line.is_there)
        return;
    const device_line_found found = device_line_found_of(block, &line, thread);
    const float sum = (float)((double)found.most + device_log((double)found.sum));
    for (uint32_t k = line.lane; k < line.width; k += line.step)
        spsh__device_set(&job->y, line.first + k, spsh__device_get(&job->x, line.first + k) - sum);
}

DEVICE void spsh__kernel_log_softmax(const spsh__softmax_job *job, const spsh__kernel_block *block)
{
    const device_line_layout layout = device_line_layout_of(block);
    DEVICE_LINES(block, device_line_of(block, job->group_log2, job->rows, job->width, thread),
                 &job->x, &layout, job->group_log2);
    EACH_THREAD(block, device_put_log_softmax(job, block, thread));
}

/* -------------------------------------------------------------------------------------- argmax */

DEVICE void device_put_argmax(const spsh__argmax_job *job, const spsh__kernel_block *block,
                              uint32_t thread)
{
    const device_line line = device_line_of(block, job->group_log2, job->rows, job->width, thread);
    if (line.is_there && line.lane == 0)
        job->found[line.row] = device_line_layout_of(block).place[thread];
}

DEVICE void spsh__kernel_argmax(const spsh__argmax_job *job, const spsh__kernel_block *block)
{
    const device_line_layout layout = device_line_layout_of(block);
    DEVICE_BEST(block, device_line_of(block, job->group_log2, job->rows, job->width, thread),
                &job->x, &layout, job->group_log2);
    EACH_THREAD(block, device_put_argmax(job, block, thread));
}

/* ------------------------------------------------------------------------------- cross-entropy */

DEVICE void device_find_entropy(const spsh__entropy_job *job, const spsh__kernel_block *block,
                                uint32_t thread)
{
    const device_line line = device_line_of(block, job->group_log2, job->rows, job->width, thread);
    const device_line_layout layout = device_line_layout_of(block);
    if (!line.is_there || line.lane != 0)
        return;
    const uint32_t state = job->states[line.row];
    spsh__entropy_row found = {0, 0, 1, 0};
    if (state < line.width) {
        found.most = layout.best[thread];
        found.own = spsh__device_get(&job->x, line.first + state);
        found.sum = layout.sum[thread];
        found.is_right = layout.place[thread] == state;
    }
    job->found[line.row] = found;
}

DEVICE void device_put_entropy(const spsh__entropy_job *job, const spsh__kernel_block *block,
                               uint32_t thread)
{
    const device_line line = device_line_of(block, job->group_log2, job->rows, job->width, thread);
    if (!line.is_there)
        return;
    const device_line_found found = device_line_found_of(block, &line, thread);
    const float factor = job->scale / found.sum;
    const uint32_t state = job->states[line.row];
    const bool is_learnt = state < line.width;
    for (uint32_t k = line.lane; k < line.width; k += line.step) {
        float value = 0;
        if (is_learnt) {
            value = device_exp(spsh__device_get(&job->x, line.first + k) - found.most) * factor;
            value -= k == state ? job->scale : 0;
        }
        spsh__device_set(&job->dx, line.first + k, value);
    }
}

DEVICE void spsh__kernel_cross_entropy(const spsh__entropy_job *job,
                                       const spsh__kernel_block *block)
{
    const device_line_layout layout = device_line_layout_of(block);
    DEVICE_LINES(block, device_line_of(block, job->group_log2, job->rows, job->width, thread),
                 &job->x, &layout, job->group_log2);
    EACH_THREAD(block, device_find_entropy(job, block, thread));
    if (job->dx.data != NULL)
        EACH_THREAD(block, device_put_entropy(job, block, thread));
}

DEVICE void device_sum_entropy(const spsh__entropy_sums_job *job, const spsh__kernel_block *block,
                               uint32_t thread)
{
    const uint64_t first = block->x * job->part_rows;
    const uint64_t end =
        first + job->part_rows < job->row_count ? first + job->part_rows : job->row_count;
    spsh__entropy_sum sum = {
        0, {1, 0},
         0
    };
    for (uint64_t row = first + thread; row < end; row += SPSH__DEVICE_THREADS) {
        const spsh__entropy_row *found = &job->rows[row];
        sum.gaps += (double)found->most - (double)found->own;
        device_multiply(&sum.sums, (double)found->sum, 0);
        sum.right += found->is_right;
    }
    ((spsh__entropy_sum *)block->shared)[thread] = sum;
}

DEVICE void device_fold_entropy(const spsh__kernel_block *block, uint32_t half, uint32_t thread)
{
    spsh__entropy_sum *sums = (spsh__entropy_sum *)block->shared;
    if (thread >= half)
        return;
    sums[thread].gaps += sums[thread + half].gaps;
    sums[thread].right += sums[thread + half].right;
    device_multiply(&sums[thread].sums, sums[thread + half].sums.value,
                    sums[thread + half].sums.power);
}

DEVICE void device_put_part(const spsh__entropy_sums_job *job, const spsh__kernel_block *block,
                            uint32_t thread)
{
    if (thread == 0)
        job->parts[block->x] = ((const spsh__entropy_sum *)block->shared)[0];
}

DEVICE void spsh__kernel_entropy_sums(const spsh__entropy_sums_job *job,
                                      const spsh__kernel_block *block)
{
    EACH_THREAD(block, device_sum_entropy(job, block, thread));
    for (uint32_t half = SPSH__DEVICE_THREADS / 2; half > 0; half /= 2)
        EACH_THREAD(block, device_fold_entropy(block, half, thread));
    EACH_THREAD(block, device_put_part(job, block, thread));
}

/* ----------------------------------------------------------------------------------------- CTC */

DEVICE device_line device_ctc_line(const spsh__ctc_job *job, const spsh__kernel_block *block,
                                   uint32_t thread)
{
    device_line line = device_line_of(block, job->group_log2, (uint64_t)job->frames * job->batch,
                                      job->symbols, thread);
    if (line.is_there) /* padding has no valid softmax */
        line.is_there = line.row / job->batch < job->items[line.row % job->batch].frames;
    return line;
}

DEVICE void device_put_row(const spsh__ctc_job *job, const spsh__kernel_block *block,
                           uint32_t thread)
{
    const device_line line = device_ctc_line(job, block, thread);
    const device_line_layout layout = device_line_layout_of(block);
    if (!line.is_there || line.lane != 0)
        return;
    const spsh__ctc_row row = {layout.best[thread], layout.sum[thread]};
    job->rows[line.row] = row;
}

DEVICE void spsh__kernel_ctc_rows(const spsh__ctc_job *job, const spsh__kernel_block *block)
{
    const device_line_layout layout = device_line_layout_of(block);
    DEVICE_LINES(block, device_ctc_line(job, block, thread), &job->x, &layout, job->group_log2);
    EACH_THREAD(block, device_put_row(job, block, thread));
}

/* Addresses of an utterance's data: in shared and in device memory. */
typedef struct device_ctc {
    const spsh__ctc_item *item;
    const uint32_t *symbols, *far_slots;
    spsh__loss_product *products; /* per thread; at the end the first is of all frames */
    int32_t *greatest;            /* exponent of p; INT32_MIN: no gradient */
    spsh__ctc_pair *rows;         /* two rows */
    uint32_t *slots;
    spsh__ctc_number *emissions; /* [chunk][symbol_count] */
    spsh__ctc_pair *near_alpha;  /* [chunk][pairs] */
    spsh__ctc_pair *alpha;
    uint32_t pairs, n;
} device_ctc;

DEVICE device_ctc device_ctc_of(const spsh__ctc_job *job, const spsh__kernel_block *block)
{
    device_ctc w;
    w.n = block->x;
    w.item = &job->items[w.n];
    const spsh__ctc_item *item = w.item;
    w.pairs = item->label_count + 1;
    w.symbols = job->words + item->words_at;
    w.far_slots = w.symbols + 2 * (uint64_t)item->symbol_count + 1 + item->label_count;
    w.products = (spsh__loss_product *)block->shared;
    w.greatest = (int32_t *)(w.products + SPSH__DEVICE_THREADS);
    uint8_t *near = (uint8_t *)block->shared + SPSH__CTC_FIXED_BYTES;
    if (item->spill_at != UINT64_MAX)
        near = job->spill + item->spill_at;
    w.rows = (spsh__ctc_pair *)(void *)near; /* shared memory and the spill are aligned for pairs */
    w.near_alpha = w.rows + 2 * (uint64_t)w.pairs;
    w.slots = (uint32_t *)(w.near_alpha + (uint64_t)item->chunk * w.pairs);
    w.emissions = (spsh__ctc_number *)(w.slots + ((uint64_t)w.pairs + 3) / 4 * 4);
    w.alpha = job->alpha == NULL ? NULL : job->alpha + item->alpha_at;
    return w;
}

/* Multiply the sums of a thread's frames. Then initialize alpha: only the first blank is not zero.
 */
DEVICE void device_ctc_begin(const spsh__ctc_job *job, const device_ctc *w, uint32_t thread)
{
    spsh__loss_product product = {1, 0};
    for (uint32_t t = thread; t < w->item->frames; t += SPSH__DEVICE_THREADS) {
        const float sum = job->rows[(uint64_t)t * job->batch + w->n].sum;
        device_multiply(&product, sum > 0 ? (double)sum : 0, 0);
    }
    w->products[thread] = product;
    for (uint32_t i = thread; i < w->pairs; i += SPSH__DEVICE_THREADS) {
        w->slots[i] = i < w->item->label_count ? w->far_slots[i] : 0;
        w->rows[i].blank = i == 0 ? device_one() : device_nothing();
        w->rows[i].label = device_nothing();
    }
}

DEVICE void device_ctc_fold(const device_ctc *w, uint32_t half, uint32_t thread)
{
    if (thread < half)
        device_multiply(&w->products[thread], w->products[thread + half].value,
                        w->products[thread + half].power);
}

DEVICE bool device_ctc_is_bad(const device_ctc *w)
{
    const double value = w->products[0].value;
    return !(value > 0);
}

/* Load the emissions of frames [t, t + count) and, backwards, alpha. */
DEVICE void device_ctc_bring(const spsh__ctc_job *job, const device_ctc *w, uint32_t t,
                             uint32_t count, uint32_t thread)
{
    const uint32_t symbols = w->item->symbol_count;
    for (uint32_t at = thread; at < count * symbols; at += SPSH__DEVICE_THREADS) {
        const uint64_t row = (uint64_t)(t + at / symbols) * job->batch + w->n;
        const uint64_t place = row * job->symbols + w->symbols[at % symbols];
        w->emissions[at] =
            device_exponential(spsh__device_get(&job->x, place) - job->rows[row].most);
    }
}

DEVICE void device_ctc_bring_back(const spsh__ctc_job *job, const device_ctc *w, uint32_t t,
                                  uint32_t count, uint32_t thread)
{
    device_ctc_bring(job, w, t, count, thread);
    const spsh__ctc_pair *from = w->alpha + (uint64_t)t * w->pairs;
    for (uint64_t at = thread; at < (uint64_t)count * w->pairs; at += SPSH__DEVICE_THREADS)
        w->near_alpha[at] = from[at];
}

/* Compute alpha after frame t, which has index `place` in its chunk. */
DEVICE void device_ctc_forward(const device_ctc *w, uint32_t t, uint32_t place, uint32_t thread)
{
    const spsh__ctc_pair *from = w->rows + (uint64_t)(t & 1) * w->pairs;
    spsh__ctc_pair *to = w->rows + (uint64_t)(~t & 1) * w->pairs;
    const spsh__ctc_number *emissions = w->emissions + (uint64_t)place * w->item->symbol_count;
    const spsh__ctc_number nothing = device_nothing();
    for (uint32_t i = thread; i < w->pairs; i += SPSH__DEVICE_THREADS) {
        const uint32_t slot = w->slots[i];
        const spsh__ctc_pair here = from[i];
        const spsh__ctc_number before = i > 0 ? from[i - 1].label : nothing;
        spsh__ctc_pair next;
        next.blank = device_sum_times(here.blank, before, nothing, emissions[0]);
        next.label = nothing;
        if (i + 1 < w->pairs)
            next.label = device_sum_times(here.label, here.blank,
                                          (slot & 1) != 0 ? before : nothing, emissions[slot >> 1]);
        to[i] = next;
        if (w->alpha != NULL)
            w->alpha[(uint64_t)t * w->pairs + i] = next;
    }
}

/* One thread writes the results, and whether there is a gradient. */
DEVICE void device_ctc_conclude(const spsh__ctc_job *job, const device_ctc *w, uint32_t thread)
{
    const spsh__ctc_item *item = w->item;
    if (thread != 0)
        return;
    const spsh__ctc_pair *last = w->rows + (uint64_t)(item->frames & 1) * w->pairs;
    spsh__ctc_found found = {w->products[0], device_nothing(), device_nothing(), 0, 0};
    found.is_bad = device_ctc_is_bad(w);
    int32_t greatest = CTC_NOTHING;
    if (!found.is_bad) {
        found.blank = last[item->label_count].blank;
        if (item->label_count > 0)
            found.label = last[item->label_count - 1].label;
        greatest = found.blank.e > found.label.e ? found.blank.e : found.label.e;
    }
    found.has_gradient = greatest >= CTC_NOTHING / 2 && item->is_learnt != 0;
    *w->greatest = found.has_gradient != 0 ? greatest : INT32_MIN;
    job->found[w->n] = found;
}

/* After the last frame only the last blank is possible. */
DEVICE void device_ctc_turn(const device_ctc *w, uint32_t thread)
{
    spsh__ctc_pair *row = w->rows + (uint64_t)(w->item->frames & 1) * w->pairs;
    for (uint32_t i = thread; i < w->pairs; i += SPSH__DEVICE_THREADS) {
        row[i].blank = i + 1 == w->pairs ? device_one() : device_nothing();
        row[i].label = device_nothing();
    }
}

DEVICE spsh__ctc_number device_posterior(spsh__ctc_number a, spsh__ctc_number b, int32_t greatest)
{
    const int32_t e = a.e + b.e - greatest;
    const spsh__ctc_number value = {a.m * b.m * device_power_of_two(e < 100 ? e : 100), 0};
    return value;
}

DEVICE void device_ctc_backward(const device_ctc *w, uint32_t t, uint32_t place, uint32_t thread)
{
    const spsh__ctc_pair *from = w->rows + (uint64_t)(~t & 1) * w->pairs;
    spsh__ctc_pair *to = w->rows + (uint64_t)(t & 1) * w->pairs;
    const spsh__ctc_pair *alpha = w->near_alpha + (uint64_t)place * w->pairs;
    const spsh__ctc_number *emissions = w->emissions + (uint64_t)place * w->item->symbol_count;
    const spsh__ctc_number nothing = device_nothing();
    const spsh__ctc_number one = device_one();
    for (uint32_t i = thread; i < w->pairs; i += SPSH__DEVICE_THREADS) {
        const spsh__ctc_pair here = from[i];
        spsh__ctc_pair next, found;
        const spsh__ctc_number blank = device_sum_times(here.blank, here.label, nothing, one);
        found.blank = device_posterior(blank, alpha[i].blank, *w->greatest);
        next.blank = device_normalised(blank.m * emissions[0].m, blank.e + emissions[0].e);
        found.label.m = 0;
        found.label.e = 0;
        next.label = nothing;
        if (i + 1 < w->pairs) {
            const spsh__ctc_pair after = from[i + 1];
            const spsh__ctc_number emission = emissions[w->slots[i] >> 1];
            const spsh__ctc_number label = device_sum_times(
                here.label, after.blank, (w->slots[i + 1] & 1) != 0 ? after.label : nothing, one);
            found.label = device_posterior(label, alpha[i].label, *w->greatest);
            next.label = device_normalised(label.m * emission.m, label.e + emission.e);
        }
        to[i] = next;
        w->alpha[(uint64_t)t * w->pairs + i] = found;
    }
}

DEVICE void spsh__kernel_ctc_states(const spsh__ctc_job *job, const spsh__kernel_block *block)
{
    const device_ctc w = device_ctc_of(job, block);
    const uint32_t frames = w.item->frames;
    if (w.item->is_feasible == 0)
        return;
    const uint32_t chunk = w.item->chunk;
    EACH_THREAD(block, device_ctc_begin(job, &w, thread));
    for (uint32_t half = SPSH__DEVICE_THREADS / 2; half > 0; half /= 2)
        EACH_THREAD(block, device_ctc_fold(&w, half, thread));
    for (uint32_t t = 0; t < frames && !device_ctc_is_bad(&w); t += chunk) {
        const uint32_t count = frames - t < chunk ? frames - t : chunk;
        EACH_THREAD(block, device_ctc_bring(job, &w, t, count, thread));
        for (uint32_t i = 0; i < count; i++)
            EACH_THREAD(block, device_ctc_forward(&w, t + i, i, thread));
    }
    EACH_THREAD(block, device_ctc_conclude(job, &w, thread));
    if (*w.greatest == INT32_MIN)
        return;
    EACH_THREAD(block, device_ctc_turn(&w, thread));
    for (uint32_t end = frames; end > 0;) {
        const uint32_t count = end < chunk ? end : chunk;
        end -= count;
        EACH_THREAD(block, device_ctc_bring_back(job, &w, end, count, thread));
        for (uint32_t i = count; i-- > 0;)
            EACH_THREAD(block, device_ctc_backward(&w, end + i, i, thread));
    }
}

/* --- gradients: a group of threads has the row of a frame of an utterance */

/* Sums of posteriors in the block's memory: of blanks, of labels. */
DEVICE void device_ctc_total(const spsh__ctc_job *job, const device_line *line,
                             const device_line_layout *layout, uint32_t thread)
{
    float blanks = 0, labels = 0;
    if (line->is_there) {
        const spsh__ctc_item *item = &job->items[line->row % job->batch];
        const uint32_t pairs = item->label_count + 1;
        const spsh__ctc_pair *found = job->alpha + item->alpha_at + line->row / job->batch * pairs;
        for (uint32_t i = line->lane; i < pairs; i += line->step) {
            blanks += found[i].blank.m;
            labels += found[i].label.m;
        }
    }
    layout->best[thread] = blanks;
    layout->sum[thread] = labels;
}

/* Is the row one of an utterance with a gradient? */
DEVICE device_line device_gradient_line(const spsh__ctc_job *job, const spsh__kernel_block *block,
                                        uint32_t thread)
{
    device_line line = device_ctc_line(job, block, thread);
    if (line.is_there) {
        const uint32_t n = (uint32_t)(line.row % job->batch);
        line.is_there = job->items[n].is_feasible != 0 && job->found[n].has_gradient != 0;
    }
    return line;
}

DEVICE void device_fold_totals(const device_line_layout *layout, uint32_t step, uint32_t half,
                               uint32_t thread)
{
    device_fold_sum(layout->best, step, half, thread);
    device_fold_sum(layout->sum, step, half, thread);
}

/* Write scale * softmax, or 0 if the row has no gradient. */
DEVICE void device_put_softmax(const spsh__ctc_job *job, const spsh__kernel_block *block,
                               uint32_t thread)
{
    const device_line line = device_gradient_line(job, block, thread);
    if (line.row >= (uint64_t)job->frames * job->batch)
        return;
    float most = 0, factor = 0;
    if (line.is_there) {
        most = job->rows[line.row].most;
        factor = job->items[line.row % job->batch].scale / job->rows[line.row].sum;
    }
    for (uint32_t k = line.lane; k < line.width; k += line.step) {
        float value = 0;
        if (line.is_there)
            value = device_exp(spsh__device_get(&job->x, line.first + k) - most) * factor;
        spsh__device_set(&job->dx, line.first + k, value);
    }
}

/* Write the gradient of symbols that have states again, now with the posteriors of their states. */
DEVICE void device_put_gradient(const spsh__ctc_job *job, const spsh__kernel_block *block,
                                uint32_t thread)
{
    const device_line line = device_gradient_line(job, block, thread);
    const device_line_layout layout = device_line_layout_of(block);
    if (!line.is_there)
        return;
    const spsh__ctc_item *item = &job->items[line.row % job->batch];
    const spsh__ctc_row row = job->rows[line.row];
    const uint32_t pairs = item->label_count + 1;
    const spsh__ctc_pair *found = job->alpha + item->alpha_at + line.row / job->batch * pairs;
    const uint32_t *symbols = job->words + item->words_at;
    const uint32_t *begins = symbols + item->symbol_count;
    const uint32_t *order = begins + item->symbol_count + 1;
    const float blanks = layout.best[thread - line.lane];
    const float factor = item->scale / row.sum;
    const float per_total = item->scale / (blanks + layout.sum[thread - line.lane]);
    for (uint32_t d = line.lane; d < item->symbol_count; d += line.step) {
        const uint64_t place = line.first + symbols[d];
        float posterior = d == 0 ? blanks : 0;
        for (uint32_t i = begins[d]; i < begins[d + 1]; i++)
            posterior += found[order[i]].label.m;
        const float softmax = device_exp(spsh__device_get(&job->x, place) - row.most) * factor;
        spsh__device_set(&job->dx, place, softmax - posterior * per_total);
    }
}

DEVICE void spsh__kernel_ctc_gradient(const spsh__ctc_job *job, const spsh__kernel_block *block)
{
    const device_line_layout layout = device_line_layout_of(block);
    const uint32_t step = 1U << job->group_log2;
    EACH_THREAD(block, const device_line line = device_gradient_line(job, block, thread);
                device_ctc_total(job, &line, &layout, thread));
    for (uint32_t half = step / 2; half > 0; half /= 2)
        EACH_THREAD(block, device_fold_totals(&layout, step, half, thread));
    EACH_THREAD(block, device_put_softmax(job, block, thread));
    EACH_THREAD(block, device_put_gradient(job, block, thread));
}

#endif
