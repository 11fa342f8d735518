/* curve.h: a curve of numbers as SVG, for pages.
 *
 *     const spsh__curve curve = {.x = samples, .y = loss, .count = n, .title = "Loss", ...};
 *     spsh__curve_draw(out, &curve);
 *
 * A curve of more points than a screen has is drawn as the means of neighbours, over a band from
 * their least to their greatest. What is not finite is a gap.
 */
#ifndef SPSH_TRAIN_CURVE_H
#define SPSH_TRAIN_CURVE_H

#include "svg.h"

typedef struct spsh__curve {
    const double *x, *y; /* x ascends */
    size_t count;
    const double *marks; /* upright lines: restarts */
    size_t mark_count;
    bool is_log;    /* y; what is not above 0 is a gap */
    bool has_dots;  /* few points: each is seen */
    unsigned color; /* of svg.h */
    const char *title, *x_label, *y_label;
} spsh__curve;

/* Nothing where no point is finite. */
void spsh__curve_draw(spsh__builder *out, const spsh__curve *curve);

#endif
