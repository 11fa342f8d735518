/* comm_mpi.c: messages over MPI, the only file that uses it.
 *
 * All requests are in one table, under one lock. Every MPI call is made under that lock
 * (MPI_THREAD_SERIALIZED). A separate thread moves messages while the trainer computes. It polls
 * MPI, and sleeps briefly if no request finished. Without requests it sleeps until one is posted. A
 * thread that waits polls MPI itself, so that it loses no time.
 *
 * After a failure MPI is not called again, so MPI moves no message. A network card may still finish
 * transfers that started before (RDMA), until the process ends.
 *
 * Only two-sided messages are used. If a rank dies, mpirun ends all other ranks and names it. If
 * mpirun was configured not to, or if a rank hangs, wait_fn's deadline does both.
 */
#include "comm.h"
#include "speechshard/inside.h"

#ifndef SPEECHSHARD_MPI

spsh_status spsh__comm_mpi_open(const spsh_allocator *allocator, spsh__comm **ret_comm,
                                spsh_error *err)
{
    (void)allocator, (void)ret_comm;
    return SPSH_FAIL(err, SPSH_E_UNSUPPORTED,
                     "this build lacks MPI, which runs of more than one process need here; set "
                     "SPEECHSHARD_COMM=tcp, or build with MPI");
}

#else

#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <time.h>

#define NS_A_MS UINT64_C(1000000)
#define END_PAUSE_NS                                                                               \
    300000000L /* after a failure: lets other ranks with a timeout report it, too */
#define REQUESTS_FIRST 64u

/* A message. A handle is (generation, number + 1). */
typedef struct message {
    uint32_t generation;
    uint32_t peer, tag;
    size_t size_bytes;
    bool is_used, is_send, is_done;
    int result; /* status code of MPI */
    size_t received_bytes;
} message;

typedef struct mpi_state {
    MPI_Comm world;
    pthread_mutex_t lock;
    pthread_cond_t work;
    pthread_t thread;
    bool has_lock, has_work, has_thread, has_world;
    bool stops;
    bool is_woken;                 /* request: wait_any returns early */
    uint32_t capacity, open_count; /* open: not done */
    message *messages;
    MPI_Request *requests; /* one per message; MPI_REQUEST_NULL if not in flight */
} mpi_state;

static spsh_status mpi_error(int result, const char *what, uint32_t peer, spsh_error *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(result, text, &length);
    return SPSH_FAIL(err, SPSH_E_IO, "%s rank %u: %s", what, peer, text);
}

/* Ask MPI for messages that have finished. Locked. */
static void poll(const spsh__comm *c)
{
    mpi_state *s = c->state;
    int number = 0, has_one = 1;
    MPI_Status status;
    while (s->open_count > 0 && !spsh__comm_has_failed(c)) {
        const int result = MPI_Testany((int)s->capacity, s->requests, &number, &has_one, &status);
        if (has_one == 0 || number == MPI_UNDEFINED)
            return;
        message *m = &s->messages[number];
        int received = 0;
        m->is_done = true;
        m->result = result;
        if (!m->is_send && result == MPI_SUCCESS)
            MPI_Get_count(&status, MPI_BYTE, &received);
        m->received_bytes = (size_t)received;
        s->open_count--;
    }
}

