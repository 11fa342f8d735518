/* runtime_sim.c: events in a heap, ordered by time and number, and one fiber per learner, which
 * only its events resume.
 *
 *     RESUME  a compute_fn is over, or the condition of a wait is true
 *     ALARM   a deadline may be over: checked, and postponed if a later deadline is set
 *     ARRIVE  a message arrives: comm.h's goes to its receive, runtime.h's is served
 *     DIE     a learner is killed while others outlive it: all others get a message of its loss
 */
#include "runtime_sim.h"

#include "base/fiber.h"
#include "comm/comm_tasks.h"
#include "speechshard/inside.h"

#define NEVER        UINT64_MAX
#define END_NS       (UINT64_MAX / 2) /* end of the clock: 292 years */
#define NS_PER_MS    UINT64_C(1000000)
#define NS_PER_S     1e9
#define DEADLINE_MS  UINT32_C(600000)
#define LEARNERS_MAX UINT32_C(4096)

/* A message in flight. Its bytes follow the struct. */
typedef struct sim_message {
    struct sim_message *next;
    uint32_t from, to;
    bool is_comm;
    uint32_t tag; /* tag of a comm.h message */
    spsh__message message;
} sim_message;

typedef struct sim_message_queue {
    sim_message *first, *last;
} message_queue;

/* Full duplex: busy until then. */
typedef struct sim_link {
    uint64_t send_free_ns, receive_free_ns;
} sim_link;

typedef struct sim_learner {
    spsh__sim *sim;
    spsh__runtime runtime;
    spsh__comm *comm;
    spsh__fiber *fiber;
    spsh_status status; /* returned by the learner's function */
    spsh_error error;
    bool is_dead, has_ended;
    bool is_reported; /* its loss was reported to the other learners */
    /* state of a wait */
    bool is_waiting, is_resuming, has_timed_out;
    bool (*ready_fn)(void *user);
    void *ready_user;
    uint64_t deadline_ns, alarm_ns; /* alarm: when an event looks at the deadline; 0: none does */
    /* messages */
    message_queue mail;       /* received messages (runtime.h) that were not served yet */
    spsh_status serve_status; /* failure of serve_fn, which the next call returns */
    spsh_error serve_error;
    uint64_t compute_count;
    sim_link link, node_link;
    uint64_t last_ns, rested_ns; /* arrival of its last message, and of its last message without
                                    time */
    bool is_resting;             /* its messages take no time */
} sim_learner;

typedef enum event_kind { RESUME, ALARM, ARRIVE, DIE } event_kind;

typedef struct event {
    uint64_t time_ns, number;
    event_kind kind;
    sim_learner *learner;
    sim_message *queued_message; /* ARRIVE: the message that arrives */
} event;

struct spsh__sim {
    spsh__sim_options options;
    spsh_allocator allocator;
    sim_learner *learners;
    event *heap; /* earliest first */
    size_t event_count, event_max;
    uint64_t event_number;
    uint64_t now_ns;
    bool is_over, is_out_of_memory;
    spsh__sim_body_fn body_fn;
    void *body_user;
};

/* Return the time takes_ns after from_ns, at most END_NS. */
static uint64_t after_ns(uint64_t from_ns, double takes_ns)
{
    const uint64_t left_ns = from_ns < END_NS ? END_NS - from_ns : 0;
    return from_ns + (takes_ns < (double)left_ns ? (uint64_t)takes_ns : left_ns);
}

/* ---- events ---- */

static bool is_before(const event *a, const event *b)
{
    return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->number < b->number;
}

static bool grow(spsh__sim *sim)
{
    const size_t more = sim->event_max == 0 ? 256 : 2 * sim->event_max;
    event *heap = spsh__enlarge(&sim->allocator, sim->heap, sim->event_count, more, sizeof(*heap));
    if (heap == NULL)
        return false;
    sim->heap = heap;
    sim->event_max = more;
    return true;
}

