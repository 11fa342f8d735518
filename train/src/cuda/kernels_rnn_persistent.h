/* kernels_rnn_persistent.h: a recurrent layer in one kernel. Rows of the grid are passes: the
 * directions of a layer, which do not wait for each other.
 *
 * The grid is cooperative: all of its blocks are on the device at once, and stay for all frames.
 * Block x has the hidden units [x * units, (x + 1) * units), and keeps gates * units columns of a
 * product with `hidden` rows in its shared memory, one row of memory per column:
 *
 *     forward   the weights that make its units       column gate * units + u
 *     backward  the weights of gate x % gates that    column: unit of the group
 *               read the units of its group
 *
 * A group is `gates` adjacent blocks. In backward, each block of a group has one gate. It
 * multiplies the gradients of this gate only, for the units of all blocks of the group. So a block
 * reads [N][hidden] elements per frame in both passes, and not [N][gates][hidden] in backward. The
 * blocks of the group then exchange their parts of the sums.
 *
 * Columns are padded with zeros past `hidden`. Their stride is 64 bytes more than a multiple of
 * 128, so that reading 16 bytes of 8 columns at once has no bank conflict. The values between
 * frames (c of an LSTM, h of a GRU, in backward their gradient) and biases are in shared memory,
 * too:
 *
 *     weights [columns][stride] | sums [32][sums_stride] | biases [4][units] | kept [N][units]
 *
 * A pass is a list of steps. Before a step, a block waits until a counter in global memory has
 * reached a value (spsh__rnn_before). After the step, it adds 1 to a counter (spsh__rnn_after).
 *
 *     forward   per frame: product with the previous h, and cells  wait for all blocks of the pass
 *     backward  per frame: 1. product with the gradients           wait for all blocks of the pass
 *                          2. sum of the parts, and cells          wait for the group
 *
 * A product has 32 utterances at a time. Each warp multiplies a share of the depth, on tensor cores
 * if elements have 16 bits. The warps add their sums in rounds, in a fixed order: in round i, warp
 * w adds the tiles of 8 columns whose number is w + i (modulo 8). `exchange` has h forward, or
 * gradients of gates, of two frames in turn.
 */
#ifndef SPSH_TRAIN_KERNELS_RNN_PERSISTENT_H
#define SPSH_TRAIN_KERNELS_RNN_PERSISTENT_H

#include "device_mma.h"
#include "kernels_rnn.h"

enum {
    SPSH__RNN_WARPS = SPSH__DEVICE_THREADS / 32,
    SPSH__RNN_ROWS = 32,    /* utterances at a time */
    SPSH__RNN_TILES = 10,   /* maximum tiles of 8 columns at a time */
    SPSH__RNN_DEPTH = 32,   /* depth of a thread's load: 4 lanes of 8 elements of 16 bits */
    SPSH__RNN_LOADS = 4,    /* loads in flight */
    SPSH__RNN_COUNTER = 32, /* distance of counters: a cache line */
};

/* ---- division of a layer among blocks, on the host ---- */

static inline uint32_t spsh__rnn_round_up(uint64_t value, uint32_t to)
{
    return (uint32_t)((value + to - 1) / to * to);
}

/* Lay out a block's shared memory. Return its size in bytes, which may be too large for a block.
 * Needs gates, units, hidden, and batch. Sets depth, exchange_rows, and layout. */
