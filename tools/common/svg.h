/* svg.h: what pages are drawn with: escaped text, bars and histograms, as well-formed XML.
 *
 * Text comes from corpora and is hostile: it goes through spsh__html_text, which leaves nothing
 * that a browser would take for markup, and nothing that XML forbids. Numbers are written by the
 * C locale, so that the bytes of a page depend on nothing but its content. Colours are classes
 * (c0 ... c7), which the page's style sheet fills in for light and dark.
 */
#ifndef SPSH_PACK_SVG_H
#define SPSH_PACK_SVG_H

#include "byte_builder.h"

#define SPSH__SVG_COLORS 8U /* the last one for all that has none of its own */

/* Escaped, for content and for attributes. What is not UTF-8 or no character of XML: U+FFFD. */
void spsh__html_text(spsh__builder *out, spsh_bytes text);

/* Text with "%s" and the like; at most 1 KiB. Nothing is escaped. */
void spsh__html_format(spsh__builder *out, const char *format, ...) SPSH_PRINTF(2, 3);

/* The smallest of 1, 2 or 5 times a power of ten of which at most `ticks` fit into the range. */
double spsh__svg_step(double range, double ticks);

/* For axes, in tenths of a unit. anchor: "start", "middle" or "end". Numbers are short: "0.05", "45
 * k", "1.2 M". */
void spsh__svg_text(spsh__builder *out, double x, double y, const char *anchor, const char *text);
void spsh__svg_number(spsh__builder *out, double x, double y, const char *anchor, double value);
void spsh__svg_rule(spsh__builder *out, const char *css, const double from[2], const double to[2]);

/** A part of a bar. */
typedef struct spsh__svg_slice {
    double value;
    unsigned color; /* 0 ... SPSH__SVG_COLORS - 1 */
} spsh__svg_slice;

/* Slices beside each other in a bar whose whole length is `whole`. As wide as its place. */
void spsh__svg_bar(spsh__builder *out, const spsh__svg_slice *slices, size_t count, double whole);

/** A line across a histogram: a limit. */
typedef struct spsh__svg_mark {
    double x;
    const char *label; /* short */
} spsh__svg_mark;

typedef struct spsh__svg_histogram {
    const uint64_t *values;
    const uint64_t *others; /* a second one, beside the bars of the first; NULL: none */
    size_t count;
    const spsh__svg_mark *marks;
    size_t mark_count;
    double gap_first, gap_end; /* shaded; nothing when they are equal */
    bool is_log;               /* bars grow with the logarithm: one is seen beside a million */
    double first, step;        /* where the first bar begins, and how wide each is, in units of x */
    bool first_is_open;        /* the first bar holds all that is less, */
    bool last_is_open;         /* the last one all that is more */
    unsigned color, other_color;
    const char *title;   /* what is shown, for those who cannot see it */
    const char *x_label; /* with its unit */
    const char *y_label;
} spsh__svg_histogram;

void spsh__svg_histogram_draw(spsh__builder *out, const spsh__svg_histogram *histogram);

#endif
