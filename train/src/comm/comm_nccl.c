/* comm_nccl.c: see comm_nccl.h. An NCCL call may continue in the background after it returns: a
 * first call connects to the other ranks. Its work is on the stream only after NCCL reports that
 * the call is done, so spsh__collectives_start polls NCCL until then.
 *
 * NCCL does not know which rank is missing. A rank that timed out sends the number of collectives
 * that it has started to the others, and receives their numbers. Ranks that wait for each other
 * time out at about the same moment, so a rank that does not answer is missing. If no rank is
 * missing, all have started the collective, and a device or the link between two devices hangs.
 *
 * The watchdog. CUDA may wait for all work of a device in any call: cudaFree does, and a launch when
 * a queue of the driver is full. With a collective on a stream and a missing rank, such a call never
 * returns, and nothing here is called. So while collectives are under way, a thread counts its own
 * polls since the last call from here (base/watch.h). After one deadline of polls, it aborts NCCL,
 * which ends the collectives, and so the blocked call. It makes no other call of CUDA, which could
 * wait for the blocked call's locks. Polls are counted, not time: a process that was stopped for
 * some time continues.
 *
 * The lock of the watch guards `state`, so one thread at a time uses NCCL, and the abort comes once.
 * No call of CUDA is made under it, except within NCCL's nonblocking calls. The next call here
 * reports the abort, before results of the aborted collectives can be used.
 */
#include "comm_nccl.h"

#include <stdio.h>

#include "base/watch.h"
#include "speechshard/inside.h"

#define NS_A_MS UINT64_C(1000000)

enum { POLLS = 16 }; /* polls of the watchdog during the deadline */

struct spsh__collectives {
    spsh_allocator allocator;
    spsh__comm *comm;
    spsh__backend *backend;
    const uint64_t *step;
    const spsh__device_nccl_entry *nccl;
    void *library, *state;
    void *stream;
    void *behind, *done; /* events: position of the backend's stream; end of the started
                            collectives */
    const char *what;    /* last collective that was started */
    uint64_t started;    /* number of started collectives; same on all ranks */
    bool is_under_way, has_failed;
    spsh__watch *watch;
    /* under the lock of watch */
    uint64_t called_ns; /* time of the last call before an abort by the watchdog */
    uint32_t polls;     /* polls of the watchdog since the last call */
    bool is_aborted;    /* by the watchdog */
};

/* ---- the watchdog ---- */

/* One poll more than the deadline has: a call that polls here reports first. */
static bool poll_call(void *user)
{
    spsh__collectives *c = user;
    if (++c->polls <= POLLS)
        return true;
    c->nccl->abort_fn(c->state);
    c->is_aborted = true;
    return false;
}

/* Return false if the watchdog has aborted NCCL. */
static bool enter(spsh__collectives *c)
{
    spsh__watch_enter(c->watch);
    c->polls = 0;
    return !c->is_aborted;
}

static void leave(spsh__collectives *c)
{
    if (!c->is_aborted)
        c->called_ns = spsh__now_ns();
    spsh__watch_leave(c->watch, c->is_under_way && c->state != NULL && !c->is_aborted);
}

/* ---- failures ---- */

/* Close NCCL, and end its work on the streams unless all of it is done. */
static void close_state(spsh__collectives *c, bool is_done)
{
    (void)enter(c);
    if (c->state != NULL)
        c->nccl->close_fn(c->state, !is_done);
    c->state = NULL;
    leave(c);
}

/* Abort NCCL at once after a failure. */
static void give_up(spsh__collectives *c)
{
    close_state(c, false);
    c->has_failed = true;
    spsh__comm_fail(c->comm);
}

/* Write "rank 2 is" or "rank 1, 2 is", or "no rank is" if all ranks have started the collective. */
static void name_missing(const spsh__collectives *c, char *text, size_t capacity)
{
    char ranks[64] = "";
    if (!spsh__comm_name_missing(c->comm, c->started, ranks, sizeof(ranks)))
        (void)snprintf(text, capacity, "an unknown rank is");
    else if (ranks[0] == '\0')
        (void)snprintf(text, capacity, "no rank is");
    else
        (void)snprintf(text, capacity, "rank %s is", ranks);
}