static inline uint64_t spsh__rnn_lay_out(spsh__rnn_job *job, uint32_t element_bytes)
{
    spsh__rnn_layout *z = &job->layout;
    job->depth = spsh__rnn_round_up(job->hidden, SPSH__RNN_DEPTH);
    job->exchange_rows = spsh__rnn_round_up(job->batch, SPSH__RNN_ROWS);
    const uint64_t row_bytes = (uint64_t)job->depth * element_bytes;
    const uint64_t stride = row_bytes % 128 == 64 ? row_bytes : (row_bytes + 127) / 128 * 128 + 64;
    const uint64_t columns = (uint64_t)job->gates * job->units;
    const uint64_t sums_stride = (columns + 15) / 16 * 16 + 8; /* 8 rows use different banks */
    const uint64_t sums = columns * stride;
    const uint64_t biases = sums + SPSH__RNN_ROWS * sums_stride * sizeof(float);
    const uint64_t kept = biases + (uint64_t)SPSH__RNN_GATES * job->units * sizeof(float);
    const uint64_t bytes = kept + (uint64_t)job->batch * job->units * sizeof(float);
    z->columns = (uint32_t)columns;
    z->stride = (uint32_t)(stride / element_bytes);
    z->sums = (uint32_t)sums;
    z->sums_stride = (uint32_t)sums_stride;
    z->biases = (uint32_t)biases;
    z->kept = (uint32_t)kept;
    z->bytes = (uint32_t)bytes;
    return bytes;
}

/* Divide the units of a layer among at most `most` blocks. Return the number of blocks, which is a
 * multiple of gates; 0: there are too few. Sets units. */
static inline uint32_t spsh__rnn_divide(spsh__rnn_job *job, uint32_t most)
{
    const uint32_t gates = job->gates, groups_max = gates == 0 ? 0 : most / gates;
    if (groups_max == 0)
        return 0;
    job->units = spsh__rnn_round_up(job->hidden, groups_max * gates) / (groups_max * gates);
    const uint32_t group_units = gates * job->units;
    return spsh__rnn_round_up(job->hidden, group_units) / group_units * gates;
}

/* Number of counters of a pass, with SPSH__RNN_COUNTER elements each. */
static inline uint32_t spsh__rnn_counters(const spsh__rnn_job *job, uint32_t blocks)
{
    return 1 + blocks / job->gates;
}

/* ---- memory that blocks share ---- */

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

/* ---- a block ---- */

typedef struct rnn_block {
    const spsh__rnn_job *job;
    const spsh__kernel_block *grid;
    uint32_t kind;
    bool is_backward;
} rnn_block;

DEVICE void *rnn_shared(const rnn_block *b, uint32_t offset)
{
    return (char *)b->grid->shared + offset;
}

/* Gate and first unit of the group, in backward. */
DEVICE uint32_t rnn_gate(const rnn_block *b)
{
    return b->grid->x % b->job->gates;
}

DEVICE uint32_t rnn_group_unit(const rnn_block *b)
{
    return b->grid->x / b->job->gates * b->job->layout.columns;
}

/* The exchange of a frame and, in backward, of a gate: element 0 of utterance 0. */
DEVICE void *rnn_exchanged(const rnn_block *b, uint32_t t, uint32_t gate)
{
    const spsh__rnn_job *job = b->job;
    const uint64_t planes = b->is_backward ? job->gates : 1;
    const uint64_t plane = t % 2 * planes + gate;
    return (char *)job->exchange +
           plane * job->exchange_rows * job->depth * (b->kind == SPSH__DEVICE_F32 ? 4 : 2);
}

/* ---- the product ---- */

/* A warp's share of a product: 32 rows of a, some tiles of 8 columns of w, some of the depth. */
typedef struct rnn_share {
    const void *a, *w;
    uint32_t kind;
    uint32_t a_stride, w_stride;
    uint32_t row_count; /* rows that count */
    uint32_t column, column_count, tiles;
    uint32_t begin, end; /* range of the depth: multiples of 32 */
} rnn_share;

/* Registers of a thread: its elements of the sums, which are those of spsh__warp_mma for the upper
 * and the lower 16 rows, and of both factors. */
typedef struct rnn_lane {
    float sums[2][SPSH__RNN_TILES][4];
    spsh__words a[SPSH__RNN_LOADS][2][2], w;
} rnn_lane;

