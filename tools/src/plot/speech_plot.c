/* speech_plot.c: see speech_plot.h.
 *
 *     id                             length, rate, channels, codec, peak     WIDTH x height
 *     transcript
 *     domain, split, speaker, language                          features
 *     [what has been done to it]
 *      ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~   one lane per channel
 *     8000 ################################################  # brightest value
 *     Hz   ################################################  #
 *      250 ################################################  # darkest
 *          0 s       0.5 s      1 s
 */
#include "speech_plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/file_names.h"
#include "common/human.h"
#include "heat.h"
#include "speechshard/inside.h"

enum {
    LEFT = 56,
    PLOT = SPSH__IMAGE_COLUMNS_MAX,
    RIGHT = LEFT + PLOT,
    BAR = RIGHT + 8, /* left edge of the color bar */
    BAR_WIDTH = 10,
    WIDTH = BAR + BAR_WIDTH + 46,
    LINE = 16, /* height of a line of text */
    HEAT = 240,
    GAP = 10,
    LANES_MAX = 4,
    LANES_HEIGHT = 96,
    LANES_HEIGHT_EACH = 56, /* minimum height of each lane */
    ID_BYTES = 1024,        /* longer than any part of an id that fits */
    FACTS_COLUMNS = 60,
    LINE_COLUMNS = 152,
    DESCRIPTION_COLUMNS = 4000,
    TICK_GAP = 14, /* minimum distance of labels on the vertical axis */
};

/* clang-format off */
static const char *const style[] = {
    "svg.speech .ink{fill:#1c2733;fill:var(--ink)}svg.speech .mask{fill:#8a929b}\n",
    "svg.speech .paper{fill:#fff;fill:var(--bg)}\n",
    "svg.speech line.soft{stroke:#5b6875;stroke:var(--soft)}\n",
    "svg.speech line.line{stroke:#dfe4ea;stroke:var(--line)}\n",
    "svg.speech line{shape-rendering:crispEdges}svg.speech image{image-rendering:pixelated}\n",
    NULL,
};
/* clang-format on */

typedef struct drawing {
    const spsh__speech_plot *plot;
    spsh__builder svg; /* the marks; remembers a failure */
    spsh__feature_image image;
    double first_s, seconds; /* range of the time axis */
    double duration_s;       /* duration of the samples */
    float peak;
    int lanes, lane_height;
    int lane_top, heat_top, height;
} drawing;

/* Position of a text: base line, anchor, and class (NULL: soft). */
typedef struct text_place {
    int x, y;
    const char *anchor, *css;
} text_place;

static int x_of(const drawing *d, double at_s)
{
    return LEFT + (int)lround((at_s - d->first_s) / d->seconds * PLOT);
}

/* ---- text ---- */

/* Append text as for a terminal: no control characters, no direction marks, one line. */
static void append_clean(spsh__builder *out, spsh_bytes text, size_t columns_max)
{
    char *clean = NULL;
    size_t size_bytes = 0;
    FILE *stream = open_memstream(&clean, &size_bytes);
    if (stream != NULL)
        spsh__text_print(stream, text, columns_max);
    if (stream == NULL || fclose(stream) != 0)
        out->failed = true;
    else
        spsh__builder_append(out, clean, size_bytes);
    free(clean);
}

static bool is_ascii(spsh_bytes text)
{
    for (size_t i = 0; i < text.size_bytes; i++)
        if (text.data[i] >= 0x80)
            return false;
    return true;
}

/* Draw and free text. U+2068 and U+2069 around it isolate its direction, which the first letter
 * decides. */
static void draw_built(drawing *d, text_place at, spsh__builder *text)
{
    const bool is_foreign = !is_ascii(spsh__builder_bytes(text));
    spsh__svg_text_open(&d->svg, at.x, at.y, at.anchor, at.css);
    spsh__builder_append_text(&d->svg, is_foreign ? "\xe2\x81\xa8" : "");
    spsh__html_text(&d->svg, spsh__builder_bytes(text));
    spsh__builder_append_text(&d->svg, is_foreign ? "\xe2\x81\xa9" : "");
    spsh__svg_text_close(&d->svg);
    spsh__builder_append_text(&d->svg, "\n");
    d->svg.failed = d->svg.failed || text->failed;
    spsh__builder_free(text);
}

