/* svg_marks.h: drawing elements for pictures of audio: lines, labels, envelopes, and SVG files.
 *
 *     spsh__svg_file_open(out, "pair", 600, 200, title, style);
 *     spsh__svg_label(out, 40, 20, "start", "0.5 s");
 *     spsh__svg_envelope(out, "c0", &lane);
 *     spsh__svg_file_close(out);
 *
 * Coordinates are whole numbers, so that a page of many pictures stays small. Colors are classes,
 * as in svg.h. A separate SVG file contains its own style sheet for light and dark.
 */
#ifndef SPSH_PACK_SVG_MARKS_H
#define SPSH_PACK_SVG_MARKS_H

#include "svg.h"

/** Begin a picture as a separate file. css: its class; title: for screen readers; more_style:
 * NULL-terminated lines. */
void spsh__svg_file_open(spsh__builder *out, const char *css, int width, int height,
                         spsh_bytes title, const char *const *more_style);
void spsh__svg_file_close(spsh__builder *out);

/** anchor: "start", "middle", or "end"; css: a class, or NULL. Text from a corpus goes between open
 * and close, through spsh__html_text. */
void spsh__svg_text_open(spsh__builder *out, int x, int y, const char *anchor, const char *css);
void spsh__svg_text_close(spsh__builder *out);

/** Draw a text that does not come from a corpus. */
void spsh__svg_label(spsh__builder *out, int x, int y, const char *anchor, const char *text);

void spsh__svg_line(spsh__builder *out, const char *css, int x1, int y1, int x2, int y2);

/** Draw a rectangle with a width of at least 1. */
void spsh__svg_rect(spsh__builder *out, const char *css, int x, int y, int width, int height);

/** Minimum and maximum sample per column. A column with high < low has no samples. */
typedef struct spsh__svg_lane {
    const float *low, *high; /* arrays with one value per column */
    int columns;
    int left, step; /* x of the first column; distance of columns */
    int top, height;
    float peak; /* value drawn at full height of the lane; 0: draw a line */
} spsh__svg_lane;

/** Draw all samples as one outline that fills the range between minimum and maximum. */
void spsh__svg_envelope(spsh__builder *out, const char *css, const spsh__svg_lane *lane);

#endif
