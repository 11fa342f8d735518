/* train_internal.h: failing, allocating, byte order and the clock, for the trainer's sources. */
#ifndef SPSH_TRAIN_INTERNAL_H
#define SPSH_TRAIN_INTERNAL_H

#include <stdbool.h>
#include <string.h>
#include <time.h>

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

/* For what is small and says nothing by its size. */
static inline spsh_status spsh__fail_memory(spsh_error *err)
{
    return SPSH_FAIL(err, SPSH_E_NO_MEMORY, SPSH_OFFSET_NONE, "out of memory");
}

/* Of a clock that nobody sets. */
static inline uint64_t spsh__now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static inline double spsh__now_s(void)
{
    return (double)spsh__now_ns() * 1e-9;
}

static inline uint32_t spsh__load_u32le(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

static inline uint64_t spsh__load_u64le(const uint8_t *bytes)
{
    return (uint64_t)spsh__load_u32le(bytes) | (uint64_t)spsh__load_u32le(bytes + 4) << 32;
}

static inline void spsh__store_u32le(uint8_t *bytes, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
}

static inline void spsh__store_u64le(uint8_t *bytes, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
}

#endif
