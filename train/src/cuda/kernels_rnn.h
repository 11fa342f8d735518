/* kernels_rnn.h: kernels of recurrent layers (rnn_shape of backend.h), one pass in one direction.
 *
 * A product of matrices first writes the input's part of all frames to `rows`: row t * N + n has
 * the gates, [gates][hidden]. The kernels compute the recurrence: frame after frame, a product with
 * the recurrent weights, and the cells.
 *
 * Persistent: kernels_rnn_persistent.h. One kernel computes all frames.
 *
 * Stepwise. The products are made outside (a gemm per frame), and a kernel per frame has the cells.
 * The cells are the same, for any shape.
 *
 * backward replaces the gates of `rows` by the gradients of their inputs, and GRU's q (which the
 * reset gate multiplies) by its gradient. Products over all frames follow.
 *
 * Kinds: rows, q, y, dy, and the exchange are elements (floats or 16 bits). Cells compute in
 * floats. LSTM's c, the values that a cell passes to the previous frame, sums, and biases are
 * floats.
 */
#ifndef SPSH_TRAIN_KERNELS_RNN_H
#define SPSH_TRAIN_KERNELS_RNN_H

#include <math.h>

#include "device_half.h"
#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif

enum {
    SPSH__RNN_GATES = 4,  /* maximum number of gates */
    SPSH__RNN_PARTS = 16, /* maximum parts of a layer's weights */
    SPSH__RNN_PASSES = 2, /* maximum passes of a launch: the directions of a layer */
};

/* Shared memory of a persistent block. Offsets in bytes, strides in elements. */
typedef struct spsh__rnn_layout {
    uint32_t columns; /* gates * units */
    uint32_t stride;  /* elements from one column of weights to the next */
    uint32_t sums, sums_stride, biases, kept;
    uint32_t bytes;
} spsh__rnn_layout;

typedef struct spsh__rnn_job {
    uint32_t gates; /* 4: LSTM, 3: GRU */
    uint32_t frames, batch, hidden;
    const void *recurrent;                    /* [gates * hidden][hidden] */
    const float *input_bias, *recurrent_bias; /* recurrent_bias NULL: none */
    void *rows;                               /* [T][N][gates][hidden] */
    void *inner;                              /* [T][N][hidden]: LSTM c, floats; GRU q, elements */
    void *y;                                  /* [T][N][hidden] */
    const void *dy;                           /* [T][N][hidden] */
    /* persistent */
    uint32_t units;         /* per block */
    uint32_t depth;         /* hidden, rounded up to a multiple of 32 */
    uint32_t exchange_rows; /* batch, rounded up to a multiple of 32 */
    spsh__rnn_layout layout;
    void *exchange;    /* [2][1, backward: gates][exchange_rows][depth]; zeros */
    float *parts;      /* backward: [gates][N][hidden], initially undefined */
    uint32_t *arrived; /* [1, backward: + groups][SPSH__RNN_COUNTER]; zeros */
    /* stepwise */
    uint32_t frame;       /* the current frame */
    const float *product; /* [N][gates][hidden] or, backward, [N][hidden]; NULL: 0 */
    float *carry;         /* backward: [N][hidden], initially undefined */
} spsh__rnn_job;

/* Persistent: row y of the grid computes pass y. */
typedef struct spsh__rnn_grid_job {
    spsh__rnn_job passes[SPSH__RNN_PASSES];
} spsh__rnn_grid_job;

/* Copy matrices, converting their kind. */
typedef struct spsh__rnn_part {
    spsh__device_array from, to;
    uint64_t row_count, from_stride, to_stride; /* in elements */
    uint32_t columns;
    uint32_t adds; /* add to the existing values */
} spsh__rnn_part;

typedef struct spsh__rnn_pack_job { /* block y copies part y */
    spsh__rnn_part parts[SPSH__RNN_PARTS];
} spsh__rnn_pack_job;

/* ---- elements. kind is a constant when CUDA compiles the kernels ---- */

