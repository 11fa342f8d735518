/* speech_plot.c: see speech_plot.h.
 *
 *     id                             length, rate, channels, codec, peak     WIDTH x height
 *     transcript
 *     domain, split, speaker, language                          features
 *     [what has been done to it]
 *      ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~   a lane a channel
 *     8000 ################################################  # brightest value
 *     Hz   ################################################  #
 *      250 ################################################  # darkest
 *          0 s       0.5 s      1 s
 */
#include "speech_plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "common/file_names.h"

enum {
    LEFT = 56,
    PLOT = SPSH__IMAGE_COLUMNS_MAX,
    RIGHT = LEFT + PLOT,
    BAR = RIGHT + 8, /* of colours */
    BAR_WIDTH = 10,
    WIDTH = BAR + BAR_WIDTH + 46,
    LINE = 16, /* of text */
    HEAT = 240,
    GAP = 10,
    LANES_MAX = 4,
    LANES_HEIGHT = 96,
    LANES_HEIGHT_EACH = 56, /* at least */
    ID_BYTES = 1024,        /* more than are shown of any */
    FACTS_COLUMNS = 60,
    LINE_COLUMNS = 152,
    DESCRIPTION_COLUMNS = 4000,
    TICK_GAP = 14, /* between labels of the upright axis */
};

typedef struct drawing {
    const spsh__speech_plot *plot;
    spsh__canvas *canvas;
    spsh__feature_image image;
    double first_s, seconds; /* of the time line */
    double duration_s;       /* of the samples */
    float peak;
    int lanes, lane_height;
    int lane_top, heat_top, height;
    bool failed;
} drawing;

static int x_of(const drawing *d, double at_s)
{
    return LEFT + (int)lround((at_s - d->first_s) / d->seconds * PLOT);
}

/* ---- text ---- */

/* For people, as on a terminal: no control characters, no marks of direction, one line. */
static void append_clean(drawing *d, spsh__builder *out, spsh_bytes text, size_t columns_max)
{
    char *clean = NULL;
    size_t size_bytes = 0;
    FILE *stream = open_memstream(&clean, &size_bytes);
    if (stream == NULL) {
        d->failed = true;
        return;
    }
    spsh__text_print(stream, text, columns_max);
    if (fclose(stream) != 0)
        d->failed = true;
    else
        spsh__builder_append(out, clean, size_bytes);
    free(clean);
}

static void draw_text(drawing *d, const spsh__canvas_place *place, spsh_bytes text,
                      size_t columns_max)
{
    spsh__builder clean = {0};
    append_clean(d, &clean, text, columns_max);
    d->failed = d->failed || clean.failed;
    spsh__canvas_text(d->canvas, place, spsh__builder_bytes(&clean));
    spsh__builder_free(&clean);
}

static void draw_plain(drawing *d, const spsh__canvas_place *place, const char *text)
{
    spsh__canvas_text(d->canvas, place, spsh__bytes_of(text));
}

/* The end of a path tells more than its beginning. */
static void draw_id(drawing *d, int y)
{
    const spsh__canvas_place place = {LEFT, y, SPSH__LEFT, SPSH__INK_TEXT};
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
    append_clean(d, &shown, rest, 0);
    d->failed = d->failed || shown.failed;
    spsh__canvas_text(d->canvas, &place, spsh__builder_bytes(&shown));
    spsh__builder_free(&shown);
}

static void draw_facts(drawing *d, int y)
{
    const spsh__speech *s = d->plot->speech;
    const spsh__canvas_place place = {RIGHT, y, SPSH__RIGHT, SPSH__INK_SOFT};
    char duration[SPSH_HUMAN_BYTES];
    char text[160];
    char peak[32] = "silent";
    char channels[32] = "";
    if (s == NULL) {
        (void)snprintf(text, sizeof(text), "%llu frames, %s",
                       (unsigned long long)d->plot->rows->frame_count, d->plot->codec);
        draw_plain(d, &place, text);
        return;
    }
    if (d->peak > 0)
        (void)snprintf(peak, sizeof(peak), "peak %.1f dB", 20 * log10((double)d->peak));
    if (s->channels > 1)
        (void)snprintf(channels, sizeof(channels), "%u channels, ", s->channels);
    (void)snprintf(text, sizeof(text), "%s, %u Hz, %s%s, %s",
                   s->count == 0 ? "no samples" : spsh__human_duration(d->duration_s, duration),
                   s->rate_hz, channels, d->plot->codec, peak);
    draw_plain(d, &place, text);
}

static void append_name(spsh__builder *out, const char *before, spsh_bytes name)
{
    if (name.size_bytes == 0)
        return;
    spsh__builder_append_text(out, out->size_bytes > 0 ? ", " : "");
    spsh__builder_append_text(out, before);
    spsh__builder_append_bytes(out, name);
}

