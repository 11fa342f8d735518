/* gradient_sum.c: see gradient_sum.h.
 *
 * The messages of a bucket have one tag per phase. Messages with the same tag follow each other in
 * the order of pieces and steps on both sides, so they need no numbers. Nothing blocks before
 * sum_end. Until then each call checks which messages have arrived, and starts the next phase.
 * Between calls a polling thread does so (watch.h). Without it, a bucket whose pieces arrive during
 * a long layer would send its sum only after that layer, and the last two buckets only after all of
 * backward. The polling thread adds with a separate backend, whose sums have identical bits.
 * Simulated learners, and a world of one, have no polling thread.
 *
 * Only calls on the computing thread process the copies from a device.
 */
#include "gradient_sum.h"

#include <stdio.h>

#include "base/watch.h"
#include "base/whole_numbers.h"
#include "cuda/device_half.h"
#include "device_stage.h"
#include "speechshard/inside.h"

/* Time between two polls: short against the transfer of a bucket. */
#define POLL_NS UINT64_C(200000)

typedef enum phase {
    PHASE_LEAVES = 0, /* not all leaves have passed */
    PHASE_REDUCE,     /* pieces are in flight */
    PHASE_GATHER,     /* parts are in flight */
    PHASE_DONE,
} phase;

/* Messages that are waited for together. */
typedef struct pending {
    spsh__comm_handle *handles;
    uint32_t *peers;
    uint32_t count, capacity;
} pending;

/* A bucket of gradients, or the running statistics. */
typedef struct range {
    spsh__backend_buffer here; /* slot 0 */
    uint64_t arena_offset;     /* offset in the gradients */
    uint64_t count;            /* number of elements */
    uint64_t slot_offset;      /* offset in slots 1, 2, ... */
    uint64_t part_elements;    /* elements of every part except the last ones */
    uint64_t receive_offset;   /* offset in receive, which has one part per remote piece */
    uint64_t half_offset;      /* offset in halves: own pieces, each of the whole range */
    uint64_t half_received;    /* offset in halves: like receive_offset */
    bool is_half;              /* messages in flight have 16 bits per element */
    uint32_t next_own;         /* index of the next own leaf */
    uint32_t coming;           /* 1 + the own leaf that is being copied from a device; 0: none */
    phase phase;
    pending pending;
} range;

typedef struct spsh__gradient_sum {
    spsh_allocator allocator;
    spsh__learner *learner;
    spsh__backend *backend; /* host backend: makes the sums, and owns all buffers except `before` */
    const spsh__backend_ops *ops;
    spsh__device_stage *stage;   /* for a learner on a device; else NULL */
    spsh__backend_buffer before; /* ... and there the statistics of the step's beginning */
    spsh__comm *comm;
    bool is_whole;
    spsh__fold_tree tree;
    uint32_t *owners; /* rank of each leaf */
    range *ranges;    /* buckets, then the statistics */
    uint32_t range_count;
    spsh__backend_buffer *slots; /* tree.slot_count slots; slot 0 is not used */
    uint64_t slot_elements;
    spsh__backend_buffer receive;
    uint16_t *halves;                /* gradients in messages of 16 bits; NULL: of floats */
    spsh__backend_buffer statistics; /* at the beginning of the step */
    spsh__backend_buffer *values;    /* pieces, while they are joined */
    double *present;                 /* own leaves that had a batch */
    double *rows, *packed;           /* [leaves][SPSH__SHARED_MAX + 1] */
    double *squares, *packed_squares;
    uint64_t block_count;
    pending pending; /* messages of rows and squares */
    uint64_t wait_begin_ns;
    spsh__backend *adder; /* backend for joins: `backend`, or a separate one for the polling
                             thread */
    spsh__watch *watch;   /* runs between begin and end; NULL: no polling thread */
    spsh_status watched;  /* status of the polling thread; under the lock of watch */
    spsh_error watched_error;
} spsh__gradient_sum;

/* Offset and count within the range, not within the arena. */
static spsh__slice part_of(const range *r, uint32_t rank)
{
    uint64_t begin = spsh__least(rank * r->part_elements, r->count);
    return (spsh__slice){begin, spsh__least(r->part_elements, r->count - begin)};
}

static spsh__backend_buffer in_slot(const spsh__gradient_sum *g, const range *r, uint32_t slot)
{
    return slot == 0 ? r->here : spsh__at(g->ops, g->slots[slot], r->slot_offset);
}

static bool is_statistics(const spsh__gradient_sum *g, const range *r)
{
    return r == &g->ranges[g->range_count - 1];
}

static uint32_t tag_of(const spsh__gradient_sum *g, const range *r, bool is_gather)
{
    return (uint32_t)(r - g->ranges) + (is_gather ? g->range_count : 0);
}

/* Messages ---------------------------------------------------------------------------------- */

/* A message to send, or, if is_incoming, to receive. A message without bytes is omitted. */
typedef struct peer_message {
    uint32_t peer, tag;
    bool is_incoming;
    void *bytes;
    size_t size_bytes;
} peer_message;

static spsh_status post(spsh__gradient_sum *g, pending *f, const peer_message *l, spsh_error *err)
{
    spsh__comm *c = g->comm;
    spsh__comm_handle *handle = &f->handles[f->count];
    if (l->size_bytes == 0)
        return SPSH_OK;
    f->peers[f->count] = l->peer;
    spsh_status rc =
        l->is_incoming
            ? c->ops->receive_fn(c, l->peer, l->tag, l->bytes, l->size_bytes, handle, err)
            : c->ops->send_fn(c, l->peer, l->tag, l->bytes, l->size_bytes, handle, err);
    if (rc == SPSH_OK)
        f->count++;
    return rc;
}

static bool has_landed(spsh__gradient_sum *g, const pending *f)
{
    for (uint32_t i = 0; i < f->count; i++)
        if (!g->comm->ops->done_fn(g->comm, f->handles[i]))
            return false;
    return true;
}

/* Write the ranks with messages not yet received or sent, such as "2" or "1, 2". */
static void name_unlanded(spsh__gradient_sum *g, const pending *f, char *text, size_t capacity)
{
    uint32_t count = 0;
    size_t length = 0;
    text[0] = '\0';
    for (uint32_t rank = 0; rank < g->comm->world_size; rank++) {
        bool is_missing = false;
        for (uint32_t i = 0; i < f->count && !is_missing; i++)
            is_missing = f->peers[i] == rank && !g->comm->ops->done_fn(g->comm, f->handles[i]);
        if (!is_missing || length + 16 > capacity)
            continue;
        length += (size_t)snprintf(text + length, capacity - length, "%s%u", count == 0 ? "" : ", ",
                                   rank);
        count++;
    }
}

