/* flac_bits.h: bit reader for FLAC frames, most significant bit first, and the Rice code. Both
 * forms of the decoder use it.
 *
 *     window   next bits from the top; the bits after the first `count` are valid too, or zero
 *     offset   first byte that is not whole in the counted part
 *
 * A refill brings count to 56 or more with one unaligned load. Zeros follow the end of the data.
 * The caller compares spsh__flac_bits_position with the size after reading everything.
 */
#ifndef SPSH_FLAC_BITS_H
#define SPSH_FLAC_BITS_H

#include "base/base_internal.h"

#include <stdbool.h>

#define SPSH__FLAC_ORDER_MAX 32
#define SPSH__FLAC_INLINE    __attribute__((always_inline)) static inline

typedef struct spsh__flac_bits {
    const uint8_t *data;
    size_t size_bytes;
    size_t offset;
    uint64_t window;
    uint32_t count;
} spsh__flac_bits;

/* Sample t is residual[t] + (sum over j of taps[j] * sample[t - 1 - j]) >> shift. */
typedef struct spsh__flac_predictor {
    uint32_t order;
    uint32_t shift;
    uint32_t bits_per_sample;
    bool wraps;         /* plain C form: samples may leave their range, modulo 2^32 */
    bool is_narrow;     /* with wraps: sums are modulo 2^32 too */
    int64_t raised_max; /* vector form: maximum shifted residual for a total that fits 32 bits */
    int32_t taps[SPSH__FLAC_ORDER_MAX + 1]; /* zeros from order on */
} spsh__flac_predictor;

/* Division of the residual: 2^partition_order parts of the block, parameters of 4 or 5 bits. */
typedef struct spsh__flac_partitions {
    uint32_t count;
    uint32_t samples; /* samples per part; the first has `order` fewer */
    uint32_t parameter_bits;
    bool is_plain; /* reject codings that 16-bit samples do not need */
} spsh__flac_partitions;

/* Read the residual that follows the warm-up samples plane[0] to plane[order - 1], and predict. */
typedef bool spsh__flac_restore_fn(spsh__flac_bits *bits, const spsh__flac_predictor *predictor,
                                   const spsh__flac_partitions *partitions, int32_t *plane);
#if defined(__x86_64__)
spsh__flac_restore_fn spsh__flac_restore_avx2;
/* Return whether all samples have at most bits_per_sample bits. */
bool spsh__flac_is_within_avx2(const int32_t *plane, uint32_t count, uint32_t bits_per_sample);
uint32_t spsh__flac_crc16_pclmul(const uint8_t *data, size_t size_bytes);
#endif

SPSH__FLAC_INLINE uint64_t spsh__flac_load_u64be(const uint8_t *b)
{
    return (uint64_t)b[0] << 56 | (uint64_t)b[1] << 48 | (uint64_t)b[2] << 40 |
           (uint64_t)b[3] << 32 | (uint64_t)b[4] << 24 | (uint64_t)b[5] << 16 |
           (uint64_t)b[6] << 8 | b[7];
}

/* Load the last bytes of the data, followed by zeros. Arguments are passed by value, so that the
 * caller's copy can stay in registers. */
__attribute__((noinline, unused)) static uint64_t
spsh__flac_load_tail(const uint8_t *data, size_t size_bytes, size_t offset)
{
    uint64_t value = 0;
    for (size_t i = 0; i < 8; i++)
        value =
            value << 8 | (offset < size_bytes && i < size_bytes - offset ? data[offset + i] : 0);
    return value;
}

/* Refill the window. count is below 64. */
SPSH__FLAC_INLINE void spsh__flac_refill(spsh__flac_bits *bits)
{
    uint64_t next = 0;
    if (__builtin_expect(bits->offset + 8 <= bits->size_bytes, 1))
        next = spsh__flac_load_u64be(bits->data + bits->offset);
    else
        next = spsh__flac_load_tail(bits->data, bits->size_bytes, bits->offset);
    bits->window |= next >> bits->count;
    bits->offset += (63 - bits->count) >> 3;
    bits->count |= 56;
}

