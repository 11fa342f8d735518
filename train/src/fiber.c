/* fiber.c: a thread and two semaphores each: `go` lets the body run, `back` its caller. Between the
 * two no other thread of the group runs, so that each sees what the one before has written. */
#include "fiber.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>

#include "train_internal.h"

enum { STACK_BYTES = 1 << 20 };

struct spsh__fiber {
    pthread_t thread;
    sem_t go, back;
    void (*body_fn)(void *user);
    void *user;
    bool has_begun, has_ended;
    spsh_allocator allocator;
};

static void take(sem_t *baton)
{
    while (sem_wait(baton) != 0 && errno == EINTR) {
    }
}

static void *run(void *argument)
{
    spsh__fiber *f = (spsh__fiber *)argument;
    take(&f->go);
    if (f->has_begun)
        f->body_fn(f->user);
    f->has_ended = true;
    (void)sem_post(&f->back);
    return NULL;
}

spsh_status spsh__fiber_open(const spsh_allocator *allocator, void (*body_fn)(void *user),
                             void *user, spsh__fiber **ret_fiber, spsh_error *err)
{
    pthread_attr_t attributes;
    spsh__fiber *f = spsh__train_new(allocator, 1, sizeof(*f));
    if (f == NULL)
        return spsh__fail_memory(err);
    f->body_fn = body_fn;
    f->user = user;
    f->allocator = *allocator;
    (void)sem_init(&f->go, 0, 0);
    (void)sem_init(&f->back, 0, 0);
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    const int failed = pthread_create(&f->thread, &attributes, run, f);
    (void)pthread_attr_destroy(&attributes);
    if (failed != 0) {
        (void)sem_destroy(&f->go);
        (void)sem_destroy(&f->back);
        spsh__train_delete(allocator, f);
        return SPSH_FAIL_OS(err, SPSH_E_LIMIT, failed, SPSH_OFFSET_NONE,
                            "a thread cannot be begun");
    }
    *ret_fiber = f;
    return SPSH_OK;
}

bool spsh__fiber_resume(spsh__fiber *f)
{
    if (f->has_ended)
        return false;
    f->has_begun = true;
    (void)sem_post(&f->go);
    take(&f->back);
    return !f->has_ended;
}

void spsh__fiber_yield(spsh__fiber *f)
{
    (void)sem_post(&f->back);
    take(&f->go);
}

void spsh__fiber_close(spsh__fiber *f)
{
    if (f == NULL)
        return;
    if (!f->has_begun) /* its thread waits to be let go: to the end, past the body */
        (void)sem_post(&f->go);
    (void)pthread_join(f->thread, NULL);
    (void)sem_destroy(&f->go);
    (void)sem_destroy(&f->back);
    const spsh_allocator allocator = f->allocator;
    spsh__train_delete(&allocator, f);
}
