/* pack_report_html.c: see pack_report.h. One function per section. A section without content
 * is omitted. Long tables are cut and show the number of omitted rows; pack.json has all rows.
 */
#include "pack_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file_names.h"
#include "common/hash.h"
#include "common/human.h"
#include "common/jsonl.h"
#include "common/page.h"

#define SPLITS_COLORED  (SPSH__SVG_COLORS - 1U)
#define LEVEL_RANGE_MIN 40U

/* ---- the head ---- */

static void draw_tiles(spsh__builder *out, const spsh__facts *f)
{
    const uint64_t rows = spsh__source_rows_in(&f->rows);
    const uint64_t rejected = f->rows.rejected + f->tally.rejected;
    spsh__builder_append_text(out, "<div class=\"tiles\">\n");
    spsh__page_tile(out, SPSH_SHOW_DURATION(f->all.seconds), "of audio in utterances");
    spsh__page_tile(out, SPSH_SHOW_COUNT(f->counts.packed), "utterances of %s rows",
                    SPSH_SHOW_COUNT(rows));
    spsh__page_tile(out, SPSH_SHOW_COUNT(rejected), "rows rejected (%s)",
                    SPSH_SHOW_PERCENT((double)rejected, (double)rows));
    spsh__page_tile(out, SPSH_SHOW_COUNT(f->copies.utterances), "copies of other utterances, %s",
                    SPSH_SHOW_DURATION(f->copies.seconds));
    spsh__page_tile(out, SPSH_SHOW_COUNT(f->info.speaker_count), "speakers named");
    spsh__page_tile(
        out, SPSH_SHOW_BYTES(f->info.shard_bytes), "in %s shard%s; %s of the PCM",
        SPSH_SHOW_COUNT(f->info.shard_count), f->info.shard_count == 1 ? "" : "s",
        SPSH_SHOW_PERCENT((double)f->counts.payload_bytes, (double)f->counts.pcm_bytes));
    spsh__builder_append_text(out, "</div>\n");
}

static void draw_warnings(spsh__builder *out, const spsh__facts *f)
{
    bool is_open = false;
    for (size_t i = 0; i < f->warning_count; i++)
        spsh__page_warn(out, &is_open, "%s", f->warnings[i]);
    spsh__page_warnings_close(out, is_open);
}

/* ---- sources ---- */

static void cells_of_rows(spsh__builder *out, const spsh__source_rows *rows,
                          const spsh__source_tally *tally)
{
    spsh__page_cell_count(out, spsh__source_rows_in(rows));
    spsh__page_cell_count(out, tally->packed);
    spsh__page_cell_count(out, spsh__source_rejected(rows, tally));
    spsh__page_cell_count(out, rows->merged);
    spsh__page_cell_count(out, rows->excluded);
    spsh__page_cell_duration(out, (double)tally->audio_ns / 1e9);
}

static void row_source(spsh__builder *out, const void *facts, size_t i)
{
    const spsh__facts *const f = (const spsh__facts *)facts;
    if (i == f->sources.count) {
        spsh__builder_append_text(out, "<td>all</td>");
        cells_of_rows(out, &f->rows, &f->tally);
        return;
    }
    const spsh__source *source = &f->sources.items[i];
    const bool several = f->sources.items[f->sources.count - 1].operand > 0;
    spsh__builder_append_text(out, "<td class=\"name\">");
    if (several)
        spsh__html_format(out, "corpus %" PRIu64 " ", source->operand + 1);
    if (strcmp(source->root, ".") != 0)
        spsh__page_name(out, spsh__bytes_of(source->root));
    else if (!several)
        spsh__builder_append_text(out, "the whole corpus");
    spsh__builder_append_text(out, "<br/><span class=\"soft\">");
    spsh__page_text(out, source->layout);
    spsh__builder_append_text(out, ": ");
    spsh__page_name(out, spsh__bytes_of(source->evidence));
    spsh__builder_append_text(out, "</span></td>");
    cells_of_rows(out, &source->rows, &f->tallies[i]);
}

static void draw_sources(spsh__builder *out, const spsh__facts *f)
{
    const bool has_total = f->sources.count > 1;
    const spsh__page_table table = {
        f,           "source|#rows in|#packed|#rejected|#merged|#excluded|#audio",
        row_source,  f->sources.count + has_total,
        "pack.json", has_total};
    spsh__page_section_open(out, "Sources: where every row went");
    spsh__page_rows(out, &table);
    spsh__builder_append_text(
        out, "<p class=\"soft\">rows in = packed + rejected + merged + excluded. Merged rows name "
             "what another row of the source gave already; excluded ones were not asked for.</p>");
    spsh__page_section_close(out);
}

