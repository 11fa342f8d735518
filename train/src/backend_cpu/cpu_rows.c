/* cpu_rows.c: operators on rows [T][N][W], and from convolutions to rows and back. They mostly move
 * memory. Sums of columns add floats within a stretch, and stretches in double. */
#include <string.h>

#include "cpu.h"

enum { COLUMNS = 64, STRETCH_ROWS = 64, PLANES = 16 };

static spsh__rows_work rows_work_of(const spsh__backend *b, size_t rows, size_t width,
                                    const float *from, float *to)
{
    spsh__rows_work w = {spsh__cpu_of(b)->kernels, rows, width, 1, from, NULL};
    w.to = to;
    if (width < SPSH__CPU_PIECE)
        w.rows_per_part = SPSH__CPU_PIECE / (width == 0 ? 1 : width);
    return w;
}

/* --- biases --- */

static void bias_piece(void *work, size_t piece)
{
    const spsh__rows_work *w = (const spsh__rows_work *)work;
    const float abc[3] = {1, 1, 0};
    for (size_t row = piece * w->rows_per_part; row < spsh__rows_end(w, piece); row++) {
        float *to = w->to + row * w->width;
        w->kernels->blend_fn(abc, w->from, to, to, w->width);
    }
}

void spsh__cpu_bias_forward(spsh__backend *b, size_t rows, uint32_t width,
                            spsh__backend_buffer bias, spsh__backend_buffer x)
{
    spsh__rows_work w = rows_work_of(b, rows, width, spsh__f32(bias), spsh__f32(x));
    spsh__cpu_run(b, bias_piece, &w, spsh__rows_parts(&w));
}

static void bias_grad_piece(void *work, size_t piece)
{
    const spsh__rows_work *w = (const spsh__rows_work *)work;
    const size_t first = piece * COLUMNS;
    const size_t count = spsh__least(COLUMNS, w->width - first);
    double sums[COLUMNS] = {0};
    float part[COLUMNS];
    for (size_t row = 0; row < w->rows; row += STRETCH_ROWS) {
        w->kernels->column_sums_fn(w->from + row * w->width + first, w->width,
                                   spsh__least(STRETCH_ROWS, w->rows - row), part, count);
        for (size_t c = 0; c < count; c++)
            sums[c] += (double)part[c];
    }
    for (size_t c = 0; c < count; c++)
        w->to[first + c] += (float)sums[c];
}

void spsh__cpu_bias_backward(spsh__backend *b, size_t rows, uint32_t width, spsh__backend_buffer dy,
                             spsh__backend_buffer dbias)
{
    spsh__rows_work w = rows_work_of(b, rows, width, spsh__f32(dy), spsh__f32(dbias));
    spsh__cpu_run(b, bias_grad_piece, &w, ((size_t)width + COLUMNS - 1) / COLUMNS);
}

/* --- columns --- */

typedef struct columns_work {
    const spsh__columns *c;
    spsh__rows_work rows;
} columns_work;

static void columns_piece(void *work, size_t piece)
{
    const columns_work *w = (const columns_work *)work;
    const spsh__columns *c = w->c;
    for (size_t row = piece * w->rows.rows_per_part; row < spsh__rows_end(&w->rows, piece); row++)
        memcpy(spsh__f32(c->to) + row * c->to_stride, spsh__f32(c->from) + row * c->from_stride,
               c->width * sizeof(float));
}

void spsh__cpu_copy_columns(spsh__backend *b, const spsh__columns *c)
{
    columns_work w = {c, rows_work_of(b, c->rows, c->width, NULL, NULL)};
    spsh__cpu_run(b, columns_piece, &w, spsh__rows_parts(&w.rows));
}

/* --- masks and reversal: a piece is a frame, or a channel of an utterance --- */

typedef struct frames_work {
    const spsh__rows *s;
    const uint32_t *lengths;
    const float *from;
    float *to;
} frames_work;

static float *row_at(const frames_work *w, size_t t, size_t n)
{
    return w->to + (t * w->s->batch + n) * w->s->width;
}

static void mask_piece(void *work, size_t t)
{
    const frames_work *w = (const frames_work *)work;
    for (size_t n = 0; n < w->s->batch; n++) {
        if (t >= w->lengths[n])
            memset(row_at(w, t, n), 0, w->s->width * sizeof(float));
    }
}

void spsh__cpu_mask_rows(spsh__backend *b, const spsh__rows *s, const uint32_t *lengths,
                         spsh__backend_buffer x)
{
    frames_work w = {s, lengths, NULL, spsh__f32(x)};
    spsh__cpu_run(b, mask_piece, &w, s->frames);
}

static void reverse_piece(void *work, size_t t)
{
    const frames_work *w = (const frames_work *)work;
    for (size_t n = 0; n < w->s->batch; n++) {
        const size_t other = t < w->lengths[n] ? w->lengths[n] - 1 - t : t;
        memcpy(row_at(w, other, n), w->from + (t * w->s->batch + n) * w->s->width,
               w->s->width * sizeof(float));
    }
}

void spsh__cpu_reverse(spsh__backend *b, const spsh__rows *s, const uint32_t *lengths,
                       spsh__backend_buffer from, spsh__backend_buffer to)
{
    frames_work w = {s, lengths, spsh__f32(from), spsh__f32(to)};
    spsh__cpu_run(b, reverse_piece, &w, s->frames);
}

typedef struct planes_work {
    const spsh__conv_shape *s;
    bool is_to_rows;
    const float *from;
    float *to;
} planes_work;

