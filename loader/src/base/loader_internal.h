/* loader_internal.h: failing, allocating and byte order, for the loader's sources. */
#ifndef SPSH_LOADER_INTERNAL_H
#define SPSH_LOADER_INTERNAL_H

#include <stdbool.h>
#include <string.h>

#include "speechshard/base.h"

/* Expressions, so that the return stays visible; they yield the constant, so that compiler and
 * analyser know that a failure is never SPSH_OK. */
#ifndef SPSH_FAIL
#define SPSH_FAIL(err_, status_, offset_, ...)                                                     \
    (spsh_error_set((err_), (status_), 0, (offset_), __VA_ARGS__), (status_))
#endif

/* Zeroed; NULL on failure, or when count * element_bytes does not fit. */
static inline void *spsh__new_array(const spsh_allocator *allocator, size_t count,
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

static inline void *spsh__new(const spsh_allocator *allocator, size_t size_bytes)
{
    return spsh__new_array(allocator, 1, size_bytes);
}

/* NULL is fine. */
static inline void spsh__delete(const spsh_allocator *allocator, void *memory)
{
    if (memory != NULL)
        allocator->free_fn(allocator->user, memory);
}

static inline uint32_t spsh__get_u32le(const void *bytes)
{
    const uint8_t *b = (const uint8_t *)bytes;
    return (uint32_t)b[0] | ((uint32_t)b[1] << 8) | ((uint32_t)b[2] << 16) | ((uint32_t)b[3] << 24);
}

static inline uint64_t spsh__get_u64le(const void *bytes)
{
    const uint8_t *b = (const uint8_t *)bytes;
    return (uint64_t)spsh__get_u32le(b) | ((uint64_t)spsh__get_u32le(b + 4) << 32);
}

static inline void spsh__put_u32le(void *bytes, uint32_t value)
{
    uint8_t *b = (uint8_t *)bytes;
    for (int i = 0; i < 4; i++)
        b[i] = (uint8_t)(value >> (8 * i));
}

static inline void spsh__put_u64le(void *bytes, uint64_t value)
{
    uint8_t *b = (uint8_t *)bytes;
    for (int i = 0; i < 8; i++)
        b[i] = (uint8_t)(value >> (8 * i));
}

#endif
