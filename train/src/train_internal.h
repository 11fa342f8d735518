/* train_internal.h: failing and allocating, for the trainer's sources. */
#ifndef SPSH_TRAIN_INTERNAL_H
#define SPSH_TRAIN_INTERNAL_H

#include <stdbool.h>
#include <string.h>

#include "speechshard/base.h"

/* Expressions, so that the return stays visible; they yield the constant, so that compiler and
 * analyser know that a failure is never SPSH_OK. */
#ifndef SPSH_FAIL
#define SPSH_FAIL(err_, status_, offset_, ...)                                                     \
    (spsh_error_set((err_), (status_), 0, (offset_), __VA_ARGS__), (status_))
#endif
#ifndef SPSH_FAIL_OS
#define SPSH_FAIL_OS(err_, status_, errno_, offset_, ...)                                          \
    (spsh_error_set((err_), (status_), (errno_), (offset_), __VA_ARGS__), (status_))
#endif

/* Zeroed; NULL on failure, or when count * element_bytes does not fit. */
static inline void *spsh__train_new(const spsh_allocator *allocator, size_t count,
                                    size_t element_bytes)
{
    size_t size_bytes = 0;
    if (__builtin_mul_overflow(count, element_bytes, &size_bytes))
        return NULL;
    void *memory = allocator->alloc_fn(allocator->user, size_bytes == 0 ? 1 : size_bytes);
    if (memory != NULL)
        memset(memory, 0, size_bytes);
    return memory;
}

/* NULL is fine. */
static inline void spsh__train_delete(const spsh_allocator *allocator, void *memory)
{
    if (memory != NULL)
        allocator->free_fn(allocator->user, memory);
}

#endif
