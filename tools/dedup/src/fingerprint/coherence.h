/* coherence.h: measure how well two stretches of 8 kHz audio agree, as waveforms and as envelopes.
 *
 * The functions use double precision, on a stretch that the prints have already aligned to about 60
 * ms. Their results are not stored in segments, so FINGERPRINT.md does not constrain them.
 */
#ifndef SPSH_DEDUP_COHERENCE_H
#define SPSH_DEDUP_COHERENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "speechshard/base.h"

#define SPSH__LAG_MAX     512 /* in samples at 8 kHz, in both directions: 64 ms */
#define SPSH__FILTER_HALF 64  /* samples before and after a stretch that the band-pass uses */

/* Two stretches, band-passed from 300 to 3,400 Hz. Sample i of a corresponds to b[i +
 * SPSH__LAG_MAX]. */
typedef struct spsh__stretch {
    double *a; /* count values */
    double *b; /* count + 2 * SPSH__LAG_MAX values */
    size_t count;
} spsh__stretch;

typedef struct spsh__correlation {
    double ncc;       /* normalized correlation at the best lag, -1 to 1 */
    double ncc_white; /* the same after flattening both long-term spectra, at its own best lag */
    double lag;       /* delay of b relative to a, in samples, fractional */
} spsh__correlation;

typedef struct spsh__drift {
    double block_median;  /* median magnitude of the correlations of 200 ms blocks, each at its best
                           lag */
    double block_share;   /* share of blocks above good_min */
    uint32_t block_count; /* number of blocks that are loud enough */
    uint32_t good_count;
    size_t gap_first; /* first sample of the longest stretch whose loud blocks are all below
                         gap_max */
    size_t gap_count; /* samples of that stretch; 0: no stretch has two loud blocks */
    double slope_ppm; /* relative excess length of b, from a line fit to the lags of the good
                         blocks */
    double spread_ms; /* median distance of the good blocks' lags from the line */
} spsh__drift;

/* A signal and a start position, which may be negative or past the end. */
typedef struct spsh__cut {
    const int32_t *samples;
    size_t size;
    int64_t first;
} spsh__cut;

/* Cut count samples of a and the corresponding samples of b, and band-pass both. Samples outside of
 * a signal are 0. SPSH_OK or SPSH_E_NO_MEMORY. Free the stretch with spsh__stretch_free. */
spsh_status spsh__stretch_make(spsh__cut a, spsh__cut b, size_t count, spsh__stretch *ret_stretch,
                               spsh_error *err);
void spsh__stretch_free(spsh__stretch *stretch);

/* Find the best lag within SPSH__LAG_MAX. If either side is silent, all results are 0. */
spsh_status spsh__correlate(const spsh__stretch *stretch, spsh__correlation *ret_correlation,
                            spsh_error *err);

/* Follow the lag through blocks of 200 ms, from the best block outward. Blocks below gap_max form
 * gaps; with gap_max 0, no gaps are searched. */
spsh_status spsh__follow_drift(const spsh__stretch *stretch, double lag, double good_min,
                               double gap_max, spsh__drift *ret_drift, spsh_error *err);

/* Resample b around its center so that it becomes slope_ppm shorter. */
spsh_status spsh__undo_drift(spsh__stretch *stretch, double slope_ppm, double lag, spsh_error *err);

/**
 * Correlate the fine structure (4 ms windows every 1 ms) of twelve sub-band envelopes, at the best
 * lag within 40 ms of `lag`. The envelopes show when the pulses of the voice occur, and in which
 * bands. Codecs that change phases preserve this timing.
 */
spsh_status spsh__correlate_envelopes(const spsh__stretch *stretch, double lag,
                                      double *ret_correlation, spsh_error *err);

/* Return the share of a's energy in the eight strongest of the 512 bins of its mean spectrum. It is
 * 1 for tones. */
spsh_status spsh__find_tonality(const spsh__stretch *stretch, double *ret_share, spsh_error *err);

#endif
