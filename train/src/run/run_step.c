/* run_step.c: one optimizer step: batches, forward, loss, backward, exchange, update.
 *
 * Gradients are sums over losses, of utterances or of frames. The division by the number of losses
 * is part of the update, because no rank knows the number before the exchange. If gradients or a
 * loss are not finite on one rank, they are not finite on any rank after the exchange. All ranks
 * therefore skip the update.
 *
 * Learners with separate models (strategy.h, has_own_model) check and apply their own gradients,
 * and a step that is not finite affects one learner. The sum of their totals is reported. All ranks
 * use it to decide whether to stop, save, or evaluate after the step.
 */
#include "run_internal.h"

#include <math.h>

#include "speechshard/inside.h"

enum { SKIPPED_IN_A_ROW_MAX = 100 };

spsh_status spsh__run_step_open(spsh__run *r, spsh_error *err)
{
    const spsh__batch_loss_options loss = {.backend = r->backend,
                                           .feed = r->feed,
                                           .vocabulary = r->setup.vocabulary,
                                           .states = r->setup.config->model.outputs,
                                           .chunk_frames = r->setup.config->model.chunk_frames};
    spsh_status rc = spsh__rows_open(r->feed, spsh__leaf_count(&r->learner),
                                     r->strategy->ops->has_own_model, &r->rows, err);
    r->step.due_loss_scale = r->progress.loss_scale.scale;
    if (rc == SPSH_OK)
        rc = spsh__loss_open(&loss, &r->loss, err);
    if (rc != SPSH_OK)
        return rc;
    return r->backend->ops->alloc_fn(r->backend, r->learner.statistics_elements,
                                     &r->step.statistics_before, err);
}

/* ---- a micro-batch ---- */

static void on_bucket(void *user, uint32_t bucket)
{
    spsh__run *r = (spsh__run *)user;
    spsh__world_pass_bucket(r->world, bucket, r->learner.bucket_count);
    if (r->leaf.status == SPSH_OK)
        r->leaf.status =
            r->strategy->ops->on_bucket_fn(r->strategy, r->leaf.number, bucket, &r->leaf.error);
}

/* Losses reach the host in spsh__backend_finish. A device may still be running backward then. */
static spsh_status learn_batch(spsh__run *r, const spsh__feed_batch *b,
                               const spsh__model_batch *batch, double *row, spsh_error *err)
{
    spsh__backend_buffer logits = {NULL, false};
    const spsh_status rc = spsh__model_forward(r->model.own, batch, true, &logits,
                                               spsh__loss_out_lengths(&r->loss), err);
    if (rc != SPSH_OK)
        return rc;
    spsh__loss_put(&r->loss, b, r->model.own, logits, r->progress.loss_scale.scale);
    spsh__model_backward(r->model.own, spsh__model_logit_gradients(r->model.own), on_bucket, r);
    spsh__backend_finish(r->backend);
    spsh__loss_take(&r->loss, b, r->rows.domain_count, row);
    return spsh__fail_again(r->leaf.status, &r->leaf.error, err);
}

static spsh_status do_leaf(spsh__run *r, const spsh__feed_batch *b, double *row, spsh_error *err)
{
    if (spsh__run_counts(&r->learner))
        spsh__row_count(row, b,
                        (uint64_t)spsh__model_padded_batch(r->model.own, b->batch) *
                            spsh__model_padded_frames(r->model.own, b->frames));
    if (b->batch == 0)
        return r->model.stages != NULL
                   ? spsh__stages_put(r->model.stages, r->leaf.number, NULL, err)
                   : r->strategy->ops->skip_leaf_fn(r->strategy, r->leaf.number, err);
    const spsh_status begun = spsh__world_begin_batch(r->world, err);
    if (begun != SPSH_OK)
        return begun;
    const spsh__model_batch batch = spsh__loss_begin(&r->loss, b);
    if (r->model.stages == NULL)
        return learn_batch(r, b, &batch, row, err);
    r->leaf.batch = b;
    r->leaf.row = row;
    return spsh__stages_put(r->model.stages, r->leaf.number, &batch, err);
}

