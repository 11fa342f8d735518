/* copy_page.c: see copy_page.h. */
#include "copy_page.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file_names.h"
#include "common/hash.h"
#include "common/human.h"
#include "pair/pair_view.h"
#include "speechshard/inside.h"

/* Number of pairs of different recordings that were compared at every offset in the calibration,
 * none of which was reported as a copy. The figure is from docs/BENCHMARKS.md, without the
 * recordings of single digits, which are too short for any verdict. By the rule of three, with 95 %
 * confidence fewer than 3 in this many pairs would be reported. */
#define CALIBRATION_PAIRS UINT64_C(876000)
#define RULE_OF_THREE     3

/* clang-format off */
static const char *const style[] = {
    "figure{margin:14px 0 0;padding-top:12px;border-top:1px solid var(--line)}\n",
    "figcaption{font-size:13px;overflow-wrap:anywhere}\n",
    ".pill{display:inline-block;border:1px solid var(--line);border-radius:9px;padding:0 8px;\n",
    "font-size:12px;white-space:nowrap}\n",
    ".keep{border-color:var(--c2)}.drop{border-color:var(--c4)}.tag{border-color:var(--c6)}\n",
    ".verdict{font-size:16px;margin:14px 0 0}\n",
    ".good{color:var(--c2)}.caution{color:var(--caution)}.bad{color:var(--c4)}\n",
    "q{quotes:none;font-style:italic}\n",
    "table.matrix td,table.matrix th{padding:5px 10px;border:1px solid var(--line)}\n",
    ".matrices{display:flex;flex-wrap:wrap;gap:0 48px}.matrices>div{min-width:0;max-width:100%}\n",
    "table.matrix{width:auto}table.matrix th{white-space:normal;max-width:220px}\n",
    "table.matrix td{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\n",
    "table.matrix tr:last-child td{border-bottom:1px solid var(--line)}\n",
    ".h1{background:rgba(204,79,85,.10)}.h2{background:rgba(204,79,85,.20)}\n",
    ".h3{background:rgba(204,79,85,.32)}.h4{background:rgba(204,79,85,.46)}\n",
    ".h5{background:rgba(204,79,85,.62)}\n",
    ".method h3{font-size:14px;margin:14px 0 4px}.method ul{margin:4px 0;padding-left:20px}\n",
    "h3{font-size:15px;margin:18px 0 6px}\n",
    NULL,
};
/* clang-format on */

/* ---- the page ---- */

spsh_status spsh__copy_page_open(spsh__copy_page *page, const spsh__copy_facts *facts,
                                 const char *title, spsh__builder *out, spsh_error *err)
{
    const char *lines[64] = {NULL};
    size_t count = 0;
    for (size_t i = 0; style[i] != NULL; i++)
        lines[count++] = style[i];
    for (size_t i = 0; spsh__pair_view_style[i] != NULL; i++)
        lines[count++] = spsh__pair_view_style[i];
    *page = (spsh__copy_page){.out = out, .facts = facts};
    page->dataset_count = spsh__print_set_dataset_count(facts->set);
    const spsh_status rc = spsh__set_readers_open(facts->set, &page->readers, err);
    if (rc == SPSH_OK)
        spsh__page_open(out, title, lines);
    return rc;
}

void spsh__copy_page_close(spsh__copy_page *page)
{
    spsh__page_close(page->out);
    spsh__set_readers_close(&page->readers);
}

const char *spsh__copy_last_part(const char *path)
{
    const char *part = path;
    for (const char *at = path; *at != '\0'; at++)
        part = at[0] == '/' && at[1] != '\0' ? at + 1 : part;
    return part;
}

spsh_bytes spsh__copy_base_of(const char *path)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t first = end;
    while (first > 0 && path[first - 1] != '/')
        first--;
    return (spsh_bytes){(const uint8_t *)path + first, end - first};
}