/* Takes over the message, also after a failure. */
static spsh_status put_event(spsh__sim *sim, const event *e)
{
    if (sim->event_count == sim->event_max && !grow(sim)) {
        spsh__free(&sim->allocator, e->queued_message);
        sim->is_out_of_memory = true;
        return SPSH_E_NO_MEMORY;
    }
    size_t at = sim->event_count++;
    for (; at > 0 && is_before(e, &sim->heap[(at - 1) / 2]); at = (at - 1) / 2)
        sim->heap[at] = sim->heap[(at - 1) / 2];
    sim->heap[at] = *e;
    return SPSH_OK;
}

static spsh_status put(spsh__sim *sim, uint64_t time_ns, event_kind kind, sim_learner *l,
                       sim_message *queued_message)
{
    const event e = {time_ns, sim->event_number++, kind, l, queued_message};
    return put_event(sim, &e);
}

static bool pop(spsh__sim *sim, event *ret)
{
    if (sim->event_count == 0)
        return false;
    *ret = sim->heap[0];
    const event last = sim->heap[--sim->event_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= sim->event_count)
            break;
        if (child + 1 < sim->event_count && is_before(&sim->heap[child + 1], &sim->heap[child]))
            child++;
        if (!is_before(&sim->heap[child], &last))
            break;
        sim->heap[at] = sim->heap[child];
        at = child;
    }
    sim->heap[at] = last;
    return true;
}

/* ---- faults ---- */

static bool is_in(const spsh__sim_fault *f, uint64_t now_ns)
{
    return now_ns >= f->from_ns && (f->to_ns == 0 || now_ns < f->to_ns);
}

static double slowness(const spsh__sim *sim, uint32_t learner)
{
    double factor = 1;
    for (uint32_t i = 0; i < sim->options.fault_count; i++) {
        const spsh__sim_fault *f = &sim->options.faults[i];
        if (f->kind == SPSH__SIM_SLOW && f->learner == learner && is_in(f, sim->now_ns))
            factor *= f->factor;
    }
    return factor;
}

/* Time when events that are due now can run; NEVER for a killed learner. */
static uint64_t thaw_ns(const spsh__sim *sim, uint32_t learner)
{
    for (uint32_t i = 0; i < sim->options.fault_count; i++) {
        const spsh__sim_fault *f = &sim->options.faults[i];
        if (f->learner != learner)
            continue;
        if (f->kind == SPSH__SIM_KILL && sim->now_ns >= f->from_ns)
            return NEVER;
        if (f->kind == SPSH__SIM_FREEZE && is_in(f, sim->now_ns))
            return f->to_ns == 0 ? NEVER : f->to_ns;
    }
    return sim->now_ns;
}

/* ---- messages ---- */

static void push_message(message_queue *queue, sim_message *queued_message)
{
    queued_message->next = NULL;
    if (queue->last != NULL)
        queue->last->next = queued_message;
    else
        queue->first = queued_message;
    queue->last = queued_message;
}

static sim_message *pop_message(message_queue *queue)
{
    sim_message *queued_message = queue->first;
    if (queued_message == NULL)
        return NULL;
    queue->first = queued_message->next;
    if (queue->first == NULL)
        queue->last = NULL;
    return queued_message;
}

static void free_memory(sim_learner *l, void *memory)
{
    spsh__free(&l->sim->allocator, memory);
}

static bool is_one_node(const spsh__sim_options *o, uint32_t a, uint32_t b)
{
    return a == b || (o->node_size > 0 && a / o->node_size == b / o->node_size);
}

/* Number of bytes that a message represents. */
static double counted_bytes(const spsh__sim_options *o, size_t size_bytes)
{
    return (double)size_bytes * (o->scale > 0 && size_bytes > o->small_bytes ? o->scale : 1);
}

/* Arrival time of a message that is sent now. It queues after earlier messages on both links, so
 * that messages between two learners arrive in the order of sending, whatever their sizes. */