/* ---- the batches of a step ---- */

/* Position of this rank in one step of the loader: its calls k = 0, 1, ... */
typedef struct place {
    uint32_t part, call; /* part: index of the accumulation; call: k */
    uint32_t own;        /* number of this rank's earlier leaves */
} place;

/* Train on a batch. Batches past the virtual world are empty and are not micro-batches. */
static spsh_status take(spsh__run *r, const spsh__feed_batch *b, place *at, spsh_error *err)
{
    const spsh__comm *c = r->learner.comm;
    const uint32_t number = at->call * c->world_size + c->rank;
    spsh_status rc = SPSH_OK;
    if (number < r->learner.virtual_world) {
        r->leaf.number = spsh__leaf_of(&r->learner, at->own);
        rc = do_leaf(r, b, spsh__row_of(&r->rows, at->own), err);
        at->own++;
    }
    at->call++;
    return rc;
}

/* Get the next batch of the step; *ret NULL: the step has no more batches. */
static spsh_status next_batch(spsh__run *r, place *at, const spsh__feed_batch **ret,
                              spsh_error *err)
{
    const spsh__feed_batch *before = *ret;
    const spsh__config *c = r->setup.config;
    const uint32_t leaves = spsh__leaf_count(&r->learner) / spsh__schedule_accumulate_most(c);
    const bool is_part_end = before != NULL && before->is_step_end;
    *ret = NULL;
    if (is_part_end) {
        at->part++;
        at->call = 0;
        at->own = at->part * leaves;
        if (at->part >= spsh__schedule_accumulate(c, r->progress.samples))
            return SPSH_OK; /* leaves of further parts are missing, as at the end of an epoch */
    }
    const spsh_status rc = spsh__feed_next(r->feed, ret, err);
    if (rc == SPSH_E_END && before != NULL) {
        r->step.has_ended = true;
        return SPSH_OK;
    }
    return rc;
}

/* A loader that was restored after an epoch's last batch continues with the next epoch without
 * SPSH_E_END. In this case keep the batch until the end of the epoch is processed. */
static spsh_status first_batch(spsh__run *r, const spsh__feed_batch **ret, spsh_error *err)
{
    *ret = r->step.pending;
    r->step.pending = NULL;
    const spsh_status rc = *ret != NULL ? SPSH_OK : next_batch(r, &(place){0, 0, 0}, ret, err);
    if (rc != SPSH_OK || (*ret)->source->epoch <= r->progress.epoch)
        return rc;
    r->step.pending = *ret;
    return SPSH_FAIL(err, SPSH_E_END, "the epoch has ended");
}

static spsh_status begin(spsh__run *r, spsh_error *err)
{
    const spsh__backend_ops *ops = r->backend->ops;
    spsh__rows_clear(&r->rows);
    ops->copy_fn(r->backend, r->step.statistics_before, r->learner.statistics,
                 r->learner.statistics_elements);
    r->leaf.status = SPSH_OK;
    spsh_status rc = SPSH_OK;
    if (r->strategy->ops->has_own_model) /* before_forward_fn changes the weights */
        rc = spsh__host_arenas_hold(&r->saving.arenas, &r->learner, err);
    if (rc == SPSH_OK)
        rc = r->strategy->ops->before_forward_fn(r->strategy, err);
    if (rc == SPSH_OK && r->strategy->ops->has_own_model)
        spsh__model_weights_changed(r->model.own); /* others mix in models between steps */
    return rc;
}

static spsh_status do_batches(spsh__run *r, const spsh__feed_batch *first, spsh_error *err)
{
    place at = {0, 0, 0};
    spsh_status rc = begin(r, err);
    if (rc == SPSH_OK && r->model.stages != NULL)
        spsh__stages_begin(r->model.stages);
    while (rc == SPSH_OK && first != NULL) {
        rc = take(r, first, &at, err);
        if (rc == SPSH_OK)
            rc = next_batch(r, &at, &first, err);
    }
    if (rc == SPSH_OK && r->model.stages != NULL)
        rc = spsh__stages_end(r->model.stages, err);
    /* Check before the strategy sends any of the results. */
    return rc != SPSH_OK ? rc : r->backend->ops->status_fn(r->backend, err);
}

