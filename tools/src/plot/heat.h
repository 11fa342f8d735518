/* heat.h: cells of an image by their levels, embedded in an SVG picture as a PNG file of one pixel
 * per cell (libpng). Tens of thousands of vector cells would be slow to draw.
 */
#ifndef SPSH_PLOT_HEAT_H
#define SPSH_PLOT_HEAT_H

#include "common/svg.h"

/** Levels of images: 0 is the darkest color of the map. */
#define SPSH__HEAT_LEVELS 240U

/** Image of columns * rows cells, the top row first. Scaled to any size without smoothing. */
typedef struct spsh__heat {
    const uint8_t *levels; /* below SPSH__HEAT_LEVELS */
    uint32_t columns, rows;
    int x, y, width, height;
} spsh__heat;

/** Append the image; out->failed: no memory. */
void spsh__heat_draw(spsh__builder *out, const spsh__heat *heat);

/** Return the color of a level as 0xrrggbb. */
uint32_t spsh__heat_color(uint32_t level);

#endif