void spsh__copy_made(spsh__builder *out, const spsh__print_set *set, const char *command)
{
    spsh__page_made_open(out);
    for (size_t i = 0; i < spsh__print_set_dataset_count(set); i++) {
        const char *path = spsh_dataset_path(spsh__print_set_dataset(set, i));
        const char *name = spsh__copy_last_part(path);
        spsh__page_made_open_row(out, "dataset");
        spsh__builder_append_text(out, "<b>");
        spsh__page_name(out, spsh__bytes_of(name));
        spsh__builder_append_text(out, "</b> ");
        if (name != path)
            spsh__page_name(out, spsh__bytes_of(path));
        spsh__page_made_close_row(out);
    }
    spsh__page_made_close(out, spsh__bytes_of(command));
}

/* ---- utterances ---- */

spsh_status spsh__copy_name(spsh__copy_page *page, uint64_t ordinal, spsh_error *err)
{
    spsh_utterance utterance;
    const spsh_status rc = spsh__set_readers_metadata(&page->readers, ordinal, &utterance, err);
    if (rc != SPSH_OK)
        return rc;
    if (page->dataset_count > 1) {
        const spsh_dataset *d = spsh__print_set_place(page->facts->set, ordinal).dataset;
        spsh__builder_append_text(page->out, "<span class=\"soft\">");
        spsh__page_text(page->out, spsh__copy_last_part(spsh_dataset_path(d)));
        spsh__builder_append_text(page->out, ":</span> ");
    }
    spsh__page_name(page->out, utterance.id);
    if (utterance.split.size_bytes > 0) {
        spsh__builder_append_text(page->out, " <span class=\"soft\">");
        spsh__page_name(page->out, utterance.split);
        spsh__builder_append_text(page->out, "</span>");
    }
    return SPSH_OK;
}

spsh_status spsh__copy_transcript(spsh__copy_page *page, uint64_t ordinal, spsh_error *err)
{
    spsh_utterance utterance;
    const spsh_status rc = spsh__set_readers_metadata(&page->readers, ordinal, &utterance, err);
    if (rc != SPSH_OK)
        return rc;
    if (utterance.text.size_bytes == 0) {
        spsh__builder_append_text(page->out, "<span class=\"soft\">(no transcript)</span>");
        return SPSH_OK;
    }
    spsh__builder_append_text(page->out, "<q>");
    spsh__page_name(page->out, utterance.text);
    spsh__builder_append_text(page->out, "</q>");
    return SPSH_OK;
}

double spsh__copy_seconds(const spsh__copy_page *page, uint64_t ordinal)
{
    spsh_row row;
    if (spsh__print_set_index_row(page->facts->set, ordinal, &row, NULL) != SPSH_OK ||
        row.sample_rate_hz == 0)
        return 0;
    return (double)row.samples / row.sample_rate_hz;
}

/* ---- pairs ---- */

void spsh__copy_evidence_words(spsh__copy_page *page, const spsh__match *match)
{
    const double seconds = match->rate_hz == 0 ? 0 : (double)match->count / (double)match->rate_hz;
    spsh__html_format(page->out, "<code>%s</code>", spsh_copy_tier_text(match->tier));
    if (match->tier == SPSH_TIER_ACOUSTIC || match->tier == SPSH_TIER_SCALED)
        spsh__html_format(page->out, " BER %.3f, NCC %.3f, whitened %.3f", match->ber,
                          fabs(match->ncc), fabs(match->ncc_white));
    if (match->tier == SPSH_TIER_TEXT_NEAR)
        spsh__html_format(page->out, " similarity %.2f", match->similarity);
    if (match->tier == SPSH_TIER_TEXT_COVERED)
        spsh__html_format(page->out, " %.0f %% of its words in a row", 100 * match->coverage_b);
    if (seconds > 0)
        spsh__html_format(page->out, ", %s", SPSH_SHOW_DURATION(seconds));
}

