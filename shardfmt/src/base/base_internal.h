/* base_internal.h: failing, allocating, checked arithmetic and byte order, for shardfmt's sources.
 */
#ifndef SPSH_BASE_INTERNAL_H
#define SPSH_BASE_INTERNAL_H

#include <stdbool.h>
#include <string.h>

#include "speechshard/base.h"

/* Expressions, so that the return stays visible; they yield the constant, so that compiler and
 * analyser know that a failure is never SPSH_OK. */
#define SPSH_FAIL(err_, status_, offset_, ...)                                                     \
    (spsh_error_set((err_), (status_), 0, (offset_), __VA_ARGS__), (status_))
#define SPSH_FAIL_OS(err_, status_, errno_, offset_, ...)                                          \
    (spsh_error_set((err_), (status_), (errno_), (offset_), __VA_ARGS__), (status_))

/* "No such file or directory" for ENOENT. Thread-safe. */
const char *spsh__os_text(int os_errno);

/* The only places in the libraries that take memory. NULL on failure; spsh__free takes NULL. */
void *spsh__alloc(const spsh_allocator *allocator, size_t size_bytes);
void *spsh__alloc_array(const spsh_allocator *allocator, size_t count, size_t element_bytes);
void *spsh__alloc_zero(const spsh_allocator *allocator, size_t size_bytes);
void spsh__free(const spsh_allocator *allocator, void *memory);

/* false when the result does not fit; *ret is then untouched. */
static inline bool spsh__add_u64(uint64_t a, uint64_t b, uint64_t *ret)
{
    return !__builtin_add_overflow(a, b, ret);
}

static inline bool spsh__mul_u64(uint64_t a, uint64_t b, uint64_t *ret)
{
    return !__builtin_mul_overflow(a, b, ret);
}

/* alignment is a power of two; value must be at most UINT64_MAX - alignment. */
static inline uint64_t spsh__align_up(uint64_t value, uint64_t alignment)
{
    return (value + alignment - 1) & ~(alignment - 1);
}

static inline uint16_t spsh__load_u16le(const void *bytes)
{
    const uint8_t *b = (const uint8_t *)bytes;
    return (uint16_t)(b[0] | (b[1] << 8));
}

static inline uint32_t spsh__load_u32le(const void *bytes)
{
    const uint8_t *b = (const uint8_t *)bytes;
    return (uint32_t)b[0] | ((uint32_t)b[1] << 8) | ((uint32_t)b[2] << 16) | ((uint32_t)b[3] << 24);
}

static inline uint64_t spsh__load_u64le(const void *bytes)
{
    const uint8_t *b = (const uint8_t *)bytes;
    return (uint64_t)spsh__load_u32le(b) | ((uint64_t)spsh__load_u32le(b + 4) << 32);
}

static inline void spsh__store_u16le(void *bytes, uint16_t value)
{
    uint8_t *b = (uint8_t *)bytes;
    b[0] = (uint8_t)value;
    b[1] = (uint8_t)(value >> 8);
}

static inline void spsh__store_u32le(void *bytes, uint32_t value)
{
    uint8_t *b = (uint8_t *)bytes;
    for (int i = 0; i < 4; i++)
        b[i] = (uint8_t)(value >> (8 * i));
}

static inline void spsh__store_u64le(void *bytes, uint64_t value)
{
    uint8_t *b = (uint8_t *)bytes;
    for (int i = 0; i < 8; i++)
        b[i] = (uint8_t)(value >> (8 * i));
}

#endif
