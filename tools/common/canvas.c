/* canvas.c: see canvas.h.
 *
 * Features are embedded as a data URI that holds a PNG image with one pixel per cell. Tens of
 * thousands of vector cells would be slow to draw.
 */
#include "canvas.h"

#include <png.h>
#include <stdlib.h>

#include "file_names.h"

struct spsh__canvas {
    int width, height;
    spsh__builder svg;
    bool failed;
};

/* clang-format off */
static const char *const inks[SPSH__INK_COUNT] = {"paper", "ink", "soft", "line", "c0", "mask"};
static const char *const style[] = {
    "svg.speech .ink{fill:#1c2733;fill:var(--ink)}svg.speech .mask{fill:#8a929b}\n",
    "svg.speech .paper{fill:#fff;fill:var(--bg)}\n",
    "svg.speech line.soft{stroke:#5b6875;stroke:var(--soft)}\n",
    "svg.speech line.line{stroke:#dfe4ea;stroke:var(--line)}\n",
    "svg.speech line{shape-rendering:crispEdges}svg.speech image{image-rendering:pixelated}\n",
    NULL,
};
/* clang-format on */

spsh__canvas *spsh__canvas_new(int width, int height)
{
    spsh__canvas *canvas = (spsh__canvas *)calloc(1, sizeof(*canvas));
    if (canvas == NULL)
        return NULL;
    canvas->width = width;
    canvas->height = height;
    return canvas;
}

void spsh__canvas_free(spsh__canvas *canvas)
{
    if (canvas == NULL)
        return;
    spsh__builder_free(&canvas->svg);
    free(canvas);
}

/* ---- images ---- */

static void append_base64(spsh__builder *out, spsh_bytes bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t at = 0; at < bytes.size_bytes; at += 3) {
        const size_t left = bytes.size_bytes - at;
        const uint32_t three = (uint32_t)bytes.data[at] << 16 |
                               (uint32_t)(left > 1 ? bytes.data[at + 1] : 0) << 8 |
                               (left > 2 ? bytes.data[at + 2] : 0);
        char four[4] = {digits[three >> 18], digits[three >> 12 & 63], '=', '='};
        if (left > 1)
            four[2] = digits[three >> 6 & 63];
        if (left > 2)
            four[3] = digits[three & 63];
        spsh__builder_append(out, four, sizeof(four));
    }
}

/* NULL: out of memory. The caller frees the file. */
static void *make_png(const spsh__heat *heat, size_t *ret_size_bytes)
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
    png_alloc_size_t size_bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
    void *file = malloc(size_bytes);
    if (file == NULL)
        return NULL;
    if (png_image_write_to_memory(&image, file, &size_bytes, 0, heat->levels,
                                  (png_int_32)heat->columns, colors) == 0) {
        free(file);
        return NULL;
    }
    *ret_size_bytes = size_bytes;
    return file;
}

void spsh__canvas_heat(spsh__canvas *canvas, const spsh__heat *heat)
{
    size_t size_bytes = 0;
    if (heat->columns == 0 || heat->rows == 0 || heat->width <= 0 || heat->height <= 0)
        return;
    uint8_t *file = (uint8_t *)make_png(heat, &size_bytes);
    if (file == NULL) {
        canvas->failed = true;
        return;
    }
    spsh__html_format(&canvas->svg,
                      "<image x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
                      "preserveAspectRatio=\"none\" href=\"data:image/png;base64,",
                      heat->x, heat->y, heat->width, heat->height);
    append_base64(&canvas->svg, (spsh_bytes){file, size_bytes});
    spsh__builder_append_text(&canvas->svg, "\"/>\n");
    free(file);
}

/* ---- marks ---- */

void spsh__canvas_line(spsh__canvas *canvas, spsh__ink ink, int x1, int y1, int x2, int y2)
{
    spsh__svg_line(&canvas->svg, inks[ink], x1, y1, x2, y2);
}

void spsh__canvas_rect(spsh__canvas *canvas, spsh__ink ink, int x, int y, int width, int height)
{
    spsh__svg_rect(&canvas->svg, inks[ink], x, y, width, height);
}

static bool is_ascii(spsh_bytes text)
{
    for (size_t i = 0; i < text.size_bytes; i++)
        if (text.data[i] >= 0x80)
            return false;
    return true;
}

void spsh__canvas_text(spsh__canvas *canvas, const spsh__canvas_place *place, spsh_bytes text)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    spsh__svg_text_open(&canvas->svg, place->x, place->y, anchors[place->anchor],
                        place->ink == SPSH__INK_SOFT ? NULL : inks[place->ink]);
    /* U+2068 ... U+2069: the first letter decides its direction; nothing else moves. */
    const bool is_foreign = !is_ascii(text);
    spsh__builder_append_text(&canvas->svg, is_foreign ? "\xe2\x81\xa8" : "");
    spsh__html_text(&canvas->svg, text);
    spsh__builder_append_text(&canvas->svg, is_foreign ? "\xe2\x81\xa9" : "");
    spsh__svg_text_close(&canvas->svg);
    spsh__builder_append_text(&canvas->svg, "\n");
}

void spsh__canvas_envelope(spsh__canvas *canvas, spsh__ink ink, const spsh__svg_lane *lane)
{
    spsh__svg_envelope(&canvas->svg, inks[ink], lane);
}

/* ---- the file ---- */

spsh_status spsh__canvas_finish(spsh__canvas *canvas, const char *title, const char *description,
                                spsh__builder *out, spsh_error *err)
{
    spsh__svg_file_open(out, "speech", canvas->width, canvas->height, spsh__bytes_of(title), style);
    spsh__builder_append_text(out, "<desc>");
    spsh__html_text(out, spsh__bytes_of(description));
    spsh__builder_append_text(out, "</desc>\n");
    spsh__builder_append_bytes(out, spsh__builder_bytes(&canvas->svg));
    spsh__svg_file_close(out);
    if (canvas->failed || canvas->svg.failed || out->failed) {
        spsh_error_set(err, SPSH_E_NO_MEMORY, 0, SPSH_OFFSET_NONE, "out of memory for a picture");
        return SPSH_E_NO_MEMORY;
    }
    return SPSH_OK;
}
