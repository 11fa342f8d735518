/* kernels_rows.h: operators on elements, on rows [T][N][W], and on lines of convolutions
 * [N][C][F][T], by threads of a device.
 *
 *     elements   clip, scale, axpy, mix, convert, sums of rows: a block walks over stretches of
 *                elements
 *     lines      bias, columns, masks, reversal: 32 threads walk a line (a row), and compute its
 *                utterance once per line, not once per element
 *     turns      convolutions to rows and back, features to convolutions: matrices are transposed
 *                through tiles in shared memory, so that adjacent threads access adjacent elements
 *     sums       of columns: in parts that only the shape determines, then of the parts
 *     look-ahead a thread has eight frames of a column, so that each load is used eight times
 */
#ifndef SPSH_TRAIN_KERNELS_ROWS_H
#define SPSH_TRAIN_KERNELS_ROWS_H

#include "device_values.h"

/* X(NUMBER, name, type of the job) */
#define SPSH__KERNELS_ROWS(X)                                                                      \
    X(CLIP_FORWARD, clip_forward, spsh__elements_job)                                              \
    X(CLIP_BACKWARD, clip_backward, spsh__elements_job)                                            \
    X(SCALE, scale, spsh__elements_job)                                                            \
    X(AXPY, axpy, spsh__elements_job)                                                              \
    X(MIX, mix, spsh__elements_job)                                                                \
    X(CONVERT, convert, spsh__elements_job)                                                        \
    X(ADD_ROWS, add_rows, spsh__add_rows_job)                                                      \
    X(BIAS_FORWARD, bias_forward, spsh__lines_job)                                                 \
    X(COPY_LINES, copy_lines, spsh__lines_job)                                                     \
    X(MASK_ROWS, mask_rows, spsh__lines_job)                                                       \
    X(REVERSE, reverse, spsh__lines_job)                                                           \
    X(ARRANGE_ROWS, arrange_rows, spsh__lines_job)                                                 \
    X(TURN, turn, spsh__turn_job)                                                                  \
    X(COLUMN_SUMS, column_sums, spsh__columns_job)                                                 \
    X(ADD_COLUMNS, add_columns, spsh__columns_job)                                                 \
    X(LOOKAHEAD, lookahead, spsh__lookahead_job)                                                   \
    X(LOOKAHEAD_WEIGHTS, lookahead_weights, spsh__lookahead_job)                                   \
    X(ADD_LOOKAHEAD, add_lookahead, spsh__lookahead_job)

/* ---- elements */

typedef struct spsh__elements_job {
    spsh__device_array x;  /* clip_backward: output of clip_forward; mix: theirs */
    spsh__device_array dy; /* only clip_backward; and mix: mine */
    spsh__device_array to;
    uint64_t count;
    float factor; /* factor of scale, axpy, and mix; limit of clip, rounded like `to` or x */
    uint32_t is_wide;
} spsh__elements_job;

DEVICE void device_clip_run(const spsh__elements_job *job, const device_run *r)
{
    float v[4];
    device_load_run(&job->x, r, v);
    for (uint32_t k = 0; k < 4; k++)
        v[k] = device_clip(v[k], job->factor);
    device_store_run(&job->to, r, v);
}

DEVICE void device_clip_back_run(const spsh__elements_job *job, const device_run *r)
{
    float y[4], v[4];
    device_load_run(&job->x, r, y);
    device_load_run(&job->dy, r, v);
    for (uint32_t k = 0; k < 4; k++)
        v[k] = y[k] > 0 && y[k] < job->factor ? v[k] : 0;
    device_store_run(&job->to, r, v);
}

DEVICE void device_scale_run(const spsh__elements_job *job, const device_run *r)
{
    float v[4];
    device_load_run(&job->to, r, v);
    for (uint32_t k = 0; k < 4; k++)
        v[k] *= job->factor;
    device_store_run(&job->to, r, v);
}

