/* inside.h: helpers for the sources of all parts: errors, memory, byte order, checked arithmetic,
 * digits, UTF-8, hashing, and the clock. Not for users: it changes with any version.
 */
#ifndef SPEECHSHARD_INSIDE_H
#define SPEECHSHARD_INSIDE_H

#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "speechshard/base.h"

/* These macros are expressions, so that callers keep a visible `return`. Their value is the
 * constant status, so that compiler and analyzer know that it is not SPSH_OK. */
#define SPSH_FAIL_AT(err_, status_, offset_, ...)                                                  \
    (spsh_error_set((err_), (status_), 0, (offset_), __VA_ARGS__), (status_))
#define SPSH_FAIL(err_, status_, ...) SPSH_FAIL_AT(err_, status_, SPSH_OFFSET_NONE, __VA_ARGS__)
#define SPSH_FAIL_OS(err_, status_, errno_, ...)                                                   \
    (spsh_error_set((err_), (status_), (errno_), SPSH_OFFSET_NONE, __VA_ARGS__), (status_))
/* For small objects, whose size would not explain the failure. */
#define SPSH_NO_MEMORY(err_) SPSH_FAIL(err_, SPSH_E_NO_MEMORY, "out of memory")

/* Return rc. If it is a failure, copy the kept error to *err. */
static inline spsh_status spsh__fail_again(spsh_status rc, const spsh_error *kept, spsh_error *err)
{
    if (rc != SPSH_OK && err != NULL)
        *err = *kept;
    return rc;
}

/* Allocate uninitialized memory. NULL on failure. */
static inline void *spsh__alloc(const spsh_allocator *allocator, size_t size_bytes)
{
    return allocator->alloc_fn(allocator->user, size_bytes);
}

/* The same for an array; NULL also if its size does not fit. */
static inline void *spsh__alloc_array(const spsh_allocator *allocator, size_t count,
                                      size_t element_bytes)
{
    size_t size_bytes = 0;
    if (__builtin_mul_overflow(count, element_bytes, &size_bytes))
        return NULL;
    return spsh__alloc(allocator, size_bytes);
}

/* A zeroed array, not NULL if it is empty. NULL on failure, or if its size does not fit. */
static inline void *spsh__new(const spsh_allocator *allocator, size_t count, size_t element_bytes)
{
    size_t size_bytes = 0;
    if (__builtin_mul_overflow(count, element_bytes, &size_bytes))
        return NULL;
    void *memory = spsh__alloc(allocator, size_bytes == 0 ? 1 : size_bytes);
    if (memory != NULL)
        memset(memory, 0, size_bytes);
    return memory;
}

/* NULL is fine. */
static inline void spsh__free(const spsh_allocator *allocator, void *memory)
{
    if (memory != NULL)
        allocator->free_fn(allocator->user, memory);
}

/* A zeroed array of `capacity` elements that begins with the first `count` of `array`, which is
 * freed. On failure, return NULL and keep `array`. */
static inline void *spsh__enlarge(const spsh_allocator *allocator, void *array, size_t count,
                                  size_t capacity, size_t element_bytes)
{
    void *larger = spsh__new(allocator, capacity, element_bytes);
    if (larger == NULL)
        return NULL;
    if (count > 0)
        memcpy(larger, array, count * element_bytes);
    spsh__free(allocator, array);
    return larger;
}

/* Return false, with *ret unchanged, if the result does not fit. */
static inline bool spsh__add_u64(uint64_t a, uint64_t b, uint64_t *ret)
{
    return !__builtin_add_overflow(a, b, ret);
}

static inline bool spsh__mul_u64(uint64_t a, uint64_t b, uint64_t *ret)
{
    return !__builtin_mul_overflow(a, b, ret);
}

/* Round up to a multiple of alignment, a power of two. value: at most UINT64_MAX - alignment. */
static inline uint64_t spsh__align_up(uint64_t value, uint64_t alignment)
{
    return (value + alignment - 1) & ~(alignment - 1);
}

/* The greatest common divisor; the other number if one is 0. */
static inline uint64_t spsh__gcd(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Numbers in files: the lowest byte comes first. */
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

/* size: at most 8 bytes. */
static inline uint64_t spsh__load_le(const void *bytes, size_t size)
{
    const uint8_t *b = (const uint8_t *)bytes;
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)b[i] << (8 * i);
    return value;
}

static inline void spsh__store_le(void *bytes, uint64_t value, size_t size)
{
    uint8_t *b = (uint8_t *)bytes;
    for (size_t i = 0; i < size; i++)
        b[i] = (uint8_t)(value >> (8 * i));
}

static inline void spsh__store_u16le(void *bytes, uint16_t value)
{
    spsh__store_le(bytes, value, 2);
}

static inline void spsh__store_u32le(void *bytes, uint32_t value)
{
    spsh__store_le(bytes, value, 4);
}

static inline void spsh__store_u64le(void *bytes, uint64_t value)
{
    spsh__store_le(bytes, value, 8);
}

/* Read the digits at *text as a number, and advance *text past them. Return false, with *text
 * unchanged, if there is no digit or the number is larger than max. */
static inline bool spsh__take_digits(const char **text, uint64_t max, uint64_t *ret)
{
    uint64_t value = 0;
    const char *at = *text;
    for (; *at >= '0' && *at <= '9'; at++) {
        const uint64_t digit = (uint64_t)(*at - '0');
        if (digit > max || value > (max - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    if (at == *text)
        return false;
    *text = at;
    *ret = value;
    return true;
}

/* Bytes of the UTF-8 character at the start of text, 0 if text starts with another byte. By the
 * table of well-formed sequences in the Unicode standard, chapter 3: no overlong forms, no
 * surrogates, nothing above U+10FFFF. NUL is a character. */
static inline size_t spsh__utf8_sequence(spsh_bytes text)
{
    const uint8_t *b = text.data;
    const size_t n = text.size_bytes;
    if (n >= 1 && b[0] < 0x80)
        return 1;
    if (n < 2 || b[0] < 0xc2 || b[0] > 0xf4 || (b[1] & 0xc0) != 0x80)
        return 0;
    if (b[0] < 0xe0)
        return 2;
    if (n < 3 || (b[2] & 0xc0) != 0x80 || (b[0] == 0xe0 && b[1] < 0xa0) ||
        (b[0] == 0xed && b[1] > 0x9f))
        return 0;
    if (b[0] < 0xf0)
        return 3;
    if (n < 4 || (b[3] & 0xc0) != 0x80 || (b[0] == 0xf0 && b[1] < 0x90) ||
        (b[0] == 0xf4 && b[1] > 0x8f))
        return 0;
    return 4;
}

static inline bool spsh__utf8_valid(spsh_bytes text)
{
    while (text.size_bytes > 0) {
        uint64_t word = UINT64_MAX;
        if (text.size_bytes >= sizeof(word))
            memcpy(&word, text.data, sizeof(word));
        /* eight ASCII bytes at a time */
        const size_t size =
            (word & UINT64_C(0x8080808080808080)) == 0 ? sizeof(word) : spsh__utf8_sequence(text);
        if (size == 0)
            return false;
        text.data += size;
        text.size_bytes -= size;
    }
    return true;
}

/* Mixes 64 bits: a bijection in which every bit depends on every other. It is the finalizer of
 * splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014), with
 * Stafford's variant 13 of the constants. */
static inline uint64_t spsh__mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

#ifdef CLOCK_MONOTONIC /* strict C99 lacks it */
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
#endif

#endif
