/* series.c: see series.h. */
#include "series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static spsh__bin *at(const spsh__series *s, size_t i, uint32_t column)
{
    return &s->bins[i * s->columns + column];
}

bool spsh__series_open(spsh__series *s, uint32_t columns)
{
    *s = (spsh__series){.columns = columns, .points_each = 1};
    s->bins = (spsh__bin *)calloc((size_t)SPSH__SERIES_BINS * columns, sizeof(*s->bins));
    return s->bins != NULL;
}

void spsh__series_close(spsh__series *s)
{
    free(s->bins);
    s->bins = NULL;
    s->count = 0;
}

static void join(spsh__bin *a, const spsh__bin *b)
{
    if (!(b->weight > 0))
        return;
    a->least = a->weight > 0 ? fmin(a->least, b->least) : b->least;
    a->greatest = a->weight > 0 ? fmax(a->greatest, b->greatest) : b->greatest;
    a->sum += b->sum;
    a->weight += b->weight;
}

/* Merge bin b into bin a, for b > a. */
static void join_all(spsh__series *s, size_t a, size_t b)
{
    s->x_sum[a] += s->x_sum[b];
    s->x_last[a] = s->x_last[b];
    s->points[a] += s->points[b];
    for (uint32_t c = 0; c < s->columns; c++)
        join(at(s, a, c), at(s, b, c));
}

static void halve(spsh__series *s)
{
    for (size_t i = 0; i < s->count / 2; i++) {
        s->x_sum[i] = s->x_sum[2 * i];
        s->x_last[i] = s->x_last[2 * i];
        s->points[i] = s->points[2 * i];
        memmove(at(s, i, 0), at(s, 2 * i, 0), s->columns * sizeof(spsh__bin));
        join_all(s, i, 2 * i + 1);
    }
    s->count /= 2;
    s->points_each *= 2;
}

void spsh__series_add(spsh__series *s, double x, const double *values, double weight)
{
    if (s->count == 0 || s->points[s->count - 1] == s->points_each) {
        if (s->count == SPSH__SERIES_BINS)
            halve(s);
        s->x_sum[s->count] = 0;
        s->points[s->count] = 0;
        memset(at(s, s->count, 0), 0, s->columns * sizeof(spsh__bin));
        s->count++;
    }
    const size_t last = s->count - 1;
    s->x_sum[last] += x;
    s->x_last[last] = x;
    s->points[last]++;
    for (uint32_t c = 0; c < s->columns; c++) {
        const spsh__bin one = {values[c] * weight, weight, values[c], values[c]};
        if (isfinite(values[c]) && weight > 0)
            join(at(s, last, c), &one);
    }
}

void spsh__series_cut(spsh__series *s, double x)
{
    while (s->count > 0 && s->x_last[s->count - 1] > x)
        s->count--;
}

double spsh__series_x(const spsh__series *s, size_t i)
{
    return s->x_sum[i] / (double)s->points[i];
}

double spsh__series_mean(const spsh__series *s, size_t i, uint32_t column)
{
    const spsh__bin *b = at(s, i, column);
    return b->weight > 0 ? b->sum / b->weight : (double)NAN;
}

const spsh__bin *spsh__series_bin(const spsh__series *s, size_t i, uint32_t column)
{
    return at(s, i, column);
}

double spsh__series_sum(const spsh__series *s, uint32_t column)
{
    double sum = 0;
    for (size_t i = 0; i < s->count; i++)
        sum += at(s, i, column)->sum;
    return sum;
}
