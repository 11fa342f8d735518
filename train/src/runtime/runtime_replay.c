/* runtime_replay.c: learners in turns, each as far as its record lets it (runtime_replay.h). */
#include "runtime_replay.h"

#include <inttypes.h>

#include "base/fiber.h"
#include "comm/comm_tasks.h"
#include "speechshard/inside.h"

/* Position of a computing task. */
typedef enum actor_state { BEGINS, AT_ENTER, AT_NOTE, AT_WAIT, HAS_ENDED } actor_state;

typedef struct queued_message {
    struct queued_message *next;
    spsh__message message; /* its bytes follow the struct */
} queued_message;

typedef struct actor {
    struct spsh__replay *replay;
    spsh__runtime runtime;
    spsh__comm *comm;
    spsh__fiber *fiber;
    spsh__recorded *marks;
    size_t mark_count, at;
    queued_message *first; /* received messages that were not served yet, in order of arrival */
    bool is_heard[SPSH__SERVICES]; /* the service has or had a listener */
    actor_state state;
    spsh__mark mark;              /* valid if state is AT_ENTER */
    uint64_t noted;               /* valid if state is AT_NOTE: the recorded value */
    bool (*ready_fn)(void *user); /* valid if state is AT_WAIT */
    void *ready_user;
    spsh_status status;
    spsh_error error;
} actor;

struct spsh__replay {
    spsh_allocator allocator;
    actor *learners;
    uint32_t count;
    bool is_over;
    spsh__sim_body_fn body_fn;
    void *body_user;
};

/* ---- the table of runtime.h ---- */

static actor *actor_of(spsh__runtime *t)
{
    return (actor *)t->state;
}

static spsh_status over(const actor *l, spsh_error *err)
{
    return l->replay->is_over ? SPSH_FAIL(err, SPSH_E_CANCELED, "the record has ended") : SPSH_OK;
}

static spsh_status stop_at(actor *l, actor_state where, spsh_error *err)
{
    spsh_status rc = over(l, err);
    if (rc != SPSH_OK)
        return rc;
    l->state = where;
    spsh__fiber_yield(l->fiber);
    return over(l, err);
}

static uint64_t replay_now(spsh__runtime *t)
{
    return actor_of(t)->at;
}

static void replay_compute(spsh__runtime *t, uint64_t duration_ns)
{
    (void)t, (void)duration_ns;
}

static spsh_status replay_post(spsh__runtime *t, uint32_t to, const spsh__message *m,
                               spsh_error *err)
{
    actor *l = actor_of(t);
    spsh_status rc = over(l, err);
    if (rc != SPSH_OK)
        return rc;
    if (to >= t->world_size)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "learner %u does not exist", to);
    queued_message *p = spsh__new(&l->replay->allocator, 1, sizeof(*p) + m->size_bytes);
    if (p == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "a message");
    p->message = *m;
    p->message.from = t->rank;
    p->message.bytes = p + 1;
    if (m->size_bytes > 0)
        memcpy(p + 1, m->bytes, m->size_bytes);
    queued_message **end = &l->replay->learners[to].first;
    while (*end != NULL)
        end = &(*end)->next;
    *end = p;
    return SPSH_OK;
}

/* The record decides when messages are served, so a poll serves none. */
static spsh_status replay_poll(spsh__runtime *t, spsh_error *err)
{
    return over(actor_of(t), err);
}

static spsh_status replay_wait(spsh__runtime *t, const spsh__mark *mark,
                               bool (*ready_fn)(void *user), void *user, uint32_t deadline_ms,
                               spsh_error *err)
{
    actor *l = actor_of(t);
    (void)mark, (void)deadline_ms;
    l->ready_fn = ready_fn;
    l->ready_user = user;
    return stop_at(l, AT_WAIT, err);
}

static spsh_status replay_enter(spsh__runtime *t, const spsh__mark *mark, spsh_error *err)
{
    actor *l = actor_of(t);
    l->mark = *mark;
    return stop_at(l, AT_ENTER, err);
}

static spsh_status replay_note(spsh__runtime *t, uint64_t *value, spsh_error *err)
{
    actor *l = actor_of(t);
    const spsh_status rc = stop_at(l, AT_NOTE, err);
    if (rc == SPSH_OK)
        *value = l->noted;
    return rc;
}

static void replay_listen(spsh__runtime *t, spsh__service service, spsh__serve_fn serve_fn,
                          void *user)
{
    actor *l = actor_of(t);
    l->is_heard[service] = l->is_heard[service] || serve_fn != NULL;
    spsh__runtime_listen(t, service, serve_fn, user);
}

static void replay_nothing(spsh__runtime *t)
{
    (void)t;
}