DEVICE void device_axpy_run(const spsh__elements_job *job, const device_run *r)
{
    float x[4], v[4];
    device_load_run(&job->x, r, x);
    device_load_run(&job->to, r, v);
    for (uint32_t k = 0; k < 4; k++)
        v[k] += job->factor * x[k];
    device_store_run(&job->to, r, v);
}

DEVICE void device_mix_run(const spsh__elements_job *job, const device_run *r)
{
    float theirs[4], mine[4], v[4];
    device_load_run(&job->x, r, theirs);
    device_load_run(&job->dy, r, mine);
    device_load_run(&job->to, r, v);
    for (uint32_t k = 0; k < 4; k++)
        v[k] += job->factor * (theirs[k] - mine[k]);
    device_store_run(&job->to, r, v);
}

DEVICE void device_convert_run(const spsh__elements_job *job, const device_run *r)
{
    float v[4];
    device_load_run(&job->x, r, v);
    device_store_run(&job->to, r, v);
}

DEVICE_ELEMENTS_KERNEL(clip_forward, spsh__elements_job, device_clip_run)
DEVICE_ELEMENTS_KERNEL(clip_backward, spsh__elements_job, device_clip_back_run)
DEVICE_ELEMENTS_KERNEL(scale, spsh__elements_job, device_scale_run)
DEVICE_ELEMENTS_KERNEL(axpy, spsh__elements_job, device_axpy_run)
DEVICE_ELEMENTS_KERNEL(mix, spsh__elements_job, device_mix_run)
DEVICE_ELEMENTS_KERNEL(convert, spsh__elements_job, device_convert_run)

/* to[i] = from[0][i] + from[1][i] + ..., as floats, in the order of rows. to may be a row of from.
 * One row: a conversion. */
typedef struct spsh__add_rows_job {
    spsh__device_array from, to;
    uint64_t count; /* elements per row */
    uint32_t rows, is_wide;
} spsh__add_rows_job;

DEVICE void device_add_rows_run(const spsh__add_rows_job *job, const device_run *r)
{
    float sum[4], v[4];
    device_load_run(&job->from, r, sum);
    for (uint32_t row = 1; row < job->rows; row++) {
        const device_run other = device_run_at(r, row * job->count + r->at);
        device_load_run(&job->from, &other, v);
        for (uint32_t k = 0; k < 4; k++)
            sum[k] += v[k];
    }
    device_store_run(&job->to, r, sum);
}

DEVICE_ELEMENTS_KERNEL(add_rows, spsh__add_rows_job, device_add_rows_run)

/* ---- lines */

typedef struct spsh__lines_job {
    spsh__device_array from, to; /* from: bias of bias_forward; unused by mask_rows */
    uint64_t lines;              /* below 2^32 if lengths are used */
    uint32_t width;              /* elements of a line */
    uint32_t batch;              /* for rows: utterances per frame */
    uint32_t frames;             /* only for arrange_rows */
    uint32_t is_wide;
    uint64_t from_stride, to_stride; /* elements between starts of lines */
    const uint32_t *lengths;
} spsh__lines_job;

/* Expand call_ for each line of the thread. */
#define EACH_LINE(job_, block_, thread_, call_)                                                    \
    for (uint64_t line = (uint64_t)(block_)->x * DEVICE_WARPS + (thread_) / DEVICE_LANES;          \
         line < (job_)->lines; line += (uint64_t)(block_)->blocks_x * DEVICE_WARPS) {              \
        call_;                                                                                     \
    }

DEVICE device_run device_line_run(const spsh__lines_job *job, uint64_t at, uint32_t thread)
{
    return device_run_of(at, job->width, thread % DEVICE_LANES, DEVICE_LANES, job->is_wide != 0);
}

/* Copy a line. A run is relative to the start of the line; from and to are the positions of that
 * start. */
