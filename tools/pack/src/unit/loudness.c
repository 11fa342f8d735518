/* loudness.c: see loudness.h.
 *
 * The int16 loop processes all packed audio, after a decoder that takes a few nanoseconds per
 * sample. So it handles eight values at once: the multiplication adds the squares of adjacent
 * values (at most 2^31, read as unsigned), and the sums have 64 bits.
 */
#include "loudness.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define FULL_SCALE      32767
#define BLOCK_VALUES    ((size_t)1024)
#define POWER_OF_A_DB   0.79432823472428150207 /* 10^(-1/10) */
#define POWER_OF_FULL   (32768.0 * 32768.0)
#define FLOAT_TO_INT16  32768.0F
#define I32_TO_I16_BITS 16

typedef struct extremes {
    int32_t high, low;
} extremes;

static void add_value(spsh__level *level, extremes *e, int32_t value)
{
    e->high = value > e->high ? value : e->high;
    e->low = value < e->low ? value : e->low;
    level->square_sum += (uint64_t)(value * (int64_t)value);
}

#if defined(__SSE2__)
/* Add values in blocks of eight. Returns how many values were added. Fewer than eight remain. */
static size_t add_eights(spsh__level *level, extremes *e, const int16_t *pcm, size_t count)
{
    const __m128i low_half = _mm_set1_epi64x(0xffffffff);
    __m128i high = _mm_setzero_si128();
    __m128i low = _mm_setzero_si128();
    __m128i sum = _mm_setzero_si128();
    size_t done = 0;
    for (; done + 8 <= count; done += 8) {
        const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(pcm + done));
        const __m128i squares = _mm_madd_epi16(x, x);
        high = _mm_max_epi16(high, x);
        low = _mm_min_epi16(low, x);
        sum = _mm_add_epi64(sum, _mm_and_si128(squares, low_half));
        sum = _mm_add_epi64(sum, _mm_srli_epi64(squares, 32));
    }
    int16_t highs[8], lows[8];
    uint64_t sums[2];
    _mm_storeu_si128((__m128i *)(void *)highs, high);
    _mm_storeu_si128((__m128i *)(void *)lows, low);
    _mm_storeu_si128((__m128i *)(void *)sums, sum);
    for (int i = 0; i < 8; i++) {
        e->high = highs[i] > e->high ? highs[i] : e->high;
        e->low = lows[i] < e->low ? lows[i] : e->low;
    }
    level->square_sum += sums[0] + sums[1];
    return done;
}
#else
static size_t add_eights(spsh__level *level, extremes *e, const int16_t *pcm, size_t count)
{
    (void)level, (void)e, (void)pcm, (void)count;
    return 0;
}
#endif

static void add_i16(spsh__level *level, const int16_t *pcm, size_t count)
{
    extremes e = {0, 0};
    for (size_t i = add_eights(level, &e, pcm, count); i < count; i++)
        add_value(level, &e, pcm[i]);
    const uint32_t peak = (uint32_t)(e.high > -e.low ? e.high : -e.low);
    if (peak > level->peak)
        level->peak = peak;
    for (size_t i = 0; peak >= FULL_SCALE && i < count; i++)
        level->full_scale_values += pcm[i] >= FULL_SCALE || pcm[i] <= -FULL_SCALE;
    level->values += count;
}

static int16_t of_float(float value)
{
    const float scaled = value * FLOAT_TO_INT16;
    if (scaled >= (float)FULL_SCALE)
        return INT16_MAX;
    if (scaled <= -FLOAT_TO_INT16)
        return INT16_MIN;
    if (scaled != scaled)
        return 0; /* NaN counts as silence, as in decoding */
    return (int16_t)scaled;
}

void spsh__level_add(spsh__level *level, spsh_sample_format format, const void *pcm, size_t values)
{
    int16_t block[BLOCK_VALUES];
    if (format == SPSH_SAMPLE_I16) {
        add_i16(level, pcm, values);
        return;
    }
    for (size_t done = 0; done < values;) {
        const size_t count = values - done < BLOCK_VALUES ? values - done : BLOCK_VALUES;
        const int32_t *integers = (const int32_t *)pcm + done;
        const float *floats = (const float *)pcm + done;
        if (format == SPSH_SAMPLE_I32) {
            for (size_t i = 0; i < count; i++)
                block[i] = (int16_t)(integers[i] >> I32_TO_I16_BITS);
        } else {
            for (size_t i = 0; i < count; i++)
                block[i] = of_float(floats[i]);
        }
        add_i16(level, block, count);
        done += count;
    }
}

/* Use only multiplication: the last bit of a logarithm may differ between machines. */
static size_t bin_of(double power)
{
    double limit = POWER_OF_A_DB * POWER_OF_FULL;
    size_t bin = 0;
    while (bin + 1 < SPSH__LEVEL_BINS && power <= limit) {
        limit *= POWER_OF_A_DB;
        bin++;
    }
    return bin;
}

void spsh__level_count(const spsh__level *level, spsh__level_counts *counts)
{
    if (level->values == 0)
        return;
    const double peak = level->peak;
    counts->recordings++;
    counts->clipped += level->full_scale_values >= SPSH__LEVEL_CLIPPED_AT ? 1 : 0;
    counts->peaks[bin_of(peak * peak)]++;
    counts->rms[bin_of((double)level->square_sum / (double)level->values)]++;
}

uint64_t spsh__level_quiet(const spsh__level_counts *counts)
{
    uint64_t quiet = 0;
    for (size_t i = SPSH__LEVEL_QUIET_DB; i < SPSH__LEVEL_BINS; i++)
        quiet += counts->rms[i];
    return quiet;
}
