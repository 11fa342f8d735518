/* pair_view.c: see pair_view.h. The layout of the picture:
 *
 *     id of a, position of the window             WIDTH x HEIGHT, scaled by the page
 *     ------====------------------   the window within a, unless the window shows all of a
 *     ~~~~~~~~|##############|~~~~   envelope of a, with the match shaded
 *     id of b, position of the window
 *     ~~~~~~~~|##############|~~~~   envelope of b
 *             ..|..|.....|...        wrong bits, 0 to 16 of 32 (16: as expected by chance)
 *             ##############         correlation of blocks of 200 ms, 0 to 1
 *     0 s      1 s      2 s          time of a
 *     numbers
 *
 * All coordinates are integers, which keeps 40 pictures at about half a megabyte.
 */
#include "pair_view.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file_names.h"
#include "common/human.h"
#include "common/page.h"
#include "common/svg_marks.h"
#include "pair_audio.h"

enum {
    LEFT = 40,
    PLOT = 2 * SPSH__PAIR_COLUMNS,
    RIGHT = LEFT + PLOT,
    WIDTH = RIGHT + 10,
    LANE_A = 22, /* y of the top edges */
    LANE_B = 116,
    LANE = 70, /* heights */
    STRIP_BITS = 200,
    STRIP_BLOCKS = 244,
    STRIP = 34,
    AXIS = STRIP_BLOCKS + STRIP + 6,
    HEIGHT = AXIS + 52,
    CHANCE_BITS = 16,
    FRAME_MIDDLE = SPSH__PRINT_SPAN / 2, /* samples at 8 kHz */
};

/* clang-format off */
const char *const spsh__pair_view_style[] = {
    "svg.pair{display:block;width:100%;height:auto;margin:4px 0 10px}\n",
    "@media (max-width:600px){.wide svg.pair{width:680px}}\n",
    "svg.pair .match{fill:var(--c1);fill-opacity:.14}\n",
    "svg.pair .edge{stroke:var(--c1);stroke-dasharray:4 3}\n",
    "svg.pair .all{fill:var(--line)}\n",
    "svg.pair .id{fill:var(--ink)}\n",
    "svg.pair .limit{stroke:var(--soft);stroke-dasharray:2 3}\n",
    NULL,
};
/* clang-format on */

static int x_of(const spsh__pair_window *w, double seconds)
{
    return LEFT + (int)lround(seconds / w->seconds * PLOT);
}

/* ---- lanes ---- */

/* Draw an envelope scaled to its peak. The label states the peak. */
static void draw_envelope(spsh__builder *out, const spsh__pair_lane *lane, int top, const char *css)
{
    const spsh__svg_lane drawn = {lane->low, lane->high, SPSH__PAIR_COLUMNS, LEFT, 2,
                                  top,       LANE,       lane->peak};
    spsh__svg_envelope(out, css, &drawn);
    spsh__svg_line(out, "grid", LEFT, top + LANE / 2, RIGHT, top + LANE / 2);
}

/* Append an id, shortened at the front to fit into the line. The end of a path is more specific. */
static void append_id(spsh__builder *out, spsh_bytes id)
{
    size_t skip = 0;
    if (id.size_bytes > 70) {
        skip = id.size_bytes - 67;
        while (skip < id.size_bytes && (id.data[skip] & 0xc0) == 0x80)
            skip++;
        spsh__builder_append_text(out, "\xe2\x80\xa6");
    }
    spsh__html_text(out, (spsh_bytes){id.data + skip, id.size_bytes - skip});
}

static spsh_status draw_head(spsh__builder *out, const spsh__pair_window *w,
                             const spsh__pair_lane *lane, int top, const char *letter,
                             spsh_error *err)
{
    spsh_reader *reader = NULL;
    spsh_utterance utterance;
    spsh_status rc = spsh_reader_open(lane->dataset, &reader, err);
    if (rc == SPSH_OK)
        rc = spsh_reader_metadata(reader, lane->position, &utterance, err);
    if (rc == SPSH_OK) {
        spsh__svg_text_open(out, LEFT, top - 8, "start", "id");
        spsh__html_format(out, "%s  ", letter);
        append_id(out, utterance.id);
        spsh__builder_append_text(out, "</text>");
        const double first = fmax(lane->first_s, 0);
        const double last = fmin(lane->first_s + w->seconds * lane->speed, lane->total_s);
        const bool is_all = first <= 0 && last >= lane->total_s - 0.005;
        const char *place = is_all
                                ? SPSH_SHOW("all %.2f s", lane->total_s)
                                : SPSH_SHOW("%.2f to %.2f s of %.2f s", first, last, lane->total_s);
        spsh__svg_label(out, RIGHT, top - 8, "end",
                        SPSH_SHOW("%s, %u Hz, peak %.0f dB", place,
                                  (unsigned)lane->row.sample_rate_hz,
                                  20 * log10(fmax((double)lane->peak, 1e-5))));
    }
    spsh_reader_close(reader);
    return rc;
}

