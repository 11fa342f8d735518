/* curve.h: curves of a series as SVG, for pages.
 *
 *     const spsh__line line = {.series = &history->steps, .column = SPSH__RUN_LOSS, .scale = 1};
 *     const spsh__curve curve = {.lines = &line, .line_count = 1, .title = "Loss", ...};
 *     spsh__curve_draw(out, &curve);
 *
 * A point is the mean of a bunch, over a band from its least to its greatest value.
 */
#ifndef SPSH_TRAIN_CURVE_H
#define SPSH_TRAIN_CURVE_H

#include "series.h"
#include "svg.h"

#define SPSH__NO_COLUMN UINT32_MAX

typedef struct spsh__line {
    const spsh__series *series;
    uint32_t column;
    uint32_t over;    /* the sum of column over the sum of this one, without a band; or
                         SPSH__NO_COLUMN */
    double scale;     /* what is drawn is so many times the value: 100 for per cent */
    const char *name; /* for the legend, which is there when there are several lines */
    unsigned color;   /* of svg.h */
    bool has_dots;    /* few points: each is seen */
} spsh__line;

typedef struct spsh__curve {
    const spsh__line *lines;
    size_t line_count;
    const double *marks; /* upright lines: restarts */
    size_t mark_count;
    bool is_log; /* y; what is not above 0 is a gap */
    const char *title, *x_label, *y_label;
} spsh__curve;

/* Nothing where no point is finite. */
void spsh__curve_draw(spsh__builder *out, const spsh__curve *curve);

#endif
