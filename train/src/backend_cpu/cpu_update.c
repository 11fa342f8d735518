/* cpu_update.c: element-wise operators, and sums of squares. */
#include <math.h>

#include "cpu.h"

enum { MIX_RUN = 1024 }; /* elements whose differences are on the stack */

typedef struct elements {
    const spsh__cpu_kernels *kernels;
    size_t count;
    float factor;
    const float *x, *dy;
    float *y;
} elements;

static size_t pieces_of(size_t count)
{
    return (count + SPSH__CPU_PIECE - 1) / SPSH__CPU_PIECE;
}

static size_t piece_count(size_t count, size_t piece)
{
    return spsh__least(SPSH__CPU_PIECE, count - piece * SPSH__CPU_PIECE);
}

static void clip_piece(void *work, size_t piece)
{
    const elements *e = (const elements *)work;
    const size_t at = piece * SPSH__CPU_PIECE;
    e->kernels->clip_fn(e->factor, e->x + at, e->y + at, piece_count(e->count, piece));
}

void spsh__cpu_clip_forward(spsh__backend *b, double limit, size_t count, spsh__backend_buffer x,
                            spsh__backend_buffer y)
{
    elements e = {spsh__cpu_of(b)->kernels, count, (float)limit, spsh__f32(x), NULL, spsh__f32(y)};
    spsh__cpu_run(b, clip_piece, &e, pieces_of(count));
}

static void clip_grad_piece(void *work, size_t piece)
{
    const elements *e = (const elements *)work;
    const size_t at = piece * SPSH__CPU_PIECE;
    e->kernels->clip_grad_fn(e->factor, e->x + at, e->dy + at, e->y + at,
                             piece_count(e->count, piece));
}

void spsh__cpu_clip_backward(spsh__backend *b, double limit, size_t count, spsh__backend_buffer y,
                             spsh__backend_buffer dy, spsh__backend_buffer dx)
{
    elements e = {
        spsh__cpu_of(b)->kernels, count, (float)limit, spsh__f32(y), spsh__f32(dy), spsh__f32(dx)};
    spsh__cpu_run(b, clip_grad_piece, &e, pieces_of(count));
}

static void scale_piece(void *work, size_t piece)
{
    const elements *e = (const elements *)work;
    float *y = e->y + piece * SPSH__CPU_PIECE;
    e->kernels->affine_fn(e->factor, y, 0, y, piece_count(e->count, piece));
}

void spsh__cpu_scale(spsh__backend *b, double factor, spsh__backend_buffer x, size_t count)
{
    elements e = {spsh__cpu_of(b)->kernels, count, (float)factor, NULL, NULL, spsh__f32(x)};
    spsh__cpu_run(b, scale_piece, &e, pieces_of(count));
}

static void axpy_piece(void *work, size_t piece)
{
    const elements *e = (const elements *)work;
    const size_t at = piece * SPSH__CPU_PIECE;
    const float abc[3] = {e->factor, 1, 0};
    e->kernels->blend_fn(abc, e->x + at, e->y + at, e->y + at, piece_count(e->count, piece));
}

void spsh__cpu_axpy(spsh__backend *b, double factor, spsh__backend_buffer x, spsh__backend_buffer y,
                    size_t count)
{
    elements e = {spsh__cpu_of(b)->kernels, count, (float)factor, spsh__f32(x), NULL, spsh__f32(y)};
    spsh__cpu_run(b, axpy_piece, &e, pieces_of(count));
}

static void mix_piece(void *work, size_t piece)
{
    const elements *e = (const elements *)work;
    const float abc[3] = {e->factor, 1, 0};
    const size_t end = piece * SPSH__CPU_PIECE + piece_count(e->count, piece);
    for (size_t at = piece * SPSH__CPU_PIECE; at < end; at += MIX_RUN) {
        const size_t run = spsh__least(MIX_RUN, end - at);
        float differences[MIX_RUN];
        for (size_t i = 0; i < run; i++)
            differences[i] = e->x[at + i] - e->dy[at + i];
        e->kernels->blend_fn(abc, differences, e->y + at, e->y + at, run);
    }
}