static void draw_text(drawing *d, text_place at, spsh_bytes text, size_t columns_max)
{
    spsh__builder clean = {0};
    append_clean(&clean, text, columns_max);
    draw_built(d, at, &clean);
}

static void draw_soft(drawing *d, int x, int y, const char *anchor, const char *text)
{
    spsh__svg_label(&d->svg, x, y, anchor, text);
    spsh__builder_append_text(&d->svg, "\n");
}

/* Draw the id. If it is too long, draw its end, which is the most specific part of a path. */
static void draw_id(drawing *d)
{
    const size_t columns = LINE_COLUMNS - FACTS_COLUMNS;
    spsh_bytes rest = d->plot->utterance->id;
    spsh__builder shown = {0};
    if (spsh__text_columns(rest) > columns)
        spsh__builder_append_text(&shown, "\xe2\x80\xa6");
    if (rest.size_bytes > ID_BYTES)
        rest = (spsh_bytes){rest.data + rest.size_bytes - ID_BYTES, ID_BYTES};
    while (spsh__text_columns(rest) > columns) {
        size_t length = spsh__utf8_sequence(rest);
        length = length == 0 ? 1 : length;
        rest = (spsh_bytes){rest.data + length, rest.size_bytes - length};
    }
    append_clean(&shown, rest, 0);
    draw_built(d, (text_place){LEFT, LINE, "start", "ink"}, &shown);
}

static void draw_facts(drawing *d)
{
    const spsh__speech *s = d->plot->speech;
    if (s == NULL) {
        draw_soft(d, RIGHT, LINE, "end",
                  SPSH_SHOW("%llu frames, %s", (unsigned long long)d->plot->rows->frame_count,
                            d->plot->codec));
        return;
    }
    const char *channels = s->channels > 1 ? SPSH_SHOW("%u channels, ", s->channels) : "";
    const char *peak =
        d->peak > 0 ? SPSH_SHOW("peak %.1f dB", 20 * log10((double)d->peak)) : "silent";
    draw_soft(d, RIGHT, LINE, "end",
              SPSH_SHOW("%s, %u Hz, %s%s, %s",
                        s->count == 0 ? "no samples" : SPSH_SHOW_DURATION(d->duration_s),
                        s->rate_hz, channels, d->plot->codec, peak));
}

static void append_name(spsh__builder *out, const char *before, spsh_bytes name)
{
    if (name.size_bytes == 0)
        return;
    spsh__builder_append_text(out, out->size_bytes > 0 ? ", " : "");
    spsh__builder_append_text(out, before);
    spsh__builder_append_bytes(out, name);
}

static void draw_names(drawing *d)
{
    const spsh_utterance *u = d->plot->utterance;
    const spsh_feature_options *f = &d->plot->rows->options;
    static const char *const kinds[] = {"bins of a spectrum", "mel bins", "cepstra"};
    spsh__builder names = {0};
    append_name(&names, "domain ", u->domain);
    append_name(&names, "split ", u->split);
    append_name(&names, "speaker ", u->speaker);
    append_name(&names, "language ", u->language);
    draw_text(d, (text_place){LEFT, 3 * LINE, "start", NULL}, spsh__builder_bytes(&names),
              LINE_COLUMNS - FACTS_COLUMNS);
    d->svg.failed = d->svg.failed || names.failed;
    spsh__builder_free(&names);
    draw_soft(d, RIGHT, 3 * LINE, "end",
              SPSH_SHOW("%u %s, %u Hz, %.4g ms every %.4g ms", d->plot->rows->dim, kinds[f->kind],
                        f->sample_rate_hz, f->window_us / 1e3, f->hop_us / 1e3));
}

