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

#include "file_names.h"

#define WIDTH      560.0
#define HEIGHT     220.0
#define LEFT       52.0
#define RIGHT      14.0
#define TOP        24.0
#define BOTTOM     42.0
#define TICKS      5.0
#define DOT        2.5
#define LOG_STEP   1.0 /* minimum distance of grid lines, in decades */
#define LEVELS_MAX 64  /* maximum count of grid lines, also if rounding loses a step */

typedef struct frame {
    double x_first, x_last, y_least, y_greatest; /* y: logarithms if the curve is_log */
} frame;

/* Position of a bin's mean, minimum, and maximum. NaN: not drawn. */
typedef struct point {
    double x, y, least, greatest;
} point;

static double height_of(const spsh__curve *c, double y)
{
    if (!c->is_log)
        return isfinite(y) ? y : (double)NAN;
    return isfinite(y) && y > 0 ? log10(y) : (double)NAN;
}

static point point_of(const spsh__curve *c, const spsh__line *l, size_t i)
{
    const spsh__bin *b = spsh__series_bin(l->series, i, l->column);
    point p = {spsh__series_x(l->series, i), (double)NAN, 0, 0};
    if (l->over != SPSH__NO_COLUMN) {
        p.y = height_of(c, l->scale * b->sum / spsh__series_bin(l->series, i, l->over)->sum);
        p.least = p.greatest = p.y;
        return p;
    }
    p.y = height_of(c, l->scale * spsh__series_mean(l->series, i, l->column));
    p.least = fmin(p.y, height_of(c, l->scale * b->least)); /* fmin(y, NaN) is y */
    p.greatest = fmax(p.y, height_of(c, l->scale * b->greatest));
    return p;
}

static void widen(const spsh__curve *c, const spsh__line *l, frame *f)
{
    for (size_t i = 0; i < l->series->count; i++) {
        const point p = point_of(c, l, i);
        if (isnan(p.y))
            continue;
        f->y_least = fmin(f->y_least, p.least);
        f->y_greatest = fmax(f->y_greatest, p.greatest);
        f->x_first = fmin(f->x_first, p.x);
        f->x_last = fmax(f->x_last, p.x);
    }
}