DEVICE void device_copy_line(const spsh__lines_job *job, uint64_t from, uint64_t to,
                             uint32_t thread)
{
    for (uint64_t at = 0; at < job->width; at += DEVICE_LINE_STEP) {
        const device_run r = device_line_run(job, at, thread);
        const device_run source = device_run_at(&r, from + r.at);
        const device_run target = device_run_at(&r, to + r.at);
        float v[4];
        device_load_run(&job->from, &source, v);
        device_store_run(&job->to, &target, v);
    }
}

/* Fill a line with zeros. */
DEVICE void device_clear_line(const spsh__lines_job *job, uint64_t to, uint32_t thread)
{
    const float v[4] = {0, 0, 0, 0};
    for (uint64_t at = 0; at < job->width; at += DEVICE_LINE_STEP) {
        const device_run r = device_line_run(job, at, thread);
        const device_run target = device_run_at(&r, to + r.at);
        device_store_run(&job->to, &target, v);
    }
}

DEVICE void device_bias_line(const spsh__lines_job *job, uint64_t line, uint32_t thread)
{
    for (uint64_t at = 0; at < job->width; at += DEVICE_LINE_STEP) {
        const device_run r = device_line_run(job, at, thread);
        const device_run target = device_run_at(&r, line * job->to_stride + r.at);
        float bias[4], v[4];
        device_load_run(&job->from, &r, bias);
        device_load_run(&job->to, &target, v);
        for (uint32_t k = 0; k < 4; k++)
            v[k] += bias[k];
        device_store_run(&job->to, &target, v);
    }
}

DEVICE void device_copy_own_line(const spsh__lines_job *job, uint64_t line, uint32_t thread)
{
    device_copy_line(job, line * job->from_stride, line * job->to_stride, thread);
}

DEVICE void device_mask_row(const spsh__lines_job *job, uint64_t line, uint32_t thread)
{
    const uint32_t t = (uint32_t)line / job->batch, n = (uint32_t)line % job->batch;
    if (t >= job->lengths[n])
        device_clear_line(job, line * job->to_stride, thread);
}

DEVICE void device_reverse_row(const spsh__lines_job *job, uint64_t line, uint32_t thread)
{
    const uint32_t t = (uint32_t)line / job->batch, n = (uint32_t)line % job->batch;
    const uint32_t length = job->lengths[n];
    const uint64_t other = t < length ? length - 1 - t : t;
    device_copy_line(job, line * job->from_stride, (other * job->batch + n) * job->to_stride,
                     thread);
}

/* Row t * N + n of [T][N][W] from line n * T + t of [N][T][W]. */
DEVICE void device_arrange_row(const spsh__lines_job *job, uint64_t line, uint32_t thread)
{
    const uint32_t t = (uint32_t)line / job->batch, n = (uint32_t)line % job->batch;
    const uint64_t to = line * job->to_stride;
    if (t < job->lengths[n])
        device_copy_line(job, ((uint64_t)n * job->frames + t) * job->from_stride, to, thread);
    else
        device_clear_line(job, to, thread);
}

