/* run_draw.c: see run_draw.h.
 *
 * A leader sends two kinds of messages to its node, in order: the next lease for a rank, as soon as
 * the leader has taken the lease; and the beginning of an update with its number of dealt leases.
 * Each rank has therefore requested a batch before the update of that batch begins.
 */
#include "run_draw.h"

#include <inttypes.h>
#include <stdlib.h>

#include "runtime/comm_sub.h"
#include "speechshard/inside.h"

#define TAG_NODE 28000u /* used by no strategy and no sub-communicator (comm_sub.h) */

enum { AHEAD_UPDATES = 2, NOTE_BYTES = 32 };
enum { NOTE_LEASE = 1, NOTE_UPDATE, NOTE_PAUSE };

/* A leader's message: the position of a lease, or the samples of an update and the receiver's
 * number of batches. */
typedef struct note {
    uint64_t kind, first, second;
} note;

struct spsh__draw {
    spsh__comm *comm;
    spsh__feed *feed;
    spsh__runtime *leader_runtime; /* only with nodes; else NULL */
    spsh__leases *leases;          /* only for a leader */
    uint32_t node_size, update_size;
    uint32_t capacity; /* capacity of both rings below */
    /* for a leader: leases that were taken and dealt, and are not acknowledged */
    spsh__lease *taken;
    uint32_t taken_first, taken_count, update_count; /* update_count: of the current update */
    uint64_t dealt;                                  /* leases dealt in this round */
    uint64_t own_samples;                            /* acknowledged by this learner */
    bool is_over;                                    /* no more leases in this round */
    /* steps of this learner, requested from the feed or still to request */
    struct {
        uint64_t epoch, step;
    } * own;
    uint32_t own_first, own_count, asked_count; /* the first asked_count of own_count are
                                                   requested */
};

/* ---- the feed ---- */

/* Request batches until the feed is full. */
static spsh_status ask(spsh__draw *d, spsh_error *err)
{
    spsh_error full = SPSH_ERROR_INIT;
    while (d->asked_count < d->own_count) {
        const uint32_t at = (d->own_first + d->asked_count) % d->capacity;
        const spsh_status rc = spsh__feed_ask(d->feed, d->own[at].epoch, d->own[at].step, &full);
        if (rc == SPSH_E_LIMIT && d->asked_count > 0)
            return SPSH_OK;
        if (rc != SPSH_OK)
            return spsh__fail_again(rc, &full, err);
        d->asked_count++;
    }
    return SPSH_OK;
}

static spsh_status own(spsh__draw *d, uint64_t epoch, uint64_t step, spsh_error *err)
{
    const uint32_t at = (d->own_first + d->own_count) % d->capacity;
    if (d->own_count == d->capacity)
        return SPSH_FAIL(err, SPSH_E_MISMATCH,
                         "rank %" PRIu32 " was assigned more batches than it can hold",
                         d->comm->rank);
    d->own[at].epoch = epoch;
    d->own[at].step = step;
    d->own_count++;
    return ask(d, err);
}

spsh_status spsh__draw_batch(spsh__draw *d, const spsh__feed_batch **ret, spsh_error *err)
{
    const spsh_status rc = spsh__feed_next(d->feed, ret, err);
    if (rc != SPSH_OK)
        return rc;
    d->own_first = (d->own_first + 1) % d->capacity;
    d->own_count--;
    d->asked_count--;
    return ask(d, err);
}

/* ---- a node ---- */

static spsh_status send_to_member(const spsh__draw *d, uint32_t member, const note *n,
                                  spsh_error *err)
{
    spsh__comm *c = d->comm;
    uint8_t bytes[NOTE_BYTES] = {0};
    spsh__store_u64le(bytes, n->kind);
    spsh__store_u64le(bytes + 8, n->first);
    spsh__store_u64le(bytes + 16, n->second);
    return spsh__comm_send(c, c->rank + member, TAG_NODE, bytes, sizeof(bytes), err);
}

static spsh_status hear(const spsh__draw *d, note *ret, spsh_error *err)
{
    spsh__comm *c = d->comm;
    uint8_t bytes[NOTE_BYTES] = {0};
    const uint32_t leader = c->rank - c->rank % d->node_size;
    const spsh_status rc = spsh__comm_receive(c, leader, TAG_NODE, bytes, sizeof(bytes), err);
    *ret =
        (note){spsh__load_u64le(bytes), spsh__load_u64le(bytes + 8), spsh__load_u64le(bytes + 16)};
    return rc;
}

static spsh_status follow(spsh__draw *d, spsh__drawn *ret, spsh_error *err)
{
    note n = {0, 0, 0};
    spsh_status rc = hear(d, &n, err);
    while (rc == SPSH_OK && n.kind == NOTE_LEASE) {
        rc = own(d, n.first, n.second, err);
        if (rc == SPSH_OK)
            rc = hear(d, &n, err);
    }
    *ret = (spsh__drawn){
        .is_pause = n.kind == NOTE_PAUSE, .batches = (uint32_t)n.second, .samples = n.first};
    return rc;
}

/* ---- a leader ---- */

/* Deal leases in turn. If an update is incomplete, its leases go to the first ranks of the node. */
static spsh_status deal(spsh__draw *d, const spsh__lease *lease, spsh_error *err)
{
    const uint32_t member = (uint32_t)(d->dealt++ % d->node_size);
    const note n = {NOTE_LEASE, lease->epoch, lease->step};
    d->taken[(d->taken_first + d->taken_count++) % d->capacity] = *lease;
    return member == 0 ? own(d, lease->epoch, lease->step, err)
                       : send_to_member(d, member, &n, err);
}

