/* run_page.c: see run_page.h. A section a function; each is left out when it has nothing to say. */
#include "run_page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "curve.h"
#include "file_out.h"
#include "names.h"
#include "page.h"

enum { CONFIG_BYTES_MAX = 1 << 20, NUMBER_BYTES = 48 };

/* ---- numbers ---- */

static double last_of(const spsh__run_history *h, spsh__run_column column)
{
    return h->step_count > 0 ? h->columns[column][h->step_count - 1] : (double)NAN;
}

static double sum_of(const spsh__run_history *h, spsh__run_column column)
{
    double sum = 0;
    for (size_t i = 0; i < h->step_count; i++)
        sum += isfinite(h->columns[column][i]) ? h->columns[column][i] : 0;
    return sum;
}

static const char *real(double value, char text[NUMBER_BYTES])
{
    if (isfinite(value))
        (void)snprintf(text, NUMBER_BYTES, "%.4g", value);
    else
        (void)snprintf(text, NUMBER_BYTES, "–");
    return text;
}

static const char *rate(double value, char text[NUMBER_BYTES])
{
    if (isfinite(value))
        (void)snprintf(text, NUMBER_BYTES, "%.2f %%", 100 * value);
    else
        (void)snprintf(text, NUMBER_BYTES, "–");
    return text;
}

static void cell(spsh__builder *out, const char *text)
{
    spsh__builder_append_text(out, "<td class=\"n\">");
    spsh__page_text(out, text);
    spsh__builder_append_text(out, "</td>");
}

static const spsh__run_evaluation *last_evaluation(const spsh__run_history *h)
{
    return h->evaluation_count > 0 ? &h->evaluations[h->evaluation_count - 1] : NULL;
}

/* ---- sections ---- */

static void draw_tiles(spsh__builder *out, const spsh__run_history *h)
{
    char text[NUMBER_BYTES], human[SPSH_HUMAN_BYTES];
    const spsh__run_evaluation *e = last_evaluation(h);
    const double step_s = sum_of(h, SPSH__RUN_STEP_S);
    const double steps = last_of(h, SPSH__RUN_STEP), samples = last_of(h, SPSH__RUN_SAMPLES);
    spsh__builder_append_text(out, "<div class=\"tiles\">\n");
    if (e != NULL) {
        spsh__page_tile(out, rate(e->wer, text), "WER, last evaluation");
        spsh__page_tile(out, rate(e->cer, text), "CER, last evaluation");
    }
    spsh__page_tile(out, real(last_of(h, SPSH__RUN_LOSS), text), "loss of the last step");
    spsh__page_tile(out, spsh__human_count(steps > 0 ? (uint64_t)steps : 0, human), "steps");
    spsh__page_tile(out, spsh__human_count(samples > 0 ? (uint64_t)samples : 0, human),
                    "utterances served");
    spsh__page_tile(out, spsh__human_duration(sum_of(h, SPSH__RUN_AUDIO_S), human), "of audio");
    spsh__page_tile(out, spsh__human_duration(step_s, human), "in steps");
    (void)snprintf(text, sizeof(text), "%.0f s/s",
                   sum_of(h, SPSH__RUN_AUDIO_S) / fmax(step_s, 1e-9));
    spsh__page_tile(out, text, "audio a second");
    (void)snprintf(text, sizeof(text), "%.1f %%",
                   100 * sum_of(h, SPSH__RUN_WAIT_S) / fmax(step_s, 1e-9));
    spsh__page_tile(out, text, "of it waiting for data");
    spsh__builder_append_text(out, "</div>\n");
}

static void warn(spsh__builder *out, double count, const char *what)
{
    char human[SPSH_HUMAN_BYTES];
    if (!(count > 0))
        return;
    spsh__builder_append_text(out, "<li>");
    spsh__page_text(out, spsh__human_count((uint64_t)count, human));
    spsh__page_text(out, what);
    spsh__builder_append_text(out, "</li>\n");
}

