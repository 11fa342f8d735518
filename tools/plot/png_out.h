/* png_out.h: a picture of at most 256 colours as a PNG file (libpng, which nobody else includes).
 *
 *     const spsh__png png = {width, height, pixels, colors, 256, title, description};
 *     rc = spsh__png_write(&png, &out, &err);
 *
 * The same picture gives the same bytes with the same libpng and zlib: no time is written.
 */
#ifndef SPSH_PLOT_PNG_OUT_H
#define SPSH_PLOT_PNG_OUT_H

#include "builder.h"

typedef struct spsh__png {
    uint32_t width, height;
    const uint8_t *pixels;           /* numbers of colours, row after row from the top */
    const uint32_t *colors;          /* 0xrrggbb */
    uint32_t color_count;            /* 1 to 256 */
    const char *title, *description; /* UTF-8, kept as text; NULL: none */
} spsh__png;

/** Appends the file. SPSH_E_NO_MEMORY, SPSH_E_INVALID_ARG. */
SPSH_NODISCARD spsh_status spsh__png_write(const spsh__png *png, spsh__builder *out,
                                           spsh_error *err);

#endif