#define DEVICE_LINES_KERNEL(name_, line_)                                                          \
    DEVICE void device_##name_(const spsh__lines_job *job, const spsh__kernel_block *block,        \
                               uint32_t thread)                                                    \
    {                                                                                              \
        EACH_LINE(job, block, thread, line_(job, line, thread));                                   \
    }                                                                                              \
    DEVICE_KERNEL(name_, spsh__lines_job, device_##name_)

DEVICE_LINES_KERNEL(bias_forward, device_bias_line)
DEVICE_LINES_KERNEL(copy_lines, device_copy_own_line)
DEVICE_LINES_KERNEL(mask_rows, device_mask_row)
DEVICE_LINES_KERNEL(reverse, device_reverse_row)
DEVICE_LINES_KERNEL(arrange_rows, device_arrange_row)

/* ---- transposes: grid (tiles of a matrix, matrices) */

#define SPSH__TURN_TILE   32U
#define SPSH__TURN_STRIDE 33U /* line stride of a tile: spreads a column over different banks */
#define SPSH__TURN_SHARED (SPSH__TURN_TILE * SPSH__TURN_STRIDE * 4U) /* bytes */

/* Element (l, c) of matrix n: from[n * from_matrix + l * from_line + c], and
 * to[n * to_matrix + c * to_line + l]. */
typedef struct spsh__turn_job {
    spsh__device_array from, to;
    uint32_t lines, columns, matrices, padding;
    uint64_t from_matrix, from_line, to_matrix, to_line;
    const uint32_t *lengths; /* or NULL; lines of matrix n from lengths[n] on are 0, and not read */
} spsh__turn_job;

typedef struct device_tile { /* tile of a matrix */
    uint32_t matrix, line, column;
    float *values;
} device_tile;

DEVICE void device_turn_load(const spsh__turn_job *job, const device_tile *tile, uint32_t thread)
{
    const uint32_t c = thread % SPSH__TURN_TILE, column = tile->column + c;
    uint32_t lines = job->lines;
    if (job->lengths != NULL && job->lengths[tile->matrix] < lines)
        lines = job->lengths[tile->matrix];
    for (uint32_t l = thread / SPSH__TURN_TILE; l < SPSH__TURN_TILE;
         l += SPSH__DEVICE_THREADS / SPSH__TURN_TILE) {
        float value = 0;
        if (tile->line + l < lines && column < job->columns)
            value = spsh__device_get(&job->from, tile->matrix * job->from_matrix +
                                                     (tile->line + l) * job->from_line + column);
        tile->values[l * SPSH__TURN_STRIDE + c] = value;
    }
}

DEVICE void device_turn_store(const spsh__turn_job *job, const device_tile *tile, uint32_t thread)
{
    const uint32_t l = thread % SPSH__TURN_TILE, line = tile->line + l;
    for (uint32_t c = thread / SPSH__TURN_TILE; c < SPSH__TURN_TILE;
         c += SPSH__DEVICE_THREADS / SPSH__TURN_TILE) {
        if (tile->column + c < job->columns && line < job->lines)
            spsh__device_set(
                &job->to, tile->matrix * job->to_matrix + (tile->column + c) * job->to_line + line,
                tile->values[l * SPSH__TURN_STRIDE + c]);
    }
}

DEVICE void spsh__kernel_turn(const spsh__turn_job *job, const spsh__kernel_block *block)
{
    const uint32_t across = (job->columns + SPSH__TURN_TILE - 1) / SPSH__TURN_TILE;
    device_tile tile;
    tile.line = block->x / across * SPSH__TURN_TILE;
    tile.column = block->x % across * SPSH__TURN_TILE;
    tile.values = (float *)block->shared;
    for (tile.matrix = block->y; tile.matrix < job->matrices; tile.matrix += block->blocks_y) {
        EACH_THREAD(block, device_turn_load(job, &tile, thread));
        EACH_THREAD(block, device_turn_store(job, &tile, thread));
    }
}

/* ---- sums of columns: grid (groups of 32 columns, parts of the rows); then (groups of columns) */

#define SPSH__COLUMNS_SHARED (SPSH__DEVICE_THREADS * 8U) /* bytes: a double of each thread */

typedef struct spsh__columns_job {
    spsh__device_array x, to, also; /* sums are added to `to` and `also`; also may be NULL */
    uint64_t rows, part_rows;       /* counted with padding, as `padded` says */
    uint32_t width, also_width;     /* sums of the first also_width columns also go to `also` */
    uint32_t parts;
    uint32_t batch, padded; /* rows per frame that exist, and with padding, which is 0 */
    uint32_t padding;
    double *partial; /* [parts][width] */
} spsh__columns_job;

/* Element of a row that is counted with padding. */
DEVICE float device_column_element(const spsh__columns_job *job, uint64_t row, uint32_t column)
{
    const uint64_t n = row % job->padded;
    if (n >= job->batch)
        return 0;
    return spsh__device_get(&job->x, (row / job->padded * job->batch + n) * job->width + column);
}

/* Sum every eighth row of a part. Four at a time are added as floats, so that four loads are in
 * flight. */
DEVICE double device_column_sum(const spsh__columns_job *job, uint64_t first, uint64_t end,
                                uint32_t column)
{
    const uint64_t step = (uint64_t)DEVICE_WARPS * job->width;
    double sum = 0;
    uint64_t row = first;
    for (; row + 3ULL * DEVICE_WARPS < end; row += 4ULL * DEVICE_WARPS) {
        const uint64_t at = row * job->width + column;
        float v[4];
        for (uint32_t k = 0; k < 4; k++)
            v[k] = job->batch == job->padded
                       ? spsh__device_get(&job->x, at + k * step)
                       : device_column_element(job, row + (uint64_t)k * DEVICE_WARPS, column);
        sum += (double)((v[0] + v[1]) + (v[2] + v[3]));
    }
    for (; row < end; row += DEVICE_WARPS)
        sum += (double)device_column_element(job, row, column);
    return sum;
}

DEVICE void device_column_part(const spsh__columns_job *job, const spsh__kernel_block *block,
                               uint32_t thread)
{
    const uint32_t column = block->x * DEVICE_LANES + thread % DEVICE_LANES;
    const uint64_t first = block->y * job->part_rows;
    const uint64_t end = first + job->part_rows < job->rows ? first + job->part_rows : job->rows;
    ((double *)block->shared)[thread] =
        column < job->width ? device_column_sum(job, first + thread / DEVICE_LANES, end, column)
                            : 0;
}

DEVICE void device_column_put(const spsh__columns_job *job, const spsh__kernel_block *block,
                              uint32_t thread)
{
    const uint32_t column = block->x * DEVICE_LANES + thread;
    if (thread < DEVICE_LANES && column < job->width)
        job->partial[(uint64_t)block->y * job->width + column] =
            device_lane_sum((const double *)block->shared, thread);
}

DEVICE_KERNEL_OF_TWO(column_sums, spsh__columns_job, device_column_part, device_column_put)

DEVICE void device_add_parts(const spsh__columns_job *job, const spsh__kernel_block *block,
                             uint32_t thread)
{
    const uint32_t column = block->x * DEVICE_LANES + thread % DEVICE_LANES;
    ((double *)block->shared)[thread] =
        column < job->width
            ? device_parts_sum(job->partial + column, job->parts, job->width, thread / DEVICE_LANES)
            : 0;
}

DEVICE void device_add_to(const spsh__device_array *to, uint32_t column, float sum)
{
    spsh__device_set(to, column, spsh__device_get(to, column) + sum);
}

DEVICE void device_add_put(const spsh__columns_job *job, const spsh__kernel_block *block,
                           uint32_t thread)
{
    const uint32_t column = block->x * DEVICE_LANES + thread;
    if (thread >= DEVICE_LANES || column >= job->width)
        return;
    const float sum = (float)device_lane_sum((const double *)block->shared, thread);
    device_add_to(&job->to, column, sum);
    if (job->also.data != NULL && column < job->also_width)
        device_add_to(&job->also, column, sum);
}

DEVICE_KERNEL_OF_TWO(add_columns, spsh__columns_job, device_add_parts, device_add_put)

/* ---- look-ahead: y[t] = sum over j of weight[j] x[t + j]; dx[t] = sum over j of
 * weight[j] dy[t - j]; column n * W + w is element w of utterance n */

#define SPSH__LOOKAHEAD_TILE 8U /* frames, or weights, per thread */
/* bytes: eight doubles of each thread */
#define SPSH__LOOKAHEAD_SHARED (SPSH__DEVICE_THREADS * SPSH__LOOKAHEAD_TILE * 8U)
#define DEVICE_STRETCH         16U /* products that are added as floats, in lookahead_weights */

typedef struct spsh__lookahead_job {
    spsh__device_array from, to; /* lookahead: x and y, or dy and dx; lookahead_weights: x and dy;
                              add_lookahead: to is dweight, [width][context] */
    const float *weights;        /* [context][width] */
    uint32_t frames, batch, width, context;
    uint32_t is_backward;
    uint32_t parts, part_frames; /* for lookahead_weights and add_lookahead */
    double *partial;             /* [parts][context][width] */
} spsh__lookahead_job;

/* Compute eight frames of column `at` of lookahead, from the tile's first frame. Frame k uses the
 * load of step s with weight s - k, so the weights move through a window. Backwards, both are
 * counted from the tile's last frame. */
DEVICE void device_lookahead_tile(const spsh__lookahead_job *job, uint32_t first, uint64_t at)
{
    const uint64_t row = (uint64_t)job->batch * job->width;
    const uint32_t w = (uint32_t)(at % job->width);
    const bool is_back = job->is_backward != 0;
    const uint32_t last = first + SPSH__LOOKAHEAD_TILE - 1;
    float sums[SPSH__LOOKAHEAD_TILE] = {0}, window[SPSH__LOOKAHEAD_TILE] = {0};
    for (uint32_t s = 0; s < job->context + SPSH__LOOKAHEAD_TILE - 1; s++) {
        for (uint32_t k = SPSH__LOOKAHEAD_TILE - 1; k > 0; k--)
            window[k] = window[k - 1];
        window[0] = s < job->context ? job->weights[(uint64_t)s * job->width + w] : 0;
        if (is_back ? s > last : first + s >= job->frames)
            break;
        const uint32_t t = is_back ? last - s : first + s;
        if (t >= job->frames) /* frame past the end, in the last tile, backwards */
            continue;
        const float x = spsh__device_get(&job->from, t * row + at);
        for (uint32_t k = 0; k < SPSH__LOOKAHEAD_TILE; k++) {
            if (s - k < job->context) /* unsigned: a negative s - k is large */
                sums[k] += window[k] * x;
        }
    }
    for (uint32_t k = 0; k < SPSH__LOOKAHEAD_TILE; k++) {
        const uint32_t t = is_back ? last - k : first + k;
        if (t < job->frames)
            spsh__device_set(&job->to, t * row + at, sums[k]);
    }
}

DEVICE void device_lookahead(const spsh__lookahead_job *job, const spsh__kernel_block *block,
                             uint32_t thread)
{
    const uint64_t row = (uint64_t)job->batch * job->width;
    for (uint32_t first = block->y * SPSH__LOOKAHEAD_TILE; first < job->frames;
         first += block->blocks_y * SPSH__LOOKAHEAD_TILE) {
        for (uint64_t at = spsh__block_first(block, thread); at < row;
             at += spsh__block_step(block))
            device_lookahead_tile(job, first, at);
    }
}

/* Grid (columns of a frame, tiles of frames). */
DEVICE_KERNEL(lookahead, spsh__lookahead_job, device_lookahead)

/* Sums over a part's frames t of dy[t] * x[t + j] for eight j, of every eighth utterance. */
typedef struct device_weight_sums {
    double all[SPSH__LOOKAHEAD_TILE];
    float some[SPSH__LOOKAHEAD_TILE], window[SPSH__LOOKAHEAD_TILE]; /* x[t + j] */
} device_weight_sums;

DEVICE float device_lookahead_x(const spsh__lookahead_job *job, uint64_t at, uint64_t t)
{
    const uint64_t row = (uint64_t)job->batch * job->width;
    return t < job->frames ? spsh__device_get(&job->from, t * row + at) : 0;
}

DEVICE void device_add_stretch(device_weight_sums *sums)
{
    for (uint32_t k = 0; k < SPSH__LOOKAHEAD_TILE; k++) {
        sums->all[k] += (double)sums->some[k];
        sums->some[k] = 0;
    }
}

DEVICE void device_weight_column(const spsh__lookahead_job *job, device_weight_sums *sums,
                                 uint64_t at, uint32_t first_j, uint32_t part)
{
    const uint64_t row = (uint64_t)job->batch * job->width;
    const uint64_t first = (uint64_t)part * job->part_frames;
    uint64_t end = first + job->part_frames;
    end = end < job->frames ? end : job->frames;
    for (uint32_t k = 0; k + 1 < SPSH__LOOKAHEAD_TILE; k++)
        sums->window[k + 1] = device_lookahead_x(job, at, first + first_j + k);
    for (uint64_t t = first; t < end; t++) {
        for (uint32_t k = 0; k + 1 < SPSH__LOOKAHEAD_TILE; k++)
            sums->window[k] = sums->window[k + 1];
        sums->window[SPSH__LOOKAHEAD_TILE - 1] =
            device_lookahead_x(job, at, t + first_j + SPSH__LOOKAHEAD_TILE - 1);
        const float dy = spsh__device_get(&job->to, t * row + at);
        for (uint32_t k = 0; k < SPSH__LOOKAHEAD_TILE; k++) {
            if (t + first_j + k < job->frames)
                sums->some[k] += dy * sums->window[k];
        }
        if ((t - first) % DEVICE_STRETCH == DEVICE_STRETCH - 1)
            device_add_stretch(sums);
    }
    device_add_stretch(sums);
}

/* The block's position: x counts groups of columns, and then groups of weights. */
DEVICE uint32_t device_column_groups(uint32_t width)
{
    return (width + DEVICE_LANES - 1) / DEVICE_LANES;
}

DEVICE void device_weights_part(const spsh__lookahead_job *job, const spsh__kernel_block *block,
                                uint32_t thread)
{
    const uint32_t groups = device_column_groups(job->width);
    const uint32_t w = block->x % groups * DEVICE_LANES + thread % DEVICE_LANES;
    const uint32_t first_j = block->x / groups * SPSH__LOOKAHEAD_TILE;
    double *to = (double *)block->shared;
    device_weight_sums sums;
    for (uint32_t k = 0; k < SPSH__LOOKAHEAD_TILE; k++) {
        sums.all[k] = 0;
        sums.some[k] = 0;
    }
    for (uint32_t n = thread / DEVICE_LANES; w < job->width && n < job->batch; n += DEVICE_WARPS)
        device_weight_column(job, &sums, (uint64_t)n * job->width + w, first_j, block->y);
    for (uint32_t k = 0; k < SPSH__LOOKAHEAD_TILE; k++)
        to[k * SPSH__DEVICE_THREADS + thread] = sums.all[k];
}

DEVICE void device_weights_put(const spsh__lookahead_job *job, const spsh__kernel_block *block,
                               uint32_t thread)
{
    const uint32_t groups = device_column_groups(job->width), lane = thread % DEVICE_LANES;
    const uint32_t w = block->x % groups * DEVICE_LANES + lane;
    for (uint32_t k = thread / DEVICE_LANES; k < SPSH__LOOKAHEAD_TILE; k += DEVICE_WARPS) {
        const uint32_t j = block->x / groups * SPSH__LOOKAHEAD_TILE + k;
        if (w < job->width && j < job->context)
            job->partial[((uint64_t)block->y * job->context + j) * job->width + w] =
                device_lane_sum((const double *)block->shared + (size_t)k * SPSH__DEVICE_THREADS,
                                lane);
    }
}

/* Grid (groups of columns * groups of weights, parts). */
DEVICE_KERNEL_OF_TWO(lookahead_weights, spsh__lookahead_job, device_weights_part,
                     device_weights_put)

DEVICE void device_add_weights(const spsh__lookahead_job *job, const spsh__kernel_block *block,
                               uint32_t thread)
{
    const uint64_t count = (uint64_t)job->context * job->width;
    for (uint64_t i = spsh__block_first(block, thread); i < count; i += spsh__block_step(block)) {
        const uint64_t at = i % job->width * job->context + i / job->width;
        double sum = 0;
        for (uint32_t part = 0; part < job->parts; part++)
            sum += job->partial[part * count + i];
        spsh__device_set(&job->to, at, spsh__device_get(&job->to, at) + (float)sum);
    }
}

DEVICE_KERNEL(add_lookahead, spsh__lookahead_job, device_add_weights)

#endif
