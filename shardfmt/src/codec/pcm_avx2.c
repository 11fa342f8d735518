/* pcm_avx2.c: decode predicted blocks with AVX2: 8 lanes of 32 bits per vector, two vectors per
 * step. A row of the block (16 lanes, 16 samples each) goes through four stages:
 *
 *     1. unpack the group of each lane to 16 values
 *     2. turn lanes into columns, by two 8x8 transpositions of 32-bit pairs
 *     3. make 16 prediction steps, on vectors that hold samples t - 1 and t of a lane per element
 *     4. turn columns back into lanes
 */
#include "pcm_internal.h"

#if defined(__x86_64__)

#include "base/base_internal.h"

#include <immintrin.h>

#define TARGET __attribute__((target("avx2")))
#define INLINE TARGET __attribute__((always_inline)) static inline

#include "pcm_rows.h"

enum { HALF_LANES = 8, ROW_PAIRS = PCM_GROUP_SAMPLES / 2 };
_Static_assert(PCM_ORDER == 8, "predict_two");

/* How to bring fields 0 to 7 of a group into 32-bit elements: source bytes, and the left shift that
 * makes the field's top bit the top bit of the element. Bytes past the group's half are never
 * needed: -1. */
typedef struct unpack_plan {
    int8_t bytes[2][16];
    uint32_t up[2][4];
    uint64_t down;   /* from there to the value */
    uint32_t biases; /* twice the bias, in 16 bits each */
} unpack_plan;

/* clang-format off */
#define BYTE(w_, i_, b_) (int8_t)(((w_) * (i_) / 8 + (b_)) < 16 ? (w_) * (i_) / 8 + (b_) : -1)
#define BYTES(w_, i_)    BYTE(w_, i_, 0), BYTE(w_, i_, 1), BYTE(w_, i_, 2), BYTE(w_, i_, 3)
#define SHIFT(w_, i_)    (32 - (w_) - (w_) * (i_) % 8)
#define PLAN(w_)                                                                                   \
    {{{BYTES(w_, 0), BYTES(w_, 1), BYTES(w_, 2), BYTES(w_, 3)},                                    \
      {BYTES(w_, 4), BYTES(w_, 5), BYTES(w_, 6), BYTES(w_, 7)}},                                   \
     {{SHIFT(w_, 0), SHIFT(w_, 1), SHIFT(w_, 2), SHIFT(w_, 3)},                                    \
      {SHIFT(w_, 4), SHIFT(w_, 5), SHIFT(w_, 6), SHIFT(w_, 7)}},                                   \
     32 - (w_), 0x10001u * (((1u << (w_)) - 1) >> 1)}
/* clang-format on */

static const unpack_plan plans[PCM_WIDTH_MAX + 1] = {
    PLAN(0), PLAN(1),  PLAN(2),  PLAN(3),  PLAN(4),  PLAN(5),  PLAN(6),  PLAN(7),  PLAN(8),
    PLAN(9), PLAN(10), PLAN(11), PLAN(12), PLAN(13), PLAN(14), PLAN(15), PLAN(16),
};

/* Bit lane of bits to byte lane: 0 or -1. */
INLINE __m128i spread_bits(uint16_t bits)
{
    const __m128i bit = _mm_set1_epi64x((int64_t)0x8040201008040201);
    __m128i both = _mm_shuffle_epi8(_mm_cvtsi32_si128(bits), _mm_set_epi64x(0x0101010101010101, 0));
    return _mm_cmpeq_epi8(_mm_and_si128(both, bit), bit);
}

INLINE __m128i add_codes(__m128i widths, const uint8_t *codes)
{
    __m128i low = spread_bits(spsh__load_u16le(codes));
    __m128i high = spread_bits(spsh__load_u16le(codes + 2));
    widths = _mm_sub_epi8(widths, _mm_add_epi8(low, _mm_add_epi8(high, high)));
    return _mm_add_epi8(widths, _mm_set1_epi8(-1));
}

INLINE __m256i load(const void *bytes)
{
    return _mm256_loadu_si256((const __m256i *)bytes);
}

INLINE __m256i load_twice(const void *bytes)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)bytes));
}

INLINE __m256i unpack_group(const uint8_t *groups, const row_layout *row, size_t lane)
{
    const uint8_t *bytes = groups + 2 * (size_t)row->offsets[lane];
    size_t width = row->widths[lane];
    const unpack_plan *plan = &plans[width];
    __m128i low = _mm_loadu_si128((const __m128i *)(const void *)bytes);
    __m128i high = _mm_loadu_si128((const __m128i *)(const void *)(bytes + width));
    __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    __m256i a = _mm256_shuffle_epi8(both, _mm256_broadcastsi128_si256(_mm_loadu_si128(
                                              (const __m128i *)(const void *)plan->bytes[0])));
    __m256i b = _mm256_shuffle_epi8(both, _mm256_broadcastsi128_si256(_mm_loadu_si128(
                                              (const __m128i *)(const void *)plan->bytes[1])));
    a = _mm256_sllv_epi32(a, load_twice(plan->up[0]));
    b = _mm256_sllv_epi32(b, load_twice(plan->up[1]));
    __m128i down = _mm_loadl_epi64((const __m128i *)(const void *)&plan->down);
    __m256i fields = _mm256_packus_epi32(_mm256_srl_epi32(a, down), _mm256_srl_epi32(b, down));
    return _mm256_sub_epi16(fields, _mm256_set1_epi32((int)plan->biases));
}

