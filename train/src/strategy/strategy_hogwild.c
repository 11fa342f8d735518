/* strategy_hogwild.c: one model in memory that all learners of a node share without a lock (Recht
 * and others 2011):
 *
 *     w[j] <- w[j] + (w[j] after the optimizer - w[j] when the gradient began)
 *
 * Each number is read and written separately, atomically and without an order. If two learners
 * write a number at once, one of the two writes is lost. A number that the optimizer did not change
 * is not written. If no other learner has written a number, it gets exactly the optimizer's bits:
 * one learner is SGD.
 */
#include <stdatomic.h>
#include <string.h>

#include "parts.h"
#include "speechshard/inside.h"
#include "strategy_internal.h"

typedef struct hogwild {
    spsh__parts parts; /* parts of the weights */
    _Atomic float *shared;
    float *before; /* the weights as they were read; in the arena's shape */
} hogwild;

static hogwild *state_of(const spsh__strategy *s)
{
    return (hogwild *)s->state;
}

static spsh_status start(spsh__strategy *s, spsh__learner *l, spsh_error *err)
{
    if (l->shared == NULL)
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED,
                         "train.strategy hogwild needs memory that all learners share, so all must "
                         "be on one node");
    spsh_status rc = spsh__strategy_begin(s, l, sizeof(hogwild), err);
    hogwild *h = state_of(s);
    if (rc == SPSH_OK)
        rc = spsh__strategy_open_parts(s, l->weights, 1, &h->parts, err);
    if (rc != SPSH_OK)
        return rc;
    h->shared = (_Atomic float *)(void *)l->shared;
    h->before = spsh__new(&s->allocator, l->arena_elements, sizeof(*h->before));
    if (h->before == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "a second model");
    if (l->comm->rank == 0)
        l->backend->ops->read_f32_fn(l->backend, l->shared, l->weights, l->arena_elements);
    return spsh__strategy_meet(s, err);
}

static void read_shared(hogwild *h)
{
    for (uint32_t part = 0; part < h->parts.count; part++) {
        const uint64_t first = spsh__parts_offset(&h->parts, part);
        const uint64_t count = spsh__parts_elements(&h->parts, part);
        for (uint64_t i = first; i < first + count; i++)
            h->before[i] = atomic_load_explicit(&h->shared[i], memory_order_relaxed);
        spsh__parts_put(&h->parts, part, h->before + first);
    }
}

static spsh_status before_forward(spsh__strategy *s, spsh_error *err)
{
    read_shared(state_of(s));
    return spsh__strategy_own_zero(s, err);
}

static uint32_t bits_of(float value)
{
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static spsh_status after_step(spsh__strategy *s, spsh_error *err)
{
    hogwild *h = state_of(s);
    (void)err;
    for (uint32_t part = 0; part < h->parts.count; part++) {
        const uint64_t first = spsh__parts_offset(&h->parts, part);
        const uint64_t count = spsh__parts_elements(&h->parts, part);
        spsh__parts_take(&h->parts, part, h->parts.host);
        for (uint64_t i = 0; i < count; i++) {
            const float before = h->before[first + i], after = h->parts.host[i];
            if (bits_of(after) == bits_of(before))
                continue; /* keep what another learner may have written */
            const float now = atomic_load_explicit(&h->shared[first + i], memory_order_relaxed);
            const float next = now == before ? after : now + (after - before);
            atomic_store_explicit(&h->shared[first + i], next, memory_order_relaxed);
        }
    }
    return SPSH_OK;
}

/* All learners share the model; each has its own moments. */
static spsh_status consensus(spsh__strategy *s, bool is_taken, spsh_error *err)
{
    read_shared(state_of(s));
    return spsh__strategy_mean(s->learner, s->learner->weights, is_taken, err);
}

static void close_state(spsh__strategy *s)
{
    hogwild *h = state_of(s);
    if (h == NULL)
        return;
    spsh__parts_close(&h->parts);
    spsh__free(&s->allocator, h->before);
    spsh__free(&s->allocator, h);
}

const spsh__strategy_ops spsh__strategy_hogwild = {
    .name = "hogwild",
    .has_own_model = true,
    .start_fn = start,
    .before_forward_fn = before_forward,
    SPSH__STRATEGY_OWN,
    .after_backward_fn = spsh__strategy_own_totals,
    .slice_fn = spsh__strategy_whole_slice,
    .after_step_fn = after_step,
    .settle_fn = spsh__strategy_meet,
    .consensus_fn = consensus,
    .close_fn = close_state,
};
