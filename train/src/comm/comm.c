/* comm.c: opening of communicators, and collectives made of messages. */
#include "comm.h"

#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "fold_tree.h"
#include "speechshard/inside.h"

#define TAG_ALL_REDUCE SPSH__COMM_TAG_MAX
#define TAG_BROADCAST  (SPSH__COMM_TAG_MAX + 1)
#define TAG_ROLL       (SPSH__COMM_TAG_MAX + 2)

/* Broadcasts go in pieces: MPI counts bytes in an int. */
#define BROADCAST_BYTES ((size_t)64 << 20)

/* Return true if the launcher does not set up MPI. */
static bool has_no_mpi(const char *launcher)
{
    return strcmp(launcher, "torchrun") == 0 || strcmp(launcher, "environment") == 0;
}

const char *spsh__comm_name(const spsh__launch *launch, const char *where)
{
    const bool is_named = where != NULL && strcmp(where, "auto") != 0;
    if (launch->world_size == 1)
        return "self";
    if (launch->comm[0] != '\0')
        return launch->comm;
    if (!is_named && !has_no_mpi(launch->launcher))
        return "mpi";
    return "tcp";
}

bool spsh__comm_has_mpi(void)
{
#ifdef SPEECHSHARD_MPI
    return true;
#else
    return false;
#endif
}

spsh_status spsh__comm_open(const spsh__rendezvous_options *options,
                            const spsh_allocator *allocator, spsh__comm **ret_comm, spsh_error *err)
{
    const spsh__launch *launch = options->launch;
    const char *name = spsh__comm_name(launch, options->where);
    spsh__comm *c = NULL;
    if (strcmp(name, "tcp") == 0)
        return spsh__comm_tcp_open(options, allocator, ret_comm, err);
    spsh_status rc = launch->world_size == 1 ? spsh__comm_self_open(allocator, &c, err)
                                             : spsh__comm_mpi_open(allocator, &c, err);
    if (rc != SPSH_OK)
        return rc;
    c->deadline_ms = options->deadline_ms;
    if (c->rank != launch->rank || c->world_size != launch->world_size) {
        rc = SPSH_FAIL(err, SPSH_E_MISMATCH,
                       "the variables of %s say rank %u of %u, but MPI says rank %u of %u; start "
                       "with 'mpirun -n %u' or 'srun --mpi=pmix -n %u'",
                       launch->launcher, launch->rank, launch->world_size, c->rank, c->world_size,
                       launch->world_size, launch->world_size);
        spsh__comm_close(c);
        return rc;
    }
    *ret_comm = c;
    return SPSH_OK;
}

/* Carriers move messages under the lock that done_fn takes, and only without a failure. After
 * done_fn returns, no message is in flight. */
void spsh__comm_fail(spsh__comm *c)
{
    while (c->below != NULL)
        c = c->below;
    spsh__comm_set_failed(c);
    (void)c->ops->done_fn(c, 0);
}

uint64_t spsh__comm_now_ns(const spsh__comm *c)
{
    c = spsh__comm_lowest(c);
    return c->ops->now_fn != NULL ? c->ops->now_fn(c) : spsh__now_ns();
}

void spsh__comm_close(spsh__comm *comm)
{
    if (comm != NULL)
        comm->ops->close_fn(comm);
}

spsh_status spsh__comm_check_peer(const spsh__comm *c, uint32_t peer, spsh_error *err)
{
    if (peer < c->world_size && peer != c->rank)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "rank %u of %u cannot exchange messages with rank %u",
                     c->rank, c->world_size, peer);
}

spsh_status spsh__comm_fail_size(uint32_t peer, uint32_t tag, size_t size_bytes, bool is_more,
                                 spsh_error *err)
{
    return SPSH_FAIL(err, SPSH_E_MISMATCH,
                     "rank %u sent %s than the expected %zu bytes (tag %u); do all ranks have the "
                     "same configuration?",
                     peer, is_more ? "more" : "less", size_bytes, tag);
}

spsh_status spsh__comm_fail_late(uint32_t peer, uint32_t tag, size_t size_bytes, bool is_send,
                                 uint64_t begin_ns, spsh_error *err)
{
    return SPSH_FAIL(err, SPSH_E_TIMEOUT, "rank %u %s %zu bytes (tag %u) in %.1f s", peer,
                     is_send ? "has not received" : "has not sent", size_bytes, tag,
                     (double)(spsh__now_ns() - begin_ns) / 1e9);
}

void spsh__comm_pause(uint64_t begin_ns)
{
    const struct timespec pause = {0, 50000};
    if (spsh__now_ns() - begin_ns < UINT64_C(1000000))
        (void)sched_yield();
    else
        (void)nanosleep(&pause, NULL);
}

