/* half.c: float to float16 (half_bits.h), and back. */
#include "half_bits.h"
#include "speechshard/featgen.h"

enum { BLOCK = 64 };

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

/* Two loops, because compilers keep an addition out of a loop in which its sum may not be needed.
 */
static void halve_block(uint16_t *halves, const float *values, size_t count)
{
    int32_t tiny[BLOCK];
    for (size_t i = 0; i < count; i++)
        tiny[i] = spsh__half_of_tiny(values[i]);
    for (size_t i = 0; i < count; i++)
        halves[i] = spsh__half_from(values[i], tiny[i]);
}

void spsh_half_from_float(uint16_t *halves, const float *values, size_t count)
{
    size_t done = 0;
    for (; count - done >= BLOCK; done += BLOCK)
        halve_block(halves + done, values + done, BLOCK);
    halve_block(halves + done, values + done, count - done);
}

void spsh_float_from_half(float *values, const uint16_t *halves, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = float_of(halves[i]);
}
