/* cpu_loss.c: softmax, cross-entropy, CTC. Losses are summed over the rows of a part and over
 * parts, in order. Only the number of rows determines the parts. */
#include <math.h>
#include <string.h>

#include "backend/ctc.h"
#include "cpu.h"

enum { PARTS_MAX = 64 };

static spsh__rows_work softmax_work_of(const spsh__backend *b, size_t rows, size_t width,
                                       const float *x, float *y)
{
    return (spsh__rows_work){spsh__cpu_of(b)->kernels,           rows, width,
                             (rows + PARTS_MAX - 1) / PARTS_MAX, x,    y};
}

/* Empty rows have no parts. */
static size_t part_count(const spsh__rows_work *w)
{
    return w->rows == 0 || w->width == 0 ? 0 : spsh__rows_parts(w);
}

static void log_softmax_part(void *work, size_t part)
{
    const spsh__rows_work *w = (const spsh__rows_work *)work;
    for (size_t row = part * w->rows_per_part; row < spsh__rows_end(w, part); row++) {
        const float *x = w->from + row * w->width;
        const float most = w->kernels->max_fn(x, w->width);
        const double sum = log(w->kernels->exp_fn(x, most, NULL, w->width)) + (double)most;
        w->kernels->affine_fn(1, x, (float)-sum, w->to + row * w->width, w->width);
    }
}

void spsh__cpu_log_softmax(spsh__backend *b, size_t rows, uint32_t width, spsh__backend_buffer x,
                           spsh__backend_buffer y)
{
    spsh__rows_work w = softmax_work_of(b, rows, width, spsh__f32(x), spsh__f32(y));
    spsh__cpu_run(b, log_softmax_part, &w, part_count(&w));
}

typedef struct argmax_work {
    spsh__rows_work rows;
    uint32_t *found;
} argmax_work;

static void argmax_part(void *work, size_t part)
{
    const argmax_work *w = (const argmax_work *)work;
    for (size_t row = part * w->rows.rows_per_part; row < spsh__rows_end(&w->rows, part); row++) {
        const float *x = w->rows.from + row * w->rows.width;
        uint32_t best = 0;
        for (uint32_t i = 1; i < w->rows.width; i++)
            best = x[i] > x[best] ? i : best;
        w->found[row] = best;
    }
}

void spsh__cpu_argmax(spsh__backend *b, size_t rows, uint32_t width, spsh__backend_buffer x,
                      uint32_t *ret)
{
    argmax_work w = {.rows = softmax_work_of(b, rows, width, spsh__f32(x), NULL)};
    w.found = ret;
    spsh__cpu_run(b, argmax_part, &w, part_count(&w.rows));
}

/* --- cross-entropy --- */

typedef struct entropy_work {
    spsh__rows_work softmax;
    const spsh__cross_entropy *c;
    double losses[PARTS_MAX];
    uint64_t right[PARTS_MAX];
} entropy_work;

static void entropy_row(entropy_work *w, size_t part, size_t row)
{
    const spsh__rows_work *s = &w->softmax;
    const uint32_t state = w->c->states[row];
    const float *x = s->from + row * s->width;
    float *dx = s->to == NULL ? NULL : s->to + row * s->width;
    if (state == UINT32_MAX) {
        if (w->c->row_losses != NULL)
            w->c->row_losses[row] = 0;
        if (dx != NULL)
            memset(dx, 0, s->width * sizeof(*dx));
        return;
    }
    const float most = s->kernels->max_fn(x, s->width);
    const float own = x[state];
    size_t first = 0;
    while (first < s->width && x[first] != most)
        first++;
    const double sum = s->kernels->exp_fn(x, most, dx, s->width);
    const double loss = (double)most + log(sum) - (double)own;
    w->losses[part] += loss;
    if (w->c->row_losses != NULL)
        w->c->row_losses[row] = loss;
    w->right[part] += first == state;
    if (dx == NULL)
        return;
    s->kernels->affine_fn((float)(w->c->scale / sum), dx, 0, dx, s->width);
    dx[state] -= (float)w->c->scale;
}

static void entropy_part(void *work, size_t part)
{
    entropy_work *w = (entropy_work *)work;
    for (size_t row = part * w->softmax.rows_per_part; row < spsh__rows_end(&w->softmax, part);
         row++)
        entropy_row(w, part, row);
}

