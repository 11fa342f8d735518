/* run_free.c: the loop of asynchronous learners: rounds of updates, each learner at its own pace,
 * and barriers between rounds.
 *
 *     round    draw, gradient, update, acknowledge; rank 0 reports the updates of all learners, one
 *              line per update of its own
 *     barrier  rank 0 shares the reasons: the epoch's end, evaluate, save, stop, enough samples
 *
 * No lease is outstanding at a barrier, so one number describes the position of a checkpoint. Work
 * on the model there (run_learner.c) is done as between steps.
 */
#include "run_internal.h"
#include "speechshard/inside.h"

/* State that rank 0 broadcasts after a round. */
typedef struct pause {
    uint64_t reasons, epoch, step; /* position of the next batch */
    spsh__progress progress;
    double epoch_totals[SPSH__ROW_DOMAINS];
} pause;

/* ---- rank 0, in a round ---- */

/* Report the updates acknowledged since the last call. */
static spsh_status log_totals(spsh__run *r, spsh_error *err)
{
    uint64_t leases = 0;
    const spsh_status rc = spsh__leases_totals(spsh__draw_leases(r->rounds.draw), r->rows.totals,
                                               r->rows.count, &leases, err);
    if (rc != SPSH_OK || leases == 0 || r->rows.totals[SPSH__ROW_STEPS] <= 0)
        return rc;
    r->progress.samples += (uint64_t)r->rows.totals[SPSH__ROW_SERVED];
    r->progress.step += (uint64_t)r->rows.totals[SPSH__ROW_STEPS];
    r->progress.audio_s += r->rows.totals[SPSH__ROW_AUDIO_S];
    r->progress.skipped_steps += (uint64_t)r->rows.totals[SPSH__ROW_SKIPPED];
    spsh__run_fill_facts(r);
    r->step.facts.save_s = r->saving.save_s;
    r->saving.save_s = 0;
    spsh__run_report_step(r);
    return SPSH_OK;
}

static spsh_status find_due(const spsh__run *r, uint64_t *ret, spsh_error *err)
{
    const spsh__config *c = r->setup.config;
    const double now_s = spsh__world_now_s(r->world);
    uint64_t reasons = 0;
    if (c->checkpoint_every_s > 0 && now_s - r->saving.saved_s >= c->checkpoint_every_s)
        reasons |= SPSH__PAUSE_SAVE;
    if (c->evaluate_every_s > 0 && now_s - r->evaluation.ended_s >= c->evaluate_every_s)
        reasons |= SPSH__PAUSE_EVALUATE;
    if (c->samples_max > 0 && r->progress.samples >= c->samples_max)
        reasons |= SPSH__PAUSE_SAMPLES;
    *ret = reasons;
    return spsh__run_note(&r->runtime, ret, err);
}

static spsh_status watch(spsh__run *r, spsh_error *err)
{
    if (!r->world->is_first)
        return SPSH_OK;
    uint64_t reasons = 0;
    spsh_status rc = spsh__run_poll_lost(r, err);
    if (rc == SPSH_OK)
        rc = log_totals(r, err);
    if (rc == SPSH_OK)
        rc = spsh__run_poll(r, err);
    if (rc == SPSH_OK)
        rc = find_due(r, &reasons, err);
    if (rc == SPSH_OK && reasons != 0)
        rc = spsh__leases_pause(spsh__draw_leases(r->rounds.draw), (uint32_t)reasons, err);
    return rc;
}

/* Hold leases back only if an update has one batch and does not wait for slower learners. Otherwise
 * a learner could wait for a lease that is held back until it acknowledges its other leases. */
static spsh_status begin_round(spsh__run *r, spsh_error *err)
{
    const spsh__config *c = r->setup.config;
    uint64_t steps = 0;
    spsh__lease_round round = {.holds_back = c->accumulate == 1 &&
                                             r->learner.options.node_size == 1 &&
                                             r->strategy->ops->retire_fn == NULL};
    if (!r->world->is_first)
        return SPSH_OK;
    const spsh_status rc = spsh__feed_steps(r->feed, r->rounds.epoch, &steps, err);
    if (rc != SPSH_OK)
        return rc;
    if (c->samples_max > 0) {
        round.samples_max = c->samples_max - r->report.begin_samples;
        round.samples_mean = (double)spsh__feed_epoch_utterances(r->feed) / (double)(steps + 1);
    }
    return spsh__leases_begin(spsh__draw_leases(r->rounds.draw), &round, err);
}

static spsh_status place(spsh__run *r, uint64_t epoch, uint64_t step, spsh_error *err)
{
    uint64_t steps = 0;
    r->rounds.epoch = epoch;
    r->rounds.step = step;
    if (!r->world->is_first)
        return SPSH_OK;
    const spsh_status rc = spsh__feed_steps(r->feed, epoch, &steps, err);
    return rc != SPSH_OK
               ? rc
               : spsh__leases_place(spsh__draw_leases(r->rounds.draw), epoch, step, steps, err);
}