/* Take one more lease if available; may_wait: wait for it. *ret_has: a lease was taken. */
static spsh_status take(spsh__draw *d, bool may_wait, bool *ret_has, spsh_error *err)
{
    spsh_error failed = SPSH_ERROR_INIT;
    spsh__lease lease = {0};
    spsh__lease_taken taken = SPSH__LEASE_NONE;
    spsh_status rc = spsh__leases_take(d->leases, may_wait, &lease, &taken, &failed);
    *ret_has = rc == SPSH_OK && taken == SPSH__LEASE_TAKEN;
    if (rc == SPSH_E_INVALID_ARG && may_wait && d->taken_count > 0)
        return SPSH_OK; /* no lease is available before the taken ones are acknowledged */
    (void)spsh__fail_again(rc, &failed, err);
    d->is_over = rc == SPSH_OK && taken == SPSH__LEASE_PAUSE;
    return *ret_has ? deal(d, &lease, err) : rc;
}

static spsh_status take_all(spsh__draw *d, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    bool has = true;
    while (rc == SPSH_OK && has && !d->is_over && d->taken_count < d->update_size)
        rc = take(d, true, &has, err);
    has = true;
    while (rc == SPSH_OK && has && !d->is_over && d->taken_count < d->capacity)
        rc = take(d, false, &has, err);
    return rc;
}

static spsh_status send_to_node(const spsh__draw *d, const note *n, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    note one = *n;
    for (uint32_t member = 1; rc == SPSH_OK && member < d->node_size; member++) {
        one.second = d->update_count / d->node_size + (member < d->update_count % d->node_size);
        rc = send_to_member(d, member, &one, err);
    }
    return rc;
}

static spsh_status lead(spsh__draw *d, spsh__drawn *ret, spsh_error *err)
{
    const spsh_status rc = take_all(d, err);
    if (rc != SPSH_OK)
        return rc;
    const uint64_t given = d->taken[d->taken_first].samples; /* as of some updates ago */
    d->update_count = d->taken_count < d->update_size ? d->taken_count : d->update_size;
    *ret = (spsh__drawn){.is_pause = d->update_count == 0,
                         .batches = (d->update_count + d->node_size - 1) / d->node_size,
                         .samples = given > d->own_samples ? given : d->own_samples};
    const note n = {ret->is_pause ? NOTE_PAUSE : NOTE_UPDATE, ret->samples, 0};
    if (ret->is_pause) {
        d->is_over = false;
        d->dealt = 0;
    }
    return send_to_node(d, &n, err);
}

spsh_status spsh__draw_next(spsh__draw *d, spsh__drawn *ret, spsh_error *err)
{
    return d->leases != NULL ? lead(d, ret, err) : follow(d, ret, err);
}

spsh_status spsh__draw_done(spsh__draw *d, const spsh__lease_done *done, spsh_error *err)
{
    static const double nothing[SPSH__LEASE_NUMBERS_MAX] = {0};
    spsh_status rc = SPSH_OK;
    d->own_samples += done->samples;
    for (uint32_t i = 0; rc == SPSH_OK && d->leases != NULL && i < d->update_count; i++) {
        spsh__lease_done one = *done;
        if (i > 0) { /* counted with the first lease */
            one.samples = 0;
            one.row = nothing;
        }
        one.number = d->taken[d->taken_first].number;
        d->taken_first = (d->taken_first + 1) % d->capacity;
        d->taken_count--;
        rc = spsh__leases_acknowledge(d->leases, &one, err);
    }
    return rc;
}

spsh__leases *spsh__draw_leases(const spsh__draw *d)
{
    return d->leases;
}

/* ---- open and close ---- */

static spsh_status open_leases(spsh__draw *d, const spsh__draw_options *o, spsh_error *err)
{
    const spsh__ranks leaders = {0, o->node_size, o->comm->world_size / o->node_size};
    spsh__runtime *runtime = o->runtime;
    spsh_status rc = SPSH_OK;
    if (o->comm->rank % o->node_size != 0)
        return SPSH_OK;
    if (o->node_size > 1) {
        rc = spsh__runtime_sub_open(runtime, &leaders, o->allocator, &d->leader_runtime, err);
        runtime = d->leader_runtime;
    }
    return rc != SPSH_OK
               ? rc
               : spsh__leases_open(runtime, o->allocator, d->capacity - 1, &d->leases, err);
}

spsh_status spsh__draw_open(const spsh__draw_options *o, spsh__draw **ret, spsh_error *err)
{
    const uint64_t update = (uint64_t)o->node_size * o->accumulate;
    if ((AHEAD_UPDATES + 1) * update > SPSH__LEASE_AHEAD_MAX + 1)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "train.node_size times train.accumulate is %" PRIu64
                         " batches per update; expected at most %" PRIu32,
                         update, (SPSH__LEASE_AHEAD_MAX + 1) / (AHEAD_UPDATES + 1));
    spsh__draw *d = calloc(1, sizeof(*d));
    if (d == NULL)
        return SPSH_NO_MEMORY(err);
    *ret = d;
    d->comm = o->comm;
    d->feed = o->feed;
    d->node_size = o->node_size;
    d->update_size = (uint32_t)update;
    d->capacity = (AHEAD_UPDATES + 1) * d->update_size;
    d->taken = calloc(d->capacity, sizeof(*d->taken));
    d->own = calloc(d->capacity, sizeof(*d->own));
    return d->taken == NULL || d->own == NULL ? SPSH_NO_MEMORY(err) : open_leases(d, o, err);
}

void spsh__draw_close(spsh__draw *d)
{
    if (d == NULL)
        return;
    spsh__leases_close(d->leases);
    if (d->leader_runtime != NULL)
        d->leader_runtime->ops->close_fn(d->leader_runtime);
    free(d->taken);
    free(d->own);
    free(d);
}
