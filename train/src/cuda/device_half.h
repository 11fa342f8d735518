/* device_half.h: 16-bit floats, bit by bit, the same on host and device: bf16 is the upper half of
 * a float; fp16 has 5 exponent bits (bias 15) and 10 fraction bits, with subnormals.
 *
 * Conversion to 16 bits rounds to nearest, ties to even. Values that are too large become infinite.
 * Any NaN becomes 0x7fff, the result of the device's instructions, which are used on the device.
 */
#ifndef SPSH_DEVICE_HALF_H
#define SPSH_DEVICE_HALF_H

#include <string.h>

#include "speechshard/device_text.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

SPSH__INLINE uint32_t spsh__bits_of_f32(float value)
{
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

SPSH__INLINE float spsh__f32_of_bits(uint32_t bits)
{
    float value = 0;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Remove the lowest `drop` bits, to nearest, ties to even. A carry may correctly reach the
 * exponent. */
SPSH__INLINE uint32_t spsh__round_bits(uint32_t bits, uint32_t drop)
{
    const uint32_t half = (1U << (drop - 1)) - 1U;
    return (bits + half + ((bits >> drop) & 1U)) >> drop;
}

SPSH__INLINE uint16_t spsh__bf16_of_f32(float value)
{
#ifdef __CUDA_ARCH__
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
#else
    const uint32_t bits = spsh__bits_of_f32(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) /* not a number */
        return 0x7fff;
    return (uint16_t)spsh__round_bits(bits, 16);
#endif
}

SPSH__INLINE float spsh__f32_of_bf16(uint16_t bits)
{
    return spsh__f32_of_bits((uint32_t)bits << 16);
}

SPSH__INLINE uint16_t spsh__fp16_of_f32(float value)
{
#ifdef __CUDA_ARCH__
    return __half_as_ushort(__float2half_rn(value));
#else
    const uint32_t bits = spsh__bits_of_f32(value);
    const uint32_t sign = (bits >> 16) & 0x8000U;
    const uint32_t size = bits & 0x7fffffffU;
    if (size > 0x7f800000U)
        return 0x7fff;
    if (size >= 0x47800000U) /* 2^16 and above */
        return (uint16_t)(sign | 0x7c00U);
    if (size >= 0x38800000U) /* 2^-14 and above; values that round up to 2^16 become infinite */
        return (uint16_t)(sign | (spsh__round_bits(size, 13) - (112U << 10)));
    if (size < 0x33000000U) /* below 2^-25: nearer to 0 */
        return (uint16_t)sign;
    /* A subnormal: a multiple of 2^-24. */
    const uint32_t exponent = size >> 23;
    const uint32_t fraction = (size & 0x7fffffU) | 0x800000U;
    return (uint16_t)(sign | spsh__round_bits(fraction, 126U - exponent));
#endif
}

SPSH__INLINE float spsh__f32_of_fp16(uint16_t bits)
{
#ifdef __CUDA_ARCH__
    return __half2float(__ushort_as_half(bits));
#else
    const uint32_t sign = (uint32_t)(bits & 0x8000U) << 16;
    const uint32_t size = bits & 0x7fffU;
    if (size >= 0x7c00U) /* infinite, or not a number */
        return spsh__f32_of_bits(sign | 0x7f800000U | (size & 0x3ffU) << 13);
    if (size >= 0x400U)
        return spsh__f32_of_bits(sign | ((size + (112U << 10)) << 13));
    const float value = (float)size * 5.9604644775390625e-8f; /* 2^-24: exact */
    return spsh__f32_of_bits(sign | spsh__bits_of_f32(value));
#endif
}

/* is_bf16: bf16; else fp16. */
SPSH__INLINE uint16_t spsh__half_of_f32(float value, bool is_bf16)
{
    return is_bf16 ? spsh__bf16_of_f32(value) : spsh__fp16_of_f32(value);
}

SPSH__INLINE float spsh__f32_of_half(uint16_t bits, bool is_bf16)
{
    return is_bf16 ? spsh__f32_of_bf16(bits) : spsh__f32_of_fp16(bits);
}

/* An array in device memory, with elements of one of three kinds. */
typedef enum spsh__device_kind {
    SPSH__DEVICE_F32 = 0,
    SPSH__DEVICE_BF16 = 1,
    SPSH__DEVICE_FP16 = 2,
} spsh__device_kind;

typedef struct spsh__device_array {
    void *data;
    spsh__device_kind kind;
} spsh__device_array;

SPSH__INLINE float spsh__device_get(const spsh__device_array *a, uint64_t i)
{
    if (a->kind == SPSH__DEVICE_F32)
        return ((const float *)a->data)[i];
    return spsh__f32_of_half(((const uint16_t *)a->data)[i], a->kind == SPSH__DEVICE_BF16);
}

SPSH__INLINE void spsh__device_set(const spsh__device_array *a, uint64_t i, float value)
{
    if (a->kind == SPSH__DEVICE_F32)
        ((float *)a->data)[i] = value;
    else
        ((uint16_t *)a->data)[i] = spsh__half_of_f32(value, a->kind == SPSH__DEVICE_BF16);
}

#endif
