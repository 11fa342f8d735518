/* pcm_block.c: taking a block apart; the scalar decoder, against which all others are tested. */
#include "pcm_internal.h"

#include "base/base_internal.h"

#include <stdatomic.h>

static atomic_int forced_isa = PCM_ISA_COUNT;

bool spsh__pcm_isa_is_supported(pcm_isa isa)
{
    switch (isa) {
    case PCM_ISA_SCALAR: return true;
#if defined(__x86_64__)
    case PCM_ISA_AVX2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
    case PCM_ISA_AVX512:
        return __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512vnni");
#endif
    default: return false;
    }
}

pcm_isa spsh__pcm_isa(void)
{
    pcm_isa isa = (pcm_isa)atomic_load_explicit(&forced_isa, memory_order_relaxed);
    if (isa != PCM_ISA_COUNT)
        return isa;
    isa = PCM_ISA_AVX512;
    while (!spsh__pcm_isa_is_supported(isa))
        isa = (pcm_isa)(isa - 1);
    return isa;
}

void spsh__pcm_force_isa(pcm_isa isa)
{
    atomic_store_explicit(&forced_isa, (int)isa, memory_order_relaxed);
}

/* The widths of row b, from those of row b - 1. */
static void read_row_codes(const uint8_t *widths, uint32_t b, uint8_t row[PCM_LANES])
{
    if (b < 2) {
        widths += (size_t)b * PCM_FIRST_ROW_WIDTH_BYTES;
        for (int lane = 0; lane < PCM_LANES; lane++) {
            uint8_t code = (uint8_t)(widths[lane / 2] >> (lane % 2 * 4) & 15);
            row[lane] = code == 15 ? PCM_WIDTH_MAX : code;
        }
        return;
    }
    widths += spsh__pcm_width_bytes(b);
    uint32_t low = spsh__load_u16le(widths);
    uint32_t high = spsh__load_u16le(widths + 2);
    for (int lane = 0; lane < PCM_LANES; lane++)
        row[lane] = (uint8_t)(row[lane] + (low >> lane & 1) + 2 * (high >> lane & 1) - 1);
}

/* One value of each lane. Compilers turn loops over lanes into vector instructions. */
typedef int16_t lane_values[PCM_LANES];

static void unpack_group(const uint8_t *bytes, unsigned width, int lane, lane_values *residuals)
{
    uint64_t bits = 0;
    unsigned count = 0;
    uint32_t mask = (UINT32_C(1) << width) - 1;
    for (int i = 0; i < PCM_GROUP_SAMPLES; i++) {
        for (; count < width; count += 8)
            bits |= (uint64_t)*bytes++ << count;
        residuals[i][lane] = (int16_t)(((uint32_t)bits & mask) - (mask >> 1));
        bits >>= width;
        count -= width;
    }
}

/* past is the PCM_ORDER samples before this one, oldest first. */
static void predict(const lane_values coefficients[PCM_ORDER], const uint32_t shifts[PCM_LANES],
                    const lane_values residuals, lane_values past[PCM_ORDER + 1])
{
    uint32_t sums[PCM_LANES] = {0};
    for (int k = 0; k < PCM_ORDER; k++)
        for (int lane = 0; lane < PCM_LANES; lane++)
            sums[lane] += (uint32_t)(coefficients[k][lane] * past[k][lane]);
    for (int lane = 0; lane < PCM_LANES; lane++)
        past[PCM_ORDER][lane] = (int16_t)((uint32_t)residuals[lane] + (sums[lane] >> shifts[lane]));
}

bool spsh__pcm_decode_scalar(const pcm_predicted *block, int16_t *pcm)
{
    uint8_t row[PCM_LANES] = {0};
    lane_values coefficients[PCM_ORDER]; /* coefficient of the oldest sample first */
    lane_values residuals[PCM_GROUP_SAMPLES];
    lane_values samples[PCM_ORDER + PCM_GROUP_SAMPLES];
    size_t lane_samples = (size_t)block->rows * PCM_GROUP_SAMPLES;
    size_t offset = 0;

    for (int lane = 0; lane < PCM_LANES; lane++) {
        for (int k = 0; k < PCM_ORDER; k++) {
            uint32_t pair = block->pairs[k / 2][lane];
            coefficients[PCM_ORDER - 1 - k][lane] = (int16_t)(k % 2 == 0 ? pair >> 16 : pair);
            samples[PCM_GROUP_SAMPLES + k][lane] = (int16_t)block->starts[lane];
        }
    }
    for (uint32_t b = 0; b < block->rows; b++, pcm += PCM_GROUP_SAMPLES) {
        read_row_codes(block->widths, b, row);
        for (int lane = 0; lane < PCM_LANES; lane++) {
            uint8_t width = b < block->live_rows[lane] ? row[lane] : 0;
            size_t bytes = 2 * (size_t)width;
            if (width > PCM_WIDTH_MAX || bytes > block->group_bytes - offset)
                return false;
            unpack_group(block->groups + offset, width, lane, residuals);
            offset += bytes;
        }
        memcpy(samples, samples + PCM_GROUP_SAMPLES, PCM_ORDER * sizeof(samples[0]));
        for (int i = 0; i < PCM_GROUP_SAMPLES; i++)
            predict((const lane_values *)coefficients, block->shifts, residuals[i], samples + i);
        for (size_t lane = 0; lane < PCM_LANES; lane++)
            for (int i = 0; i < PCM_GROUP_SAMPLES; i++)
                pcm[lane * lane_samples + (size_t)i] = samples[PCM_ORDER + i][lane];
    }
    return offset == block->group_bytes;
}

