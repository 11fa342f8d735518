/* ffmpeg_claim.h: the length that a file states, for files whose FFmpeg demuxers do not report the
 * length or a cut file.
 */
#ifndef SPSH_FFMPEG_CLAIM_H
#define SPSH_FFMPEG_CLAIM_H

#include <stdbool.h>

#include "speechshard/audio.h"

typedef struct spsh__claim {
    uint64_t samples; /* at rate_hz; SPSH_SAMPLES_UNKNOWN: none */
    uint32_t rate_hz; /* 0: the rate of the output */
    uint64_t tolerance;
    bool is_exact;   /* counted in samples, or in frames */
    const char *cut; /* how the file is cut; NULL: it is not */
} spsh__claim;

#define SPSH__CLAIM_INIT                                                                           \
    {                                                                                              \
        SPSH_SAMPLES_UNKNOWN, 0, 0, false, NULL                                                    \
    }

/* Walk frames (AMR, ADTS, G.722), or compare the sizes that the container states with the file.
 * Returns true if the claim is complete. */
bool spsh__claim_find(const char *demuxer, spsh_bytes file, spsh__claim *claim);

/* The rate of the output may differ from the header's: spectral band replication doubles it. */
void spsh__claim_scale(spsh__claim *claim, uint32_t rate_hz);

static inline uint64_t spsh__load_le(const uint8_t *at, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

#endif