static spsh_status draw_side(spsh__copy_page *page, const char *letter, uint64_t ordinal,
                             spsh_error *err)
{
    const spsh_side side = spsh__print_set_side(page->facts->set, ordinal);
    spsh__html_format(page->out, "<b>%s</b> ", letter);
    if (spsh__print_set_side_count(page->facts->set, SPSH_SIDE_TEST) > 0)
        spsh__html_format(page->out, "<span class=\"pill %s\">%s</span> ",
                          side == SPSH_SIDE_TEST ? "drop" : "keep",
                          side == SPSH_SIDE_TEST ? "test" : "train");
    spsh_status rc = spsh__copy_name(page, ordinal, err);
    spsh__builder_append_text(page->out, " \xe2\x80\x94 ");
    if (rc == SPSH_OK)
        rc = spsh__copy_transcript(page, ordinal, err);
    spsh__builder_append_text(page->out, "<br/>");
    return rc;
}

/* Show the match in words if there is no picture. */
static void draw_words(spsh__copy_page *page, const spsh__match *match)
{
    spsh__builder_append_text(page->out, "<p class=\"soft\">");
    if (match->kind != SPSH_COPY_NONE)
        spsh__html_format(page->out, "%s by ", spsh_copy_class_text(match->kind));
    spsh__copy_evidence_words(page, match);
}

spsh_status spsh__copy_figure(spsh__copy_page *page, const spsh__match *match, spsh_error *err)
{
    spsh_error why = SPSH_ERROR_INIT;
    spsh__builder_append_text(page->out, "<figure><figcaption>");
    spsh_status rc = draw_side(page, "a", match->a, err);
    if (rc == SPSH_OK)
        rc = draw_side(page, "b", match->b, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__builder_append_text(page->out, "</figcaption>\n");
    if (match->count == 0 || page->pictures == SPSH__PICTURES_MAX) {
        draw_words(page, match);
        spsh__builder_append_text(page->out, "</p></figure>\n");
        return SPSH_OK;
    }
    page->pictures++;
    rc = spsh__pair_view_draw(page->facts->set, match, false, page->out, &why);
    if (rc == SPSH_E_NO_MEMORY)
        return SPSH_NO_MEMORY(err);
    if (rc != SPSH_OK) {
        draw_words(page, match);
        spsh__builder_append_text(page->out, "; no picture: ");
        spsh__page_text(page->out, why.message);
        spsh__builder_append_text(page->out, "</p>\n");
    }
    spsh__builder_append_text(page->out, "</figure>\n");
    return SPSH_OK;
}

const char *spsh__copy_class_meaning(spsh_copy_class kind)
{
    static const char *const texts[SPSH_COPY_CLASS_COUNT] = {
        "nothing relevant in common",
        "the same recording: all of its speech is in both",
        "one contains the other",
        "a shared segment: a jingle, or one recording that was cut in two ways",
        "the same recording at another speed",
        ("bits and envelope agree, but the waveforms do not: a copy through a codec that discards "
         "the phase, or not a copy"),
        "the same performance through another microphone",
        "the same words spoken again: not a copy",
    };
    return kind < SPSH_COPY_CLASS_COUNT ? texts[kind] : "";
}

/* ---- findings ---- */

unsigned spsh__copy_tier_color(spsh_copy_tier tier)
{
    static const unsigned colors[SPSH_TIER_COUNT] = {2, 5, 0, 1, 3, 6, 6, 6, 7, 7, 7};
    return tier < SPSH_TIER_COUNT ? colors[tier] : 7;
}

static void draw_tier_legend(spsh__copy_page *page)
{
    spsh__builder_append_text(page->out, "<div class=\"legend\">");
    for (unsigned t = 0; t <= SPSH_TIER_SCALED; t++) {
        uint64_t count = 0;
        for (unsigned k = 0; k < SPSH_COPY_CLASS_COUNT; k++)
            count += page->facts->by_tier_class[t][k];
        spsh__html_format(page->out,
                          "<span><i class=\"c%u\"></i>%s <span class=\"soft\">%s</span></span>",
                          spsh__copy_tier_color((spsh_copy_tier)t),
                          spsh_copy_tier_text((spsh_copy_tier)t), SPSH_SHOW_COUNT(count));
    }
    spsh__builder_append_text(page->out, "</div>\n");
}

void spsh__copy_found(spsh__copy_page *page)
{
    uint64_t sums[SPSH_COPY_CLASS_COUNT] = {0};
    uint64_t most = 0;
    for (unsigned k = 1; k < SPSH_COPY_CLASS_COUNT; k++) {
        for (unsigned t = 0; t <= SPSH_TIER_SCALED; t++)
            sums[k] += page->facts->by_tier_class[t][k];
        most = sums[k] > most ? sums[k] : most;
    }
    if (most == 0)
        return;
    spsh__page_section_open(page->out, "Pairs that were found, by class");
    draw_tier_legend(page);
    spsh__page_table_open(page->out, "class|what it means|#pairs|by evidence");
    for (unsigned k = 1; k < SPSH_COPY_CLASS_COUNT; k++) {
        spsh__svg_slice slices[SPSH_TIER_COUNT] = {
            {0, 0}
        };
        if (sums[k] == 0)
            continue;
        for (unsigned t = 0; t <= SPSH_TIER_SCALED; t++)
            slices[t] = (spsh__svg_slice){(double)page->facts->by_tier_class[t][k],
                                          spsh__copy_tier_color((spsh_copy_tier)t)};
        spsh__html_format(page->out, "<tr><td><code>%s</code></td><td class=\"words\">%s</td>",
                          spsh_copy_class_text((spsh_copy_class)k),
                          spsh__copy_class_meaning((spsh_copy_class)k));
        spsh__page_cell_count(page->out, sums[k]);
        spsh__builder_append_text(page->out, "<td class=\"bars\">");
        spsh__svg_bar(page->out, slices, SPSH_TIER_SCALED + 1, (double)most);
        spsh__builder_append_text(page->out, "</td></tr>\n");
    }
    spsh__page_table_close(page->out);
    spsh__page_section_close(page->out);
}

/* ---- evidence ---- */

static uint64_t sum_of(const uint64_t *bars)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < SPSH__HISTOGRAM_BARS; i++)
        sum += bars[i];
    return sum;
}

