/* resample8k.c: one windowed sinc with its cutoff at 4 kHz, for every rate.
 *
 * The low-pass is the same function of time for all rates: a 4 kHz sinc under a Blackman window of
 * +-2 ms. It is sampled at the distances that rate and phase require. Output n is at n * M / L
 * input samples, with L / M = 8000 / rate in lowest terms. So there are L phases with one set of
 * coefficients each.
 *
 * Coefficients are 14-bit integers that sum to 2^14 in every phase, so a constant input stays
 * constant. The sum of their magnitudes is below 65,536 for all rates (a test checks this). So with
 * 16-bit samples a 32-bit accumulator cannot overflow, and the order of additions does not matter.
 */
#include "resample8k.h"

#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "cosine.h"
#include "speechshard/inside.h"

enum { ONE_BITS = 14, TAPS_ALIGN = 8 };

/* 2^24 / (2 pi). A sine is divided by its angle, which is in turns times 2^24. */
#define SINC_SCALE INT64_C(2670177)

struct spsh__resample8k {
    uint32_t rate_hz;
    uint32_t phase_count; /* L in the comment above */
    uint32_t step;        /* M in the comment above */
    uint32_t half;        /* taps on each side of the center */
    uint32_t taps;        /* 2 * half + 1, rounded up; the additional taps are 0 */
    int16_t *coefficients;
    int16_t *history; /* input samples from history_start on */
    uint64_t received;
    uint64_t history_start; /* in input samples; counts the `half` zeros before the first sample */
    size_t history_count;
    uint64_t base; /* input position of the next output: whole samples and phase */
    uint32_t phase;
};

static int64_t floor_divide(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* Return the filter at distance / (L * rate) seconds, times 2^30. */
static int64_t filter_at(int64_t distance, int64_t unit)
{
    const int64_t one = INT64_C(1) << SPSH__TURN_BITS;
    if (distance < 0)
        distance = -distance;
    const int64_t angle = 4000 * distance * one / unit; /* turns of 4 kHz */
    if (angle >= 8 * one)                               /* 2 ms */
        return 0;
    int64_t sinc = SPSH__COSINE_1;
    if (angle != 0)
        sinc = floor_divide(spsh__cosine_fine(angle + 3 * one / 4) * SINC_SCALE, angle);
    const int64_t turn = angle >> 4; /* the window ends at half a turn */
    const int64_t window = floor_divide(42 * INT64_C(1073741824) + 50 * spsh__cosine_fine(turn) +
                                            8 * spsh__cosine_fine(2 * turn),
                                        100);
    return floor_divide(sinc * window, SPSH__COSINE_1);
}

/* Make the coefficients of one phase. The rounding error of their sum, which must be 2^14, goes to
 * the first of the largest coefficients. */
static void make_phase(const spsh__resample8k *resampler, uint32_t phase, int16_t *taps)
{
    const int64_t rate = resampler->rate_hz;
    const int64_t unit = (int64_t)resampler->phase_count * rate;
    int64_t sum = 0;
    uint32_t largest = 0;

    for (uint32_t tap = 0; tap < 2 * resampler->half + 1; tap++) {
        const int64_t input = (int64_t)tap - (int64_t)resampler->half;
        const int64_t value = filter_at(input * resampler->phase_count - phase, unit);
        taps[tap] = (int16_t)floor_divide(value * SPSH__PRINT_RATE_HZ + (rate << 15), rate << 16);
        sum += taps[tap];
        if (taps[tap] > taps[largest])
            largest = tap;
    }
    taps[largest] = (int16_t)(taps[largest] + (1 << ONE_BITS) - sum);
}

spsh_status spsh__resample8k_new(uint32_t rate_hz, spsh__resample8k **ret_resampler,
                                 spsh_error *err)
{
    if (rate_hz < SPSH__PRINT_RATE_HZ || rate_hz > SPSH__SOURCE_RATE_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "a fingerprint needs 8,000 to 192,000 Hz, not %u Hz", rate_hz);
    spsh__resample8k *resampler = calloc(1, sizeof(*resampler));
    if (resampler == NULL)
        return SPSH_NO_MEMORY(err);
    const uint32_t factor = (uint32_t)spsh__gcd(rate_hz, SPSH__PRINT_RATE_HZ);
    resampler->rate_hz = rate_hz;
    resampler->phase_count = SPSH__PRINT_RATE_HZ / factor;
    resampler->step = rate_hz / factor;
    resampler->half = (rate_hz + 499) / 500;
    resampler->taps = (2 * resampler->half + TAPS_ALIGN) / TAPS_ALIGN * TAPS_ALIGN;
    resampler->coefficients =
        calloc((size_t)resampler->phase_count * resampler->taps, sizeof(int16_t));
    /* Capacity: one batch, the length of the filter, and the samples that the aligned taps read
     * past it. */
    resampler->history =
        calloc(SPSH__RESAMPLE_IN_MAX + 2 * (size_t)resampler->taps + TAPS_ALIGN, sizeof(int16_t));
    if (resampler->coefficients == NULL || resampler->history == NULL) {
        spsh__resample8k_free(resampler);
        return SPSH_NO_MEMORY(err);
    }
    for (uint32_t phase = 0; phase < resampler->phase_count; phase++)
        make_phase(resampler, phase, resampler->coefficients + (size_t)phase * resampler->taps);
    spsh__resample8k_reset(resampler);
    *ret_resampler = resampler;
    return SPSH_OK;
}

/* Return the sum of products. The values are integers, so the order of additions is free. */
static int32_t multiply_add(const int16_t *samples, const int16_t *taps, uint32_t count)
{
#ifdef __SSE2__
    __m128i sum = _mm_setzero_si128();
    for (uint32_t i = 0; i < count; i += TAPS_ALIGN) {
        const __m128i x = _mm_loadu_si128((const void *)(samples + i));
        const __m128i h = _mm_loadu_si128((const void *)(taps + i));
        sum = _mm_add_epi32(sum, _mm_madd_epi16(x, h));
    }
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1));
    return _mm_cvtsi128_si32(sum);
