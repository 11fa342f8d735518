/* run_report.c: the reports of rank 0: log lines, RUN/config.yaml, metrics, a live line. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend_cuda/backend_cuda_rnn.h"
#include "backend_cuda/backend_cuda_segment.h"
#include "run_internal.h"
#include "speechshard/inside.h"

enum { LINE_BYTES = 200, LOG_BYTES = 600 };

/* Only rank 0 logs, except for errors, which every rank logs. */
void spsh__run_log(const spsh__run *r, spsh_log_level level, const char *format, ...)
{
    char text[LOG_BYTES];
    va_list args;
    if (r->o->log_fn == NULL || (!r->world->is_first && level != SPSH_LOG_ERROR))
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    r->o->log_fn(r->o->log_user, level, text);
}

/* ---- a start ---- */

static spsh_status write_config(const spsh__run *r, const char *folder, const char *text,
                                spsh_error *err)
{
    spsh_file_writer *writer = NULL;
    spsh_stale_files_remove_of(r->io, folder, "config.yaml");
    spsh_status rc = spsh_file_writer_open(r->io, folder, "config.yaml", 0, NULL, &writer, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_write(writer, text, strlen(text), err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_publish(writer, SPSH_PUBLISH_REPLACE, err);
    spsh_file_writer_free(writer);
    return rc;
}

/* RUN/config.yaml is for people: checkpoints have the same configuration. RUN/record's is for
 * replays. */
static spsh_status write_configs(const spsh__run *r, spsh_error *err)
{
    spsh_status rc = write_config(r, r->o->run, r->setup.config_text, err);
    if (rc != SPSH_OK || r->runtime.record_folder == NULL)
        return rc;
    char *text = spsh__setup_record_text(&r->setup, r->world->launch.local_size);
    rc = text == NULL ? SPSH_NO_MEMORY(err) : write_config(r, r->runtime.record_folder, text, err);
    free(text);
    return rc;
}

spsh_status spsh__run_open_report(spsh__run *r, spsh_error *err)
{
    const spsh__start_facts start = {
        .samples = r->progress.samples,
        .step = r->progress.step,
        .restarts = r->progress.restarts,
        .world_size = r->world->comm->world_size,
        .virtual_world = r->setup.config->virtual_world,
        .threads = r->backend->threads,
        .weights = spsh__model_weight_count(spsh__run_whole(&r->model)),
        .backend = r->backend->ops->name,
        .strategy = r->setup.config->strategy,
        .launcher = r->world->launch.launcher,
        .time_fn = r->world->ops->time_s_fn,
        .time_user = r->world,
    };
    if (!r->world->is_first)
        return SPSH_OK;
    const spsh_status rc = write_configs(r, err);
    return rc != SPSH_OK ? rc
                         : spsh__metrics_open(r->o->run, &start, r->io, &r->report.metrics, err);
}

void spsh__run_report_start(const spsh__run *r)
{
    const unsigned threads = r->backend->threads, processes = r->world->comm->world_size;
    char together[80] = "", with[40] = "";
    if (processes > 1)
        (void)snprintf(together, sizeof(together), ", %u processes (%s)", processes,
                       r->world->launch.launcher);
    if (r->compute.cuda == NULL)
        (void)snprintf(with, sizeof(with), ", %u thread%s%s", threads, threads == 1 ? "" : "s",
                       processes > 1 ? " each" : "");
    spsh__run_log(r, SPSH_LOG_INFO, "%s: %llu weights on %s%s%s; %llu utterances per epoch",
                  r->o->run,
                  (unsigned long long)spsh__model_weight_count(spsh__run_whole(&r->model)),
                  r->backend->ops->name, together, with,
                  (unsigned long long)spsh__feed_epoch_utterances(r->feed));
    spsh__run_log(r, SPSH_LOG_INFO, "computes on %s", r->compute.text);
    if (r->compute.why[0] != '\0')
        spsh__run_log(r, SPSH_LOG_DEBUG, "no GPU: %s", r->compute.why);
    if (r->learner.exchange == SPSH__EXCHANGE_HOST && r->learner.exchange_reason[0] != '\0')
        spsh__run_log(r, SPSH_LOG_WARNING, "gradients are exchanged through the host: %s",
                      r->learner.exchange_reason);
    else if (r->learner.exchange == SPSH__EXCHANGE_NCCL)
        spsh__run_log(r, SPSH_LOG_INFO, "gradients are summed on the devices by NCCL");
    if (r->learner.exchange == SPSH__EXCHANGE_NCCL && r->learner.exchange_reason[0] != '\0')
        spsh__run_log(r, SPSH_LOG_WARNING, "%s", r->learner.exchange_reason);
    const uint64_t too_long = spsh_plan_info_get(spsh__feed_plan(r->feed))->too_long_count;
    if (too_long > 0)
        spsh__run_log(r, SPSH_LOG_WARNING,
                      "%llu utterances are not trained on, because they are longer than a batch "
                      "may be (data.max_padded_seconds, data.max_seconds)",
                      (unsigned long long)too_long);
    if (r->progress.step > 0)
        spsh__run_log(r, SPSH_LOG_INFO, "resuming after step %llu, in epoch %llu, %llu utterances",
                      (unsigned long long)r->progress.step,
                      (unsigned long long)r->progress.epoch + 1,
                      (unsigned long long)r->progress.samples);
}

/* ---- steps and epochs ---- */

/* A full disk stays full for a while: log it once. */
static void hear_metrics(spsh__run *r, spsh_status rc, const spsh_error *failed)
{
    if (rc != SPSH_OK && !r->report.has_failed)
        spsh__run_log(r, SPSH_LOG_ERROR, "cannot write metrics: %s; the run continues",
                      failed->message);
    if (rc == SPSH_OK && r->report.has_failed)
        spsh__run_log(r, SPSH_LOG_INFO, "metrics can be written again");
    r->report.has_failed = rc != SPSH_OK;
}

/* Seconds until the end at the speed of this process so far, evaluations and all; NaN: unknown. */
static double seconds_left(const spsh__run *r)
{
    const spsh__config *c = r->setup.config;
    const double done = (double)(r->progress.samples - r->report.begin_samples);
    double target = c->samples_max > 0 ? (double)c->samples_max : (double)INFINITY;
    if (c->epochs > 0)
        target = fmin(target, (double)c->epochs * (double)spsh__feed_epoch_utterances(r->feed));
    const double left = fmax(target - (double)r->progress.samples, 0);
    return done > 0 && isfinite(left)
               ? left * (spsh__world_now_s(r->world) - r->report.begin_s) / done
               : (double)NAN;
}

static void log_step(spsh__run *r)
{
    char line[LINE_BYTES];
    spsh_error failed = SPSH_ERROR_INIT;
    if (!r->world->is_first)
        return;
    r->step.facts.epochs = r->setup.config->epochs;
    r->step.facts.left_s = seconds_left(r);
    hear_metrics(r, spsh__metrics_step(r->report.metrics, &r->step.facts, &failed), &failed);
    if (r->o->progress_fn != NULL)
        r->o->progress_fn(r->o->progress_user, r->step.facts.step,
                          spsh__metrics_line(&r->step.facts, line, sizeof(line)));
}

/* Log once how many utterances of the epoch were not trained on. Fails on an epoch without any,
 * because later epochs would be the same. */
spsh_status spsh__run_report_epoch(spsh__run *r, spsh_error *err)
{
    char text[LINE_BYTES];
    const double *t = r->report.epoch_totals;
    const double served = t[SPSH__ROW_SERVED], counted = t[SPSH__ROW_COUNTED];
    if (r->setup.alignments != NULL)
        (void)snprintf(
            text, sizeof(text),
            "%.0f have no alignment, %.0f have one of a different length, %.0f have no frames",
            t[SPSH__ROW_WITHOUT_ALIGNMENT], t[SPSH__ROW_OTHER_LENGTH], t[SPSH__ROW_WITHOUT_FRAMES]);
    else
        (void)snprintf(text, sizeof(text),
                       "%.0f have too few frames for their transcript, %.0f have no symbol of the "
                       "vocabulary in it, %.0f have no frames",
                       t[SPSH__ROW_INFEASIBLE], t[SPSH__ROW_WITHOUT_TEXT],
                       t[SPSH__ROW_WITHOUT_FRAMES]);
    if (r->report.is_epoch_whole && counted <= 0)
        return SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                         "epoch %llu: nothing to train on in its %.0f utterances: %s",
                         (unsigned long long)r->progress.epoch + 1, served, text);
    if (r->report.is_epoch_whole && r->progress.epoch == 0 && counted < served)
        spsh__run_log(r, SPSH_LOG_WARNING, "%.0f of %.0f utterances are not trained on: %s",
                      served - counted, served, text);
    if (counted > 0)
        spsh__run_log(r, SPSH_LOG_INFO, "epoch %llu: loss %.4g%s over %.0f utterances",
                      (unsigned long long)r->progress.epoch + 1,
                      t[SPSH__ROW_LOSS] / t[SPSH__ROW_LOSSES],
                      r->setup.alignments != NULL ? " per frame" : "", counted);
    memset(r->report.epoch_totals, 0, sizeof(r->report.epoch_totals));
    r->report.is_epoch_whole = true;
    return SPSH_OK;
}

/* Omit a loss that is not finite, from a skipped step: it would make the epoch's sum not finite. */
static void add_to_epoch(spsh__run *r)
{
    const bool is_number = isfinite(r->rows.totals[SPSH__ROW_LOSS]);
    for (int i = 0; i < SPSH__ROW_DOMAINS; i++)
        if (is_number || (i != SPSH__ROW_LOSS && i != SPSH__ROW_LOSSES))
            r->report.epoch_totals[i] += r->rows.totals[i];
}

/* Log new choices of algorithms, which are made when a shape first occurs. */
static void log_recurrence(const spsh__run *r)
{
    char text[LOG_BYTES];
    while (r->compute.cuda != NULL && spsh__cuda_rnn_news(r->backend, text, sizeof(text)))
        spsh__run_log(r, SPSH_LOG_INFO, "recurrent layers on the device: %s", text);
}

void spsh__run_report_step(spsh__run *r)
{
    log_step(r);
    log_recurrence(r);
    add_to_epoch(r);
}

/* ---- the end ---- */

/* Segments that cannot be captured run operator by operator. The warning explains a slow run. */
void spsh__run_report_graphs(const spsh__run *r)
{
    if (r->compute.cuda == NULL || !r->setup.config->has_graphs)
        return;
    const spsh__cuda_segment_counts n = spsh__cuda_segments_counted(r->backend);
    spsh__run_log(r, n.refused > 0 ? SPSH_LOG_WARNING : SPSH_LOG_INFO,
                  "CUDA graphs: %llu of %llu batches ran as graphs; %llu of %llu segments were "
                  "launched, %llu captured, %llu could not be captured; %llu shapes were evicted",
                  (unsigned long long)n.replayed, (unsigned long long)n.batches,
                  (unsigned long long)n.launched, (unsigned long long)n.begun,
                  (unsigned long long)n.kept, (unsigned long long)n.refused,
                  (unsigned long long)n.evicted);
}
