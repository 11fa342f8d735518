/* svg.c: see svg.h.
 *
 *       y_label
 *    200 +-----------------------------
 *        |        ##                        WIDTH x HEIGHT, scaled by the page;
 *    100 +------ ## ## ----------------     LEFT, TOP, RIGHT and BOTTOM around the plot
 *        |    ## ## ## ##           ##
 *      0 +--+-----+-----+-----+-----+--
 *           0     5    10    15    20+
 *                 x_label
 */
#include "svg.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "file_names.h"
#include "speechshard/inside.h"

#define WIDTH      560.0
#define HEIGHT     220.0
#define LEFT       48.0
#define RIGHT      14.0
#define TOP        24.0
#define BOTTOM     42.0
#define GAP        1.0 /* between bars */
#define BAR_UNITS  1000.0
#define TICKS_X    8.0
#define TICKS_Y    4.0
#define TICKS_LOG  5U
#define TEXT_BYTES 1024

static bool is_xml_character(spsh_bytes sequence)
{
    if (sequence.size_bytes == 1)
        return sequence.data[0] >= 0x20 || sequence.data[0] == '\t' || sequence.data[0] == '\n' ||
               sequence.data[0] == '\r';
    /* Among longer sequences only U+FFFE and U+FFFF are not XML characters. */
    return sequence.size_bytes != 3 || memcmp(sequence.data, "\xef\xbf\xbe", 2) != 0 ||
           sequence.data[2] < 0xbe;
}

void spsh__html_text(spsh__builder *out, spsh_bytes text)
{
    for (size_t at = 0; at < text.size_bytes;) {
        spsh_bytes rest = {text.data + at, text.size_bytes - at};
        size_t length = text.data[at] < 0x80 ? 1 : spsh__utf8_sequence(rest);
        rest.size_bytes = length;
        at += length == 0 ? 1 : length;
        if (length == 0 || !is_xml_character(rest)) {
            spsh__builder_append_text(out, "\xef\xbf\xbd");
            continue;
        }
        switch (rest.data[0]) {
        case '&': spsh__builder_append_text(out, "&amp;"); break;
        case '<': spsh__builder_append_text(out, "&lt;"); break;
        case '>': spsh__builder_append_text(out, "&gt;"); break;
        case '"': spsh__builder_append_text(out, "&quot;"); break;
        case '\'': spsh__builder_append_text(out, "&#39;"); break;
        default: spsh__builder_append_bytes(out, rest); break;
        }
    }
}

void spsh__html_format(spsh__builder *out, const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof(text))
        out->failed = true;
    else
        spsh__builder_append(out, text, (size_t)length);
}

void spsh__svg_bar(spsh__builder *out, const spsh__svg_slice *slices, size_t count, double whole)
{
    double at = 0;
    spsh__html_format(out,
                      "<svg class=\"bar\" viewBox=\"0 0 %.0f 10\" "
                      "preserveAspectRatio=\"none\" aria-hidden=\"true\">",
                      BAR_UNITS);
    for (size_t i = 0; i < count && whole > 0; i++) {
        const double width = slices[i].value / whole * BAR_UNITS;
        if (width > 0)
            spsh__html_format(out,
                              "<rect class=\"c%u\" x=\"%.2f\" y=\"0\" width=\"%.2f\" "
                              "height=\"10\"/>",
                              slices[i].color % SPSH__SVG_COLORS, at, width);
        at += width;
    }
    spsh__builder_append_text(out, "</svg>");
}

