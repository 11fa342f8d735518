/* loudness.h: loudness of recordings: peak and RMS, counted in bins of one dB.
 *
 *     spsh__level level = {0};
 *     spsh__level_add(&level, SPSH_SAMPLE_I16, pcm, values);      // piece by piece
 *     spsh__level_count(&level, &counts);                         // one recording more
 *
 * Everything is measured on 16 bits and summed in integers, so the numbers do not depend on how the
 * PCM was cut into pieces. Wider formats lose everything more than 96 dB below full scale.
 */
#ifndef SPSH_LOUDNESS_H
#define SPSH_LOUDNESS_H

#include "speechshard/audio.h"

#define SPSH__LEVEL_BINS       100U
#define SPSH__LEVEL_QUIET_DB   60U /* a recording with an RMS below -60 dB counts as silent */
#define SPSH__LEVEL_CLIPPED_AT 8U  /* this number of values at full scale counts as clipping */

/** Levels of one recording. Zero-initialize. */
typedef struct spsh__level {
    uint64_t values; /* samples of all channels */
    uint64_t square_sum;
    uint64_t full_scale_values; /* values with a magnitude of 32767 or more */
    uint32_t peak;              /* magnitude: 0 ... 32768 */
} spsh__level;

/** Levels of many recordings. Bin k counts levels in (-k - 1, -k] dB of full scale. The last bin
 * counts all lower levels. */
typedef struct spsh__level_counts {
    uint64_t recordings;
    uint64_t clipped;
    uint64_t peaks[SPSH__LEVEL_BINS];
    uint64_t rms[SPSH__LEVEL_BINS];
} spsh__level_counts;

#define SPSH__LEVEL_COUNTS_WORDS (sizeof(spsh__level_counts) / sizeof(uint64_t))

/* Add PCM to a recording. values: samples of all channels. */
void spsh__level_add(spsh__level *level, spsh_sample_format format, const void *pcm, size_t values);

void spsh__level_count(const spsh__level *level, spsh__level_counts *counts);

/* Return the number of recordings whose RMS is below -SPSH__LEVEL_QUIET_DB. */
uint64_t spsh__level_quiet(const spsh__level_counts *counts);

#endif