DEVICE float rnn_get(const void *from, uint64_t i, uint32_t kind)
{
    if (kind == SPSH__DEVICE_F32)
        return ((const float *)from)[i];
    const uint16_t bits = ((const uint16_t *)from)[i];
#ifdef __CUDACC__
    if (kind == SPSH__DEVICE_FP16)
        return __half2float(__ushort_as_half(bits));
#endif
    return spsh__f32_of_half(bits, kind == SPSH__DEVICE_BF16);
}

DEVICE void rnn_set(void *to, uint64_t i, uint32_t kind, float value)
{
    if (kind == SPSH__DEVICE_F32) {
        ((float *)to)[i] = value;
        return;
    }
#ifdef __CUDACC__
    if (kind == SPSH__DEVICE_FP16) {
        ((uint16_t *)to)[i] = __half_as_ushort(__float2half_rn(value));
        return;
    }
#endif
    ((uint16_t *)to)[i] = spsh__half_of_f32(value, kind == SPSH__DEVICE_BF16);
}

/* ---- cells ---- */

DEVICE float rnn_sigmoid(float a)
{
    return 1.0F / (1.0F + expf(-a));
}

/* Constant k of the 4 of a unit. LSTM: the biases of gate k. GRU: the biases of r and z, the
 * recurrent bias of n, which r multiplies, and the input bias of n. */
DEVICE float rnn_bias(const spsh__rnn_job *job, uint32_t k, uint32_t u)
{
    const bool is_gru = job->gates == 3;
    const uint64_t at = (uint64_t)(is_gru && k == 3 ? 2 : k) * job->hidden + u;
    const float input = is_gru && k == 2 ? 0.0F : job->input_bias[at];
    const bool has_recurrent = job->recurrent_bias != NULL && !(is_gru && k == 3);
    return input + (has_recurrent ? job->recurrent_bias[at] : 0.0F);
}

/* One unit of one utterance in a frame. */
typedef struct rnn_cell {
    uint64_t row; /* frame * batch + utterance */
    uint32_t u, kind;
    /* Passed from frame to frame: c of an LSTM, h of a GRU, or in backward their gradient. */
    float kept;
    /* forward: biases (rnn_bias), and the product with the previous h. backward, written: gradients
     * of this product. */
    float gates[SPSH__RNN_GATES];
    float h; /* forward, written: as stored. backward: its gradient, from the next frame */
} rnn_cell;

DEVICE rnn_cell rnn_cell_of(const spsh__rnn_job *job, uint32_t t, uint32_t n, uint32_t u,
                            uint32_t kind)
{
    const rnn_cell cell = {
        (uint64_t)t * job->batch + n, u, kind, 0, {0, 0, 0, 0},
                0
    };
    return cell;
}

/* Store h, and return it as stored. */
DEVICE float rnn_store_h(const spsh__rnn_job *job, const rnn_cell *cell, float h)
{
    float stored = 0;
    rnn_set(&stored, 0, cell->kind, h);
    const float rounded = rnn_get(&stored, 0, cell->kind);
    rnn_set(job->y, cell->row * job->hidden + cell->u, cell->kind, rounded);
    return rounded;
}

DEVICE void rnn_lstm(const spsh__rnn_job *job, rnn_cell *cell)
{
    const uint64_t hidden = job->hidden;
    const uint64_t at = cell->row * 4 * hidden + cell->u;
    float a[4];
    for (uint32_t k = 0; k < 4; k++)
        a[k] = rnn_get(job->rows, at + k * hidden, cell->kind) + cell->gates[k];
    const float i = rnn_sigmoid(a[0]), f = rnn_sigmoid(a[1]), g = tanhf(a[2]);
    const float o = rnn_sigmoid(a[3]);
    cell->kept = f * cell->kept + i * g;
    rnn_set(job->rows, at, cell->kind, i);
    rnn_set(job->rows, at + hidden, cell->kind, f);
    rnn_set(job->rows, at + 2 * hidden, cell->kind, g);
    rnn_set(job->rows, at + 3 * hidden, cell->kind, o);
    ((float *)job->inner)[cell->row * hidden + cell->u] = cell->kept;
    cell->h = rnn_store_h(job, cell, o * tanhf(cell->kept));
}

