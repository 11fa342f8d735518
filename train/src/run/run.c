/* run.c: a run from beginning to end: its loop of steps, and the work after a step or an epoch.
 *
 * Every decision that changes the next action of all ranks (stop, save, evaluate, skip, the epoch's
 * end) depends only on the step's totals or the loader's order. All ranks therefore make it after
 * the same step.
 */
#include <math.h>
#include <stdlib.h>

#include "run_internal.h"
#include "speechshard/inside.h"

/* Apply gradients that are still due, so that later work uses the current model. */
static spsh_status finish_due(spsh__run *r, spsh_error *err)
{
    const spsh_status rc = spsh__run_flush(r, err);
    if (rc != SPSH_OK || !r->step.has_learnt)
        return rc;
    spsh__run_report_step(r);
    r->step.has_to_stop = r->step.has_to_stop || r->rows.totals[SPSH__ROW_STOP] > 0;
    return SPSH_OK;
}

/* If the evaluation is stopped, the epoch has not ended: the resumed run evaluates again. */
spsh_status spsh__run_end_epoch(spsh__run *r, spsh_error *err)
{
    spsh_status rc = finish_due(r, err);
    if (rc == SPSH_OK)
        rc = spsh__run_report_epoch(r, err);
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

/* Do the work that the step's totals request. SPSH_E_CANCELED: stop. */
static spsh_status after_step(spsh__run *r, spsh_error *err)
{
    const bool evaluates = r->rows.totals[SPSH__ROW_EVALUATE] > 0,
               saves = r->rows.totals[SPSH__ROW_SAVE] > 0;
    if (!r->step.has_learnt)
        return SPSH_OK;
    spsh__run_report_step(r);
    if (r->rows.totals[SPSH__ROW_STOP] > 0)
        return SPSH_E_CANCELED;
    spsh_status rc = spsh__run_poll(r, err);
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
                         : SPSH_FAIL(err, SPSH_E_CANCELED, "stopped after step %llu, and saved",
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
                      "the run is done: %llu epochs, %llu utterances; to continue it, raise "
                      "train.epochs or train.samples_max",
                      (unsigned long long)r->progress.epoch,
                      (unsigned long long)r->progress.samples);
        return SPSH_OK;
    }
    spsh_status rc = r->rounds.has_own_model ? spsh__run_free(r, err) : steps(r, err);
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

/* Finish the reports. The other processes wait for this one when they close their communicators. */
static void end(spsh__run *r, const char *stopped)
{
    spsh__run_report_graphs(r);
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
        return SPSH_NO_MEMORY(err);
    r->o = options;
    r->world = world;
    r->io = options->io != NULL ? options->io : spsh_io_default();
    spsh_error failed = SPSH_ERROR_INIT; /* also receives SPSH_E_END of an epoch */
    spsh_status rc = spsh__run_open(r, &failed);
    if (rc == SPSH_OK)
        rc = loop(r, &failed);
    const bool is_good =
        rc == SPSH_OK || (rc == SPSH_E_CANCELED &&
                          (r->world->comm == NULL || !spsh__comm_has_failed(r->world->comm)));
    if (is_good) {
        fill_result(r, ret_result);
        end(r, rc == SPSH_OK ? NULL : failed.message);
    }
    if (!is_good && r->world->comm != NULL)
        spsh__comm_fail(r->world->comm); /* perhaps only this rank failed: do not wait for the
                                            others */
    spsh__run_close(r);
    free(r);
    return spsh__fail_again(rc, &failed, err);
}
