/* drift_fit.h: find the relative drift of two stretches whose lags cannot be followed.
 *
 * At a drift above half a percent, blocks of 200 ms no longer correlate. So the fit tries speeds.
 */
#ifndef SPSH_DEDUP_DRIFT_FIT_H
#define SPSH_DEDUP_DRIFT_FIT_H

#include "coherence.h"

/**
 * Find the drift within +-slope_max_ppm whose removal maximizes the correlation of the loudest
 * seconds of the stretch.
 *
 * @param good_min as for spsh__follow_drift @param ret_slope_ppm relative excess length of b
 * @return SPSH_OK or SPSH_E_NO_MEMORY. Time: 0.1 s.
 */
spsh_status spsh__drift_fit(const spsh__stretch *stretch, double slope_max_ppm, double good_min,
                            double *ret_slope_ppm, spsh_error *err);

#endif
