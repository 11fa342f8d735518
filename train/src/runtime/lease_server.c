/* lease_server.c: see lease_server.h.
 *
 * A request is answered at once, except for a round that has not begun, or if the outstanding
 * leases may reach the round's samples. Such a request stays in the list of requests, in order of
 * arrival. Every change of state processes that list again. While a request is held because of
 * samples, some lease is outstanding. Its end, acknowledged or lost, is such a change, so no
 * request is held forever.
 *
 * Each step of the epoch is in one place: not given yet (next_step and above), outstanding, in
 * `returned`, or acknowledged. The outstanding leases are found through the learner. `returned` is
 * sorted.
 */
#include "lease_server.h"

#include <inttypes.h>

#include "base/double_bits.h"
#include "speechshard/inside.h"

typedef struct given {
    uint64_t number, step;
} given;

typedef struct client {
    given *out; /* outstanding leases, at most `each` */
    uint32_t out_count;
    bool is_lost, is_paused;
} client;

typedef struct ask {
    uint32_t rank;
    uint64_t round;
} ask;

struct spsh__lease_server {
    spsh__runtime *runtime;
    spsh_allocator allocator;
    uint32_t each;
    client *clients;
    given *out_memory;
    ask *asks; /* requests without an answer */
    uint32_t ask_count;
    uint64_t *returned; /* steps, ascending */
    uint32_t returned_count;
    uint64_t epoch, next_step, steps;
    uint64_t samples, updates;
    uint64_t given_count; /* leases given in this run: number of the next lease */
    uint32_t out_count;   /* outstanding leases of all learners */
    bool has_place, is_open;
    uint64_t round;
    spsh__lease_round bounds;
    uint32_t reasons; /* requested reasons for a pause */
    uint32_t lost_count, paused_count;
    double totals[SPSH__LEASE_NUMBERS_MAX];
    uint32_t total_count; /* numbers per row; 0: no row has arrived */
    uint64_t total_updates;
};

/* ---- bytes ---- */

static void store_state(uint8_t *bytes, const spsh__lease_state *state)
{
    const uint64_t values[5] = {state->epoch, state->step, state->steps, state->samples,
                                state->updates};
    for (size_t i = 0; i < 5; i++)
        spsh__store_u64le(bytes + 8 * i, values[i]);
    spsh__store_u32le(bytes + 40, state->reasons);
    spsh__store_u32le(bytes + 44, state->returned);
    spsh__store_u32le(bytes + 48, state->learners);
}

spsh__lease_state spsh__lease_state_load(const uint8_t *bytes)
{
    return (spsh__lease_state){.epoch = spsh__load_u64le(bytes),
                               .step = spsh__load_u64le(bytes + 8),
                               .steps = spsh__load_u64le(bytes + 16),
                               .samples = spsh__load_u64le(bytes + 24),
                               .updates = spsh__load_u64le(bytes + 32),
                               .reasons = spsh__load_u32le(bytes + 40),
                               .returned = spsh__load_u32le(bytes + 44),
                               .learners = spsh__load_u32le(bytes + 48)};
}

/* ---- answers ---- */

static uint32_t reasons_of(const spsh__lease_server *s)
{
    uint32_t reasons = s->reasons;
    if (s->returned_count == 0 && s->next_step == s->steps)
        reasons |= SPSH__PAUSE_EPOCH;
    if (s->bounds.samples_max > 0 && s->samples >= s->bounds.samples_max)
        reasons |= SPSH__PAUSE_SAMPLES;
    if (s->bounds.updates_max > 0 && s->updates + s->out_count >= s->bounds.updates_max)
        reasons |= SPSH__PAUSE_UPDATES;
    return reasons;
}

/* Return true if the outstanding leases would not reach the round's samples. */
static bool has_samples_left(const spsh__lease_server *s)
{
    if (!s->bounds.holds_back || s->bounds.samples_max == 0 || s->out_count == 0)
        return true;
    const double mean =
        s->updates > 0 ? (double)s->samples / (double)s->updates : s->bounds.samples_mean;
    return (double)s->samples + mean * s->out_count < (double)s->bounds.samples_max;
}