static void draw_names(drawing *d, int y)
{
    const spsh_utterance *u = d->plot->utterance;
    const spsh_feature_options *f = &d->plot->rows->options;
    const spsh__canvas_place left = {LEFT, y, SPSH__LEFT, SPSH__INK_SOFT};
    const spsh__canvas_place right = {RIGHT, y, SPSH__RIGHT, SPSH__INK_SOFT};
    static const char *const kinds[] = {"bins of a spectrum", "mel bins", "cepstra"};
    char text[160];
    spsh__builder names = {0};
    append_name(&names, "domain ", u->domain);
    append_name(&names, "split ", u->split);
    append_name(&names, "speaker ", u->speaker);
    append_name(&names, "language ", u->language);
    draw_text(d, &left, spsh__builder_bytes(&names), LINE_COLUMNS - FACTS_COLUMNS);
    d->failed = d->failed || names.failed;
    spsh__builder_free(&names);
    (void)snprintf(text, sizeof(text), "%u %s, %u Hz, %.4g ms every %.4g ms", d->plot->rows->dim,
                   kinds[f->kind], f->sample_rate_hz, f->window_us / 1e3, f->hop_us / 1e3);
    draw_plain(d, &right, text);
}

static void draw_head(drawing *d)
{
    const spsh__canvas_place transcript = {LEFT, 2 * LINE, SPSH__LEFT, SPSH__INK_TEXT};
    const spsh__canvas_place what = {LEFT, 4 * LINE, SPSH__LEFT, SPSH__INK_TEXT};
    draw_id(d, LINE);
    draw_facts(d, LINE);
    draw_text(d, &transcript, d->plot->utterance->text, LINE_COLUMNS);
    draw_names(d, 3 * LINE);
    if (d->plot->what != NULL)
        draw_text(d, &what, spsh__bytes_of(d->plot->what), LINE_COLUMNS);
}

/* ---- waveform ---- */

/* A column without samples of its own repeats the one before it. */
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
    spsh__canvas_line(d->canvas, SPSH__INK_LINE, LEFT, top + d->lane_height / 2, RIGHT,
                      top + d->lane_height / 2);
    spsh__canvas_envelope(d->canvas, SPSH__INK_WAVE, &lane);
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

/* Those in front come first where there is no room for all. */
static void draw_ticks(drawing *d, const double *values, size_t count)
{
    enum { TICKS_MAX = 32 };
    int places[TICKS_MAX];
    size_t placed = 0;
    char text[32];
    for (size_t i = 0; i < count && placed < TICKS_MAX; i++) {
        const int y = y_of(d, values[i]);
        bool is_free = y >= d->heat_top && y <= d->heat_top + HEAT;
        for (size_t k = 0; k < placed; k++)
            is_free = is_free && abs(places[k] - y) >= TICK_GAP;
        if (!is_free)
            continue;
        places[placed++] = y;
        spsh__canvas_line(d->canvas, SPSH__INK_SOFT, LEFT - 4, y, LEFT, y);
        (void)snprintf(text, sizeof(text), "%.5g", values[i]);
        draw_plain(d, &(spsh__canvas_place){LEFT - 7, y + 4, SPSH__RIGHT, SPSH__INK_SOFT}, text);
    }
}

static void draw_upright_axis(drawing *d)
{
    static const double hertz[] = {1000,  4000,  8000,  2000,  16000, 500,   250, 32000,
                                   12000, 6000,  3000,  1500,  24000, 48000, 100, 64000,
                                   96000, 20000, 10000, 28000, 14000, 5000,  7000};
    static const double counts[] = {0, 5, 10, 15, 20, 25, 30, 35, 40, 60, 80, 100, 200, 400, 800};
    const spsh__canvas_place unit = {4, d->heat_top + HEAT / 2 + 4, SPSH__LEFT, SPSH__INK_SOFT};
    if (spsh__feature_image_is_in_hertz(&d->image)) {
        draw_ticks(d, hertz, sizeof(hertz) / sizeof(hertz[0]));
        draw_plain(d, &unit, "Hz");
    } else {
        draw_ticks(d, counts, sizeof(counts) / sizeof(counts[0]));
        draw_plain(d, &unit, "c");
    }
}