static uint64_t link_arrival_ns(spsh__sim *sim, sim_learner *from, uint32_t to, size_t size_bytes)
{
    const spsh__sim_options *o = &sim->options;
    const bool is_near = is_one_node(o, from->runtime.rank, to);
    sim_link *out = is_near ? &from->node_link : &from->link;
    sim_link *in = is_near ? &sim->learners[to].node_link : &sim->learners[to].link;
    const double rate = is_near ? o->node_bytes_per_s : o->bytes_per_s;
    const double takes_ns = rate > 0 ? counted_bytes(o, size_bytes) / rate * NS_PER_S : 0;
    uint64_t begin_ns = out->send_free_ns > sim->now_ns ? out->send_free_ns : sim->now_ns;
    out->send_free_ns = after_ns(begin_ns, takes_ns);
    begin_ns += is_near ? o->node_latency_ns : o->latency_ns;
    if (in->receive_free_ns > begin_ns)
        begin_ns = in->receive_free_ns;
    in->receive_free_ns = after_ns(begin_ns, takes_ns);
    return in->receive_free_ns;
}

/* Arrival time, and never before earlier messages of the sender, even if some take no time. */
static uint64_t arrival_ns(spsh__sim *sim, sim_learner *from, uint32_t to, size_t size_bytes)
{
    uint64_t ns = sim->now_ns;
    if (!from->is_resting)
        ns = link_arrival_ns(sim, from, to, size_bytes);
    if (ns < from->rested_ns)
        ns = from->rested_ns;
    if (from->is_resting)
        from->rested_ns = ns = ns < from->last_ns ? from->last_ns : ns;
    if (from->last_ns < ns)
        from->last_ns = ns;
    return ns;
}

static spsh_status send_queued(sim_learner *from, const sim_message *head, const void *bytes,
                               size_t size_bytes, spsh_error *err)
{
    spsh__sim *sim = from->sim;
    if (sim->is_over)
        return SPSH_FAIL(err, SPSH_E_CANCELED, "the simulation has ended");
    sim_message *queued_message =
        spsh__new(&sim->allocator, 1, sizeof(*queued_message) + size_bytes);
    if (queued_message == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "a message");
    *queued_message = *head;
    if (size_bytes > 0)
        memcpy(queued_message + 1, bytes, size_bytes);
    queued_message->message.from = from->runtime.rank;
    queued_message->message.bytes = queued_message + 1;
    queued_message->message.size_bytes = size_bytes;
    if (!is_one_node(&sim->options, from->runtime.rank, head->to))
        spsh__comm_count(from->comm, (uint64_t)counted_bytes(&sim->options, size_bytes));
    const uint64_t time_ns = arrival_ns(sim, from, head->to, size_bytes);
    if (put(sim, time_ns, ARRIVE, &sim->learners[head->to], queued_message) != SPSH_OK)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "an event");
    return SPSH_OK;
}

/* Serve messages in arrival order. Stop after a failure, or at a message without a listener. The
 * rest stay queued. */
static void serve(sim_learner *l)
{
    sim_message *queued_message = NULL;
    while ((queued_message = l->mail.first) != NULL && l->serve_status == SPSH_OK &&
           spsh__runtime_has_listener(&l->runtime, &queued_message->message)) {
        (void)pop_message(&l->mail);
        l->serve_status =
            spsh__runtime_serve(&l->runtime, &queued_message->message, &l->serve_error);
        free_memory(l, queued_message);
    }
}

/* ---- waiting ---- */

static void poll(sim_learner *l)
{
    if (!l->is_waiting || l->is_resuming)
        return;
    if (l->serve_status == SPSH_OK && l->ready_fn != NULL && !l->ready_fn(l->ready_user))
        return;
    if (l->serve_status == SPSH_OK && l->ready_fn == NULL)
        return;
    l->is_resuming = true;
    (void)put(l->sim, l->sim->now_ns, RESUME, l, NULL);
}

