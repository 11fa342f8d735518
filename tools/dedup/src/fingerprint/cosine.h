/* cosine.h: integer cosines, so that all tables made from them have identical bits on all systems.
 *
 * Mathematical libraries differ in the last bit, and one such difference in a window or a filter
 * can flip a fingerprint bit. The table is part of docs/reference/FINGERPRINT.md.
 */
#ifndef SPSH_DEDUP_COSINE_H
#define SPSH_DEDUP_COSINE_H

#include <stdint.h>

#define SPSH__TURN      2048      /* steps of the table per full turn */
#define SPSH__COSINE_1  (1 << 30) /* the value 1 as an integer */
#define SPSH__TURN_BITS 24        /* angle bits of spsh__cosine_fine: 2^24 is a full turn */

/* Return round(2^30 cos(2 pi step / 2048)), half to even, for any step. */
int32_t spsh__cosine(int64_t step);

/* Interpolate linearly between two steps of the table. The angle is in turns times 2^24, at least
 * 0. The error is below 3e-6. */
int64_t spsh__cosine_fine(int64_t angle);

#endif
