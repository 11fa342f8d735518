/* flac_decode_avx2.c: residual and prediction in one pass, and CRC-16, with vector instructions.
 *
 * Two dependency chains limit the speed: the start of the next Rice code (a count of zeros and two
 * shifts), and the value of the next sample. They are independent, so one loop over both keeps the
 * processor busy: the codes in ordinary registers, the prediction in vectors. Partial sums of later
 * samples wait in the elements of acc, and each new sample is multiplied with all taps at once:
 *
 *     next                element 0: sample[t] * tap 0
 *     ready               element 0: contribution of the samples before t to sample t + 1
 *     acc[0] acc[1] ...   element i: contribution of the samples up to t to sample t + 2 + i
 *     taps[0] taps[1] ... element i: tap 1 + i
 *
 *     total     = ready + next + (residual << shift)
 *     sample[t] = total >> shift
 *     ready     = acc
 *     acc       = (acc moved down by one element) + sample[t] * taps
 *
 * The chain from one sample to the next is a shift, a multiplication, and an addition. All other
 * operations have the time of one more sample. Adding the residual before the shift gives the same
 * result if nothing wraps: 32 bits hold a total if the sum of the absolute taps times the largest
 * sample, and the shifted residual, add up to less than 2^31. The code checks that bound. So the
 * first sample that is out of range is stored with its exact value, because all samples before it
 * are in range. Later samples may be wrong.
 */
#include "flac_bits.h"
#include "flac_frames.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2,lzcnt,pclmul")))
#define INLINE TARGET __attribute__((always_inline)) static inline

enum {
    GROUP_TAPS = 4,
    GROUPS_MAX = 8,
    STEP_MAX = 4,
    LONG_STEP_PARAMETER_MAX = 8,
};

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* Compile-time constants of a function. */
typedef struct flac_form {
    unsigned groups; /* vectors of taps */
    unsigned step;   /* codes taken from a window */
    bool is_wide;    /* samples of more than 16 bits */
} flac_form;

typedef struct flac_history {
    __m128i acc[GROUPS_MAX];
    __m128i taps[GROUPS_MAX];
    __m128i ready; /* element 0: acc's for the next sample, which has moved out of it */
    __m128i next;
    __m128i first_tap;
    __m128i shift_count;
    uint32_t shift;
    int64_t raised_max; /* the predictor's */
} flac_history;

/* Taps of 16 bits have zeros above them, because the upper halves of the samples must not count. */
INLINE __m128i multiply(__m128i samples, __m128i taps, bool is_wide)
{
    return is_wide ? _mm_mullo_epi32(samples, taps) : _mm_madd_epi16(samples, taps);
}

/* Append a sample, element 0, to the history. */
INLINE void remember(flac_history *history, __m128i sample, flac_form form)
{
    const __m128i all = _mm_shuffle_epi32(sample, 0);
    history->next = multiply(sample, history->first_tap, form.is_wide);
    history->ready = history->acc[0];
    UNROLL
    for (unsigned i = 0; i < form.groups; i++) {
        __m128i moved = i + 1 < form.groups
                            ? _mm_alignr_epi8(history->acc[i + 1], history->acc[i], 4)
                            : _mm_srli_si128(history->acc[i], 4);
        history->acc[i] = _mm_add_epi32(moved, multiply(all, history->taps[i], form.is_wide));
    }
}

/* raised: element 0 is the residual, shifted. */
INLINE void predict(flac_history *history, __m128i raised, int32_t *out, flac_form form)
{
    __m128i total = _mm_add_epi32(_mm_add_epi32(raised, history->ready), history->next);
    __m128i sample = _mm_srav_epi32(total, history->shift_count);
    _mm_storeu_si32(out, sample);
    remember(history, sample, form);
}

INLINE void begin(flac_history *history, const spsh__flac_predictor *predictor,
                  const int32_t *warm_up, flac_form form)
{
    const __m128i mask = _mm_set1_epi32(form.is_wide ? -1 : UINT16_MAX);
    UNROLL
    for (unsigned i = 0; i < form.groups; i++) {
        const int32_t *taps = predictor->taps + (size_t)GROUP_TAPS * i + 1;
        history->acc[i] = _mm_setzero_si128();
        history->taps[i] =
            _mm_and_si128(_mm_loadu_si128((const __m128i *)(const void *)taps), mask);
    }
    history->ready = _mm_setzero_si128();
    history->next = _mm_setzero_si128();
    history->first_tap = _mm_and_si128(_mm_cvtsi32_si128(predictor->taps[0]), mask);
    history->shift = predictor->shift;
    history->raised_max = predictor->raised_max;
    history->shift_count = _mm_set1_epi32((int32_t)predictor->shift);
    for (uint32_t i = 0; i < predictor->order; i++)
        remember(history, _mm_cvtsi32_si128(warm_up[i]), form);
}

/* Take the folded residual whose code begins at the top of *window. The result includes the stop
 * bit, so it is too large by 1 << parameter. If the window has no one bit, the result is wrong, and
 * *left decreases by 64. */
