/* canvas.c: see canvas.h.
 *
 * A PNG is drawn into numbers of colours: the levels of the colour map, then the inks. An image in
 * an SVG is a PNG of its own, one pixel a cell, as a data URI.
 */
#include "canvas.h"

#include <math.h>
#include <stdlib.h>

#include "bitmap_font.h"
#include "names.h"
#include "png_out.h"

enum {
    SCALE = 2,       /* pixels of a PNG in a unit, and in a pixel of its letters */
    CELLS_MAX = 512, /* of a text */
    COLORS = SPSH__HEAT_LEVELS + SPSH__INK_COUNT,
};

struct spsh__canvas {
    spsh__canvas_kind kind;
    int width, height;
    spsh__builder svg;
    uint8_t *pixels;
    bool failed;
};

/* clang-format off */
static const struct {
    const char *css;
    uint32_t color;
} inks[SPSH__INK_COUNT] = {
    {"paper", 0xffffff}, {"ink", 0x1c2733}, {"soft", 0x5b6875},
    {"line", 0xdfe4ea}, {"c0", 0x2f6fb4}, {"mask", 0x8a929b},
};
static const char *const style[] = {
    "svg.speech .ink{fill:#1c2733;fill:var(--ink)}svg.speech .mask{fill:#8a929b}\n",
    "svg.speech .paper{fill:#fff;fill:var(--bg)}\n",
    "svg.speech line.soft{stroke:#5b6875;stroke:var(--soft)}\n",
    "svg.speech line.line{stroke:#dfe4ea;stroke:var(--line)}\n",
    "svg.speech line{shape-rendering:crispEdges}svg.speech image{image-rendering:pixelated}\n",
    NULL,
};
/* clang-format on */

spsh__canvas *spsh__canvas_new(spsh__canvas_kind kind, int width, int height)
{
    spsh__canvas *canvas = (spsh__canvas *)calloc(1, sizeof(*canvas));
    if (canvas == NULL)
        return NULL;
    const size_t pixels = (size_t)width * (size_t)height * SCALE * SCALE;
    canvas->kind = kind;
    canvas->width = width;
    canvas->height = height;
    if (kind == SPSH__CANVAS_PNG) {
        canvas->pixels = (uint8_t *)malloc(pixels);
        if (canvas->pixels == NULL) {
            free(canvas);
            return NULL;
        }
        memset(canvas->pixels, (int)(SPSH__HEAT_LEVELS + SPSH__INK_PAPER), pixels);
    }
    return canvas;
}

void spsh__canvas_free(spsh__canvas *canvas)
{
    if (canvas == NULL)
        return;
    spsh__builder_free(&canvas->svg);
    free(canvas->pixels);
    free(canvas);
}

/* ---- pixels ---- */

static int limited(int value, int most)
{
    return value < 0 ? 0 : value > most ? most : value;
}

/* Pixels, not units; what is outside is cut off. */
static void fill(spsh__canvas *canvas, uint32_t color, int x, int y, int width, int height)
{
    const int right = limited(x + width, canvas->width * SCALE);
    const int bottom = limited(y + height, canvas->height * SCALE);
    const int left = limited(x, right);
    for (int row = limited(y, bottom); row < bottom; row++)
        memset(canvas->pixels + (size_t)row * (size_t)canvas->width * SCALE + left, (int)color,
               (size_t)(right - left));
}

static void fill_text(spsh__canvas *canvas, const spsh__canvas_place *place, spsh_bytes text)
{
    spsh__glyph cells[CELLS_MAX];
    size_t count = spsh__font_cells(text, cells, CELLS_MAX);
    count = count < CELLS_MAX ? count : CELLS_MAX;
    const int width = (int)count * SPSH__FONT_WIDTH * SCALE;
    int left = place->x * SCALE;
    if (place->anchor != SPSH__LEFT)
        left -= place->anchor == SPSH__MIDDLE ? width / 2 : width;
    const int top = (place->y - SPSH__FONT_BASE) * SCALE;
    for (size_t i = 0; i < count; i++)
        for (int y = 0; y < SPSH__FONT_HEIGHT; y++)
            for (int x = 0; x < SPSH__FONT_WIDTH - 1; x++)
                if ((cells[i].rows[y] >> (4 - x) & 1) != 0)
                    fill(canvas, SPSH__HEAT_LEVELS + place->ink,
                         left + ((int)i * SPSH__FONT_WIDTH + x) * SCALE, top + y * SCALE, SCALE,
                         SCALE);
}

static void fill_envelope(spsh__canvas *canvas, spsh__ink ink, const spsh__svg_lane *lane)
{
    const double half = lane->height * SCALE / 2.0;
    const double scale = lane->peak > 0 ? half / (double)lane->peak : 0;
    const int middle = lane->top * SCALE + (int)half;
    for (int i = 0; i < lane->columns; i++) {
        const int upper = (int)lround((double)lane->high[i] * scale);
        const int lower = (int)lround((double)lane->low[i] * scale);
        if (lane->high[i] >= lane->low[i])
            fill(canvas, SPSH__HEAT_LEVELS + ink, (lane->left + lane->step * i) * SCALE,
                 middle - upper, lane->step * SCALE, upper - lower + 1);
    }
}