DEVICE void rnn_gru(const spsh__rnn_job *job, rnn_cell *cell)
{
    const uint64_t hidden = job->hidden;
    const uint64_t at = cell->row * 3 * hidden + cell->u;
    const float q = cell->gates[2];
    const float r = rnn_sigmoid(rnn_get(job->rows, at, cell->kind) + cell->gates[0]);
    const float z = rnn_sigmoid(rnn_get(job->rows, at + hidden, cell->kind) + cell->gates[1]);
    const float n = tanhf(rnn_get(job->rows, at + 2 * hidden, cell->kind) + cell->gates[3] + r * q);
    rnn_set(job->rows, at, cell->kind, r);
    rnn_set(job->rows, at + hidden, cell->kind, z);
    rnn_set(job->rows, at + 2 * hidden, cell->kind, n);
    rnn_set(job->inner, cell->row * hidden + cell->u, cell->kind, q);
    cell->h = rnn_store_h(job, cell, (1.0F - z) * n + z * cell->kept);
    cell->kept = cell->h;
}

DEVICE void rnn_forward_cell(const spsh__rnn_job *job, rnn_cell *cell)
{
    if (job->gates == 4)
        rnn_lstm(job, cell);
    else
        rnn_gru(job, cell);
}

/* Replace the gates by their gradients. */
DEVICE void rnn_lstm_backward(const spsh__rnn_job *job, rnn_cell *cell)
{
    const uint64_t hidden = job->hidden;
    const uint64_t at = cell->row * 4 * hidden + cell->u;
    const float *c = (const float *)job->inner + cell->row * hidden + cell->u;
    const float i = rnn_get(job->rows, at, cell->kind);
    const float f = rnn_get(job->rows, at + hidden, cell->kind);
    const float g = rnn_get(job->rows, at + 2 * hidden, cell->kind);
    const float o = rnn_get(job->rows, at + 3 * hidden, cell->kind);
    const float before = cell->row < job->batch ? 0.0F : *(c - job->batch * hidden);
    const float now = tanhf(*c);
    const float dc = cell->h * o * (1.0F - now * now) + cell->kept;
    cell->gates[0] = dc * g * i * (1.0F - i);
    cell->gates[1] = dc * before * f * (1.0F - f);
    cell->gates[2] = dc * i * (1.0F - g * g);
    cell->gates[3] = cell->h * now * o * (1.0F - o);
    cell->kept = dc * f;
    for (uint32_t k = 0; k < 4; k++)
        rnn_set(job->rows, at + k * hidden, cell->kind, cell->gates[k]);
}

DEVICE void rnn_gru_backward(const spsh__rnn_job *job, rnn_cell *cell)
{
    const uint64_t hidden = job->hidden;
    const uint64_t at = cell->row * 3 * hidden + cell->u;
    const uint64_t one = cell->row * hidden + cell->u;
    const float r = rnn_get(job->rows, at, cell->kind);
    const float z = rnn_get(job->rows, at + hidden, cell->kind);
    const float n = rnn_get(job->rows, at + 2 * hidden, cell->kind);
    const float q = rnn_get(job->inner, one, cell->kind);
    const float before =
        cell->row < job->batch ? 0.0F : rnn_get(job->y, one - job->batch * hidden, cell->kind);
    const float all = cell->h + cell->kept;
    const float dn = all * (1.0F - z) * (1.0F - n * n);
    cell->gates[0] = dn * q * r * (1.0F - r);
    cell->gates[1] = all * (before - n) * z * (1.0F - z);
    cell->gates[2] = dn * r;
    cell->kept = all * z; /* the part that bypasses the gates */
    rnn_set(job->rows, at, cell->kind, cell->gates[0]);
    rnn_set(job->rows, at + hidden, cell->kind, cell->gates[1]);
    rnn_set(job->rows, at + 2 * hidden, cell->kind, dn);
    rnn_set(job->inner, one, cell->kind, cell->gates[2]);
}

