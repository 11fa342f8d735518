/* shard_cache.c: a table of pointers by shard number and a list of open shards that are not in use.
 *
 *     slots[shard] -> entry {shard, users}          NULL: not open
 *     idle list: entries without users, least recently used first; shards are closed from its front
 *
 * One mutex guards both. A shard is opened without holding it, so that threads that miss do not
 * wait for each other. If two threads open the same shard, the second uses the first one's and
 * closes its own.
 *
 * A dataset may be used in a child that was forked while other threads were in here. So fork takes
 * all mutexes first, and parent and child release them: the child finds a complete table and an
 * unlocked mutex. Other threads of the parent never release their shards in the child. These shards
 * stay open until the cache is closed.
 */
#include "shard_cache.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#include "io/io_internal.h"

typedef struct entry {
    spsh_shard *shard;
    uint64_t number;
    uint64_t users;
    struct entry *previous, *next; /* in the idle list, while there are no users */
} entry;

struct spsh__shard_cache {
    spsh_allocator allocator;
    spsh__shard_cache_options options;
    pthread_mutex_t lock;
    entry **slots;
    entry *idle_first, *idle_last;
    uint64_t open_count;
    spsh__shard_cache *previous, *next; /* in the list of all */
};

/* ---- fork ---- */

/* Taken before the mutex of any cache. */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static spsh__shard_cache *all_first;
static int fork_code; /* result of pthread_atfork */

static void before_fork(void)
{
    (void)pthread_mutex_lock(&all_lock);
    for (spsh__shard_cache *at = all_first; at != NULL; at = at->next)
        (void)pthread_mutex_lock(&at->lock);
}

static void after_fork(void)
{
    for (spsh__shard_cache *at = all_first; at != NULL; at = at->next)
        (void)pthread_mutex_unlock(&at->lock);
    (void)pthread_mutex_unlock(&all_lock);
}

static void watch_forks(void)
{
    fork_code = pthread_atfork(before_fork, after_fork, after_fork);
}

static void all_add(spsh__shard_cache *cache)
{
    (void)pthread_mutex_lock(&all_lock);
    cache->next = all_first;
    if (all_first != NULL)
        all_first->previous = cache;
    all_first = cache;
    (void)pthread_mutex_unlock(&all_lock);
}

static void all_remove(spsh__shard_cache *cache)
{
    (void)pthread_mutex_lock(&all_lock);
    if (cache->previous != NULL)
        cache->previous->next = cache->next;
    else
        all_first = cache->next;
    if (cache->next != NULL)
        cache->next->previous = cache->previous;
    (void)pthread_mutex_unlock(&all_lock);
}

/* ---- open and close ---- */