static spsh_status await(sim_learner *l, bool (*ready_fn)(void *user), void *user,
                         uint64_t deadline_ns)
{
    spsh__sim *sim = l->sim;
    if (sim->is_over)
        return SPSH_E_CANCELED;
    if (ready_fn != NULL && ready_fn(user))
        return SPSH_OK;
    l->is_waiting = true;
    l->is_resuming = l->has_timed_out = false;
    l->ready_fn = ready_fn;
    l->ready_user = user;
    l->deadline_ns = deadline_ns;
    if (l->alarm_ns == 0 || l->alarm_ns > deadline_ns) {
        l->alarm_ns = deadline_ns;
        if (put(sim, deadline_ns, ALARM, l, NULL) != SPSH_OK)
            return SPSH_E_NO_MEMORY;
    }
    spsh__fiber_yield(l->fiber);
    l->is_waiting = false;
    if (sim->is_over)
        return SPSH_E_CANCELED;
    return l->has_timed_out ? SPSH_E_TIMEOUT : SPSH_OK;
}

static void let_go(sim_learner *l)
{
    l->is_resuming = false;
    if (!spsh__fiber_resume(l->fiber))
        l->has_ended = true;
}

/* ---- the table of runtime.h ---- */

static sim_learner *learner_of(spsh__runtime *t)
{
    return (sim_learner *)t->state;
}

static uint64_t sim_now(spsh__runtime *t)
{
    return learner_of(t)->sim->now_ns;
}

static void sim_compute(spsh__runtime *t, uint64_t duration_ns)
{
    sim_learner *l = learner_of(t);
    spsh__sim *sim = l->sim;
    if (sim->is_over)
        return;
    const double more =
        1 + sim->options.jitter * spsh__sim_uniform(sim->options.seed, t->rank, l->compute_count++);
    const double ns = (double)duration_ns * slowness(sim, t->rank) * more;
    if (put(sim, after_ns(sim->now_ns, ns), RESUME, l, NULL) == SPSH_OK)
        spsh__fiber_yield(l->fiber);
}

/* Return a failure of serve_fn once. */
static spsh_status serve_failure(sim_learner *l, spsh_error *err)
{
    const spsh_status rc = spsh__fail_again(l->serve_status, &l->serve_error, err);
    l->serve_status = SPSH_OK;
    return rc;
}

static spsh_status sim_post(spsh__runtime *t, uint32_t to, const spsh__message *m, spsh_error *err)
{
    sim_learner *l = learner_of(t);
    const sim_message head = {.to = to, .from = t->rank, .message = *m};
    if (to >= t->world_size)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "learner %u does not exist", to);
    const spsh_status rc = serve_failure(l, err);
    if (rc != SPSH_OK)
        return rc;
    return send_queued(l, &head, m->bytes, m->size_bytes, err);
}

static spsh_status sim_poll(spsh__runtime *t, spsh_error *err)
{
    sim_learner *l = learner_of(t);
    serve(l);
    return serve_failure(l, err);
}

static spsh_status sim_wait(spsh__runtime *t, const spsh__mark *mark, bool (*ready_fn)(void *user),
                            void *user, uint32_t deadline_ms, spsh_error *err)
{
    sim_learner *l = learner_of(t);
    const uint64_t ms = deadline_ms > 0 ? deadline_ms : t->deadline_ms;
    serve(l);
    spsh_status rc = serve_failure(l, err);
    if (rc != SPSH_OK)
        return rc;
    rc = await(l, ready_fn, user, l->sim->now_ns + ms * NS_PER_MS);
    const spsh_status served = serve_failure(l, err);
    if (served != SPSH_OK)
        return served;
    if (rc == SPSH_E_TIMEOUT)
        return SPSH_FAIL(
            err, rc,
            "learner %u waited %llu ms for the others without success (mark %u, number %llu)",
            t->rank, (unsigned long long)ms, mark->kind, (unsigned long long)mark->number);
    return rc == SPSH_OK ? rc : SPSH_FAIL(err, rc, "the simulation has ended");
}