static spsh_status fail_missing(const spsh__gradient_sum *g, const char *missing, const char *what,
                                spsh_error *err)
{
    return SPSH_FAIL(err, SPSH_E_TIMEOUT,
                     "rank %s is missing: step %llu, %s, waited for %.1f s; this is rank %u of %u",
                     missing, (unsigned long long)g->learner->step, what,
                     (double)(spsh__comm_now_ns(g->comm) - g->wait_begin_ns) / 1e9, g->comm->rank,
                     g->comm->world_size);
}

/* Fail because of a late message. Its sender may itself be waiting for a rank, so poll all
 * ranks. */
static spsh_status fail_late(spsh__gradient_sum *g, const pending *f, uint32_t i, const char *what,
                             spsh_error *err)
{
    char missing[200];
    if (!spsh__comm_name_missing(g->comm, g->learner->step, missing, sizeof(missing)) ||
        missing[0] == '\0')
        name_unlanded(g, f, missing, sizeof(missing));
    if (missing[0] == '\0') /* all messages have arrived in the meantime */
        (void)snprintf(missing, sizeof(missing), "%u", f->peers[i]);
    spsh__comm_fail(g->comm);
    return fail_missing(g, missing, what, err);
}

/* Wait for all messages. Deadlines count from wait_begin_ns. After a failure the messages stay in
 * f. */
static spsh_status land(spsh__gradient_sum *g, pending *f, const char *what, spsh_error *err)
{
    spsh__comm *c = g->comm;
    for (uint32_t i = 0; i < f->count; i++) {
        uint64_t waited_ms = (spsh__comm_now_ns(c) - g->wait_begin_ns) / 1000000;
        uint64_t left_ms = c->deadline_ms > waited_ms ? c->deadline_ms - waited_ms : 0;
        if (!spsh__comm_await(c, f->handles[i], (uint32_t)left_ms))
            return fail_late(g, f, i, what, err);
        spsh_status rc = c->ops->wait_fn(c, f->handles[i], (uint32_t)left_ms, err);
        if (rc == SPSH_E_TIMEOUT) { /* the peer disconnected, or is late and the carrier cannot poll
                                       ranks */
            char missing[200];
            (void)snprintf(missing, sizeof(missing), "%u", f->peers[i]);
            if (!spsh__comm_can_await(c))
                name_unlanded(g, f, missing, sizeof(missing));
            return fail_missing(g, missing, what, err);
        }
        if (rc != SPSH_OK)
            return rc;
    }
    f->count = 0;
    return SPSH_OK;
}

/* Messages of 16 bits ------------------------------------------------------------------------- */

/* A rank rounds the sum of its leaves once, and the owner of a part rounds the sum of all ranks once
 * more. Between the two, values are added as floats. So an element is off by at most one rounding
 * per rank and one for the sum, and the order of sums stays that of fold_tree.h. */

static uint32_t own_pieces(const spsh__gradient_sum *g)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < g->tree.piece_count; i++)
        count += g->tree.pieces[i].rank == g->comm->rank;
    return count;
}

static uint32_t remote_pieces(const spsh__gradient_sum *g)
{
    return g->tree.piece_count - own_pieces(g);
}

static bool has_halves(const spsh__gradient_sum *g, const range *r)
{
    return g->halves != NULL && !is_statistics(g, r);
}

static void pack(const spsh__gradient_sum *g, uint16_t *to, spsh__backend_buffer from,
                 uint64_t count)
{
    const float *values = from.data;
    if (g->learner->sent_as == SPSH__BF16) {
        for (uint64_t i = 0; i < count; i++)
            to[i] = spsh__bf16_of_f32(values[i]);
    } else {
        for (uint64_t i = 0; i < count; i++)
            to[i] = spsh__fp16_of_f32(values[i]);
    }
}

static void unpack(const spsh__gradient_sum *g, spsh__backend_buffer to, const uint16_t *from,
                   uint64_t count)
{
    float *values = to.data;
    if (g->learner->sent_as == SPSH__BF16) {
        for (uint64_t i = 0; i < count; i++)
            values[i] = spsh__f32_of_bf16(from[i]);
    } else {
        for (uint64_t i = 0; i < count; i++)
            values[i] = spsh__f32_of_fp16(from[i]);
    }
}

/* Return the bytes of a message, and its size. of_floats: the elements, if they are sent as
 * floats. */
static void *message_bytes(const spsh__gradient_sum *g, const range *r,
                           spsh__backend_buffer of_floats, uint64_t half_offset)
{
    return r->is_half ? g->halves + half_offset : of_floats.data;
}

static size_t message_size(const spsh__gradient_sum *g, const range *r, uint64_t count)
{
    return count * (r->is_half ? sizeof(*g->halves) : g->ops->element_bytes);
}

/* A bucket's phases -------------------------------------------------------------------------- */

/* Send the parts of an own piece. at: offset of the piece in halves. */
static spsh_status send_piece(spsh__gradient_sum *g, range *r, const spsh__fold_piece *piece,
                              uint64_t at, spsh_error *err)
{
    const spsh__backend_buffer values = in_slot(g, r, piece->slot);
    spsh_status rc = SPSH_OK;
    if (r->is_half)
        pack(g, g->halves + at, values, r->count);
    for (uint32_t to = 0; rc == SPSH_OK && to < g->comm->world_size; to++) {
        const spsh__slice part = part_of(r, to);
        const peer_message l = {
            to, tag_of(g, r, false), false,
            message_bytes(g, r, spsh__at(g->ops, values, part.offset), at + part.offset),
            message_size(g, r, part.count)};
        if (to != g->comm->rank)
            rc = post(g, &r->pending, &l, err);
    }
    return rc;
}

static spsh_status start_reduce(spsh__gradient_sum *g, range *r, spsh_error *err)
{
    const spsh__comm *c = g->comm;
    spsh__slice mine = part_of(r, c->rank);
    uint64_t at = 0, own_at = r->half_offset;
    spsh_status rc = SPSH_OK;
    r->phase = r->count == 0 ? PHASE_DONE : PHASE_REDUCE;
    r->is_half = has_halves(g, r);
    for (uint32_t i = 0; rc == SPSH_OK && r->count > 0 && i < g->tree.piece_count; i++) {
        const spsh__fold_piece *piece = &g->tree.pieces[i];
        if (piece->rank == c->rank)
            continue;
        peer_message l = {piece->rank, tag_of(g, r, false), true,
                          message_bytes(g, r, spsh__at(g->ops, g->receive, r->receive_offset + at),
                                        r->half_received + at),
                          message_size(g, r, mine.count)};
        rc = post(g, &r->pending, &l, err);
        at += mine.count;
    }
    for (uint32_t i = 0; rc == SPSH_OK && r->count > 0 && i < g->tree.piece_count; i++) {
        if (g->tree.pieces[i].rank != c->rank)
            continue;
        rc = send_piece(g, r, &g->tree.pieces[i], own_at, err);
        own_at += r->count;
    }
    return rc;
}

