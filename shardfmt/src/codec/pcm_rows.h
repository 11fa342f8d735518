/* pcm_rows.h: the widths of a predicted block, and where its groups begin, for pcm_avx2.c and
 * pcm_avx512.c.
 *
 * Each defines TARGET and INLINE before it, and add_codes after it.
 */
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