static void fill_heat(spsh__canvas *canvas, const spsh__heat *heat)
{
    const int width = heat->width * SCALE;
    const int height = heat->height * SCALE;
    for (int y = 0; y < height; y++) {
        const size_t row = (size_t)y * heat->rows / (size_t)height;
        for (int x = 0; x < width; x++)
            fill(canvas,
                 heat->levels[row * heat->columns + (size_t)x * heat->columns / (size_t)width],
                 heat->x * SCALE + x, heat->y * SCALE + y, 1, 1);
    }
}

/* ---- images in SVG ---- */

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

static void append_image(spsh__canvas *canvas, const spsh__heat *heat)
{
    uint32_t colors[SPSH__HEAT_LEVELS];
    spsh__builder file = {0};
    const spsh__png png = {heat->columns,     heat->rows, heat->levels, colors,
                           SPSH__HEAT_LEVELS, NULL,       NULL};
    for (uint32_t i = 0; i < SPSH__HEAT_LEVELS; i++)
        colors[i] = spsh__heat_color(i);
    if (spsh__png_write(&png, &file, NULL) != SPSH_OK)
        canvas->failed = true;
    spsh__html_format(&canvas->svg,
                      "<image x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
                      "preserveAspectRatio=\"none\" href=\"data:image/png;base64,",
                      heat->x, heat->y, heat->width, heat->height);
    append_base64(&canvas->svg, spsh__builder_bytes(&file));
    spsh__builder_append_text(&canvas->svg, "\"/>\n");
    spsh__builder_free(&file);
}

/* ---- marks ---- */

void spsh__canvas_line(spsh__canvas *canvas, spsh__ink ink, int x1, int y1, int x2, int y2)
{
    if (canvas->kind == SPSH__CANVAS_SVG)
        spsh__svg_line(&canvas->svg, inks[ink].css, x1, y1, x2, y2);
    else
        fill(canvas, SPSH__HEAT_LEVELS + ink, x1 * SCALE, y1 * SCALE, (x2 - x1) * SCALE + 1,
             (y2 - y1) * SCALE + 1);
}

void spsh__canvas_rect(spsh__canvas *canvas, spsh__ink ink, int x, int y, int width, int height)
{
    if (canvas->kind == SPSH__CANVAS_SVG)
        spsh__svg_rect(&canvas->svg, inks[ink].css, x, y, width, height);
    else
        fill(canvas, SPSH__HEAT_LEVELS + ink, x * SCALE, y * SCALE, (width < 1 ? 1 : width) * SCALE,
             height * SCALE);
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
    if (canvas->kind == SPSH__CANVAS_PNG) {
        fill_text(canvas, place, text);
        return;
    }
    spsh__svg_text_open(&canvas->svg, place->x, place->y, anchors[place->anchor],
                        place->ink == SPSH__INK_SOFT ? NULL : inks[place->ink].css);
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
    if (canvas->kind == SPSH__CANVAS_SVG)
        spsh__svg_envelope(&canvas->svg, inks[ink].css, lane);
    else
        fill_envelope(canvas, ink, lane);
}

void spsh__canvas_heat(spsh__canvas *canvas, const spsh__heat *heat)
{
    if (heat->columns == 0 || heat->rows == 0 || heat->width <= 0 || heat->height <= 0)
        return;
    if (canvas->kind == SPSH__CANVAS_SVG)
        append_image(canvas, heat);
    else
        fill_heat(canvas, heat);
}

/* ---- the file ---- */

static void finish_svg(spsh__canvas *canvas, const char *title, const char *description,
                       spsh__builder *out)
{
    spsh__svg_file_open(out, "speech", canvas->width, canvas->height, spsh__bytes_of(title), style);
    spsh__builder_append_text(out, "<desc>");
    spsh__html_text(out, spsh__bytes_of(description));
    spsh__builder_append_text(out, "</desc>\n");
    spsh__builder_append_bytes(out, spsh__builder_bytes(&canvas->svg));
    spsh__svg_file_close(out);
}

spsh_status spsh__canvas_finish(spsh__canvas *canvas, const char *title, const char *description,
                                spsh__builder *out, spsh_error *err)
{
    uint32_t colors[COLORS];
    spsh_status rc = SPSH_OK;
    if (canvas->kind == SPSH__CANVAS_SVG) {
        finish_svg(canvas, title, description, out);
    } else {
        for (uint32_t i = 0; i < COLORS; i++)
            colors[i] =
                i < SPSH__HEAT_LEVELS ? spsh__heat_color(i) : inks[i - SPSH__HEAT_LEVELS].color;
        const spsh__png png = {(uint32_t)canvas->width * SCALE,
                               (uint32_t)canvas->height * SCALE,
                               canvas->pixels,
                               colors,
                               COLORS,
                               title,
                               description};
        rc = spsh__png_write(&png, out, err);
    }
    if (rc == SPSH_OK && (canvas->failed || canvas->svg.failed || out->failed)) {
        spsh_error_set(err, SPSH_E_NO_MEMORY, 0, SPSH_OFFSET_NONE, "out of memory for a picture");
        rc = SPSH_E_NO_MEMORY;
    }
    return rc;
}