static bool measure(const spsh__curve *c, frame *f)
{
    *f = (frame){(double)INFINITY, -(double)INFINITY, (double)INFINITY, -(double)INFINITY};
    for (size_t l = 0; l < c->line_count; l++)
        widen(c, &c->lines[l], f);
    if (!isfinite(f->y_least))
        return false;
    if (!c->is_log && f->y_least > 0 && f->y_least < f->y_greatest / 2)
        f->y_least = 0;
    if (f->y_greatest - f->y_least < 1e-9 * fabs(f->y_greatest) || f->y_greatest <= f->y_least) {
        const double half = c->is_log ? 0.5 : fabs(f->y_least) / 2;
        f->y_least -= half;
        f->y_greatest += half > 0 ? half : 1;
    }
    if (f->x_first < 0.2 * f->x_last || (f->x_first == f->x_last && f->x_first > 0))
        f->x_first = 0;
    f->x_last = f->x_last > f->x_first ? f->x_last : f->x_first + 1;
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

static void draw_level(spsh__builder *out, const char *css, double y)
{
    spsh__svg_rule(out, css, (double[]){LEFT, y}, (double[]){WIDTH - RIGHT, y});
}

static void draw_grid(spsh__builder *out, const spsh__curve *c, const frame *f)
{
    double step = spsh__svg_step(f->y_greatest - f->y_least, TICKS);
    if (c->is_log && f->y_greatest - f->y_least > 2)
        step = fmax(ceil(step), LOG_STEP);
    double first = ceil(f->y_least / step - 1e-9);
    for (int i = 0; i < LEVELS_MAX && (first + i) * step <= f->y_greatest + step * 1e-9; i++) {
        const double level = (first + i) * step;
        const double y = place_y(f, level);
        draw_level(out, "grid", y);
        spsh__svg_number(out, LEFT - 6, y + 4, "end", c->is_log ? pow(10, level) : level);
    }
    step = spsh__svg_step(f->x_last - f->x_first, TICKS);
    first = ceil(f->x_first / step - 1e-9);
    for (int i = 0; i < LEVELS_MAX && (first + i) * step <= f->x_last + step * 1e-9; i++)
        spsh__svg_number(out, place_x(f, (first + i) * step), HEIGHT - BOTTOM + 16, "middle",
                         (first + i) * step);
    draw_level(out, "axis", HEIGHT - BOTTOM);
    spsh__svg_text(out, 4, 14, "start", c->y_label);
    spsh__svg_text(out, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "middle", c->x_label);
}

/* ---- lines ---- */

/* Draw the band as an outline: along the maxima, and back along the minima. */
static void draw_band(spsh__builder *out, const spsh__curve *c, const spsh__line *l, const frame *f)
{
    bool is_open = false;
    if (l->over != SPSH__NO_COLUMN || l->series->points_each == 1 || c->line_count > 1)
        return;
    for (size_t step = 0; step < 2 * l->series->count; step++) {
        const bool is_back = step >= l->series->count;
        const point p = point_of(c, l, is_back ? 2 * l->series->count - 1 - step : step);
        if (isnan(p.y))
            continue;
        if (!is_open)
            spsh__html_format(out, "<path class=\"c%u\" style=\"fill-opacity:.2\" d=\"",
                              l->color % SPSH__SVG_COLORS);
        spsh__html_format(out, "%s%.1f %.1f", is_open ? "L" : "M", place_x(f, p.x),
                          place_y(f, is_back ? p.least : p.greatest));
        is_open = true;
    }
    spsh__builder_append_text(out, is_open ? "Z\"/>" : "");
}

static void draw_path(spsh__builder *out, const spsh__curve *c, const spsh__line *l, const frame *f)
{
    bool is_open = false;
    for (size_t i = 0; i < l->series->count; i++) {
        const point p = point_of(c, l, i);
        if (isnan(p.y)) {
            spsh__builder_append_text(out, is_open ? "\"/>" : "");
            is_open = false;
            continue;
        }
        if (!is_open)
            spsh__html_format(out,
                              "<path class=\"c%u\" style=\"fill:none;stroke:currentColor;"
                              "stroke-width:1.6\" d=\"",
                              l->color % SPSH__SVG_COLORS);
        spsh__html_format(out, "%s%.1f %.1f", is_open ? "L" : "M", place_x(f, p.x),
                          place_y(f, p.y));
        is_open = true;
    }
    spsh__builder_append_text(out, is_open ? "\"/>" : "");
}

static void draw_dots(spsh__builder *out, const spsh__curve *c, const spsh__line *l, const frame *f)
{
    for (size_t i = 0; i < l->series->count; i++) {
        const point p = point_of(c, l, i);
        if (!isnan(p.y) && (l->has_dots || l->series->count == 1))
            spsh__html_format(out, "<circle class=\"c%u\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>",
                              l->color % SPSH__SVG_COLORS, place_x(f, p.x), place_y(f, p.y), DOT);
    }
}

static void draw_legend(spsh__builder *out, const spsh__curve *c)
{
    if (c->line_count < 2)
        return;
    spsh__builder_append_text(out, "<div class=\"legend\">");
    for (size_t i = 0; i < c->line_count; i++) {
        spsh__html_format(out, "<span><i class=\"c%u\"></i><bdi>",
                          c->lines[i].color % SPSH__SVG_COLORS);
        spsh__html_text(out, spsh__bytes_of(c->lines[i].name));
        spsh__builder_append_text(out, "</bdi></span>");
    }
    spsh__builder_append_text(out, "</div>");
}

void spsh__curve_draw(spsh__builder *out, const spsh__curve *c)
{
    frame f;
    if (!measure(c, &f))
        return;
    spsh__html_format(out,
                      "<div><svg class=\"plot\" viewBox=\"0 0 %.0f %.0f\" role=\"img\"><title>",
                      WIDTH, HEIGHT);
    spsh__html_text(out, spsh__bytes_of(c->title));
    spsh__builder_append_text(out, "</title>");
    draw_grid(out, c, &f);
    for (size_t i = 0; i < c->mark_count; i++) {
        const double x = place_x(&f, c->marks[i]);
        if (c->marks[i] > f.x_first && c->marks[i] < f.x_last)
            spsh__svg_rule(out, "mark", (double[]){x, TOP}, (double[]){x, HEIGHT - BOTTOM});
    }
    for (size_t i = 0; i < c->line_count; i++) {
        draw_band(out, c, &c->lines[i], &f);
        draw_path(out, c, &c->lines[i], &f);
        draw_dots(out, c, &c->lines[i], &f);
    }
    spsh__builder_append_text(out, "</svg>");
    draw_legend(out, c);
    spsh__builder_append_text(out, "</div>\n");
}