static spsh_status over(const spsh__sim *sim, spsh_error *err)
{
    return sim->is_over ? SPSH_FAIL(err, SPSH_E_CANCELED, "the simulation has ended") : SPSH_OK;
}

static spsh_status sim_enter(spsh__runtime *t, const spsh__mark *mark, spsh_error *err)
{
    (void)mark;
    return over(learner_of(t)->sim, err);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): a replay writes it */
static spsh_status sim_note(spsh__runtime *t, uint64_t *value, spsh_error *err)
{
    (void)value;
    return over(learner_of(t)->sim, err);
}

static void sim_nothing(spsh__runtime *t)
{
    (void)t;
}

static const spsh__runtime_ops sim_ops = {
    .name = "sim",
    .now_fn = sim_now,
    .compute_fn = sim_compute,
    .post_fn = sim_post,
    .poll_fn = sim_poll,
    .wait_fn = sim_wait,
    .enter_fn = sim_enter,
    .leave_fn = sim_nothing,
    .note_fn = sim_note,
    .listen_fn = spsh__runtime_listen,
    .close_fn = sim_nothing,
};

/* ---- advancing the clock ---- */

static void arrive(sim_learner *l, sim_message *queued_message)
{
    if (queued_message->is_comm) {
        const spsh_status rc = spsh__task_comm_deliver(
            l->comm, queued_message->from, queued_message->tag, queued_message->message.bytes,
            queued_message->message.size_bytes);
        l->sim->is_out_of_memory = l->sim->is_out_of_memory || rc != SPSH_OK;
        free_memory(l, queued_message);
    } else {
        push_message(&l->mail, queued_message);
        if (!l->sim->options.serves_itself || l->is_waiting)
            serve(l);
    }
    poll(l);
}

/* Return true if the deadline of a wait has passed. */
static bool is_alarm_due(sim_learner *l, uint64_t time_ns)
{
    if (l->alarm_ns != time_ns)
        return false; /* an earlier alarm replaced this one */
    l->alarm_ns = 0;
    if (!l->is_waiting)
        return false;
    if (l->deadline_ns > time_ns) {
        l->alarm_ns = l->deadline_ns;
        (void)put(l->sim, l->deadline_ns, ALARM, l, NULL);
        return false;
    }
    return !l->is_resuming;
}

/* End the connections of a killed learner: the others get a message of its loss. */
static void die(spsh__sim *sim, sim_learner *l)
{
    l->is_dead = true;
    if (l->is_reported)
        return;
    l->is_reported = true;
    for (uint32_t to = 0; to < sim->options.learners; to++) {
        const sim_message head = {.to = to, .message = {.kind = SPSH__LOST_KIND}};
        if (to != l->runtime.rank)
            (void)send_queued(l, &head, NULL, 0, NULL);
    }
}

static void happen(spsh__sim *sim, const event *e)
{
    sim_learner *l = e->learner;
    const uint64_t before_ns = sim->now_ns;
    sim->now_ns = e->time_ns;
    const uint64_t thaw = thaw_ns(sim, l->runtime.rank);
    if (e->kind == DIE && !l->has_ended) {
        die(sim, l);
    } else if (l->has_ended || thaw == NEVER) {
        l->is_dead = l->is_dead || !l->has_ended;
        spsh__free(&sim->allocator, e->queued_message);
        sim->now_ns = before_ns;     /* the event has no effect */
    } else if (thaw > sim->now_ns) { /* keeps its number, so that messages stay in order */
        const event later = {thaw, e->number, e->kind, l, e->queued_message};
        if (e->kind == ALARM && l->alarm_ns == e->time_ns)
            l->alarm_ns = thaw;
        (void)put_event(sim, &later);
    } else if (e->kind == ARRIVE) {
        arrive(l, e->queued_message);
    } else if (e->kind == RESUME) {
        let_go(l);
    } else if (is_alarm_due(l, e->time_ns)) {
        l->has_timed_out = true;
        let_go(l);
    } else {
        sim->now_ns = before_ns;
    }
}

