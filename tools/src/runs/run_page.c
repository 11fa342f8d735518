/* run_page.c: see run_page.h. One function per section. A section without content is omitted. */
#include "run_page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "common/curve.h"
#include "common/file_names.h"
#include "common/file_out.h"
#include "common/page.h"
#include "speechshard/inside.h"

enum { CONFIG_BYTES_MAX = 1 << 20, NUMBER_BYTES = 48 };
enum { LINES_MAX = SPSH__SVG_COLORS };

static const char lines_file[] = "metrics.jsonl";

/* ---- numbers ---- */

/* A dash if the value is not known. */
#define SHOW_REAL(value_)    (isfinite(value_) ? SPSH_SHOW("%.4g", (value_)) : "–")
#define SHOW_PERCENT(value_) (isfinite(value_) ? SPSH_SHOW("%.2f %%", 100 * (value_)) : "–")

static const char *instant(double time_s, char text[NUMBER_BYTES])
{
    const time_t seconds = isfinite(time_s) && fabs(time_s) < 1e11 ? (time_t)time_s : 0;
    struct tm fields;
    if (seconds <= 0 || gmtime_r(&seconds, &fields) == NULL ||
        strftime(text, NUMBER_BYTES, "%Y-%m-%d %H:%M:%S UTC", &fields) == 0)
        (void)snprintf(text, NUMBER_BYTES, "–");
    return text;
}

/* Convert to a count. Returns 0 for values that are not counts. */
static uint64_t count_of(double value)
{
    return value > 0 && value < 1e18 ? (uint64_t)value : 0;
}

static void cell(spsh__builder *out, const char *text)
{
    spsh__builder_append_text(out, "<td class=\"n\">");
    spsh__page_text(out, text);
    spsh__builder_append_text(out, "</td>");
}

static void cell_name(spsh__builder *out, const char *name)
{
    spsh__page_cell_name(out, spsh__bytes_of(name));
}

static double sum_of(const spsh__run_history *h, spsh__run_column column)
{
    return spsh__series_sum(&h->steps, column);
}

static bool is_of_frames(const spsh__run_history *h)
{
    return isfinite(h->last[SPSH__RUN_FRAME_ERROR]) ||
           (h->evaluation_count > 0 && isfinite(h->evaluations[0].frame_error));
}

/* ---- sections ---- */

static void draw_tiles(spsh__builder *out, const spsh__run_history *h)
{
    const spsh__run_evaluation *newest = spsh__run_newest(h, 0), *best = spsh__run_best(h);
    const double step_s = fmax(sum_of(h, SPSH__RUN_STEP_S), 1e-9);
    spsh__builder_append_text(out, "<div class=\"tiles\">\n");
    if (newest != NULL)
        spsh__page_tile(out, SHOW_PERCENT(spsh__run_error(newest)), "%s, last evaluation",
                        is_of_frames(h) ? "wrong frames" : "WER");
    if (newest != NULL && !is_of_frames(h))
        spsh__page_tile(out, SHOW_PERCENT(newest->cer), "CER, last evaluation");
    if (best != NULL)
        spsh__page_tile(out, SHOW_PERCENT(spsh__run_error(best)), "%s",
                        is_of_frames(h) ? "wrong frames, best evaluation" : "best WER");
    spsh__page_tile(out, SHOW_REAL(h->last[SPSH__RUN_LOSS]), "loss of the last step");
    spsh__page_tile(out, SPSH_SHOW_COUNT(count_of(h->last_step.step)), "steps");
    spsh__page_tile(out, SPSH_SHOW_COUNT(count_of(h->last_step.samples)), "utterances served");
    spsh__page_tile(out, SPSH_SHOW_DURATION(sum_of(h, SPSH__RUN_AUDIO_S)), "of audio");
    spsh__page_tile(out, SPSH_SHOW_DURATION(sum_of(h, SPSH__RUN_STEP_S)), "in steps");
    spsh__page_tile(out, SPSH_SHOW("%.0f s/s", sum_of(h, SPSH__RUN_AUDIO_S) / step_s),
                    "audio per second");
    spsh__page_tile(out, SPSH_SHOW("%.1f %%", 100 * sum_of(h, SPSH__RUN_WAIT_S) / step_s),
                    "of the time spent waiting for data");
    spsh__builder_append_text(out, "</div>\n");
}