/* Draw a thin bar for the whole recording with the window marked in it. */
static void draw_whole(spsh__builder *out, const spsh__pair_window *w, const spsh__pair_lane *lane,
                       int top)
{
    const double first = fmax(lane->first_s, 0);
    const double last = fmin(lane->first_s + w->seconds * lane->speed, lane->total_s);
    if (last <= first || (first <= 0 && last >= lane->total_s - 0.005))
        return;
    spsh__svg_rect(out, "all", LEFT, top - 5, PLOT, 3);
    spsh__svg_rect(out, "c3", LEFT + (int)(first / lane->total_s * PLOT), top - 5,
                   (int)((last - first) / lane->total_s * PLOT), 3);
}

/* ---- strips ---- */

/* Draw the wrong bits. Both prints begin with the window, so frames with equal indices are aligned.
 */
static void draw_bits(spsh__builder *out, const spsh__pair_window *w)
{
    const spsh__print *const a = &w->a.print;
    const spsh__print *const b = &w->b.print;
    const size_t count = a->frame_count < b->frame_count ? a->frame_count : b->frame_count;
    const int zero = STRIP_BITS + STRIP;
    const int limit =
        zero - (int)lround(spsh__align_limits_default.bit_worth * 32 * STRIP / CHANCE_BITS);
    uint32_t wrong[SPSH__PAIR_COLUMNS] = {0};
    uint32_t frames[SPSH__PAIR_COLUMNS] = {0};
    for (size_t i = 0; i < count; i++) {
        const double at = ((double)i * SPSH__PRINT_HOP + FRAME_MIDDLE) / 8000;
        const size_t column = (size_t)(at / w->seconds * SPSH__PAIR_COLUMNS);
        if (column >= SPSH__PAIR_COLUMNS || !a->frames[i].is_active || !b->frames[i].is_active)
            continue;
        wrong[column] += (uint32_t)__builtin_popcount(a->frames[i].word ^ b->frames[i].word);
        frames[column]++;
    }
    for (unsigned bad = 0; bad < 2; bad++) {
        bool any = false;
        const double step = w->seconds / SPSH__PAIR_COLUMNS; /* seconds per column; a frame may be
                                                                wider */
        const int width = step < 0.016 ? (int)ceil(2 * 0.016 / step) : 2;
        for (size_t i = 0; i < SPSH__PAIR_COLUMNS; i++) {
            const double bits = frames[i] == 0 ? -1 : (double)wrong[i] / frames[i];
            const int y = zero - (int)lround(fmin(bits, CHANCE_BITS) * STRIP / CHANCE_BITS);
            if (frames[i] == 0 || (y < limit) != (bad == 1))
                continue;
            if (!any)
                spsh__html_format(out, "<path class=\"%s\" d=\"", bad == 1 ? "c4" : "c2");
            any = true;
            spsh__html_format(out, "M%zu,%dh%dV%dh-%d", LEFT + 2 * i, zero, width,
                              y == zero ? zero - 1 : y, width);
        }
        if (any)
            spsh__builder_append_text(out, "\"/>");
    }
    spsh__svg_line(out, "limit", LEFT, limit, RIGHT, limit);
    spsh__svg_line(out, "axis", LEFT, zero, RIGHT, zero);
    spsh__svg_label(out, LEFT - 4, zero, "end", "bits");
}

static void draw_blocks(spsh__builder *out, const spsh__pair_window *w)
{
    const int zero = STRIP_BLOCKS + STRIP;
    const double good = spsh__align_limits_default.ncc_block;
    const int limit = zero - (int)lround(good * STRIP);
    for (size_t i = 0; i < w->block_count; i++) {
        const double first = w->match_first_s + (double)i * SPSH__PAIR_BLOCK_S;
        const int x = x_of(w, first);
        const int width = x_of(w, first + SPSH__PAIR_BLOCK_S) - x;
        const int height = (int)lround((double)w->blocks[i] * STRIP);
        if (w->blocks[i] >= 0)
            spsh__svg_rect(out, (double)w->blocks[i] >= good ? "c2" : "c4", x, zero - height,
                           width > 3 ? width - 1 : width, height);
    }
    spsh__svg_line(out, "limit", LEFT, limit, RIGHT, limit);
    spsh__svg_line(out, "axis", LEFT, zero, RIGHT, zero);
    spsh__svg_label(out, LEFT - 4, zero, "end", "wave");
}

static void draw_axis(spsh__builder *out, const spsh__pair_window *w)
{
    static const double steps[] = {0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10};
    size_t k = 0;
    while (k + 1 < sizeof(steps) / sizeof(steps[0]) && w->seconds / steps[k] > 12)
        k++;
    const double first = ceil(w->a.first_s / steps[k] - 1e-9);
    for (unsigned i = 0; i < 16; i++) {
        const double value = (first + i) * steps[k];
        const int x = x_of(w, value - w->a.first_s);
        if (value - w->a.first_s > w->seconds + 1e-9)
            break;
        spsh__svg_line(out, "axis", x, AXIS, x, AXIS + 4);
        spsh__svg_label(out, x, AXIS + 15, x > RIGHT - 20 ? "end" : "middle",
                        SPSH_SHOW("%.4g s", fabs(value) < 1e-9 ? 0.0 : value));
    }
}