/* Sum this rank's part from the pieces of all ranks, and store it in place. */
static void join(spsh__gradient_sum *g, range *r)
{
    spsh__slice mine = part_of(r, g->comm->rank);
    spsh__backend_buffer sum = spsh__at(g->ops, r->here, mine.offset);
    uint64_t at = r->receive_offset;
    if (mine.count == 0)
        return;
    if (r->is_half)
        unpack(g, spsh__at(g->ops, g->receive, at), g->halves + r->half_received,
               mine.count * remote_pieces(g));
    for (uint32_t i = 0; i < g->tree.piece_count; i++) {
        const spsh__fold_piece *piece = &g->tree.pieces[i];
        bool is_own = piece->rank == g->comm->rank;
        g->values[i] = is_own ? spsh__at(g->ops, in_slot(g, r, piece->slot), mine.offset)
                              : spsh__at(g->ops, g->receive, at);
        at += is_own ? 0 : mine.count;
    }
    for (uint32_t i = 0; i < g->tree.join_count; i++) {
        const spsh__fold_add *add = &g->tree.joins[i];
        g->ops->axpy_fn(g->adder, 1.0, g->values[add->from], g->values[add->to], mine.count);
    }
    if (g->values[0].data != sum.data)
        g->ops->copy_fn(g->adder, sum, g->values[0], mine.count);
}

/* here: the values of the range, in its own memory or in another arena. With is_half, it is the own
 * memory, and this rank keeps the same rounded values that it sends. Halves of the first own piece
 * hold the message: the piece has been sent. */
static spsh_status start_gather(spsh__gradient_sum *g, range *r, spsh__backend_buffer here,
                                spsh_error *err)
{
    const spsh__comm *c = g->comm;
    const spsh__slice mine = part_of(r, c->rank);
    const spsh__backend_buffer sums = spsh__at(g->ops, here, mine.offset);
    spsh_status rc = SPSH_OK;
    r->phase = PHASE_GATHER;
    if (r->is_half && mine.count > 0) {
        uint16_t *halves = g->halves + r->half_offset + mine.offset;
        pack(g, halves, sums, mine.count);
        unpack(g, sums, halves, mine.count);
    }
    for (uint32_t peer = 0; rc == SPSH_OK && peer < c->world_size; peer++) {
        spsh__slice part = part_of(r, peer);
        peer_message l = {
            peer, tag_of(g, r, true), true,
            message_bytes(g, r, spsh__at(g->ops, here, part.offset), r->half_offset + part.offset),
            message_size(g, r, part.count)};
        if (peer != c->rank)
            rc = post(g, &r->pending, &l, err);
    }
    for (uint32_t peer = 0; rc == SPSH_OK && peer < c->world_size; peer++) {
        peer_message l = {peer, tag_of(g, r, true), false,
                          message_bytes(g, r, sums, r->half_offset + mine.offset),
                          message_size(g, r, mine.count)};
        if (peer != c->rank)
            rc = post(g, &r->pending, &l, err);
    }
    return rc;
}

/* Store the sums that other ranks have sent. */
static void end_gather(const spsh__gradient_sum *g, range *r)
{
    r->phase = PHASE_DONE;
    for (uint32_t peer = 0; r->is_half && peer < g->comm->world_size; peer++) {
        const spsh__slice part = part_of(r, peer);
        if (peer != g->comm->rank && part.count > 0)
            unpack(g, spsh__at(g->ops, r->here, part.offset),
                   g->halves + r->half_offset + part.offset, part.count);
    }
}

/* Start the next phase after all messages of a phase have arrived. */
static spsh_status next_phase(spsh__gradient_sum *g, range *r, spsh_error *err)
{
    spsh_status rc = land(g, &r->pending, r->phase == PHASE_REDUCE ? "reducing" : "gathering", err);
    if (rc != SPSH_OK)
        return rc;
    if (r->phase == PHASE_GATHER) {
        end_gather(g, r);
        return SPSH_OK;
    }
    join(g, r);
    if (g->is_whole || is_statistics(g, r))
        return start_gather(g, r, r->here, err);
    r->phase = PHASE_DONE;
    return SPSH_OK;
}

/* After an own leaf has passed the range: add or save it, and prepare the range for the next
 * leaf. */
static spsh_status pass(spsh__gradient_sum *g, range *r, uint32_t own, spsh_error *err)
{
    r->next_own = own + 1;
    for (uint32_t i = 0; i < g->tree.step_count; i++) {
        const spsh__fold_step *step = &g->tree.steps[i];
        spsh__backend_buffer to = in_slot(g, r, step->to);
        spsh__backend_buffer from = in_slot(g, r, step->from);
        if (step->own != own || r->count == 0)
            continue;
        if (step->is_copy)
            g->ops->copy_fn(g->backend, to, from, r->count);
        else
            g->ops->axpy_fn(g->backend, 1.0, from, to, r->count);
    }
    if (own + 1 == g->tree.own_count)
        return start_reduce(g, r, err);
    if (g->stage != NULL)
        return SPSH_OK; /* the next leaf is copied over it */
    if (!is_statistics(g, r))
        g->ops->zero_fn(g->backend, r->here, r->count);
    else if (r->count > 0)
        g->ops->copy_fn(g->backend, r->here, g->statistics, r->count);
    return SPSH_OK;
}

/* Device only: process a leaf after its copy to the host is done. must: wait for the copy. */
static spsh_status settle(spsh__gradient_sum *g, range *r, bool must, spsh_error *err)
{
    const uint32_t slot = (uint32_t)(r - g->ranges);
    if (r->coming == 0 || (!must && !spsh__device_stage_is_down(g->stage, slot)))
        return SPSH_OK;
    const uint32_t own = r->coming - 1;
    r->coming = 0;
    const spsh_status rc = spsh__device_stage_wait(g->stage, slot, err);
    return rc == SPSH_OK ? pass(g, r, own, err) : rc;
}

