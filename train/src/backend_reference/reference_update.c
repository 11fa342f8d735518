/* reference_update.c: sums over arenas, and the optimizers as PyTorch defines them. */
#include <math.h>

#include "reference.h"

double spsh__reference_square_sum(spsh__backend *b, spsh__backend_buffer x, size_t count)
{
    (void)b;
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += spsh__f64(x)[i] * spsh__f64(x)[i];
    return sum;
}

void spsh__reference_scale(spsh__backend *b, double factor, spsh__backend_buffer x, size_t count)
{
    (void)b;
    for (size_t i = 0; i < count; i++)
        spsh__f64(x)[i] *= factor;
}

void spsh__reference_axpy(spsh__backend *b, double factor, spsh__backend_buffer x,
                          spsh__backend_buffer y, size_t count)
{
    (void)b;
    for (size_t i = 0; i < count; i++)
        spsh__f64(y)[i] += factor * spsh__f64(x)[i];
}

void spsh__reference_mix(spsh__backend *b, double factor, spsh__backend_buffer theirs,
                         spsh__backend_buffer mine, spsh__backend_buffer y, size_t count)
{
    (void)b;
    for (size_t i = 0; i < count; i++)
        spsh__f64(y)[i] += factor * (spsh__f64(theirs)[i] - spsh__f64(mine)[i]);
}

void spsh__reference_sgd(spsh__backend *b, const spsh__sgd *o, const spsh__update *u)
{
    (void)b;
    for (size_t i = 0; i < u->count; i++) {
        double *w = spsh__f64(u->weights) + i;
        double g = spsh__f64(u->gradients)[i] * u->gradient_scale;
        if (u->decays)
            g += o->weight_decay * *w;
        if (o->momentum != 0) {
            double *m = spsh__f64(u->moments[0]) + i;
            *m = o->momentum * *m + g;
            g = o->is_nesterov ? g + o->momentum * *m : *m;
        }
        *w -= o->rate * g;
    }
}

void spsh__reference_adamw(spsh__backend *b, const spsh__adamw *o, const spsh__update *u)
{
    (void)b;
    const double correction1 = 1 - pow(o->beta1, (double)o->step);
    const double correction2 = 1 - pow(o->beta2, (double)o->step);
    for (size_t i = 0; i < u->count; i++) {
        double *w = spsh__f64(u->weights) + i;
        double *m = spsh__f64(u->moments[0]) + i, *v = spsh__f64(u->moments[1]) + i;
        const double g = spsh__f64(u->gradients)[i] * u->gradient_scale;
        if (u->decays)
            *w -= o->rate * o->weight_decay * *w;
        *m = o->beta1 * *m + (1 - o->beta1) * g;
        *v = o->beta2 * *v + (1 - o->beta2) * g * g;
        *w -= o->rate * (*m / correction1) / (sqrt(*v / correction2) + o->epsilon);
    }
}