DEVICE void rnn_clear(rnn_lane *r)
{
    UNROLL
    for (uint32_t i = 0; i < 8 * SPSH__RNN_TILES; i++)
        r->sums[i % 2][i / 8][i / 2 % 4] = 0;
}

/* Column of w. A tile may have fewer than 8 columns: the others repeat the last column of w, and
 * their sums are not used. */
DEVICE uint32_t rnn_column(const rnn_share *s, uint32_t tile, uint32_t i)
{
    const uint32_t column = s->column + 8 * tile + i;
    return column < s->column_count ? column : s->column_count - 1;
}

/* Load 8 elements of 4 rows, 8 rows apart, at a few depths from k on. All loads are in flight
 * before the first value is used. */
DEVICE void rnn_load_rows(const rnn_share *s, rnn_lane *r, uint32_t k, uint32_t lane)
{
    const uint32_t element = lane % 4 * 8;
    const uint16_t *from = (const uint16_t *)s->a + (uint64_t)(lane / 4) * s->a_stride + element;
    UNROLL
    for (uint32_t i = 0; i < 4 * SPSH__RNN_LOADS; i++) {
        const uint32_t row = 8 * (i % 4), at = k + i / 4 * SPSH__RNN_DEPTH;
        const spsh__words none = {0, 0, 0, 0};
        spsh__words *to = &r->a[i / 4][i / 2 % 2][i % 2];
        *to = none;
        if (at < s->end && row < s->row_count)
            *to = spsh__words_get_shared(from + (uint64_t)row * s->a_stride + at);
    }
}

DEVICE void rnn_load_column(const rnn_share *s, rnn_lane *r, uint32_t tile, uint32_t k,
                            uint32_t lane)
{
    const uint32_t column = rnn_column(s, tile, lane / 4);
    const uint32_t at = k + lane % 4 * 8;
    r->w = spsh__words_get((const uint16_t *)s->w + (uint64_t)column * s->w_stride + at);
}

/* The elements along the depth may be permuted if both factors use the same order. So the 8
 * adjacent elements that a lane loads are its operands of two instructions, 4 elements of each. */
DEVICE void rnn_take_operands(spsh__mma *m, const rnn_lane *r, const spsh__words *rows,
                              const float *sums, bool is_second)
{
    m->a[0] = is_second ? rows[0].z : rows[0].x;
    m->a[1] = is_second ? rows[1].z : rows[1].x;
    m->a[2] = is_second ? rows[0].w : rows[0].y;
    m->a[3] = is_second ? rows[1].w : rows[1].y;
    m->b[0] = is_second ? r->w.z : r->w.x;
    m->b[1] = is_second ? r->w.w : r->w.y;
    UNROLL
    for (uint32_t i = 0; i < 4; i++)
        m->c[i] = sums[i];
}

DEVICE void rnn_keep_sums(float *sums, const spsh__mma *m)
{
    UNROLL
    for (uint32_t i = 0; i < 4; i++)
        sums[i] = m->c[i];
}

/* Multiply a depth of 32: load number `load` of the rows, at k. */
DEVICE void rnn_multiply_tile(const rnn_share *s, const spsh__kernel_block *grid, rnn_lane *lanes,
                              uint32_t tile, uint32_t load, uint32_t k)
{
    spsh__mma m[SPSH__OWN_LANES];
    EACH_LANE(grid, rnn_load_column(s, &lanes[OWN(lane)], tile, k, lane));
    UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t half = i / 2;
        if (half == 1 && s->row_count <= 16)
            continue;
        EACH_LANE(grid, rnn_take_operands(&m[OWN(lane)], &lanes[OWN(lane)],
                                          lanes[OWN(lane)].a[load][half],
                                          lanes[OWN(lane)].sums[half][tile], i % 2 != 0));
        spsh__warp_mma(s->kind, m);
        EACH_LANE(grid, rnn_keep_sums(lanes[OWN(lane)].sums[half][tile], &m[OWN(lane)]));
    }
}