/* Find the gap between the two kinds: from the end of `low` to the start of `high`. If the kinds
 * overlap, *ret_end is less than *ret_first, and the bars between them hold both. */
static void find_gap(const uint64_t *low, const uint64_t *high, double step, double *ret_first,
                     double *ret_end)
{
    size_t low_end = 0;
    size_t high_first = SPSH__HISTOGRAM_BARS;
    for (size_t i = 0; i < SPSH__HISTOGRAM_BARS; i++) {
        low_end = low[i] > 0 ? i + 1 : low_end;
        high_first = high[i] > 0 && high_first == SPSH__HISTOGRAM_BARS ? i : high_first;
    }
    *ret_first = (double)low_end * step;
    *ret_end = (double)high_first * step;
    if (sum_of(low) == 0 || sum_of(high) == 0)
        *ret_first = *ret_end = 0;
}

static void draw_evidence(spsh__copy_page *page, spsh__svg_histogram *plot, const uint64_t *low,
                          const uint64_t *high, const char *what)
{
    find_gap(low, high, plot->step, &plot->gap_first, &plot->gap_end);
    spsh__builder_append_text(page->out, "<div>");
    spsh__svg_histogram_draw(page->out, plot);
    if (plot->gap_end > plot->gap_first)
        spsh__html_format(page->out,
                          "<p class=\"soft\">No pair has a %s from %.2f to %.2f, so this measure "
                          "separates copies from other pairs.</p>",
                          what, plot->gap_first, plot->gap_end);
    else if (plot->gap_end < plot->gap_first)
        spsh__html_format(page->out,
                          "<p class=\"soft\">From %.2f to %.2f both kinds occur, so the %s does "
                          "not decide there.</p>",
                          plot->gap_end, plot->gap_first, what);
    spsh__builder_append_text(page->out, "</div>");
}