spsh_status spsh__comm_send(spsh__comm *c, uint32_t to, uint32_t tag, const void *bytes,
                            size_t size_bytes, spsh_error *err)
{
    spsh__comm_handle handle = 0;
    const spsh_status rc = c->ops->send_fn(c, to, tag, bytes, size_bytes, &handle, err);
    return rc != SPSH_OK ? rc : c->ops->wait_fn(c, handle, c->deadline_ms, err);
}

spsh_status spsh__comm_receive(spsh__comm *c, uint32_t from, uint32_t tag, void *bytes,
                               size_t size_bytes, spsh_error *err)
{
    spsh__comm_handle handle = 0;
    const spsh_status rc = c->ops->receive_fn(c, from, tag, bytes, size_bytes, &handle, err);
    return rc != SPSH_OK ? rc : c->ops->wait_fn(c, handle, c->deadline_ms, err);
}

/* Wait for all handles, even after a failure, so that their memory is free. Keep the first
 * error. */
static spsh_status wait_all(spsh__comm *c, const spsh__comm_handle *handles, size_t count,
                            spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < count; i++) {
        bool is_first = rc == SPSH_OK;
        spsh_status one =
            c->ops->wait_fn(c, handles[i], is_first ? c->deadline_ms : 0, is_first ? err : NULL);
        if (is_first)
            rc = one;
    }
    return rc;
}

static void fold_u64(uint64_t *rows, uint32_t row_count, size_t count, spsh__comm_op op)
{
    for (uint32_t r = 1; r < row_count; r++)
        for (size_t i = 0; i < count; i++) {
            uint64_t value = rows[r * count + i];
            if (op == SPSH__COMM_SUM)
                rows[i] += value;
            else if (value > rows[i])
                rows[i] = value;
        }
}

/* SPSH__COMM_MAX returns NaN if any rank has NaN. */
static void fold_f64(double *rows, uint32_t row_count, size_t count, spsh__comm_op op)
{
    if (op == SPSH__COMM_SUM) {
        spsh__fold_rows(rows, row_count, count);
        return;
    }
    for (uint32_t r = 1; r < row_count; r++)
        for (size_t i = 0; i < count; i++) {
            double value = rows[r * count + i];
            if (value > rows[i] || value != value)
                rows[i] = value;
        }
}

static spsh_status exchange_rows(spsh__comm *c, uint8_t *rows, size_t row_bytes,
                                 spsh__comm_handle *handles, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    size_t handle_count = 0;
    for (uint32_t r = 0; rc == SPSH_OK && r < c->world_size; r++) {
        if (r == c->rank)
            continue;
        rc = c->ops->receive_fn(c, r, TAG_ALL_REDUCE, rows + r * row_bytes, row_bytes,
                                &handles[handle_count], err);
        handle_count += rc == SPSH_OK;
    }
    for (uint32_t r = 0; rc == SPSH_OK && r < c->world_size; r++) {
        if (r == c->rank)
            continue;
        rc = c->ops->send_fn(c, r, TAG_ALL_REDUCE, rows + c->rank * row_bytes, row_bytes,
                             &handles[handle_count], err);
        handle_count += rc == SPSH_OK;
    }
    spsh_status waited = wait_all(c, handles, handle_count, rc == SPSH_OK ? err : NULL);
    return rc != SPSH_OK ? rc : waited;
}

spsh_status spsh__comm_all_reduce(spsh__comm *c, spsh__comm_type type, spsh__comm_op op,
                                  void *values, size_t count, spsh_error *err)
{
    size_t row_bytes = count * sizeof(double);
    uint8_t *rows = NULL;
    spsh__comm_handle *handles = NULL;
    spsh_status rc = SPSH_OK;

    if (c->world_size == 1 || count == 0)
        return SPSH_OK;
    rows = spsh__new(&c->allocator, c->world_size, row_bytes);
    handles = spsh__new(&c->allocator, 2 * (size_t)c->world_size, sizeof(*handles));
    if (rows == NULL || handles == NULL) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "sum of %zu values", count);
        goto out;
    }
    memcpy(rows + c->rank * row_bytes, values, row_bytes);
    rc = exchange_rows(c, rows, row_bytes, handles, err);
    if (rc != SPSH_OK) {
        spsh__comm_fail(c); /* no message moves now, unless the carrier lingers */
        rows = spsh__comm_lingers(c) ? NULL : rows;
        goto out;
    }
    if (type == SPSH__COMM_F64)
        fold_f64((double *)(void *)rows, c->world_size, count, op);
    else
        fold_u64((uint64_t *)(void *)rows, c->world_size, count, op);
    memcpy(values, rows, row_bytes);
out:
    spsh__free(&c->allocator, rows);
    spsh__free(&c->allocator, handles);
    return rc;
}

