/* cosine.h: cosines as integers, so that everything made from them has the same bits everywhere.
 *
 * The mathematical library may differ by a unit in the last place between systems; one such unit in
 * a window or a filter is enough to flip a bit of a fingerprint. The table is part of
 * docs/FINGERPRINT.md.
 */
#ifndef SPSH_DEDUP_COSINE_H
#define SPSH_DEDUP_COSINE_H

#include <stdint.h>

#define SPSH__TURN      2048      /* steps of the table in a full turn */
#define SPSH__COSINE_1  (1 << 30) /* what 1 is */
#define SPSH__TURN_BITS 24        /* of spsh__cosine_fine: 2^24 is a full turn */

/* round(2^30 cos(2 pi step / 2048)), half to even; any step. */
int32_t spsh__cosine(int64_t step);

/* Linear between two steps of the table; angle in turns times 2^24, 0 or more. Error below 3e-6. */
int64_t spsh__cosine_fine(int64_t angle);

#endif
