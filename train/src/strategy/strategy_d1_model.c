/* strategy_d1_model.c: delay by one, of models (Zhang and others 2021):
 *
 *     w_i <- mean over j of w_j - rate * U(g(w_i))
 *
 * The mean is of the models for which the gradients are computed, and is made at the same time. A
 * learner applies its own newest gradient at once, and the gradients of the others one step later.
 * There is no ring: models differ by one gradient, however many learners there are. However, all
 * wait for the slowest learner. The mean of all models obeys SGD, with gradients at points near it.
 */
#include "owner_mean.h"
#include "speechshard/inside.h"
#include "strategy_internal.h"

typedef struct d1 {
    spsh__parts parts; /* parts of the weights */
    spsh__owner_mean mean;
    float *away; /* own weights, while `weights` are the consensus model */
    bool is_away;
} d1;

static d1 *state_of(const spsh__strategy *s)
{
    return (d1 *)s->state;
}

static spsh_status serve(void *user, const spsh__message *m, spsh_error *err)
{
    return spsh__owner_mean_serve(&state_of((spsh__strategy *)user)->mean, m, err);
}

static spsh_status start(spsh__strategy *s, spsh__learner *l, spsh_error *err)
{
    spsh_status rc = spsh__strategy_begin(s, l, sizeof(d1), err);
    d1 *d = state_of(s);
    if (rc == SPSH_OK)
        rc = spsh__strategy_open_parts(s, l->weights, l->runtime->world_size, &d->parts, err);
    if (rc == SPSH_OK)
        rc = spsh__owner_mean_open(l->runtime, &d->parts, &s->allocator, &d->mean, err);
    if (rc != SPSH_OK)
        return rc;
    d->away = spsh__new(&s->allocator, l->arena_elements, sizeof(*d->away));
    if (d->away == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "a second model");
    l->runtime->ops->listen_fn(l->runtime, SPSH__SERVICE_STRATEGY, serve, s);
    return SPSH_OK;
}

static spsh_status before_forward(spsh__strategy *s, spsh_error *err)
{
    d1 *d = state_of(s);
    spsh__parts_restore(&d->parts, d->away, &d->is_away);
    spsh_status rc = SPSH_OK;
    if (s->learner->runtime->world_size > 1)
        rc = spsh__owner_mean_begin(&d->mean, err);
    return rc != SPSH_OK ? rc : spsh__strategy_own_zero(s, err);
}

static spsh_status after_backward(spsh__strategy *s, const double *rows, double *totals,
                                  uint32_t count, spsh_error *err)
{
    d1 *d = state_of(s);
    if (s->learner->runtime->world_size == 1)
        return spsh__strategy_own_totals(s, rows, totals, count, err);
    const spsh_status rc =
        spsh__owner_mean_enter(&d->mean, spsh__owner_mean_is_here, &d->mean, err);
    if (rc != SPSH_OK)
        return rc;
    for (uint32_t part = 0; part < d->parts.count; part++) {
        spsh__parts_put(&d->parts, part, d->mean.mean + spsh__parts_offset(&d->parts, part));
        spsh__learner_stale(s->learner, 1);
    }
    spsh__owner_mean_leave(&d->mean);
    return spsh__strategy_own_totals(s, rows, totals, count, err);
}

static spsh_status consensus(spsh__strategy *s, bool is_taken, spsh_error *err)
{
    d1 *d = state_of(s);
    if (s->learner->comm->world_size == 1)
        return SPSH_OK;
    return spsh__strategy_mean_aside(s->learner, &d->parts, d->away, &d->is_away, is_taken, err);
}

static void close_state(spsh__strategy *s)
{
    d1 *d = state_of(s);
    if (d == NULL)
        return;
    spsh__owner_mean_close(&d->mean);
    spsh__parts_close(&d->parts);
    spsh__free(&s->allocator, d->away);
    spsh__free(&s->allocator, d);
}

const spsh__strategy_ops spsh__strategy_d1_model = {
    .name = "d1-model",
    .has_own_model = true,
    .goes_in_step = true,
    .needs_runtime = true,
    .start_fn = start,
    .before_forward_fn = before_forward,
    SPSH__STRATEGY_OWN_AT_ONCE,
    .after_backward_fn = after_backward,
    .settle_fn = spsh__strategy_meet,
    .consensus_fn = consensus,
    .close_fn = close_state,
};
