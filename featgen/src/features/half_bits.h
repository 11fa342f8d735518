/* half_bits.h: convert a float to float16 (IEEE 754 binary16) with integer operations, so that
 * every processor and every GPU rounds alike.
 *
 *     float     s eeeeeeee mmmmmmmmmmmmmmmmmmmmmmm    value 2^(e - 127) * 1.m
 *     float16   s    eeeee mmmmmmmmmm                 value 2^(e - 15) * 1.m, e = 0: 2^-14 * 0.m
 */
#ifndef SPSH_HALF_BITS_H
#define SPSH_HALF_BITS_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define HALF_INLINE static __host__ __device__ __forceinline__
#else
#define HALF_INLINE static inline
#endif

enum {
    FLOAT_SIGN_SHIFT = 31,
    HALF_SIGN_SHIFT = 15,
    MANTISSA_DROPPED = 13,     /* 23 - 10 bits */
    EXPONENT_DIFFERENCE = 112, /* 127 - 15 */
    HALF_LARGEST = 0x7bff,
    HALF_NAN = 0x7e00,
    FLOAT_INFINITE = 0x7f800000,
    FLOAT_ONE_HALF = 0x3f000000,
    FLOAT_LEAST_NORMAL_HALF = (EXPONENT_DIFFERENCE + 1) << 23, /* 2^-14 */
};

/* Round to nearest, ties to even, without a branch, in two steps that loops may run one after
 * another.
 *
 * Below 2^-14 the float16 values have the spacing of floats from 1/2 to 1, so adding 1/2 rounds.
 */
HALF_INLINE int32_t spsh__half_of_tiny(float value)
{
    int32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    bits &= 0x7fffffff;
    float sum = 0;
    memcpy(&sum, &bits, sizeof sum);
    sum += 0.5F;
    memcpy(&bits, &sum, sizeof bits);
    return bits - FLOAT_ONE_HALF;
}

/* Convert a float. From 2^-14 on, the exponent is rebased, and the dropped mantissa bits round the
 * rest. A carry out of the mantissa correctly raises the exponent. tiny: result of
 * spsh__half_of_tiny for the same value. */
HALF_INLINE uint16_t spsh__half_from(float value, int32_t tiny)
{
    int32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    const int32_t sign = (int32_t)((uint32_t)bits >> FLOAT_SIGN_SHIFT << HALF_SIGN_SHIFT);
    const int32_t magnitude = bits & 0x7fffffff;
    const int32_t odd = (magnitude >> MANTISSA_DROPPED) & 1;
    const int32_t below = (1 << (MANTISSA_DROPPED - 1)) - 1 + odd;
    const int32_t moved = magnitude - (EXPONENT_DIFFERENCE << 23);
    const int32_t normal = (moved + below) >> MANTISSA_DROPPED;
    int32_t half = magnitude < FLOAT_LEAST_NORMAL_HALF ? tiny : normal;
    half = half > HALF_LARGEST ? HALF_LARGEST : half;
    half = magnitude > FLOAT_INFINITE ? HALF_NAN : half;
    return (uint16_t)(sign | half);
}

HALF_INLINE uint16_t spsh__half_of(float value)
{
    return spsh__half_from(value, spsh__half_of_tiny(value));
}

#endif
