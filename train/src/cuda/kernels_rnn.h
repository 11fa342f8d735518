/* kernels_rnn.h: kernels of recurrent layers (rnn_shape of backend.h), one pass in one direction.
 *
 * A product of matrices first writes the input's part of all frames to `rows`: row t * N + n has
 * the gates, [gates][hidden]. The kernels compute the recurrence: frame after frame, a product with
 * the recurrent weights, and the cells.
 *
 * Persistent recurrence. The grid is cooperative: all of its blocks are on the device at once, and
 * stay for all frames. Block x has the hidden units [x * units, (x + 1) * units) and keeps their
 * part of the recurrent weights in its shared memory:
 *
 *     forward   [gates * units][hidden]   rows gate * units + u: all weights that make these units
 *     backward  [units][gates * hidden]   the same matrix by columns: weights that read these units
 *     then      [warps][32][columns + 8]  floats: sums of a warp over its share of the depth
 *
 * Rows are padded with zeros past their depth. Their stride is 64 bytes more than a multiple of
 * 128, so that reading 16 bytes of 8 rows at once has no bank conflict. In each frame a block
 * multiplies the data of all blocks in `exchange` (h forward, gradients of gates backward; two
 * frames in turn, in global memory) by its weights, 32 utterances at a time. Each warp takes a
 * share of the depth, on tensor cores if elements have 16 bits. The sums of the warps are added in
 * order. Then the cells write the block's output for the other blocks, and all blocks wait for each
 * other. A frame costs one read of the exchange and one wait. Weights are read once for all frames.
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
    SPSH__RNN_WARPS = SPSH__DEVICE_THREADS / 32,
    SPSH__RNN_ROWS = 32,  /* utterances at a time */
    SPSH__RNN_TILES = 8,  /* tiles of 8 columns at a time */
    SPSH__RNN_DEPTH = 32, /* minimum depth per warp */
    SPSH__RNN_GATES = 4,  /* maximum number of gates */
    SPSH__RNN_PARTS = 16, /* maximum parts of a layer's weights */
};

typedef struct spsh__rnn_job {
    uint32_t gates; /* 4: LSTM, 3: GRU */
    uint32_t frames, batch, hidden;
    uint32_t frame;         /* stepwise: the current frame */
    uint32_t units;         /* per block, a multiple of 8; persistent, as all up to `exchange` */
    uint32_t depth;         /* depth of the exchange: hidden or gates * hidden, rounded up to a
                             * multiple of 32 */
    uint32_t stride;        /* stride of weights in shared memory, in elements */
    uint32_t exchange_rows; /* batch, rounded up to a multiple of 32 */
    const void *recurrent;  /* [gates * hidden][hidden] */
    void *exchange;         /* [2][exchange_rows][depth]; zeros */
    uint32_t *arrived;      /* starts at 0; counts how often a block reached the end of a frame */
    const float *input_bias, *recurrent_bias; /* recurrent_bias NULL: none */
    void *rows;                               /* [T][N][gates][hidden] */
    void *inner;                              /* [T][N][hidden]: LSTM c, floats; GRU q, elements */
    void *y;                                  /* [T][N][hidden] */
    const void *dy;                           /* [T][N][hidden] */
    const float *product; /* stepwise: [N][gates][hidden] or, backward, [N][hidden]; NULL: 0 */
    float *carry;         /* backward: [N][hidden], initially undefined */
} spsh__rnn_job;

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

/* Read a value that another block wrote during this kernel: bypass the multiprocessor's own cache.
 */
DEVICE float rnn_get_shared(const void *from, uint64_t i, uint32_t kind)
{
#ifdef __CUDACC__
    if (kind == SPSH__DEVICE_F32)
        return __ldcg((const float *)from + i);
    const uint16_t bits = __ldcg((const unsigned short *)from + i);
    return rnn_get(&bits, 0, kind);
#else
    return rnn_get(from, i, kind);
#endif
}

/* Prefetch data that will be read soon. */
DEVICE void rnn_ahead(const void *from, uint64_t i, uint32_t kind)
{
#ifdef __CUDACC__
    const char *at = (const char *)from + i * (kind == SPSH__DEVICE_F32 ? 4 : 2);
    asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
#else
    (void)from, (void)i, (void)kind;
#endif
}