/* --- convolutions to rows: a piece is several planes (channel, bin) of an utterance, so that it
 * writes whole cache lines of a row --- */

static size_t plane_count(const spsh__conv_shape *s)
{
    return (size_t)s->out_channels * s->out_bins;
}

static size_t plane_pieces(const spsh__conv_shape *s)
{
    return (plane_count(s) + PLANES - 1) / PLANES;
}

static void turn_piece(void *work, size_t piece)
{
    const planes_work *w = (const planes_work *)work;
    const size_t width = plane_count(w->s), frames = w->s->out_frames;
    const size_t n = piece / plane_pieces(w->s), first = piece % plane_pieces(w->s) * PLANES;
    const size_t count = spsh__least(PLANES, width - first);
    const size_t plane = (n * width + first) * frames;
    for (size_t t = 0; t < frames; t++) {
        const size_t row = (t * w->s->batch + n) * width + first;
        for (size_t i = 0; i < count; i++) {
            if (w->is_to_rows)
                w->to[row + i] = w->from[plane + i * frames + t];
            else
                w->to[plane + i * frames + t] = w->from[row + i];
        }
    }
}

void spsh__cpu_rows_from_conv(spsh__backend *b, const spsh__conv_shape *s,
                              spsh__backend_buffer conv, spsh__backend_buffer rows)
{
    planes_work w = {s, true, spsh__f32(conv), spsh__f32(rows)};
    spsh__cpu_run(b, turn_piece, &w, s->batch * plane_pieces(s));
}

void spsh__cpu_conv_from_rows(spsh__backend *b, const spsh__conv_shape *s,
                              spsh__backend_buffer rows, spsh__backend_buffer conv)
{
    planes_work w = {s, false, spsh__f32(rows), spsh__f32(conv)};
    spsh__cpu_run(b, turn_piece, &w, s->batch * plane_pieces(s));
}

/* --- look-ahead: weights are transposed to [context][width], so lanes are columns --- */

typedef struct lookahead_work {
    const spsh__cpu_kernels *kernels;
    const spsh__lookahead *l;
    const float *x, *dy;
    float *to;     /* y or dx */
    float *turned; /* transposed weights, or their gradients */
} lookahead_work;

/* Compute frame t from the weighted frames of `from` at t + j, or at t - j if is_back. count:
 * number of frames that exist in that direction. */
static void sum_frames(const lookahead_work *w, const float *from, size_t t, bool is_back,
                       size_t count)
{
    const size_t width = w->l->width, size = w->l->batch * width;
    float *to = w->to + t * size;
    memset(to, 0, size * sizeof(*to));
    for (size_t j = 0; j < spsh__least(count, w->l->context); j++) {
        const float *frame = from + (is_back ? t - j : t + j) * size;
        for (size_t n = 0; n < w->l->batch; n++)
            w->kernels->multiply_add_fn(frame + n * width, w->turned + j * width, to + n * width,
                                        width);
    }
}

static void lookahead_piece(void *work, size_t t)
{
    const lookahead_work *w = (const lookahead_work *)work;
    sum_frames(w, w->x, t, false, w->l->frames - t);
}

static void lookahead_dx_piece(void *work, size_t t)
{
    const lookahead_work *w = (const lookahead_work *)work;
    sum_frames(w, w->dy, t, true, t + 1);
}

static void lookahead_dweight_piece(void *work, size_t j)
{
    const lookahead_work *w = (const lookahead_work *)work;
    const size_t width = w->l->width;
    float *sums = w->turned + j * width;
    memset(sums, 0, width * sizeof(*sums));
    for (size_t row = 0; row + j * w->l->batch < (size_t)w->l->frames * w->l->batch; row++)
        w->kernels->multiply_add_fn(w->dy + row * width, w->x + (row + j * w->l->batch) * width,
                                    sums, width);
}

static bool lookahead_open(spsh__backend *b, const spsh__lookahead *l, lookahead_work *w)
{
    w->kernels = spsh__cpu_of(b)->kernels;
    w->l = l;
    w->turned = spsh__cpu_scratch(b, (size_t)l->width * l->context);
    if (w->turned == NULL)
        return false;
    for (size_t i = 0; i < (size_t)l->width * l->context; i++)
        w->turned[i % l->context * l->width + i / l->context] = spsh__f32(l->weight)[i];
    return true;
}

void spsh__cpu_lookahead_forward(spsh__backend *b, const spsh__lookahead *l, spsh__backend_buffer x,
                                 spsh__backend_buffer y)
{
    lookahead_work w = {.x = spsh__f32(x), .to = spsh__f32(y)};
    if (lookahead_open(b, l, &w))
        spsh__cpu_run(b, lookahead_piece, &w, l->frames);
}

void spsh__cpu_lookahead_backward(spsh__backend *b, const spsh__lookahead *l,
                                  const spsh__lookahead_grad *g)
{
    lookahead_work w = {.x = spsh__f32(g->x), .dy = spsh__f32(g->dy), .to = spsh__f32(g->dx)};
    if (!lookahead_open(b, l, &w))
        return;
    if (w.to != NULL)
        spsh__cpu_run(b, lookahead_dx_piece, &w, l->frames);
    spsh__cpu_run(b, lookahead_dweight_piece, &w, l->context);
    for (size_t i = 0; i < (size_t)l->width * l->context; i++)
        spsh__f32(g->dweight)[i] += w.turned[i % l->context * l->width + i / l->context];
}