/* ---- the update ---- */

/* Store the flags in the row of the first leaf: if one rank requests an action, all ranks act after
 * the same step. */
static spsh_status put_flags(spsh__run *r, double now_s, spsh_error *err)
{
    enum { STOP = 1, SAVE = 2, EVALUATE = 4 };
    const spsh__config *c = r->setup.config;
    uint64_t flags = r->o->stop != NULL && *r->o->stop != 0 ? STOP : 0;
    if (r->world->is_first && c->checkpoint_every_s > 0 &&
        now_s - r->saving.saved_s >= c->checkpoint_every_s)
        flags |= SAVE;
    if (r->world->is_first && c->evaluate_every_s > 0 &&
        now_s - r->evaluation.ended_s >= c->evaluate_every_s)
        flags |= EVALUATE;
    const spsh_status rc = spsh__run_note(&r->runtime, &flags, err);
    if ((flags & STOP) != 0)
        r->rows.rows[SPSH__ROW_STOP] = 1;
    if (r->world->is_first) {
        r->rows.rows[SPSH__ROW_SAVE] = (flags & SAVE) != 0;
        r->rows.rows[SPSH__ROW_EVALUATE] = (flags & EVALUATE) != 0;
    }
    return rc;
}

/* decision: of the device; data NULL: the host has decided to update. */
static spsh_status update(spsh__run *r, double gradient_scale, spsh__backend_buffer decision,
                          spsh_error *err)
{
    const spsh__strategy_ops *ops = r->strategy->ops;
    spsh__slice slice;
    if (ops->push_fn != NULL)
        return ops->push_fn(r->strategy, gradient_scale, err);
    for (uint32_t s = 0; ops->slice_fn(r->strategy, s, &slice); s++) {
        const spsh__slice_update u = {
            .backend = r->backend,
            .slice = &slice,
            .gradients = spsh__at(r->backend->ops, r->learner.gradients, slice.offset),
            .gradient_scale = gradient_scale,
            .decision = decision,
            .rate = r->step.facts.rate,
            .number = r->progress.updates + 1};
        spsh__optimizer_update(&r->optimizer, &u);
    }
    return SPSH_OK;
}

/* Properties of one step's gradients, before they are applied. */
typedef struct verdict {
    spsh__step_rule rule;
    double counted, loss;
    spsh__step_scale gradients; /* written by judge */
    bool is_finite;             /* loss and gradients */
    bool is_enqueued;           /* the update is, and the device decides whether it is applied */
} verdict;

/* True if the gradients are from an earlier step. A single learner applies its gradients at once.
 */
static bool is_late(const spsh__run *r)
{
    return r->strategy->ops->flush_fn != NULL && r->world->comm->world_size > 1;
}

/* samples: utterances that all ranks have trained on; sets the rate. */
static verdict begin_verdict(spsh__run *r, uint64_t samples)
{
    const spsh__config *c = r->setup.config;
    const double counted = r->rows.own_totals[SPSH__ROW_LOSSES];
    r->step.facts.rate = spsh__schedule_rate(c, samples) *
                         spsh__schedule_scale(c, r->learner.virtual_world, samples);
    r->step.facts.loss_scale = is_late(r) ? r->step.due_loss_scale : r->progress.loss_scale.scale;
    return (verdict){
        .rule = {counted * r->step.facts.loss_scale, c->clip},
        .counted = counted,
        .loss = r->rows.own_totals[SPSH__ROW_LOSS] / counted
    };
}

/* If the device can decide, enqueue the update before the norm is known. The device then need not
 * wait for the host between the norm and the update. */