spsh_status spsh__shard_cache_open(const spsh__shard_cache_options *options,
                                   spsh__shard_cache **ret_cache, spsh_error *err)
{
    spsh__shard_cache *cache =
        (spsh__shard_cache *)spsh__new(options->allocator, 1, sizeof(*cache));
    if (cache == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: shard cache", options->dataset_path);
    cache->allocator = *options->allocator;
    cache->options = *options;
    cache->options.allocator = &cache->allocator;
    (void)pthread_once(&fork_once, watch_forks);
    int code = fork_code != 0 ? fork_code : pthread_mutex_init(&cache->lock, NULL);
    if (code != 0) {
        spsh__free(options->allocator, cache);
        return SPSH_FAIL_OS(err, SPSH_E_NO_MEMORY, code, "%s: mutex: %s", options->dataset_path,
                            spsh__os_text(code));
    }
    all_add(cache);
    *ret_cache = cache;
    return SPSH_OK;
}

static void idle_remove(spsh__shard_cache *cache, entry *e)
{
    if (e->previous != NULL)
        e->previous->next = e->next;
    else
        cache->idle_first = e->next;
    if (e->next != NULL)
        e->next->previous = e->previous;
    else
        cache->idle_last = e->previous;
    e->previous = NULL;
    e->next = NULL;
}

static void idle_append(spsh__shard_cache *cache, entry *e)
{
    e->previous = cache->idle_last;
    e->next = NULL;
    if (cache->idle_last != NULL)
        cache->idle_last->next = e;
    else
        cache->idle_first = e;
    cache->idle_last = e;
}

/* Close the least recently used idle shards until `count` more can be opened. */
static void shrink(spsh__shard_cache *cache, uint64_t count)
{
    while (cache->idle_first != NULL && cache->open_count + count > cache->options.open_max) {
        entry *oldest = cache->idle_first;
        idle_remove(cache, oldest);
        cache->slots[oldest->number] = NULL;
        cache->open_count--;
        spsh_shard_close(oldest->shard);
        spsh__free(&cache->allocator, oldest);
    }
}

void spsh__shard_cache_close(spsh__shard_cache *cache)
{
    if (cache == NULL)
        return;
    const spsh_allocator allocator = cache->allocator;
    all_remove(cache);
    for (uint64_t n = 0; cache->slots != NULL && n < cache->options.shard_count; n++) {
        entry *e = cache->slots[n]; /* in use only by threads of a parent */
        if (e != NULL)
            spsh_shard_close(e->shard);
        spsh__free(&allocator, e);
    }
    (void)pthread_mutex_destroy(&cache->lock);
    spsh__free(&allocator, cache->slots);
    spsh__free(&allocator, cache);
}

static spsh_status open_shard(const spsh__shard_cache *cache, uint64_t number,
                              spsh_shard **ret_shard, spsh_error *err)
{
    spsh_shard_options opt = SPSH_SHARD_OPTIONS_INIT;
    spsh_shard_seal seal;
    char file_name[32];
    char name[48];
    spsh_status rc = cache->options.seal_fn(cache->options.user, number, &seal, err);
    if (rc != SPSH_OK)
        return rc;
    spsh_shard_file_name(seal.unit, seal.number, file_name);
    (void)snprintf(name, sizeof(name), "shards/%s", file_name);
    char *path = spsh__path_join(&cache->allocator, cache->options.dataset_path, name);
    if (path == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: path", name);
    opt.allocator = &cache->allocator;
    opt.io = cache->options.io;
    opt.expected = &seal;
    spsh_shard *shard = NULL;
    rc = spsh_shard_open(path, &opt, &shard, err);
    spsh__free(&cache->allocator, path);
    if (rc != SPSH_OK)
        return rc;
    const spsh_shard_seal *found = spsh_shard_info(shard);
    if (found->record_count != seal.record_count ||
        found->utterance_count != seal.utterance_count) {
        rc = SPSH_FAIL(err, SPSH_E_MISMATCH,
                       "%s/%s: the shard has %" PRIu64 " records and %" PRIu64
                       " utterances, but the manifest states %" PRIu64 " and %" PRIu64,
                       cache->options.dataset_path, name, found->record_count,
                       found->utterance_count, seal.record_count, seal.utterance_count);
        spsh_shard_close(shard);
        return rc;
    }
    *ret_shard = shard;
    return SPSH_OK;
}

/* Outside of the lock, because an allocator may fork: fork takes the lock. */
static spsh_status make_slots(spsh__shard_cache *cache, spsh_error *err)
{
    const size_t slot_bytes = sizeof(void *);
    entry **made =
        (entry **)spsh__new(&cache->allocator, 1, (size_t)cache->options.shard_count * slot_bytes);
    if (made == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: table of %" PRIu64 " shards",
                         cache->options.dataset_path, cache->options.shard_count);
    (void)pthread_mutex_lock(&cache->lock);
    if (cache->slots == NULL) {
        cache->slots = made;
        made = NULL;
    }
    (void)pthread_mutex_unlock(&cache->lock);
    spsh__free(&cache->allocator, (void *)made); /* another thread was first */
    return SPSH_OK;
}

/* Under the lock: one more user of a shard that is open; NULL if it is not. */
static const spsh_shard *use(spsh__shard_cache *cache, uint64_t number)
{
    entry *e = cache->slots[number];
    if (e == NULL)
        return NULL;
    if (e->users++ == 0)
        idle_remove(cache, e);
    return e->shard;
}

spsh_status spsh__shard_cache_acquire(spsh__shard_cache *cache, uint64_t shard,
                                      const spsh_shard **ret_shard, spsh_error *err)
{
    if (shard >= cache->options.shard_count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "%s: shard %" PRIu64 " does not exist: there are %" PRIu64 " shards",
                         cache->options.dataset_path, shard, cache->options.shard_count);
    (void)pthread_mutex_lock(&cache->lock);
    const bool has_slots = cache->slots != NULL;
    const spsh_shard *found = has_slots ? use(cache, shard) : NULL;
    (void)pthread_mutex_unlock(&cache->lock);
    spsh_status rc = has_slots ? SPSH_OK : make_slots(cache, err);
    if (rc != SPSH_OK || found != NULL) {
        *ret_shard = found;
        return rc;
    }

    spsh_shard *opened = NULL;
    entry *e = (entry *)spsh__new(&cache->allocator, 1, sizeof(*e));
    if (e == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: shard cache", cache->options.dataset_path);
    rc = open_shard(cache, shard, &opened, err);
    if (rc != SPSH_OK) {
        spsh__free(&cache->allocator, e);
        return rc;
    }
    *e = (entry){.shard = opened, .number = shard, .users = 1};
    (void)pthread_mutex_lock(&cache->lock);
    found = use(cache, shard);
    if (found == NULL) {
        shrink(cache, 1);
        cache->slots[shard] = e;
        cache->open_count++;
        found = opened;
        opened = NULL;
        e = NULL;
    }
    (void)pthread_mutex_unlock(&cache->lock);
    spsh_shard_close(opened); /* another thread was first */
    spsh__free(&cache->allocator, e);
    *ret_shard = found;
    return SPSH_OK;
}

void spsh__shard_cache_release(spsh__shard_cache *cache, uint64_t shard)
{
    (void)pthread_mutex_lock(&cache->lock);
    entry *e = cache->slots[shard];
    if (--e->users == 0) {
        idle_append(cache, e);
        shrink(cache, 0);
    }
    (void)pthread_mutex_unlock(&cache->lock);
}
