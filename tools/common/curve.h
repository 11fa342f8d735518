/* curve.h: curves of a series as SVG, for pages.
 *
 *     const spsh__line line = {.series = &history->steps, .column = SPSH__RUN_LOSS, .scale = 1};
 *     const spsh__curve curve = {.lines = &line, .line_count = 1, .title = "Loss", ...};
 *     spsh__curve_draw(out, &curve);
 *
 * A point is the mean of one bin, drawn over a band from the bin's minimum to its maximum.
 */
#ifndef SPSH_TRAIN_CURVE_H
#define SPSH_TRAIN_CURVE_H

#include "series.h"
#include "svg.h"

#define SPSH__NO_COLUMN UINT32_MAX

typedef struct spsh__line {
    const spsh__series *series;
    uint32_t column;
    uint32_t over;    /* column to divide by: sum / sum, without a band; or SPSH__NO_COLUMN */
    double scale;     /* factor of the drawn values: 100 for percent */
    const char *name; /* name in the legend, which is drawn for several lines */
    unsigned color;   /* color number of svg.h */
    bool has_dots;    /* draw a dot per point, for series with few points */
} spsh__line;

typedef struct spsh__curve {
    const spsh__line *lines;
    size_t line_count;
    const double *marks; /* positions of vertical lines: restarts */
    size_t mark_count;
    bool is_log; /* y is logarithmic; values not above 0 leave a gap */
    const char *title, *x_label, *y_label;
} spsh__curve;

/* Draw the curves. Draws nothing if no point is finite. */
void spsh__curve_draw(spsh__builder *out, const spsh__curve *curve);

#endif
