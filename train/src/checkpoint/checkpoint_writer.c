/* checkpoint_writer.c: a thread that writes snapshots, so that training does not wait for the disk.
 *
 *     put:    wait until idle -> busy     thread:  busy -> arenas ready, write, check, tidy -> idle
 *
 * There is one snapshot. A second one would cost as much memory again, and would only help if the
 * disk is slower than the interval between checkpoints, which no buffer hides for long. `snapshot`
 * and the arenas that it borrows belong to the thread while is_busy is set and to the caller
 * otherwise. Both change under the mutex.
 *
 * `latest` and the older files change only after the whole file has been read back. The writer
 * reads the folder before and after writing, and stops if it finds a higher generation.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>

#include "checkpoint_internal.h"
#include "speechshard/inside.h"

enum { ALIGNMENT = 64, LATEST_BYTES = 80 };

struct spsh__checkpoint_writer {
    spsh_allocator allocator;
    const spsh_io *io;
    char *run, *folder;
    uint32_t keep, generation;

    uint8_t *memory; /* memory that the snapshot's pointers, except arenas, point into */
    size_t capacity;
    spsh__checkpoint snapshot;

    pthread_t thread;
    bool has_thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_busy, must_end, has_failed;
    spsh_error failure;
};

/* ---- the thread ---- */

spsh_status spsh__checkpoint_writer_check(const spsh__checkpoint_writer *w, spsh_error *err)
{
    spsh__checkpoint_list list = {0};
    const spsh_status rc = spsh__checkpoint_list_read(w->folder, &w->allocator, &list, err);
    spsh__free(&w->allocator, list.places);
    if (rc == SPSH_OK && list.generation > w->generation)
        return SPSH_FAIL(err, SPSH_E_MISMATCH,
                         "%s: start %" PRIu32 " of the run stops, because start %" PRIu32
                         " has taken over",
                         w->run, w->generation, list.generation);
    return rc;
}

