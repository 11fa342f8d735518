/* pcm_avx512.c: predicted blocks with AVX-512 (BW, VL, VBMI2, VNNI), all 16 lanes in one vector.
 *
 * The stages are those of pcm_avx2.c. Two groups, A and B, are unpacked at once, by word
 * permutations and a funnel shift whose counts are computed from the widths, into A's and B's pairs
 * in turn: that is the first half of the first step of the transposition.
 */
#include "pcm_internal.h"

#if defined(__x86_64__)

#include "base/base_internal.h"

#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi2,avx512vnni")))
#define INLINE TARGET __attribute__((always_inline)) static inline

#include "pcm_rows.h"

enum { ROW_PAIRS = PCM_GROUP_SAMPLES / 2 };
_Static_assert(PCM_ORDER == 8, "predict_two");

INLINE __m128i add_codes(__m128i widths, const uint8_t *codes)
{
    widths = _mm_add_epi8(widths, _mm_set1_epi8(-1));
    widths = _mm_mask_add_epi8(widths, spsh__load_u16le(codes), widths, _mm_set1_epi8(1));
    return _mm_mask_add_epi8(widths, spsh__load_u16le(codes + 2), widths, _mm_set1_epi8(2));
}

/* Fields of a row for unpack_two: 16 bits twice per lane, so that 8 bytes belong to lanes A and B.
 */
typedef struct row_fields {
    uint64_t widths[PCM_LANES / 2];
    uint64_t masks[PCM_LANES / 2];
    uint64_t biases[PCM_LANES / 2];
} row_fields;

INLINE void find_fields(const row_layout *row, row_fields *fields)
{
    __m512i wide =
        _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)row->widths));
    __m512i width = _mm512_or_si512(wide, _mm512_slli_epi32(wide, 16));
    __m512i mask = _mm512_srlv_epi16(_mm512_set1_epi16(-1),
                                     _mm512_sub_epi16(_mm512_set1_epi16(PCM_WIDTH_MAX), width));
    _mm512_storeu_si512(fields->widths, width);
    _mm512_storeu_si512(fields->masks, mask);
    _mm512_storeu_si512(fields->biases, _mm512_srli_epi16(mask, 1));
}

/* Groups A and B to A's pair 0, B's pair 0, A's pair 1, ... width: A's twice, B's twice, and so on.
 */
INLINE __m512i unpack_two(const uint8_t *groups, const row_layout *row, const row_fields *fields,
                          size_t i)
{
    const uint8_t *a = groups + 2 * (size_t)row->offsets[2 * i];
    const uint8_t *b = groups + 2 * (size_t)row->offsets[2 * i + 1];
    __m512i width = _mm512_set1_epi64((int64_t)fields->widths[i]);
    __m512i mask = _mm512_set1_epi64((int64_t)fields->masks[i]);
    __m512i bias = _mm512_set1_epi64((int64_t)fields->biases[i]);
    /* Word i of a group begins at bit i * width; B's bytes are in the upper half, at bit 256. */
    const __m512i index = _mm512_set_epi16(15, 14, 15, 14, 13, 12, 13, 12, 11, 10, 11, 10, 9, 8, 9,
                                           8, 7, 6, 7, 6, 5, 4, 5, 4, 3, 2, 3, 2, 1, 0, 1, 0);
    const __m512i half = _mm512_set1_epi64(0x0100010000000000);
    __m512i bytes = _mm512_inserti64x4(
        _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)a)),
        _mm256_loadu_si256((const __m256i *)(const void *)b), 1);
    __m512i bit = _mm512_add_epi16(_mm512_mullo_epi16(width, index), half);
    __m512i word = _mm512_srli_epi16(bit, 4);
    __m512i low = _mm512_permutexvar_epi16(word, bytes);
    __m512i high = _mm512_permutexvar_epi16(_mm512_add_epi16(word, _mm512_set1_epi16(1)), bytes);
    __m512i values = _mm512_shrdv_epi16(low, high, bit); /* counts are taken modulo 16 */
    return _mm512_sub_epi16(_mm512_and_si512(values, mask), bias);
}

