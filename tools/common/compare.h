/* compare.h: order of numbers, negative, 0, or positive. */
#ifndef SPSH_COMMON_COMPARE_H
#define SPSH_COMMON_COMPARE_H

#include <stdint.h>

static inline int spsh__order_u64(uint64_t left, uint64_t right)
{
    return (left > right) - (left < right);
}

static inline int spsh__order_real(double left, double right)
{
    return (left > right) - (left < right);
}

/* For qsort() and bsearch() over arrays of one number type. */
static inline int spsh__compare_u32(const void *left, const void *right)
{
    return spsh__order_u64(*(const uint32_t *)left, *(const uint32_t *)right);
}

static inline int spsh__compare_u64(const void *left, const void *right)
{
    return spsh__order_u64(*(const uint64_t *)left, *(const uint64_t *)right);
}

static inline int spsh__compare_real(const void *left, const void *right)
{
    return spsh__order_real(*(const double *)left, *(const double *)right);
}

#endif