static const spsh__runtime_ops replay_ops = {
    .name = "replay",
    .now_fn = replay_now,
    .compute_fn = replay_compute,
    .post_fn = replay_post,
    .poll_fn = replay_poll,
    .wait_fn = replay_wait,
    .enter_fn = replay_enter,
    .leave_fn = replay_nothing,
    .note_fn = replay_note,
    .listen_fn = replay_listen,
    .close_fn = replay_nothing,
};

/* ---- the table of comm_tasks.h: its messages have a fixed order and need no record ---- */

static spsh_status comm_send(void *user, uint32_t to, uint32_t tag, const void *bytes,
                             size_t size_bytes, spsh_error *err)
{
    const actor *l = (const actor *)user;
    const spsh_status rc = over(l, err);
    if (rc != SPSH_OK)
        return rc;
    if (spsh__task_comm_deliver(l->replay->learners[to].comm, l->runtime.rank, tag, bytes,
                                size_bytes) != SPSH_OK)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "a message");
    return SPSH_OK;
}

static spsh_status comm_wait(void *user, bool (*ready_fn)(void *user), void *ready_user,
                             uint32_t deadline_ms)
{
    actor *l = (actor *)user;
    (void)deadline_ms;
    l->ready_fn = ready_fn;
    l->ready_user = ready_user;
    return stop_at(l, AT_WAIT, NULL);
}

static uint64_t comm_now(void *user)
{
    const actor *l = (const actor *)user;
    return l->at;
}

static const spsh__task_comm_ops comm_ops = {comm_send, comm_wait, comm_now};

/* ---- mark for mark ---- */

static void let_go(actor *l)
{
    l->state = HAS_ENDED; /* default, unless the task stops elsewhere */
    (void)spsh__fiber_resume(l->fiber);
}

/* Take the message that a mark records as served. NULL: it has not arrived yet. */
static queued_message *take(actor *l, const spsh__recorded *m)
{
    for (queued_message **at = &l->first; *at != NULL; at = &(*at)->next) {
        queued_message *p = *at;
        if (p->message.from == m->from && p->message.kind == m->kind &&
            p->message.part == m->part && p->message.number == m->number) {
            *at = p->next;
            return p;
        }
    }
    return NULL;
}

static spsh_status serve(actor *l, queued_message *p, spsh_error *err)
{
    const bool has_listener = spsh__runtime_has_listener(&l->runtime, &p->message);
    const spsh_status rc =
        has_listener ? spsh__runtime_serve(&l->runtime, &p->message, err) : SPSH_OK;
    spsh__free(&l->replay->allocator, p);
    return rc;
}

static spsh_status fail_mark(const actor *l, spsh_error *err)
{
    const spsh__recorded *m = &l->marks[l->at];
    return SPSH_FAIL(err, SPSH_E_MISMATCH,
                     "learner %" PRIu32
                     " does not follow its record: mark %zu is %u of kind %u, part %" PRIu32
                     ", number %" PRIu64,
                     l->runtime.rank, l->at, m->what, m->kind, m->part, m->number);
}

/* Return true if no mark orders the next action of this computing task: it begins, or its wait is
 * over. */
static bool is_unordered(const actor *l)
{
    return l->state == BEGINS || (l->state == AT_WAIT && l->ready_fn(l->ready_user));
}

/* Let the computing task pass the current mark. *ret stays false if the task is not there yet. */
static spsh_status pass(actor *l, const spsh__recorded *m, bool *ret, spsh_error *err)
{
    const actor_state want = m->what == SPSH__MARK_ENTER ? AT_ENTER : AT_NOTE;
    const spsh__mark *at = &l->mark;
    if (l->state == AT_WAIT)
        return SPSH_OK;
    if (l->state != want || (want == AT_ENTER && (at->kind != m->kind || at->part != m->part ||
                                                  at->number != m->number)))
        return fail_mark(l, err);
    l->noted = m->number;
    l->at++;
    let_go(l);
    *ret = true;
    return SPSH_OK;
}

/* Return true if the service has had a listener. A record has no losses, so the listener existed
 * when the message was served. A computing task that waits in comm.h, which no mark orders, may
 * reach its listen_fn late. The message is then served later. */
static bool is_heard(const actor *l, const spsh__recorded *m)
{
    return l->is_heard[spsh__runtime_service(m->kind)];
}

static spsh_status go_through_one(actor *l, bool *ret, spsh_error *err)
{
    const spsh__recorded *m = &l->marks[l->at];
    if (m->what == SPSH__MARK_ENTER || m->what == SPSH__MARK_NOTE)
        return pass(l, m, ret, err);
    queued_message *p = m->what == SPSH__MARK_SERVE && is_heard(l, m) ? take(l, m) : NULL;
    *ret = p != NULL || m->what == SPSH__MARK_END;
    l->at += *ret;
    return p != NULL ? serve(l, p, err) : SPSH_OK;
}

