/* worker_pool.c: a ring of tasks under one mutex.
 *
 *     taken <= started <= put        (put - taken <= tasks_max)
 *
 * Workers start tasks in order and finish them in any; `finished` has a flag for the task in each
 * slot, and take waits for the oldest task.
 */
#include "worker_pool.h"

#include "base_internal.h"

#include <pthread.h>

typedef struct place {
    void *task;
    bool finished;
} place;

struct spsh__worker_pool {
    const spsh_allocator *allocator;
    spsh__worker_fn work_fn;
    void *user;
    place *places;
    uint32_t tasks_max;
    uint64_t put, started, taken;
    bool stop;
    pthread_mutex_t mutex;
    pthread_cond_t work, done;
    uint32_t thread_count, numbered; /* numbered: workers that have their number */
    pthread_t *threads;
};

static place *place_at(spsh__worker_pool *pool, uint64_t number)
{
    return &pool->places[number % pool->tasks_max];
}

static void *worker(void *opaque)
{
    spsh__worker_pool *pool = (spsh__worker_pool *)opaque;
    (void)pthread_mutex_lock(&pool->mutex);
    uint32_t self = pool->numbered++;
    for (;;) {
        while (pool->started == pool->put && !pool->stop)
            (void)pthread_cond_wait(&pool->work, &pool->mutex);
        if (pool->started == pool->put)
            break;
        place *mine = place_at(pool, pool->started++);
        (void)pthread_mutex_unlock(&pool->mutex);
        pool->work_fn(pool->user, self, mine->task);
        (void)pthread_mutex_lock(&pool->mutex);
        mine->finished = true;
        (void)pthread_cond_signal(&pool->done);
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

spsh_status spsh__worker_pool_open(const spsh_allocator *allocator, uint32_t threads,
                                   uint32_t tasks_max, spsh__worker_fn work_fn, void *user,
                                   spsh__worker_pool **ret_pool, spsh_error *err)
{
    spsh__worker_pool *pool = spsh__new(allocator, 1, sizeof(*pool));
    if (pool == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "worker threads");
    pool->allocator = allocator;
    pool->work_fn = work_fn;
    pool->user = user;
    pool->tasks_max = tasks_max;
    (void)pthread_mutex_init(&pool->mutex, NULL);
    (void)pthread_cond_init(&pool->work, NULL);
    (void)pthread_cond_init(&pool->done, NULL);
    pool->places = spsh__alloc_array(allocator, tasks_max, sizeof(*pool->places));
    pool->threads = spsh__alloc_array(allocator, threads, sizeof(*pool->threads));
    spsh_status rc = SPSH_OK;
    if (pool->places == NULL || pool->threads == NULL)
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "worker threads");
    while (rc == SPSH_OK && threads > 1 && pool->thread_count < threads) {
        int failed = pthread_create(&pool->threads[pool->thread_count], NULL, worker, pool);
        if (failed != 0 && pool->thread_count == 0)
            rc = SPSH_FAIL_OS(err, SPSH_E_IO, failed, "worker threads: %s", spsh__os_text(failed));
        if (failed != 0) /* fewer will do */
            break;
        pool->thread_count++;
    }
    if (rc != SPSH_OK)
        spsh__worker_pool_close(pool);
    else
        *ret_pool = pool;
    return rc;
}

void spsh__worker_pool_close(spsh__worker_pool *pool)
{
    if (pool == NULL)
        return;
    (void)pthread_mutex_lock(&pool->mutex);
    pool->stop = true;
    (void)pthread_cond_broadcast(&pool->work);
    (void)pthread_mutex_unlock(&pool->mutex);
    for (uint32_t at = 0; at < pool->thread_count; at++)
        (void)pthread_join(pool->threads[at], NULL);
    (void)pthread_cond_destroy(&pool->done);
    (void)pthread_cond_destroy(&pool->work);
    (void)pthread_mutex_destroy(&pool->mutex);
    spsh__free(pool->allocator, pool->threads);
    spsh__free(pool->allocator, pool->places);
    spsh__free(pool->allocator, pool);
}

void spsh__worker_pool_put(spsh__worker_pool *pool, void *task)
{
    if (pool->thread_count == 0) {
        pool->work_fn(pool->user, 0, task);
        *place_at(pool, pool->put++) = (place){task, true};
        return;
    }
    (void)pthread_mutex_lock(&pool->mutex);
    *place_at(pool, pool->put++) = (place){task, false};
    (void)pthread_cond_signal(&pool->work);
    (void)pthread_mutex_unlock(&pool->mutex);
}

void *spsh__worker_pool_take(spsh__worker_pool *pool, bool block)
{
    if (pool->taken == pool->put)
        return NULL;
    void *task = NULL;
    (void)pthread_mutex_lock(&pool->mutex);
    const place *oldest = place_at(pool, pool->taken);
    while (!oldest->finished && block)
        (void)pthread_cond_wait(&pool->done, &pool->mutex);
    if (oldest->finished) {
        task = oldest->task;
        pool->taken++;
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    return task;
}