/* 4x4 elements of 128 bits; its own inverse. */
INLINE void transpose_quarters(const __m512i in[4], __m512i out[4])
{
    __m512i a = _mm512_shuffle_i64x2(in[0], in[1], 0x44);
    __m512i b = _mm512_shuffle_i64x2(in[0], in[1], 0xee);
    __m512i c = _mm512_shuffle_i64x2(in[2], in[3], 0x44);
    __m512i d = _mm512_shuffle_i64x2(in[2], in[3], 0xee);
    out[0] = _mm512_shuffle_i64x2(a, c, 0x88);
    out[1] = _mm512_shuffle_i64x2(a, c, 0xdd);
    out[2] = _mm512_shuffle_i64x2(b, d, 0x88);
    out[3] = _mm512_shuffle_i64x2(b, d, 0xdd);
}

/* From unpacked groups to columns: column i holds pair i of every lane. */
INLINE void make_columns(const __m512i two[8], __m512i columns[8])
{
    __m512i even[4];
    __m512i odd[4];
    __m512i out[4];
    PCM_UNROLL
    for (size_t i = 0; i < 4; i++) {
        even[i] = _mm512_unpacklo_epi64(two[2 * i], two[2 * i + 1]);
        odd[i] = _mm512_unpackhi_epi64(two[2 * i], two[2 * i + 1]);
    }
    transpose_quarters(even, out);
    PCM_UNROLL
    for (size_t i = 0; i < 4; i++)
        columns[2 * i] = out[i];
    transpose_quarters(odd, out);
    PCM_UNROLL
    for (size_t i = 0; i < 4; i++)
        columns[2 * i + 1] = out[i];
}

/* Columns 0 to 3 or 4 to 7, to 4 pairs of each lane: quarter q of out[i] is lane 4q + i. */
INLINE void unmake_columns(const __m512i in[4], __m512i out[4])
{
    __m512i a = _mm512_unpacklo_epi32(in[0], in[1]);
    __m512i b = _mm512_unpackhi_epi32(in[0], in[1]);
    __m512i c = _mm512_unpacklo_epi32(in[2], in[3]);
    __m512i d = _mm512_unpackhi_epi32(in[2], in[3]);
    out[0] = _mm512_unpacklo_epi64(a, c);
    out[1] = _mm512_unpackhi_epi64(a, c);
    out[2] = _mm512_unpacklo_epi64(b, d);
    out[3] = _mm512_unpackhi_epi64(b, d);
}

INLINE void store_lanes(const __m512i columns[8], int16_t *pcm, size_t lane_samples)
{
    const __m512i first = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0);
    const __m512i second = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
    __m512i low[4];
    __m512i high[4];
    unmake_columns(columns, low);
    unmake_columns(columns + 4, high);
    PCM_UNROLL
    for (size_t i = 0; i < 4; i++) {
        __m512i a = _mm512_permutex2var_epi64(low[i], first, high[i]);
        __m512i b = _mm512_permutex2var_epi64(low[i], second, high[i]);
        int16_t *out = pcm + i * lane_samples;
        _mm256_storeu_si256((__m256i *)(void *)out, _mm512_castsi512_si256(a));
        _mm256_storeu_si256((__m256i *)(void *)(out + 4 * lane_samples),
                            _mm512_extracti64x4_epi64(a, 1));
        _mm256_storeu_si256((__m256i *)(void *)(out + 8 * lane_samples), _mm512_castsi512_si256(b));
        _mm256_storeu_si256((__m256i *)(void *)(out + 12 * lane_samples),
                            _mm512_extracti64x4_epi64(b, 1));
    }
}

/* Pairs of samples in each lane, the later one in the upper half. With t the next sample, and t
 * even, odd0 holds samples t - 2 and t - 1, odd1 t - 4 and t - 3, ...; even0 holds t - 3 and t - 2,
 * ... */