/* ---- all learners ---- */

static spsh_status go(spsh__run *r, spsh_error *err)
{
    spsh__drawn drawn = {.is_pause = false};
    spsh_status rc = spsh__draw_next(r->rounds.draw, &drawn, err);
    while (rc == SPSH_OK && !drawn.is_pause) {
        rc = spsh__run_learn_drawn(r, &drawn, err);
        if (rc != SPSH_OK)
            return rc;
        const double *row = r->rows.own_totals;
        const spsh__lease_done done = {.samples = (uint64_t)row[SPSH__ROW_SERVED],
                                       .row = row,
                                       .row_count = r->rows.count,
                                       .reasons = row[SPSH__ROW_STOP] > 0 ? SPSH__PAUSE_STOP : 0};
        rc = spsh__draw_done(r->rounds.draw, &done, err);
        if (rc == SPSH_OK)
            rc = watch(r, err);
        if (rc == SPSH_OK)
            rc = spsh__draw_next(r->rounds.draw, &drawn, err);
    }
    if (rc == SPSH_OK && r->strategy->ops->retire_fn != NULL)
        rc = r->strategy->ops->retire_fn(r->strategy, err);
    return rc;
}

/* Take rank 0's state. The update count and the loss scale are per learner, so keep this
 * learner's. */
static void take_pause(spsh__run *r, const pause *p)
{
    const spsh__progress own = r->progress;
    r->progress = p->progress;
    r->progress.updates = own.updates;
    r->progress.loss_scale = own.loss_scale;
    memcpy(r->report.epoch_totals, p->epoch_totals, sizeof(r->report.epoch_totals));
    r->rounds.epoch = p->epoch;
    r->rounds.step = p->step;
    r->step.has_to_stop = (p->reasons & SPSH__PAUSE_STOP) != 0;
}

/* All ranks stop if any rank was asked to, also at a barrier. */
static spsh_status share_stop(spsh__run *r, spsh_error *err)
{
    uint64_t stops = r->step.has_to_stop || (r->o->stop != NULL && *r->o->stop != 0);
    spsh_status rc = spsh__run_note(&r->runtime, &stops, err);
    if (rc == SPSH_OK)
        rc = spsh__comm_all_reduce(r->world->comm, SPSH__COMM_U64, SPSH__COMM_MAX, &stops, 1, err);
    r->step.has_to_stop = stops > 0;
    return rc;
}

static spsh_status meet(spsh__run *r, pause *ret, spsh_error *err)
{
    spsh__leases *leases = spsh__draw_leases(r->rounds.draw);
    spsh__lease_state state = {.epoch = 0};
    spsh_status rc = leases != NULL ? spsh__leases_meet(leases, &state, err) : SPSH_OK;
    if (rc == SPSH_OK)
        rc = spsh__run_shrink(r, err);
    if (rc == SPSH_OK && r->world->is_first)
        rc = spsh__run_poll_lost(r, err);
    if (rc == SPSH_OK && r->world->is_first)
        rc = log_totals(r, err);
    if (rc != SPSH_OK)
        return rc;
    memset(ret, 0, sizeof(*ret));
    ret->reasons = state.reasons;
    ret->epoch = state.epoch;
    ret->step = state.step;
    ret->progress = r->progress;
    memcpy(ret->epoch_totals, r->report.epoch_totals, sizeof(ret->epoch_totals));
    rc = spsh__comm_broadcast(r->world->comm, ret, sizeof(*ret), 0, err);
    if (rc != SPSH_OK)
        return rc;
    take_pause(r, ret);
    return share_stop(r, err);
}

static spsh_status do_pause(spsh__run *r, const pause *p, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (r->step.has_to_stop)
        return SPSH_E_CANCELED;
    if ((p->reasons & SPSH__PAUSE_EPOCH) != 0) {
        rc = spsh__run_end_epoch(r, err);
        return rc != SPSH_OK ? rc : place(r, r->progress.epoch, 0, err);
    }
    if ((p->reasons & SPSH__PAUSE_EVALUATE) != 0)
        rc = spsh__run_evaluate(r, err);
    if (rc == SPSH_OK && (p->reasons & SPSH__PAUSE_SAVE) != 0)
        rc = spsh__run_save(r, err);
    return rc;
}

spsh_status spsh__run_free(spsh__run *r, spsh_error *err)
{
    pause p;
    spsh_status rc = place(r, r->rounds.epoch, r->rounds.step, err);
    while (rc == SPSH_OK && !spsh__run_is_done(r->setup.config, &r->progress)) {
        rc = begin_round(r, err);
        if (rc == SPSH_OK)
            rc = go(r, err);
        if (rc == SPSH_OK)
            rc = meet(r, &p, err);
        if (rc == SPSH_OK)
            rc = do_pause(r, &p, err);
    }
    return rc;
}
