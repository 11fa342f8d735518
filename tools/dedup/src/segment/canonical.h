/* canonical.h: digests of decoded samples that do not depend on the container they came in.
 *
 * docs/FINGERPRINT.md 5 is normative. Samples are interleaved, 32 bits, left-justified; so 16 bits
 * in 24 are the same as 16 bits. What is hashed is the rate, the channel count and the samples.
 */
#ifndef SPSH_DEDUP_CANONICAL_H
#define SPSH_DEDUP_CANONICAL_H

#include <stdbool.h>

#include "speechshard/base.h"

typedef struct spsh__digests {
    uint8_t full[16];
    uint8_t trim[16]; /* without frames of zeros at either end; of nothing but zeros: all zero */
    uint8_t mono[16]; /* of the first channel alone, trimmed, when all channels are equal */
    uint64_t trim_first, trim_count; /* samples per channel */
    uint32_t clipped_count;          /* samples at full scale (of 16 bits) in runs of 3 and more */
} spsh__digests;

typedef struct spsh__canonical spsh__canonical;

spsh_status spsh__canonical_new(spsh__canonical **ret_canonical, spsh_error *err);
/* Also after a finish, or instead of one. channels: 1 to SPSH_CHANNELS_MAX. */
void spsh__canonical_begin(spsh__canonical *canonical, uint32_t rate_hz, uint32_t channels);
/* count samples per channel, in any pieces. */
void spsh__canonical_push(spsh__canonical *canonical, const int32_t *samples, size_t count);
void spsh__canonical_finish(spsh__canonical *canonical, spsh__digests *ret_digests);
void spsh__canonical_free(spsh__canonical *canonical);

#endif