static spsh_status read_back(const spsh__checkpoint_writer *w, const char *name, spsh_error *err)
{
    spsh__checkpoint found = {0};
    spsh__checkpoint_file *file = NULL;
    char *path = spsh__checkpoint_join(&w->allocator, w->folder, name);
    if (path == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: name of the checkpoint to read back", name);
    const spsh_status rc = spsh__checkpoint_read(path, w->io, &w->allocator, &file, &found, err);
    spsh__checkpoint_close(file);
    spsh__free(&w->allocator, path);
    return rc;
}

static spsh_status write_latest(const spsh__checkpoint_writer *w, const char *name, spsh_error *err)
{
    spsh_file_writer *file = NULL;
    spsh_status rc = spsh_file_writer_open(w->io, w->run, "latest", 0, &w->allocator, &file, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_write(file, name, strlen(name), err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_write(file, "\n", 1, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_publish(file, SPSH_PUBLISH_REPLACE, err);
    spsh_file_writer_free(file);
    return rc;
}

/* Find the cause of a failed write. If a successor of this process removed the unfinished file,
 * report the successor, not the missing file. err: not NULL. */
static spsh_status explain(const spsh__checkpoint_writer *w, spsh_status rc, spsh_error *err)
{
    spsh_error replaced = SPSH_ERROR_INIT;
    if (spsh__checkpoint_writer_check(w, &replaced) != SPSH_E_MISMATCH)
        return rc;
    *err = replaced;
    return SPSH_E_MISMATCH;
}

static spsh_status write_snapshot(spsh__checkpoint_writer *w, spsh_error *err)
{
    spsh__checkpoint *c = &w->snapshot;
    char name[SPSH__CHECKPOINT_NAME_BYTES];
    spsh__checkpoint_name((spsh__checkpoint_place){w->generation, c->samples}, name);
    spsh_status rc = c->ready_fn != NULL ? c->ready_fn(c->ready_user, err) : SPSH_OK;
    if (rc == SPSH_OK)
        rc = spsh__checkpoint_writer_check(w, err);
    if (rc == SPSH_OK)
        c->weights_hash = spsh__checkpoint_hash(c->weights, c->arena_elements);
    if (rc == SPSH_OK)
        rc = spsh__checkpoint_write(w->folder, c, w->io, &w->allocator, err);
    if (rc == SPSH_OK)
        rc = read_back(w, name, err);
    if (rc == SPSH_OK)
        rc = spsh__checkpoint_writer_check(w, err);
    if (rc == SPSH_OK)
        rc = write_latest(w, name, err);
    if (rc == SPSH_OK)
        rc = spsh__checkpoint_prune(w->folder, w->keep, c->best_samples, w->io, &w->allocator, err);
    return rc;
}

static void *work(void *opaque)
{
    spsh__checkpoint_writer *w = (spsh__checkpoint_writer *)opaque;
    (void)pthread_mutex_lock(&w->mutex);
    for (;;) {
        while (!w->is_busy && !w->must_end)
            (void)pthread_cond_wait(&w->changed, &w->mutex);
        if (!w->is_busy)
            break;
        (void)pthread_mutex_unlock(&w->mutex);
        spsh_error failure = SPSH_ERROR_INIT;
        spsh_status rc = write_snapshot(w, &failure);
        if (rc != SPSH_OK)
            rc = explain(w, rc, &failure);
        (void)pthread_mutex_lock(&w->mutex);
        w->has_failed = rc != SPSH_OK;
        w->failure = failure;
        w->is_busy = false;
        (void)pthread_cond_broadcast(&w->changed);
    }
    (void)pthread_mutex_unlock(&w->mutex);
    return NULL;
}

/* ---- the snapshot ---- */

/* Reserve `size` bytes at *at, and advance *at past them. */
static size_t place(size_t *at, size_t size)
{
    const size_t here = *at;
    *at = (here + size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return here;
}

typedef struct part {
    const void *from;
    size_t size, at;
} part;

enum { PART_CONFIG, PART_VOCABULARY, PART_PARAMETERS, PART_CURSOR, PART_STRATEGY, PARTS };

/* List the arrays that the checkpoint points to, except the arenas. Sizes were checked, so products do not overflow.
 */
static size_t list_parts(const spsh__checkpoint *c, part parts[PARTS])
{
    const size_t parameters = c->parameter_count * sizeof(*c->parameters);
    parts[PART_CONFIG] = (part){c->config, strlen(c->config) + 1, 0};
    parts[PART_VOCABULARY] = (part){c->vocabulary, strlen(c->vocabulary) + 1, 0};
    parts[PART_PARAMETERS] = (part){c->parameters, parameters, 0};
    parts[PART_CURSOR] = (part){c->cursor, c->cursor_size, 0};
    parts[PART_STRATEGY] = (part){c->strategy, c->strategy_size, 0};
    size_t size = 0;
    for (size_t i = 0; i < PARTS; i++)
        parts[i].at = place(&size, parts[i].size);
    return size;
}

static spsh_status reserve_memory(spsh__checkpoint_writer *w, size_t size, spsh_error *err)
{
    if (size <= w->capacity)
        return SPSH_OK;
    spsh__free(&w->allocator, w->memory);
    w->capacity = 0;
    w->memory = (uint8_t *)w->allocator.alloc_fn(w->allocator.user, size);
    if (w->memory == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: snapshot for a checkpoint: %zu bytes", w->run,
                         size);
    w->capacity = size;
    return SPSH_OK;
}

static spsh_status take_snapshot(spsh__checkpoint_writer *w, const spsh__checkpoint *c,
                                 spsh_error *err)
{
    part parts[PARTS];
    spsh_status rc = spsh__checkpoint_check(c, err);
    if (rc == SPSH_OK)
        rc = reserve_memory(w, list_parts(c, parts), err);
    if (rc != SPSH_OK)
        return rc;
    for (size_t i = 0; i < PARTS; i++)
        if (parts[i].size != 0)
            memcpy(w->memory + parts[i].at, parts[i].from, parts[i].size);
    spsh__checkpoint *s = &w->snapshot;
    *s = *c;
    s->generation = w->generation;
    s->config = (const char *)(w->memory + parts[PART_CONFIG].at);
    s->vocabulary = (const char *)(w->memory + parts[PART_VOCABULARY].at);
    s->parameters = (const spsh__parameter *)(const void *)(w->memory + parts[PART_PARAMETERS].at);
    s->cursor = w->memory + parts[PART_CURSOR].at;
    s->strategy = w->memory + parts[PART_STRATEGY].at;
    return SPSH_OK;
}

/* ---- open and close ---- */

/* Block signals in this thread, so that they reach the training thread and do not interrupt system
 * calls here. */
static spsh_status start_thread(spsh__checkpoint_writer *w, spsh_error *err)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int rc = pthread_create(&w->thread, NULL, work, w);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return SPSH_FAIL_OS(err, SPSH_E_NO_MEMORY, rc,
                            "%s: cannot start the thread that writes checkpoints", w->run);
    w->has_thread = true;
    return SPSH_OK;
}

static spsh_status open_folders(spsh__checkpoint_writer *w, spsh_error *err)
{
    spsh_status rc = spsh_io_make_directory(w->io, w->run, err);
    if (rc == SPSH_OK)
        rc = spsh_io_make_directory(w->io, w->folder, err);
    if (rc == SPSH_OK)
        rc = spsh__checkpoint_claim(w->folder, w->io, &w->allocator, &w->generation, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__checkpoint_sweep(w->folder, w->generation, w->io, &w->allocator);
    spsh__checkpoint_sweep(w->run, w->generation, w->io, &w->allocator);
    return SPSH_OK;
}

spsh_status spsh__checkpoint_writer_open(const char *run, uint32_t keep, const spsh_io *io,
                                         const spsh_allocator *allocator,
                                         spsh__checkpoint_writer **ret, spsh_error *err)
{
    if (allocator == NULL)
        allocator = spsh_allocator_default();
    spsh__checkpoint_writer *w = (spsh__checkpoint_writer *)spsh__new(allocator, 1, sizeof(*w));
    if (w == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: checkpoint writer", run);
    w->allocator = *allocator;
    w->io = io != NULL ? io : spsh_io_default();
    w->keep = keep;
    (void)pthread_mutex_init(&w->mutex, NULL);
    (void)pthread_cond_init(&w->changed, NULL);
    w->run = spsh__checkpoint_join(allocator, run, "");
    w->folder = spsh__checkpoint_join(allocator, run, "checkpoints");
    spsh_status rc = SPSH_OK;
    if (w->run == NULL || w->folder == NULL) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: checkpoint writer", run);
        goto out;
    }
    w->run[strlen(run)] = '\0'; /* without the final slash */
    rc = open_folders(w, err);
    if (rc == SPSH_OK)
        rc = start_thread(w, err);
    if (rc != SPSH_OK)
        goto out;
    *ret = w;
    w = NULL;
out:
    spsh__checkpoint_writer_close(w);
    return rc;
}

uint64_t spsh__checkpoint_writer_generation(const spsh__checkpoint_writer *w)
{
    return w->generation;
}

/* Return the failure, once. The caller holds the mutex. */
static spsh_status hand_out(spsh__checkpoint_writer *w, spsh_error *err)
{
    if (w->is_busy || !w->has_failed)
        return SPSH_OK;
    w->has_failed = false;
    return spsh__fail_again(w->failure.status, &w->failure, err);
}

static spsh_status settle(spsh__checkpoint_writer *w, spsh_error *err)
{
    while (w->is_busy)
        (void)pthread_cond_wait(&w->changed, &w->mutex);
    return hand_out(w, err);
}

spsh_status spsh__checkpoint_put(spsh__checkpoint_writer *w, const spsh__checkpoint *c,
                                 spsh_error *err)
{
    (void)pthread_mutex_lock(&w->mutex);
    spsh_status rc = settle(w, err);
    if (rc == SPSH_OK)
        rc = take_snapshot(w, c, err);
    if (rc == SPSH_OK) {
        w->is_busy = true;
        (void)pthread_cond_broadcast(&w->changed);
    }
    (void)pthread_mutex_unlock(&w->mutex);
    return rc;
}

spsh_status spsh__checkpoint_flush(spsh__checkpoint_writer *w, spsh_error *err)
{
    (void)pthread_mutex_lock(&w->mutex);
    const spsh_status rc = settle(w, err);
    (void)pthread_mutex_unlock(&w->mutex);
    return rc;
}

spsh_status spsh__checkpoint_poll(spsh__checkpoint_writer *w, spsh_error *err)
{
    (void)pthread_mutex_lock(&w->mutex);
    const spsh_status rc = hand_out(w, err);
    (void)pthread_mutex_unlock(&w->mutex);
    return rc;
}

void spsh__checkpoint_writer_close(spsh__checkpoint_writer *w)
{
    if (w == NULL)
        return;
    const spsh_allocator allocator = w->allocator;
    if (w->has_thread) {
        (void)pthread_mutex_lock(&w->mutex);
        w->must_end = true;
        (void)pthread_cond_broadcast(&w->changed);
        (void)pthread_mutex_unlock(&w->mutex);
        (void)pthread_join(w->thread, NULL);
    }
    (void)pthread_cond_destroy(&w->changed);
    (void)pthread_mutex_destroy(&w->mutex);
    spsh__free(&allocator, w->memory);
    spsh__free(&allocator, w->run);
    spsh__free(&allocator, w->folder);
    spsh__free(&allocator, w);
}