static spsh__backend_buffer on_device(const spsh__gradient_sum *g, const range *r)
{
    const spsh__learner *l = g->learner;
    return is_statistics(g, r) ? l->statistics : spsh__at(g->ops, l->gradients, r->arena_offset);
}

/* Copy the leaf's values from the device to the host, and prepare device memory for the next
 * leaf. */
static spsh_status send_down(spsh__gradient_sum *g, range *r, uint32_t own, spsh_error *err)
{
    const spsh__backend *device = g->learner->backend;
    const uint32_t slot = (uint32_t)(r - g->ranges);
    spsh_status rc = settle(g, r, true, err);
    if (rc == SPSH_OK)
        rc =
            spsh__device_stage_down(g->stage, on_device(g, r), r->slot_offset, r->count, slot, err);
    if (rc != SPSH_OK)
        return rc;
    r->coming = own + 1;
    r->next_own = own + 1;
    if (own + 1 == g->tree.own_count || r->count == 0)
        return SPSH_OK;
    rc = spsh__device_stage_hold(g->stage, slot, err);
    if (is_statistics(g, r))
        device->ops->copy_fn(g->learner->backend, on_device(g, r), g->before, r->count);
    else
        device->ops->zero_fn(g->learner->backend, on_device(g, r), r->count);
    return rc;
}

static spsh_status arrive(spsh__gradient_sum *g, range *r, uint32_t own, spsh_error *err)
{
    return g->stage != NULL ? send_down(g, r, own, err) : pass(g, r, own, err);
}

static bool is_under_way(const range *r)
{
    return r->phase == PHASE_REDUCE || r->phase == PHASE_GATHER;
}

/* Advance all ranges. *ret_count: number of ranges that are still in flight. */
static spsh_status go_on(spsh__gradient_sum *g, uint32_t *ret_count, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    *ret_count = 0;
    for (uint32_t i = 0; rc == SPSH_OK && i < g->range_count; i++) {
        range *r = &g->ranges[i];
        if (is_under_way(r) && has_landed(g, &r->pending))
            rc = next_phase(g, r, err);
        *ret_count += is_under_way(r);
    }
    return rc;
}

static spsh_status poll_once(spsh__gradient_sum *g, spsh_error *err)
{
    uint32_t count = 0;
    spsh_status rc = SPSH_OK;
    for (uint32_t i = 0; rc == SPSH_OK && i < g->range_count; i++)
        rc = settle(g, &g->ranges[i], false, err);
    return rc == SPSH_OK ? go_on(g, &count, err) : rc;
}

/* Called by the polling thread. */
static bool poll_ranges(void *user)
{
    spsh__gradient_sum *g = user;
    uint32_t count = 0;
    g->watched = go_on(g, &count, &g->watched_error);
    return g->watched == SPSH_OK && count > 0;
}

/* Lock out the polling thread and return the status that it recorded. */
static spsh_status enter(spsh__gradient_sum *g, spsh_error *err)
{
    spsh__watch_enter(g->watch);
    return spsh__fail_again(g->watched, &g->watched_error, err);
}

/* The step's functions ---------------------------------------------------------------------- */

static spsh_status sum_begin(void *state, spsh_error *err)
{
    spsh__gradient_sum *g = state;
    const spsh__learner *l = g->learner;
    (void)err;
    spsh__watch_enter(g->watch); /* in case the last step was not ended */
    spsh__watch_leave(g->watch, false);
    l->backend->ops->zero_fn(l->backend, l->gradients, l->arena_elements);
    if (l->statistics_elements > 0)
        l->backend->ops->copy_fn(l->backend, g->stage != NULL ? g->before : g->statistics,
                                 l->statistics, l->statistics_elements);
    for (uint32_t i = 0; i < g->range_count; i++) {
        g->ranges[i].next_own = 0;
        g->ranges[i].coming = 0;
        g->ranges[i].phase = PHASE_LEAVES;
        g->ranges[i].pending.count = 0;
    }
    memset(g->present, 0, g->tree.leaf_count * sizeof(*g->present));
    return SPSH_OK;
}

static spsh_status bucket_arrives(spsh__gradient_sum *g, uint32_t leaf, uint32_t bucket,
                                  spsh_error *err)
{
    range *statistics = &g->ranges[g->range_count - 1];
    range *r = &g->ranges[bucket];
    spsh_status rc = SPSH_OK;
    if (bucket + 1 >= g->range_count || r->next_own >= g->tree.own_count ||
        g->tree.own[r->next_own] != leaf)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "bucket %u of micro-batch %u was completed out of order on rank %u",
                         bucket, leaf, g->comm->rank);
    g->wait_begin_ns = spsh__comm_now_ns(g->comm);
    if (bucket == 0) {
        g->present[r->next_own] = 1;
        rc = arrive(g, statistics, r->next_own, err);
    }
    if (rc == SPSH_OK)
        rc = arrive(g, r, r->next_own, err);
    return rc == SPSH_OK && g->comm->world_size > 1 ? poll_once(g, err) : rc;
}

static spsh_status sum_bucket(void *state, uint32_t leaf, uint32_t bucket, spsh_error *err)
{
    spsh__gradient_sum *g = state;
    spsh_status rc = enter(g, err);
    if (rc == SPSH_OK)
        rc = bucket_arrives(g, leaf, bucket, err);
    spsh__watch_leave(g->watch, rc == SPSH_OK);
    return rc;
}

/* Zeros, on the host, for a leaf without a batch. */
static spsh_status make_zeros(spsh__gradient_sum *g, range *r, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (g->stage != NULL)
        rc = settle(g, r, true, err);
    if (rc == SPSH_OK && g->stage != NULL)
        rc = spsh__device_stage_rest(g->stage, err);
    if (r->count > 0 && (g->stage != NULL || is_statistics(g, r)))
        g->ops->zero_fn(g->backend, r->here, r->count);
    return rc;
}

static spsh_status skip(spsh__gradient_sum *g, uint32_t leaf, spsh_error *err)
{
    const range *statistics = &g->ranges[g->range_count - 1];
    uint32_t own = statistics->next_own;
    spsh_status rc = SPSH_OK;
    for (uint32_t i = 0; rc == SPSH_OK && i < g->range_count; i++) {
        bool is_in_turn =
            own < g->tree.own_count && g->tree.own[own] == leaf && g->ranges[i].next_own == own;
        rc = is_in_turn ? make_zeros(g, &g->ranges[i], err)
                        : SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                                    "micro-batch %u was completed out of order on rank %u", leaf,
                                    g->comm->rank);
        if (rc == SPSH_OK)
            rc = pass(g, &g->ranges[i], own, err);
    }
    return rc;
}