double spsh__svg_step(double range, double ticks)
{
    const double rough = range / ticks;
    const double power = pow(10, floor(log10(rough)));
    const double times = rough / power;
    return power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

void spsh__svg_text(spsh__builder *out, double x, double y, const char *anchor, const char *text)
{
    spsh__html_format(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    spsh__html_text(out, spsh__bytes_of(text));
    spsh__builder_append_text(out, "</text>");
}

void spsh__svg_number(spsh__builder *out, double x, double y, const char *anchor, double value)
{
    char text[32];
    if (fabs(value) >= 1e6)
        (void)snprintf(text, sizeof(text), "%.4g M", value / 1e6);
    else if (fabs(value) >= 1e4)
        (void)snprintf(text, sizeof(text), "%.4g k", value / 1e3);
    else
        (void)snprintf(text, sizeof(text), "%.4g", fabs(value) < 1e-12 ? 0 : value);
    spsh__svg_text(out, x, y, anchor, text);
}

void spsh__svg_rule(spsh__builder *out, const char *css, const double from[2], const double to[2])
{
    spsh__html_format(out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>",
                      css, from[0], from[1], to[0], to[1]);
}

/* Height of a bar for value, as a fraction of the height for top. */
static double height_of(const spsh__svg_histogram *h, double value, double top)
{
    return h->is_log ? log10(1 + value) / log10(1 + top) : value / top;
}

static void draw_level(spsh__builder *out, const spsh__svg_histogram *h, double value, double top)
{
    const double y = HEIGHT - BOTTOM - height_of(h, value, top) * (HEIGHT - TOP - BOTTOM);
    spsh__svg_rule(out, value > 0 ? "grid" : "axis", (double[]){LEFT, y},
                   (double[]){WIDTH - RIGHT, y});
    spsh__svg_number(out, LEFT - 6, y + 4, "end", value);
}

/* The highest line; the bars end at or below it. */
static double draw_y(spsh__builder *out, const spsh__svg_histogram *h, double most)
{
    double step = spsh__svg_step(most, TICKS_Y);
    step = step < 1 ? 1 : step;
    double top = ceil(most / step - 1e-9) * step;
    if (h->is_log) {
        const unsigned decades = (unsigned)ceil(log10(most) - 1e-9);
        const unsigned step_decades = decades > TICKS_LOG ? 3 : 1;
        top = pow(10, decades);
        draw_level(out, h, 0, top);
        for (unsigned i = decades % step_decades; i <= decades; i += step_decades)
            draw_level(out, h, pow(10, i), top);
        return top;
    }
    const unsigned lines = (unsigned)(top / step + 0.5);
    for (unsigned i = 0; i <= lines; i++)
        draw_level(out, h, step * i, top);
    return top;
}

static void draw_x(spsh__builder *out, const spsh__svg_histogram *h)
{
    const double range = h->step * (double)h->count;
    const double last = h->first + range;
    const double step = spsh__svg_step(range, TICKS_X);
    const int64_t begin = (int64_t)ceil(h->first / step - 1e-9);
    for (int64_t i = begin; (double)i * step <= last + step * 1e-6; i++) {
        const double value = (double)i * step;
        const double x = LEFT + (value - h->first) / range * (WIDTH - LEFT - RIGHT);
        spsh__svg_rule(out, "axis", (double[]){x, HEIGHT - BOTTOM},
                       (double[]){x, HEIGHT - BOTTOM + 4});
        spsh__svg_number(out, x, HEIGHT - BOTTOM + 17, "middle", value);
    }
}

/* Draw the bars of values (kind 0) or others (kind 1). With two series, values get the left half of
 * each step, and others the right half. */
static void draw_bars(spsh__builder *out, const spsh__svg_histogram *h, double top, unsigned kind)
{
    const uint64_t *values = kind == 0 ? h->values : h->others;
    const double step = (WIDTH - LEFT - RIGHT) / (double)h->count;
    const double width = h->others == NULL ? step : step / 2;
    for (size_t i = 0; i < h->count; i++) {
        double height = height_of(h, (double)values[i], top) * (HEIGHT - TOP - BOTTOM);
        const double from = h->first + (double)i * h->step;
        if (values[i] == 0)
            continue;
        height = height < 1 ? 1 : height; /* even one among a million must be visible */
        spsh__html_format(out,
                          "<rect class=\"c%u\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" "
                          "height=\"%.2f\"><title>",
                          (kind == 0 ? h->color : h->other_color) % SPSH__SVG_COLORS,
                          LEFT + (double)i * step + kind * width + GAP / 2,
                          HEIGHT - BOTTOM - height, width - GAP, height);
        if (i == 0 && h->first_is_open)
            spsh__html_format(out, "below %.4g", from + h->step);
        else if (i + 1 == h->count && h->last_is_open)
            spsh__html_format(out, "%.4g and more", from);
        else
            spsh__html_format(out, "%.4g to %.4g", from, from + h->step);
        spsh__html_format(out, ": %llu</title></rect>", (unsigned long long)values[i]);
    }
}

static void draw_gap(spsh__builder *out, const spsh__svg_histogram *h)
{
    const double unit = (WIDTH - LEFT - RIGHT) / (h->step * (double)h->count);
    if (h->gap_end > h->gap_first)
        spsh__html_format(
            out, "<rect class=\"gap\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>",
            LEFT + (h->gap_first - h->first) * unit, TOP, (h->gap_end - h->gap_first) * unit,
            HEIGHT - TOP - BOTTOM);
}

/* Labels alternate between two lines, so that adjacent labels do not overlap. */
static void draw_marks(spsh__builder *out, const spsh__svg_histogram *h)
{
    for (size_t i = 0; i < h->mark_count; i++) {
        const double x = LEFT + (h->marks[i].x - h->first) / (h->step * (double)h->count) *
                                    (WIDTH - LEFT - RIGHT);
        const double y = TOP - 2 + (double)(i % 2) * 12;
        spsh__svg_rule(out, "mark", (double[]){x, y - 8}, (double[]){x, HEIGHT - BOTTOM});
        spsh__svg_text(out, x + 3, y, "start", h->marks[i].label);
    }
}

void spsh__svg_histogram_draw(spsh__builder *out, const spsh__svg_histogram *h)
{
    uint64_t most = 1;
    for (size_t i = 0; i < h->count; i++) {
        most = h->values[i] > most ? h->values[i] : most;
        most = h->others != NULL && h->others[i] > most ? h->others[i] : most;
    }
    spsh__html_format(out, "<svg class=\"plot\" viewBox=\"0 0 %.0f %.0f\" role=\"img\"><title>",
                      WIDTH, HEIGHT);
    spsh__html_text(out, spsh__bytes_of(h->title));
    spsh__builder_append_text(out, "</title>");
    const double top = draw_y(out, h, (double)most);
    draw_gap(out, h);
    draw_bars(out, h, top, 0);
    if (h->others != NULL)
        draw_bars(out, h, top, 1);
    draw_marks(out, h);
    if (h->count > 0)
        draw_x(out, h);
    spsh__svg_text(out, 2, 12, "start", h->y_label);
    spsh__svg_text(out, LEFT + (WIDTH - LEFT - RIGHT) / 2, HEIGHT - 6, "middle", h->x_label);
    spsh__builder_append_text(out, "</svg>");
}
