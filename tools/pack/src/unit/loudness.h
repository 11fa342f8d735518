/* loudness.h: how loud recordings are: peak and RMS, counted in bins of one dB.
 *
 *     spsh__level level = {0};
 *     spsh__level_add(&level, SPSH_SAMPLE_I16, pcm, values);      // piece by piece
 *     spsh__level_count(&level, &counts);                         // one recording more
 *
 * Everything is measured on 16 bits and summed in integers, so the numbers do not depend on how the
 * PCM was cut into pieces. Wider formats lose what lies 96 dB below full scale.
 */
#ifndef SPSH_LOUDNESS_H
#define SPSH_LOUDNESS_H

#include "speechshard/audio.h"

#define SPSH__LEVEL_BINS       100U
#define SPSH__LEVEL_QUIET_DB   60U /* recordings whose RMS is below -60 dB are as good as silent */
#define SPSH__LEVEL_CLIPPED_AT 8U  /* so many values at full scale are no accident */

/** A recording. All zero: nothing added yet. */
typedef struct spsh__level {
    uint64_t values; /* samples of all channels */
    uint64_t square_sum;
    uint64_t full_scale_values; /* 32767 or more in magnitude */
    uint32_t peak;              /* magnitude: 0 ... 32768 */
} spsh__level;

/** Many recordings. Bin k holds levels in (-k - 1, -k] dB of full scale; the last one all below. */
typedef struct spsh__level_counts {
    uint64_t recordings;
    uint64_t clipped;
    uint64_t peaks[SPSH__LEVEL_BINS];
    uint64_t rms[SPSH__LEVEL_BINS];
} spsh__level_counts;

#define SPSH__LEVEL_COUNTS_WORDS (sizeof(spsh__level_counts) / sizeof(uint64_t))

/* values: samples of all channels. */
void spsh__level_add(spsh__level *level, spsh_sample_format format, const void *pcm, size_t values);

void spsh__level_count(const spsh__level *level, spsh__level_counts *counts);

/* Recordings whose RMS is below SPSH__LEVEL_QUIET_DB. */
uint64_t spsh__level_quiet(const spsh__level_counts *counts);

#endif
