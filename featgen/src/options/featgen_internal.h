/* featgen_internal.h: failing and allocating, for featgen's sources. */
#ifndef SPSH_FEATGEN_INTERNAL_H
#define SPSH_FEATGEN_INTERNAL_H

#include <string.h>

#include "speechshard/featgen.h"

/* Expressions, so that the return stays visible; they yield the constant, so that compiler and
 * analyser know that a failure is never SPSH_OK. */
#ifndef SPSH_FAIL
#define SPSH_FAIL(err_, status_, ...)                                                              \
    (spsh_error_set((err_), (status_), 0, SPSH_OFFSET_NONE, __VA_ARGS__), (status_))
#endif

/* Zeroed; NULL on failure, or when count * element_bytes does not fit. */
static inline void *spsh__featgen_new(const spsh_allocator *allocator, size_t count,
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
static inline void spsh__featgen_delete(const spsh_allocator *allocator, void *memory)
{
    if (memory != NULL)
        allocator->free_fn(allocator->user, memory);
}

#endif
