/* reference_loss.c: softmax and cross-entropy of rows. CTC is in ctc.c. */
#include <math.h>

#include "reference.h"

static double greatest(const double *x, uint32_t width)
{
    double best = x[0];
    for (uint32_t i = 1; i < width; i++)
        best = x[i] > best ? x[i] : best;
    return best;
}

/* ln of the sum of e^x, without overflow. */
static double log_sum(const double *x, uint32_t width)
{
    const double best = greatest(x, width);
    double sum = 0;
    for (uint32_t i = 0; i < width; i++)
        sum += exp(x[i] - best);
    return best + log(sum);
}

void spsh__reference_log_softmax(spsh__backend *b, size_t rows, uint32_t width,
                                 spsh__backend_buffer x, spsh__backend_buffer y)
{
    (void)b;
    for (size_t row = 0; width > 0 && row < rows; row++) {
        const double *from = spsh__f64(x) + row * width;
        const double sum = log_sum(from, width);
        for (uint32_t i = 0; i < width; i++)
            spsh__f64(y)[row * width + i] = from[i] - sum;
    }
}

static uint32_t first_greatest(const double *x, uint32_t width)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < width; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

void spsh__reference_argmax(spsh__backend *b, size_t rows, uint32_t width, spsh__backend_buffer x,
                            uint32_t *ret)
{
    (void)b;
    for (size_t row = 0; width > 0 && row < rows; row++)
        ret[row] = first_greatest(spsh__f64(x) + row * width, width);
}

static void row_gradient(const spsh__cross_entropy *c, const double *x, uint32_t state, double *dx)
{
    const bool is_learnt = state != UINT32_MAX;
    const double sum = is_learnt ? log_sum(x, c->width) : 0;
    for (uint32_t i = 0; i < c->width; i++) {
        const double error = exp(x[i] - sum) - (i == state ? 1 : 0);
        dx[i] = is_learnt ? error * c->scale : 0;
    }
}

void spsh__reference_cross_entropy(spsh__backend *b, spsh__cross_entropy *c)
{
    (void)b;
    c->loss = 0;
    c->right = 0;
    for (size_t row = 0; row < c->rows; row++) {
        const double *x = spsh__f64(c->logits) + row * c->width;
        const uint32_t state = c->states[row];
        const double loss = state != UINT32_MAX ? log_sum(x, c->width) - x[state] : 0;
        c->loss += loss;
        if (c->row_losses != NULL)
            c->row_losses[row] = loss;
        if (state != UINT32_MAX)
            c->right += first_greatest(x, c->width) == state;
        if (c->dlogits.data != NULL)
            row_gradient(c, x, state, spsh__f64(c->dlogits) + row * c->width);
    }
}
