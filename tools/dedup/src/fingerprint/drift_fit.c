/* drift_fit.c: a coarse search by blocks, then a fine search by the whole stretch.
 *
 * After removal of the closest step of 0.25 %, the remaining drift shifts the ends of a 200 ms
 * block by 0.1 ms, and blocks still correlate. The line through their lags then gives the remaining
 * drift. If there are too few blocks for a line, a search with halved steps maximizes the
 * correlation of the whole stretch.
 */
#include "drift_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speechshard/inside.h"

enum { PIECE = 4 * 8000, HOP = 8000, LINE_ROUNDS = 2, CLIMB_STEPS = 5, LINE_BLOCKS = 4 };
static const double step_ppm = 2500;
static const double climb_ppm = 800;

/* Result of removing a drift. */
typedef struct trial {
    double slope_ppm;
    spsh__correlation correlation;
    spsh__drift left; /* drift that remains; set only if good_min > 0 */
} trial;

/* Return the loudest seconds of a stretch, borrowed from it. */
static spsh__stretch loudest_piece(const spsh__stretch *stretch)
{
    spsh__stretch best = {stretch->a, stretch->b, stretch->count < PIECE ? stretch->count : PIECE};
    double most = -1;
    for (size_t first = 0; first + best.count <= stretch->count; first += HOP) {
        double energy = 0;
        for (size_t i = first; i < first + best.count; i++)
            energy += stretch->a[i] * stretch->a[i];
        if (energy <= most)
            continue;
        most = energy;
        best.a = stretch->a + first;
        best.b = stretch->b + first;
    }
    return best;
}

/* Remove a drift and correlate the result. If good_min > 0, also measure the remaining drift. */
static spsh_status try_slope(const spsh__stretch *piece, double slope_ppm, double good_min,
                             trial *ret_trial, spsh_error *err)
{
    const size_t b_count = piece->count + (size_t)2 * SPSH__LAG_MAX;
    spsh__stretch copy = {piece->a, calloc(b_count + 1, sizeof(double)), piece->count};
    trial made = {.slope_ppm = slope_ppm};
    spsh_status rc = copy.b == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    if (rc == SPSH_OK) {
        memcpy(copy.b, piece->b, b_count * sizeof(double));
        rc = spsh__undo_drift(&copy, slope_ppm, 0, err);
    }
    if (rc == SPSH_OK)
        rc = spsh__correlate(&copy, &made.correlation, err);
    if (rc == SPSH_OK && good_min > 0)
        rc = spsh__follow_drift(&copy, made.correlation.lag, good_min, 0, &made.left, err);
    free(copy.b);
    if (rc == SPSH_OK)
        *ret_trial = made;
    return rc;
}

static spsh_status take_better(const spsh__stretch *piece, double slope_ppm, double good_min,
                               trial *best, spsh_error *err)
{
    trial made;
    spsh_status rc = try_slope(piece, slope_ppm, good_min, &made, err);
    if (rc == SPSH_OK && fabs(made.correlation.ncc) > fabs(best->correlation.ncc))
        *best = made;
    return rc;
}

spsh_status spsh__drift_fit(const spsh__stretch *stretch, double slope_max_ppm, double good_min,
                            double *ret_slope_ppm, spsh_error *err)
{
    const spsh__stretch piece = loudest_piece(stretch);
    trial best = {0};
    spsh_status rc = SPSH_OK;
    const int steps = (int)(slope_max_ppm / step_ppm);

    for (int i = -steps; rc == SPSH_OK && i <= steps; i++) {
        trial made;
        rc = try_slope(&piece, i * step_ppm, good_min, &made, err);
        if (rc == SPSH_OK && (i == -steps || made.left.block_median > best.left.block_median))
            best = made;
    }
    for (int i = 0; rc == SPSH_OK && i < LINE_ROUNDS && best.left.good_count >= LINE_BLOCKS; i++)
        rc = take_better(&piece, best.slope_ppm + best.left.slope_ppm, good_min, &best, err);
    for (int i = 0; rc == SPSH_OK && i < CLIMB_STEPS; i++) {
        const double from = best.slope_ppm;
        const double step = climb_ppm / (double)(1 << i);
        rc = take_better(&piece, from - step, 0, &best, err);
        if (rc == SPSH_OK)
            rc = take_better(&piece, from + step, 0, &best, err);
    }
    *ret_slope_ppm = best.slope_ppm;
    return rc;
}