static void draw_warnings(spsh__builder *out, const spsh__run_history *h)
{
    static const struct {
        spsh__run_column column;
        const char *text;
    } rows[] = {
        {SPSH__RUN_INFEASIBLE, "utterances skipped: fewer frames than their labels need"},
        {SPSH__RUN_WITHOUT_TEXT, "utterances skipped: no text in the vocabulary's symbols"},
        {SPSH__RUN_WITHOUT_FRAMES, "utterances skipped: too short for a frame"},
        {SPSH__RUN_WITHOUT_ALIGNMENT, "utterances skipped: no alignment"},
        {SPSH__RUN_OTHER_LENGTH, "utterances skipped: the alignment has another length"},
    };
    bool is_open = false;
    spsh__page_warn_count(out, &is_open, count_of(h->last_step.skipped_steps),
                          "steps were skipped: their gradients were not finite");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        spsh__page_warn_count(out, &is_open, count_of(sum_of(h, rows[i].column)), rows[i].text);
    if (h->damaged_lines > 0)
        spsh__page_warn(out, &is_open,
                        "%s invalid lines in %s are ignored, the first one is line %llu",
                        SPSH_SHOW_COUNT(h->damaged_lines), lines_file,
                        (unsigned long long)h->first_damaged_line);
    spsh__page_warnings_close(out, is_open);
}

static void draw_lines(spsh__builder *out, const spsh__curve *like, const spsh__line *lines,
                       size_t line_count)
{
    spsh__curve curve = *like;
    curve.lines = lines;
    curve.line_count = line_count;
    curve.x_label = "utterances served";
    spsh__curve_draw(out, &curve);
}

/* Draw losses: total, per domain, and of the evaluated sets. */
static void draw_losses(spsh__builder *out, const spsh__run_history *h, const spsh__curve *like)
{
    spsh__line lines[LINES_MAX] = {
        {&h->steps, SPSH__RUN_LOSS, SPSH__NO_COLUMN, 1, "training", 0, false}};
    size_t count = 1;
    for (size_t i = 0; i < h->set_count && count < LINES_MAX; i++, count++)
        lines[count] = (spsh__line){&h->sets[i].series,
                                    SPSH__SET_LOSS,
                                    SPSH__NO_COLUMN,
                                    1,
                                    h->sets[i].name,
                                    (unsigned)count,
                                    true};
    draw_lines(out, like, lines, count);
    if (h->domain_count < 2)
        return;
    for (count = 0; count < h->domain_count && count < LINES_MAX; count++)
        lines[count] = (spsh__line){
            &h->domains[count].series, 0,    SPSH__NO_COLUMN, 1, h->domains[count].name,
            (unsigned)count,           false};
    spsh__curve curve = *like;
    curve.title = "Loss of each domain in training";
    curve.y_label = "training loss of each domain";
    draw_lines(out, &curve, lines, count);
}

static void draw_times(spsh__builder *out, const spsh__run_history *h, const spsh__curve *like)
{
    const spsh__line shares[] = {
        {&h->steps, SPSH__RUN_WAIT_S, SPSH__RUN_STEP_S, 100, "waiting for data", 4, false},
        {&h->steps, SPSH__RUN_EXCHANGE_S, SPSH__RUN_STEP_S, 100, "waiting for processes", 5, false},
        {&h->steps, SPSH__RUN_PADDING, SPSH__NO_COLUMN, 100, "padding, % of frames", 6, false},
    };
    const spsh__line speed = {&h->steps, SPSH__RUN_AUDIO_S, SPSH__RUN_STEP_S, 1, "", 2, false};
    spsh__curve curve = *like;
    curve.title = "Throughput";
    curve.y_label = "seconds of audio per second";
    draw_lines(out, &curve, &speed, 1);
    curve.title = "Lost time";
    curve.y_label = "% of the time or of the frames";
    draw_lines(out, &curve, shares, sizeof(shares) / sizeof(shares[0]));
}

static void draw_steps(spsh__builder *out, const spsh__run_history *h, const spsh__curve *like)
{
    const spsh__line norm = {&h->steps, SPSH__RUN_NORM, SPSH__NO_COLUMN, 1, "", 1, false};
    const spsh__line rate = {&h->steps, SPSH__RUN_RATE, SPSH__NO_COLUMN, 1, "", 3, false};
    spsh__curve curve = *like;
    if (h->steps.count == 0)
        return;
    spsh__page_section_open(out, "Training");
    spsh__builder_append_text(out, "<div class=\"plots\">\n");
    curve.title = "Loss";
    curve.y_label = "loss, mean per utterance";
    draw_losses(out, h, &curve);
    curve.title = "Learning rate";
    curve.y_label = "learning rate";
    draw_lines(out, &curve, &rate, 1);
    curve.title = "Gradients";
    curve.y_label = "norm of all gradients, before clipping";
    curve.is_log = true;
    draw_lines(out, &curve, &norm, 1);
    draw_times(out, h, like);
    spsh__builder_append_text(out, "</div>\n");
    if (h->start_count > 1)
        spsh__builder_append_text(
            out, "<p class=\"soft\">Dashed lines: the run resumed from a checkpoint.</p>");
    spsh__page_section_close(out);
}