static spsh_status give(spsh__lease_server *s, uint32_t rank, spsh_error *err)
{
    client *c = &s->clients[rank];
    uint8_t bytes[SPSH__LEASE_GIVEN_BYTES];
    given *g = &c->out[c->out_count++];
    g->number = s->given_count++;
    if (s->returned_count > 0) {
        g->step = s->returned[0];
        s->returned_count--;
        memmove(s->returned, s->returned + 1, s->returned_count * sizeof(*s->returned));
    } else {
        g->step = s->next_step++;
    }
    s->out_count++;
    spsh__store_u64le(bytes, s->epoch);
    spsh__store_u64le(bytes + 8, g->step);
    spsh__store_u64le(bytes + 16, s->samples);
    spsh__store_u64le(bytes + 24, s->updates);
    const spsh__message m = {.kind = SPSH__LEASE_GIVEN,
                             .number = g->number,
                             .bytes = bytes,
                             .size_bytes = sizeof(bytes)};
    return s->runtime->ops->post_fn(s->runtime, rank, &m, err);
}

/* Answer a request. *ret_is_held: it must wait. */
static spsh_status answer(spsh__lease_server *s, const ask *a, bool *ret_is_held, spsh_error *err)
{
    const uint32_t reasons = reasons_of(s);
    const spsh__message pause = {.kind = SPSH__LEASE_NO_MORE, .number = s->round, .part = reasons};
    *ret_is_held = !s->is_open || a->round != s->round;
    if (*ret_is_held)
        return SPSH_OK;
    if (reasons != 0)
        return s->runtime->ops->post_fn(s->runtime, a->rank, &pause, err);
    *ret_is_held = !has_samples_left(s);
    return *ret_is_held ? SPSH_OK : give(s, a->rank, err);
}

static spsh_status answer_all(spsh__lease_server *s, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->ask_count; i++) {
        const ask a = s->asks[i];
        bool is_held = true;
        if (s->clients[a.rank].is_lost)
            continue;
        if (rc == SPSH_OK)
            rc = answer(s, &a, &is_held, err);
        if (is_held)
            s->asks[kept++] = a;
    }
    s->ask_count = kept;
    return rc;
}

/* ---- messages ---- */

static spsh_status fail_message(const spsh__message *m, const char *what, spsh_error *err)
{
    return SPSH_FAIL(err, SPSH_E_MISMATCH,
                     "learner %" PRIu32 " sent %s (kind %" PRIu32 ", number %" PRIu64
                     "); do all ranks run the same program?",
                     m->from, what, m->kind, m->number);
}

static spsh_status take_ask(spsh__lease_server *s, const spsh__message *m, spsh_error *err)
{
    const client *c = &s->clients[m->from];
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < s->ask_count; i++)
        waiting += s->asks[i].rank == m->from;
    if (c->out_count + waiting >= s->each || m->number < s->round || m->number > s->round + 1)
        return fail_message(m, "a request that does not belong to this round", err);
    s->asks[s->ask_count++] = (ask){m->from, m->number};
    return answer_all(s, err);
}

static void add_row(spsh__lease_server *s, const uint8_t *row, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        s->totals[i] += spsh__double_of_bits(spsh__load_u64le(row + (size_t)8 * i));
    s->total_count = count;
    s->total_updates++;
}