static void row_published(spsh__builder *out, const void *facts, size_t row)
{
    const spsh__facts *const f = (const spsh__facts *)facts;
    size_t part = 0;
    for (size_t seen = 0;; part++) {
        seen += f->published.utterances[part] > 0 ? 1 : 0;
        if (seen > row)
            break;
    }
    const spsh__published *p = &spsh__published_parts[part];
    const uint64_t found = f->published.utterances[part];
    spsh__builder_append_text(out, "<td class=\"name\">");
    spsh__page_text(out, p->corpus);
    spsh__builder_append_text(out, " ");
    spsh__page_text(out, p->part);
    spsh__builder_append_text(out, "</td>");
    spsh__page_cell_count(out, found);
    spsh__page_cell_count(out, p->utterances);
    spsh__page_cell_percent(out, (double)found, (double)p->utterances);
    spsh__page_cell_bar(out, (double)found, (double)(found > p->utterances ? found : p->utterances),
                        found == p->utterances ? 2 : 1);
}

static void draw_published(spsh__builder *out, const spsh__facts *f)
{
    spsh__page_table table = {f,    "part|#found|#published|#share|", row_published, 0, "pack.json",
                              false};
    for (size_t i = 0; i < spsh__published_count(); i++)
        table.count += f->published.utterances[i] > 0 ? 1 : 0;
    if (table.count == 0)
        return;
    spsh__page_section_open(out, "Compared with the published releases");
    spsh__page_rows(out, &table);
    spsh__page_section_close(out);
}

/* ---- domains and splits ---- */

static unsigned split_color(size_t split)
{
    return split < SPLITS_COLORED ? (unsigned)split : SPSH__SVG_COLORS - 1;
}

static int compare_domain(const void *key, const void *cell)
{
    const size_t domain = *(const size_t *)key;
    const size_t other = ((const spsh__fact_cell *)cell)->domain;
    return (domain > other) - (domain < other);
}

/* Draw the splits of a domain side by side. */
static void draw_domain_bar(spsh__builder *out, const spsh__facts *f, size_t domain)
{
    spsh__svg_slice slices[SPSH__SVG_COLORS] = {
        {0, 0}
    };
    const spsh__fact_cell *cell =
        bsearch(&domain, f->cells, f->cell_count, sizeof(*f->cells), compare_domain);
    const spsh__fact_cell *const end = f->cells + f->cell_count;
    for (unsigned i = 0; i < SPSH__SVG_COLORS; i++)
        slices[i].color = i;
    while (cell != NULL && cell > f->cells && cell[-1].domain == domain)
        cell--;
    for (; cell != NULL && cell < end && cell->domain == domain; cell++)
        slices[split_color(cell->split)].value += cell->all.seconds;
    spsh__svg_bar(out, slices, SPSH__SVG_COLORS, f->domains.items[0].all.seconds);
}

static void row_domain(spsh__builder *out, const void *facts, size_t i)
{
    const spsh__facts *const f = (const spsh__facts *)facts;
    const spsh__part *domain = &f->domains.items[i];
    spsh__page_cell_name(out, domain->name);
    spsh__page_cell_duration(out, domain->all.seconds);
    spsh__page_cell_percent(out, domain->all.seconds, f->all.seconds);
    spsh__page_cell_count(out, domain->all.utterances);
    spsh__builder_append_text(out, "<td class=\"bars\">");
    draw_domain_bar(out, f, i);
    spsh__builder_append_text(out, "</td>");
}

static void draw_legend(spsh__builder *out, const spsh__facts *f)
{
    double others = 0;
    spsh__builder_append_text(out, "<div class=\"legend\">");
    for (size_t i = 0; i < f->splits.count; i++) {
        const spsh__part *split = &f->splits.items[i];
        if (split_color(i) == SPSH__SVG_COLORS - 1) {
            others += split->all.seconds;
            continue;
        }
        spsh__html_format(out, "<span><i class=\"c%u\"></i>", split_color(i));
        if (split->name.size_bytes == 0)
            spsh__builder_append_text(out, "no split");
        else
            spsh__page_name(out, split->name);
        spsh__html_format(out, " <span class=\"soft\">%s, %s</span></span>",
                          SPSH_SHOW_DURATION(split->all.seconds),
                          SPSH_SHOW_PERCENT(split->all.seconds, f->all.seconds));
    }
    if (f->splits.count > SPLITS_COLORED)
        spsh__html_format(out,
                          "<span><i class=\"c%u\"></i>others (%zu) "
                          "<span class=\"soft\">%s</span></span>",
                          SPSH__SVG_COLORS - 1, f->splits.count - SPLITS_COLORED,
                          SPSH_SHOW_DURATION(others));
    spsh__builder_append_text(out, "</div>\n");
}