static void draw_warnings(spsh__builder *out, const spsh__run_history *h)
{
    const double infeasible = sum_of(h, SPSH__RUN_INFEASIBLE);
    const double without_text = sum_of(h, SPSH__RUN_WITHOUT_TEXT);
    const double without_frames = sum_of(h, SPSH__RUN_WITHOUT_FRAMES);
    const double skipped = last_of(h, SPSH__RUN_SKIPPED_STEPS);
    if (!(infeasible + without_text + without_frames > 0) && !(skipped > 0))
        return;
    spsh__builder_append_text(out, "<section class=\"warnings\"><h2>Worth a look</h2><ul>\n");
    warn(out, skipped, " steps were left out: their gradients were not finite");
    warn(out, infeasible, " times an utterance had fewer frames than its labels need");
    warn(out, without_text, " times an utterance had no text that the vocabulary knows");
    warn(out, without_frames, " times an utterance was too short for a frame");
    spsh__builder_append_text(out, "</ul></section>\n");
}

static void draw_curve(spsh__builder *out, const spsh__run_history *h, const double *marks,
                       const spsh__curve *like, const double *y)
{
    spsh__curve curve = *like;
    curve.x = h->columns[SPSH__RUN_SAMPLES];
    curve.y = y;
    curve.count = h->step_count;
    curve.marks = marks;
    curve.mark_count = marks == NULL ? 0 : h->start_count;
    curve.x_label = "utterances";
    spsh__curve_draw(out, &curve);
}

static void draw_steps(spsh__builder *out, const spsh__run_history *h, const double *marks)
{
    static const struct {
        spsh__run_column column;
        spsh__curve like;
    } curves[] = {
        {SPSH__RUN_LOSS,    {.color = 0, .title = "Loss", .y_label = "loss, per utterance"}     },
        {SPSH__RUN_NORM,
         {.color = 1, .is_log = true, .title = "Gradients", .y_label = "norm of gradients"}     },
        {SPSH__RUN_RATE,    {.color = 3, .title = "Rate", .y_label = "learning rate"}           },
        {SPSH__RUN_STEP_S,  {.color = 2, .title = "Time of a step", .y_label = "seconds a step"}},
        {SPSH__RUN_PADDING, {.color = 5, .title = "Padding", .y_label = "share of padding"}     },
    };
    if (h->step_count == 0)
        return;
    spsh__page_section_open(out, "Training");
    spsh__builder_append_text(out, "<div class=\"plots\">\n");
    for (size_t i = 0; i < sizeof(curves) / sizeof(curves[0]); i++)
        draw_curve(out, h, marks, &curves[i].like, h->columns[curves[i].column]);
    spsh__builder_append_text(out, "</div>\n");
    if (h->start_count > 1)
        spsh__builder_append_text(
            out, "<p class=\"soft\">Dashed lines: the run went on from a checkpoint.</p>");
    spsh__page_section_close(out);
}

/* Each set by itself, in the order of its first evaluation. */
static bool is_first_of_set(const spsh__run_history *h, size_t number)
{
    for (size_t i = 0; i < number; i++) {
        if (strcmp(h->evaluations[i].set, h->evaluations[number].set) == 0)
            return false;
    }
    return true;
}

static void draw_set(spsh__builder *out, const spsh__run_history *h, size_t first)
{
    double *x = (double *)calloc(h->evaluation_count, sizeof(*x));
    double *y = (double *)calloc(h->evaluation_count, sizeof(*y));
    size_t count = 0;
    if (x == NULL || y == NULL) {
        out->failed = true;
    } else {
        for (size_t i = first; i < h->evaluation_count; i++) {
            if (strcmp(h->evaluations[i].set, h->evaluations[first].set) != 0)
                continue;
            x[count] = h->evaluations[i].samples;
            y[count++] = 100 * h->evaluations[i].wer;
        }
        const spsh__curve curve = {.x = x,
                                   .y = y,
                                   .count = count,
                                   .has_dots = true,
                                   .color = 4,
                                   .title = "Word error rate",
                                   .x_label = "utterances",
                                   .y_label = "WER, %"};
        spsh__curve_draw(out, &curve);
    }
    free(x);
    free(y);
}