void spsh__copy_evidence(spsh__copy_page *page)
{
    const spsh__copy_facts *f = page->facts;
    const spsh__align_limits *limits = f->limits;
    const spsh__svg_mark ber_marks[] = {
        {limits->ber_sure,   "sure with bits"},
        {limits->ber_max[2], "limit"         },
    };
    const spsh__svg_mark ncc_marks[] = {
        {limits->ncc_with_bits, "with bits"},
        {limits->ncc_sure,      "sure"     },
    };
    spsh__svg_histogram ber = {.values = f->ber_same,
                               .others = f->ber_other,
                               .count = SPSH__HISTOGRAM_BARS,
                               .marks = ber_marks,
                               .mark_count = 2,
                               .is_log = true,
                               .step = 0.5 / SPSH__HISTOGRAM_BARS,
                               .color = 0,
                               .other_color = 7,
                               .title = "pairs by bit error rate",
                               .x_label = "bit error rate of the fingerprints",
                               .y_label = "pairs (logarithmic)"};
    spsh__svg_histogram ncc = ber;
    ncc.values = f->ncc_same;
    ncc.others = f->ncc_other;
    ncc.marks = ncc_marks;
    ncc.step = 1.0 / SPSH__HISTOGRAM_BARS;
    ncc.title = "pairs by correlation";
    ncc.x_label = "correlation of the waveforms, 300 to 3,400 Hz";
    if (sum_of(f->ber_same) + sum_of(f->ber_other) == 0)
        return;
    spsh__page_section_open(page->out, "How clearly copies differ from other pairs");
    spsh__builder_append_text(
        page->out, "<div class=\"legend\"><span><i class=\"c0\"></i>a copy</span><span><i "
                   "class=\"c7\"></i>audio compared, not a copy</span></div><div class=\"plots\">");
    draw_evidence(page, &ber, f->ber_same, f->ber_other, "bit error rate");
    draw_evidence(page, &ncc, f->ncc_other, f->ncc_same, "correlation");
    spsh__builder_append_text(
        page->out, "</div>\n<p class=\"soft\">A copy must pass both limits and that of the "
                   "whitened correlation. Short segments have stricter limits; see below.</p>\n");
    spsh__page_section_close(page->out);
}

/* ---- data and method ---- */

void spsh__copy_datasets(spsh__copy_page *page)
{
    char id[33];
    spsh__page_section_open(page->out, "Datasets");
    spsh__page_table_open(page->out, "dataset|id|#generation|#utterances");
    for (size_t i = 0; i < page->dataset_count; i++) {
        const spsh_dataset *dataset = spsh__print_set_dataset(page->facts->set, i);
        const spsh_dataset_info *info = spsh_dataset_info_get(dataset);
        spsh__hex128(info->dataset_id, id);
        spsh__builder_append_text(page->out, "<tr>");
        spsh__page_cell_name(page->out, spsh__bytes_of(spsh_dataset_path(dataset)));
        spsh__html_format(page->out, "<td><code>%s</code></td>", id);
        spsh__page_cell_count(page->out, info->generation);
        spsh__page_cell_count(page->out, info->utterance_count);
        spsh__builder_append_text(page->out, "</tr>\n");
    }
    spsh__page_table_close(page->out);
    spsh__page_section_close(page->out);
}

static void limit_row(spsh__copy_page *page, const char *what, const char *format, ...)
    SPSH_PRINTF(3, 4);
static void limit_row(spsh__copy_page *page, const char *what, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    spsh__builder_append_text(page->out, "<tr><td>");
    spsh__page_text(page->out, what);
    spsh__builder_append_text(page->out, "</td><td>");
    spsh__page_text(page->out, text);
    spsh__builder_append_text(page->out, "</td></tr>\n");
}

