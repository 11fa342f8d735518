/* lease.c: see lease.h. A learner's part, and its messages to rank 0 (lease_server.h).
 *
 *     requested --GIVEN--> in hand --take--> taken --acknowledge--> done
 *         |
 *         +--NO_MORE--> nothing: the round is over once no lease is in hand or taken
 *
 * State changes only under the lock, by messages or after a mark.
 */
#include "lease.h"

#include <inttypes.h>

#include "base/double_bits.h"
#include "lease_server.h"
#include "speechshard/inside.h"

/* Marks of the computing task (runtime.h). */
enum {
    MARK_TAKE = SPSH__LEASE_KIND,
    MARK_ACKNOWLEDGE,
    MARK_MEET,
    MARK_PLACE,
    MARK_BEGIN,
    MARK_PAUSE,
    MARK_TOTALS,
    MARK_STATE,
};

struct spsh__leases {
    spsh__runtime *runtime;
    spsh_allocator allocator;
    spsh__lease_server *server; /* on rank 0; else NULL */
    uint32_t each;              /* maximum number of leases: in hand, taken, and requested */
    /* under the lock */
    spsh__lease *hand; /* ring of `each` leases that arrived and were not taken */
    uint32_t hand_first, hand_count;
    uint32_t asked_count; /* requests without an answer */
    uint64_t *taken;      /* numbers of taken leases */
    uint32_t taken_count;
    uint64_t round;
    bool has_no_more; /* no more leases in this round */
    bool has_met;
    uint8_t *met; /* if has_met: the state, spsh__lease_met_bytes */
};

/* ---- messages ---- */

static spsh_status take_given(spsh__leases *l, const spsh__message *m)
{
    const uint8_t *bytes = (const uint8_t *)m->bytes;
    l->hand[(l->hand_first + l->hand_count++) % l->each] =
        (spsh__lease){.number = m->number,
                      .epoch = spsh__load_u64le(bytes),
                      .step = spsh__load_u64le(bytes + 8),
                      .samples = spsh__load_u64le(bytes + 16),
                      .updates = spsh__load_u64le(bytes + 24)};
    l->asked_count--;
    return SPSH_OK;
}

static spsh_status serve_answer(spsh__leases *l, const spsh__message *m, spsh_error *err)
{
    if (m->kind == SPSH__LEASE_GIVEN && m->size_bytes == SPSH__LEASE_GIVEN_BYTES &&
        l->asked_count > 0)
        return take_given(l, m);
    if (m->kind == SPSH__LEASE_NO_MORE && l->asked_count > 0 && m->number == l->round) {
        l->asked_count--;
        l->has_no_more = true;
        return SPSH_OK;
    }
    if (m->kind == SPSH__LEASE_MET &&
        m->size_bytes == spsh__lease_met_bytes(l->runtime->world_size) && !l->has_met &&
        m->number + 1 == l->round) {
        memcpy(l->met, m->bytes, m->size_bytes);
        l->has_met = true;
        return SPSH_OK;
    }
    return SPSH_FAIL(err, SPSH_E_MISMATCH,
                     "learner %" PRIu32
                     " received an answer about leases that it did not request (kind %" PRIu32
                     ", number %" PRIu64 ", round %" PRIu64 ")",
                     l->runtime->rank, m->kind, m->number, l->round);
}

/* Handle the loss of a rank, which the runtime reported. */
static spsh_status lose(const spsh__leases *l, uint32_t rank, spsh_error *err)
{
    if (rank == 0)
        return SPSH_FAIL(err, SPSH_E_TIMEOUT,
                         "rank 0, which grants the leases, disconnected: the run cannot continue");
    return l->server != NULL ? spsh__lease_server_lose(l->server, rank, err) : SPSH_OK;
}

static spsh_status serve(void *user, const spsh__message *m, spsh_error *err)
{
    spsh__leases *l = (spsh__leases *)user;
    if (m->kind == SPSH__LOST_KIND)
        return lose(l, m->from, err);
    if (m->kind >= SPSH__LEASE_GIVEN && m->from == 0)
        return serve_answer(l, m, err);
    if (l->server != NULL)
        return spsh__lease_server_serve(l->server, m, err);
    return SPSH_FAIL(err, SPSH_E_MISMATCH,
                     "learner %" PRIu32
                     " received a request for leases, but only rank 0 grants them",
                     l->runtime->rank);
}

static spsh_status enter(const spsh__leases *l, uint32_t kind, uint64_t number, spsh_error *err)
{
    const spsh__mark mark = {kind, 0, number};
    return l->runtime->ops->enter_fn(l->runtime, &mark, err);
}

static void leave(const spsh__leases *l)
{
    l->runtime->ops->leave_fn(l->runtime);
}

/* ---- taking ---- */

/* Result of one pass under the lock. */
typedef struct turn {
    spsh__lease_taken taken;
    spsh__lease lease;
    uint32_t asks; /* number of requests to post */
    uint64_t round;
    bool has_none_to_come;
} turn;

