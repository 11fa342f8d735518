/* pcm_lanes.h: predicted blocks with vectors, the part that pcm_avx2.c and pcm_avx512.c share.
 *
 * Each defines TARGET, INLINE, and VECTOR_BYTES before it, and after it the functions that are only
 * declared here.
 */
#include <immintrin.h>
#include <string.h>

#include "base/base_internal.h"

enum { VECTOR_LANES = VECTOR_BYTES / 4, ROW_PAIRS = PCM_GROUP_SAMPLES / 2 };
_Static_assert(PCM_ORDER == 8, "predict_two");

/* Pairs of 16-bit values, one per lane. */
typedef uint32_t vec __attribute__((vector_size(VECTOR_BYTES)));

/* The widths of all rows, and where each group begins: 16-bit units from the row's base. */
typedef struct row_layout {
    uint32_t base_bytes;
    uint8_t widths[PCM_LANES];
    uint8_t offsets[PCM_LANES];
} row_layout;

/* The widths of the next row: its codes are differences, plus one. */
INLINE __m128i add_codes(__m128i widths, const uint8_t *codes);

TARGET static bool lay_out(const pcm_predicted *block, row_layout *rows)
{
    const __m128i zero = _mm_setzero_si128();
    const __m128i most = _mm_set1_epi8(PCM_WIDTH_MAX);
    const __m128i live_rows = _mm_loadu_si128((const __m128i *)(const void *)block->live_rows);
    const uint8_t *codes = block->widths;
    __m128i widths = zero;
    __m128i largest = zero;
    uint32_t base = 0;

    for (uint32_t b = 0; b < block->rows; b++) {
        if (b < 2) {
            __m128i two = _mm_loadl_epi64((const __m128i *)(const void *)codes);
            __m128i low = _mm_and_si128(two, _mm_set1_epi8(15));
            __m128i high = _mm_and_si128(_mm_srli_epi16(two, 4), _mm_set1_epi8(15));
            widths = _mm_unpacklo_epi8(low, high);
            widths = _mm_sub_epi8(widths, _mm_cmpeq_epi8(widths, _mm_set1_epi8(15)));
            codes += PCM_FIRST_ROW_WIDTH_BYTES;
        } else {
            widths = add_codes(widths, codes);
            codes += PCM_NEXT_ROW_WIDTH_BYTES;
        }
        __m128i live = _mm_cmpgt_epi8(live_rows, _mm_set1_epi8((char)b));
        __m128i used = _mm_and_si128(widths, live);
        largest = _mm_max_epu8(largest, used);
        __m128i sums = _mm_add_epi8(used, _mm_slli_si128(used, 1));
        sums = _mm_add_epi8(sums, _mm_slli_si128(sums, 2));
        sums = _mm_add_epi8(sums, _mm_slli_si128(sums, 4));
        sums = _mm_add_epi8(sums, _mm_slli_si128(sums, 8));
        _mm_storeu_si128((__m128i *)(void *)rows[b].widths, used);
        _mm_storeu_si128((__m128i *)(void *)rows[b].offsets, _mm_slli_si128(sums, 1));
        rows[b].base_bytes = base;
        __m128i total = _mm_sad_epu8(used, zero);
        base += 2 * (uint32_t)(_mm_cvtsi128_si32(total) + _mm_extract_epi16(total, 4));
    }
    return _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(largest, most), most)) == 0xffff &&
           base == block->group_bytes;
}

/* State of VECTOR_LANES lanes, carried from column to column: pairs of samples, the later one in the
 * upper half. If t is the next sample and t is even, odd0 holds samples t - 2 and t - 1, odd1 t - 4
 * and t - 3, ...; even0 holds t - 3 and t - 2, ... */
typedef struct lane_state {
    vec coefficients[PCM_ORDER / 2];
    vec down; /* shift: from an element's lower half to the sum's scale */
    vec up;   /* 16 - shift: from the sum's scale to an element's upper half */
    vec odd0, odd1, odd2, odd3;
    vec even0, even1, even2;
} lane_state;

/* sum, plus the products of both halves. */
INLINE vec add_product(vec sum, vec pair, vec coefficients);

/* The pair that ends with the sample whose sum this is, from the pair before. */
INLINE vec make_pair(const lane_state *s, vec before, vec sum);

/* Two prediction steps: from a column's residuals to its samples. */
INLINE vec predict_two(lane_state *s, vec residuals)
{
    const vec *c = s->coefficients;
    vec sum = residuals << s->down;
    sum = add_product(sum, s->odd3, c[3]);
    sum = add_product(sum, s->odd2, c[2]);
    sum = add_product(sum, s->odd1, c[1]);
    sum = add_product(sum, s->odd0, c[0]);
    vec even = make_pair(s, s->odd0, sum);

    sum = (residuals & 0xffff0000) >> s->up;
    sum = add_product(sum, s->even2, c[3]);
    sum = add_product(sum, s->even1, c[2]);
    sum = add_product(sum, s->even0, c[1]);
    sum = add_product(sum, even, c[0]);
    vec odd = make_pair(s, even, sum);

    s->even2 = s->even1;
    s->even1 = s->even0;
    s->even0 = even;
    s->odd3 = s->odd2;
    s->odd2 = s->odd1;
    s->odd1 = s->odd0;
    s->odd0 = odd;
    return odd;
}

INLINE vec load_lanes(const uint32_t *values)
{
    vec lanes;
    memcpy(&lanes, values, sizeof(lanes));
    return lanes;
}

INLINE void start_lanes(const pcm_predicted *block, uint32_t first_lane, lane_state *s)
{
    PCM_UNROLL
    for (int k = 0; k < PCM_ORDER / 2; k++)
        s->coefficients[k] = load_lanes(block->pairs[k] + first_lane);
    s->down = load_lanes(block->shifts + first_lane);
    s->up = 16 - s->down;
    s->odd0 = s->odd1 = s->odd2 = s->odd3 = load_lanes(block->starts + first_lane);
    s->even0 = s->even1 = s->even2 = s->odd0;
}