static void draw_domains(spsh__builder *out, const spsh__facts *f)
{
    const spsh__page_table table = {f,           "domain|#audio|#share|#utterances|by split",
                                    row_domain,  f->domains.count,
                                    "pack.json", false};
    char title[64];
    (void)snprintf(title, sizeof(title), "Hours by domain and split: %s domain%s",
                   SPSH_SHOW_COUNT(f->domains.count), f->domains.count == 1 ? "" : "s");
    spsh__page_section_open(out, title);
    draw_legend(out, f);
    spsh__page_rows(out, &table);
    spsh__page_section_close(out);
}

/* ---- durations and levels ---- */

static void draw_durations(spsh__builder *out, const spsh__facts *f)
{
    const spsh__durations *d = &f->durations;
    const spsh__svg_histogram plot = {
        .values = d->bars,
        .count = d->bar_count,
        .step = d->bar_seconds,
        .last_is_open = d->last_is_open,
        .title = "utterances by duration",
        .x_label = d->last_is_open ? "seconds; the last bar holds all longer ones" : "seconds",
        .y_label = "utterances"};
    spsh__page_section_open(out, "Durations");
    spsh__builder_append_text(out, "<div class=\"plots\"><div>");
    spsh__svg_histogram_draw(out, &plot);
    spsh__builder_append_text(out, "</div><div>");
    spsh__page_table_open(out, "of the utterances|#are at most");
    for (size_t i = 0; i < SPSH__PERCENTILES; i++)
        spsh__html_format(out, "<tr><td>%u %%</td><td class=\"n\">%s</td></tr>\n",
                          spsh__percentiles[i], SPSH_SHOW_DURATION(d->percentiles[i]));
    spsh__builder_append_text(out, "<tr><td>all (the longest)</td>");
    spsh__page_cell_duration(out, d->max_seconds);
    spsh__builder_append_text(out, "</tr><tr><td>shortest</td>");
    spsh__page_cell_duration(out, d->min_seconds);
    spsh__builder_append_text(out, "</tr><tr><td>mean</td>");
    spsh__page_cell_duration(
        out, f->all.utterances == 0 ? 0 : f->all.seconds / (double)f->all.utterances);
    spsh__builder_append_text(out, "</tr>\n");
    spsh__page_table_close(out);
    spsh__builder_append_text(out, "</div></div>\n");
    spsh__page_section_close(out);
}

/* Return the range of a plot below full scale, in dB: down to the lowest bin in use, rounded up to
 * a multiple of 10. */
static size_t level_range(const uint64_t *bins)
{
    size_t range = LEVEL_RANGE_MIN;
    for (size_t i = 0; i < SPSH__LEVEL_BINS; i++)
        range = bins[i] > 0 && i >= range ? i / 10 * 10 + 10 : range;
    return range;
}

static void draw_level(spsh__builder *out, const uint64_t *bins, const char *title,
                       const char *x_label, unsigned color)
{
    uint64_t rising[SPSH__LEVEL_BINS];
    const size_t range = level_range(bins);
    for (size_t i = 0; i < range; i++)
        rising[i] = bins[range - 1 - i];
    const spsh__svg_histogram plot = {.values = rising,
                                      .count = range,
                                      .first = -(double)range,
                                      .step = 1,
                                      .first_is_open = range == SPSH__LEVEL_BINS,
                                      .color = color,
                                      .title = title,
                                      .x_label = x_label,
                                      .y_label = "recordings"};
    spsh__builder_append_text(out, "<div>");
    spsh__svg_histogram_draw(out, &plot);
    spsh__builder_append_text(out, "</div>");
}

