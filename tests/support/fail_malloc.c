/* fail_malloc.c: the linker replaces malloc and its kin by these functions (--wrap). */
#include "fail_malloc.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct fail_malloc fail_malloc = {.at = UINT64_MAX};

/* Returns in each child. In the parent, returns after all children have ended. */
static void fork_at(uint64_t call)
{
    for (int later = 0; later < 2; later++) {
        int status = 0;
        (void)fflush(NULL); /* else the child writes buffered output again */
        const pid_t child = fork();
        if (child == 0) {
            fail_malloc.forks = false;
            fail_malloc.at = call;
            fail_malloc.later_too = later != 0;
            return;
        }
        if (child < 0 || waitpid(child, &status, 0) != child)
            abort();
        fail_malloc.children++;
        fail_malloc.bad_children += status != 0;
    }
}

static bool fails(void)
{
    const uint64_t call = fail_malloc.calls++;
    if (fail_malloc.forks)
        fork_at(call);
    return call == fail_malloc.at || (fail_malloc.later_too && call > fail_malloc.at);
}

/* The names are the linker's.
 * NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming) */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
int __real_posix_memalign(void **memory, size_t alignment, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t size);

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return fails() ? NULL : __real_realloc(memory, size);
}

int __wrap_posix_memalign(void **memory, size_t alignment, size_t size)
{
    return fails() ? ENOMEM : __real_posix_memalign(memory, alignment, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t size)
{
    return fails() ? NULL : __real_strndup(text, size);
}

/* NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming) */
