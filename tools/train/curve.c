/* curve.c: see curve.h.
 *
 *    y_label
 *    40 +---\-------------------------
 *       |    \__                          WIDTH x HEIGHT, scaled by the page;
 *    20 +-------\__  :  --------------    LEFT, TOP, RIGHT and BOTTOM around the plot;
 *       |          \_:____                ':' a mark
 *     0 +--+-----+---:-+-----+-----+--
 *          0    10  20    30    40
 *                x_label
 */
#include "curve.h"

#include <math.h>
#include <stdio.h>

#include "names.h"

#define WIDTH    560.0
#define HEIGHT   220.0
#define LEFT     52.0
#define RIGHT    14.0
#define TOP      24.0
#define BOTTOM   42.0
#define TICKS    5.0
#define POINTS   400U /* of a line */
#define DOT      2.5
#define NUMBER   32
#define LOG_STEP 1.0 /* decades between lines, at least */

typedef struct frame {
    double x_first, x_last, y_least, y_greatest; /* y: of the logarithm where the curve is_log */
} frame;

/* As it is drawn: NaN where it is not. */
static double height_of(const spsh__curve *c, double y)
{
    if (!c->is_log)
        return isfinite(y) ? y : (double)NAN;
    return isfinite(y) && y > 0 ? log10(y) : (double)NAN;
}

static bool measure(const spsh__curve *c, frame *f)
{
    *f = (frame){0, 1, (double)INFINITY, -(double)INFINITY};
    for (size_t i = 0; i < c->count; i++) {
        const double y = height_of(c, c->y[i]);
        if (isnan(y))
            continue;
        f->y_least = fmin(f->y_least, y);
        f->y_greatest = fmax(f->y_greatest, y);
    }
    if (!isfinite(f->y_least))
        return false;
    if (!c->is_log && f->y_least > 0 && f->y_least < f->y_greatest / 2)
        f->y_least = 0;
    if (f->y_greatest - f->y_least < 1e-9) {
        f->y_least -= c->is_log ? 0.5 : fabs(f->y_least) / 2 + 1e-9;
        f->y_greatest += c->is_log ? 0.5 : fabs(f->y_greatest) / 2 + 1e-9;
    }
    f->x_first = c->x[0];
    f->x_last = c->x[c->count - 1] > c->x[0] ? c->x[c->count - 1] : c->x[0] + 1;
    return true;
}

static double place_x(const frame *f, double x)
{
    return LEFT + (x - f->x_first) / (f->x_last - f->x_first) * (WIDTH - LEFT - RIGHT);
}

static double place_y(const frame *f, double y)
{
    return HEIGHT - BOTTOM -
           (y - f->y_least) / (f->y_greatest - f->y_least) * (HEIGHT - TOP - BOTTOM);
}