static spsh_status fail(spsh__collectives *c, spsh_status rc, const spsh_error *why,
                        uint64_t begin_ns, spsh_error *err)
{
    const bool is_aborted = !enter(c);
    leave(c);
    const double waited_s = (double)(spsh__now_ns() - (is_aborted ? c->called_ns : begin_ns)) / 1e9;
    char missing[80] = "";
    if (rc == SPSH_E_TIMEOUT)
        name_missing(c, missing, sizeof(missing));
    give_up(c);
    if (rc == SPSH_E_TIMEOUT)
        return SPSH_FAIL(err, SPSH_E_TIMEOUT,
                         "%s missing: step %llu, %s%s, waited for %.1f s%s; this is rank %u of %u",
                         missing, (unsigned long long)*c->step, c->what,
                         missing[0] == 'n' ? "; a device or the network hangs" : "", waited_s,
                         is_aborted ? " in a call to the device" : "", c->comm->rank,
                         c->comm->world_size);
    return SPSH_FAIL(err, rc, "step %llu, %s, rank %u of %u: %.140s", (unsigned long long)*c->step,
                     c->what, c->comm->rank, c->comm->world_size, why->message);
}

/* Fail if NCCL has stopped. Every call begins with it. */
static spsh_status check(spsh__collectives *c, spsh_error *err)
{
    if (c->has_failed)
        return SPSH_FAIL(err, SPSH_E_TIMEOUT,
                         "step %llu: NCCL stopped after an earlier failure, in %s",
                         (unsigned long long)*c->step, c->what);
    const bool is_usable = enter(c);
    leave(c);
    return is_usable ? SPSH_OK : fail(c, SPSH_E_TIMEOUT, NULL, 0, err);
}

/* The state of NCCL. After an abort by the watchdog: SPSH_E_TIMEOUT. */
static spsh_status ask(spsh__collectives *c, spsh_error *why)
{
    const spsh_status rc = enter(c) ? c->nccl->state_fn(c->state, why) : SPSH_E_TIMEOUT;
    leave(c);
    return rc;
}

/* Wait until NCCL has no call in progress on the host. */
static spsh_status settle(spsh__collectives *c, spsh_error *err)
{
    const uint64_t begin_ns = spsh__now_ns();
    spsh_error why = SPSH_ERROR_INIT;
    spsh_status rc = ask(c, &why);
    while (rc == SPSH_E_TIMEOUT && spsh__now_ns() - begin_ns < c->comm->deadline_ms * NS_A_MS) {
        spsh__comm_pause(begin_ns);
        rc = ask(c, &why);
    }
    return rc == SPSH_OK ? SPSH_OK : fail(c, rc, &why, begin_ns, err);
}

spsh_status spsh__collectives_behind(spsh__collectives *c, spsh_error *err)
{
    void *compute = c->backend->ops->stream_fn(c->backend);
    spsh_status rc = spsh_cuda_event_record(c->backend->cuda, c->behind, compute, err);
    if (rc == SPSH_OK)
        rc = spsh_cuda_event_wait(c->backend->cuda, c->behind, c->stream, err);
    return rc;
}

spsh_status spsh__collectives_start(spsh__collectives *c, const spsh__collective *collective,
                                    const char *what, spsh_error *err)
{
    spsh_error why = SPSH_ERROR_INIT;
    if (collective->count == 0)
        return SPSH_OK;
    spsh_status rc = check(c, err);
    if (rc != SPSH_OK)
        return rc;
    c->what = what;
    c->started++;
    c->is_under_way = true;
    rc = enter(c) ? c->nccl->start_fn(c->state, collective, c->stream, &why) : SPSH_E_TIMEOUT;
    leave(c);
    return rc != SPSH_OK ? fail(c, rc, &why, spsh__now_ns(), err) : settle(c, err);
}

spsh_status spsh__collectives_join(spsh__collectives *c, spsh_error *err)
{
    void *compute = c->backend->ops->stream_fn(c->backend);
    spsh_status rc = check(c, err);
    if (rc == SPSH_OK)
        rc = spsh_cuda_event_record(c->backend->cuda, c->done, c->stream, err);
    if (rc == SPSH_OK)
        rc = spsh_cuda_event_wait(c->backend->cuda, c->done, compute, err);
    return rc;
}