/* The same product with floats, one lane at a time. */
DEVICE void rnn_multiply_plain(const rnn_share *s, rnn_lane *r, uint32_t lane)
{
    for (uint32_t k = s->begin; k < s->end; k++) {
        float a[4];
        for (uint32_t i = 0; i < 4; i++)
            a[i] = rnn_get_shared(s->a, (uint64_t)(lane / 4 + 8 * i) * s->a_stride + k, s->kind);
        UNROLL
        for (uint32_t c = 0; c < 2 * SPSH__RNN_TILES; c++) {
            if (c / 2 >= s->tiles)
                continue;
            const uint32_t column = rnn_column(s, c / 2, lane % 4 * 2 + c % 2);
            const float w = rnn_get(s->w, (uint64_t)column * s->w_stride + k, s->kind);
            for (uint32_t i = 0; i < 4; i++)
                r->sums[i / 2][c / 2][i % 2 * 2 + c % 2] += a[i] * w;
        }
    }
}

DEVICE void rnn_multiply(const rnn_share *all, const spsh__kernel_block *grid, uint32_t depth,
                         uint32_t warp, rnn_lane *lanes)
{
    const uint32_t steps = depth / SPSH__RNN_DEPTH;
    rnn_share s = *all;
    s.begin = steps * warp / SPSH__RNN_WARPS * SPSH__RNN_DEPTH;
    s.end = steps * (warp + 1) / SPSH__RNN_WARPS * SPSH__RNN_DEPTH;
    EACH_LANE(grid, rnn_clear(&lanes[OWN(lane)]));
    if (s.kind == SPSH__DEVICE_F32) {
        EACH_LANE(grid, rnn_multiply_plain(&s, &lanes[OWN(lane)], lane));
        return;
    }
    for (uint32_t k = s.begin; k < s.end; k += SPSH__RNN_LOADS * SPSH__RNN_DEPTH) {
        EACH_LANE(grid, rnn_load_rows(&s, &lanes[OWN(lane)], k, lane));
        UNROLL
        for (uint32_t i = 0; i < SPSH__RNN_LOADS * SPSH__RNN_TILES; i++) {
            const uint32_t load = i / SPSH__RNN_TILES, tile = i % SPSH__RNN_TILES;
            if (k + load * SPSH__RNN_DEPTH < s.end && tile < s.tiles)
                rnn_multiply_tile(&s, grid, lanes, tile, load, k + load * SPSH__RNN_DEPTH);
        }
    }
}

/* Add the sums of this round's tiles. No other warp adds to these tiles in the same round. */
DEVICE void rnn_add(const rnn_block *b, const rnn_share *s, const rnn_lane *r, uint32_t round,
                    uint32_t thread)
{
    const spsh__rnn_layout *z = &b->job->layout;
    const uint32_t turn = (thread / 32 + round) % SPSH__RNN_WARPS, lane = thread % 32;
    const uint32_t column = s->column + lane % 4 * 2;
    float *sums = (float *)rnn_shared(b, z->sums) + column;
    UNROLL
    for (uint32_t tile = 0; tile < SPSH__RNN_TILES; tile++) {
        if (tile % SPSH__RNN_WARPS != turn || tile >= s->tiles)
            continue;
        UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t at = (lane / 4 + 8 * i) * z->sums_stride + 8 * tile;
            if (8 * i < s->row_count)
                spsh__pair_add(sums + at, &r->sums[i / 2][tile][i % 2 == 0 ? 0 : 2], round == 0);
        }
    }
}