static void row_evaluation(spsh__builder *out, const void *history, size_t row)
{
    const spsh__run_history *h = (const spsh__run_history *)history;
    const spsh__run_evaluation *e = &h->evaluations[h->evaluation_count - 1 - row];
    char text[NUMBER_BYTES];
    spsh__builder_append_text(out, "<tr>");
    spsh__page_cell_name(out, spsh__bytes_of(e->set));
    spsh__page_cell_count(out, e->step > 0 ? (uint64_t)e->step : 0);
    spsh__page_cell_count(out, e->utterances > 0 ? (uint64_t)e->utterances : 0);
    cell(out, rate(e->wer, text));
    cell(out, rate(e->cer, text));
    cell(out, rate(e->cer_letters, text));
    cell(out, real(e->loss, text));
    spsh__page_cell_duration(out, e->seconds);
    spsh__builder_append_text(out, "</tr>\n");
}

static void draw_evaluations(spsh__builder *out, const spsh__run_history *h)
{
    const spsh__page_table table = {
        h, "set|#step|#utterances|#WER|#CER|#CER without blanks|#loss|#took", row_evaluation,
        h->evaluation_count, "metrics.jsonl"};
    if (h->evaluation_count == 0)
        return;
    spsh__page_section_open(out, "Evaluations");
    spsh__builder_append_text(out, "<div class=\"plots\">\n");
    for (size_t i = 0; i < h->evaluation_count; i++) {
        if (is_first_of_set(h, i))
            draw_set(out, h, i);
    }
    spsh__builder_append_text(out, "</div>\n");
    spsh__page_rows(out, &table);
    spsh__page_section_close(out);
}

static void row_example(spsh__builder *out, const void *evaluation, size_t row)
{
    const spsh__run_example *e = &((const spsh__run_evaluation *)evaluation)->examples[row];
    spsh__builder_append_text(out, "<tr>");
    spsh__page_cell_name(out, spsh__bytes_of(e->id));
    spsh__page_cell_name(out, spsh__bytes_of(e->reference));
    spsh__page_cell_name(out, spsh__bytes_of(e->found));
    spsh__builder_append_text(out, "</tr>\n");
}

static void draw_examples(spsh__builder *out, const spsh__run_history *h)
{
    const spsh__run_evaluation *e = last_evaluation(h);
    if (e == NULL || e->example_count == 0)
        return;
    const spsh__page_table table = {e, "utterance|reference|found", row_example, e->example_count,
                                    "metrics.jsonl"};
    spsh__page_section_open(out, "What it hears");
    spsh__page_rows(out, &table);
    spsh__page_section_close(out);
}

static void row_domain(spsh__builder *out, const void *history, size_t row)
{
    const spsh__run_history *h = (const spsh__run_history *)history;
    const spsh__run_domain *d = &h->domains[row];
    char text[NUMBER_BYTES];
    double most = 0;
    for (size_t i = 0; i < h->domain_count; i++)
        most = fmax(most, h->domains[i].recent_loss);
    spsh__builder_append_text(out, "<tr>");
    spsh__page_cell_name(out, spsh__bytes_of(d->name));
    spsh__page_cell_count(out, (uint64_t)d->utterances);
    cell(out, real(d->recent_loss, text));
    spsh__page_cell_bar(out, d->recent_loss, most, 0);
    spsh__builder_append_text(out, "</tr>\n");
}

static void draw_domains(spsh__builder *out, const spsh__run_history *h)
{
    const spsh__page_table table = {h, "domain|#utterances|#recent loss|", row_domain,
                                    h->domain_count, "metrics.jsonl"};
    if (h->domain_count < 2)
        return;
    spsh__page_section_open(out, "Domains");
    spsh__page_rows(out, &table);
    spsh__page_section_close(out);
}