static void live(void *user)
{
    sim_learner *l = (sim_learner *)user;
    l->status = l->sim->body_fn(l->sim->body_user, l->runtime.rank, &l->error);
}

/* End the run. The learners that have not returned fail: their further work is not part of the
 * run. */
void spsh__sim_end(spsh__sim *sim)
{
    sim->is_over = true;
    for (uint32_t i = 0; i < sim->options.learners; i++)
        if (!sim->learners[i].has_ended)
            spsh__comm_fail(sim->learners[i].comm);
}

void spsh__sim_rest(spsh__sim *sim, uint32_t learner, bool is_resting)
{
    sim->learners[learner].is_resting = is_resting;
}

spsh_status spsh__sim_run(spsh__sim *sim, spsh__sim_body_fn body_fn, void *user, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    event e;
    sim->body_fn = body_fn;
    sim->body_user = user;
    for (uint32_t i = 0; rc == SPSH_OK && i < sim->options.learners; i++) {
        sim_learner *l = &sim->learners[i];
        rc = spsh__fiber_open(&sim->allocator, sim->options.stack_bytes, live, l, &l->fiber, err);
        if (rc == SPSH_OK && put(sim, 0, RESUME, l, NULL) != SPSH_OK)
            rc = SPSH_NO_MEMORY(err);
    }
    for (uint32_t i = 0; rc == SPSH_OK && sim->options.outlives && i < sim->options.fault_count;
         i++) {
        const spsh__sim_fault *f = &sim->options.faults[i];
        if (f->kind == SPSH__SIM_KILL &&
            put(sim, f->from_ns, DIE, &sim->learners[f->learner], NULL) != SPSH_OK)
            rc = SPSH_NO_MEMORY(err);
    }
    while (rc == SPSH_OK && !sim->is_out_of_memory && !sim->is_over && pop(sim, &e))
        happen(sim, &e);
    spsh__sim_end(sim);
    if (rc == SPSH_OK && sim->is_out_of_memory)
        rc = SPSH_NO_MEMORY(err);
    for (uint32_t i = 0; i < sim->options.learners; i++) {
        sim_learner *l = &sim->learners[i];
        const bool was_there = l->has_ended;
        while (l->fiber != NULL && !l->has_ended)
            let_go(l);
        if (rc == SPSH_OK && was_there)
            rc = spsh__fail_again(l->status, &l->error, err);
    }
    return rc;
}

/* ---- the table of comm_tasks.h ---- */

static spsh_status comm_send(void *user, uint32_t to, uint32_t tag, const void *bytes,
                             size_t size_bytes, spsh_error *err)
{
    sim_learner *l = (sim_learner *)user;
    const sim_message head = {.from = l->runtime.rank, .to = to, .is_comm = true, .tag = tag};
    return send_queued(l, &head, bytes, size_bytes, err);
}

static spsh_status comm_wait(void *user, bool (*ready_fn)(void *user), void *ready_user,
                             uint32_t deadline_ms)
{
    sim_learner *l = (sim_learner *)user;
    return await(l, ready_fn, ready_user, l->sim->now_ns + deadline_ms * NS_PER_MS);
}

static uint64_t comm_now(void *user)
{
    const sim_learner *l = (const sim_learner *)user;
    return l->sim->now_ns;
}

static const spsh__task_comm_ops comm_ops = {comm_send, comm_wait, comm_now};

/* ---- opening ---- */

static spsh_status start_learner(spsh__sim *sim, uint32_t number, spsh_error *err)
{
    sim_learner *l = &sim->learners[number];
    l->sim = sim;
    l->runtime = (spsh__runtime){.ops = &sim_ops,
                                 .rank = number,
                                 .world_size = sim->options.learners,
                                 .deadline_ms = sim->options.deadline_ms,
                                 .state = l};
    l->error = l->serve_error = (spsh_error)SPSH_ERROR_INIT;
    const spsh_status rc = spsh__task_comm_open(&comm_ops, l, number, sim->options.learners,
                                                &sim->allocator, &l->comm, err);
    if (rc == SPSH_OK)
        l->comm->deadline_ms = sim->options.deadline_ms;
    return rc;
}

