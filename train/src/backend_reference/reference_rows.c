/* reference_rows.c: operators on rows [T][N][W]: biases, columns, masks, reversal, look-ahead. */
#include "reference.h"

void spsh__reference_bias_forward(spsh__backend *b, size_t rows, uint32_t width,
                                  spsh__backend_buffer bias, spsh__backend_buffer x)
{
    (void)b;
    for (size_t i = 0; i < rows * width; i++)
        spsh__f64(x)[i] += spsh__f64(bias)[i % width];
}

void spsh__reference_bias_backward(spsh__backend *b, size_t rows, uint32_t width,
                                   spsh__backend_buffer dy, spsh__backend_buffer dbias)
{
    (void)b;
    for (size_t i = 0; i < rows * width; i++)
        spsh__f64(dbias)[i % width] += spsh__f64(dy)[i];
}

void spsh__reference_copy_columns(spsh__backend *b, const spsh__columns *c)
{
    (void)b;
    for (size_t row = 0; row < c->rows; row++) {
        for (size_t w = 0; w < c->width; w++)
            spsh__f64(c->to)[row * c->to_stride + w] = spsh__f64(c->from)[row * c->from_stride + w];
    }
}

void spsh__reference_mask_rows(spsh__backend *b, const spsh__rows *s, const uint32_t *lengths,
                               spsh__backend_buffer x)
{
    (void)b;
    const size_t count = (size_t)s->frames * s->batch * s->width;
    for (size_t i = 0; i < count; i++) {
        const size_t row = i / s->width;
        if (row / s->batch >= lengths[row % s->batch])
            spsh__f64(x)[i] = 0;
    }
}

void spsh__reference_reverse(spsh__backend *b, const spsh__rows *s, const uint32_t *lengths,
                             spsh__backend_buffer from, spsh__backend_buffer to)
{
    (void)b;
    const size_t count = (size_t)s->frames * s->batch * s->width;
    for (size_t i = 0; i < count; i++) {
        const size_t w = i % s->width;
        const size_t n = i / s->width % s->batch;
        const size_t t = i / s->width / s->batch;
        const size_t other = t < lengths[n] ? lengths[n] - 1 - t : t;
        spsh__f64(to)[(other * s->batch + n) * s->width + w] = spsh__f64(from)[i];
    }
}

void spsh__reference_lookahead_forward(spsh__backend *b, const spsh__lookahead *l,
                                       spsh__backend_buffer x, spsh__backend_buffer y)
{
    (void)b;
    const size_t row = (size_t)l->batch * l->width; /* elements of a frame */
    for (size_t i = 0; i < row * l->frames; i++) {
        const size_t w = i % l->width;
        double sum = 0;
        for (size_t j = 0; j < l->context && i / row + j < l->frames; j++)
            sum += spsh__f64(l->weight)[w * l->context + j] * spsh__f64(x)[i + j * row];
        spsh__f64(y)[i] = sum;
    }
}

void spsh__reference_lookahead_backward(spsh__backend *b, const spsh__lookahead *l,
                                        const spsh__lookahead_grad *g)
{
    (void)b;
    const size_t row = (size_t)l->batch * l->width;
    for (size_t i = 0; g->dx.data != NULL && i < row * l->frames; i++)
        spsh__f64(g->dx)[i] = 0;
    for (size_t i = 0; i < row * l->frames; i++) {
        const size_t weights = i % l->width * l->context;
        const double dy = spsh__f64(g->dy)[i];
        for (size_t j = 0; j < l->context && i / row + j < l->frames; j++) {
            spsh__f64(g->dweight)[weights + j] += dy * spsh__f64(g->x)[i + j * row];
            if (g->dx.data != NULL)
                spsh__f64(g->dx)[i + j * row] += dy * spsh__f64(l->weight)[weights + j];
        }
    }
}