/* ---- cells ---- */

DEVICE float rnn_sigmoid(float a)
{
    return 1.0F / (1.0F + expf(-a));
}

DEVICE float rnn_bias(const float *bias, uint64_t i)
{
    return bias == NULL ? 0.0F : bias[i];
}

/* Compute unit u of a row. state: the contribution of the previous h to the gates. */
DEVICE float rnn_lstm(const spsh__rnn_job *job, uint32_t kind, uint64_t row, uint32_t u,
                      const float *state)
{
    const uint64_t hidden = job->hidden;
    const uint64_t at = row * 4 * hidden + u;
    float a[4];
    for (uint32_t k = 0; k < 4; k++)
        a[k] = rnn_get(job->rows, at + k * hidden, kind) + job->input_bias[k * hidden + u] +
               rnn_bias(job->recurrent_bias, k * hidden + u) + state[k];
    float *c = (float *)job->inner + row * hidden + u;
    const float i = rnn_sigmoid(a[0]), f = rnn_sigmoid(a[1]), g = tanhf(a[2]);
    const float o = rnn_sigmoid(a[3]);
    const float before = row < job->batch ? 0.0F : *(c - job->batch * hidden);
    const float now = f * before + i * g;
    rnn_set(job->rows, at, kind, i);
    rnn_set(job->rows, at + hidden, kind, f);
    rnn_set(job->rows, at + 2 * hidden, kind, g);
    rnn_set(job->rows, at + 3 * hidden, kind, o);
    *c = now;
    return o * tanhf(now);
}

DEVICE float rnn_gru(const spsh__rnn_job *job, uint32_t kind, uint64_t row, uint32_t u,
                     const float *state)
{
    const uint64_t hidden = job->hidden;
    const uint64_t at = row * 3 * hidden + u;
    float a[3];
    for (uint32_t k = 0; k < 3; k++)
        a[k] = rnn_get(job->rows, at + k * hidden, kind) + job->input_bias[k * hidden + u];
    const float r = rnn_sigmoid(a[0] + rnn_bias(job->recurrent_bias, u) + state[0]);
    const float z = rnn_sigmoid(a[1] + rnn_bias(job->recurrent_bias, hidden + u) + state[1]);
    const float q = rnn_bias(job->recurrent_bias, 2 * hidden + u) + state[2];
    const float n = tanhf(a[2] + r * q);
    const float before =
        row < job->batch ? 0.0F : rnn_get(job->y, (row - job->batch) * hidden + u, kind);
    rnn_set(job->rows, at, kind, r);
    rnn_set(job->rows, at + hidden, kind, z);
    rnn_set(job->rows, at + 2 * hidden, kind, n);
    rnn_set(job->inner, row * hidden + u, kind, q);
    return (1.0F - z) * n + z * before;
}

DEVICE void rnn_forward_cell(const spsh__rnn_job *job, uint32_t kind, uint64_t row, uint32_t u,
                             const float *state)
{
    const float h =
        job->gates == 4 ? rnn_lstm(job, kind, row, u, state) : rnn_gru(job, kind, row, u, state);
    rnn_set(job->y, row * job->hidden + u, kind, h);
}

/* Take the gradient of h. Write gradients of R h to d, and replace the gates by their gradients. */
DEVICE void rnn_lstm_backward(const spsh__rnn_job *job, uint32_t kind, uint64_t row, uint32_t u,
                              float dh, float *d)
{
    const uint64_t hidden = job->hidden;
    const uint64_t at = row * 4 * hidden + u;
    const float *c = (const float *)job->inner + row * hidden + u;
    float *carry = job->carry + row % job->batch * hidden + u;
    const float i = rnn_get(job->rows, at, kind);
    const float f = rnn_get(job->rows, at + hidden, kind);
    const float g = rnn_get(job->rows, at + 2 * hidden, kind);
    const float o = rnn_get(job->rows, at + 3 * hidden, kind);
    const float before = row < job->batch ? 0.0F : *(c - job->batch * hidden);
    const float now = tanhf(*c);
    const bool is_last = row / job->batch + 1 == job->frames;
    const float dc = dh * o * (1.0F - now * now) + (is_last ? 0.0F : *carry);
    d[0] = dc * g * i * (1.0F - i);
    d[1] = dc * before * f * (1.0F - f);
    d[2] = dc * i * (1.0F - g * g);
    d[3] = dh * now * o * (1.0F - o);
    *carry = dc * f;
    for (uint32_t k = 0; k < 4; k++)
        rnn_set(job->rows, at + k * hidden, kind, d[k]);
}