static spsh_status take_acknowledgement(spsh__lease_server *s, const spsh__message *m,
                                        spsh_error *err)
{
    client *c = &s->clients[m->from];
    const uint8_t *bytes = (const uint8_t *)m->bytes;
    uint32_t at = 0;
    while (at < c->out_count && c->out[at].number != m->number)
        at++;
    if (at == c->out_count)
        return fail_message(m, "an acknowledgment of a lease that it does not hold", err);
    if (m->size_bytes < SPSH__LEASE_ROW_BYTES || m->size_bytes % 8 != 0 ||
        m->size_bytes > SPSH__LEASE_ACKNOWLEDGE_BYTES_MAX)
        return fail_message(m, "an acknowledgment of the wrong size", err);
    const uint32_t count = (uint32_t)(m->size_bytes - SPSH__LEASE_ROW_BYTES) / 8;
    if (s->total_updates > 0 && count != s->total_count)
        return fail_message(m, "a row of the wrong length", err);
    c->out[at] = c->out[--c->out_count];
    s->out_count--;
    s->updates++;
    s->samples += spsh__load_u64le(bytes);
    s->reasons |= m->part;
    add_row(s, bytes + SPSH__LEASE_ROW_BYTES, count);
    return answer_all(s, err);
}

static spsh_status take_paused(spsh__lease_server *s, const spsh__message *m, spsh_error *err)
{
    client *c = &s->clients[m->from];
    if (c->is_paused || c->out_count > 0 || m->number != s->round)
        return fail_message(m, "a message that it has paused, although it has not", err);
    c->is_paused = true;
    s->paused_count++;
    return SPSH_OK;
}

static void put_back(spsh__lease_server *s, uint64_t step)
{
    uint32_t at = s->returned_count++;
    for (; at > 0 && s->returned[at - 1] > step; at--)
        s->returned[at] = s->returned[at - 1];
    s->returned[at] = step;
}

static spsh_status take_lost(spsh__lease_server *s, const spsh__message *m, spsh_error *err)
{
    if (m->part == 0 || m->part >= s->runtime->world_size)
        return fail_message(m, "a message that a nonexistent rank is lost", err);
    return spsh__lease_server_lose(s, m->part, err);
}

spsh_status spsh__lease_server_lose(spsh__lease_server *s, uint32_t rank, spsh_error *err)
{
    client *c = &s->clients[rank];
    if (c->is_lost)
        return SPSH_OK;
    c->is_lost = true;
    s->lost_count++;
    s->paused_count -= c->is_paused;
    c->is_paused = false;
    s->out_count -= c->out_count;
    while (c->out_count > 0)
        put_back(s, c->out[--c->out_count].step);
    return answer_all(s, err);
}

spsh_status spsh__lease_server_serve(spsh__lease_server *s, const spsh__message *m, spsh_error *err)
{
    if (m->kind == SPSH__LEASE_LOST)
        return take_lost(s, m, err);
    if (s->clients[m->from].is_lost)
        return SPSH_OK;
    switch (m->kind) {
    case SPSH__LEASE_ASK: return take_ask(s, m, err);
    case SPSH__LEASE_ACKNOWLEDGE: return take_acknowledgement(s, m, err);
    case SPSH__LEASE_PAUSED: return take_paused(s, m, err);
    default: return fail_message(m, "a message of an unknown kind", err);
    }
}

/* ---- rounds ---- */

spsh_status spsh__lease_server_place(spsh__lease_server *s, uint64_t epoch, uint64_t step,
                                     uint64_t steps, spsh_error *err)
{
    if (s->is_open)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "a round is in progress");
    if (step > steps)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "step %" PRIu64 " exceeds the epoch, which has %" PRIu64 " steps", step,
                         steps);
    s->epoch = epoch;
    s->next_step = step;
    s->steps = steps;
    s->returned_count = 0;
    s->has_place = true;
    return SPSH_OK;
}

spsh_status spsh__lease_server_begin(spsh__lease_server *s, const spsh__lease_round *round,
                                     spsh_error *err)
{
    if (s->is_open || !s->has_place)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s",
                         s->is_open ? "a round is in progress"
                                    : "the start position of the round was not set");
    s->bounds = round != NULL ? *round : (spsh__lease_round){.samples_max = 0};
    s->round++;
    s->is_open = true;
    return answer_all(s, err);
}