static void draw_rates(spsh__builder *out, const spsh__run_history *h, const spsh__curve *like,
                       uint32_t column)
{
    spsh__line lines[LINES_MAX];
    size_t count = 0;
    for (; count < h->set_count && count < LINES_MAX; count++)
        lines[count] =
            (spsh__line){&h->sets[count].series, column, SPSH__NO_COLUMN, 100, h->sets[count].name,
                         (unsigned)count,        true};
    spsh__curve curve = *like;
    curve.title = column == SPSH__SET_WER   ? "Word error rate"
                  : column == SPSH__SET_CER ? "Character error rate"
                                            : "Wrong frames";
    curve.y_label = column == SPSH__SET_WER   ? "WER, %"
                    : column == SPSH__SET_CER ? "CER, %"
                                              : "wrong frames, %";
    draw_lines(out, &curve, lines, count);
}

static void row_evaluation(spsh__builder *out, const void *history, size_t row)
{
    const spsh__run_history *h = (const spsh__run_history *)history;
    const spsh__run_evaluation *e = &h->evaluations[h->evaluation_count - 1 - row];
    cell_name(out, h->sets[e->set].name);
    spsh__page_cell_count(out, count_of(e->step));
    spsh__page_cell_count(out, count_of(e->utterances));
    cell(out, SHOW_PERCENT(spsh__run_error(e)));
    if (!is_of_frames(h)) {
        cell(out, SHOW_PERCENT(e->cer));
        cell(out, SHOW_PERCENT(e->cer_letters));
    }
    cell(out, SHOW_REAL(e->loss));
    spsh__page_cell_duration(out, isfinite(e->seconds) ? e->seconds : 0);
}

static void draw_evaluations(spsh__builder *out, const spsh__run_history *h,
                             const spsh__curve *like)
{
    const spsh__page_table table = {
        h,
        is_of_frames(h) ? "set|#step|#utterances|#wrong frames|#loss|#took"
                        : "set|#step|#utterances|#WER|#CER|#CER without blanks|#loss|#took",
        row_evaluation,
        h->evaluation_count,
        lines_file,
        false};
    if (h->evaluation_count == 0)
        return;
    spsh__page_section_open(out, "Evaluations");
    spsh__builder_append_text(out, "<div class=\"plots\">\n");
    draw_rates(out, h, like, SPSH__SET_WER);
    draw_rates(out, h, like, SPSH__SET_CER);
    draw_rates(out, h, like, SPSH__SET_FRAME_ERROR);
    spsh__builder_append_text(out, "</div>\n");
    spsh__page_rows(out, &table);
    spsh__page_section_close(out);
}

static void row_example(spsh__builder *out, const void *set, size_t row)
{
    const spsh__run_example *e = &((const spsh__run_set *)set)->examples[row];
    cell_name(out, e->id);
    cell_name(out, e->reference);
    cell_name(out, e->found);
}

static void draw_examples(spsh__builder *out, const spsh__run_history *h)
{
    bool is_open = false;
    for (size_t i = 0; i < h->set_count; i++) {
        const spsh__run_set *set = &h->sets[i];
        const spsh__page_table table = {
            set, "utterance|reference|found", row_example, set->example_count, lines_file, false};
        if (set->example_count == 0)
            continue;
        if (!is_open)
            spsh__page_section_open(out, "Recognized text at the last evaluation");
        is_open = true;
        spsh__builder_append_text(out, "<p class=\"soft\">");
        spsh__page_name(out, spsh__bytes_of(set->name));
        spsh__builder_append_text(out, "</p>");
        spsh__page_rows(out, &table);
    }
    if (is_open)
        spsh__page_section_close(out);
}

/* Return the mean loss of the last tenth of the bins. */
static double recent_loss(const spsh__series *s)
{
    double sum = 0, weight = 0;
    for (size_t i = s->count - (s->count + 9) / 10; i < s->count; i++) {
        sum += spsh__series_bin(s, i, 0)->sum;
        weight += spsh__series_bin(s, i, 0)->weight;
    }
    return sum / weight;
}