static spsh_status sum_skip(void *state, uint32_t leaf, spsh_error *err)
{
    spsh__gradient_sum *g = state;
    spsh_status rc = enter(g, err);
    if (rc == SPSH_OK)
        rc = skip(g, leaf, err);
    spsh__watch_leave(g->watch, rc == SPSH_OK);
    return rc;
}

static uint32_t owned_leaves(const spsh__gradient_sum *g, uint32_t rank)
{
    uint32_t count = 0;
    for (uint32_t leaf = 0; leaf < g->tree.leaf_count; leaf++)
        count += g->owners[leaf] == rank;
    return count;
}

/* Exchange the rows of all ranks, which are packed in rank order, with `width` doubles per row. */
static spsh_status post_rows(spsh__gradient_sum *g, uint32_t width, spsh_error *err)
{
    uint64_t begins_at = 0;
    uint64_t own_at = 0;
    size_t own_bytes = (size_t)g->tree.own_count * width * sizeof(double);
    spsh_status rc = SPSH_OK;
    for (uint32_t rank = 0; rank < g->comm->rank; rank++)
        own_at += (uint64_t)owned_leaves(g, rank) * width;
    for (uint32_t own = 0; own < g->tree.own_count; own++)
        memcpy(g->packed + own_at + (size_t)own * width, g->rows + (size_t)g->tree.own[own] * width,
               width * sizeof(double));
    for (uint32_t rank = 0; rc == SPSH_OK && rank < g->comm->world_size; rank++) {
        size_t count = (size_t)owned_leaves(g, rank) * width;
        peer_message in = {rank, 2 * g->range_count, true, g->packed + begins_at,
                           count * sizeof(double)};
        peer_message out = {rank, 2 * g->range_count, false, g->packed + own_at, own_bytes};
        begins_at += count;
        if (rank == g->comm->rank)
            continue;
        rc = post(g, &g->pending, &in, err);
        if (rc == SPSH_OK)
            rc = post(g, &g->pending, &out, err);
    }
    return rc;
}

/* Post the rows before the waits for gradients, so that their transfer overlaps. */
static spsh_status start_sharing(spsh__gradient_sum *g, const double *rows, uint32_t count,
                                 spsh_error *err)
{
    uint32_t width = count + 1;
    for (uint32_t own = 0; own < g->tree.own_count; own++) {
        double *row = g->rows + (size_t)g->tree.own[own] * width;
        row[0] = g->present[own];
        memcpy(row + 1, rows + (size_t)own * count, count * sizeof(double));
    }
    return post_rows(g, width, err);
}

static spsh_status share(spsh__gradient_sum *g, double *totals, uint32_t count, spsh_error *err)
{
    const uint32_t width = count + 1;
    const spsh_status rc = land(g, &g->pending, "sharing losses and counts", err);
    if (rc != SPSH_OK)
        return rc;
    const double *from = g->packed;
    for (uint32_t rank = 0; rank < g->comm->world_size; rank++)
        for (uint32_t leaf = 0; leaf < g->tree.leaf_count; leaf++) {
            if (g->owners[leaf] != rank)
                continue;
            memcpy(g->rows + (size_t)leaf * width, from, width * sizeof(double));
            from += width;
        }
    spsh__fold_rows(g->rows, g->tree.leaf_count, width);
    memcpy(totals, g->rows + 1, count * sizeof(double));
    return SPSH_OK;
}

/* Mean over the leaves that had a batch. If no leaf had one, restore the earlier values. */
static void average_statistics(spsh__gradient_sum *g, double present)
{
    const range *r = &g->ranges[g->range_count - 1];
    if (r->count == 0)
        return;
    if (present > 0)
        g->ops->scale_fn(g->backend, 1.0 / present, r->here, r->count);
    else if (g->stage == NULL)
        g->ops->copy_fn(g->backend, r->here, g->statistics, r->count);
}

/* Copy the sums that this rank needs to the device. */
static spsh_status send_up(spsh__gradient_sum *g, double present, spsh_error *err)
{
    const spsh__learner *l = g->learner;
    spsh_status rc = spsh__device_stage_follow(g->stage, err); /* if no leaf was copied down */
    for (uint32_t i = 0; rc == SPSH_OK && i < g->range_count; i++) {
        const range *r = &g->ranges[i];
        const bool is_all = g->is_whole || is_statistics(g, r);
        const spsh__slice part = is_all ? (spsh__slice){0, r->count} : part_of(r, g->comm->rank);
        if (is_statistics(g, r) && present <= 0)
            continue;
        rc = spsh__device_stage_up(g->stage, spsh__at(g->ops, on_device(g, r), part.offset),
                                   r->slot_offset + part.offset, part.count, err);
    }
    if (present <= 0 && l->statistics_elements > 0)
        l->backend->ops->copy_fn(l->backend, l->statistics, g->before, l->statistics_elements);
    return rc == SPSH_OK ? spsh__device_stage_end(g->stage, err) : rc;
}

static spsh_status sum_end(void *state, const double *rows, double *totals, uint32_t count,
                           spsh_error *err)
{
    spsh__gradient_sum *g = state;
    if (count > SPSH__SHARED_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT,
                         "%u shared numbers per micro-batch exceed the limit of %u", count,
                         SPSH__SHARED_MAX);
    spsh_status rc = enter(g, err);
    spsh__watch_leave(g->watch, false); /* from here on only this thread uses g */
    g->wait_begin_ns = spsh__comm_now_ns(g->comm);
    for (uint32_t own = g->ranges[0].next_own; rc == SPSH_OK && own < g->tree.own_count; own++)
        rc = skip(g, g->tree.own[own], err);
    for (uint32_t i = 0; rc == SPSH_OK && i < g->range_count; i++)
        rc = settle(g, &g->ranges[i], true, err);
    for (uint32_t i = 0; rc == SPSH_OK && i < g->range_count; i++)
        if (g->ranges[i].phase == PHASE_LEAVES)
            rc = start_reduce(g, &g->ranges[i], err);
    if (rc == SPSH_OK)
        rc = start_sharing(g, rows, count, err);
    for (uint32_t i = 0; rc == SPSH_OK && i < g->range_count; i++)
        if (g->ranges[i].phase == PHASE_REDUCE)
            rc = next_phase(g, &g->ranges[i], err);
    for (uint32_t i = 0; rc == SPSH_OK && i < g->range_count; i++)
        if (g->ranges[i].phase == PHASE_GATHER)
            rc = next_phase(g, &g->ranges[i], err);
    if (rc == SPSH_OK)
        rc = share(g, totals, count, err);
    if (rc == SPSH_OK)
        average_statistics(g, g->rows[0]);
    return rc == SPSH_OK && g->stage != NULL ? send_up(g, g->rows[0], err) : rc;
}

