/* series.h: any number of points in bounded memory, for curves.
 *
 *     spsh__series_open(&series, 2);
 *     ... spsh__series_add(&series, samples, (double[]){loss, rate}, 1) ...
 *     y = spsh__series_mean(&series, i, 0), x = spsh__series_x(&series, i)
 *     spsh__series_close(&series);
 *
 * Points are gathered in bunches of neighbours. A bunch is one point until there are
 * SPSH__SERIES_BUNCHES; then neighbours become one bunch, and each holds twice as many from there
 * on. Sums stay exact sums.
 */
#ifndef SPSH_TRAIN_SERIES_H
#define SPSH_TRAIN_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SPSH__SERIES_BUNCHES = 512 };

/* A column of a bunch; what is not finite is left out. */
typedef struct spsh__bunch {
    double sum, weight;     /* of value times weight; of weights: 0 where there is no value */
    double least, greatest; /* where weight > 0 */
} spsh__bunch;

typedef struct spsh__series {
    uint32_t columns;
    size_t count;                          /* of bunches */
    uint64_t points_each;                  /* of all bunches but the last */
    double x_sum[SPSH__SERIES_BUNCHES];    /* over the points of a bunch */
    double x_last[SPSH__SERIES_BUNCHES];   /* of its last one */
    uint64_t points[SPSH__SERIES_BUNCHES]; /* so many */
    spsh__bunch *bunches;                  /* [count][columns] */
} spsh__series;

/* false: no memory; nothing is left to close. */
bool spsh__series_open(spsh__series *series, uint32_t columns);
void spsh__series_close(spsh__series *series); /* zeros are fine */

/* x ascends; values[columns]. */
void spsh__series_add(spsh__series *series, double x, const double *values, double weight);

/* Forgets the bunches that reach beyond x. */
void spsh__series_cut(spsh__series *series, double x);

/* Of bunch i < count; NaN where no value was finite. */
double spsh__series_x(const spsh__series *series, size_t i);
double spsh__series_mean(const spsh__series *series, size_t i, uint32_t column);
const spsh__bunch *spsh__series_bunch(const spsh__series *series, size_t i, uint32_t column);

/* Of all points. */
double spsh__series_sum(const spsh__series *series, uint32_t column);

#endif
