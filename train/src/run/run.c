/* run.c: spsh_train: opens what a run is made of, and the loop.
 *
 *     launch, comm -> config, vocabulary (rank 0's, for all) -> backend -> (alignments) -> feed ->
 *     model -> learner
 *     -> checkpoint or first weights -> strategy (rank 0's arenas, for all) -> steps
 *
 * Every decision that changes what all ranks do next (stop, save, evaluate, skip, the epoch's end)
 * comes out of the step's totals or of the loader's order, so that all take it after the same step.
 */
#include "speechshard/train.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend_cuda/backend_cuda_rnn.h"
#include "backend_cuda/backend_cuda_segment.h"
#include "base/train_internal.h"
#include "run_internal.h"

enum { LINE_BYTES = 200, LOG_BYTES = 600 };

/* Rank 0 speaks for all; of errors every rank. */
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

/* ---- opening ---- */

static spsh_status open_world(spsh__run *r, spsh_error *err)
{
    spsh__run_world *w = r->world;
    const spsh_status rc = w->ops->open_fn != NULL ? w->ops->open_fn(w, r->o, err) : SPSH_OK;
    w->is_first = rc == SPSH_OK && w->comm->rank == 0;
    return rc;
}

/* Before anything large is opened. */
static spsh_status configure(spsh__run *r, spsh_error *err)
{
    spsh__run_world *w = r->world;
    r->setup.given.threads = r->setup.config->threads;
    r->setup.given.backend = r->setup.config->backend;
    r->rounds.is_free = spsh__run_runs_free(r->setup.config);
    w->comm->deadline_ms = r->setup.config->deadline_ms;
    return w->ops->configure_fn(w, r->o, r->setup.config, err);
}

