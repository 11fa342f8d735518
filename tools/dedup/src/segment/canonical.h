/* canonical.h: digests of decoded samples that do not depend on the container.
 *
 * docs/reference/FINGERPRINT.md 5 is normative. The samples are interleaved, 32 bits wide, and
 * left-justified, so 16-bit samples stored in 24 bits give the same digest as 16-bit samples. The
 * digests cover the rate, the channel count, and the samples.
 */
#ifndef SPSH_DEDUP_CANONICAL_H
#define SPSH_DEDUP_CANONICAL_H

#include <stdbool.h>

#include "speechshard/base.h"

typedef struct spsh__digests {
    uint8_t full[16];
    uint8_t trim[16]; /* without leading and trailing zero frames; all zero if every sample is 0 */
    uint8_t mono[16]; /* digest of the first channel, trimmed, if all channels are equal */
    uint64_t trim_first, trim_count; /* in samples per channel */
    uint32_t clipped_count;          /* samples at 16-bit full scale in runs of at least 3 */
} spsh__digests;

typedef struct spsh__canonical spsh__canonical;

spsh_status spsh__canonical_new(spsh__canonical **ret_canonical, spsh_error *err);
/* Start a recording, also after a finish, or instead of one. channels: 1 to SPSH_CHANNELS_MAX. */
void spsh__canonical_begin(spsh__canonical *canonical, uint32_t rate_hz, uint32_t channels);
/* Add count samples per channel. The size of the pieces does not change the digests. */
void spsh__canonical_push(spsh__canonical *canonical, const int32_t *samples, size_t count);
void spsh__canonical_finish(spsh__canonical *canonical, spsh__digests *ret_digests);
void spsh__canonical_free(spsh__canonical *canonical);

#endif