/* ---- numbers ---- */

static void draw_numbers(spsh__builder *out, const spsh__pair_window *w, const spsh__match *m)
{
    const spsh__pair_place place = spsh__pair_place_of(m);
    char line[256];
    if (m->count == 0) {
        spsh__svg_label(out, LEFT, AXIS + 33, "start",
                        "nothing in common; both are shown from the start");
        return;
    }
    (void)snprintf(line, sizeof(line),
                   "%s (%s): %.3f s in common, a from %.3f s, b from %.3f s; %.0f %% of a's and "
                   "%.0f %% of b's speech",
                   spsh_copy_class_text(m->kind), spsh_copy_tier_text(m->tier), place.a_s,
                   place.a_first_s, place.b_first_s, 100 * m->coverage_a, 100 * m->coverage_b);
    spsh__svg_label(out, LEFT, AXIS + 33, "start", line);
    size_t used = 0;
    line[0] = '\0';
    if (m->tier == SPSH_TIER_ACOUSTIC || m->tier == SPSH_TIER_SCALED)
        used = (size_t)snprintf(line, sizeof(line),
                                "bit error rate %.3f, correlation %.3f, whitened %.3f; ", m->ber,
                                m->ncc, m->ncc_white);
    if (m->envelope > 0) /* measured only if the waveform did not decide */
        used += (size_t)snprintf(line + used, sizeof(line) - used, "envelope %.2f; ", m->envelope);
    if (fabs(m->slope_ppm) >= 1)
        used +=
            (size_t)snprintf(line + used, sizeof(line) - used, "drift %.0f ppm; ", m->slope_ppm);
    const bool is_copy = m->kind != SPSH_COPY_NONE && m->kind != SPSH_COPY_REREAD;
    if (w->has_gain && is_copy)
        used += (size_t)snprintf(line + used, sizeof(line) - used, "b is %.1f dB %s; ",
                                 fabs(w->gain_db), w->gain_db < 0 ? "quieter" : "louder");
    (void)snprintf(line + used, sizeof(line) - used, "%s%s",
                   m->is_inverted && is_copy ? "b is inverted; " : "",
                   m->scale > 0 && fabs(m->scale - 1) > 1e-9 ? "b's speed corrected" : "");
    const size_t length = strlen(line);
    if (length >= 2 && line[length - 2] == ';')
        line[length - 2] = '\0';
    spsh__svg_label(out, LEFT, AXIS + 48, "start", line);
}

/* ---- the picture ---- */

static const char title[] = "two aligned waveforms, with wrong bits and correlation below";

static spsh_status draw_window(spsh__builder *out, const spsh__pair_window *w,
                               const spsh__match *match, spsh_error *err)
{
    const int first = x_of(w, w->match_first_s);
    const int last = x_of(w, w->match_first_s + w->match_s);
    spsh_status rc = draw_head(out, w, &w->a, LANE_A, "a", err);
    if (rc == SPSH_OK)
        rc = draw_head(out, w, &w->b, LANE_B, "b", err);
    if (rc != SPSH_OK)
        return rc;
    if (w->match_s > 0) {
        spsh__svg_rect(out, "match", first, LANE_A, last - first, STRIP_BLOCKS + STRIP - LANE_A);
        spsh__svg_line(out, "edge", first, LANE_A, first, STRIP_BLOCKS + STRIP);
        spsh__svg_line(out, "edge", last, LANE_A, last, STRIP_BLOCKS + STRIP);
    }
    draw_whole(out, w, &w->a, LANE_A);
    draw_whole(out, w, &w->b, LANE_B);
    draw_envelope(out, &w->a, LANE_A, "c0");
    draw_envelope(out, &w->b, LANE_B, "c3");
    draw_bits(out, w);
    draw_blocks(out, w);
    draw_axis(out, w);
    draw_numbers(out, w, match);
    return SPSH_OK;
}

spsh_status spsh__pair_view_draw(const spsh__print_set *set, const spsh__match *match, bool is_file,
                                 spsh__builder *out, spsh_error *err)
{
    spsh__pair_window *w = NULL;
    spsh__builder picture = {0};
    spsh_status rc = spsh__pair_window_make(set, match, &w, err);
    if (rc == SPSH_OK)
        rc = draw_window(&picture, w, match, err);
    if (rc == SPSH_OK) {
        if (is_file)
            spsh__svg_file_open(out, "pair", WIDTH, HEIGHT, spsh__bytes_of(title),
                                spsh__pair_view_style + 2);
        else
            spsh__html_format(
                out,
                "<div class=\"wide\"><svg class=\"pair\" viewBox=\"0 0 %d %d\" role=\"img\">"
                "<title>%s</title>",
                WIDTH, HEIGHT, title);
        out->failed = out->failed || picture.failed;
        spsh__builder_append_bytes(out, spsh__builder_bytes(&picture));
        spsh__svg_file_close(out);
        spsh__builder_append_text(out, is_file ? "" : "</div>\n");
    }
    spsh__builder_free(&picture);
    spsh__pair_window_free(w);
    return rc;
}