static double utterances_of(const spsh__series *s)
{
    double weight = 0;
    for (size_t i = 0; i < s->count; i++)
        weight += spsh__series_bin(s, i, 0)->weight;
    return weight;
}

static void row_domain(spsh__builder *out, const void *history, size_t row)
{
    const spsh__run_history *h = (const spsh__run_history *)history;
    const spsh__run_domain *d = &h->domains[row];
    double most = 0;
    for (size_t i = 0; i < h->domain_count; i++)
        most = fmax(most, recent_loss(&h->domains[i].series));
    cell_name(out, d->name);
    spsh__page_cell_count(out, count_of(utterances_of(&d->series)));
    cell(out, SHOW_REAL(recent_loss(&d->series)));
    spsh__page_cell_bar(out, fmax(recent_loss(&d->series), 0), most, 0);
}

static void draw_domains(spsh__builder *out, const spsh__run_history *h)
{
    const spsh__page_table table = {h,          "domain|#trained on|#loss of the last tenth|",
                                    row_domain, h->domain_count,
                                    lines_file, false};
    if (h->domain_count < 2)
        return;
    spsh__page_section_open(out, "Domains");
    spsh__page_rows(out, &table);
    spsh__page_section_close(out);
}

static void row_start(spsh__builder *out, const void *history, size_t row)
{
    const spsh__run_start *s = &((const spsh__run_history *)history)->starts[row];
    char text[NUMBER_BYTES];
    cell(out, instant(s->time, text));
    spsh__page_cell_count(out, count_of(s->samples));
    spsh__page_cell_count(out, count_of(s->world_size));
    spsh__page_cell_count(out, count_of(s->threads));
    spsh__page_cell_count(out, count_of(s->weights));
    cell_name(out, s->backend);
    cell_name(out, s->strategy);
    cell_name(out, s->launcher);
}

static void draw_starts(spsh__builder *out, const spsh__run_history *h)
{
    const spsh__page_table table = {
        h,          "#when|#after utterance|#processes|#threads|#weights|backend|strategy|launcher",
        row_start,  h->start_count,
        lines_file, false};
    if (h->start_count == 0)
        return;
    spsh__page_section_open(out, "Starts");
    spsh__page_rows(out, &table);
    spsh__page_section_close(out);
}

static void draw_cost(spsh__builder *out, const spsh__run_history *h, const spsh__run_rates *rates)
{
    const spsh__run_cost cost = spsh__run_cost_of(h);
    spsh__run_cost_row rows[SPSH__RUN_COST_ROWS_MAX];
    const size_t count = spsh__run_cost_rows(&cost, rates, rows);
    if (count == 0)
        return;
    spsh__page_section_open(out, "Cost");
    spsh__page_table_open(out, "what|how much");
    for (size_t i = 0; i < count; i++) {
        spsh__builder_append_text(out, "<tr>");
        cell_name(out, rows[i].what);
        cell_name(out, rows[i].text);
        spsh__builder_append_text(out, "</tr>\n");
    }
    spsh__page_table_close(out);
    spsh__page_section_close(out);
}

/* ---- the configuration ---- */

static bool is_blank_line(const char *line, size_t length)
{
    return strspn(line, " ") >= length;
}

/* Draw a line of config.yaml as a table row: "key: value", or "  key: value" in a section. */
static void draw_setting(spsh__builder *out, spsh_bytes section, const char *line, size_t length)
{
    const size_t indent = strspn(line, " ");
    const char *colon = (const char *)memchr(line, ':', length);
    if (colon == NULL)
        return;
    const size_t value = (size_t)(colon - line) + 1 + strspn(colon + 1, " ");
    spsh__builder_append_text(out, "<tr><td><code>");
    if (indent > 0) {
        spsh__html_text(out, section);
        spsh__builder_append_text(out, ".");
    }
    spsh__html_text(out,
                    (spsh_bytes){(const uint8_t *)line + indent, (size_t)(colon - line) - indent});
    spsh__builder_append_text(out, "</code></td><td class=\"name\"><code>");
    spsh__html_text(out, (spsh_bytes){(const uint8_t *)line + value, length - value});
    spsh__builder_append_text(out, "</code></td></tr>\n");
}

