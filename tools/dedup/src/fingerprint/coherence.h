/* coherence.h: how well two pieces of 8 kHz audio agree as waveforms, and as envelopes.
 *
 * Everything here is double precision and looks at a stretch that the prints have aligned already
 * to some 60 ms. Nothing of it is stored; docs/FINGERPRINT.md does not bind it.
 */
#ifndef SPSH_DEDUP_COHERENCE_H
#define SPSH_DEDUP_COHERENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "speechshard/base.h"

#define SPSH__LAG_MAX     512 /* samples of 8 kHz either way: 64 ms */
#define SPSH__FILTER_HALF 64  /* samples by which the band-pass reaches beyond a stretch */

/* Two stretches, band-passed from 300 to 3,400 Hz. Sample i of a goes with b[i + SPSH__LAG_MAX]. */
typedef struct spsh__stretch {
    double *a; /* count values */
    double *b; /* count + 2 * SPSH__LAG_MAX */
    size_t count;
} spsh__stretch;

typedef struct spsh__correlation {
    double ncc;       /* normalised correlation at the best lag, -1 to 1 */
    double ncc_white; /* the same with both long-term spectra made flat, at its own best lag */
    double lag;       /* of b behind a, in samples, fractional */
} spsh__correlation;

typedef struct spsh__drift {
    double
        block_median;   /* of the magnitudes of 200 ms blocks' correlations, each at its best lag */
    double block_share; /* of blocks above good_min */
    uint32_t block_count; /* loud enough to count */
    uint32_t good_count;
    size_t gap_first; /* samples: the longest stretch whose loud blocks are all below gap_max */
    size_t gap_count; /* 0: there is none of two loud blocks */
    double slope_ppm; /* how much longer b is; of a line through the good blocks' lags */
    double spread_ms; /* median distance of good blocks' lags from the line */
} spsh__drift;

/* Where in a signal to begin; first may be negative or beyond the end. */
typedef struct spsh__cut {
    const int32_t *samples;
    size_t size;
    int64_t first;
} spsh__cut;

/* Cuts count samples of a and what may belong to them of b, band-passed, zeros where there is
 * nothing. SPSH_OK or SPSH_E_NO_MEMORY; free with spsh__stretch_free. */
spsh_status spsh__stretch_make(spsh__cut a, spsh__cut b, size_t count, spsh__stretch *ret_stretch,
                               spsh_error *err);
void spsh__stretch_free(spsh__stretch *stretch);

/* The best lag within SPSH__LAG_MAX. Silence against anything: all 0. */
spsh_status spsh__correlate(const spsh__stretch *stretch, spsh__correlation *ret_correlation,
                            spsh_error *err);

/* Follows the lag through blocks of 200 ms, outwards from the best. Blocks below gap_max make gaps;
 * 0: none are looked for. */
spsh_status spsh__follow_drift(const spsh__stretch *stretch, double lag, double good_min,
                               double gap_max, spsh__drift *ret_drift, spsh_error *err);

/* Stretches b so that it is slope_ppm shorter, about the middle. */
spsh_status spsh__undo_drift(spsh__stretch *stretch, double slope_ppm, double lag, spsh_error *err);

/**
 * Correlation of the fine structure (4 ms windows every 1 ms) of twelve sub-band envelopes, at the
 * best of lags within 40 ms of `lag`. What it rests on, when the voice's pulses come and in which
 * bands, is kept by codecs that do not keep phases.
 */
spsh_status spsh__correlate_envelopes(const spsh__stretch *stretch, double lag,
                                      double *ret_correlation, spsh_error *err);

/* Share of a's energy in the eight strongest of 512 bins of its mean spectrum: 1 for tones. */
spsh_status spsh__find_tonality(const spsh__stretch *stretch, double *ret_share, spsh_error *err);

#endif
