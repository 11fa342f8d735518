/* fiber.c: contexts of one thread, if the C library has them: a switch takes some hundred
 * nanoseconds. Otherwise, and under sanitizers that track threads and stacks, each fiber is a
 * thread with two semaphores: `go` resumes the body, `back` its caller. No other thread of the
 * group runs between the two, so each sees the writes of the previous one.
 */
#include "fiber.h"

#include "speechshard/inside.h"

enum { STACK_BYTES = 1 << 20 };

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define IS_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED
#endif

#if defined(__GLIBC__) && !defined(IS_SANITIZED)

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

/* An inaccessible guard page is below its stack. */
struct spsh__fiber {
    ucontext_t here, caller;
    void *stack;
    size_t stack_bytes;
    void (*body_fn)(void *user);
    void *user;
    bool has_ended;
    spsh_allocator allocator;
};

/* makecontext passes only ints, so this variable names the fiber whose body is about to begin. */
static _Thread_local struct spsh__fiber *beginner;

static void run(void)
{
    spsh__fiber *f = beginner;
    f->body_fn(f->user);
    f->has_ended = true;
}

static spsh_status take_stack(spsh__fiber *f, size_t stack_bytes, spsh_error *err)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    f->stack_bytes =
        (stack_bytes > 0 ? (stack_bytes + page - 1) / page * page : STACK_BYTES) + page;
    f->stack = mmap(NULL, f->stack_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->stack == MAP_FAILED)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "stack of a simulated learner");
    (void)mprotect(f->stack, page, PROT_NONE);
    return SPSH_OK;
}

spsh_status spsh__fiber_open(const spsh_allocator *allocator, size_t stack_bytes,
                             void (*body_fn)(void *user), void *user, spsh__fiber **ret_fiber,
                             spsh_error *err)
{
    spsh__fiber *f = spsh__new(allocator, 1, sizeof(*f));
    if (f == NULL)
        return SPSH_NO_MEMORY(err);
    f->body_fn = body_fn;
    f->user = user;
    f->allocator = *allocator;
    const spsh_status rc = take_stack(f, stack_bytes, err);
    if (rc != SPSH_OK) {
        spsh__free(allocator, f);
        return rc;
    }
    (void)getcontext(&f->here);
    f->here.uc_stack.ss_sp = f->stack;
    f->here.uc_stack.ss_size = f->stack_bytes;
    f->here.uc_link = &f->caller;
    makecontext(&f->here, run, 0);
    *ret_fiber = f;
    return SPSH_OK;
}

bool spsh__fiber_resume(spsh__fiber *f)
{
    if (f->has_ended)
        return false;
    beginner = f;
    (void)swapcontext(&f->caller, &f->here);
    return !f->has_ended;
}

void spsh__fiber_yield(spsh__fiber *f)
{
    (void)swapcontext(&f->here, &f->caller);
}

void spsh__fiber_close(spsh__fiber *f)
{
    if (f == NULL)
        return;
    (void)munmap(f->stack, f->stack_bytes);
    const spsh_allocator allocator = f->allocator;
    spsh__free(&allocator, f);
}

#else

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>

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

spsh_status spsh__fiber_open(const spsh_allocator *allocator, size_t stack_bytes,
                             void (*body_fn)(void *user), void *user, spsh__fiber **ret_fiber,
                             spsh_error *err)
{
    pthread_attr_t attributes;
    spsh__fiber *f = spsh__new(allocator, 1, sizeof(*f));
    if (f == NULL)
        return SPSH_NO_MEMORY(err);
    f->body_fn = body_fn;
    f->user = user;
    f->allocator = *allocator;
    (void)sem_init(&f->go, 0, 0);
    (void)sem_init(&f->back, 0, 0);
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, stack_bytes > 0 ? stack_bytes : STACK_BYTES);
    const int failed = pthread_create(&f->thread, &attributes, run, f);
    (void)pthread_attr_destroy(&attributes);
    if (failed != 0) {
        (void)sem_destroy(&f->go);
        (void)sem_destroy(&f->back);
        spsh__free(allocator, f);
        return SPSH_FAIL_OS(err, SPSH_E_LIMIT, failed, "cannot start a thread");
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
    if (!f->has_begun) /* the thread waits for this post, skips the body, and ends */
        (void)sem_post(&f->go);
    (void)pthread_join(f->thread, NULL);
    (void)sem_destroy(&f->go);
    (void)sem_destroy(&f->back);
    const spsh_allocator allocator = f->allocator;
    spsh__free(&allocator, f);
}

#endif