static void draw_limits(spsh__copy_page *page)
{
    const spsh__align_limits *l = page->facts->limits;
    spsh__html_format(page->out, "<h3>Every limit (version %u)</h3>\n", (unsigned)l->version);
    spsh__page_table_open(page->out, "what|limit");
    limit_row(page, "common active speech", "at least %.3g s; if less, only exact copies are found",
              l->active_min_s);
    limit_row(page, "bit error rate",
              "at most %.3g below 1.5 s, %.3g below 2.5 s, %.3g above; a frame counts for a copy "
              "below %.3g",
              l->ber_max[0], l->ber_max[1], l->ber_max[2], l->bit_worth);
    limit_row(page, "end of a common segment",
              "after %.0f excess wrong bits; blocks with a correlation below %.3g also divide the "
              "segment if their bits disagree",
              l->gap_cost, l->ncc_gap);
    limit_row(page, "is speech",
              "at least %.3g distinct bit patterns per second, tonality at most %.3g",
              l->words_min_hz, l->tonality_max);
    limit_row(
        page, "correlation",
        "at least %.3g, or %.3g if the bit error rate is at most %.3g; whitened at least %.3g",
        l->ncc_sure, l->ncc_with_bits, l->ber_sure, l->white_min);
    limit_row(page, "below one second",
              "below %.3g s: %.3g and whitened %.3g, or whitened %.3g with few wrong bits; below "
              "%.3g s: %.3g and %.3g",
              l->short_s, l->ncc_short, l->white_short, l->white_with_bits, l->tiny_s, l->ncc_tiny,
              l->white_tiny);
    limit_row(page, "whole recording", "at least %.0f %% of its active speech",
              100 * l->coverage_min);
    limit_row(page, "drift",
              "corrected and reported from %.0f ppm, tried up to %.0f ppm; a block of 200 ms "
              "agrees if its correlation is at least %.3g",
              l->slope_min_ppm, l->speed_max_ppm, l->ncc_block);
    limit_row(page, "probable copy",
              "from %.3g s: bit error rate at most %.3g and envelope at least %.3g; from %.3g s: "
              "%.3g and %.3g",
              l->probable_s, l->ber_probable, l->envelope_probable, l->long_s, l->ber_long,
              l->envelope_long);
    limit_row(page, "same performance",
              "%.0f %% of the blocks and at least %u blocks have lags within %.3g ms of a line, "
              "drift at most %.0f ppm, envelope at least %.3g",
              100 * l->share_performance, (unsigned)l->blocks_performance, l->spread_max_ms,
              l->slope_max_ppm, l->envelope_performance);
    spsh__page_table_close(page->out);
}

static void draw_counts(spsh__copy_page *page)
{
    const spsh__copies_facts *c = page->facts->copies;
    const struct {
        const char *what;
        uint64_t count;
    } rows[] = {
        {"utterances",                                  spsh__print_set_count(page->facts->set)      },
        {"fingerprints",                                spsh__print_set_print_count(page->facts->set)},
        {"keys compared",                               c->join.key_count                            },
        {"candidate pairs with similar parts",          c->join.candidate_count                      },
        {"candidates whose fingerprints were compared", c->judge.judged_count                        },
        {"candidates whose audio was compared",         c->judge.decoded_count                       },
        {"pairs of fingerprint frames compared",        c->judge.frame_pairs                         },
        {"matches by exact samples or bytes",           c->exact_count                               },
        {"utterances that cannot be decoded",           c->undecoded_count                           },
    };
    spsh__builder_append_text(page->out, "<h3>How much was compared</h3>\n");
    spsh__page_table_open(page->out, "what|#number");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        spsh__html_format(page->out, "<tr><td>%s</td>", rows[i].what);
        spsh__page_cell_count(page->out, rows[i].count);
        spsh__builder_append_text(page->out, "</tr>\n");
    }
    spsh__page_table_close(page->out);
}

