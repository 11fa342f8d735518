/* sinc_table.h: what a signal is between its samples: a windowed sinc, 16 samples either way, in
 * 512 steps.
 */
#ifndef SPSH_DEDUP_SINC_TABLE_H
#define SPSH_DEDUP_SINC_TABLE_H

#include <stddef.h>

#define SPSH__SINC_HALF  16
#define SPSH__SINC_TAPS  32 /* twice that */
#define SPSH__SINC_STEPS 512

/* SPSH__SINC_TAPS weights for each of SPSH__SINC_STEPS + 1 steps; NULL: no memory. Free with free.
 */
double *spsh__sinc_table_new(void);

/* The value `part` (0 to 1) of a sample after x[SPSH__SINC_HALF - 1]; x has SPSH__SINC_TAPS. */
double spsh__sinc_at(const double *table, const double *x, double part);

#endif