static spsh_status update_ahead(spsh__run *r, verdict *v, spsh_error *err)
{
    const spsh__strategy_ops *ops = r->strategy->ops;
    spsh__backend_buffer decision = {NULL, false};
    if (ops->decide_fn == NULL || !isfinite(v->loss))
        return SPSH_OK;
    ops->decide_fn(r->strategy, &v->rule, &decision);
    if (decision.data == NULL)
        return SPSH_OK;
    v->is_enqueued = true;
    const spsh_status rc = spsh__host_arenas_hold(&r->saving.arenas, &r->learner, err);
    return rc != SPSH_OK ? rc : update(r, 0, decision, err);
}

static spsh_status judge(spsh__run *r, verdict *v, spsh_error *err)
{
    double square_sum = 0;
    const spsh_status rc = r->strategy->ops->square_sum_fn(r->strategy, &square_sum, err);
    if (rc != SPSH_OK)
        return rc;
    v->gradients = spsh__step_rule_apply(&v->rule, square_sum);
    v->is_finite = isfinite(v->loss) && v->gradients.is_finite;
    return SPSH_OK;
}

/* Exclude a loss that is not finite from all sums. */
static void clean_totals(const spsh__run *r, const verdict *v)
{
    double *own = r->rows.own_totals;
    own[SPSH__ROW_SKIPPED] = v->counted > 0 && !v->is_finite ? 1 : 0;
    spsh__row_drop_loss(own, r->rows.count);
}

/* Sum the totals over all ranks, except ranks whose node already counts. */
static spsh_status add_totals(spsh__run *r, const verdict *v, spsh_error *err)
{
    const uint32_t count = r->rows.count;
    const double *own = r->rows.own_totals;
    clean_totals(r, v);
    memset(r->rows.totals, 0, count * sizeof(*r->rows.totals));
    if (spsh__run_is_heard(&r->learner))
        memcpy(r->rows.totals, own, count * sizeof(*own));
    return spsh__comm_all_reduce(r->world->comm, SPSH__COMM_F64, SPSH__COMM_SUM, r->rows.totals,
                                 count, err);
}

/* Undo the step. is_overflow: a lower loss scale may make the gradients finite, which is normal
 * while the scale is high or grows. */
static spsh_status skip(spsh__run *r, const verdict *v, bool is_overflow, spsh_error *err)
{
    r->backend->ops->copy_fn(r->backend, r->learner.statistics, r->step.statistics_before,
                             r->learner.statistics_elements);
    r->progress.skipped_steps +=
        !r->strategy->ops->has_own_model; /* else the sum over learners has it */
    if (v->counted <= 0)
        return SPSH_OK; /* no batch had anything to train on, which is not an error */
    if (is_overflow) {
        spsh__run_log(r, SPSH_LOG_INFO,
                      "step %llu is skipped: its gradients exceed the range of fp16; the loss "
                      "scale is now %g",
                      (unsigned long long)r->progress.step, r->progress.loss_scale.scale);
        return SPSH_OK;
    }
    r->step.skipped_in_a_row++;
    spsh__run_log(r, SPSH_LOG_WARNING,
                  "step %llu is skipped: its loss is %g, and the norm of its gradients is %g",
                  (unsigned long long)r->progress.step, v->loss, v->gradients.norm);
    if (r->step.skipped_in_a_row >= SKIPPED_IN_A_ROW_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT,
                         "%d steps in a row had no finite gradients; lower the learning rate, or "
                         "clip the gradients",
                         SKIPPED_IN_A_ROW_MAX);
    return SPSH_OK;
}

/* Apply or skip the update. */
static spsh_status learn(spsh__run *r, const verdict *v, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    r->step.facts.gradient_norm = v->gradients.norm;
    if (r->rounds.has_own_model) { /* the serving task uses this rate for its updates */
        rc = spsh__run_enter(&r->runtime, r->learner.step, err);
        if (rc != SPSH_OK)
            return rc;
        spsh__served_set_rate(&r->served, r->step.facts.rate);
        spsh__run_leave(&r->runtime);
    }
    const bool is_overflow =
        v->counted > 0 &&
        spsh__loss_scale_step(&r->progress.loss_scale, r->backend->precision, v->is_finite);
    rc = spsh__host_arenas_hold(&r->saving.arenas, &r->learner, err);
    if (rc != SPSH_OK)
        return rc;
    if (v->is_finite) {
        if (!v->is_enqueued)
            rc = update(r, v->gradients.scale, (spsh__backend_buffer){NULL, false}, err);
        r->progress.updates++;
        r->step.skipped_in_a_row = 0;
    } else {
        rc = skip(r, v, is_overflow, err);
    }
    if (rc == SPSH_OK)
        rc = r->strategy->ops->after_step_fn(r->strategy, err);
    if (rc == SPSH_OK && v->is_finite)
        spsh__model_weights_changed(r->model.own);
    return rc != SPSH_OK ? rc : r->backend->ops->status_fn(r->backend, err);
}