static spsh_status check(const spsh__sim_options *o, spsh_error *err)
{
    if (o->learners == 0 || o->learners > LEARNERS_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%u learners; expected 1 to %u", o->learners,
                         LEARNERS_MAX);
    for (uint32_t i = 0; i < o->fault_count; i++) {
        const spsh__sim_fault *f = &o->faults[i];
        if (f->learner >= o->learners)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                             "learner %u does not exist; the numbers are 0 to %u", f->learner,
                             o->learners - 1);
        if (f->kind == SPSH__SIM_SLOW && !(f->factor > 0))
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                             "learner %u: a slow-down factor must be positive, not %g", f->learner,
                             f->factor);
    }
    return SPSH_OK;
}

spsh_status spsh__sim_open(const spsh__sim_options *options, spsh__sim **ret_sim, spsh_error *err)
{
    const spsh_status rc = check(options, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh_allocator *a = &options->allocator;
    spsh__sim *sim = spsh__new(a, 1, sizeof(*sim));
    if (sim == NULL)
        return SPSH_NO_MEMORY(err);
    sim->options = *options;
    sim->allocator = *a;
    if (sim->options.deadline_ms == 0)
        sim->options.deadline_ms = DEADLINE_MS;
    sim->learners = spsh__new(a, options->learners, sizeof(*sim->learners));
    if (sim->learners == NULL) {
        spsh__sim_close(sim);
        return SPSH_NO_MEMORY(err);
    }
    spsh_status opened = SPSH_OK;
    for (uint32_t i = 0; opened == SPSH_OK && i < options->learners; i++)
        opened = start_learner(sim, i, err);
    if (opened != SPSH_OK) {
        spsh__sim_close(sim);
        return opened;
    }
    *ret_sim = sim;
    return SPSH_OK;
}

static void free_queued(sim_learner *l, message_queue *queue)
{
    sim_message *queued_message = NULL;
    while ((queued_message = pop_message(queue)) != NULL)
        free_memory(l, queued_message);
}

void spsh__sim_close(spsh__sim *sim)
{
    if (sim == NULL)
        return;
    for (uint32_t i = 0; sim->learners != NULL && i < sim->options.learners; i++) {
        sim_learner *l = &sim->learners[i];
        spsh__fiber_close(l->fiber);
        free_queued(l, &l->mail);
        spsh__task_comm_free(l->comm);
    }
    for (size_t i = 0; i < sim->event_count; i++)
        spsh__free(&sim->allocator, sim->heap[i].queued_message);
    spsh__free(&sim->allocator, sim->heap);
    spsh__free(&sim->allocator, sim->learners);
    const spsh_allocator allocator = sim->allocator;
    spsh__free(&allocator, sim);
}

spsh__runtime *spsh__sim_runtime(spsh__sim *sim, uint32_t learner)
{
    return &sim->learners[learner].runtime;
}

spsh__comm *spsh__sim_comm(spsh__sim *sim, uint32_t learner)
{
    return sim->learners[learner].comm;
}

uint64_t spsh__sim_now_ns(const spsh__sim *sim)
{
    return sim->now_ns;
}

uint64_t spsh__sim_sent_bytes(const spsh__sim *sim, uint32_t learner)
{
    return sim->learners[learner].comm->sent_bytes;
}

bool spsh__sim_is_dead(const spsh__sim *sim, uint32_t learner)
{
    return sim->learners[learner].is_dead;
}

/* splitmix64 (Steele, Lea, Flood 2014) of the arguments. */
double spsh__sim_uniform(uint64_t seed, uint64_t a, uint64_t b)
{
    const uint64_t z = seed + (a * UINT64_C(0x100000001b3) + b + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return (double)(spsh__mix64(z) >> 11) * 0x1p-53;
}