static void draw_bound(spsh__copy_page *page)
{
    const uint64_t one_in = CALIBRATION_PAIRS / RULE_OF_THREE;
    const uint64_t heard = page->facts->copies->judge.decoded_count;
    spsh__html_format(
        page->out,
        "<h3>False links</h3><p>The limits were tested on about %s pairs of recordings, which are "
        "790 million pairs of one-second windows: different sentences of one voice, the same words "
        "spoken again, prompts cut from one session, and noises. None was classified as a copy. "
        "With 95&#160;%% confidence, fewer than 1 in %s such pairs would be",
        SPSH_SHOW_COUNT(CALIBRATION_PAIRS), SPSH_SHOW_COUNT(one_in));
    spsh__html_format(page->out, "; of the %s pairs whose audio was compared here, fewer than %s.",
                      SPSH_SHOW_COUNT(heard), SPSH_SHOW_COUNT(heard / one_in + 1));
    spsh__builder_append_text(
        page->out, " Candidates are more similar than random pairs, and the test had only some 300 "
                   "voices, so these figures are estimates without a guarantee: look at the "
                   "pictures of the weakest pairs. Exact tiers compare digests of 128 bits.</p>\n");
}

static void draw_blind_spots(spsh__copy_page *page)
{
    static const struct {
        const char *mode; /* search mode; NULL: every mode except exact */
        const char *text;
    } spots[] = {
        {"exact",
         "everything except equal bytes and samples: there was no search for copies that were "
         "encoded, resampled, or filtered again"                                              },
        {"mild",  "strong codecs (GSM, Opus below 16 kbit/s), reverberation and noise: two such "
                 "copies share few keys, and --search deep finds more of them"},
        {"deep",  "strong codecs (GSM, Opus below 16 kbit/s), reverberation and noise: two such "
                 "copies share few keys, and some are missed"                 },
        {"auto",  "cuts out of longer recordings through strong codecs, reverberation or noise: "
                 "they share few keys, and some are missed"                   },
        {"audit",
         "strong codecs, reverberation and noise on clips of a second or so: some are missed" },
        {NULL,
         "less than half a second of active speech, unless samples, texts, or names are equal"},
        {NULL,
         "another pitch, and a speed that differs by more than 1.5 % (with --speed-grid: speeds "
         "outside the grid)"                                                                  },
        {NULL,
         "parametric and neural codecs, and voices under equally loud music or speech: at best "
         "reported as probable_copy, and never dropped"                                       },
        {NULL,    "audio that cannot be decoded here: it may have copies"                     },
    };
    const bool is_exact = strcmp(page->facts->mode, "exact") == 0;
    spsh__builder_append_text(page->out, "<h3>What this search does not find</h3><ul>");
    for (size_t i = 0; i < sizeof(spots) / sizeof(spots[0]); i++) {
        const char *mode = spots[i].mode;
        if (mode == NULL ? !is_exact : strcmp(mode, page->facts->mode) == 0)
            spsh__html_format(page->out, "<li>%s</li>", spots[i].text);
    }
    spsh__builder_append_text(page->out, "</ul>\n");
}

void spsh__copy_method(spsh__copy_page *page)
{
    spsh__builder_append_text(page->out, "<section class=\"method\"><h2>Method</h2>\n");
    spsh__html_format(page->out,
                      "<p class=\"soft\">speechshard %s, fingerprint version %u, limits version "
                      "%u, search: %s</p>\n",
                      spsh_version(), (unsigned)SPSH__FINGERPRINT_VERSION,
                      (unsigned)page->facts->limits->version, page->facts->mode);
    draw_counts(page);
    draw_bound(page);
    draw_limits(page);
    draw_blind_spots(page);
    spsh__page_section_close(page->out);
}