/* Multiply utterances from `first` on, exchanged in frame t, by the block's weights. */
DEVICE void rnn_product(const rnn_block *b, uint32_t t, uint32_t first)
{
    const spsh__rnn_job *job = b->job;
    const uint32_t tiles = (job->layout.columns + 7) / 8;
    const uint32_t turns = (tiles + SPSH__RNN_TILES - 1) / SPSH__RNN_TILES;
    const uint32_t element_bytes = b->kind == SPSH__DEVICE_F32 ? 4 : 2;
    rnn_share s;
    s.a = (const char *)rnn_exchanged(b, t, b->is_backward ? rnn_gate(b) : 0) +
          (uint64_t)first * job->depth * element_bytes;
    s.w = b->grid->shared;
    s.kind = b->kind;
    s.a_stride = job->depth;
    s.w_stride = job->layout.stride;
    s.row_count = job->batch - first;
    s.column_count = job->layout.columns;
    s.begin = s.end = 0; /* each warp has its own */
    for (uint32_t turn = 0; turn < turns; turn++) {
        rnn_lane lanes[SPSH__OWN_THREADS];
        s.column = tiles * turn / turns * 8;
        s.tiles = tiles * (turn + 1) / turns - tiles * turn / turns;
        EACH_WARP(b->grid, rnn_multiply(&s, b->grid, job->depth, warp, OWN_LANES(lanes, warp)));
        for (uint32_t round = 0; round < SPSH__RNN_WARPS; round++)
            EACH_THREAD(b->grid, rnn_add(b, &s, &lanes[OWN(thread)], round, thread));
    }
}

/* ---- the start ---- */

/* Element of the recurrent weights that column and row k of the block's product have. */
DEVICE float rnn_weight(const rnn_block *b, uint32_t column, uint32_t k)
{
    const spsh__rnn_job *job = b->job;
    const uint64_t hidden = job->hidden;
    const uint64_t gate = b->is_backward ? rnn_gate(b) : column / job->units;
    const uint64_t unit = b->is_backward ? rnn_group_unit(b) + column
                                         : (uint64_t)b->grid->x * job->units + column % job->units;
    if (unit >= hidden || k >= hidden)
        return 0;
    const uint64_t row = b->is_backward ? k : unit, at = b->is_backward ? unit : k;
    return rnn_get(job->recurrent, (gate * hidden + row) * hidden + at, b->kind);
}

DEVICE void rnn_load(const rnn_block *b, uint32_t thread)
{
    const spsh__rnn_job *job = b->job;
    const spsh__rnn_layout *z = &job->layout;
    float *biases = (float *)rnn_shared(b, z->biases), *kept = (float *)rnn_shared(b, z->kept);
    for (uint32_t i = thread; i < z->columns * z->stride; i += SPSH__DEVICE_THREADS) {
        /* along the rows of the matrix, which are adjacent in memory */
        const uint32_t column = b->is_backward ? i % z->columns : i / z->stride;
        const uint32_t k = b->is_backward ? i / z->columns : i % z->stride;
        rnn_set(b->grid->shared, (uint64_t)column * z->stride + k, b->kind,
                rnn_weight(b, column, k));
    }
    for (uint32_t i = thread; i < SPSH__RNN_GATES * job->units; i += SPSH__DEVICE_THREADS) {
        const uint32_t unit = b->grid->x * job->units + i % job->units;
        biases[i] = unit < job->hidden ? rnn_bias(job, i / job->units, unit) : 0;
    }
    for (uint32_t i = thread; i < job->batch * job->units; i += SPSH__DEVICE_THREADS)
        kept[i] = 0;
}

/* ---- cells ---- */

DEVICE void rnn_forward_unit(const rnn_block *b, rnn_cell *cell, uint32_t t, uint32_t n, uint32_t u)
{
    const spsh__rnn_job *job = b->job;
    const spsh__rnn_layout *z = &job->layout;
    const float *biases = (const float *)rnn_shared(b, z->biases) + u;
    const float *sums = (const float *)rnn_shared(b, z->sums);
    sums += (uint64_t)(n % SPSH__RNN_ROWS) * z->sums_stride + u;
    for (uint32_t k = 0; k < SPSH__RNN_GATES; k++) {
        const uint64_t at = (uint64_t)k * job->units;
        cell->gates[k] = biases[at];
        if (t > 0 && k < job->gates)
            cell->gates[k] += sums[at];
    }
    rnn_forward_cell(job, cell);
    rnn_set(rnn_exchanged(b, t, 0), (uint64_t)n * job->depth + cell->u, b->kind, cell->h);
}

