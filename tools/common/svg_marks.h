/* svg_marks.h: what pictures of audio are drawn with: lines, labels, envelopes, files of their own.
 *
 *     spsh__svg_file_open(out, "pair", 600, 200, title, style);
 *     spsh__svg_label(out, 40, 20, "start", "0.5 s");
 *     spsh__svg_envelope(out, "c0", &lane);
 *     spsh__svg_file_close(out);
 *
 * Places are whole numbers, so that a page of many pictures stays small. Classes instead of
 * colours, as in svg.h; a file of its own brings them along, for light and dark.
 */
#ifndef SPSH_PACK_SVG_MARKS_H
#define SPSH_PACK_SVG_MARKS_H

#include "svg.h"

/** A picture that is a file. css: its class; title: for those who cannot see it; more_style: lines,
 * ended by NULL. */
void spsh__svg_file_open(spsh__builder *out, const char *css, int width, int height,
                         spsh_bytes title, const char *const *more_style);
void spsh__svg_file_close(spsh__builder *out);

/** anchor: "start", "middle" or "end"; css: a class, or NULL. What comes from a corpus goes between
 * open and close, through spsh__html_text. */
void spsh__svg_text_open(spsh__builder *out, int x, int y, const char *anchor, const char *css);
void spsh__svg_text_close(spsh__builder *out);

/** A text of our own. */
void spsh__svg_label(spsh__builder *out, int x, int y, const char *anchor, const char *text);

void spsh__svg_line(spsh__builder *out, const char *css, int x1, int y1, int x2, int y2);

/** At least one wide. */
void spsh__svg_rect(spsh__builder *out, const char *css, int x, int y, int width, int height);

/** The lowest and highest sample of each column; where high < low there is none. */
typedef struct spsh__svg_lane {
    const float *low, *high; /* as many as columns */
    int columns;
    int left, step; /* of the first column; from one to the next */
    int top, height;
    float peak; /* is drawn as high as the lane; 0: a line */
} spsh__svg_lane;

/** All samples as one outline around what is between the lowest and the highest. */
void spsh__svg_envelope(spsh__builder *out, const char *css, const spsh__svg_lane *lane);

#endif