spsh_status spsh__collectives_wait(spsh__collectives *c, spsh_error *err)
{
    const uint64_t begin_ns = spsh__now_ns();
    spsh_error why = SPSH_ERROR_INIT;
    spsh_status rc = check(c, err);
    if (rc != SPSH_OK || !c->is_under_way)
        return rc;
    for (;;) {
        rc = spsh_cuda_event_query(c->backend->cuda, c->done, &why);
        if (rc == SPSH_OK)
            break;
        if (rc == SPSH_E_TIMEOUT) { /* not done yet: ask NCCL for a failure */
            const spsh_status state = ask(c, &why);
            const bool is_late = spsh__now_ns() - begin_ns >= c->comm->deadline_ms * NS_A_MS;
            if ((state == SPSH_OK || state == SPSH_E_TIMEOUT) && !is_late) {
                spsh__comm_pause(begin_ns);
                continue;
            }
            rc = state == SPSH_OK ? SPSH_E_TIMEOUT : state;
        }
        return fail(c, rc, &why, begin_ns, err);
    }
    rc = check(c, err); /* an aborted collective ends, too */
    (void)enter(c);
    c->is_under_way = false;
    leave(c);
    return rc;
}

/* ---- opening ---- */

/* Facts that each rank sends to all ranks before the first NCCL call. */
enum { FACT_HAS_NCCL, FACT_KEY, FACT_COUNT };

/* Return the same status on all ranks. why: error of this rank if it has no NCCL. */
static spsh_status judge(const spsh__comm *comm, const uint64_t *facts, const spsh_error *why,
                         spsh_error *err)
{
    for (uint32_t r = 0; r < comm->world_size; r++) {
        if (facts[r * FACT_COUNT + FACT_HAS_NCCL] != 0)
            continue;
        return r == comm->rank ? SPSH_FAIL(err, SPSH_E_UNSUPPORTED, "%.200s", why->message)
                               : SPSH_FAIL(err, SPSH_E_UNSUPPORTED, "rank %u cannot use NCCL", r);
    }
    for (uint32_t r = 1; r < comm->world_size; r++)
        for (uint32_t before = 0; before < r; before++)
            if (facts[r * FACT_COUNT + FACT_KEY] == facts[before * FACT_COUNT + FACT_KEY])
                return SPSH_FAIL(err, SPSH_E_UNSUPPORTED,
                                 "ranks %u and %u share a GPU, but NCCL needs one GPU per rank",
                                 before, r);
    return SPSH_OK;
}

static spsh_status agree(spsh__collectives *c, spsh_error *err)
{
    spsh__comm *comm = c->comm;
    spsh_error why = SPSH_ERROR_INIT;
    uint64_t *facts =
        spsh__new(&c->allocator, (size_t)comm->world_size * FACT_COUNT, sizeof(*facts));
    if (facts == NULL)
        return SPSH_NO_MEMORY(err);
    uint64_t *own = facts + (size_t)comm->rank * FACT_COUNT;
    spsh_status rc = c->nccl == NULL ? SPSH_FAIL(&why, SPSH_E_NOT_FOUND,
                                                 "the CUDA plug-in was built without NCCL")
                                     : c->nccl->load_fn(NULL, &c->library, &why);
    if (rc == SPSH_OK)
        rc = c->nccl->key_fn(c->backend->device, &own[FACT_KEY], &why);
    own[FACT_HAS_NCCL] = rc == SPSH_OK;
    rc = spsh__comm_all_reduce(comm, SPSH__COMM_U64, SPSH__COMM_SUM, facts,
                               (size_t)comm->world_size * FACT_COUNT, err);
    if (rc == SPSH_OK)
        rc = judge(comm, facts, &why, err);
    spsh__free(&c->allocator, facts);
    return rc;
}