/* 8x8 elements of 32 bits; its own inverse. */
INLINE void transpose(const __m256i in[8], __m256i out[8])
{
    __m256i a[8];
    __m256i b[8];
    PCM_UNROLL
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_epi32(in[i], in[i + 1]);
        a[i + 1] = _mm256_unpackhi_epi32(in[i], in[i + 1]);
    }
    PCM_UNROLL
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_unpacklo_epi64(a[i], a[i + 2]);
        b[i + 1] = _mm256_unpackhi_epi64(a[i], a[i + 2]);
        b[i + 2] = _mm256_unpacklo_epi64(a[i + 1], a[i + 3]);
        b[i + 3] = _mm256_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
    PCM_UNROLL
    for (int i = 0; i < 4; i++) {
        out[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
        out[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
    }
}

/* State of half of the lanes, carried from column to column: pairs of samples, the later one in the
 * upper half. If t is the next sample and t is even, odd0 holds samples t - 2 and t - 1, odd1 t - 4
 * and t - 3, ...; even0 holds t - 3 and t - 2, ... */
typedef struct lane_state {
    __m256i coefficients[PCM_ORDER / 2];
    __m256i down; /* shift: from an element's lower half to the sum's scale */
    __m256i up;   /* 16 - shift: from the sum's scale to an element's upper half */
    __m256i odd0, odd1, odd2, odd3;
    __m256i even0, even1, even2;
} lane_state;

INLINE __m256i add_product(__m256i sum, __m256i pair, __m256i coefficients)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pair, coefficients));
}

/* The pair that ends with the sample whose sum this is, from the pair before. */
INLINE __m256i make_pair(const lane_state *s, __m256i before, __m256i sum)
{
    return _mm256_blend_epi16(_mm256_srli_epi32(before, 16), _mm256_sllv_epi32(sum, s->up), 0xaa);
}

/* Two prediction steps: from a column's residuals to its samples. */
INLINE __m256i predict_two(lane_state *s, __m256i residuals)
{
    const __m256i upper = _mm256_set1_epi32(-65536);
    const __m256i *c = s->coefficients;
    __m256i sum = _mm256_sllv_epi32(residuals, s->down);
    sum = add_product(sum, s->odd3, c[3]);
    sum = add_product(sum, s->odd2, c[2]);
    sum = add_product(sum, s->odd1, c[1]);
    sum = add_product(sum, s->odd0, c[0]);
    __m256i even = make_pair(s, s->odd0, sum);

    sum = _mm256_srlv_epi32(_mm256_and_si256(residuals, upper), s->up);
    sum = add_product(sum, s->even2, c[3]);
    sum = add_product(sum, s->even1, c[2]);
    sum = add_product(sum, s->even0, c[1]);
    sum = add_product(sum, even, c[0]);
    __m256i odd = make_pair(s, even, sum);

    s->even2 = s->even1;
    s->even1 = s->even0;
    s->even0 = even;
    s->odd3 = s->odd2;
    s->odd2 = s->odd1;
    s->odd1 = s->odd0;
    s->odd0 = odd;
    return odd;
}

INLINE void start_lanes(const pcm_predicted *block, uint32_t first_lane, lane_state *s)
{
    PCM_UNROLL
    for (int k = 0; k < PCM_ORDER / 2; k++)
        s->coefficients[k] = load(block->pairs[k] + first_lane);
    s->down = load(block->shifts + first_lane);
    s->up = _mm256_sub_epi32(_mm256_set1_epi32(16), s->down);
    s->odd0 = s->odd1 = s->odd2 = s->odd3 = load(block->starts + first_lane);
    s->even0 = s->even1 = s->even2 = s->odd0;
}

TARGET bool spsh__pcm_decode_avx2(const pcm_predicted *block, int16_t *pcm)
{
    row_layout rows[PCM_ROWS_MAX] = {{0}};
    lane_state low;
    lane_state high;
    size_t lane_samples = (size_t)block->rows * PCM_GROUP_SAMPLES;

    if (!lay_out(block, rows))
        return false;
    start_lanes(block, 0, &low);
    start_lanes(block, HALF_LANES, &high);
    __m256i lanes[PCM_LANES];
    PCM_UNROLL
    for (size_t i = 0; i < PCM_LANES; i++)
        lanes[i] = unpack_group(block->groups, &rows[0], i);
    for (uint32_t b = 0; b < block->rows; b++, pcm += PCM_GROUP_SAMPLES) {
        const row_layout *next = &rows[b + 1 < block->rows ? b + 1 : b];
        const uint8_t *groups = block->groups + next->base_bytes;
        __m256i columns[PCM_LANES];
        __m256i decoded[PCM_LANES];
        spsh__pcm_prefetch(groups);
        transpose(lanes, columns);
        transpose(lanes + HALF_LANES, columns + HALF_LANES);
        PCM_UNROLL
        for (size_t i = 0; i < ROW_PAIRS; i++) {
            /* The next row is unpacked while the sums of this one wait for each other. */
            columns[i] = predict_two(&low, columns[i]);
            lanes[i] = unpack_group(groups, next, i);
            columns[i + HALF_LANES] = predict_two(&high, columns[i + HALF_LANES]);
            lanes[i + HALF_LANES] = unpack_group(groups, next, i + HALF_LANES);
        }
        transpose(columns, decoded);
        transpose(columns + HALF_LANES, decoded + HALF_LANES);
        PCM_UNROLL
        for (size_t i = 0; i < PCM_LANES; i++)
            _mm256_storeu_si256((__m256i *)(void *)(pcm + i * lane_samples), decoded[i]);
    }
    return true;
}

#endif