static void draw_head(drawing *d)
{
    draw_id(d);
    draw_facts(d);
    draw_text(d, (text_place){LEFT, 2 * LINE, "start", "ink"}, d->plot->utterance->text,
              LINE_COLUMNS);
    draw_names(d);
    if (d->plot->what != NULL)
        draw_text(d, (text_place){LEFT, 4 * LINE, "start", "ink"}, spsh__bytes_of(d->plot->what),
                  LINE_COLUMNS);
}

/* ---- waveform ---- */

/* Draw a channel. A column without samples repeats the column before it. */
static void draw_lane(drawing *d, int number)
{
    const spsh__speech *s = d->plot->speech;
    const int left = x_of(d, 0);
    const int columns = x_of(d, d->duration_s) - left;
    const int top = d->lane_top + number * (d->lane_height + 2);
    float low[PLOT + 1], high[PLOT + 1];
    for (uint64_t i = 0; i < (uint64_t)columns; i++) {
        const uint64_t first = i * s->count / (uint64_t)columns;
        uint64_t end = (i + 1) * s->count / (uint64_t)columns;
        end = end > first ? end : first + 1;
        low[i] = 1;
        high[i] = -1;
        for (uint64_t n = first; n < end; n++) {
            const float value = (float)s->samples[n * s->channels + (uint64_t)number] / 32768.0F;
            low[i] = value < low[i] ? value : low[i];
            high[i] = value > high[i] ? value : high[i];
        }
    }
    const spsh__svg_lane lane = {low, high, columns, left, 1, top, d->lane_height, d->peak};
    spsh__svg_line(&d->svg, "line", LEFT, top + d->lane_height / 2, RIGHT,
                   top + d->lane_height / 2);
    spsh__svg_envelope(&d->svg, "c0", &lane);
}

static void find_peak(drawing *d)
{
    const spsh__speech *s = d->plot->speech;
    for (uint64_t n = 0; n < s->count * s->channels; n++) {
        const float value = fabsf((float)s->samples[n] / 32768.0F);
        d->peak = value > d->peak ? value : d->peak;
    }
}

/* ---- features ---- */

static int y_of(const drawing *d, double value)
{
    return d->heat_top + HEAT - (int)lround(spsh__feature_image_height_of(&d->image, value) * HEAT);
}

/* Draw the ticks. If they overlap, values earlier in the array win. */
static void draw_ticks(drawing *d, const double *values, size_t count)
{
    enum { TICKS_MAX = 32 };
    int places[TICKS_MAX];
    size_t placed = 0;
    for (size_t i = 0; i < count && placed < TICKS_MAX; i++) {
        const int y = y_of(d, values[i]);
        bool is_free = y >= d->heat_top && y <= d->heat_top + HEAT;
        for (size_t k = 0; k < placed; k++)
            is_free = is_free && abs(places[k] - y) >= TICK_GAP;
        if (!is_free)
            continue;
        places[placed++] = y;
        spsh__svg_line(&d->svg, "soft", LEFT - 4, y, LEFT, y);
        draw_soft(d, LEFT - 7, y + 4, "end", SPSH_SHOW("%.5g", values[i]));
    }
}

static void draw_upright_axis(drawing *d)
{
    static const double hertz[] = {1000,  4000,  8000,  2000,  16000, 500,   250, 32000,
                                   12000, 6000,  3000,  1500,  24000, 48000, 100, 64000,
                                   96000, 20000, 10000, 28000, 14000, 5000,  7000};
    static const double counts[] = {0, 5, 10, 15, 20, 25, 30, 35, 40, 60, 80, 100, 200, 400, 800};
    const bool is_in_hertz = spsh__feature_image_is_in_hertz(&d->image);
    if (is_in_hertz)
        draw_ticks(d, hertz, sizeof(hertz) / sizeof(hertz[0]));
    else
        draw_ticks(d, counts, sizeof(counts) / sizeof(counts[0]));
    draw_soft(d, 4, d->heat_top + HEAT / 2 + 4, "start", is_in_hertz ? "Hz" : "c");
}