void spsh__cpu_cross_entropy(spsh__backend *b, spsh__cross_entropy *c)
{
    entropy_work w = {.c = c};
    w.softmax = softmax_work_of(b, c->rows, c->width, spsh__f32(c->logits), spsh__f32(c->dlogits));
    const size_t parts = part_count(&w.softmax);
    spsh__cpu_run(b, entropy_part, &w, parts);
    c->loss = 0;
    c->right = 0;
    for (size_t i = 0; i < parts; i++) {
        c->loss += w.losses[i];
        c->right += w.right[i];
    }
}

/* --- CTC: utterances in turn, with scratch per utterance in progress --- */

enum { CTC_LANES_MAX = 16 };

typedef struct ctc_work {
    const spsh__ctc_shape *s;
    const uint32_t *lengths;
    const spsh__label_batch *labels;
    const spsh__ctc_io *io;
    float *scratch;
    size_t scratch_floats, lanes;
} ctc_work;

static uint32_t label_count(const spsh__label_batch *labels, size_t n)
{
    return labels->offsets[n + 1] - labels->offsets[n];
}

static uint32_t frames_of(const ctc_work *w, size_t n)
{
    return w->lengths[n] < w->s->frames ? w->lengths[n] : w->s->frames;
}

static void clear_rows(const ctc_work *w, size_t n, uint32_t from)
{
    const size_t symbols = w->s->symbols;
    float *d = spsh__f32(w->io->dlogits);
    for (size_t t = from; d != NULL && t < w->s->frames; t++)
        memset(d + (t * w->s->batch + n) * symbols, 0, symbols * sizeof(*d));
}

static void one_utterance(const ctc_work *w, size_t n, float *scratch)
{
    const spsh__ctc_shape *s = w->s;
    const double weight = w->io->weights == NULL ? 1 : w->io->weights[n];
    float *d = spsh__f32(w->io->dlogits);
    const spsh__ctc_utterance u = {.frames = frames_of(w, n),
                                   .symbols = s->symbols,
                                   .blank = s->blank,
                                   .stride = (size_t)s->batch * s->symbols,
                                   .labels = w->labels->labels + w->labels->offsets[n],
                                   .label_count = label_count(w->labels, n),
                                   .scale = s->scale * weight};
    clear_rows(w, n, u.frames);
    if (u.label_count > u.frames) { /* infeasible, and may not fit into scratch */
        clear_rows(w, n, 0);
        w->io->results[n] = (spsh__ctc_result){(double)INFINITY, true};
        return;
    }
    w->io->results[n] = spsh__ctc_f32(&u, spsh__f32(w->io->logits) + n * s->symbols,
                                      d == NULL ? NULL : d + n * s->symbols, scratch);
    if (weight == 0)
        clear_rows(w, n, 0);
}

static void ctc_lane(void *work, size_t lane)
{
    const ctc_work *w = (const ctc_work *)work;
    for (size_t n = lane; n < w->s->batch; n += w->lanes)
        one_utterance(w, n, w->scratch + lane * w->scratch_floats);
}

void spsh__cpu_ctc(spsh__backend *b, const spsh__ctc_shape *s, const uint32_t *lengths,
                   const spsh__label_batch *labels, const spsh__ctc_io *io)
{
    ctc_work w = {s, lengths, labels, io, NULL, 0, spsh__least(s->batch, CTC_LANES_MAX)};
    for (size_t n = 0; n < s->batch; n++) {
        const uint32_t frames = frames_of(&w, n);
        const uint32_t count = (uint32_t)spsh__least(label_count(labels, n), frames);
        const uint32_t kept = io->dlogits.data != NULL ? frames : 1;
        const size_t floats = spsh__ctc_scratch(kept, count, s->symbols);
        w.scratch_floats = floats > w.scratch_floats ? floats : w.scratch_floats;
    }
    w.scratch_floats = spsh__round_up(w.scratch_floats, SPSH__LANES_MAX);
    w.scratch = spsh__cpu_scratch(b, w.lanes * w.scratch_floats);
    if (w.scratch != NULL)
        spsh__cpu_run(b, ctc_lane, &w, w.lanes);
}