DEVICE void rnn_backward_unit(const rnn_block *b, rnn_cell *cell, uint32_t t, uint32_t n)
{
    const spsh__rnn_job *job = b->job;
    const uint64_t plane = (uint64_t)job->batch * job->hidden;
    const uint64_t at = (uint64_t)n * job->hidden + cell->u;
    for (uint32_t k = 0; t + 1 < job->frames && k < job->gates; k++)
        cell->h += rnn_get_shared(job->parts, k * plane + at, SPSH__DEVICE_F32);
    rnn_backward_cell(job, cell);
    UNROLL
    for (uint32_t k = 0; k < SPSH__RNN_GATES; k++) {
        if (k < job->gates)
            rnn_set(rnn_exchanged(b, t, k), (uint64_t)n * job->depth + cell->u, b->kind,
                    cell->gates[k]);
    }
}

/* Compute the cells of utterances [first, end). A thread has one unit. More units than threads
 * would not fit in shared memory. */
DEVICE void rnn_cells(const rnn_block *b, uint32_t t, uint32_t first, uint32_t end, uint32_t thread)
{
    const spsh__rnn_job *job = b->job;
    const uint32_t at_once = SPSH__DEVICE_THREADS / job->units, u = thread % job->units;
    const uint32_t unit = b->grid->x * job->units + u;
    float *kept = (float *)rnn_shared(b, job->layout.kept) + u;
    if (thread >= at_once * job->units || unit >= job->hidden)
        return;
    for (uint32_t n = first + thread / job->units; n < end; n += at_once) {
        rnn_cell cell = rnn_cell_of(job, t, n, unit, b->kind);
        float *of_cell = kept + (uint64_t)n * job->units;
        cell.kept = *of_cell;
        if (b->is_backward)
            rnn_backward_unit(b, &cell, t, n);
        else
            rnn_forward_unit(b, &cell, t, n, u);
        *of_cell = cell.kept;
    }
}

/* Give the sums of utterances from `first` on to the other blocks of the group. */
DEVICE void rnn_give_parts(const rnn_block *b, uint32_t first, uint32_t thread)
{
    const spsh__rnn_job *job = b->job;
    const spsh__rnn_layout *z = &job->layout;
    const float *sums = (const float *)rnn_shared(b, z->sums);
    const uint32_t left = job->batch - first, rows = left < SPSH__RNN_ROWS ? left : SPSH__RNN_ROWS;
    for (uint32_t i = thread; i < rows * z->columns; i += SPSH__DEVICE_THREADS) {
        const uint32_t row = i / z->columns, column = i % z->columns;
        const uint32_t unit = rnn_group_unit(b) + column;
        const uint64_t n = (uint64_t)rnn_gate(b) * job->batch + first + row;
        if (unit < job->hidden)
            job->parts[n * job->hidden + unit] = sums[(uint64_t)row * z->sums_stride + column];
    }
}

/* ---- steps ---- */

DEVICE void rnn_forward_frame(const rnn_block *b, uint32_t t)
{
    const uint32_t batch = b->job->batch;
    for (uint32_t first = 0; first < batch; first += SPSH__RNN_ROWS) {
        const uint32_t end = batch - first < SPSH__RNN_ROWS ? batch : first + SPSH__RNN_ROWS;
        if (t > 0)
            rnn_product(b, t - 1, first);
        EACH_THREAD(b->grid, rnn_cells(b, t, first, end, thread));
    }
}