/* Call with the lock held. */
static void take_turn(spsh__leases *l, turn *t)
{
    t->taken = SPSH__LEASE_NONE;
    t->round = l->round;
    if (l->hand_count > 0) {
        t->lease = l->hand[l->hand_first];
        t->taken = SPSH__LEASE_TAKEN;
        l->hand_first = (l->hand_first + 1) % l->each;
        l->hand_count--;
        l->taken[l->taken_count++] = t->lease.number;
    }
    t->asks = l->has_no_more ? 0 : l->each - l->hand_count - l->taken_count - l->asked_count;
    l->asked_count += t->asks;
    t->has_none_to_come = l->hand_count == 0 && l->asked_count == 0;
    if (l->has_no_more && t->has_none_to_come && l->taken_count == 0) {
        t->taken = SPSH__LEASE_PAUSE;
        l->has_no_more = false;
        l->round++;
    }
}

static spsh_status post_asks(const spsh__leases *l, const turn *t, spsh_error *err)
{
    const spsh__message ask = {.kind = SPSH__LEASE_ASK, .number = t->round};
    const spsh__message paused = {.kind = SPSH__LEASE_PAUSED, .number = t->round};
    spsh_status rc = SPSH_OK;
    for (uint32_t i = 0; rc == SPSH_OK && i < t->asks; i++)
        rc = l->runtime->ops->post_fn(l->runtime, 0, &ask, err);
    if (rc == SPSH_OK && t->taken == SPSH__LEASE_PAUSE)
        rc = l->runtime->ops->post_fn(l->runtime, 0, &paused, err);
    return rc;
}

static bool has_answer(void *user)
{
    const spsh__leases *l = (const spsh__leases *)user;
    return l->hand_count > 0 || l->asked_count == 0;
}

spsh_status spsh__leases_take(spsh__leases *l, bool may_wait, spsh__lease *ret_lease,
                              spsh__lease_taken *ret_taken, spsh_error *err)
{
    for (;;) {
        turn t = {.taken = SPSH__LEASE_NONE};
        spsh_status rc = enter(l, MARK_TAKE, l->taken_count, err);
        if (rc != SPSH_OK)
            return rc;
        take_turn(l, &t);
        leave(l);
        rc = post_asks(l, &t, err);
        if (rc != SPSH_OK)
            return rc;
        if (t.taken != SPSH__LEASE_NONE || !may_wait) {
            if (t.taken == SPSH__LEASE_TAKEN)
                *ret_lease = t.lease;
            *ret_taken = t.taken;
            return SPSH_OK;
        }
        if (t.has_none_to_come)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                             "no lease will come until one of the taken leases is acknowledged");
        const spsh__mark mark = {MARK_TAKE, 1, t.round};
        rc = l->runtime->ops->wait_fn(l->runtime, &mark, has_answer, l, 0, err);
        if (rc != SPSH_OK)
            return rc;
    }
}

/* Call with the lock held. */
static bool forget(spsh__leases *l, uint64_t number)
{
    for (uint32_t i = 0; i < l->taken_count; i++)
        if (l->taken[i] == number) {
            l->taken[i] = l->taken[--l->taken_count];
            return true;
        }
    return false;
}

spsh_status spsh__leases_acknowledge(spsh__leases *l, const spsh__lease_done *done, spsh_error *err)
{
    uint8_t bytes[SPSH__LEASE_ACKNOWLEDGE_BYTES_MAX];
    if (done->row_count > SPSH__LEASE_NUMBERS_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "a row of %" PRIu32 " numbers is too long",
                         done->row_count);
    const spsh_status rc = enter(l, MARK_ACKNOWLEDGE, done->number, err);
    if (rc != SPSH_OK)
        return rc;
    const bool is_ours = forget(l, done->number);
    leave(l);
    if (!is_ours)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "this learner does not hold lease %" PRIu64,
                         done->number);
    spsh__store_u64le(bytes, done->samples);
    for (uint32_t i = 0; i < done->row_count; i++)
        spsh__store_u64le(bytes + SPSH__LEASE_ROW_BYTES + (size_t)8 * i,
                          spsh__bits_of_double(done->row[i]));
    const spsh__message m = {.kind = SPSH__LEASE_ACKNOWLEDGE,
                             .part = done->reasons,
                             .number = done->number,
                             .bytes = bytes,
                             .size_bytes = SPSH__LEASE_ROW_BYTES + (size_t)8 * done->row_count};
    return l->runtime->ops->post_fn(l->runtime, 0, &m, err);
}

/* ---- the pause ---- */

static bool has_met(void *user)
{
    const spsh__leases *l = (const spsh__leases *)user;
    return l->server != NULL ? spsh__lease_server_has_met(l->server) : l->has_met;
}