DEVICE void rnn_gru_backward(const spsh__rnn_job *job, uint32_t kind, uint64_t row, uint32_t u,
                             float dh, float *d)
{
    const uint64_t hidden = job->hidden;
    const uint64_t at = row * 3 * hidden + u;
    const uint64_t one = row * hidden + u;
    float *carry = job->carry + row % job->batch * hidden + u;
    const float r = rnn_get(job->rows, at, kind);
    const float z = rnn_get(job->rows, at + hidden, kind);
    const float n = rnn_get(job->rows, at + 2 * hidden, kind);
    const float q = rnn_get(job->inner, one, kind);
    const float before = row < job->batch ? 0.0F : rnn_get(job->y, one - job->batch * hidden, kind);
    const bool is_last = row / job->batch + 1 == job->frames;
    const float all = dh + (is_last ? 0.0F : *carry);
    const float dn = all * (1.0F - z) * (1.0F - n * n);
    d[0] = dn * q * r * (1.0F - r);
    d[1] = all * (before - n) * z * (1.0F - z);
    d[2] = dn * r;
    *carry = all * z; /* the part that bypasses the gates */
    rnn_set(job->rows, at, kind, d[0]);
    rnn_set(job->rows, at + hidden, kind, d[1]);
    rnn_set(job->rows, at + 2 * hidden, kind, dn);
    rnn_set(job->inner, one, kind, d[2]);
}

DEVICE void rnn_backward_cell(const spsh__rnn_job *job, uint32_t kind, uint64_t row, uint32_t u,
                              float from_state, float *d)
{
    const float dh = rnn_get(job->dy, row * job->hidden + u, kind) + from_state;
    if (job->gates == 4)
        rnn_lstm_backward(job, kind, row, u, dh, d);
    else
        rnn_gru_backward(job, kind, row, u, dh, d);
}

/* ---- stepwise ---- */

DEVICE void rnn_forward_step(const spsh__rnn_job *job, const spsh__kernel_block *block,
                             uint32_t kind, uint32_t thread)
{
    const uint64_t hidden = job->hidden, count = job->batch * hidden;
    for (uint64_t i = spsh__block_first(block, thread); i < count; i += spsh__block_step(block)) {
        const uint64_t n = i / hidden, u = i % hidden;
        float state[SPSH__RNN_GATES] = {0, 0, 0, 0};
        for (uint32_t k = 0; job->product != NULL && k < job->gates; k++)
            state[k] = job->product[(n * job->gates + k) * hidden + u];
        rnn_forward_cell(job, kind, (uint64_t)job->frame * job->batch + n, (uint32_t)u, state);
    }
}