static void draw_bar(drawing *d)
{
    uint8_t levels[SPSH__HEAT_LEVELS];
    char text[48];
    const int bottom = d->heat_top + HEAT;
    for (uint32_t i = 0; i < SPSH__HEAT_LEVELS; i++)
        levels[i] = (uint8_t)(SPSH__HEAT_LEVELS - 1 - i);
    spsh__canvas_heat(
        d->canvas, &(spsh__heat){levels, 1, SPSH__HEAT_LEVELS, BAR, d->heat_top, BAR_WIDTH, HEAT});
    const int x = BAR + BAR_WIDTH + 4;
    (void)snprintf(text, sizeof(text), "%.3g", d->image.high);
    draw_plain(d, &(spsh__canvas_place){x, d->heat_top + 9, SPSH__LEFT, SPSH__INK_SOFT}, text);
    (void)snprintf(text, sizeof(text), "%.3g", d->image.low);
    draw_plain(d, &(spsh__canvas_place){x, bottom, SPSH__LEFT, SPSH__INK_SOFT}, text);
    draw_plain(d, &(spsh__canvas_place){x, d->heat_top + HEAT / 2, SPSH__LEFT, SPSH__INK_SOFT},
               d->image.unit);
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
            spsh__canvas_rect(d->canvas, SPSH__INK_MASK, left + from, d->heat_top, to - from, HEAT);
    }
    for (uint32_t i = 0; i < m->frequency_masks; i++) {
        uint32_t first = 0, count = 0;
        spsh_augment_frequency_mask(m, i, dim, &first, &count);
        const int from = (int)lround((double)first / dim * HEAT);
        const int to = (int)lround((double)(first + count) / dim * HEAT);
        if (count > 0)
            spsh__canvas_rect(d->canvas, SPSH__INK_MASK, left, d->heat_top + HEAT - to, width,
                              to - from);
    }
}

static void draw_features(drawing *d)
{
    const int left = x_of(d, d->image.first_s);
    const spsh__canvas_place none = {LEFT + PLOT / 2, d->heat_top + HEAT / 2, SPSH__MIDDLE,
                                     SPSH__INK_SOFT};
    draw_upright_axis(d);
    if (d->image.levels == NULL) {
        draw_plain(d, &none, "no frames: it is shorter than a window");
        return;
    }
    spsh__canvas_heat(d->canvas,
                      &(spsh__heat){d->image.levels, d->image.columns, d->image.rows, left,
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
    spsh__canvas_line(d->canvas, SPSH__INK_SOFT, LEFT, top, RIGHT, top);
    for (unsigned i = 0; i * steps[k] <= d->first_s + d->seconds + 1e-9; i++) {
        const double at = i * steps[k];
        const int x = x_of(d, at);
        spsh__canvas_line(d->canvas, SPSH__INK_SOFT, x, top, x, top + 4);
        time_text(at, steps[k], d->seconds, text);
        draw_plain(d, &(spsh__canvas_place){x, top + 16, SPSH__MIDDLE, SPSH__INK_SOFT}, text);
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

/* What is to be read where it cannot be seen. */
static void describe(drawing *d, spsh__builder *title, spsh__builder *description)
{
    char text[SPSH_FEATURE_TEXT_BYTES_MAX];
    (void)spsh_feature_options_text(&d->plot->rows->options, text, sizeof(text));
    append_clean(d, title, d->plot->utterance->id, LINE_COLUMNS);
    append_clean(d, description, d->plot->utterance->text, DESCRIPTION_COLUMNS);
    spsh__builder_append_text(description, description->size_bytes > 0 ? "\n" : "");
    spsh__builder_append_text(description, text);
    if (d->plot->what == NULL)
        return;
    spsh__builder_append_text(description, "\n");
    append_clean(d, description, spsh__bytes_of(d->plot->what), DESCRIPTION_COLUMNS);
}

static void draw_all(drawing *d)
{
    spsh__canvas_rect(d->canvas, SPSH__INK_PAPER, 0, 0, WIDTH, d->height);
    draw_head(d);
    for (int i = 0; i < d->lanes; i++)
        draw_lane(d, i);
    draw_features(d);
    draw_time(d);
}

spsh_status spsh__speech_plot_draw(const spsh__speech_plot *plot, spsh__builder *out,
                                   spsh_error *err)
{
    drawing d = {.plot = plot};
    spsh__builder title = {0};
    spsh__builder description = {0};
    spsh_status rc = spsh__feature_image_make(plot->rows, &d.image, err);
    if (rc == SPSH_OK) {
        place(&d);
        d.canvas = spsh__canvas_new(WIDTH, d.height);
        describe(&d, &title, &description);
        if (d.canvas != NULL)
            draw_all(&d);
        const char *const name = spsh__builder_text(&title);
        const char *const more = spsh__builder_text(&description);
        if (d.canvas == NULL || d.failed || name == NULL || more == NULL) {
            spsh_error_set(err, SPSH_E_NO_MEMORY, 0, SPSH_OFFSET_NONE,
                           "out of memory for a picture");
            rc = SPSH_E_NO_MEMORY;
        } else {
            rc = spsh__canvas_finish(d.canvas, name, more, out, err);
        }
    }
    spsh__canvas_free(d.canvas);
    spsh__feature_image_free(&d.image);
    spsh__builder_free(&title);
    spsh__builder_free(&description);
    return rc;
}
