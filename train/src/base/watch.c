/* watch.c: see watch.h. While polling is off, the thread sleeps until its owner wakes it. A poll is
 * much shorter than a sleep, so it hardly slows a computation on the same core.
 */
#include "watch.h"

#include <errno.h>

#include "steady_wait.h"

struct spsh__watch {
    spsh_allocator allocator;
    bool (*poll_fn)(void *user);
    void *user;
    uint64_t pause_ns;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t news;
    bool is_looking, is_closing;
};

static void *run(void *user)
{
    spsh__watch *w = user;
    (void)pthread_mutex_lock(&w->lock);
    while (!w->is_closing) {
        if (!w->is_looking) {
            (void)pthread_cond_wait(&w->news, &w->lock);
            continue;
        }
        const struct timespec end = spsh__timespec_of(spsh__now_ns() + w->pause_ns);
        (void)pthread_cond_timedwait(&w->news, &w->lock, &end);
        if (w->is_looking && !w->is_closing)
            w->is_looking = w->poll_fn(w->user);
    }
    (void)pthread_mutex_unlock(&w->lock);
    return NULL;
}

spsh_status spsh__watch_open(bool (*poll_fn)(void *user), void *user, uint64_t pause_ns,
                             const spsh_allocator *allocator, spsh__watch **ret, spsh_error *err)
{
    spsh__watch *w = spsh__new(allocator, 1, sizeof(*w));
    if (w == NULL)
        return SPSH_NO_MEMORY(err);
    *w = (spsh__watch){
        .allocator = *allocator, .poll_fn = poll_fn, .user = user, .pause_ns = pause_ns};
    (void)pthread_mutex_init(&w->lock, NULL);
    const int failed =
        spsh__steady_cond_init(&w->news) ? pthread_create(&w->thread, NULL, run, w) : ENOMEM;
    if (failed == 0) {
        *ret = w;
        return SPSH_OK;
    }
    (void)pthread_cond_destroy(&w->news);
    (void)pthread_mutex_destroy(&w->lock);
    spsh__free(allocator, w);
    return SPSH_FAIL_OS(err, SPSH_E_LIMIT, failed, "cannot start a thread");
}

void spsh__watch_close(spsh__watch *w)
{
    if (w == NULL)
        return;
    const spsh_allocator allocator = w->allocator;
    (void)pthread_mutex_lock(&w->lock);
    w->is_closing = true;
    (void)pthread_cond_signal(&w->news);
    (void)pthread_mutex_unlock(&w->lock);
    (void)pthread_join(w->thread, NULL);
    (void)pthread_cond_destroy(&w->news);
    (void)pthread_mutex_destroy(&w->lock);
    spsh__free(&allocator, w);
}

void spsh__watch_enter(spsh__watch *w)
{
    if (w != NULL)
        (void)pthread_mutex_lock(&w->lock);
}

void spsh__watch_leave(spsh__watch *w, bool is_looking)
{
    if (w == NULL)
        return;
    const bool is_news = is_looking && !w->is_looking;
    w->is_looking = is_looking;
    if (is_news)
        (void)pthread_cond_signal(&w->news);
    (void)pthread_mutex_unlock(&w->lock);
}