spsh_status spsh__leases_meet(spsh__leases *l, spsh__lease_state *ret_state, spsh_error *err)
{
    const spsh__mark mark = {MARK_MEET, 1, 0};
    spsh_status rc = l->runtime->ops->wait_fn(l->runtime, &mark, has_met, l, 0, err);
    if (rc == SPSH_OK)
        rc = enter(l, MARK_MEET, 0, err);
    if (rc != SPSH_OK)
        return rc;
    if (l->server != NULL) {
        rc = spsh__lease_server_end(l->server, ret_state, l->met, err);
    } else {
        *ret_state = spsh__lease_state_load(l->met);
        l->has_met = false;
    }
    leave(l);
    return rc;
}

bool spsh__leases_is_lost(const spsh__leases *l, uint32_t rank)
{
    return (l->met[SPSH__LEASE_STATE_BYTES + rank / 8] >> rank % 8 & 1) != 0;
}

/* ---- rank 0 ---- */

/* Take the lock on rank 0. SPSH_OK: the lock is held. */
static spsh_status enter_server(const spsh__leases *l, uint32_t kind, spsh_error *err)
{
    if (l->server == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "rank %" PRIu32 " does not grant leases; only rank 0 does",
                         l->runtime->rank);
    return enter(l, kind, 0, err);
}

spsh_status spsh__leases_place(spsh__leases *l, uint64_t epoch, uint64_t step, uint64_t steps,
                               spsh_error *err)
{
    spsh_status rc = enter_server(l, MARK_PLACE, err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh__lease_server_place(l->server, epoch, step, steps, err);
    leave(l);
    return rc;
}

spsh_status spsh__leases_begin(spsh__leases *l, const spsh__lease_round *round, spsh_error *err)
{
    spsh_status rc = enter_server(l, MARK_BEGIN, err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh__lease_server_begin(l->server, round, err);
    leave(l);
    return rc;
}

spsh_status spsh__leases_pause(spsh__leases *l, uint32_t reasons, spsh_error *err)
{
    spsh_status rc = enter_server(l, MARK_PAUSE, err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh__lease_server_pause(l->server, reasons, err);
    leave(l);
    return rc;
}

spsh_status spsh__leases_totals(spsh__leases *l, double *totals, uint32_t count,
                                uint64_t *ret_updates, spsh_error *err)
{
    const spsh_status rc = enter_server(l, MARK_TOTALS, err);
    if (rc != SPSH_OK)
        return rc;
    *ret_updates = spsh__lease_server_totals(l->server, totals, count);
    leave(l);
    return SPSH_OK;
}

spsh_status spsh__leases_state(spsh__leases *l, spsh__lease_state *ret_state, spsh_error *err)
{
    const spsh_status rc = enter_server(l, MARK_STATE, err);
    if (rc != SPSH_OK)
        return rc;
    *ret_state = spsh__lease_server_state(l->server);
    leave(l);
    return SPSH_OK;
}

/* ---- open and close ---- */

spsh_status spsh__leases_open(spsh__runtime *runtime, const spsh_allocator *allocator,
                              uint32_t ahead, spsh__leases **ret_leases, spsh_error *err)
{
    if (ahead > SPSH__LEASE_AHEAD_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "%" PRIu32 " leases ahead exceed the limit of %" PRIu32, ahead,
                         SPSH__LEASE_AHEAD_MAX);
    spsh__leases *l = spsh__new(allocator, 1, sizeof(*l));
    if (l == NULL)
        return SPSH_NO_MEMORY(err);
    l->runtime = runtime;
    l->allocator = *allocator;
    l->each = ahead + 1;
    l->round = 1;
    l->hand = spsh__new(allocator, l->each, sizeof(*l->hand));
    l->taken = spsh__new(allocator, l->each, sizeof(*l->taken));
    l->met = spsh__new(allocator, spsh__lease_met_bytes(runtime->world_size), 1);
    spsh_status rc =
        l->hand == NULL || l->taken == NULL || l->met == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    if (rc == SPSH_OK && runtime->rank == 0)
        rc = spsh__lease_server_open(runtime, allocator, l->each, &l->server, err);
    if (rc != SPSH_OK) {
        spsh__lease_server_close(l->server);
        spsh__free(allocator, l->hand);
        spsh__free(allocator, l->taken);
        spsh__free(allocator, l->met);
        spsh__free(allocator, l);
        return rc;
    }
    runtime->ops->listen_fn(runtime, SPSH__SERVICE_LEASES, serve, l);
    *ret_leases = l;
    return SPSH_OK;
}

void spsh__leases_close(spsh__leases *l)
{
    if (l == NULL)
        return;
    const spsh_allocator allocator = l->allocator;
    l->runtime->ops->listen_fn(l->runtime, SPSH__SERVICE_LEASES, NULL, NULL);
    spsh__lease_server_close(l->server);
    spsh__free(&allocator, l->hand);
    spsh__free(&allocator, l->taken);
    spsh__free(&allocator, l->met);
    spsh__free(&allocator, l);
}