void spsh__cpu_mix(spsh__backend *b, double factor, spsh__backend_buffer theirs,
                   spsh__backend_buffer mine, spsh__backend_buffer y, size_t count)
{
    elements e = {spsh__cpu_of(b)->kernels, count,           (float)factor,
                  spsh__f32(theirs),        spsh__f32(mine), spsh__f32(y)};
    spsh__cpu_run(b, mix_piece, &e, pieces_of(count));
}

/* --- sums of squares: the count determines the number of parts, which are added in order --- */

enum { PARTS_MAX = 256 };

typedef struct square_work {
    const spsh__cpu_kernels *kernels;
    const float *x;
    size_t count, part_size;
    double sums[PARTS_MAX];
} square_work;

static void square_piece(void *work, size_t piece)
{
    square_work *s = (square_work *)work;
    const size_t at = piece * s->part_size;
    s->sums[piece] =
        s->kernels->square_sum_fn(s->x + at, 0, spsh__least(s->part_size, s->count - at));
}

double spsh__cpu_square_sum(spsh__backend *b, spsh__backend_buffer x, size_t count)
{
    square_work s = {.kernels = spsh__cpu_of(b)->kernels, .x = spsh__f32(x), .count = count};
    s.part_size = (count + PARTS_MAX - 1) / PARTS_MAX;
    s.part_size = s.part_size < SPSH__CPU_PIECE ? SPSH__CPU_PIECE : s.part_size;
    const size_t parts = (count + s.part_size - 1) / s.part_size;
    spsh__cpu_run(b, square_piece, &s, parts);
    double sum = 0;
    for (size_t i = 0; i < parts; i++)
        sum += s.sums[i];
    return sum;
}

/* --- optimisers --- */

typedef struct step {
    const spsh__cpu_kernels *kernels;
    const spsh__update *u;
    spsh__sgd_factors sgd;
    spsh__adamw_factors adamw;
} step;

static void sgd_piece(void *work, size_t piece)
{
    const step *s = (const step *)work;
    const size_t at = piece * SPSH__CPU_PIECE;
    float *moment = s->sgd.momentum > 0 ? spsh__f32(s->u->moments[0]) + at : NULL;
    s->kernels->sgd_fn(&s->sgd, spsh__f32(s->u->weights) + at, spsh__f32(s->u->gradients) + at,
                       moment, piece_count(s->u->count, piece));
}

void spsh__cpu_sgd(spsh__backend *b, const spsh__sgd *o, const spsh__update *u)
{
    step s = {.kernels = spsh__cpu_of(b)->kernels, .u = u};
    s.sgd = (spsh__sgd_factors){.rate = (float)o->rate,
                                .momentum = (float)o->momentum,
                                .decay = u->decays ? (float)o->weight_decay : 0,
                                .gradient_scale = (float)u->gradient_scale,
                                .is_nesterov = o->is_nesterov};
    spsh__cpu_run(b, sgd_piece, &s, pieces_of(u->count));
}

static void adamw_piece(void *work, size_t piece)
{
    const step *s = (const step *)work;
    const size_t at = piece * SPSH__CPU_PIECE;
    float *const moments[2] = {spsh__f32(s->u->moments[0]) + at, spsh__f32(s->u->moments[1]) + at};
    s->kernels->adamw_fn(&s->adamw, spsh__f32(s->u->weights) + at, spsh__f32(s->u->gradients) + at,
                         moments, piece_count(s->u->count, piece));
}

void spsh__cpu_adamw(spsh__backend *b, const spsh__adamw *o, const spsh__update *u)
{
    const double t = (double)o->step;
    step s = {.kernels = spsh__cpu_of(b)->kernels, .u = u};
    s.adamw = (spsh__adamw_factors){.keep = (float)(u->decays ? 1 - o->rate * o->weight_decay : 1),
                                    .beta1 = (float)o->beta1,
                                    .beta2 = (float)o->beta2,
                                    .gain1 = (float)(1 - o->beta1),
                                    .gain2 = (float)(1 - o->beta2),
                                    .epsilon = (float)o->epsilon,
                                    .gradient_scale = (float)u->gradient_scale,
                                    .step = (float)(o->rate / (1 - pow(o->beta1, t))),
                                    .root = (float)(1 / sqrt(1 - pow(o->beta2, t)))};
    spsh__cpu_run(b, adamw_piece, &s, pieces_of(u->count));
}