/* Lanes share the sets of coefficients evenly, in order. */
static bool read_sets(const uint8_t *bytes, unsigned sets_log2, pcm_predicted *block)
{
    unsigned set_lanes_log2 = PCM_SETS_LOG2_MAX - sets_log2;
    for (unsigned i = 0; i < 1u << sets_log2; i++, bytes += PCM_SET_BYTES) {
        uint16_t values[PCM_ORDER];
        if (bytes[0] > PCM_SHIFT_MAX)
            return false;
        for (int k = 0; k < PCM_ORDER; k++) {
            uint16_t two = spsh__load_u16le(bytes + 1 + k * PCM_COEFFICIENT_BITS / 8);
            uint16_t field = (uint16_t)(k % 2 == 0 ? two & 0xfff : two >> 4);
            values[k] = (uint16_t)((field ^ 0x800) - 0x800);
        }
        for (unsigned lane = i << set_lanes_log2; lane < (i + 1) << set_lanes_log2; lane++) {
            block->shifts[lane] = bytes[0];
            for (size_t k = 0; k < PCM_ORDER / 2; k++)
                block->pairs[k][lane] = (uint32_t)values[2 * k] << 16 | values[2 * k + 1];
        }
    }
    return true;
}

static void shift_rows(int16_t *pcm, uint32_t rows, unsigned zero_bits)
{
    typedef uint16_t chunk __attribute__((vector_size(16)));
    for (const int16_t *end = pcm + (size_t)rows * PCM_ROW_SAMPLES; pcm < end; pcm += 8) {
        chunk values;
        memcpy(&values, pcm, sizeof(values));
        values <<= zero_bits;
        memcpy(pcm, &values, sizeof(values));
    }
}

/* Parse the head of a predicted block. Returns false if the head is invalid. *zero_bits: low bits
 * that are zero in all samples. */
static bool read_predicted(const uint8_t *bytes, size_t size_bytes, uint32_t samples,
                           pcm_predicted *block, unsigned *zero_bits)
{
    block->rows = (samples + PCM_ROW_SAMPLES - 1) / PCM_ROW_SAMPLES;
    size_t width_bytes = spsh__pcm_width_bytes(block->rows);

    if (size_bytes < PCM_PREDICTED_HEAD_BYTES ||
        (bytes[1] & PCM_SETS_LOG2_MASK) > PCM_SETS_LOG2_MAX)
        return false;
    unsigned sets_log2 = bytes[1] & PCM_SETS_LOG2_MASK;
    size_t starts_bytes = (bytes[1] & PCM_FLAG_STARTS) != 0 ? PCM_STARTS_BYTES : 0;
    size_t sets_bytes = (size_t)PCM_SET_BYTES << sets_log2;
    size_t head_bytes = PCM_PREDICTED_HEAD_BYTES + sets_bytes + starts_bytes + width_bytes;
    *zero_bits = bytes[1] >> PCM_ZERO_BITS_SHIFT;
    if (size_bytes < head_bytes)
        return false;
    bytes += PCM_PREDICTED_HEAD_BYTES;
    if (!read_sets(bytes, sets_log2, block))
        return false;
    for (uint32_t lane = 0; lane < PCM_LANES; lane++) {
        block->live_rows[lane] = (uint8_t)spsh__pcm_live_rows(samples, block->rows, lane);
        if (starts_bytes > 0)
            block->starts[lane] =
                UINT32_C(0x10001) * spsh__load_u16le(bytes + sets_bytes + 2 * (size_t)lane);
    }
    block->widths = bytes + sets_bytes + starts_bytes;
    block->groups = block->widths + width_bytes;
    block->group_bytes = size_bytes - head_bytes;
    return true;
}

static bool decode_predicted(const uint8_t *bytes, size_t size_bytes, uint32_t samples,
                             int16_t *pcm)
{
    static pcm_decode_fn *const decoders[PCM_ISA_COUNT] = {
        [PCM_ISA_SCALAR] = spsh__pcm_decode_scalar,
#if defined(__x86_64__)
        [PCM_ISA_AVX2] = spsh__pcm_decode_avx2,
        [PCM_ISA_AVX512] = spsh__pcm_decode_avx512,
#endif
    };
    pcm_predicted block = {.rows = 0};
    unsigned zero_bits = 0;

    if (!read_predicted(bytes, size_bytes, samples, &block, &zero_bits) ||
        !decoders[spsh__pcm_isa()](&block, pcm))
        return false;
    if (zero_bits > 0)
        shift_rows(pcm, block.rows, zero_bits);
    return true;
}