static spsh_status join_others(spsh__collectives *c, spsh_error *err)
{
    spsh__nccl_plan plan = {.device = c->backend->device,
                            .rank = c->comm->rank,
                            .world_size = c->comm->world_size,
                            .blocks_max = SPSH__NCCL_MULTIPROCESSORS};
    uint8_t message[1 + sizeof(plan.id)] = {0}; /* 1 if there is an ID, and the ID */
    spsh_error why = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    if (plan.rank == 0) {
        rc = c->nccl->id_fn(c->library, &plan.id, &why);
        message[0] = rc == SPSH_OK;
        memcpy(message + 1, &plan.id, sizeof(plan.id));
    }
    rc = spsh__comm_broadcast(c->comm, message, sizeof(message), 0, err);
    if (rc != SPSH_OK)
        return rc;
    if (message[0] == 0)
        return SPSH_FAIL(err, SPSH_E_IO, "rank 0 cannot create an NCCL id: %.180s", why.message);
    memcpy(&plan.id, message + 1, sizeof(plan.id));
    c->what = "connecting the ranks over NCCL";
    rc = c->nccl->open_fn(c->library, &plan, &c->state, &why);
    if (rc != SPSH_OK) {
        c->state = NULL;
        return fail(c, rc, &why, spsh__now_ns(), err);
    }
    return settle(c, err);
}

spsh_status spsh__collectives_open(spsh__comm *comm, spsh__backend *backend, const uint64_t *step,
                                   spsh__collectives **ret, spsh_error *err)
{
    const spsh_cuda *cuda = backend->cuda;
    spsh__collectives *c = spsh__new(&comm->allocator, 1, sizeof(*c));
    spsh__device_nccl_entry_fn *entry = NULL;
    void *symbol = cuda == NULL ? NULL : spsh_cuda_symbol(cuda, SPSH__DEVICE_NCCL_SYMBOL);
    spsh_status rc = SPSH_OK;
    if (c == NULL)
        return SPSH_NO_MEMORY(err);
    *c = (spsh__collectives){
        .allocator = comm->allocator, .comm = comm, .backend = backend, .step = step, .what = ""};
    memcpy(&entry, &symbol, sizeof(entry));
    if (entry != NULL)
        c->nccl = entry();
    rc = agree(c, err);
    if (rc == SPSH_OK)
        rc = spsh_cuda_stream_open(cuda, backend->device, 1, &c->stream, err);
    if (rc == SPSH_OK)
        rc = spsh_cuda_event_open(cuda, backend->device, 0, &c->behind, err);
    if (rc == SPSH_OK)
        rc = spsh_cuda_event_open(cuda, backend->device, 0, &c->done, err);
    if (rc == SPSH_OK)
        rc = spsh__watch_open(poll_call, c, comm->deadline_ms * NS_A_MS / POLLS, &c->allocator,
                              &c->watch, err);
    if (rc == SPSH_OK)
        rc = join_others(c, err);
    if (rc != SPSH_OK) {
        spsh__collectives_close(c);
        return rc;
    }
    spsh__backend_spare(backend, SPSH__NCCL_MULTIPROCESSORS);
    *ret = c;
    return SPSH_OK;
}

uint32_t spsh__collectives_version(const spsh__collectives *c)
{
    return c->nccl->version_fn(c->library);
}

void *spsh__collectives_stream(const spsh__collectives *c)
{
    return c->stream;
}

void spsh__collectives_close(spsh__collectives *c)
{
    if (c == NULL)
        return;
    spsh_allocator allocator = c->allocator;
    const spsh_cuda *cuda = c->backend->cuda;
    if (c->state != NULL && !spsh__comm_has_failed(c->comm)) {
        c->what = "disconnecting from NCCL";
        if (spsh__collectives_wait(c, NULL) == SPSH_OK &&
            c->nccl->finish_fn(c->state, NULL) == SPSH_OK && settle(c, NULL) == SPSH_OK)
            close_state(c, true);
    }
    close_state(c, false);
    spsh__backend_spare(c->backend, 0);
    spsh__watch_close(c->watch);
    spsh_cuda_event_close(cuda, c->behind);
    spsh_cuda_event_close(cuda, c->done);
    spsh_cuda_stream_close(cuda, c->stream);
    if (c->library != NULL)
        c->nccl->unload_fn(c->library);
    spsh__free(&allocator, c);
}