static void *move_messages(void *user)
{
    const spsh__comm *c = user;
    mpi_state *s = c->state;
    pthread_mutex_lock(&s->lock);
    while (!s->stops) {
        if (s->open_count == 0) {
            pthread_cond_wait(&s->work, &s->lock);
            continue;
        }
        poll(c);
        pthread_mutex_unlock(&s->lock);
        spsh__comm_pause(0);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Double the size of the table. Call with the lock held. */
static bool grow(spsh__comm *c, mpi_state *s)
{
    const spsh_allocator *a = &c->allocator;
    const uint32_t capacity = s->capacity == 0 ? REQUESTS_FIRST : 2 * s->capacity;
    message *messages = spsh__enlarge(a, s->messages, s->capacity, capacity, sizeof(*messages));
    if (messages == NULL)
        return false;
    s->messages = messages;
    MPI_Request *requests =
        spsh__enlarge(a, s->requests, s->capacity, capacity, sizeof(MPI_Request));
    if (requests == NULL)
        return false;
    s->requests = requests;
    for (; s->capacity < capacity; s->capacity++)
        requests[s->capacity] = MPI_REQUEST_NULL;
    return true;
}

/* Call with the lock held. */
static message *free_message(spsh__comm *c, mpi_state *s)
{
    for (uint32_t i = 0; i < s->capacity; i++)
        if (!s->messages[i].is_used)
            return &s->messages[i];
    const uint32_t number = s->capacity;
    return grow(c, s) ? &s->messages[number] : NULL;
}

/* Exactly one of outgoing and incoming is not NULL. */
typedef struct post {
    uint32_t peer, tag;
    const void *outgoing;
    void *incoming;
    size_t size_bytes;
} post;

/* Call with the lock held. */
static spsh_status start(spsh__comm *c, const post *p, spsh__comm_handle *ret, spsh_error *err)
{
    mpi_state *s = c->state;
    int result = MPI_SUCCESS;
    message *m = free_message(c, s);
    if (m == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%u messages", s->capacity);
    const uint32_t number = (uint32_t)(m - s->messages);
    if (spsh__comm_has_failed(c))
        s->requests[number] = MPI_REQUEST_NULL; /* a call of MPI would also move other messages */
    else if (p->outgoing != NULL)
        result = MPI_Isend(p->outgoing, (int)p->size_bytes, MPI_BYTE, (int)p->peer, (int)p->tag,
                           s->world, &s->requests[number]);
    else
        result = MPI_Irecv(p->incoming, (int)p->size_bytes, MPI_BYTE, (int)p->peer, (int)p->tag,
                           s->world, &s->requests[number]);
    if (result != MPI_SUCCESS) {
        s->requests[number] = MPI_REQUEST_NULL;
        spsh__comm_set_failed(c);
        return mpi_error(result, p->outgoing != NULL ? "sending to" : "receiving from", p->peer,
                         err);
    }
    *m = (message){.generation = m->generation + 1,
                   .peer = p->peer,
                   .tag = p->tag,
                   .size_bytes = p->size_bytes,
                   .is_used = true,
                   .is_send = p->outgoing != NULL};
    s->open_count++;
    *ret = ((uint64_t)m->generation << 32) | (number + 1);
    return SPSH_OK;
}

static spsh_status post_message(spsh__comm *c, const post *p, spsh__comm_handle *ret_handle,
                                spsh_error *err)
{
    mpi_state *s = c->state;
    spsh_status rc = spsh__comm_check_peer(c, p->peer, err);
    if (rc != SPSH_OK)
        return rc;
    if (p->size_bytes > INT_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "a message of %zu bytes", p->size_bytes);
    pthread_mutex_lock(&s->lock);
    rc = start(c, p, ret_handle, err);
    if (rc == SPSH_OK)
        pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static spsh_status mpi_send(spsh__comm *c, uint32_t to, uint32_t tag, const void *bytes,
                            size_t size_bytes, spsh__comm_handle *ret_handle, spsh_error *err)
{
    post p = {.peer = to, .tag = tag, .outgoing = bytes, .size_bytes = size_bytes};
    spsh__comm_count(c, size_bytes);
    return post_message(c, &p, ret_handle, err);
}

static spsh_status mpi_receive(spsh__comm *c, uint32_t from, uint32_t tag, void *bytes,
                               size_t size_bytes, spsh__comm_handle *ret_handle, spsh_error *err)
{
    post p = {.peer = from, .tag = tag, .incoming = bytes, .size_bytes = size_bytes};
    return post_message(c, &p, ret_handle, err);
}

/* Return the message of a handle. NULL: it was already waited for. Call with the lock held. */
static message *message_of(mpi_state *s, spsh__comm_handle handle)
{
    uint32_t number = (uint32_t)handle - 1;
    if (handle == 0 || number >= s->capacity || !s->messages[number].is_used ||
        s->messages[number].generation != (uint32_t)(handle >> 32))
        return NULL;
    return &s->messages[number];
}

static bool mpi_done(spsh__comm *c, spsh__comm_handle handle)
{
    mpi_state *s = c->state;
    pthread_mutex_lock(&s->lock);
    message *m = message_of(s, handle);
    bool is_done = m == NULL || m->is_done;
    pthread_mutex_unlock(&s->lock);
    return is_done;
}

static spsh_status finish(spsh__comm *c, message *m, spsh_error *err)
{
    int class = MPI_SUCCESS;
    bool is_other_size = !m->is_send && m->received_bytes != m->size_bytes;
    m->is_used = false;
    if (m->result != MPI_SUCCESS)
        MPI_Error_class(m->result, &class);
    if (class != MPI_SUCCESS && class != MPI_ERR_TRUNCATE) {
        spsh__comm_set_failed(c);
        return mpi_error(m->result, m->is_send ? "sending to" : "receiving from", m->peer, err);
    }
    if (class == MPI_ERR_TRUNCATE || is_other_size) {
        spsh__comm_set_failed(c);
        return spsh__comm_fail_size(m->peer, m->tag, m->size_bytes, class == MPI_ERR_TRUNCATE, err);
    }
    return SPSH_OK;
}

/* Wait for a message without the lock, and return with the lock held. NULL: it was already waited
 * for. */
static message *await_locked(spsh__comm *c, spsh__comm_handle handle, uint32_t deadline_ms)
{
    mpi_state *s = c->state;
    const uint64_t begin = spsh__now_ns();
    for (;;) {
        pthread_mutex_lock(&s->lock);
        message *m = message_of(s, handle);
        if (m != NULL && !m->is_done)
            poll(c);
        const uint64_t waited_ns = spsh__now_ns() - begin;
        if (m == NULL || m->is_done || waited_ns >= deadline_ms * NS_A_MS)
            return m;
        pthread_mutex_unlock(&s->lock);
        spsh__comm_pause(begin);
    }
}

static bool mpi_await(spsh__comm *c, spsh__comm_handle handle, uint32_t deadline_ms)
{
    mpi_state *s = c->state;
    const message *m = await_locked(c, handle, deadline_ms);
    const bool is_over = m == NULL || m->is_done;
    pthread_mutex_unlock(&s->lock);
    return is_over;
}

static spsh_status mpi_wait(spsh__comm *c, spsh__comm_handle handle, uint32_t deadline_ms,
                            spsh_error *err)
{
    mpi_state *s = c->state;
    const uint64_t begin = spsh__now_ns();
    spsh_status rc = SPSH_OK;
    message *m = await_locked(c, handle, deadline_ms);
    if (m != NULL && m->is_done) {
        rc = finish(c, m, err);
    } else if (m != NULL) {
        spsh__comm_set_failed(c);
        rc = spsh__comm_fail_late(m->peer, m->tag, m->size_bytes, m->is_send, begin, err);
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static spsh_status mpi_wait_any(spsh__comm *c, const spsh__comm_handle *handles, uint32_t count,
                                uint32_t deadline_ms, uint32_t *ret_which, spsh_error *err)
{
    mpi_state *s = c->state;
    const uint64_t begin = spsh__now_ns();
    (void)err;
    for (;;) {
        const uint64_t waited_ns = spsh__now_ns() - begin;
        pthread_mutex_lock(&s->lock);
        poll(c);
        *ret_which = count;
        for (uint32_t i = 0; i < count && *ret_which == count; i++) {
            const message *m = message_of(s, handles[i]);
            if (m == NULL || m->is_done)
                *ret_which = i;
        }
        const bool is_over =
            *ret_which < count || s->is_woken || waited_ns >= deadline_ms * NS_A_MS;
        s->is_woken = s->is_woken && !is_over;
        pthread_mutex_unlock(&s->lock);
        if (is_over)
            return SPSH_OK;
        spsh__comm_pause(0);
    }
}

static void mpi_wake(spsh__comm *c)
{
    mpi_state *s = c->state;
    pthread_mutex_lock(&s->lock);
    s->is_woken = true;
    pthread_mutex_unlock(&s->lock);
}

/* MPI_Finalize waits for all ranks: after a failure the process ends without it, and mpirun ends
 * the others when it sees that. */
static void mpi_close(spsh__comm *c)
{
    spsh_allocator allocator = c->allocator;
    mpi_state *s = c->state;
    if (s->has_thread) {
        pthread_mutex_lock(&s->lock);
        s->stops = true;
        pthread_cond_signal(&s->work);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
    }
    const struct timespec end_pause = {0, END_PAUSE_NS};
    if (s->has_world && spsh__comm_has_failed(c)) {
        nanosleep(&end_pause, NULL);
    } else if (s->has_world) {
        MPI_Comm_free(&s->world);
        MPI_Finalize();
    }
    if (s->has_work)
        pthread_cond_destroy(&s->work);
    if (s->has_lock)
        pthread_mutex_destroy(&s->lock);
    spsh__free(&allocator, s->messages);
    spsh__free(&allocator, s->requests);
    spsh__free(&allocator, s);
    spsh__free(&allocator, c);
}

static const spsh__comm_ops mpi_ops = {
    .name = "mpi",
    .send_fn = mpi_send,
    .receive_fn = mpi_receive,
    .done_fn = mpi_done,
    .wait_fn = mpi_wait,
    .await_fn = mpi_await,
    .wait_any_fn = mpi_wait_any,
    .wake_fn = mpi_wake,
    .close_fn = mpi_close,
    .lingers = true,
};

static spsh_status join_world(spsh__comm *c, mpi_state *s, spsh_error *err)
{
    int was_there = 0;
    int level = MPI_THREAD_SINGLE;
    int rank = 0;
    int size = 0;
    MPI_Initialized(&was_there);
    if (was_there)
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED, "MPI can be opened only once per process");
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS)
        return SPSH_FAIL(err, SPSH_E_IO, "MPI_Init_thread failed");
    if (level < MPI_THREAD_SERIALIZED)
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED,
                         "this MPI library does not support MPI_THREAD_SERIALIZED");
    if (MPI_Comm_dup(MPI_COMM_WORLD, &s->world) != MPI_SUCCESS)
        return SPSH_FAIL(err, SPSH_E_IO, "MPI_Comm_dup failed");
    s->has_world = true;
    MPI_Comm_set_errhandler(s->world, MPI_ERRORS_RETURN);
    MPI_Comm_rank(s->world, &rank);
    MPI_Comm_size(s->world, &size);
    c->rank = (uint32_t)rank;
    c->world_size = (uint32_t)size;
    return SPSH_OK;
}

spsh_status spsh__comm_mpi_open(const spsh_allocator *allocator, spsh__comm **ret_comm,
                                spsh_error *err)
{
    spsh__comm *c = spsh__new(allocator, 1, sizeof(*c));
    mpi_state *s = spsh__new(allocator, 1, sizeof(*s));
    spsh_status rc = SPSH_OK;
    if (c == NULL || s == NULL) {
        spsh__free(allocator, c);
        spsh__free(allocator, s);
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "communication");
    }
    *c = (spsh__comm){.ops = &mpi_ops, .allocator = *allocator, .state = s};
    s->has_lock = pthread_mutex_init(&s->lock, NULL) == 0;
    s->has_work = pthread_cond_init(&s->work, NULL) == 0;
    if (!s->has_lock || !s->has_work || !grow(c, s)) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "communication");
        goto out;
    }
    rc = join_world(c, s, err);
    if (rc != SPSH_OK)
        goto out;
    s->has_thread = pthread_create(&s->thread, NULL, move_messages, c) == 0;
    if (!s->has_thread) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "cannot start the thread that polls MPI");
        goto out;
    }
    *ret_comm = c;
    c = NULL;
out:
    spsh__comm_close(c);
    return rc;
}

#endif