/* Sixteen lanes of 8 bits: two of 64. */
typedef uint8_t lane_bytes __attribute__((vector_size(16)));
typedef uint64_t lane_words __attribute__((vector_size(16)));

/* Lane i: 255 where bit i is set, else 0. */
static lane_bytes spread_bits(uint32_t bits)
{
    const uint64_t each = UINT64_C(0x0101010101010101);
    const lane_bytes place = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const lane_words both = {(bits & 0xff) * each, (bits >> 8 & 0xff) * each};
    lane_bytes spread;
    memcpy(&spread, &both, sizeof(spread));
    return (lane_bytes)((spread & place) == place);
}

/* Sum the values of all lanes; each is at most 16. */
static uint32_t sum_of_lanes(lane_bytes lanes)
{
    const uint64_t even = UINT64_C(0x00ff00ff00ff00ff);
    uint64_t words[2];
    memcpy(words, &lanes, sizeof(words));
    const uint64_t sums = words[0] + words[1];
    return (uint32_t)(((sums & even) + (sums >> 8 & even)) * UINT64_C(0x0001000100010001) >> 48);
}

/* Do all live groups have a width, and do they end where the block does? */
static bool check_widths(const pcm_predicted *block)
{
    uint8_t first[PCM_LANES] = {0};
    lane_bytes widths = {0};
    lane_bytes live, wrong = {0};
    size_t bytes = 0;

    memcpy(&live, block->live_rows, sizeof(live));
    for (uint32_t b = 0; b < block->rows; b++) {
        if (b < 2) {
            read_row_codes(block->widths, b, first);
            memcpy(&widths, first, sizeof(widths));
        } else {
            const uint8_t *codes = block->widths + spsh__pcm_width_bytes(b);
            const lane_bytes high = spread_bits(spsh__load_u16le(codes + 2));
            widths -= spread_bits(spsh__load_u16le(codes)) + high + high + 1;
        }
        const lane_bytes row = {0};
        const lane_bytes used = widths & (lane_bytes)(live > row + (uint8_t)b);
        wrong |= (lane_bytes)(used > row + PCM_WIDTH_MAX);
        bytes += 2 * (size_t)sum_of_lanes(used);
    }
    uint64_t any[2];
    memcpy(any, &wrong, sizeof(any));
    return (any[0] | any[1]) == 0 && bytes == block->group_bytes;
}

bool spsh__pcm_block_check(const uint8_t *block, size_t block_bytes, uint32_t samples)
{
    pcm_predicted predicted = {.rows = 0};
    unsigned zero_bits = 0;
    if (block_bytes == 0 || block_bytes > PCM_BLOCK_BYTES_MAX(samples))
        return false;
    switch (block[0]) {
    case PCM_FORM_RAW: return block_bytes == PCM_BLOCK_BYTES_MAX(samples);
    case PCM_FORM_CONSTANT: return block_bytes == PCM_BLOCK_BYTES_MAX(1);
    case PCM_FORM_PREDICTED:
        return read_predicted(block, block_bytes, samples, &predicted, &zero_bits) &&
               check_widths(&predicted);
    default: return false;
    }
}

bool spsh__pcm_block_decode(const uint8_t *block, size_t block_bytes, size_t readable_bytes,
                            uint32_t samples, int16_t *pcm)
{
    if (block_bytes == 0 || block_bytes > PCM_BLOCK_BYTES_MAX(samples))
        return false;
    if (block[0] == PCM_FORM_RAW && block_bytes == PCM_BLOCK_BYTES_MAX(samples)) {
        for (uint32_t i = 0; i < samples; i++)
            pcm[i] = (int16_t)spsh__load_u16le(block + 1 + 2 * (size_t)i);
        return true;
    }
    if (block[0] == PCM_FORM_CONSTANT && block_bytes == PCM_BLOCK_BYTES_MAX(1)) {
        int16_t value = (int16_t)spsh__load_u16le(block + 1);
        for (uint32_t i = 0; i < samples; i++)
            pcm[i] = value;
        return true;
    }
    if (block[0] != PCM_FORM_PREDICTED)
        return false;
    if (readable_bytes - block_bytes >= PCM_READ_AHEAD_BYTES)
        return decode_predicted(block, block_bytes, samples, pcm);
    /* The block is at the end of the readable bytes: copy it, since decoders read ahead. */
    uint8_t copy[PCM_BLOCK_BYTES_MAX(SPSH_PCM_FRAME_SAMPLES) + PCM_READ_AHEAD_BYTES];
    memcpy(copy, block, block_bytes);
    memset(copy + block_bytes, 0, PCM_READ_AHEAD_BYTES);
    return decode_predicted(copy, block_bytes, samples, pcm);
}
