/* series.h: any number of points in bounded memory, for curves.
 *
 *     spsh__series_open(&series, 2);
 *     ... spsh__series_add(&series, samples, (double[]){loss, rate}, 1) ...
 *     y = spsh__series_mean(&series, i, 0), x = spsh__series_x(&series, i)
 *     spsh__series_close(&series);
 *
 * Adjacent points share a bin. A bin holds one point until SPSH__SERIES_BINS bins are full.
 * Then adjacent bins are merged, and each bin holds twice as many points from there on. Merging
 * keeps the sums.
 */
#ifndef SPSH_TRAIN_SERIES_H
#define SPSH_TRAIN_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SPSH__SERIES_BINS = 512 };

/* One column of a bin. Values that are not finite are ignored. */
typedef struct spsh__bin {
    double sum, weight;     /* sum of value times weight; sum of weights: 0 without values */
    double least, greatest; /* minimum and maximum; valid if weight > 0 */
} spsh__bin;

typedef struct spsh__series {
    uint32_t columns;
    size_t count;                       /* number of bins */
    uint64_t points_each;               /* capacity of each bin; only the last may hold fewer */
    double x_sum[SPSH__SERIES_BINS];    /* sum of x over the points of a bin */
    double x_last[SPSH__SERIES_BINS];   /* x of the last point of a bin */
    uint64_t points[SPSH__SERIES_BINS]; /* number of points in a bin */
    spsh__bin *bins;                    /* [count][columns] */
} spsh__series;

/* false: no memory, and nothing to close. */
bool spsh__series_open(spsh__series *series, uint32_t columns);
void spsh__series_close(spsh__series *series); /* a zeroed series is fine */

/* Add a point. x must ascend. values has one value per column. */
void spsh__series_add(spsh__series *series, double x, const double *values, double weight);

/* Remove the bins that extend beyond x. */
void spsh__series_cut(spsh__series *series, double x);

/* Return the mean x or the mean value of bin i < count. NaN if no value was finite. */
double spsh__series_x(const spsh__series *series, size_t i);
double spsh__series_mean(const spsh__series *series, size_t i, uint32_t column);
const spsh__bin *spsh__series_bin(const spsh__series *series, size_t i, uint32_t column);

/* Return the sum over all points. */
double spsh__series_sum(const spsh__series *series, uint32_t column);

#endif