#else
    int32_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += samples[i] * taps[i];
    return sum;
#endif
}

/* Make all outputs for which the samples of all taps have arrived. */
static size_t make_output(spsh__resample8k *resampler, uint64_t base_end, int32_t *out)
{
    const int32_t half_unit = 1 << (ONE_BITS - SPSH__RESAMPLE_ONE_BITS - 1);
    size_t count = 0;

    while (resampler->base < base_end) {
        const int16_t *samples = resampler->history + (resampler->base - resampler->history_start);
        const int16_t *taps = resampler->coefficients + (size_t)resampler->phase * resampler->taps;
        out[count++] = (multiply_add(samples, taps, resampler->taps) + half_unit) >>
                       (ONE_BITS - SPSH__RESAMPLE_ONE_BITS);
        resampler->phase += resampler->step;
        resampler->base += resampler->phase / resampler->phase_count;
        resampler->phase %= resampler->phase_count;
    }
    return count;
}

size_t spsh__resample8k_push(spsh__resample8k *resampler, const int16_t *samples, size_t count,
                             int32_t *out)
{
    resampler->received += count;
    if (resampler->rate_hz == SPSH__PRINT_RATE_HZ) {
        for (size_t i = 0; i < count; i++)
            out[i] = samples[i] * (1 << SPSH__RESAMPLE_ONE_BITS);
        return count;
    }
    if (count > 0)
        memcpy(resampler->history + resampler->history_count, samples, count * sizeof(*samples));
    resampler->history_count += count;
    if (resampler->received <= resampler->half)
        return 0;
    const size_t made = make_output(resampler, resampler->received - resampler->half, out);

    /* The next output may be past the buffered input if the step is longer than half the filter. */
    size_t done = resampler->base - resampler->history_start;
    if (done > resampler->history_count)
        done = resampler->history_count;
    resampler->history_count -= done;
    memmove(resampler->history, resampler->history + done,
            resampler->history_count * sizeof(*samples));
    resampler->history_start += done;
    return made;
}

size_t spsh__resample8k_finish(spsh__resample8k *resampler, int32_t *out)
{
    size_t made = 0;
    if (resampler->rate_hz != SPSH__PRINT_RATE_HZ) {
        memset(resampler->history + resampler->history_count, 0,
               resampler->taps * sizeof(*resampler->history));
        made = make_output(resampler, resampler->received, out);
    }
    spsh__resample8k_reset(resampler);
    return made;
}

void spsh__resample8k_reset(spsh__resample8k *resampler)
{
    resampler->received = 0;
    resampler->base = 0;
    resampler->phase = 0;
    /* Put zeros before the first sample. history_start and base count from the first zero. */
    resampler->history_start = 0;
    resampler->history_count = resampler->half;
    memset(resampler->history, 0, resampler->half * sizeof(*resampler->history));
}

void spsh__resample8k_free(spsh__resample8k *resampler)
{
    if (resampler == NULL)
        return;
    free(resampler->coefficients);
    free(resampler->history);
    free(resampler);
}