/* Square sums ------------------------------------------------------------------------------- */

static uint64_t block_elements(const spsh__gradient_sum *g)
{
    const uint64_t own = g->learner->block_elements;
    return own > 0 ? own : SPSH__BLOCK_ELEMENTS;
}

static uint64_t blocks_of(const spsh__gradient_sum *g, spsh__slice part)
{
    return (part.count + block_elements(g) - 1) / block_elements(g);
}

static uint64_t blocks_of_rank(const spsh__gradient_sum *g, uint32_t rank)
{
    uint64_t count = 0;
    for (uint32_t b = 0; b + 1 < g->range_count; b++)
        count += blocks_of(g, part_of(&g->ranges[b], rank));
    return count;
}

static void square_own_blocks(spsh__gradient_sum *g, double *sums)
{
    for (uint32_t b = 0; b + 1 < g->range_count; b++) {
        const range *r = &g->ranges[b];
        spsh__slice mine = part_of(r, g->comm->rank);
        for (uint64_t at = 0; at < mine.count; at += block_elements(g))
            *sums++ = g->ops->square_sum_fn(g->backend, spsh__at(g->ops, r->here, mine.offset + at),
                                            spsh__least(mine.count - at, block_elements(g)));
    }
}

/* Reorder the squares: from rank by rank to bucket by bucket. */
static void order_squares(spsh__gradient_sum *g)
{
    const double *from = g->packed_squares;
    for (uint32_t rank = 0; rank < g->comm->world_size; rank++) {
        double *bucket = g->squares;
        for (uint32_t b = 0; b + 1 < g->range_count; b++) {
            const range *r = &g->ranges[b];
            spsh__slice part = part_of(r, rank);
            uint64_t count = blocks_of(g, part);
            if (count > 0)
                memcpy(bucket + part.offset / block_elements(g), from, count * sizeof(*from));
            from += count;
            bucket += blocks_of(g, (spsh__slice){0, r->count});
        }
    }
}

static spsh_status sum_squares(void *state, double *ret, spsh_error *err)
{
    spsh__gradient_sum *g = state;
    uint64_t at = 0;
    uint64_t own_at = 0;
    double sum = 0;
    spsh_status rc = SPSH_OK;
    for (uint32_t rank = 0; rank < g->comm->rank; rank++)
        own_at += blocks_of_rank(g, rank);
    square_own_blocks(g, g->packed_squares + own_at);
    size_t own_bytes = blocks_of_rank(g, g->comm->rank) * sizeof(double);
    uint32_t tag = 2 * g->range_count + 1;
    g->wait_begin_ns = spsh__comm_now_ns(g->comm);
    for (uint32_t rank = 0; rc == SPSH_OK && rank < g->comm->world_size; rank++) {
        uint64_t count = blocks_of_rank(g, rank);
        peer_message in = {rank, tag, true, g->packed_squares + at, count * sizeof(double)};
        peer_message out = {rank, tag, false, g->packed_squares + own_at, own_bytes};
        at += count;
        if (rank == g->comm->rank)
            continue;
        rc = post(g, &g->pending, &in, err);
        if (rc == SPSH_OK)
            rc = post(g, &g->pending, &out, err);
    }
    if (rc == SPSH_OK)
        rc = land(g, &g->pending, "the gradient's norm", err);
    if (rc != SPSH_OK)
        return rc;
    order_squares(g);
    for (uint64_t i = 0; i < g->block_count; i++)
        sum += g->squares[i];
    *ret = sum;
    return SPSH_OK;
}

/* Arenas ------------------------------------------------------------------------------------ */

/* This rank's part of a bucket, as a slice of the arena. */
static spsh__slice arena_part(const spsh__gradient_sum *g, uint32_t bucket)
{
    const range *r = &g->ranges[bucket];
    spsh__slice part = part_of(r, g->comm->rank);
    return (spsh__slice){r->arena_offset + part.offset, part.count};
}

static bool sum_slice(const void *state, uint32_t index, spsh__slice *ret)
{
    const spsh__gradient_sum *g = state;
    if (index >= g->learner->bucket_count)
        return false;
    *ret = arena_part(g, index);
    return true;
}

/* Copy this rank's parts of a device arena to the host memory of the gradients. */
static spsh_status fetch(spsh__gradient_sum *g, spsh__backend_buffer arena, spsh_error *err)
{
    spsh_status rc = spsh__device_stage_rest(g->stage, err);
    for (uint32_t b = 0; rc == SPSH_OK && b + 1 < g->range_count; b++) {
        const spsh__slice part = arena_part(g, b);
        rc = spsh__device_stage_down(g->stage, spsh__at(g->ops, arena, part.offset), part.offset,
                                     part.count, b, err);
    }
    for (uint32_t b = 0; rc == SPSH_OK && b + 1 < g->range_count; b++)
        rc = spsh__device_stage_wait(g->stage, b, err);
    return rc;
}

static spsh_status sum_gather(void *state, spsh__backend_buffer arena, spsh_error *err)
{
    spsh__gradient_sum *g = state;
    spsh__backend_buffer here = arena;
    spsh_status rc = SPSH_OK;
    if (g->comm->world_size == 1)
        return SPSH_OK;
    if (g->stage != NULL) {
        here = (spsh__backend_buffer){spsh__device_stage_memory(g->stage), false};
        rc = fetch(g, arena, err);
    }
    g->wait_begin_ns = spsh__comm_now_ns(g->comm);
    for (uint32_t b = 0; rc == SPSH_OK && b + 1 < g->range_count; b++) {
        g->ranges[b].is_half = false; /* weights stay floats */
        rc = start_gather(g, &g->ranges[b], spsh__at(g->ops, here, g->ranges[b].arena_offset), err);
    }
    for (uint32_t b = 0; rc == SPSH_OK && b + 1 < g->range_count; b++)
        rc = next_phase(g, &g->ranges[b], err);
    if (rc == SPSH_OK && g->stage != NULL)
        rc = spsh__device_stage_up(g->stage, arena, 0, g->learner->arena_elements, err);
    return rc == SPSH_OK && g->stage != NULL ? spsh__device_stage_end(g->stage, err) : rc;
}

