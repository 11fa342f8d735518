/* svg.h: escaped text, bars, and histograms for pages, as well-formed XML.
 *
 * Text comes from corpora and is hostile. It must go through spsh__html_text, which removes
 * everything that a browser would interpret as markup or that XML forbids. Numbers are written in
 * the C locale, so the bytes of a page depend only on its content. Colors are classes (c0 ... c7),
 * which the page's style sheet defines for light and dark.
 */
#ifndef SPSH_PACK_SVG_H
#define SPSH_PACK_SVG_H

#include "byte_builder.h"

#define SPSH__SVG_COLORS 8U /* the last color is shared by all items beyond it */

/* Append escaped text, for content and attributes. Bytes that are not UTF-8 and characters that XML
 * forbids become U+FFFD. */
void spsh__html_text(spsh__builder *out, spsh_bytes text);

/* Append formatted text, at most 1 KiB. Nothing is escaped. */
void spsh__html_format(spsh__builder *out, const char *format, ...) SPSH_PRINTF(2, 3);

/* Return the smallest step of 1, 2, or 5 times a power of ten that fits into the range at most
 * `ticks` times. */
double spsh__svg_step(double range, double ticks);

/* Labels for axes. Positions are rounded to a tenth of a unit. anchor: "start", "middle", or "end".
 * Numbers are short: "0.05", "45 k", "1.2 M". */
void spsh__svg_text(spsh__builder *out, double x, double y, const char *anchor, const char *text);
void spsh__svg_number(spsh__builder *out, double x, double y, const char *anchor, double value);
void spsh__svg_rule(spsh__builder *out, const char *css, const double from[2], const double to[2]);

/** A part of a bar. */
typedef struct spsh__svg_slice {
    double value;
    unsigned color; /* 0 ... SPSH__SVG_COLORS - 1 */
} spsh__svg_slice;

/* Draw slices next to each other in a bar. `whole` is the value of the full length. The bar fills
 * the available width. */
void spsh__svg_bar(spsh__builder *out, const spsh__svg_slice *slices, size_t count, double whole);

/** A vertical line in a histogram that marks a limit. */
typedef struct spsh__svg_mark {
    double x;
    const char *label; /* short text */
} spsh__svg_mark;

typedef struct spsh__svg_histogram {
    const uint64_t *values;
    const uint64_t *others; /* second series, drawn next to the first; NULL: none */
    size_t count;
    const spsh__svg_mark *marks;
    size_t mark_count;
    double gap_first, gap_end; /* shaded range; none if equal */
    bool is_log;               /* bar heights are logarithmic, so 1 is visible next to a million */
    double first, step;        /* start of the first bar and width of each bar, in units of x */
    bool first_is_open;        /* the first bar holds all smaller values */
    bool last_is_open;         /* the last bar holds all larger values */
    unsigned color, other_color;
    const char *title;   /* description for screen readers */
    const char *x_label; /* with its unit */
    const char *y_label;
} spsh__svg_histogram;

void spsh__svg_histogram_draw(spsh__builder *out, const spsh__svg_histogram *histogram);

#endif