static void draw_levels(spsh__builder *out, const spsh__facts *f)
{
    const spsh__level_counts *levels = &f->levels;
    const uint64_t quiet = spsh__level_quiet(levels);
    if (levels->recordings == 0)
        return;
    spsh__page_section_open(out, "Levels");
    spsh__builder_append_text(out, "<div class=\"plots\">");
    draw_level(out, levels->peaks, "recordings by peak level", "peak, dB of full scale", 5);
    draw_level(out, levels->rms, "recordings by RMS level", "RMS, dB of full scale", 3);
    spsh__builder_append_text(out, "</div>\n");
    spsh__html_format(out, "<p class=\"soft\">%s recordings measured; ",
                      SPSH_SHOW_COUNT(levels->recordings));
    spsh__html_format(
        out, "%s (%s) as good as silent, with an RMS below -%u dBFS; ", SPSH_SHOW_COUNT(quiet),
        SPSH_SHOW_PERCENT((double)quiet, (double)levels->recordings), SPSH__LEVEL_QUIET_DB);
    spsh__html_format(out, "%s (%s) clipped, with %u or more values at full scale.</p>",
                      SPSH_SHOW_COUNT(levels->clipped),
                      SPSH_SHOW_PERCENT((double)levels->clipped, (double)levels->recordings),
                      SPSH__LEVEL_CLIPPED_AT);
    spsh__page_section_close(out);
}

/* ---- codecs and rates ---- */

static void row_kind(spsh__builder *out, const void *facts, size_t i)
{
    const spsh__facts *const f = (const spsh__facts *)facts;
    const spsh_pack_kind *kind = &f->kinds[i];
    if (kind->sample_rate_hz == 0)
        spsh__builder_append_text(out, "<td>all others</td><td></td><td></td>");
    else
        spsh__html_format(
            out, "<td>%s</td><td class=\"n\">%s Hz</td><td class=\"n\">%" PRIu32 "</td>",
            spsh_codec_name(kind->codec), SPSH_SHOW_COUNT(kind->sample_rate_hz), kind->channels);
    spsh__page_cell_duration(out, kind->seconds);
    spsh__page_cell_percent(out, kind->seconds, f->all.seconds);
    spsh__page_cell_count(out, kind->utterances);
    spsh__page_cell_bar(out, kind->seconds, f->all.seconds, 0);
}

static void draw_kinds(spsh__builder *out, const spsh__facts *f)
{
    const spsh__page_table table = {f,           "codec|#rate|#channels|#audio|#share|#utterances|",
                                    row_kind,    f->kind_count,
                                    "pack.json", false};
    spsh__page_section_open(out, "Codecs and rates, as stored");
    spsh__page_rows(out, &table);
    spsh__page_section_close(out);
}

/* ---- rejects ---- */

static const char *const example_members[] = {"source", "id", "detail", "line"};
enum { EXAMPLE_SOURCE, EXAMPLE_ID, EXAMPLE_DETAIL, EXAMPLE_LINE, EXAMPLE_MEMBERS };

static void draw_example(spsh__builder *out, const char *line)
{
    spsh__json_value values[EXAMPLE_MEMBERS];
    spsh__builder scratch = {0};
    size_t offset = 0;
    if (spsh__json_pick(spsh__bytes_of(line), example_members, EXAMPLE_MEMBERS, values, NULL,
                        &offset) != NULL)
        return;
    spsh__builder_append_text(out, "<li>");
    for (int i = EXAMPLE_SOURCE; i <= EXAMPLE_DETAIL; i++) {
        spsh__builder_clear(&scratch);
        const spsh_bytes value = spsh__json_text(&values[i], &scratch);
        if (value.size_bytes == 0)
            continue;
        if (i == EXAMPLE_DETAIL)
            spsh__builder_append_text(out, " <span class=\"soft\">");
        spsh__page_name(out, value);
        if (i == EXAMPLE_SOURCE && values[EXAMPLE_LINE].kind == SPSH__JSON_NUMBER) {
            spsh__builder_append_text(out, ", line ");
            spsh__html_text(out, values[EXAMPLE_LINE].raw);
        }
        spsh__builder_append_text(out, i == EXAMPLE_DETAIL ? "</span>" : " ");
    }
    spsh__builder_append_text(out, "</li>");
    spsh__builder_free(&scratch);
}

static void draw_reason(spsh__builder *out, const spsh__facts *f, size_t reason, uint64_t most)
{
    spsh__html_format(out, "<tr><td><code>%s</code></td>",
                      spsh__reject_reason_text((spsh_reject_reason)reason));
    spsh__page_cell_count(out, f->rejects.events[reason]);
    spsh__page_cell_count(out, f->rejects.rows[reason]);
    spsh__builder_append_text(out, "<td class=\"bars narrow\">");
    const spsh__svg_slice slice = {(double)f->rejects.events[reason], 4};
    spsh__svg_bar(out, &slice, 1, (double)most);
    spsh__builder_append_text(out, "</td><td><ul class=\"examples\">");
    for (size_t i = 0; i < SPSH__EXAMPLES_MAX; i++) {
        if (f->examples.lines[reason][i] != NULL)
            draw_example(out, f->examples.lines[reason][i]);
    }
    spsh__builder_append_text(out, "</ul></td></tr>\n");
}