INLINE uint64_t take_rice(uint64_t *window, uint32_t parameter, uint32_t *left)
{
    uint32_t zeros = (uint32_t)_lzcnt_u64(*window);
    uint64_t rest = *window << (zeros & 63);
    uint32_t low = (uint32_t)(rest >> (63 - parameter));
    *window = rest << (parameter + 1);
    *left -= zeros;
    return (zeros << parameter) + low;
}

/* Convert four folded residuals: remove the stop bits, unfold the signs, and shift. */
INLINE __m128i raise(const uint64_t folded[STEP_MAX], __m128i stop_bits, __m128i shift_count)
{
    __m128i all = _mm_set_epi64x((int64_t)(folded[2] | folded[3] << 32),
                                 (int64_t)(folded[0] | folded[1] << 32));
    all = _mm_sub_epi32(all, stop_bits);
    __m128i sign = _mm_sub_epi32(_mm_setzero_si128(), _mm_and_si128(all, _mm_set1_epi32(1)));
    return _mm_sllv_epi32(_mm_xor_si128(_mm_srli_epi32(all, 1), sign), shift_count);
}

INLINE __m128i raise_one(int32_t residual, uint32_t shift)
{
    return _mm_cvtsi32_si128((int32_t)((uint32_t)residual << shift));
}

INLINE __m128i element(__m128i all, unsigned index)
{
    switch (index) {
    case 1: return _mm_srli_si128(all, 4);
    case 2: return _mm_srli_si128(all, 8);
    case 3: return _mm_srli_si128(all, 12);
    default: return all;
    }
}

typedef struct slow_rice {
    spsh__flac_bits bits;
    int32_t residual;
    bool is_good;
} slow_rice;

/* Arguments are passed by value, so that the loop's copy of bits stays in registers. */
TARGET __attribute__((noinline)) static slow_rice take_slow_rice(spsh__flac_bits bits,
                                                                 uint32_t parameter)
{
    slow_rice result = {bits, 0, false};
    result.is_good = spsh__flac_get_rice(&result.bits, parameter, &result.residual);
    return result;
}

/* Return whether the total stays within 32 bits with this shifted residual. */
INLINE bool is_small(int32_t residual, uint32_t shift, int64_t raised_max)
{
    int64_t raised = (int64_t)residual * (INT64_C(1) << shift);
    return raised >= -raised_max && raised <= raised_max;
}

/* Raw residuals. */
INLINE bool restore_raw(spsh__flac_bits *bits, flac_history *history, uint32_t width, int32_t *out,
                        const int32_t *end, flac_form form)
{
    for (; out < end; out++) {
        int32_t residual = spsh__flac_get_signed(bits, width);
        if (!is_small(residual, history->shift, history->raised_max))
            return false;
        predict(history, raise_one(residual, history->shift), out, form);
    }
    return true;
}

/* Return whether every residual is small if `step` of them fit a window. */
INLINE bool is_step_small(uint32_t step, uint32_t parameter, const flac_history *history)
{
    uint32_t used = step * (parameter + 1);
    return used < 64 && is_small((int32_t)((64 - used) << parameter) / 2 + 1, history->shift,
                                 history->raised_max);
}

/* Decode form.step codes per refilled window, which nearly always fit. Decode other codes one by
 * one. The caller has checked that residuals that fit are small. */
INLINE bool restore_rice(spsh__flac_bits *outer, flac_history *history, uint32_t parameter,
                         int32_t *out, const int32_t *end, flac_form form)
{
    spsh__flac_bits bits = *outer;
    const __m128i stop_bits = _mm_set1_epi32((int32_t)(1u << parameter));
    while (out < end) {
        uint64_t folded[STEP_MAX] = {0};
        spsh__flac_refill(&bits);
        uint64_t window = bits.window;
        uint32_t left = bits.count - form.step * (parameter + 1);
        UNROLL
        for (unsigned i = 0; i < form.step; i++)
            folded[i] = take_rice(&window, parameter, &left);
        if (__builtin_expect(left <= 63 && end - out >= (ptrdiff_t)form.step, 1)) {
            const __m128i raised = raise(folded, stop_bits, history->shift_count);
            bits.window = window;
            bits.count = left;
            UNROLL
            for (unsigned i = 0; i < form.step; i++)
                predict(history, element(raised, i), out + i, form);
            out += form.step;
            continue;
        }
        slow_rice slow = take_slow_rice(bits, parameter);
        if (!slow.is_good || !is_small(slow.residual, history->shift, history->raised_max))
            return false;
        bits = slow.bits;
        predict(history, raise_one(slow.residual, history->shift), out++, form);
    }
    *outer = bits;
    return true;
}