DEVICE void rnn_backward_cell(const spsh__rnn_job *job, rnn_cell *cell)
{
    cell->h += rnn_get(job->dy, cell->row * job->hidden + cell->u, cell->kind);
    if (job->gates == 4)
        rnn_lstm_backward(job, cell);
    else
        rnn_gru_backward(job, cell);
}

/* ---- stepwise ---- */

DEVICE void rnn_forward_step(const spsh__rnn_job *job, const spsh__kernel_block *block,
                             uint32_t kind, uint32_t thread)
{
    const uint64_t hidden = job->hidden, count = job->batch * hidden;
    for (uint64_t i = spsh__block_first(block, thread); i < count; i += spsh__block_step(block)) {
        const uint64_t n = i / hidden, before = (job->frame - 1) * count + i;
        rnn_cell cell = rnn_cell_of(job, job->frame, (uint32_t)n, (uint32_t)(i % hidden), kind);
        if (job->frame > 0)
            cell.kept = job->gates == 4 ? ((const float *)job->inner)[before]
                                        : rnn_get(job->y, before, kind);
        for (uint32_t k = 0; k < SPSH__RNN_GATES; k++) {
            cell.gates[k] = rnn_bias(job, k, cell.u);
            if (job->product != NULL && k < job->gates)
                cell.gates[k] += job->product[(n * job->gates + k) * hidden + cell.u];
        }
        rnn_forward_cell(job, &cell);
    }
}

DEVICE void rnn_backward_step(const spsh__rnn_job *job, const spsh__kernel_block *block,
                              uint32_t kind, uint32_t thread)
{
    const uint64_t hidden = job->hidden, count = job->batch * hidden;
    for (uint64_t i = spsh__block_first(block, thread); i < count; i += spsh__block_step(block)) {
        rnn_cell cell =
            rnn_cell_of(job, job->frame, (uint32_t)(i / hidden), (uint32_t)(i % hidden), kind);
        cell.kept = job->frame + 1 == job->frames ? 0.0F : job->carry[i];
        cell.h = job->product == NULL ? 0.0F : job->product[i];
        rnn_backward_cell(job, &cell);
        job->carry[i] = cell.kept;
    }
}

DEVICE void spsh__kernel_rnn_forward_step(const spsh__rnn_job *job, const spsh__kernel_block *block,
                                          uint32_t kind)
{
    EACH_THREAD(block, rnn_forward_step(job, block, kind, thread));
}

DEVICE void spsh__kernel_rnn_backward_step(const spsh__rnn_job *job,
                                           const spsh__kernel_block *block, uint32_t kind)
{
    EACH_THREAD(block, rnn_backward_step(job, block, kind, thread));
}

/* ---- copying weights to and from a library's layout ---- */

DEVICE void rnn_pack(const spsh__rnn_part *part, const spsh__kernel_block *block, uint32_t thread)
{
    const uint64_t count = part->row_count * part->columns;
    for (uint64_t i = spsh__block_first(block, thread); i < count; i += spsh__block_step(block)) {
        const uint64_t row = i / part->columns, column = i % part->columns;
        const uint64_t to = row * part->to_stride + column;
        const float value = spsh__device_get(&part->from, row * part->from_stride + column);
        spsh__device_set(&part->to, to,
                         part->adds ? spsh__device_get(&part->to, to) + value : value);
    }
}

DEVICE void spsh__kernel_rnn_pack(const spsh__rnn_pack_job *job, const spsh__kernel_block *block,
                                  uint32_t kind)
{
    (void)kind; /* each part has its own kinds */
    EACH_THREAD(block, rnn_pack(&job->parts[block->y], block, thread));
}

#endif