static void draw_rejects(spsh__builder *out, const spsh__facts *f)
{
    bool drawn[SPSH_REJECT_COUNT] = {false};
    uint64_t most = 0;
    for (size_t i = 0; i < SPSH_REJECT_COUNT; i++)
        most = f->rejects.events[i] > most ? f->rejects.events[i] : most;
    if (most == 0)
        return;
    spsh__page_section_open(out, "Rejected, by reason");
    spsh__page_table_open(out, "reason|#events|#rows lost||the first ones");
    for (;;) { /* in descending order of events; there are few reasons */
        size_t next = SPSH_REJECT_COUNT;
        for (size_t i = 0; i < SPSH_REJECT_COUNT; i++) {
            if (!drawn[i] && f->rejects.events[i] > 0 &&
                (next == SPSH_REJECT_COUNT || f->rejects.events[i] > f->rejects.events[next]))
                next = i;
        }
        if (next == SPSH_REJECT_COUNT)
            break;
        drawn[next] = true;
        draw_reason(out, f, next, most);
    }
    spsh__page_table_close(out);
    spsh__builder_append_text(out, "<p class=\"soft\"><code>rejects.jsonl</code> beside this page "
                                   "lists all of them.</p>\n");
    spsh__page_section_close(out);
}

/* ---- copies ---- */

static void row_copies(spsh__builder *out, const void *facts, size_t row)
{
    const spsh__facts *const f = (const spsh__facts *)facts;
    size_t i = 0;
    for (size_t seen = 0;; i++) {
        seen += f->domains.items[i].copies.utterances > 0 ? 1 : 0;
        if (seen > row)
            break;
    }
    const spsh__part *domain = &f->domains.items[i];
    spsh__page_cell_name(out, domain->name);
    spsh__page_cell_count(out, domain->copies.utterances);
    spsh__page_cell_percent(out, (double)domain->copies.utterances, (double)domain->all.utterances);
    spsh__page_cell_duration(out, domain->copies.seconds);
    spsh__page_cell_count(out, domain->from_others);
    spsh__page_cell_bar(out, (double)domain->copies.utterances, (double)domain->all.utterances, 6);
}

static void draw_copies(spsh__builder *out, const spsh__facts *f)
{
    spsh__page_table table = {
        f, "domain|#copies|#share|#audio|#of another domain|", row_copies, 0, "pack.json", false};
    if (f->copies.utterances == 0)
        return;
    for (size_t i = 0; i < f->domains.count; i++)
        table.count += f->domains.items[i].copies.utterances > 0 ? 1 : 0;
    spsh__page_section_open(out, "Duplicates by domain");
    spsh__page_rows(out, &table);
    spsh__builder_append_text(
        out,
        "<p class=\"soft\">A copy has the audio of an earlier utterance, which is stored once; "
        "it keeps its own id, text and metadata.</p>\n");
    spsh__page_section_close(out);
}

/* ---- the page ---- */

/* The script on the page fills in the dataset's name. So the same input makes the same page,
 * whatever the dataset's folder is called. */
static void draw_made(spsh__builder *out, const spsh__facts *f, const char *command)
{
    char id[33];
    spsh__hex128(f->dataset_id, id);
    spsh__page_made_open(out);
    spsh__page_made_open_row(out, "dataset");
    spsh__html_format(out,
                      "<b data-up=\"2\" data-last=\"1\">the folder above this page's</b> "
                      "<code>%s</code>",
                      id);
    spsh__page_made_close_row(out);
    spsh__page_made_close(out, spsh__bytes_of(command));
}

void spsh__report_html(spsh__builder *out, const spsh__facts *f, const char *command)
{
    spsh__page_open(out, "speechshard pack", NULL);
    spsh__builder_append_text(out, "<h1>What was packed</h1>\n");
    draw_made(out, f, command);
    draw_tiles(out, f);
    draw_warnings(out, f);
    draw_sources(out, f);
    draw_published(out, f);
    draw_domains(out, f);
    draw_durations(out, f);
    draw_levels(out, f);
    draw_kinds(out, f);
    draw_rejects(out, f);
    draw_copies(out, f);
    spsh__page_section_open(out, "Options");
    spsh__builder_append_text(out, "<pre>");
    spsh__html_text(out, spsh__builder_bytes(&f->options));
    spsh__builder_append_text(out, "</pre>\n");
    spsh__page_section_close(out);
    spsh__page_close(out);
}
