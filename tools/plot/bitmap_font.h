/* bitmap_font.h: letters for pictures of pixels, so that they need no fonts of the machine and are
 * the same everywhere.
 *
 * A cell is 6 pixels wide and 11 high: two rows for accents, seven for capitals, two for tails.
 * There are ASCII, accents upon it, and what is written with it (sharp s as ss, curly quotes as
 * straight ones); any other character is a hollow box.
 */
#ifndef SPSH_PLOT_BITMAP_FONT_H
#define SPSH_PLOT_BITMAP_FONT_H

#include "speechshard/base.h"

enum {
    SPSH__FONT_WIDTH = 6,
    SPSH__FONT_HEIGHT = 11,
    SPSH__FONT_BASE = 9 /* rows above the base */
};

/** Rows from the top; bit 4 is the leftmost pixel of five. */
typedef struct spsh__glyph {
    uint8_t rows[SPSH__FONT_HEIGHT];
} spsh__glyph;

/** The cells of a text: at most capacity are written. Returns how many there are. */
size_t spsh__font_cells(spsh_bytes text, spsh__glyph *cells, size_t capacity);

#endif