DEVICE void rnn_backward_step(const spsh__rnn_job *job, const spsh__kernel_block *block,
                              uint32_t kind, uint32_t thread)
{
    const uint64_t hidden = job->hidden, count = job->batch * hidden;
    for (uint64_t i = spsh__block_first(block, thread); i < count; i += spsh__block_step(block)) {
        const uint64_t n = i / hidden, u = i % hidden;
        float d[SPSH__RNN_GATES];
        rnn_backward_cell(job, kind, (uint64_t)job->frame * job->batch + n, (uint32_t)u,
                          job->product == NULL ? 0.0F : job->product[i], d);
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

/* ---- persistent: products ---- */

SPSH__INLINE uint32_t spsh__rnn_round_up(uint64_t value, uint32_t to)
{
    return (uint32_t)((value + to - 1) / to * to);
}

/* Stride of weights in shared memory, in elements of element_bytes: 64 bytes more than a multiple
 * of 128.
 */
SPSH__INLINE uint32_t spsh__rnn_stride(uint32_t depth, uint32_t element_bytes)
{
    const uint32_t bytes = depth * element_bytes;
    return (bytes % 128 == 64 ? bytes : spsh__rnn_round_up(bytes, 128) + 64) / element_bytes;
}

/* Bytes of a block: its weights, and the warps' sums. columns: gates * units, or units. */
SPSH__INLINE uint64_t spsh__rnn_shared_bytes(uint32_t columns, uint32_t stride,
                                             uint32_t element_bytes)
{
    return (uint64_t)columns * stride * element_bytes +
           (uint64_t)SPSH__RNN_WARPS * SPSH__RNN_ROWS * (columns + 8) * sizeof(float);
}

/* A warp's part of a product: 32 rows of a, some tiles of 8 columns of w, some of the depth. */
typedef struct rnn_share {
    const void *a, *w;
    uint32_t a_stride, w_stride;
    uint32_t row_count, tiles; /* rows that count */
    uint32_t begin, end;       /* range of the depth: multiples of 32 */
    float *to;
    uint32_t to_stride;
} rnn_share;

/* A thread of a warp has 4 rows, 8 apart, times 2 columns of each tile, like operands of tensor
 * cores. */
DEVICE void rnn_multiply_plain(const rnn_share *s, uint32_t kind, uint32_t lane)
{
    const uint32_t row = lane / 4, column = lane % 4 * 2;
    float sums[4][2 * SPSH__RNN_TILES];
    for (uint32_t i = 0; i < 8 * SPSH__RNN_TILES; i++)
        sums[i % 4][i / 4] = 0;
    for (uint32_t k = s->begin; k < s->end; k++) {
        float a[4];
        for (uint32_t r = 0; r < 4; r++)
            a[r] = rnn_get_shared(s->a, (uint64_t)(row + 8 * r) * s->a_stride + k, kind);
#ifdef __CUDACC__
#pragma unroll
#endif
        for (uint32_t c = 0; c < 2 * SPSH__RNN_TILES; c++) {
            if (c / 2 >= s->tiles)
                continue;
            const uint32_t of = c / 2 * 8 + column + c % 2;
            const float w = rnn_get(s->w, (uint64_t)of * s->w_stride + k, kind);
            for (uint32_t r = 0; r < 4; r++)
                sums[r][c] += a[r] * w;
        }
    }
    for (uint32_t i = 0; i < 8 * SPSH__RNN_TILES; i++) {
        const uint32_t r = i % 4, c = i / 4;
        if (c / 2 < s->tiles)
            s->to[(row + 8 * r) * s->to_stride + c / 2 * 8 + column + c % 2] = sums[r][c];
    }
}

#ifdef __CUDACC__
/* c += a b: 16 rows, 8 columns, depth 16. */
template <uint32_t KIND>
DEVICE void rnn_mma(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                    uint32_t b1)
{
    if (KIND == SPSH__DEVICE_BF16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                     "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
                     "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/* The elements along the depth of a product may be permuted if both factors use the same order. So
 * a thread loads 8 consecutive elements (16 bytes) of each factor: the first 4 are its operands of
 * one instruction, the other 4 of the next. All loads from global memory for a depth of 128 are
 * issued before the first value is used. */
template <uint32_t KIND> DEVICE void rnn_multiply_mma(const rnn_share *s, uint32_t lane)
{
    const uint32_t row = lane / 4, at = lane % 4 * 8;
    const uint16_t *a_from = (const uint16_t *)s->a + (uint64_t)row * s->a_stride + at;
    const uint16_t *w_from = (const uint16_t *)s->w + row * s->w_stride + at;
    const bool has_upper = s->row_count > 16;
    float sums[2][SPSH__RNN_TILES][4] = {};
    for (uint32_t k = s->begin; k < s->end; k += 4 * SPSH__RNN_DEPTH) {
        uint4 a[4][4];
#pragma unroll
        for (uint32_t i = 0; i < 16; i++) {
            const uint32_t r = i % 4, from = k + i / 4 * SPSH__RNN_DEPTH;
            a[i / 4][r] = make_uint4(0, 0, 0, 0);
            if (from < s->end && (r < 2 || has_upper))
                a[i / 4][r] =
                    __ldcg((const uint4 *)(a_from + (uint64_t)(8 * r) * s->a_stride + from));
        }
#pragma unroll
        for (uint32_t i = 0; i < 4 * SPSH__RNN_TILES; i++) {
            const uint32_t part = i / SPSH__RNN_TILES, tile = i % SPSH__RNN_TILES;
            const uint32_t from = k + part * SPSH__RNN_DEPTH;
            if (from >= s->end || tile >= s->tiles)
                continue;
            const uint4 w = *(const uint4 *)(w_from + 8 * tile * s->w_stride + from);
            const uint4(&p)[4] = a[part];
            rnn_mma<KIND>(sums[0][tile], p[0].x, p[1].x, p[0].y, p[1].y, w.x, w.y);
            rnn_mma<KIND>(sums[0][tile], p[0].z, p[1].z, p[0].w, p[1].w, w.z, w.w);
            if (has_upper) {
                rnn_mma<KIND>(sums[1][tile], p[2].x, p[3].x, p[2].y, p[3].y, w.x, w.y);
                rnn_mma<KIND>(sums[1][tile], p[2].z, p[3].z, p[2].w, p[3].w, w.z, w.w);
            }
        }
    }
#pragma unroll
    for (uint32_t i = 0; i < 4 * SPSH__RNN_TILES; i++) {
        const uint32_t r = i % 4, tile = i / 4;
        float *to = s->to + (row + 8 * r) * s->to_stride + tile * 8 + lane % 4 * 2;
        if (tile < s->tiles)
            *(float2 *)to =
                make_float2(sums[r / 2][tile][r % 2 * 2], sums[r / 2][tile][r % 2 * 2 + 1]);
    }
}
#endif

DEVICE void rnn_multiply_share(const rnn_share *s, uint32_t kind, uint32_t lane)
{
#ifdef __CUDACC__
    if (kind == SPSH__DEVICE_BF16) {
        rnn_multiply_mma<SPSH__DEVICE_BF16>(s, lane);
        return;
    }
    if (kind == SPSH__DEVICE_FP16) {
        rnn_multiply_mma<SPSH__DEVICE_FP16>(s, lane);
        return;
    }
#endif
    rnn_multiply_plain(s, kind, lane);
}

/* A block's share: column count, and the sums, which are stored after its weights. */
typedef struct rnn_slice {
    uint32_t kind;
    bool is_backward;
    uint32_t columns;
    float *sums; /* [warps][32][columns + 8] */
} rnn_slice;

DEVICE rnn_slice rnn_slice_of(const spsh__rnn_job *job, const spsh__kernel_block *block,
                              uint32_t kind, bool is_backward)
{
    const uint32_t columns = is_backward ? job->units : job->gates * job->units;
    const uint64_t bytes = (uint64_t)columns * job->stride * (kind == SPSH__DEVICE_F32 ? 4 : 2);
    const rnn_slice slice = {kind, is_backward, columns,
                             (float *)(void *)((char *)block->shared + bytes)};
    return slice;
}

/* Address of the exchange of a frame: element 0 of utterance 0. */
DEVICE void *rnn_exchanged(const spsh__rnn_job *job, uint32_t t, uint32_t kind)
{
    const uint64_t elements = (uint64_t)(t % 2) * job->exchange_rows * job->depth;
    return (char *)job->exchange + elements * (kind == SPSH__DEVICE_F32 ? 4 : 2);
}

/* Multiply utterances from `first` on, exchanged in frame t, by the block's weights. */
DEVICE void rnn_multiply(const spsh__rnn_job *job, const spsh__kernel_block *block,
                         const rnn_slice *slice, uint32_t t, uint32_t first, uint32_t thread)
{
    const uint32_t kind = slice->kind;
    const uint32_t warp = thread / 32, element_bytes = kind == SPSH__DEVICE_F32 ? 4 : 2;
    const uint32_t steps = job->depth / SPSH__RNN_DEPTH;
    const uint32_t begin = steps * warp / SPSH__RNN_WARPS;
    const uint32_t end = steps * (warp + 1) / SPSH__RNN_WARPS;
    const uint32_t to_stride = slice->columns + 8;
    rnn_share s;
    s.a = (const char *)rnn_exchanged(job, t, kind) + (uint64_t)first * job->depth * element_bytes;
    s.a_stride = job->depth;
    s.w_stride = job->stride;
    s.row_count = job->batch - first;
    s.begin = begin * SPSH__RNN_DEPTH;
    s.end = end * SPSH__RNN_DEPTH;
    s.to_stride = to_stride;
    for (uint32_t column = 0; column < slice->columns; column += 8 * SPSH__RNN_TILES) {
        const uint32_t tiles = (slice->columns - column) / 8;
        s.w = (const char *)block->shared + (uint64_t)column * job->stride * element_bytes;
        s.tiles = tiles < SPSH__RNN_TILES ? tiles : SPSH__RNN_TILES;
        s.to = slice->sums + (uint64_t)warp * SPSH__RNN_ROWS * to_stride + column;
        rnn_multiply_share(&s, kind, thread % 32);
    }
}

DEVICE float rnn_sum(const rnn_slice *slice, uint32_t row, uint32_t column)
{
    const uint32_t stride = slice->columns + 8;
    float sum = 0;
    for (uint32_t warp = 0; warp < SPSH__RNN_WARPS; warp++)
        sum += slice->sums[(warp * SPSH__RNN_ROWS + row) * stride + column];
    return sum;
}

/* ---- persistent: cells ---- */

/* One unit of one utterance in a frame, with its indices in the block and in the layer. */
typedef struct rnn_cell {
    uint32_t t;
    uint32_t row, u;  /* row of the sums, unit within the block */
    uint32_t n, unit; /* utterance of the batch, unit of the layer */
} rnn_cell;

DEVICE void rnn_forward_unit(const spsh__rnn_job *job, const rnn_slice *slice, const rnn_cell *cell)
{
    const uint32_t kind = slice->kind;
    const uint64_t row = (uint64_t)cell->t * job->batch + cell->n;
    float state[SPSH__RNN_GATES] = {0, 0, 0, 0};
    for (uint32_t k = 0; cell->t > 0 && k < job->gates; k++)
        state[k] = rnn_sum(slice, cell->row, k * job->units + cell->u);
    rnn_forward_cell(job, kind, row, cell->unit, state);
    rnn_set(rnn_exchanged(job, cell->t, kind), (uint64_t)cell->n * job->depth + cell->unit, kind,
            rnn_get(job->y, row * job->hidden + cell->unit, kind));
}

DEVICE void rnn_backward_unit(const spsh__rnn_job *job, const rnn_slice *slice,
                              const rnn_cell *cell)
{
    const uint32_t kind = slice->kind;
    const uint64_t hidden = job->hidden, to = (uint64_t)cell->n * job->depth + cell->unit;
    float d[SPSH__RNN_GATES];
    rnn_backward_cell(job, kind, (uint64_t)cell->t * job->batch + cell->n, cell->unit,
                      cell->t + 1 < job->frames ? rnn_sum(slice, cell->row, cell->u) : 0.0F, d);
    for (uint32_t k = 0; k < job->gates; k++)
        rnn_set(rnn_exchanged(job, cell->t, kind), to + k * hidden, kind, d[k]);
}

/* Compute the cells of utterances from `first` on. */
DEVICE void rnn_cells(const spsh__rnn_job *job, const spsh__kernel_block *block,
                      const rnn_slice *slice, uint32_t t, uint32_t first, uint32_t thread)
{
    const uint32_t left = job->batch - first;
    const uint32_t rows = left < SPSH__RNN_ROWS ? left : SPSH__RNN_ROWS;
    for (uint32_t i = thread; i < rows * job->units; i += SPSH__DEVICE_THREADS) {
        const uint32_t row = i / job->units, u = i % job->units;
        const rnn_cell cell = {t, row, u, first + row, block->x * job->units + u};
        if (cell.unit >= job->hidden)
            continue;
        if (slice->is_backward)
            rnn_backward_unit(job, slice, &cell);
        else
            rnn_forward_unit(job, slice, &cell);
    }
}

/* Compute frame t from the exchange of the frame computed before: t - 1, or t + 1 backward. */
DEVICE void rnn_frame(const spsh__rnn_job *job, const spsh__kernel_block *block, uint32_t t,
                      uint32_t kind, bool is_backward)
{
    const rnn_slice slice = rnn_slice_of(job, block, kind, is_backward);
    const bool is_first = is_backward ? t + 1 == job->frames : t == 0;
    const uint32_t before = is_backward ? t + 1 : t - 1;
    for (uint32_t first = 0; first < job->batch; first += SPSH__RNN_ROWS) {
        if (!is_first)
            EACH_THREAD(block, rnn_multiply(job, block, &slice, before, first, thread));
        EACH_THREAD(block, rnn_cells(job, block, &slice, t, first, thread));
    }
}

/* ---- persistent: forward ---- */

DEVICE void rnn_forward_load(const spsh__rnn_job *job, const spsh__kernel_block *block,
                             uint32_t kind, uint32_t thread)
{
    const uint32_t count = job->gates * job->units * job->stride;
    for (uint32_t i = thread; i < count; i += SPSH__DEVICE_THREADS) {
        const uint32_t row = i / job->stride, k = i % job->stride;
        const uint64_t unit = (uint64_t)block->x * job->units + row % job->units;
        const uint64_t gate = row / job->units;
        float w = 0;
        if (unit < job->hidden && k < job->hidden)
            w = rnn_get(job->recurrent, (gate * job->hidden + unit) * job->hidden + k, kind);
        rnn_set(block->shared, i, kind, w);
    }
}

/* Prefetch the inputs of a frame's cells that no block writes. */
DEVICE void rnn_forward_ahead(const spsh__rnn_job *job, const spsh__kernel_block *block, uint32_t t,
                              uint32_t kind, uint32_t thread)
{
    for (uint32_t i = thread; i < job->batch * job->gates; i += SPSH__DEVICE_THREADS) {
        const uint64_t row = (uint64_t)t * job->batch + i / job->gates;
        const uint64_t unit = (uint64_t)block->x * job->units;
        if (unit < job->hidden)
            rnn_ahead(job->rows, (row * job->gates + i % job->gates) * job->hidden + unit, kind);
    }
}

DEVICE void spsh__rnn_forward_open(const spsh__rnn_job *job, const spsh__kernel_block *block,
                                   uint32_t kind)
{
    EACH_THREAD(block, rnn_forward_load(job, block, kind, thread));
}

/* Afterward all blocks wait for each other, and prefetch data of the next frame meanwhile. */
DEVICE void spsh__rnn_forward_frame(const spsh__rnn_job *job, const spsh__kernel_block *block,
                                    uint32_t t, uint32_t kind)
{
    rnn_frame(job, block, t, kind, false);
}

/* ---- persistent: backward ---- */

DEVICE void rnn_backward_load(const spsh__rnn_job *job, const spsh__kernel_block *block,
                              uint32_t kind, uint32_t thread)
{
    const uint32_t count = job->units * job->stride;
    for (uint32_t i = thread; i < count; i += SPSH__DEVICE_THREADS) {
        const uint32_t u = i % job->units, k = i / job->units; /* row by row of the matrix */
        const uint64_t unit = (uint64_t)block->x * job->units + u;
        float w = 0;
        if (unit < job->hidden && k < job->gates * job->hidden)
            w = rnn_get(job->recurrent, (uint64_t)k * job->hidden + unit, kind);
        rnn_set(block->shared, (uint64_t)u * job->stride + k, kind, w);
    }
}

DEVICE void rnn_backward_ahead(const spsh__rnn_job *job, const spsh__kernel_block *block,
                               uint32_t t, uint32_t kind, uint32_t thread)
{
    const uint64_t unit = (uint64_t)block->x * job->units;
    rnn_forward_ahead(job, block, t, kind, thread);
    for (uint32_t n = thread; n < job->batch && unit < job->hidden; n += SPSH__DEVICE_THREADS) {
        const uint64_t at = ((uint64_t)t * job->batch + n) * job->hidden + unit;
        rnn_ahead(job->dy, at, kind);
        rnn_ahead(job->inner, at, job->gates == 4 ? SPSH__DEVICE_F32 : kind);
    }
}

DEVICE void spsh__rnn_backward_open(const spsh__rnn_job *job, const spsh__kernel_block *block,
                                    uint32_t kind)
{
    EACH_THREAD(block, rnn_backward_load(job, block, kind, thread));
}

/* Runs from the last frame to the first. */
DEVICE void spsh__rnn_backward_frame(const spsh__rnn_job *job, const spsh__kernel_block *block,
                                     uint32_t t, uint32_t kind)
{
    rnn_frame(job, block, t, kind, true);
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