/* ---- facts of the step ---- */

void spsh__run_fill_facts(spsh__run *r)
{
    spsh__step_facts *f = &r->step.facts;
    spsh__rows_report(&r->rows, r->feed, f);
    f->step = r->progress.step;
    f->epoch = r->progress.epoch;
    f->samples = r->progress.samples;
    f->audio_total_s = r->progress.audio_s;
    f->is_of_frames = r->setup.alignments != NULL;
    f->skipped_steps = (uint32_t)r->progress.skipped_steps;
    f->has_staleness = r->learner.staleness != NULL;
}

/* Seconds for which this rank has waited for the feed, since its wait was before_ns. */
static double waited_s(const spsh__run *r, uint64_t before_ns)
{
    return spsh__world_passed_s(r->world, (double)(spsh__feed_wait_ns(r->feed) - before_ns) * 1e-9);
}

/* Times at which the parts of a step ended, for its facts. */
typedef struct step_times {
    double begin_s, computed_s, exchanged_s, wait_s;
    uint64_t waited_ns, sent_bytes; /* totals at the beginning of the step */
} step_times;

static step_times begin_times(spsh__run *r)
{
    spsh__fault_before_step(&r->world->faults);
    return (step_times){.begin_s = spsh__world_now_s(r->world),
                        .waited_ns = spsh__feed_wait_ns(r->feed),
                        .sent_bytes = spsh__traffic_sent_bytes(&r->learner)};
}

static void end_compute(spsh__run *r, step_times *t)
{
    t->wait_s = waited_s(r, t->waited_ns);
    spsh__fault_after_compute(&r->world->faults,
                              spsh__world_now_s(r->world) - t->begin_s - t->wait_s);
    t->computed_s = spsh__world_now_s(r->world);
}

static spsh_status exchange(spsh__run *r, step_times *t, spsh_error *err)
{
    spsh_status rc =
        spsh__traffic_put(&r->traffic, &r->runtime, &r->learner, t->sent_bytes, r->rows.rows, err);
    if (rc == SPSH_OK)
        rc = r->strategy->ops->after_backward_fn(r->strategy, r->rows.rows, r->rows.own_totals,
                                                 r->rows.count, err);
    t->exchanged_s = spsh__world_now_s(r->world);
    return rc;
}

static void end_times(spsh__run *r, const step_times *t)
{
    spsh__step_facts *f = &r->step.facts;
    f->step_s = spsh__world_now_s(r->world) - t->begin_s;
    f->wait_s = t->wait_s;
    f->exchange_s = t->exchanged_s - t->computed_s;
    f->compute_s = f->step_s - f->wait_s - f->exchange_s;
}

static spsh_status do_drawn(spsh__run *r, uint32_t batches, spsh_error *err)
{
    const spsh__backend_ops *ops = r->backend->ops;
    const spsh__feed_batch *batch = NULL;
    spsh_status rc = begin(r, err);
    for (uint32_t own = 0; rc == SPSH_OK && own < batches; own++) {
        rc = spsh__draw_batch(r->rounds.draw, &batch, err);
        r->leaf.number = spsh__leaf_of(&r->learner, own);
        if (rc == SPSH_OK)
            rc = do_leaf(r, batch, spsh__row_of(&r->rows, own), err);
    }
    return rc != SPSH_OK ? rc : ops->status_fn(r->backend, err);
}

