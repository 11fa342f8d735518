/* cpu_pool.c: one word describes the available work.
 *
 *     ticket = number of the run << 32 | pieces that no thread has begun
 *
 * A thread takes a piece by decrementing the word with a compare and swap. After a success, the run
 * of that number is not over, because the taken piece is not done. The data that `run` wrote before
 * it published the word is therefore valid. A late thread finds another number, or no piece, and
 * has read no other data. run thus waits for pieces, never for threads. A thread that sleeps or is
 * held up costs nothing.
 *
 * Threads poll the word for a while before they sleep, because a training step has many short runs.
 * Longer polling would take the core from other processes.
 */
#include "cpu_pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "speechshard/inside.h"

enum { SPINS_MAX = 4000, SPINS_BEFORE_YIELD = 2000 };

struct spsh__cpu_pool {
    spsh_allocator allocator;
    spsh__piece_fn piece_fn;
    void *work;
    _Alignas(64) _Atomic uint64_t ticket;
    _Alignas(64) _Atomic size_t done;
    _Alignas(64) _Atomic uint32_t sleepers;
    _Atomic bool stop;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    uint32_t thread_count;
    pthread_t *threads;
    pid_t pid;   /* process that started the threads: a forked child runs all pieces itself */
    void *block; /* memory from the allocator */
};

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Take and process pieces until none is left. */
static void work_on(spsh__cpu_pool *pool)
{
    uint64_t ticket = atomic_load(&pool->ticket);
    while ((uint32_t)ticket > 0) {
        if (!atomic_compare_exchange_weak(&pool->ticket, &ticket, ticket - 1))
            continue;
        pool->piece_fn(pool->work, (uint32_t)ticket - 1);
        (void)atomic_fetch_add(&pool->done, 1);
        ticket = atomic_load(&pool->ticket);
    }
}

static bool has_work(spsh__cpu_pool *pool)
{
    return (uint32_t)atomic_load(&pool->ticket) > 0 || atomic_load(&pool->stop);
}

static void wait_for_work(spsh__cpu_pool *pool)
{
    for (int spin = 0; spin < SPINS_MAX; spin++) {
        if (has_work(pool))
            return;
        relax();
    }
    (void)pthread_mutex_lock(&pool->mutex);
    (void)atomic_fetch_add(&pool->sleepers, 1);
    while (!has_work(pool))
        (void)pthread_cond_wait(&pool->wake, &pool->mutex);
    (void)atomic_fetch_sub(&pool->sleepers, 1);
    (void)pthread_mutex_unlock(&pool->mutex);
}

static void *worker(void *opaque)
{
    spsh__cpu_pool *pool = (spsh__cpu_pool *)opaque;
    while (!atomic_load(&pool->stop)) {
        wait_for_work(pool);
        work_on(pool);
    }
    return NULL;
}

static void wake_all(spsh__cpu_pool *pool)
{
    (void)pthread_mutex_lock(&pool->mutex);
    (void)pthread_cond_broadcast(&pool->wake);
    (void)pthread_mutex_unlock(&pool->mutex);
}

void spsh__cpu_pool_run(spsh__cpu_pool *pool, spsh__piece_fn piece_fn, void *work, size_t pieces)
{
    if (pool->thread_count == 0 || pieces < 2) {
        for (size_t piece = pieces; piece > 0; piece--)
            piece_fn(work, piece - 1);
        return;
    }
    pool->piece_fn = piece_fn;
    pool->work = work;
    atomic_store(&pool->done, 0);
    const uint64_t number = (atomic_load(&pool->ticket) >> 32) + 1;
    atomic_store(&pool->ticket, number << 32 | (uint32_t)pieces);
    if (atomic_load(&pool->sleepers) > 0 && pool->pid == getpid())
        wake_all(pool);
    work_on(pool);
    for (int spin = 0; atomic_load(&pool->done) < pieces; spin++) {
        if (spin < SPINS_BEFORE_YIELD)
            relax();
        else
            (void)sched_yield();
    }
}

spsh_status spsh__cpu_pool_open(const spsh_allocator *allocator, uint32_t threads,
                                spsh__cpu_pool **ret_pool, spsh_error *err)
{
    void *block = spsh__new(allocator, 1, sizeof(spsh__cpu_pool) + 64);
    if (block == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "thread pool of backend cpu");
    char *aligned = (char *)block + (64 - (uintptr_t)block % 64) % 64;
    spsh__cpu_pool *pool = (spsh__cpu_pool *)(void *)aligned;
    pool->block = block;
    pool->allocator = *allocator;
    pool->pid = getpid();
    (void)pthread_mutex_init(&pool->mutex, NULL);
    (void)pthread_cond_init(&pool->wake, NULL);
    pool->threads = spsh__new(allocator, threads, sizeof(*pool->threads));
    if (pool->threads == NULL) {
        spsh__cpu_pool_close(pool);
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "thread pool of backend cpu: %u threads", threads);
    }
    while (pool->thread_count + 1 < threads) {
        if (pthread_create(&pool->threads[pool->thread_count], NULL, worker, pool) != 0)
            break; /* work with fewer threads */
        pool->thread_count++;
    }
    *ret_pool = pool;
    return SPSH_OK;
}

void spsh__cpu_pool_close(spsh__cpu_pool *pool)
{
    if (pool == NULL)
        return;
    if (pool->pid == getpid()) { /* in a forked child, the mutex may be locked forever */
        atomic_store(&pool->stop, true);
        wake_all(pool);
        for (uint32_t i = 0; i < pool->thread_count; i++)
            (void)pthread_join(pool->threads[i], NULL);
        (void)pthread_cond_destroy(&pool->wake);
        (void)pthread_mutex_destroy(&pool->mutex);
    }
    const spsh_allocator allocator = pool->allocator;
    spsh__free(&allocator, pool->threads);
    spsh__free(&allocator, pool->block);
}