typedef struct lane_state {
    __m512i coefficients[PCM_ORDER / 2];
    __m512i down; /* shift */
    __m512i up;   /* 16 - shift */
    __m512i odd0, odd1, odd2, odd3;
    __m512i even0, even1, even2;
} lane_state;

/* Two prediction steps: from a column's residuals to its samples. */
INLINE __m512i predict_two(lane_state *s, __m512i residuals)
{
    const __m512i upper = _mm512_set1_epi32(-65536);
    const __m512i *c = s->coefficients;
    __m512i sum = _mm512_sllv_epi32(residuals, s->down);
    sum = _mm512_dpwssd_epi32(sum, s->odd3, c[3]);
    sum = _mm512_dpwssd_epi32(sum, s->odd2, c[2]);
    sum = _mm512_dpwssd_epi32(sum, s->odd1, c[1]);
    sum = _mm512_dpwssd_epi32(sum, s->odd0, c[0]);
    __m512i even = _mm512_shrdi_epi32(s->odd0, _mm512_srlv_epi32(sum, s->down), 16);

    sum = _mm512_srlv_epi32(_mm512_and_si512(residuals, upper), s->up);
    sum = _mm512_dpwssd_epi32(sum, s->even2, c[3]);
    sum = _mm512_dpwssd_epi32(sum, s->even1, c[2]);
    sum = _mm512_dpwssd_epi32(sum, s->even0, c[1]);
    sum = _mm512_dpwssd_epi32(sum, even, c[0]);
    __m512i odd = _mm512_shrdi_epi32(even, _mm512_srlv_epi32(sum, s->down), 16);

    s->even2 = s->even1;
    s->even1 = s->even0;
    s->even0 = even;
    s->odd3 = s->odd2;
    s->odd2 = s->odd1;
    s->odd1 = s->odd0;
    s->odd0 = odd;
    return odd;
}

INLINE void start_lanes(const pcm_predicted *block, lane_state *s)
{
    PCM_UNROLL
    for (int k = 0; k < PCM_ORDER / 2; k++)
        s->coefficients[k] = _mm512_loadu_si512(block->pairs[k]);
    s->down = _mm512_loadu_si512(block->shifts);
    s->up = _mm512_sub_epi32(_mm512_set1_epi32(16), s->down);
    s->odd0 = s->odd1 = s->odd2 = s->odd3 = _mm512_loadu_si512(block->starts);
    s->even0 = s->even1 = s->even2 = s->odd0;
}

TARGET bool spsh__pcm_decode_avx512(const pcm_predicted *block, int16_t *pcm)
{
    row_layout rows[PCM_ROWS_MAX] = {{0}};
    row_fields fields;
    lane_state state;
    __m512i two[ROW_PAIRS];
    size_t lane_samples = (size_t)block->rows * PCM_GROUP_SAMPLES;

    if (!lay_out(block, rows))
        return false;
    start_lanes(block, &state);
    find_fields(&rows[0], &fields);
    PCM_UNROLL
    for (size_t i = 0; i < ROW_PAIRS; i++)
        two[i] = unpack_two(block->groups, &rows[0], &fields, i);
    for (uint32_t b = 0; b < block->rows; b++, pcm += PCM_GROUP_SAMPLES) {
        const row_layout *next = &rows[b + 1 < block->rows ? b + 1 : b];
        const uint8_t *groups = block->groups + next->base_bytes;
        __m512i columns[ROW_PAIRS];
        spsh__pcm_prefetch(groups);
        find_fields(next, &fields);
        make_columns(two, columns);
        PCM_UNROLL
        for (size_t i = 0; i < ROW_PAIRS; i++) {
            /* The next row is unpacked while the sums of this one wait for each other. */
            columns[i] = predict_two(&state, columns[i]);
            two[i] = unpack_two(groups, next, &fields, i);
        }
        store_lanes(columns, pcm, lane_samples);
    }
    return true;
}

#endif
