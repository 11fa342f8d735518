/* half.c: IEEE 754 binary16, in integers, so that every processor rounds alike.
 *
 *     float   s eeeeeeee mmmmmmmmmmmmmmmmmmmmmmm      value 2^(e - 127) * 1.m
 *     half    s    eeeee mmmmmmmmmm                   value 2^(e - 15) * 1.m, e = 0: 2^-14 * 0.m
 */
#include "speechshard/featgen.h"

#include <string.h>

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
static uint32_t shift_rounded(uint32_t value, uint32_t shift)
{
    const uint32_t half = UINT32_C(1) << (shift - 1);
    const uint32_t odd = (value >> shift) & 1;
    return (value + half - 1 + odd) >> shift;
}

static uint16_t half_of(float value)
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
        rounded =
            shift_rounded(magnitude - ((uint32_t)EXPONENT_DIFFERENCE << 23), MANTISSA_DROPPED);
    else
        rounded = shift_rounded((magnitude & 0x7fffff) | 0x800000,
                                (uint32_t)(MANTISSA_DROPPED + 1 - exponent));
    return (uint16_t)(sign | (rounded > HALF_LARGEST ? HALF_LARGEST : rounded));
}

static float float_of(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half >> HALF_SIGN_SHIFT) << FLOAT_SIGN_SHIFT;
    const uint32_t exponent = (half >> 10) & 31;
    const uint32_t mantissa = half & 0x3ffU;
    if (exponent == 0) { /* a multiple of 2^-24, exact in a float */
        const float value = (float)mantissa * 0x1p-24F;
        return sign != 0 ? -value : value;
    }
    const uint32_t wide = exponent == 31 ? 255 : exponent + EXPONENT_DIFFERENCE;
    const uint32_t bits = sign | wide << 23 | mantissa << MANTISSA_DROPPED;
    float value = 0;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void spsh_half_from_float(uint16_t *halves, const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        halves[i] = half_of(values[i]);
}

void spsh_float_from_half(float *values, const uint16_t *halves, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = float_of(halves[i]);
}