/* Advance a learner as far as possible. */
static spsh_status go_on(actor *l, bool *ret_has_moved, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    bool moves = true;
    while (rc == SPSH_OK && moves) {
        moves = is_unordered(l);
        if (moves)
            let_go(l);
        else if (l->at < l->mark_count)
            rc = go_through_one(l, &moves, err);
        *ret_has_moved = *ret_has_moved || moves;
    }
    return rc;
}

static void live(void *user)
{
    actor *l = (actor *)user;
    l->status = l->replay->body_fn(l->replay->body_user, l->runtime.rank, &l->error);
}

bool spsh__replay_is_whole(const spsh__replay *replay, uint32_t learner)
{
    const actor *l = &replay->learners[learner];
    return l->mark_count > 0 && l->marks[l->mark_count - 1].what == SPSH__MARK_END;
}

static spsh_status go_through(spsh__replay *replay, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (bool moves = true; rc == SPSH_OK && moves;) {
        moves = false;
        for (uint32_t i = 0; rc == SPSH_OK && i < replay->count; i++)
            rc = go_on(&replay->learners[i], &moves, err);
    }
    for (uint32_t i = 0; i < replay->count; i++)
        if (rc == SPSH_OK && !spsh__replay_is_whole(replay, i))
            return SPSH_OK; /* a record is incomplete, so later marks of the others may be
                               impossible */
    for (uint32_t i = 0; rc == SPSH_OK && i < replay->count; i++)
        if (replay->learners[i].at < replay->learners[i].mark_count)
            rc = fail_mark(&replay->learners[i], err);
    return rc;
}

spsh_status spsh__replay_run(spsh__replay *replay, spsh__sim_body_fn body_fn, void *user,
                             spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    replay->body_fn = body_fn;
    replay->body_user = user;
    for (uint32_t i = 0; rc == SPSH_OK && i < replay->count; i++)
        rc = spsh__fiber_open(&replay->allocator, SPSH__FIBER_RUN_BYTES, live, &replay->learners[i],
                              &replay->learners[i].fiber, err);
    if (rc == SPSH_OK)
        rc = go_through(replay, err);
    replay->is_over = true;
    for (uint32_t i = 0; i < replay->count; i++) {
        actor *l = &replay->learners[i];
        const bool has_ended = l->state == HAS_ENDED;
        if (!has_ended) /* its further work is not part of the run */
            spsh__comm_fail(l->comm);
        while (l->fiber != NULL && l->state != HAS_ENDED)
            let_go(l);
        if (rc == SPSH_OK && has_ended)
            rc = spsh__fail_again(l->status, &l->error, err);
    }
    return rc;
}

/* ---- opening ---- */

spsh_status spsh__replay_open(const spsh__record_options *o, uint32_t learners,
                              spsh__replay **ret_replay, spsh_error *err)
{
    spsh__replay *replay = spsh__new(o->allocator, 1, sizeof(*replay));
    if (replay == NULL)
        return SPSH_NO_MEMORY(err);
    replay->allocator = *o->allocator;
    replay->learners = spsh__new(o->allocator, learners, sizeof(*replay->learners));
    spsh_status rc = replay->learners == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    for (uint32_t i = 0; rc == SPSH_OK && i < learners; i++) {
        actor *l = &replay->learners[i];
        replay->count = i + 1;
        l->replay = replay;
        l->error = (spsh_error)SPSH_ERROR_INIT;
        l->runtime =
            (spsh__runtime){.ops = &replay_ops, .rank = i, .world_size = learners, .state = l};
        rc = spsh__task_comm_open(&comm_ops, l, i, learners, o->allocator, &l->comm, err);
        if (rc == SPSH_OK)
            rc = spsh__record_read(o, i, learners, &l->marks, &l->mark_count, err);
    }
    if (rc != SPSH_OK) {
        spsh__replay_close(replay);
        return rc;
    }
    *ret_replay = replay;
    return SPSH_OK;
}

void spsh__replay_close(spsh__replay *replay)
{
    if (replay == NULL)
        return;
    const spsh_allocator allocator = replay->allocator;
    for (uint32_t i = 0; i < replay->count; i++) {
        actor *l = &replay->learners[i];
        spsh__fiber_close(l->fiber);
        spsh__task_comm_free(l->comm);
        for (queued_message *p = l->first; p != NULL;) {
            queued_message *next = p->next;
            spsh__free(&allocator, p);
            p = next;
        }
        spsh__free(&allocator, l->marks);
    }
    spsh__free(&allocator, replay->learners);
    spsh__free(&allocator, replay);
}

spsh__runtime *spsh__replay_runtime(spsh__replay *replay, uint32_t learner)
{
    return &replay->learners[learner].runtime;
}

spsh__comm *spsh__replay_comm(spsh__replay *replay, uint32_t learner)
{
    return replay->learners[learner].comm;
}