spsh_status spsh__run_learn_drawn(spsh__run *r, const spsh__drawn *drawn, spsh_error *err)
{
    step_times times = begin_times(r);
    r->learner.step++;
    spsh_status rc = do_drawn(r, drawn->batches, err);
    if (rc != SPSH_OK)
        return rc;
    end_compute(r, &times);
    uint64_t stops = r->o->stop != NULL && *r->o->stop != 0;
    rc = spsh__run_note(&r->runtime, &stops, err);
    if (stops != 0)
        r->rows.rows[SPSH__ROW_STOP] = 1;
    if (rc == SPSH_OK)
        rc = exchange(r, &times, err);
    if (rc != SPSH_OK)
        return rc;
    verdict v = begin_verdict(r, r->report.begin_samples + drawn->samples);
    rc = judge(r, &v, err);
    if (rc != SPSH_OK)
        return rc;
    clean_totals(r, &v);
    r->rows.own_totals[SPSH__ROW_STEPS] = 1;
    rc = learn(r, &v, err);
    end_times(r, &times);
    return rc;
}

/* Apply or skip the update, after totals and gradients are complete. */
static spsh_status use(spsh__run *r, spsh_error *err)
{
    verdict v = begin_verdict(r, r->progress.samples);
    spsh_status rc = update_ahead(r, &v, err);
    if (rc == SPSH_OK)
        rc = judge(r, &v, err);
    if (rc == SPSH_OK && r->strategy->ops->has_own_model)
        rc = add_totals(r, &v, err);
    if (rc == SPSH_OK)
        rc = learn(r, &v, err);
    if (rc != SPSH_OK)
        return rc;
    r->progress.samples += (uint64_t)r->rows.totals[SPSH__ROW_SERVED];
    r->progress.audio_s += r->rows.totals[SPSH__ROW_AUDIO_S];
    r->progress.skipped_steps += (uint64_t)r->rows.totals[SPSH__ROW_SKIPPED];
    spsh__run_fill_facts(r);
    return SPSH_OK;
}

spsh_status spsh__run_flush(spsh__run *r, spsh_error *err)
{
    const spsh__strategy_ops *ops = r->strategy->ops;
    r->step.has_learnt = false;
    if (ops->flush_fn == NULL)
        return SPSH_OK;
    spsh_status rc =
        ops->flush_fn(r->strategy, r->rows.totals, r->rows.count, &r->step.has_learnt, err);
    if (rc != SPSH_OK || !r->step.has_learnt)
        return rc;
    const double begin_s = spsh__world_now_s(r->world);
    r->progress.step++;
    rc = use(r, err);
    r->step.facts.step_s = r->step.facts.compute_s = spsh__world_now_s(r->world) - begin_s;
    r->step.facts.wait_s = r->step.facts.exchange_s = r->step.facts.save_s = 0;
    return rc;
}

spsh_status spsh__run_step(spsh__run *r, spsh_error *err)
{
    step_times times = begin_times(r);
    const spsh__feed_batch *first = NULL;
    spsh_status rc = first_batch(r, &first, err);
    if (rc != SPSH_OK)
        return rc;
    r->learner.step = ++r->progress.step;
    rc = do_batches(r, first, err);
    if (rc != SPSH_OK)
        return rc;
    end_compute(r, &times);
    const double loss_scale = r->progress.loss_scale.scale;
    rc = put_flags(r, times.computed_s, err);
    if (rc == SPSH_OK)
        rc = exchange(r, &times, err);
    if (rc != SPSH_OK)
        return rc;
    r->step.has_learnt = !is_late(r) || r->rows.totals[SPSH__ROW_SERVED] > 0;
    if (r->step.has_learnt)
        rc = use(r, err);
    else
        r->progress.step--; /* gradients of the first step are applied in the next one */
    r->step.due_loss_scale = loss_scale;
    if (rc != SPSH_OK)
        return rc;
    end_times(r, &times);
    r->step.facts.save_s = r->saving.save_s;
    r->saving.save_s = 0;
    return SPSH_OK;
}
