/* half_bits.h: a float as IEEE 754 binary16, in integers, so that every processor rounds alike, and
 * a GPU too.
 *
 *     float   s eeeeeeee mmmmmmmmmmmmmmmmmmmmmmm      value 2^(e - 127) * 1.m
 *     half    s    eeeee mmmmmmmmmm                   value 2^(e - 15) * 1.m, e = 0: 2^-14 * 0.m
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
    HALF_EXPONENT_MAX = 30,
    HALF_LARGEST = 0x7bff,
    HALF_NAN = 0x7e00,
};

/* value / 2^shift, to nearest, ties to even; shift is 1 ... 31. */
HALF_INLINE uint32_t spsh__shift_rounded(uint32_t value, uint32_t shift)
{
    const uint32_t half = UINT32_C(1) << (shift - 1);
    const uint32_t odd = (value >> shift) & 1;
    return (value + half - 1 + odd) >> shift;
}

HALF_INLINE uint16_t spsh__half_of(float value)
{
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t sign = bits >> FLOAT_SIGN_SHIFT << HALF_SIGN_SHIFT;
    const uint32_t magnitude = bits & 0x7fffffff;
    const int32_t exponent = (int32_t)(magnitude >> 23) - EXPONENT_DIFFERENCE;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | HALF_NAN);
    if (exponent > HALF_EXPONENT_MAX)
        return (uint16_t)(sign | HALF_LARGEST);
    if (exponent < -10)
        return (uint16_t)sign;
    uint32_t rounded = 0;
    if (exponent > 0) /* a carry out of the mantissa raises the exponent, as it should */
        rounded = spsh__shift_rounded(magnitude - ((uint32_t)EXPONENT_DIFFERENCE << 23),
                                      MANTISSA_DROPPED);
    else
        rounded = spsh__shift_rounded((magnitude & 0x7fffff) | 0x800000,
                                      (uint32_t)(MANTISSA_DROPPED + 1 - exponent));
    return (uint16_t)(sign | (rounded > HALF_LARGEST ? (uint32_t)HALF_LARGEST : rounded));
}

#endif
