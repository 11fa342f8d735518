/* heat.c: see heat.h. The color map is "magma" of matplotlib, by Nathaniel J. Smith and Stefan van
 * der Walt, in the public domain (CC0). Equal steps of a value look like equal steps of color, and
 * darkness is enough to show the order. The table holds every eighth of its 256 colors. Linear
 * interpolation differs by at most 3 of 255 from the original.
 */
#include "heat.h"

#include <nettle/base64.h>
#include <png.h>
#include <stdlib.h>

enum { ANCHORS = 33 };

static const uint32_t anchors[ANCHORS] = {
    0x000004, 0x030312, 0x0a0822, 0x130d34, 0x1d1147, 0x29115a, 0x36106b, 0x440f76, 0x51127c,
    0x5d177f, 0x6a1c81, 0x762181, 0x832681, 0x902a81, 0x9c2e7f, 0xaa337d, 0xb73779, 0xc43c75,
    0xd0416f, 0xdc4869, 0xe75263, 0xef5d5e, 0xf56b5c, 0xf9795d, 0xfc8961, 0xfd9869, 0xfea772,
    0xfeb67c, 0xfec488, 0xfed395, 0xfde2a3, 0xfcf0b2, 0xfcfdbf,
};

uint32_t spsh__heat_color(uint32_t level)
{
    const uint32_t whole = SPSH__HEAT_LEVELS - 1;
    const uint32_t at = (level < whole ? level : whole) * (ANCHORS - 1);
    const uint32_t first = at / whole;
    const uint32_t next = first + 1 < ANCHORS ? first + 1 : first;
    const uint32_t part = at % whole;
    uint32_t color = 0;
    for (uint32_t shift = 0; shift <= 16; shift += 8) {
        const uint32_t a = anchors[first] >> shift & 0xff;
        const uint32_t b = anchors[next] >> shift & 0xff;
        color |= (a * (whole - part) + b * part + whole / 2) / whole << shift;
    }
    return color;
}

/* NULL: out of memory. The caller frees the file. */
static uint8_t *make_png(const spsh__heat *heat, size_t *ret_size_bytes)
{
    png_byte colors[3 * SPSH__HEAT_LEVELS];
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = heat->columns,
                       .height = heat->rows,
                       .format = PNG_FORMAT_RGB_COLORMAP,
                       .colormap_entries = SPSH__HEAT_LEVELS};
    for (uint32_t i = 0; i < SPSH__HEAT_LEVELS; i++)
        for (uint32_t k = 0; k < 3; k++)
            colors[3 * i + k] = (png_byte)(spsh__heat_color(i) >> (16 - 8 * k));
    *ret_size_bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
    uint8_t *file = (uint8_t *)malloc(*ret_size_bytes);
    if (file != NULL && png_image_write_to_memory(&image, file, ret_size_bytes, 0, heat->levels,
                                                  (png_int_32)heat->columns, colors) == 0) {
        free(file);
        return NULL;
    }
    return file;
}

void spsh__heat_draw(spsh__builder *out, const spsh__heat *heat)
{
    size_t size_bytes = 0;
    if (heat->columns == 0 || heat->rows == 0 || heat->width <= 0 || heat->height <= 0)
        return;
    uint8_t *const file = make_png(heat, &size_bytes);
    spsh__html_format(out,
                      "<image x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
                      "preserveAspectRatio=\"none\" href=\"data:image/png;base64,",
                      heat->x, heat->y, heat->width, heat->height);
    const size_t text_bytes = BASE64_ENCODE_RAW_LENGTH(size_bytes);
    uint8_t *const text = file != NULL ? spsh__builder_reserve(out, text_bytes) : NULL;
    if (text != NULL) {
        base64_encode_raw((char *)text, size_bytes, file);
        out->size_bytes += text_bytes;
    } else {
        out->failed = true;
    }
    spsh__builder_append_text(out, "\"/>\n");
    free(file);
}