/* Drop 0 to 63 available bits. */
SPSH__FLAC_INLINE void spsh__flac_drop(spsh__flac_bits *bits, uint32_t count)
{
    bits->window <<= count;
    bits->count -= count;
}

/* Read 0 to 32 bits. */
SPSH__FLAC_INLINE uint32_t spsh__flac_get(spsh__flac_bits *bits, uint32_t count)
{
    if (bits->count < count)
        spsh__flac_refill(bits);
    uint32_t value = (uint32_t)((bits->window >> 1) >> (63 - count));
    spsh__flac_drop(bits, count);
    return value;
}

/* Read 0 to 32 bits as two's complement. */
SPSH__FLAC_INLINE int32_t spsh__flac_get_signed(spsh__flac_bits *bits, uint32_t count)
{
    if (count == 0)
        return 0;
    uint32_t value = spsh__flac_get(bits, count) << (32 - count);
    return (int32_t)value >> (32 - count);
}

/* Return the number of bits from the start of the data to the next bit. */
SPSH__FLAC_INLINE uint64_t spsh__flac_bits_position(const spsh__flac_bits *bits)
{
    return (uint64_t)bits->offset * 8 - bits->count;
}

/* Count zeros up to a one bit, and drop them with it. Returns UINT32_MAX for more than `most`
 * zeros. */
SPSH__FLAC_INLINE uint32_t spsh__flac_get_unary(spsh__flac_bits *bits, uint32_t most)
{
    uint32_t zeros = 0;
    for (;;) {
        spsh__flac_refill(bits);
        uint32_t now = (uint32_t)__builtin_clzll(bits->window | 1);
        if (now < bits->count && bits->window != 0) {
            spsh__flac_drop(bits, now);
            spsh__flac_drop(bits, 1);
            return zeros + now > most ? UINT32_MAX : zeros + now;
        }
        zeros += bits->count - 1; /* a shift by 64 is not defined */
        spsh__flac_drop(bits, bits->count - 1);
        if (zeros > most || bits->offset > bits->size_bytes + 8)
            return UINT32_MAX;
    }
}

SPSH__FLAC_INLINE int32_t spsh__flac_unfold(uint32_t folded)
{
    return (int32_t)(folded >> 1 ^ (0u - (folded & 1)));
}

/* Read one residual of any length. Returns false for more than 30 bits, which plain residuals never
 * have. */
SPSH__FLAC_INLINE bool spsh__flac_get_rice(spsh__flac_bits *bits, uint32_t parameter,
                                           int32_t *ret_residual)
{
    uint32_t high = spsh__flac_get_unary(bits, UINT32_C(0x3fffffff) >> parameter);
    if (high == UINT32_MAX)
        return false;
    *ret_residual = spsh__flac_unfold(high << parameter | spsh__flac_get(bits, parameter));
    return true;
}

/* Coding at the begin of a partition. */
typedef struct spsh__flac_coding {
    bool is_raw;
    uint32_t bits; /* Rice parameter, or width of raw residuals */
} spsh__flac_coding;

/* Read the coding. Returns false if only plain partitions are allowed and this one is wider. */
SPSH__FLAC_INLINE bool spsh__flac_get_coding(spsh__flac_bits *bits,
                                             const spsh__flac_partitions *partitions,
                                             spsh__flac_coding *ret_coding)
{
    enum { PARAMETER_MAX = 20, RAW_MAX = 24 };
    uint32_t value = spsh__flac_get(bits, partitions->parameter_bits);
    ret_coding->is_raw = value == (1u << partitions->parameter_bits) - 1;
    ret_coding->bits = ret_coding->is_raw ? spsh__flac_get(bits, 5) : value;
    return !partitions->is_plain ||
           ret_coding->bits <= (ret_coding->is_raw ? RAW_MAX : PARAMETER_MAX);
}

/* Return the sample count of a partition; the first has `order` samples fewer. */
SPSH__FLAC_INLINE uint32_t spsh__flac_partition_samples(const spsh__flac_partitions *partitions,
                                                        uint32_t index, uint32_t order)
{
    return partitions->samples - (index == 0 ? order : 0);
}

#endif