spsh_status spsh__lease_server_pause(spsh__lease_server *s, uint32_t reasons, spsh_error *err)
{
    s->reasons |= reasons;
    return answer_all(s, err);
}

bool spsh__lease_server_has_met(const spsh__lease_server *s)
{
    return s->is_open && s->paused_count == s->runtime->world_size - s->lost_count;
}

spsh_status spsh__lease_server_end(spsh__lease_server *s, spsh__lease_state *ret_state,
                                   uint8_t *bytes, spsh_error *err)
{
    const size_t size = spsh__lease_met_bytes(s->runtime->world_size);
    const spsh__message m = {
        .kind = SPSH__LEASE_MET, .number = s->round, .bytes = bytes, .size_bytes = size};
    const spsh__lease_state state = spsh__lease_server_state(s);
    spsh_status rc = SPSH_OK;
    memset(bytes, 0, size);
    store_state(bytes, &state);
    for (uint32_t r = 0; r < s->runtime->world_size; r++)
        if (s->clients[r].is_lost)
            bytes[SPSH__LEASE_STATE_BYTES + r / 8] |= (uint8_t)(1u << r % 8);
    s->is_open = false;
    s->paused_count = 0;
    s->reasons = 0;
    for (uint32_t r = 0; rc == SPSH_OK && r < s->runtime->world_size; r++) {
        s->clients[r].is_paused = false;
        if (!s->clients[r].is_lost && r != s->runtime->rank)
            rc = s->runtime->ops->post_fn(s->runtime, r, &m, err);
    }
    *ret_state = state;
    return rc;
}

spsh__lease_state spsh__lease_server_state(const spsh__lease_server *s)
{
    return (spsh__lease_state){.epoch = s->epoch,
                               .step = s->next_step,
                               .steps = s->steps,
                               .samples = s->samples,
                               .updates = s->updates,
                               .reasons = reasons_of(s),
                               .returned = s->returned_count,
                               .learners = s->runtime->world_size - s->lost_count};
}

uint64_t spsh__lease_server_totals(spsh__lease_server *s, double *totals, uint32_t count)
{
    const uint64_t updates = s->total_updates;
    for (uint32_t i = 0; i < count; i++)
        totals[i] = i < SPSH__LEASE_NUMBERS_MAX ? s->totals[i] : 0;
    memset(s->totals, 0, sizeof(s->totals));
    s->total_updates = 0;
    return updates;
}

/* ---- open and close ---- */

spsh_status spsh__lease_server_open(spsh__runtime *runtime, const spsh_allocator *allocator,
                                    uint32_t each, spsh__lease_server **ret_server, spsh_error *err)
{
    const size_t all = (size_t)runtime->world_size * each;
    spsh__lease_server *s = spsh__new(allocator, 1, sizeof(*s));
    if (s == NULL)
        return SPSH_NO_MEMORY(err);
    s->runtime = runtime;
    s->allocator = *allocator;
    s->each = each;
    s->clients = spsh__new(allocator, runtime->world_size, sizeof(*s->clients));
    s->out_memory = spsh__new(allocator, all, sizeof(*s->out_memory));
    s->asks = spsh__new(allocator, all, sizeof(*s->asks));
    s->returned = spsh__new(allocator, all, sizeof(*s->returned));
    if (s->clients == NULL || s->out_memory == NULL || s->asks == NULL || s->returned == NULL) {
        spsh__lease_server_close(s);
        return SPSH_NO_MEMORY(err);
    }
    for (uint32_t r = 0; r < runtime->world_size; r++)
        s->clients[r].out = s->out_memory + (size_t)r * each;
    *ret_server = s;
    return SPSH_OK;
}

void spsh__lease_server_close(spsh__lease_server *s)
{
    if (s == NULL)
        return;
    const spsh_allocator allocator = s->allocator;
    spsh__free(&allocator, s->clients);
    spsh__free(&allocator, s->out_memory);
    spsh__free(&allocator, s->asks);
    spsh__free(&allocator, s->returned);
    spsh__free(&allocator, s);
}