/* Copy rank 0's arena to all ranks. */
static spsh_status align_arena(spsh__gradient_sum *g, spsh__backend_buffer arena, uint64_t elements,
                               spsh_error *err)
{
    const size_t size_bytes = elements * g->ops->element_bytes;
    if (g->stage == NULL)
        return spsh__comm_broadcast(g->comm, arena.data, size_bytes, 0, err);
    spsh_status rc = spsh__device_stage_rest(g->stage, err);
    if (rc == SPSH_OK)
        rc = spsh__device_stage_down(g->stage, arena, 0, elements, 0, err);
    if (rc == SPSH_OK)
        rc = spsh__device_stage_wait(g->stage, 0, err);
    if (rc == SPSH_OK)
        rc = spsh__comm_broadcast(g->comm, spsh__device_stage_memory(g->stage), size_bytes, 0, err);
    if (rc == SPSH_OK)
        rc = spsh__device_stage_up(g->stage, arena, 0, elements, err);
    return rc == SPSH_OK ? spsh__device_stage_end(g->stage, err) : rc;
}

static spsh_status sum_align(void *state, spsh_error *err)
{
    spsh__gradient_sum *g = state;
    spsh__arena arenas[SPSH__ARENAS];
    spsh__learner_arenas(g->learner, arenas);
    spsh_status rc = spsh__learner_check_sizes(g->learner, err);
    for (size_t i = 0; rc == SPSH_OK && i < SPSH__ARENAS; i++)
        if (arenas[i].buffer.data != NULL && g->comm->world_size > 1)
            rc = align_arena(g, arenas[i].buffer, arenas[i].elements, err);
    return rc;
}

/* Opening ----------------------------------------------------------------------------------- */

static bool open_pending(spsh__gradient_sum *g, pending *f, size_t capacity)
{
    f->handles = spsh__new(&g->allocator, capacity, sizeof(*f->handles));
    f->peers = spsh__new(&g->allocator, capacity, sizeof(*f->peers));
    f->capacity = (uint32_t)capacity;
    return f->handles != NULL && f->peers != NULL;
}

static void close_pending(spsh__gradient_sum *g, pending *f)
{
    spsh__free(&g->allocator, f->handles);
    spsh__free(&g->allocator, f->peers);
}

/* Assign the offsets of each range: in its arena, in the slots, and in the receive buffer. */
static bool lay_out(spsh__gradient_sum *g, uint64_t *ret_received)
{
    const spsh__learner *l = g->learner;
    const uint32_t world = g->comm->world_size;
    const uint32_t owners = l->owners > 0 ? l->owners : world;
    uint32_t own = own_pieces(g);
    uint32_t others = remote_pieces(g);
    uint64_t received = 0;
    for (uint32_t i = 0; i < g->range_count; i++) {
        bool is_last = i + 1 == g->range_count;
        range *r = &g->ranges[i];
        r->arena_offset = is_last ? 0 : l->buckets[i].offset;
        r->count = is_last ? l->statistics_elements : l->buckets[i].count;
        r->slot_offset = is_last ? l->arena_elements : r->arena_offset;
        if (g->stage != NULL)
            r->here =
                (spsh__backend_buffer){spsh__device_stage_memory(g->stage) + r->slot_offset, false};
        else
            r->here = is_last ? l->statistics : spsh__at(g->ops, l->gradients, r->arena_offset);
        uint64_t blocks = blocks_of(g, (spsh__slice){0, r->count});
        r->part_elements = (blocks + owners - 1) / owners * block_elements(g);
        r->receive_offset = received;
        received += part_of(r, g->comm->rank).count * others;
        g->block_count += is_last ? 0 : blocks;
        if (!open_pending(g, &r->pending, (size_t)others + (size_t)own * world + 2 * (size_t)world))
            return false;
    }
    *ret_received = received;
    return true;
}

/* A gather needs the halves of one piece, even if this rank has no leaf. */
static spsh_status take_halves(spsh__gradient_sum *g, spsh_error *err)
{
    const spsh__learner *l = g->learner;
    const uint64_t own = own_pieces(g) > 0 ? own_pieces(g) : 1, others = remote_pieces(g);
    uint64_t elements = 0;
    if (l->sent_as == SPSH__FP32 || g->comm->world_size == 1)
        return SPSH_OK;
    if (g->ops->element_bytes != sizeof(float))
        return SPSH_FAIL(
            err, SPSH_E_UNSUPPORTED,
            "train.gradient_exchange is %s, but backend %s has no floats to round; use "
            "fp32, or another train.backend",
            l->sent_as == SPSH__BF16 ? "bf16" : "fp16", g->ops->name);
    for (uint32_t i = 0; i + 1 < g->range_count; i++) {
        range *r = &g->ranges[i];
        r->half_offset = elements;
        r->half_received = elements + own * r->count;
        elements = r->half_received + others * part_of(r, g->comm->rank).count;
    }
    g->halves = spsh__new(&g->allocator, elements, sizeof(*g->halves));
    return g->halves == NULL ? SPSH_FAIL(err, SPSH_E_NO_MEMORY, "sum of gradients") : SPSH_OK;
}

static spsh_status take_buffers(spsh__gradient_sum *g, uint64_t received, spsh_error *err)
{
    const spsh__learner *l = g->learner;
    spsh_status rc = take_halves(g, err);
    g->slot_elements = l->arena_elements + l->statistics_elements;
    for (uint32_t slot = 1; rc == SPSH_OK && slot < g->tree.slot_count; slot++)
        rc = g->ops->alloc_fn(g->backend, g->slot_elements, &g->slots[slot], err);
    if (rc == SPSH_OK)
        rc = g->ops->alloc_fn(g->backend, received + 1, &g->receive, err);
    if (rc == SPSH_OK)
        rc = g->ops->alloc_fn(g->backend, l->statistics_elements + 1, &g->statistics, err);
    return rc;
}

static bool take_tables(spsh__gradient_sum *g)
{
    const spsh_allocator *a = &g->allocator;
    size_t leaves = g->tree.leaf_count;
    g->slots = spsh__new(a, g->tree.slot_count, sizeof(*g->slots));
    g->values = spsh__new(a, g->tree.piece_count, sizeof(*g->values));
    g->present = spsh__new(a, leaves, sizeof(*g->present));
    g->rows = spsh__new(a, leaves * (SPSH__SHARED_MAX + 1), sizeof(*g->rows));
    g->packed = spsh__new(a, leaves * (SPSH__SHARED_MAX + 1), sizeof(*g->packed));
    g->squares = spsh__new(a, g->block_count, sizeof(*g->squares));
    g->packed_squares = spsh__new(a, g->block_count, sizeof(*g->packed_squares));
    return g->slots != NULL && g->values != NULL && g->present != NULL && g->rows != NULL &&
           g->packed != NULL && g->squares != NULL && g->packed_squares != NULL &&
           open_pending(g, &g->pending, 2 * (size_t)g->comm->world_size);
}