static void draw_bar(drawing *d)
{
    uint8_t levels[SPSH__HEAT_LEVELS];
    const int x = BAR + BAR_WIDTH + 4;
    for (uint32_t i = 0; i < SPSH__HEAT_LEVELS; i++)
        levels[i] = (uint8_t)(SPSH__HEAT_LEVELS - 1 - i);
    spsh__heat_draw(&d->svg,
                    &(spsh__heat){levels, 1, SPSH__HEAT_LEVELS, BAR, d->heat_top, BAR_WIDTH, HEAT});
    draw_soft(d, x, d->heat_top + 9, "start", SPSH_SHOW("%.3g", d->image.high));
    draw_soft(d, x, d->heat_top + HEAT, "start", SPSH_SHOW("%.3g", d->image.low));
    draw_soft(d, x, d->heat_top + HEAT / 2, "start", d->image.unit);
}

static void draw_masks(drawing *d)
{
    const spsh_augment_draw *m = d->plot->masks;
    const uint64_t frames = d->plot->rows->frame_count;
    const uint32_t dim = d->plot->rows->dim;
    const int left = x_of(d, d->image.first_s);
    const int width = x_of(d, d->image.end_s) - left;
    for (uint32_t i = 0; i < m->time_masks; i++) {
        uint64_t first = 0, count = 0;
        spsh_augment_time_mask(m, i, frames, &first, &count);
        const int from = (int)((double)first / (double)frames * width);
        const int to = (int)((double)(first + count) / (double)frames * width);
        if (count > 0)
            spsh__svg_rect(&d->svg, "mask", left + from, d->heat_top, to - from, HEAT);
    }
    for (uint32_t i = 0; i < m->frequency_masks; i++) {
        uint32_t first = 0, count = 0;
        spsh_augment_frequency_mask(m, i, dim, &first, &count);
        const int from = (int)lround((double)first / dim * HEAT);
        const int to = (int)lround((double)(first + count) / dim * HEAT);
        if (count > 0)
            spsh__svg_rect(&d->svg, "mask", left, d->heat_top + HEAT - to, width, to - from);
    }
}

static void draw_features(drawing *d)
{
    const int left = x_of(d, d->image.first_s);
    draw_upright_axis(d);
    if (d->image.levels == NULL) {
        draw_soft(d, LEFT + PLOT / 2, d->heat_top + HEAT / 2, "middle",
                  "no frames: it is shorter than a window");
        return;
    }
    spsh__heat_draw(&d->svg, &(spsh__heat){d->image.levels, d->image.columns, d->image.rows, left,
                                           d->heat_top, x_of(d, d->image.end_s) - left, HEAT});
    if (d->plot->masks != NULL)
        draw_masks(d);
    draw_bar(d);
}

/* ---- time ---- */

/* "0.5 s", "2:30", "1:02:30" */
static void time_text(double at_s, double step_s, double seconds, char text[48])
{
    const unsigned long whole = (unsigned long)lround(at_s);
    if (seconds < 120 || step_s < 1)
        (void)snprintf(text, 48, "%.6g s", fabs(at_s) < 1e-9 ? 0.0 : at_s);
    else if (seconds < 7200)
        (void)snprintf(text, 48, "%lu:%02lu", whole / 60, whole % 60);
    else
        (void)snprintf(text, 48, "%lu:%02lu:%02lu", whole / 3600, whole / 60 % 60, whole % 60);
}

