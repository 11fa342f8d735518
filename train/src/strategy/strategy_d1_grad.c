/* strategy_d1_grad.c: delay by one, of gradients:
 *
 *     w_{k+1} = w_k - rate * U(sum over j of g_j(w_{k-1}))
 *
 * The gradients of a step are sent and summed while the next gradients are computed. All learners
 * apply the same sum, one step late, and so have the same weights. The first step changes nothing.
 * If a sum is outstanding when the learners settle, the run makes one more step for it, so no
 * gradient is lost.
 *
 * Losses, counts, and flags are delayed with the gradients: the totals of a step belong to the
 * gradients that the step applies.
 */
#include "owner_mean.h"
#include "speechshard/inside.h"
#include "strategy_internal.h"

enum { ROUNDS = 2 };

typedef struct d1 {
    spsh__parts parts; /* parts of the gradients */
    spsh__owner_mean mean;
    bool is_under_way; /* a round is in progress */
    double *row;       /* values of this learner */
    /* under the lock */
    double *rows[ROUNDS]; /* [learner][SPSH__SHARED_MAX], of a round mod 2 */
    uint32_t row_count[ROUNDS];
} d1;

static d1 *state_of(const spsh__strategy *s)
{
    return (d1 *)s->state;
}

static spsh_status serve(void *user, const spsh__message *m, spsh_error *err)
{
    d1 *d = state_of((spsh__strategy *)user);
    const size_t round = m->number % ROUNDS;
    if (m->kind != SPSH__MESSAGE_TOTALS || m->size_bytes > SPSH__SHARED_MAX * sizeof(double))
        return spsh__owner_mean_serve(&d->mean, m, err);
    memcpy(d->rows[round] + (size_t)m->from * SPSH__SHARED_MAX, m->bytes, m->size_bytes);
    d->row_count[round]++;
    return SPSH_OK;
}

static spsh_status start(spsh__strategy *s, spsh__learner *l, spsh_error *err)
{
    const uint32_t world = l->runtime->world_size;
    bool has_all = true;
    spsh_status rc = spsh__strategy_begin(s, l, sizeof(d1), err);
    d1 *d = state_of(s);
    if (rc == SPSH_OK)
        rc = spsh__strategy_open_parts(s, l->gradients, world, &d->parts, err);
    if (rc == SPSH_OK)
        rc = spsh__owner_mean_open(l->runtime, &d->parts, &s->allocator, &d->mean, err);
    if (rc != SPSH_OK)
        return rc;
    d->row = spsh__new(&s->allocator, SPSH__SHARED_MAX, sizeof(double));
    for (size_t i = 0; i < ROUNDS; i++) {
        d->rows[i] = spsh__new(&s->allocator, world, SPSH__SHARED_MAX * sizeof(double));
        has_all = has_all && d->rows[i] != NULL;
    }
    if (!has_all || d->row == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "totals of all learners");
    l->runtime->ops->listen_fn(l->runtime, SPSH__SERVICE_STRATEGY, serve, s);
    return SPSH_OK;
}

static bool is_here(void *user)
{
    d1 *d = (d1 *)user;
    return spsh__owner_mean_is_here(&d->mean) &&
           d->row_count[d->mean.round % ROUNDS] == d->mean.runtime->world_size;
}

/* Wait for the outstanding sum, and add up its totals. */
static spsh_status take_round(d1 *d, double *totals, uint32_t count, spsh_error *err)
{
    const size_t round = d->mean.round % ROUNDS;
    const spsh_status rc = spsh__owner_mean_enter(&d->mean, is_here, d, err);
    if (rc != SPSH_OK)
        return rc;
    for (uint32_t r = 0; r < d->mean.runtime->world_size; r++)
        for (uint32_t i = 0; i < count; i++)
            totals[i] += d->rows[round][(size_t)r * SPSH__SHARED_MAX + i];
    d->row_count[round] = 0;
    spsh__owner_mean_leave(&d->mean);
    return SPSH_OK;
}

/* Overwrite a part of the gradients with the outstanding sum, or with zeros in the first step.
 * Means of the next round cannot overwrite the sum before this learner sends the part. */
static void put_due(d1 *d, uint32_t part)
{
    const uint64_t count = spsh__parts_elements(&d->parts, part);
    const float *mean = d->mean.mean + spsh__parts_offset(&d->parts, part);
    const float world = (float)d->mean.runtime->world_size;
    for (uint64_t i = 0; i < count; i++)
        d->parts.host[i] = d->is_under_way ? mean[i] * world : 0;
    spsh__parts_put(&d->parts, part, d->parts.host);
}

static spsh_status send_totals(d1 *d, uint32_t count, spsh_error *err)
{
    spsh__runtime *t = d->mean.runtime;
    const spsh__message m = {.kind = SPSH__MESSAGE_TOTALS,
                             .number = d->mean.round,
                             .bytes = d->row,
                             .size_bytes = count * sizeof(*d->row)};
    spsh_status rc = SPSH_OK;
    for (uint32_t r = 0; rc == SPSH_OK && r < t->world_size; r++)
        rc = t->ops->post_fn(t, r, &m, err);
    return rc;
}

static spsh_status after_backward(spsh__strategy *s, const double *rows, double *totals,
                                  uint32_t count, spsh_error *err)
{
    d1 *d = state_of(s);
    if (s->learner->runtime->world_size == 1)
        return spsh__strategy_own_totals(s, rows, totals, count, err);
    spsh_status rc = spsh__strategy_own_totals(s, rows, d->row, count, err);
    memset(totals, 0, count * sizeof(*totals));
    if (rc == SPSH_OK && d->is_under_way)
        rc = take_round(d, totals, count, err);
    if (rc == SPSH_OK)
        rc = send_totals(d, count, err);
    for (uint32_t part = 0; rc == SPSH_OK && part < d->parts.count; part++) {
        spsh__parts_take(&d->parts, part, d->mean.mine);
        put_due(d, part);
        if (d->is_under_way)
            spsh__learner_stale(s->learner, 1);
        rc = spsh__owner_mean_send(&d->mean, part, err);
    }
    d->is_under_way = true;
    return rc;
}

static spsh_status flush(spsh__strategy *s, double *totals, uint32_t count, bool *ret_is_due,
                         spsh_error *err)
{
    d1 *d = state_of(s);
    *ret_is_due = d->is_under_way;
    if (!d->is_under_way)
        return SPSH_OK;
    memset(totals, 0, count * sizeof(*totals));
    const spsh_status rc = take_round(d, totals, count, err);
    for (uint32_t part = 0; rc == SPSH_OK && part < d->parts.count; part++)
        put_due(d, part);
    d->is_under_way = false;
    return rc;
}

static void close_state(spsh__strategy *s)
{
    d1 *d = state_of(s);
    if (d == NULL)
        return;
    spsh__owner_mean_close(&d->mean);
    spsh__parts_close(&d->parts);
    spsh__free(&s->allocator, d->row);
    for (size_t i = 0; i < ROUNDS; i++)
        spsh__free(&s->allocator, d->rows[i]);
    spsh__free(&s->allocator, d);
}

const spsh__strategy_ops spsh__strategy_d1_grad = {
    .name = "d1-grad",
    .needs_runtime = true,
    .start_fn = start,
    .before_forward_fn = spsh__strategy_own_zero,
    SPSH__STRATEGY_OWN_AT_ONCE,
    .after_backward_fn = after_backward,
    .flush_fn = flush,
    .close_fn = close_state,
};