static spsh_status number_leaves(spsh__gradient_sum *g, spsh_error *err)
{
    const spsh__learner *l = g->learner;
    uint32_t world = g->comm->world_size;
    uint32_t virtual_world = l->virtual_world == 0 ? world : l->virtual_world;
    uint64_t count = (uint64_t)virtual_world * (l->accumulate == 0 ? 1 : l->accumulate);
    if (count > SPSH__LEAVES_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT,
                         "a step has %llu micro-batches; expected at most %u: lower "
                         "data.virtual_world, train.accumulate, or train.accumulate_max",
                         (unsigned long long)count, SPSH__LEAVES_MAX);
    if (2 * (l->bucket_count + (uint64_t)2) > SPSH__COMM_TAG_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT,
                         "%u buckets of gradients exceed the number of message tags",
                         l->bucket_count);
    g->owners = spsh__new(&g->allocator, count, sizeof(*g->owners));
    if (g->owners == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "sum of gradients");
    for (uint32_t leaf = 0; leaf < count; leaf++)
        g->owners[leaf] = leaf % virtual_world % world;
    return spsh__fold_tree_make(g->owners, (uint32_t)count, g->comm->rank, &g->allocator, &g->tree,
                                err);
}

/* Open the host memory and staging of a learner on a device. */
static spsh_status open_stage(spsh__gradient_sum *g, spsh_error *err)
{
    spsh__backend *device = g->learner->backend;
    const uint32_t threads = device->threads > 0 ? device->threads : 1;
    spsh__backend *host = NULL;
    if (device->ops->stream_fn == NULL)
        return SPSH_OK;
    spsh_status rc = spsh__backend_open("cpu", threads, &g->allocator, &host, err);
    if (rc != SPSH_OK)
        return rc;
    g->backend = host;
    g->ops = host->ops;
    rc = spsh__device_stage_open(g->learner, g->range_count, &g->allocator, &g->stage, err);
    if (rc == SPSH_OK)
        rc = device->ops->alloc_fn(device, g->learner->statistics_elements + 1, &g->before, err);
    return rc;
}

/* Return true if messages go to other processes and so move in the background. The comm of an
 * estimate moves no messages: its ops are NULL. */
static bool is_of_processes(const spsh__comm *c)
{
    c = spsh__comm_lowest(c);
    return c->world_size > 1 && c->ops != NULL && c->ops->wait_any_fn != NULL;
}

static spsh_status open_watch(spsh__gradient_sum *g, spsh_error *err)
{
    g->adder = g->backend;
    if (g->comm->world_size == 1 || !is_of_processes(g->comm))
        return SPSH_OK;
    const char *like = g->ops->element_bytes == sizeof(float) ? "cpu" : "reference";
    spsh_status rc = spsh__backend_open(like, 1, &g->allocator, &g->adder, err);
    if (rc != SPSH_OK) {
        g->adder = g->backend;
        return rc;
    }
    return spsh__watch_open(poll_ranges, g, POLL_NS, &g->allocator, &g->watch, err);
}

static void sum_close(void *state)
{
    spsh__gradient_sum *g = state;
    if (g == NULL)
        return;
    spsh_allocator allocator = g->allocator;
    spsh__watch_close(g->watch);
    if (g->adder != g->backend)
        spsh__backend_close(g->adder);
    for (uint32_t i = 0; i < g->range_count; i++)
        close_pending(g, &g->ranges[i].pending);
    close_pending(g, &g->pending);
    for (uint32_t slot = 1; g->slots != NULL && slot < g->tree.slot_count; slot++)
        g->ops->free_fn(g->backend, g->slots[slot]);
    g->ops->free_fn(g->backend, g->receive);
    g->ops->free_fn(g->backend, g->statistics);
    spsh__device_stage_close(g->stage);
    g->learner->backend->ops->free_fn(g->learner->backend, g->before);
    if (g->backend != g->learner->backend)
        spsh__backend_close(g->backend);
    spsh__fold_tree_free(&g->tree);
    spsh__free(&allocator, g->halves);
    spsh__free(&allocator, g->owners);
    spsh__free(&allocator, g->ranges);
    spsh__free(&allocator, g->slots);
    spsh__free(&allocator, g->values);
    spsh__free(&allocator, g->present);
    spsh__free(&allocator, g->rows);
    spsh__free(&allocator, g->packed);
    spsh__free(&allocator, g->squares);
    spsh__free(&allocator, g->packed_squares);
    spsh__free(&allocator, g);
}

static const spsh__sum_ops sum_ops = {
    .align_fn = sum_align,
    .begin_fn = sum_begin,
    .bucket_fn = sum_bucket,
    .skip_fn = sum_skip,
    .end_fn = sum_end,
    .squares_fn = sum_squares,
    .slice_fn = sum_slice,
    .gather_fn = sum_gather,
    .close_fn = sum_close,
};

spsh_status spsh__gradient_sum_open(spsh__learner *learner, bool is_whole,
                                    const spsh_allocator *allocator, spsh__sum *ret,
                                    spsh_error *err)
{
    uint64_t received = 0;
    spsh__gradient_sum *g = spsh__new(allocator, 1, sizeof(*g));
    spsh_status rc = SPSH_OK;
    if (g == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "sum of gradients");
    *g = (spsh__gradient_sum){.allocator = *allocator,
                              .learner = learner,
                              .backend = learner->backend,
                              .ops = learner->backend->ops,
                              .comm = learner->comm,
                              .is_whole = is_whole};
    rc = number_leaves(g, err);
    if (rc != SPSH_OK)
        goto out;
    g->ranges = spsh__new(allocator, (size_t)learner->bucket_count + 1, sizeof(*g->ranges));
    g->range_count = g->ranges == NULL ? 0 : learner->bucket_count + 1;
    rc = g->ranges == NULL ? SPSH_NO_MEMORY(err) : open_stage(g, err);
    if (rc != SPSH_OK)
        goto out;
    if (!lay_out(g, &received) || !take_tables(g)) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "sum of gradients");
        goto out;
    }
    rc = take_buffers(g, received, err);
    if (rc == SPSH_OK)
        rc = open_watch(g, err);
    if (rc != SPSH_OK)
        goto out;
    *ret = (spsh__sum){&sum_ops, g};
    g = NULL;
out:
    sum_close(g);
    return rc;
}