static spsh_status open_feed(spsh__run *r, spsh_error *err)
{
    const bool is_staged = spsh__run_is_staged(r->setup.config); /* all see all batches */
    const spsh__feed_options options = {.config = r->setup.config,
                                        .vocabulary = r->setup.vocabulary,
                                        .alignments = r->setup.alignments,
                                        .names = (const char *const *)r->setup.config->train,
                                        .weights = r->setup.config->train_weights,
                                        .is_training = true,
                                        .rank = is_staged ? 0 : r->world->comm->rank,
                                        .world_size = is_staged ? 1 : r->world->comm->world_size,
                                        .is_asked = r->rounds.is_free,
                                        .cuda =
                                            spsh__run_lent_device(&r->compute, r->setup.alignments),
                                        .device = r->backend->device,
                                        .io = r->io,
                                        .log_fn = r->o->log_fn,
                                        .log_user = r->o->log_user};
    const spsh_status rc = spsh__feed_open(&options, &r->feed, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__config_resolve(r->setup.config, spsh__feed_epoch_utterances(r->feed));
    free(r->setup.config_text);
    r->setup.config_text = spsh__setup_text(&r->setup);
    return r->setup.config_text == NULL ? spsh__fail_memory(err) : spsh__run_check_dev(r, err);
}

spsh__estimating spsh__run_estimating(const spsh__run *r, spsh_train_estimate *out)
{
    return (spsh__estimating){.launch = r->world->launch,
                              .config = r->setup.config,
                              .vocabulary = r->setup.vocabulary,
                              .alignments = r->setup.alignments,
                              .feed = r->feed,
                              .limits = spsh__feed_limits(r->feed),
                              .compute = r->compute,
                              .out = out};
}

/* Behind what was opened: it goes, so that what is free is told as it was. */
spsh_status spsh__run_explain_memory(spsh__run *r, spsh_status status, spsh_error *err)
{
    spsh__run_close_moments(r);
    spsh__run_close_model(&r->model);
    spsh_train_estimate out = {.config = NULL};
    spsh__estimating e = spsh__run_estimating(r, &out);
    return r->compute.cuda == NULL ? status : spsh__estimate_explain(&e, status, err);
}

static spsh_status tell_world(const spsh__run *r, spsh_error *err)
{
    spsh__run_world *w = r->world;
    spsh_train_estimate out = {.config = NULL};
    spsh__estimating e = spsh__run_estimating(r, &out);
    return w->ops->opened_fn != NULL ? w->ops->opened_fn(w, r->o, &e, err) : SPSH_OK;
}

static spsh_status open_model(spsh__run *r, spsh_error *err)
{
    spsh__model_shape shape = r->setup.config->model;
    spsh__model_limits limits = spsh__feed_limits(r->feed);
    shape.inputs = spsh__feed_dim(r->feed);
    if (r->setup.vocabulary != NULL)
        shape.outputs = spsh__vocabulary_size(r->setup.vocabulary);
    else
        limits = spsh__frame_limits(&limits, shape.chunk_frames);
    r->model.shape = shape;
    if (spsh__run_is_staged(r->setup.config))
        return spsh__run_open_stage(r, &limits, err);
    spsh_status rc = spsh__model_open(r->backend, &shape, &limits, &r->model.own, err);
    if (rc == SPSH_E_NO_MEMORY)
        rc = spsh__run_explain_memory(r, rc, err);
    if (rc == SPSH_OK)
        spsh__model_init(r->model.own, r->setup.config->seed);
    return rc;
}

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

/* RUN/config.yaml: what the run is, for people; the checkpoints have it, too. RUN/record's: for a
 * replay. */
static spsh_status write_configs(const spsh__run *r, spsh_error *err)
{
    spsh_status rc = write_config(r, r->o->run, r->setup.config_text, err);
    if (rc != SPSH_OK || r->runtime.record_folder == NULL)
        return rc;
    char *text = spsh__setup_record_text(&r->setup, r->world->launch.local_size);
    rc = text == NULL ? spsh__fail_memory(err)
                      : write_config(r, r->runtime.record_folder, text, err);
    free(text);
    return rc;
}

static spsh_status open_metrics(spsh__run *r, spsh_error *err)
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

static void tell_start(const spsh__run *r)
{
    const unsigned threads = r->backend->threads, processes = r->world->comm->world_size;
    char together[80] = "", with[40] = "";
    if (processes > 1)
        (void)snprintf(together, sizeof(together), ", %u processes (%s)", processes,
                       r->world->launch.launcher);
    if (r->compute.cuda == NULL)
        (void)snprintf(with, sizeof(with), ", %u thread%s%s", threads, threads == 1 ? "" : "s",
                       processes > 1 ? " each" : "");
    spsh__run_log(r, SPSH_LOG_INFO, "%s: %llu weights on %s%s%s; %llu utterances an epoch",
                  r->o->run,
                  (unsigned long long)spsh__model_weight_count(spsh__run_whole(&r->model)),
                  r->backend->ops->name, together, with,
                  (unsigned long long)spsh__feed_epoch_utterances(r->feed));
    spsh__run_log(r, SPSH_LOG_INFO, "computes on %s", r->compute.text);
    if (r->learner.exchange == SPSH__EXCHANGE_HOST && r->learner.exchange_reason[0] != '\0')
        spsh__run_log(r, SPSH_LOG_WARNING, "gradients go through the host: %s",
                      r->learner.exchange_reason);
    else if (r->learner.exchange == SPSH__EXCHANGE_NCCL)
        spsh__run_log(r, SPSH_LOG_INFO, "gradients are summed by NCCL, on the devices");
    const uint64_t too_long = spsh_plan_info_get(spsh__feed_plan(r->feed))->too_long_count;
    if (too_long > 0)
        spsh__run_log(r, SPSH_LOG_WARNING,
                      "%llu utterances are not learnt from: longer than a batch may be "
                      "(data.max_padded_seconds, data.max_seconds)",
                      (unsigned long long)too_long);
    if (r->progress.step > 0)
        spsh__run_log(r, SPSH_LOG_INFO, "going on behind step %llu, in epoch %llu, %llu utterances",
                      (unsigned long long)r->progress.step,
                      (unsigned long long)r->progress.epoch + 1,
                      (unsigned long long)r->progress.samples);
}

static spsh_status open_backend(spsh__run *r, spsh_error *err)
{
    const spsh__compute_options options = {
        .config = r->setup.config,
        .threads = spsh__run_threads(r->setup.config, r->world->launch.local_size),
        .local_rank = r->world->launch.local_rank,
        .comm = r->world->comm,
        .needs_host = spsh__run_needs_host(r->setup.config),
        .allocator = spsh_allocator_default()};
    const spsh_status rc = spsh__compute_open(&options, &r->compute, err);
    if (rc != SPSH_OK)
        return rc;
    r->backend = r->compute.backend;
    r->progress.loss_scale = spsh__loss_scale_start(r->backend->precision);
    return SPSH_OK;
}

static spsh_status open_all(spsh__run *r, spsh_error *err)
{
    spsh_status rc = open_world(r, err);
    if (rc == SPSH_OK)
        rc = spsh__run_find(r, err);
    if (rc == SPSH_OK)
        rc = spsh__run_check(r->setup.config, r->world->comm->world_size, err);
    if (rc == SPSH_OK)
        rc = configure(r, err);
    if (rc == SPSH_OK)
        rc = open_backend(r, err);
    if (rc == SPSH_OK)
        rc = spsh__run_alignments(r->setup.config, &r->setup.alignments, err);
    if (rc == SPSH_OK)
        rc = open_feed(r, err);
    if (rc == SPSH_OK)
        rc = open_model(r, err);
    if (rc == SPSH_OK)
        rc = spsh__run_open_learner(r, err);
    if (rc == SPSH_OK)
        rc = tell_world(r, err);
    if (rc == SPSH_OK)
        rc = spsh__run_open_strategy(r, err);
    if (rc == SPSH_OK)
        rc = spsh__run_restore(r, err);
    if (rc == SPSH_OK)
        rc = r->strategy->ops->start_fn(r->strategy, &r->learner, err);
    if (rc == SPSH_OK)
        spsh__model_weights_changed(r->model.own);
    if (rc == SPSH_OK)
        rc = spsh__run_step_open(r, err);
    if (rc != SPSH_OK)
        return rc;
    rc = open_metrics(r, err);
    if (r->o->record) /* nobody keeps one of a run that rank 0 could not begin */
        rc = spsh__run_agree(r, rc, err);
    r->runtime.has_begun = rc == SPSH_OK;
    if (rc == SPSH_OK)
        tell_start(r);
    return rc;
}

static void close_all(spsh__run *r)
{
    spsh__metrics_close(r->report.metrics);
    spsh__run_close_saving(&r->saving);
    spsh__run_close_strategy(r);
    spsh__run_close_moments(r);
    if (r->step.statistics_before.data != NULL)
        r->backend->ops->free_fn(r->backend, r->step.statistics_before);
    spsh__run_close_model(&r->model);
    spsh__feed_close(r->feed);
    spsh__compute_close(&r->compute);
    spsh__setup_close(&r->setup);
    spsh__run_close_lost(r);
    spsh__comm_close(r->world->comm);
    free(r->runtime.record_folder);
    free(r->model.buckets);
    spsh__rows_close(&r->rows);
    spsh__loss_close(&r->loss);
}

/* ---- the loop ---- */

/* What is full stays full for a while: it is told once. */
static void hear_metrics(spsh__run *r, spsh_status rc, const spsh_error *failed)
{
    if (rc != SPSH_OK && !r->report.has_failed)
        spsh__run_log(r, SPSH_LOG_ERROR, "metrics are not written: %s", failed->message);
    if (rc == SPSH_OK && r->report.has_failed)
        spsh__run_log(r, SPSH_LOG_INFO, "metrics are written again");
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

static void tell_step(spsh__run *r)
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

/* What of the epoch was not learnt from is told once; an epoch without anything to learn from would
 * be followed by others like it. */
static spsh_status judge_epoch(spsh__run *r, spsh_error *err)
{
    char text[LINE_BYTES];
    const double *t = r->report.epoch_totals;
    const double served = t[SPSH__ROW_SERVED], counted = t[SPSH__ROW_COUNTED];
    if (r->setup.alignments != NULL)
        (void)snprintf(text, sizeof(text),
                       "%.0f have no alignment, %.0f one of another length, %.0f no frames",
                       t[SPSH__ROW_WITHOUT_ALIGNMENT], t[SPSH__ROW_OTHER_LENGTH],
                       t[SPSH__ROW_WITHOUT_FRAMES]);
    else
        (void)snprintf(text, sizeof(text),
                       "%.0f have too few frames for their text, %.0f no symbol of the vocabulary "
                       "in it, %.0f no frames",
                       t[SPSH__ROW_INFEASIBLE], t[SPSH__ROW_WITHOUT_TEXT],
                       t[SPSH__ROW_WITHOUT_FRAMES]);
    if (r->report.is_epoch_whole && counted <= 0)
        return SPSH_FAIL(err, SPSH_E_NOT_FOUND, SPSH_OFFSET_NONE,
                         "epoch %llu: none of its %.0f utterances can be learnt from: %s",
                         (unsigned long long)r->progress.epoch + 1, served, text);
    if (r->report.is_epoch_whole && r->progress.epoch == 0 && counted < served)
        spsh__run_log(r, SPSH_LOG_WARNING, "%.0f of %.0f utterances are not learnt from: %s",
                      served - counted, served, text);
    if (counted > 0)
        spsh__run_log(r, SPSH_LOG_INFO, "epoch %llu: loss %.4g%s of %.0f utterances",
                      (unsigned long long)r->progress.epoch + 1,
                      t[SPSH__ROW_LOSS] / t[SPSH__ROW_LOSSES],
                      r->setup.alignments != NULL ? " a frame" : "", counted);
    memset(r->report.epoch_totals, 0, sizeof(r->report.epoch_totals));
    r->report.is_epoch_whole = true;
    return SPSH_OK;
}

/* A loss that is no number, of a step that was left out, would hide all others. */
static void add_to_epoch(spsh__run *r)
{
    const bool is_number = isfinite(r->rows.totals[SPSH__ROW_LOSS]);
    for (int i = 0; i < SPSH__ROW_DOMAINS; i++)
        if (is_number || (i != SPSH__ROW_LOSS && i != SPSH__ROW_LOSSES))
            r->report.epoch_totals[i] += r->rows.totals[i];
}

/* Known when a shape was met for the first time. */
static void tell_recurrence(const spsh__run *r)
{
    char text[LOG_BYTES];
    while (r->compute.cuda != NULL && spsh__cuda_rnn_news(r->backend, text, sizeof(text)))
        spsh__run_log(r, SPSH_LOG_INFO, "recurrent layers on the device: %s", text);
}

void spsh__run_tell(spsh__run *r)
{
    tell_step(r);
    tell_recurrence(r);
    add_to_epoch(r);
}

/* Gradients that are applied late are so before anything is made of the model. */
static spsh_status finish_due(spsh__run *r, spsh_error *err)
{
    const spsh_status rc = spsh__run_flush(r, err);
    if (rc != SPSH_OK || !r->step.has_learnt)
        return rc;
    spsh__run_tell(r);
    r->step.has_to_stop = r->step.has_to_stop || r->rows.totals[SPSH__ROW_STOP] > 0;
    return SPSH_OK;
}

/* Stopped in its evaluation, it has not ended: whoever goes on evaluates. */
spsh_status spsh__run_end_epoch(spsh__run *r, spsh_error *err)
{
    spsh_status rc = finish_due(r, err);
    if (rc == SPSH_OK)
        rc = judge_epoch(r, err);
    if (rc != SPSH_OK)
        return rc;
    r->step.has_ended = false;
    r->progress.epoch++;
    rc = spsh__run_evaluate(r, err);
    if (rc == SPSH_E_CANCELED)
        r->progress.epoch--;
    return rc != SPSH_OK ? rc : spsh__run_save(r, err);
}

bool spsh__run_is_done(const spsh__config *c, const spsh__progress *p)
{
    return (c->epochs > 0 && p->epoch >= c->epochs) ||
           (c->samples_max > 0 && p->samples >= c->samples_max);
}

/* What the step's totals ask for; SPSH_E_CANCELED: to stop. */
static spsh_status after_step(spsh__run *r, spsh_error *err)
{
    const bool evaluates = r->rows.totals[SPSH__ROW_EVALUATE] > 0,
               saves = r->rows.totals[SPSH__ROW_SAVE] > 0;
    if (!r->step.has_learnt)
        return SPSH_OK;
    spsh__run_tell(r);
    if (r->rows.totals[SPSH__ROW_STOP] > 0)
        return SPSH_E_CANCELED;
    spsh_status rc = spsh__run_look(r, err);
    if (rc == SPSH_OK && (evaluates || saves))
        rc = finish_due(r, err);
    if (rc == SPSH_OK && evaluates)
        rc = spsh__run_evaluate(r, err);
    if (rc == SPSH_OK && saves)
        rc = spsh__run_save(r, err);
    return rc;
}

static spsh_status stop(spsh__run *r, spsh_error *err)
{
    spsh_status rc = finish_due(r, err);
    if (rc == SPSH_OK)
        rc = spsh__run_save_last(r, err);
    return rc != SPSH_OK ? rc
                         : SPSH_FAIL(err, SPSH_E_CANCELED, SPSH_OFFSET_NONE,
                                     "stopped behind step %llu, and saved",
                                     (unsigned long long)r->progress.step);
}

static spsh_status steps(spsh__run *r, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    while (rc == SPSH_OK && !spsh__run_is_done(r->setup.config, &r->progress)) {
        rc = spsh__run_step(r, err);
        if (rc == SPSH_E_END) {
            rc = spsh__run_end_epoch(r, err);
            continue;
        }
        if (rc == SPSH_OK)
            rc = after_step(r, err);
        if (rc == SPSH_OK && r->step.has_ended)
            rc = spsh__run_end_epoch(r, err);
        if (rc == SPSH_OK && r->step.has_to_stop)
            rc = SPSH_E_CANCELED;
    }
    return rc != SPSH_OK ? rc : finish_due(r, err);
}

static bool is_evaluated(const spsh__config *c, const spsh__progress *p)
{
    const char *const *dev = (const char *const *)c->dev;
    return dev == NULL || dev[0] == NULL || p->evaluated_step == p->step;
}

static spsh_status loop(spsh__run *r, spsh_error *err)
{
    r->report.begin_s = r->saving.saved_s = r->evaluation.ended_s = r->saving.looked_s =
        spsh__world_now_s(r->world);
    r->report.begin_samples = r->progress.samples;
    r->report.is_epoch_whole = r->progress.step == 0;
    if (spsh__run_is_done(r->setup.config, &r->progress) &&
        is_evaluated(r->setup.config, &r->progress)) {
        spsh__run_log(r, SPSH_LOG_INFO,
                      "the run is done: %llu epochs, %llu utterances; a larger train.epochs or "
                      "train.samples_max goes on",
                      (unsigned long long)r->progress.epoch,
                      (unsigned long long)r->progress.samples);
        return SPSH_OK;
    }
    spsh_status rc = r->rounds.is_free ? spsh__run_free(r, err) : steps(r, err);
    if (rc == SPSH_OK && !is_evaluated(r->setup.config, &r->progress))
        rc = spsh__run_evaluate(r, err);
    if (rc == SPSH_E_CANCELED && !spsh__comm_has_failed(r->world->comm))
        return stop(r, err);
    return rc != SPSH_OK ? rc : spsh__run_save_last(r, err);
}

static void fill_result(const spsh__run *r, spsh_train_result *ret)
{
    *ret = (spsh_train_result){
        .steps = r->progress.step,
        .epochs = r->progress.epoch,
        .samples = r->progress.samples,
        .loss = r->step.facts.step > 0 ? r->step.facts.loss : (double)NAN,
        .wer = r->evaluation.has_last
                   ? spsh__error_rate(&r->evaluation.last, &r->evaluation.last.words)
                   : (double)NAN,
        .cer = r->evaluation.has_last
                   ? spsh__error_rate(&r->evaluation.last, &r->evaluation.last.letters)
                   : (double)NAN,
        .frame_error = r->evaluation.has_last && r->setup.alignments != NULL
                           ? spsh__frame_error(&r->evaluation.last)
                           : (double)NAN,
    };
}

/* What cannot be kept is done as it comes: a run that is slower than others says why. */
static void tell_graphs(const spsh__run *r)
{
    if (r->compute.cuda == NULL || !r->setup.config->has_graphs)
        return;
    const spsh__cuda_segment_counts n = spsh__cuda_segments_counted(r->backend);
    spsh__run_log(r, n.refused > 0 ? SPSH_LOG_WARNING : SPSH_LOG_INFO,
                  "graphs on the device: %llu of %llu parts of steps were begun as one; %llu were "
                  "kept, %llu could not be",
                  (unsigned long long)n.launched, (unsigned long long)n.begun,
                  (unsigned long long)n.kept, (unsigned long long)n.refused);
}

/* The other processes wait for this one where communication is closed. */
static void end(spsh__run *r, const char *stopped)
{
    tell_graphs(r);
    spsh__metrics_close(r->report.metrics);
    r->report.metrics = NULL;
    if (r->world->is_first && r->o->end_fn != NULL)
        r->o->end_fn(r->o->end_user, stopped);
}

spsh_status spsh__run_in(const spsh_train_options *options, spsh__run_world *world,
                         spsh_train_result *ret_result, spsh_error *err)
{
    spsh__run *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return spsh__fail_memory(err);
    r->o = options;
    r->world = world;
    r->io = options->io != NULL ? options->io : spsh_io_default();
    spsh_error failed = SPSH_ERROR_INIT; /* an epoch's end is one on the way, too */
    spsh_status rc = open_all(r, &failed);
    if (rc == SPSH_OK)
        rc = loop(r, &failed);
    const bool is_good =
        rc == SPSH_OK || (rc == SPSH_E_CANCELED &&
                          (r->world->comm == NULL || !spsh__comm_has_failed(r->world->comm)));
    if (is_good) {
        fill_result(r, ret_result);
        end(r, rc == SPSH_OK ? NULL : failed.message);
    }
    if (rc != SPSH_OK && err != NULL)
        *err = failed;
    if (!is_good && r->world->comm != NULL)
        spsh__comm_fail(r->world->comm); /* this rank alone, maybe: the others are not waited for */
    close_all(r);
    free(r);
    return rc;
}
