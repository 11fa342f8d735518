/* sinc_table.h: interpolate a signal between its samples, with a windowed sinc of 16 samples on
 * each side, in 512 steps.
 */
#ifndef SPSH_DEDUP_SINC_TABLE_H
#define SPSH_DEDUP_SINC_TABLE_H

#include <stddef.h>

#define SPSH__SINC_HALF  16
#define SPSH__SINC_TAPS  32 /* samples on both sides */
#define SPSH__SINC_STEPS 512

/* Return SPSH__SINC_TAPS weights for each of SPSH__SINC_STEPS + 1 steps. The first call computes
 * them for the process. */
const double *spsh__sinc_table(void);

/* Return the value at `part` (0 to 1) of a sample past x[SPSH__SINC_HALF - 1]. x has
 * SPSH__SINC_TAPS values. */
double spsh__sinc_at(const double *table, const double *x, double part);

#endif