static void draw_time(drawing *d)
{
    static const double steps[] = {0.001, 0.002, 0.005, 0.01,  0.02,  0.05,   0.1,
                                   0.2,   0.5,   1,     2,     5,     10,     20,
                                   30,    60,    120,   300,   600,   1200,   1800,
                                   3600,  7200,  14400, 28800, 86400, 172800, 864000};
    const int top = d->heat_top + HEAT;
    char text[48];
    size_t k = 0;
    while (k + 1 < sizeof(steps) / sizeof(steps[0]) && d->seconds / steps[k] > 12)
        k++;
    spsh__svg_line(&d->svg, "soft", LEFT, top, RIGHT, top);
    for (unsigned i = 0; i * steps[k] <= d->first_s + d->seconds + 1e-9; i++) {
        const double at = i * steps[k];
        const int x = x_of(d, at);
        spsh__svg_line(&d->svg, "soft", x, top, x, top + 4);
        time_text(at, steps[k], d->seconds, text);
        draw_soft(d, x, top + 16, "middle", text);
    }
}

/* ---- the picture ---- */

static void place(drawing *d)
{
    const spsh__speech *s = d->plot->speech;
    d->lane_top = (d->plot->what != NULL ? 4 : 3) * LINE + GAP;
    d->heat_top = d->lane_top;
    if (s != NULL) {
        d->duration_s = (double)s->count / s->rate_hz;
        d->lanes = s->channels < LANES_MAX ? (int)s->channels : LANES_MAX;
        d->lane_height = LANES_HEIGHT / d->lanes;
        if (d->lane_height < LANES_HEIGHT_EACH)
            d->lane_height = LANES_HEIGHT_EACH;
        d->heat_top += d->lanes * (d->lane_height + 2) + GAP;
        find_peak(d);
    }
    d->height = d->heat_top + HEAT + 2 * LINE;
    d->first_s = d->image.levels != NULL ? fmin(0, d->image.first_s) : 0;
    d->seconds = (d->image.levels != NULL ? fmax(d->duration_s, d->image.end_s) : d->duration_s) -
                 d->first_s;
    if (d->seconds <= 0)
        d->seconds = 1;
}

/* Description for screen readers. */
static void describe(const spsh__speech_plot *plot, spsh__builder *out)
{
    char text[SPSH_FEATURE_TEXT_BYTES_MAX];
    (void)spsh_feature_options_text(&plot->rows->options, text, sizeof(text));
    append_clean(out, plot->utterance->text, DESCRIPTION_COLUMNS);
    spsh__builder_append_text(out, out->size_bytes > 0 ? "\n" : "");
    spsh__builder_append_text(out, text);
    if (plot->what == NULL)
        return;
    spsh__builder_append_text(out, "\n");
    append_clean(out, spsh__bytes_of(plot->what), DESCRIPTION_COLUMNS);
}

static void draw_all(drawing *d, spsh__builder *out)
{
    spsh__builder title = {0};
    spsh__builder description = {0};
    append_clean(&title, d->plot->utterance->id, LINE_COLUMNS);
    describe(d->plot, &description);
    spsh__svg_rect(&d->svg, "paper", 0, 0, WIDTH, d->height);
    draw_head(d);
    for (int i = 0; i < d->lanes; i++)
        draw_lane(d, i);
    draw_features(d);
    draw_time(d);
    spsh__svg_file_open(out, "speech", WIDTH, d->height, spsh__builder_bytes(&title), style);
    spsh__builder_append_text(out, "<desc>");
    spsh__html_text(out, spsh__builder_bytes(&description));
    spsh__builder_append_text(out, "</desc>\n");
    spsh__builder_append_bytes(out, spsh__builder_bytes(&d->svg));
    spsh__svg_file_close(out);
    out->failed = out->failed || title.failed || description.failed || d->svg.failed;
    spsh__builder_free(&title);
    spsh__builder_free(&description);
}

spsh_status spsh__speech_plot_draw(const spsh__speech_plot *plot, spsh__builder *out,
                                   spsh_error *err)
{
    drawing d = {.plot = plot};
    const spsh_status rc = spsh__feature_image_make(plot->rows, &d.image, err);
    if (rc == SPSH_OK) {
        place(&d);
        draw_all(&d, out);
    }
    spsh__builder_free(&d.svg);
    spsh__feature_image_free(&d.image);
    if (rc == SPSH_OK && out->failed)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "out of memory for a picture");
    return rc;
}