INLINE bool restore(spsh__flac_bits *outer, const spsh__flac_predictor *predictor,
                    const spsh__flac_partitions *partitions, int32_t *plane, flac_form form)
{
    const flac_form half = {form.groups, form.step / 2, form.is_wide};
    spsh__flac_bits bits = *outer;
    flac_history history;
    begin(&history, predictor, plane, form);
    int32_t *out = plane + predictor->order;
    for (uint32_t p = 0; p < partitions->count; p++) {
        uint32_t count = spsh__flac_partition_samples(partitions, p, predictor->order);
        spsh__flac_coding coding;
        if (!spsh__flac_get_coding(&bits, partitions, &coding))
            return false;
        bool is_good = false; /* residuals that are too large for this form are rejected */
        if (coding.is_raw)
            is_good = restore_raw(&bits, &history, coding.bits, out, out + count, form);
        else if (coding.bits <= LONG_STEP_PARAMETER_MAX &&
                 is_step_small(STEP_MAX, coding.bits, &history))
            is_good = restore_rice(&bits, &history, coding.bits, out, out + count, form);
        else if (is_step_small(STEP_MAX / 2, coding.bits, &history))
            is_good = restore_rice(&bits, &history, coding.bits, out, out + count, half);
        if (!is_good)
            return false;
        out += count;
    }
    *outer = bits;
    return true;
}

/* One function per number of vectors, so that the vectors stay in registers. */
#define RESTORE(name_, groups_, is_wide_)                                                          \
    TARGET __attribute__((noinline)) static bool name_(                                            \
        spsh__flac_bits *bits, const spsh__flac_predictor *predictor,                              \
        const spsh__flac_partitions *partitions, int32_t *plane)                                   \
    {                                                                                              \
        return restore(bits, predictor, partitions, plane,                                         \
                       (flac_form){groups_, STEP_MAX, is_wide_});                                  \
    }
RESTORE(restore_5, 1, false)
RESTORE(restore_9, 2, false)
RESTORE(restore_13, 3, false)
RESTORE(restore_32, 8, false)
RESTORE(restore_wide_5, 1, true)
RESTORE(restore_wide_13, 3, true)
RESTORE(restore_wide_32, 8, true)

bool spsh__flac_restore_avx2(spsh__flac_bits *bits, const spsh__flac_predictor *predictor,
                             const spsh__flac_partitions *partitions, int32_t *plane)
{
    bool is_wide = predictor->bits_per_sample > 16;
    spsh__flac_restore_fn *restore_fn = is_wide ? restore_wide_32 : restore_32;
    if (predictor->order <= GROUP_TAPS + 1)
        restore_fn = is_wide ? restore_wide_5 : restore_5;
    else if (predictor->order <= 2 * GROUP_TAPS + 1)
        restore_fn = is_wide ? restore_wide_13 : restore_9;
    else if (predictor->order <= 3 * GROUP_TAPS + 1)
        restore_fn = is_wide ? restore_wide_13 : restore_13;
    return restore_fn(bits, predictor, partitions, plane);
}

TARGET bool spsh__flac_is_within_avx2(const int32_t *plane, uint32_t count,
                                      uint32_t bits_per_sample)
{
    const __m256i half = _mm256_set1_epi32((int32_t)(1u << (bits_per_sample - 1)));
    __m256i outside[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                          _mm256_setzero_si256()};
    uint32_t rest = 0;
    uint32_t i = 0;
    for (; count - i >= 32; i += 32)
        for (uint32_t k = 0; k < 4; k++)
            outside[k] = _mm256_or_si256(
                outside[k],
                _mm256_add_epi32(half,
                                 _mm256_loadu_si256(
                                     (const __m256i *)(const void *)(plane + i + 8 * (size_t)k))));
    for (; i < count; i++)
        rest |= (uint32_t)plane[i] + (1u << (bits_per_sample - 1));
    outside[0] = _mm256_or_si256(_mm256_or_si256(outside[0], outside[1]),
                                 _mm256_or_si256(outside[2], outside[3]));
    const __m256i above = _mm256_set1_epi32((int32_t)(UINT32_MAX << bits_per_sample));
    return _mm256_testz_si256(outside[0], above) != 0 && rest >> bits_per_sample == 0;
}

/* Fold polynomials modulo x^16 + x^15 + x^2 + 1: 16 bytes move up by 128 places, which multiplies
 * their lower half by x^128 and their upper half by x^192. The remainder represents all bytes
 * before it. */
TARGET uint32_t spsh__flac_crc16_pclmul(const uint8_t *data, size_t size_bytes)
{
    const __m128i reverse = _mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f);
    const __m128i powers = _mm_set_epi64x(0x1666, 0x0106);
    uint8_t left[16] = {0};
    if (size_bytes < 32)
        return spsh__flac_crc16(0, data, size_bytes);
    __m128i sum = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)data), reverse);
    size_t done = 16;
    for (; size_bytes - done >= 16; done += 16) {
        __m128i next = _mm_loadu_si128((const __m128i *)(const void *)(data + done));
        __m128i low = _mm_clmulepi64_si128(sum, powers, 0x00);
        __m128i high = _mm_clmulepi64_si128(sum, powers, 0x11);
        sum = _mm_xor_si128(_mm_xor_si128(low, high), _mm_shuffle_epi8(next, reverse));
    }
    _mm_storeu_si128((__m128i *)(void *)left, _mm_shuffle_epi8(sum, reverse));
    return spsh__flac_crc16(spsh__flac_crc16(0, left, sizeof(left)), data + done,
                            size_bytes - done);
}

#endif