spsh_status spsh__comm_broadcast(spsh__comm *c, void *bytes, size_t size_bytes, uint32_t root,
                                 spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (c->world_size == 1)
        return SPSH_OK;
    for (size_t at = 0; rc == SPSH_OK && at < size_bytes; at += BROADCAST_BYTES) {
        const size_t part = size_bytes - at < BROADCAST_BYTES ? size_bytes - at : BROADCAST_BYTES;
        uint8_t *here = (uint8_t *)bytes + at;
        if (c->rank != root)
            rc = spsh__comm_receive(c, root, TAG_BROADCAST, here, part, err);
        for (uint32_t r = 0; rc == SPSH_OK && c->rank == root && r < c->world_size; r++)
            if (r != root)
                rc = spsh__comm_send(c, r, TAG_BROADCAST, here, part, err);
    }
    return rc;
}

/* ---- status poll of all ranks ---- */

#define ROLL_MS 2000u /* time for ranks whose own waits have just timed out to answer */

bool spsh__comm_can_await(const spsh__comm *c)
{
    return spsh__comm_lowest(c)->ops->await_fn != NULL;
}

bool spsh__comm_await(spsh__comm *c, spsh__comm_handle handle, uint32_t deadline_ms)
{
    return c->ops->await_fn == NULL || c->ops->await_fn(c, handle, deadline_ms);
}

/* Post the receives and the sends. Handles: receives by rank, then sends by rank. */
static void post_roll(spsh__comm *c, const uint64_t *own, uint64_t *counts,
                      spsh__comm_handle *handles)
{
    const uint32_t world = c->world_size;
    for (uint32_t r = 0; r < world; r++) {
        if (r == c->rank)
            continue;
        (void)c->ops->receive_fn(c, r, TAG_ROLL, &counts[r], sizeof(counts[r]), &handles[r], NULL);
        (void)c->ops->send_fn(c, r, TAG_ROLL, own, sizeof(*own), &handles[world + r], NULL);
    }
}

/* Require both the receive and the send: a rank that left with its own answer still in flight would
 * count as missing on the other rank. */
static bool has_answered(spsh__comm *c, const spsh__comm_handle *handles, uint32_t rank)
{
    const spsh__comm_handle both[2] = {handles[rank], handles[c->world_size + rank]};
    return rank == c->rank || (both[0] != 0 && both[1] != 0 && c->ops->done_fn(c, both[0]) &&
                               c->ops->done_fn(c, both[1]));
}

void spsh__comm_roll(spsh__comm *c, uint64_t own, uint32_t deadline_ms, uint64_t *counts)
{
    const struct timespec pause = {0, 1000000};
    const uint32_t world = c->world_size;
    const uint64_t begin_ns = spsh__now_ns();
    spsh__comm_handle *handles = spsh__new(&c->allocator, 2 * (size_t)world, sizeof(*handles));
    uint32_t answered = 0;
    for (uint32_t r = 0; r < world; r++)
        counts[r] = r == c->rank ? own : UINT64_MAX;
    if (handles == NULL)
        return;
    post_roll(c, &own, counts, handles);
    while (answered < world && spsh__now_ns() - begin_ns < deadline_ms * UINT64_C(1000000)) {
        (void)nanosleep(&pause, NULL);
        for (answered = 0; answered < world && has_answered(c, handles, answered);)
            answered++;
    }
    /* After a wait without success no message is in flight, unless the carrier lingers. */
    for (uint32_t i = 0; i < 2 * world; i++)
        if (handles[i] != 0 && c->ops->wait_fn(c, handles[i], 0, NULL) != SPSH_OK && i < world)
            counts[i] = UINT64_MAX;
    spsh__free(&c->allocator, handles);
}

bool spsh__comm_name_missing(spsh__comm *c, uint64_t own, char *text, size_t capacity)
{
    uint64_t *counts = spsh__new(&c->allocator, c->world_size, sizeof(*counts));
    bool has_all = true;
    size_t length = 0;
    text[0] = '\0';
    if (counts == NULL || spsh__comm_has_failed(c)) {
        spsh__free(&c->allocator, counts);
        return false;
    }
    spsh__comm_roll(c, own, ROLL_MS, counts);
    for (uint32_t r = 0; r < c->world_size; r++)
        has_all = has_all && counts[r] != UINT64_MAX;
    for (uint32_t r = 0; r < c->world_size && length + 16 < capacity; r++)
        if (has_all ? counts[r] < own : counts[r] == UINT64_MAX)
            length += (size_t)snprintf(text + length, capacity - length, "%s%u",
                                       length == 0 ? "" : ", ", r);
    if (!spsh__comm_lingers(c))
        spsh__free(&c->allocator, counts);
    return true;
}
