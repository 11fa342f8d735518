/* drift_fit.h: by how much one of two stretches is slower, where their lags cannot be followed.
 *
 * At more than half a percent blocks of 200 ms do not correlate any more; so speeds are tried.
 */
#ifndef SPSH_DEDUP_DRIFT_FIT_H
#define SPSH_DEDUP_DRIFT_FIT_H

#include "coherence.h"

/**
 * The drift within slope_max_ppm either way whose undoing makes the loudest seconds of the stretch
 * correlate best.
 *
 * @param good_min  as for spsh__follow_drift
 * @param ret_slope_ppm  how much longer b is
 * @return SPSH_OK or SPSH_E_NO_MEMORY. Time: 0.1 s.
 */
spsh_status spsh__drift_fit(const spsh__stretch *stretch, double slope_max_ppm, double good_min,
                            double *ret_slope_ppm, spsh_error *err);

#endif