/* Draw config.yaml. The trainer writes it as sections of keys, one key per line. */
static void draw_config(spsh__builder *out, const char *config)
{
    spsh_bytes section = {NULL, 0};
    if (config == NULL)
        return;
    spsh__page_section_open(out, "Configuration");
    spsh__page_table_open(out, "key|value");
    for (const char *line = config; *line != '\0';) {
        const size_t length = strcspn(line, "\n");
        const size_t name = strcspn(line, ":\n");
        if (line[0] != ' ' && name + 1 == length)
            section = (spsh_bytes){(const uint8_t *)line, name};
        else if (!is_blank_line(line, length))
            draw_setting(out, section, line, length);
        line += length + (line[length] == '\n');
    }
    spsh__page_table_close(out);
    spsh__page_section_close(out);
}

/* Draw a list in the section "data" of config.yaml. */
static void draw_data(spsh__builder *out, const char *config, const char *key)
{
    const char *at = strstr(config, "\ndata:\n");
    at = at == NULL ? NULL : strstr(at, key);
    if (at == NULL)
        return;
    at += strlen(key);
    spsh__page_made_open_row(out, strstr(key, "train") != NULL ? "training data" : "evaluated on");
    spsh__html_text(out, (spsh_bytes){(const uint8_t *)at, strcspn(at, "\n")});
    spsh__page_made_close_row(out);
}

static void draw_made(spsh__builder *out, const char *run, const char *config)
{
    spsh__builder line = {0};
    spsh__page_made_open(out);
    if (config != NULL) {
        draw_data(out, config, "\n  train: ");
        draw_data(out, config, "\n  dev: ");
    }
    spsh__builder_append_text(&line, "speechshard report");
    spsh__page_word(&line, run);
    out->failed = out->failed || line.failed;
    spsh__page_made_close(out, spsh__builder_bytes(&line));
    spsh__builder_free(&line);
}

static void draw_head(spsh__builder *out, const char *run, const spsh__run_history *h)
{
    char text[NUMBER_BYTES];
    spsh__builder_append_text(out, "<h1>");
    spsh__page_name(out, spsh__bytes_of(run));
    spsh__builder_append_text(out, "</h1><p class=\"soft\">speechshard train; as of ");
    spsh__page_text(out, instant(h->last_time, text));
    spsh__builder_append_text(out, "</p>\n");
}

void spsh__run_page(spsh__builder *out, const char *run, const spsh__run_history *h,
                    const char *config, const spsh__run_rates *rates)
{
    double *marks = (double *)calloc(h->start_count + 1, sizeof(*marks));
    if (marks == NULL)
        out->failed = true;
    for (size_t i = 0; marks != NULL && i < h->start_count; i++)
        marks[i] = h->starts[i].samples;
    const spsh__curve like = {.marks = marks, .mark_count = marks != NULL ? h->start_count : 0};
    spsh__page_open(out, run, NULL);
    draw_head(out, run, h);
    draw_made(out, run, config);
    draw_tiles(out, h);
    draw_warnings(out, h);
    draw_steps(out, h, &like);
    draw_evaluations(out, h, &like);
    draw_examples(out, h);
    draw_domains(out, h);
    draw_starts(out, h);
    draw_cost(out, h, rates);
    draw_config(out, config);
    spsh__page_close(out);
    free(marks);
}

/* Read the run's config.yaml. NUL-terminated; the caller frees it. NULL: not readable. */
static char *read_config(const char *run, const spsh_io *io)
{
    uint8_t *data = NULL;
    size_t size_bytes = 0;
    char *text = NULL;
    spsh__builder path = {0};
    if (spsh__builder_path(&path, run, "config.yaml") != NULL &&
        spsh_io_read_file(io, (const char *)path.data, CONFIG_BYTES_MAX, spsh_allocator_default(),
                          &data, &size_bytes, NULL) == SPSH_OK)
        text = strndup((const char *)data, size_bytes);
    spsh_allocator_default()->free_fn(spsh_allocator_default()->user, data);
    spsh__builder_free(&path);
    return text;
}

spsh_status spsh__run_page_write(const char *run, const char *path, const spsh__run_rates *rates,
                                 const spsh_io *io, spsh_error *err)
{
    spsh__run_history *history = NULL;
    spsh__builder page = {0}, own_path = {0};
    spsh_status rc = spsh__run_history_read(run, io, &history, err);
    if (rc != SPSH_OK)
        return rc;
    char *config = read_config(run, io);
    spsh__run_page(&page, run, history, config, rates);
    const char *to = path != NULL ? path : spsh__builder_path(&own_path, run, "report.html");
    rc = page.failed || to == NULL ? SPSH_NO_MEMORY(err)
                                   : spsh__file_out_write(to, spsh__builder_bytes(&page), err);
    free(config);
    spsh__builder_free(&page);
    spsh__builder_free(&own_path);
    spsh__run_history_free(history);
    return rc;
}