static void row_start(spsh__builder *out, const void *history, size_t row)
{
    const spsh__run_start *s = &((const spsh__run_history *)history)->starts[row];
    spsh__builder_append_text(out, "<tr>");
    spsh__page_cell_count(out, s->samples > 0 ? (uint64_t)s->samples : 0);
    spsh__page_cell_count(out, s->world_size > 0 ? (uint64_t)s->world_size : 0);
    spsh__page_cell_count(out, s->threads > 0 ? (uint64_t)s->threads : 0);
    spsh__page_cell_count(out, s->weights > 0 ? (uint64_t)s->weights : 0);
    spsh__page_cell_name(out, spsh__bytes_of(s->backend));
    spsh__page_cell_name(out, spsh__bytes_of(s->strategy));
    spsh__page_cell_name(out, spsh__bytes_of(s->launcher));
    spsh__builder_append_text(out, "</tr>\n");
}

static void draw_starts(spsh__builder *out, const spsh__run_history *h, const char *config)
{
    const spsh__page_table table = {
        h, "#from utterance|#processes|#threads|#weights|backend|strategy|launcher", row_start,
        h->start_count, "metrics.jsonl"};
    spsh__page_section_open(out, "Starts and configuration");
    spsh__page_rows(out, &table);
    if (config != NULL) {
        spsh__builder_append_text(out, "<details><summary>config.yaml</summary><pre>");
        spsh__page_text(out, config);
        spsh__builder_append_text(out, "</pre></details>\n");
    }
    spsh__page_section_close(out);
}

void spsh__run_page(spsh__builder *out, const char *run, const spsh__run_history *h,
                    const char *config)
{
    double *marks = (double *)calloc(h->start_count + 1, sizeof(*marks));
    if (marks == NULL)
        out->failed = true;
    for (size_t i = 0; marks != NULL && i < h->start_count; i++)
        marks[i] = h->starts[i].samples;
    spsh__page_open(out, run, NULL);
    spsh__builder_append_text(out, "<h1>");
    spsh__page_name(out, spsh__bytes_of(run));
    spsh__builder_append_text(out, "</h1><p class=\"soft\">speechshard train</p>\n");
    draw_tiles(out, h);
    draw_warnings(out, h);
    draw_steps(out, h, marks);
    draw_evaluations(out, h);
    draw_examples(out, h);
    draw_domains(out, h);
    draw_starts(out, h, config);
    spsh__page_close(out);
    free(marks);
}

/* The run's config.yaml, NUL-terminated, for the caller to free; NULL where it cannot be read. */
static char *read_config(const char *run, const spsh_io *io)
{
    uint8_t *data = NULL;
    size_t size_bytes = 0;
    char *text = NULL;
    spsh__builder path = {0};
    spsh__builder_append_text(&path, run);
    spsh__builder_append_part(&path, "config.yaml");
    if (spsh__builder_text(&path) != NULL &&
        spsh_io_read_file(io, spsh__builder_text(&path), CONFIG_BYTES_MAX, spsh_allocator_default(),
                          &data, &size_bytes, NULL) == SPSH_OK)
        text = strndup((const char *)data, size_bytes);
    spsh_allocator_default()->free_fn(spsh_allocator_default()->user, data);
    spsh__builder_free(&path);
    return text;
}

spsh_status spsh__run_page_write(const char *run, const char *path, const spsh_io *io,
                                 spsh_error *err)
{
    spsh__run_history history;
    spsh__builder page = {0}, own_path = {0};
    spsh_status rc = spsh__run_history_read(run, io, &history, err);
    if (rc != SPSH_OK)
        return rc;
    char *config = read_config(run, io);
    spsh__run_page(&page, run, &history, config);
    spsh__builder_append_text(&own_path, run);
    spsh__builder_append_part(&own_path, "report.html");
    const char *to = path != NULL ? path : spsh__builder_text(&own_path);
    if (page.failed || to == NULL) {
        spsh_error_set(err, SPSH_E_NO_MEMORY, 0, SPSH_OFFSET_NONE, "out of memory");
        rc = SPSH_E_NO_MEMORY;
    } else {
        rc = spsh__file_out_write(to, spsh__builder_bytes(&page), err);
    }
    free(config);
    spsh__builder_free(&page);
    spsh__builder_free(&own_path);
    spsh__run_history_free(&history);
    return rc;
}