/* 1, 2 or 5 times a power of ten, so that about TICKS of them make the range. */
static double nice_step(double range)
{
    const double rough = range / TICKS;
    const double power = pow(10, floor(log10(rough)));
    const double times = rough / power;
    return power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

static void draw_text(spsh__builder *out, double x, double y, const char *anchor, const char *text)
{
    spsh__html_format(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    spsh__html_text(out, spsh__bytes_of(text));
    spsh__builder_append_text(out, "</text>");
}

/* "0.05", "1200", "45 k", "1.2 M" */
static const char *short_number(double value, char text[NUMBER])
{
    if (fabs(value) >= 1e6)
        (void)snprintf(text, NUMBER, "%.4g M", value / 1e6);
    else if (fabs(value) >= 1e4)
        (void)snprintf(text, NUMBER, "%.4g k", value / 1e3);
    else
        (void)snprintf(text, NUMBER, "%.3g", fabs(value) < 1e-12 ? 0 : value);
    return text;
}

static void draw_grid(spsh__builder *out, const spsh__curve *c, const frame *f)
{
    char text[NUMBER];
    double step = nice_step(f->y_greatest - f->y_least);
    if (c->is_log && f->y_greatest - f->y_least > 2)
        step = fmax(ceil(step), LOG_STEP);
    for (double y = ceil(f->y_least / step - 1e-9) * step; y <= f->y_greatest + step * 1e-9;
         y += step) {
        const double at = place_y(f, y);
        spsh__html_format(out,
                          "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>",
                          LEFT, at, WIDTH - RIGHT, at);
        draw_text(out, LEFT - 6, at + 4, "end", short_number(c->is_log ? pow(10, y) : y, text));
    }
    step = nice_step(f->x_last - f->x_first);
    for (double x = ceil(f->x_first / step - 1e-9) * step; x <= f->x_last + step * 1e-9; x += step)
        draw_text(out, place_x(f, x), HEIGHT - BOTTOM + 16, "middle", short_number(x, text));
    spsh__html_format(out, "<line class=\"axis\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>",
                      LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM);
    draw_text(out, LEFT - 6, 14, "start", c->y_label);
    draw_text(out, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "middle", c->x_label);
}

/* Points [first, end) as one. */
typedef struct bunch {
    double x, mean, least, greatest; /* NaN: none is finite */
} bunch;

static bunch gather(const spsh__curve *c, size_t first, size_t end)
{
    bunch b = {0, 0, (double)INFINITY, -(double)INFINITY};
    size_t count = 0;
    for (size_t i = first; i < end; i++) {
        const double y = height_of(c, c->y[i]);
        if (isnan(y))
            continue;
        b.x += c->x[i];
        b.mean += y;
        b.least = fmin(b.least, y);
        b.greatest = fmax(b.greatest, y);
        count++;
    }
    b.x /= (double)count;
    b.mean /= (double)count; /* 0 / 0 */
    return b;
}

static void draw_line(spsh__builder *out, const spsh__curve *c, const frame *f)
{
    const size_t points = c->count < POINTS ? c->count : POINTS;
    bool is_open = false;
    for (size_t p = 0; p < points; p++) {
        const bunch b = gather(c, p * c->count / points, (p + 1) * c->count / points);
        if (isnan(b.mean)) {
            spsh__builder_append_text(out, is_open ? "\"/>" : "");
            is_open = false;
            continue;
        }
        if (!is_open)
            spsh__html_format(out,
                              "<path class=\"c%u\" style=\"fill:none;stroke:currentColor;"
                              "stroke-width:1.6\" d=\"",
                              c->color % SPSH__SVG_COLORS);
        spsh__html_format(out, "%s%.1f %.1f", is_open ? " L" : "M", place_x(f, b.x),
                          place_y(f, b.mean));
        is_open = true;
    }
    spsh__builder_append_text(out, is_open ? "\"/>" : "");
}

static void draw_band_or_dots(spsh__builder *out, const spsh__curve *c, const frame *f)
{
    const size_t points = c->count < POINTS ? c->count : POINTS;
    for (size_t p = 0; p < points; p++) {
        const bunch b = gather(c, p * c->count / points, (p + 1) * c->count / points);
        if (isnan(b.mean))
            continue;
        if (c->has_dots)
            spsh__html_format(out, "<circle class=\"c%u\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>",
                              c->color % SPSH__SVG_COLORS, place_x(f, b.x), place_y(f, b.mean),
                              DOT);
        else if (b.greatest > b.least)
            spsh__html_format(out,
                              "<line class=\"c%u\" style=\"stroke:currentColor;"
                              "stroke-opacity:.22\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" "
                              "y2=\"%.1f\"/>",
                              c->color % SPSH__SVG_COLORS, place_x(f, b.x), place_y(f, b.least),
                              place_x(f, b.x), place_y(f, b.greatest));
    }
}

void spsh__curve_draw(spsh__builder *out, const spsh__curve *c)
{
    frame f;
    if (c->count == 0 || !measure(c, &f))
        return;
    spsh__html_format(out, "<svg class=\"plot\" viewBox=\"0 0 %.0f %.0f\" role=\"img\"><title>",
                      WIDTH, HEIGHT);
    spsh__html_text(out, spsh__bytes_of(c->title));
    spsh__builder_append_text(out, "</title>");
    draw_grid(out, c, &f);
    for (size_t i = 0; i < c->mark_count; i++) {
        const double x = place_x(&f, c->marks[i]);
        if (c->marks[i] > f.x_first && c->marks[i] < f.x_last)
            spsh__html_format(
                out, "<line class=\"mark\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", x,
                TOP, x, HEIGHT - BOTTOM);
    }
    draw_band_or_dots(out, c, &f);
    draw_line(out, c, &f);
    spsh__builder_append_text(out, "</svg>\n");
}
