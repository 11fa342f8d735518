/* canvas.h: an SVG picture: lines, text, envelopes and one kind of image.
 *
 *     canvas = spsh__canvas_new(1000, 400);
 *     spsh__canvas_line(canvas, SPSH__INK_LINE, 10, 20, 300, 20);
 *     spsh__canvas_text(canvas, &(spsh__canvas_place){10, 40, SPSH__LEFT, SPSH__INK_TEXT}, text);
 *     rc = spsh__canvas_finish(canvas, title, description, &out, &err);
 *     spsh__canvas_free(canvas);
 *
 * A unit is about a pixel. Text stays text in a generic font family, so that the viewer's fonts
 * draw every script. Colors follow the viewer's light or dark mode. Failures are remembered until
 * finish.
 */
#ifndef SPSH_PLOT_CANVAS_H
#define SPSH_PLOT_CANVAS_H

#include "svg_marks.h"

typedef enum spsh__ink {
    SPSH__INK_PAPER,
    SPSH__INK_TEXT,
    SPSH__INK_SOFT, /* less than text */
    SPSH__INK_LINE, /* less than that */
    SPSH__INK_WAVE,
    SPSH__INK_MASK,
    SPSH__INK_COUNT,
} spsh__ink;

/** Levels of images: 0 is the darkest colour of the map. */
#define SPSH__HEAT_LEVELS 240U

typedef enum spsh__anchor { SPSH__LEFT, SPSH__MIDDLE, SPSH__RIGHT } spsh__anchor;

typedef struct spsh__canvas_place {
    int x, y; /* y: the base line */
    spsh__anchor anchor;
    spsh__ink ink;
} spsh__canvas_place;

/** Columns * rows cells, the top row first, drawn over a place of any size: cells are not mixed. */
typedef struct spsh__heat {
    const uint8_t *levels; /* below SPSH__HEAT_LEVELS */
    uint32_t columns, rows;
    int x, y, width, height;
} spsh__heat;

typedef struct spsh__canvas spsh__canvas;

/** NULL: no memory. */
spsh__canvas *spsh__canvas_new(int width, int height);
void spsh__canvas_free(spsh__canvas *canvas);

/** Upright or level. */
void spsh__canvas_line(spsh__canvas *canvas, spsh__ink ink, int x1, int y1, int x2, int y2);
void spsh__canvas_rect(spsh__canvas *canvas, spsh__ink ink, int x, int y, int width, int height);

/** Text of any origin. Its direction is its own matter. */
void spsh__canvas_text(spsh__canvas *canvas, const spsh__canvas_place *place, spsh_bytes text);

void spsh__canvas_envelope(spsh__canvas *canvas, spsh__ink ink, const spsh__svg_lane *lane);
void spsh__canvas_heat(spsh__canvas *canvas, const spsh__heat *heat);

/** Appends the file. title, description: for those who cannot see it. */
SPSH_NODISCARD spsh_status spsh__canvas_finish(spsh__canvas *canvas, const char *title,
                                               const char *description, spsh__builder *out,
                                               spsh_error *err);

/** 0xrrggbb of a level. */
uint32_t spsh__heat_color(uint32_t level);

#endif
