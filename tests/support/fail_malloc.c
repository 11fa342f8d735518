/* fail_malloc.c: the linker puts these in the place of malloc and its kin (--wrap). */
#include "fail_malloc.h"

#include <errno.h>
#include <stddef.h>

struct fail_malloc fail_malloc = {.at = UINT64_MAX};

static bool fails(void)
{
    const uint64_t call = fail_malloc.calls++;
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