DEVICE void rnn_backward_parts(const rnn_block *b, uint32_t t)
{
    for (uint32_t first = 0; t + 1 < b->job->frames && first < b->job->batch;
         first += SPSH__RNN_ROWS) {
        rnn_product(b, t + 1, first);
        EACH_THREAD(b->grid, rnn_give_parts(b, first, thread));
    }
}

DEVICE uint32_t rnn_frame_of(const rnn_block *b, uint32_t step)
{
    return b->is_backward ? b->job->frames - 1 - step / 2 : step;
}

/* Prefetch the inputs of the next step's cells that no block writes. */
DEVICE void rnn_ahead_of(const rnn_block *b, uint32_t t, uint32_t thread)
{
    const spsh__rnn_job *job = b->job;
    const uint64_t unit = (uint64_t)b->grid->x * job->units;
    if (unit >= job->hidden)
        return;
    for (uint32_t i = thread; i < job->batch * job->gates; i += SPSH__DEVICE_THREADS) {
        const uint64_t row = (uint64_t)t * job->batch + i / job->gates;
        rnn_ahead(job->rows, (row * job->gates + i % job->gates) * job->hidden + unit, b->kind);
    }
    for (uint32_t n = thread; b->is_backward && n < job->batch; n += SPSH__DEVICE_THREADS) {
        const uint64_t at = ((uint64_t)t * job->batch + n) * job->hidden + unit;
        rnn_ahead(job->dy, at, b->kind);
        rnn_ahead(job->inner, at, job->gates == 4 ? SPSH__DEVICE_F32 : b->kind);
    }
}

/* ---- the kernel ---- */

DEVICE rnn_block spsh__rnn_block_of(const spsh__rnn_grid_job *all, const spsh__kernel_block *grid,
                                    uint32_t kind, bool is_backward)
{
    const rnn_block b = {&all->passes[grid->y], grid, kind, is_backward};
    return b;
}

DEVICE uint32_t spsh__rnn_steps(const rnn_block *b)
{
    return b->job->frames * (b->is_backward ? 2 : 1);
}

/* A counter, and the value for which a block waits. */
typedef struct spsh__rnn_barrier {
    uint32_t *counter;
    uint32_t count;
} spsh__rnn_barrier;

DEVICE spsh__rnn_barrier spsh__rnn_before(const rnn_block *b, uint32_t step)
{
    const uint32_t gates = b->job->gates, group = b->grid->x / gates;
    spsh__rnn_barrier all = {b->job->arrived, step * b->grid->blocks_x};
    if (!b->is_backward)
        return all;
    all.count = step / 2 * b->grid->blocks_x;
    const spsh__rnn_barrier of_group = {b->job->arrived + (uint64_t)(1 + group) * SPSH__RNN_COUNTER,
                                        (step / 2 + 1) * gates};
    return step % 2 == 0 ? all : of_group;
}

/* The counter that the block adds 1 to: blocks wait for it before the next step. */
DEVICE uint32_t *spsh__rnn_after(const rnn_block *b, uint32_t step)
{
    return spsh__rnn_before(b, step + 1).counter;
}

DEVICE void spsh__rnn_open(const rnn_block *b)
{
    EACH_THREAD(b->grid, rnn_load(b, thread));
}

DEVICE void spsh__rnn_step(const rnn_block *b, uint32_t step)
{
    const uint32_t t = rnn_frame_of(b, step);
    if (!b->is_backward)
        rnn_forward_frame(b, t);
    else if (step % 2 == 0)
        rnn_backward_parts(b, t);
    else
        EACH_THREAD(b->grid, rnn_cells(b, t, 0, b->job->batch, thread));
}

/* Use the time before the next step's barrier. */
DEVICE void spsh__rnn_ahead(const rnn_block *b, uint32_t step, uint32_t thread)
{
    const bool has_cells = !b->is_backward || step % 2 == 1;
    if (has_cells && step + 1 < spsh__rnn_steps(b))
        rnn_ahead_of(b, rnn_frame_of(b, step + 1), thread);
}

#endif
