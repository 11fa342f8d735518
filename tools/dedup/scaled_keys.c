/* scaled_keys.c: a windowed sinc between samples, in 512 steps, 16 samples either way.
 *
 * There is no low-pass: what speeding up by 1.12 folds back comes to lie above 3.4 kHz, which
 * neither prints nor correlations look at.
 */
#include "scaled_keys.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "resample8k.h"

enum {
    STEPS = 512,
    HALF = 16,
    TAPS = 2 * HALF,
    PIECE = 60 * SPSH__PRINT_RATE_HZ, /* samples that are made at once */
};

const double spsh__scales[SPSH__SCALE_COUNT] = {
    1, 1.03, 1.05, 1.1, 1 / 0.9, 1 / 1.03, 1 / 1.05, 1 / 1.1, 0.9,
};

/* For each step, what the samples from HALF - 1 before to HALF after weigh. */
static float *make_taps(void)
{
    const double pi = 3.141592653589793;
    float *taps = calloc((size_t)(STEPS + 1) * TAPS, sizeof(*taps));
    if (taps == NULL)
        return NULL;
    for (size_t step = 0; step <= STEPS; step++) {
        for (int k = 0; k < TAPS; k++) {
            const double distance = k - (HALF - 1) - (double)step / STEPS;
            const double window = 0.5 + 0.5 * cos(pi * distance / (HALF + 1));
            const double sinc = fabs(distance) < 1e-9 ? 1 : sin(pi * distance) / (pi * distance);
            taps[step * TAPS + (size_t)k] = (float)(sinc * window);
        }
    }
    return taps;
}

/* source begins HALF - 1 samples before the sample that `start` is the place of, less its part. */
static void interpolate(const float *taps, const int32_t *source, double start, double speed,
                        int32_t *dst, size_t count)
{
    const double base = floor(start);
    for (size_t i = 0; i < count; i++) {
        const double place = start + (double)i * speed - base;
        const double whole = floor(place);
        const size_t step = (size_t)lrint((place - whole) * STEPS);
        const float *weights = taps + step * TAPS;
        const int32_t *samples = source + (size_t)whole;
        float sum = 0;
        for (size_t k = 0; k < TAPS; k++)
            sum += (float)samples[k] * weights[k];
        dst[i] = (int32_t)lrintf(sum);
    }
}

static spsh_status read_with(const float *taps, const spsh__print_signal *signal, double speed,
                             uint64_t first, size_t count, int32_t *dst, spsh_error *err)
{
    const double start = (double)first * speed;
    const uint64_t base = (uint64_t)start;
    const size_t missing = base < HALF - 1 ? (size_t)(HALF - 1 - base) : 0;
    const size_t size = (size_t)((double)count * speed) + TAPS + 2;
    int32_t *source = calloc(size, sizeof(*source));
    if (source == NULL)
        return SPSH_DEDUP_NO_MEMORY(err);
    spsh_status rc = spsh__print_signal_read(signal, base + missing - (HALF - 1), size - missing,
                                             source + missing, err);
    if (rc == SPSH_OK)
        interpolate(taps, source, start, speed, dst, count);
    free(source);
    return rc;
}

spsh_status spsh__scaled_signal_read(const spsh__print_signal *signal, double speed, uint64_t first,
                                     size_t count, int32_t *dst, spsh_error *err)
{
    float *taps = make_taps();
    if (taps == NULL)
        return SPSH_DEDUP_NO_MEMORY(err);
    spsh_status rc = read_with(taps, signal, speed, first, count, dst, err);
    free(taps);
    return rc;
}

/* Back to the unit of the input, 16 bits. */
static void to_16_bits(const int32_t *samples, int16_t *pcm, size_t count)
{
    const int32_t one = 1 << SPSH__RESAMPLE_ONE_BITS;
    for (size_t i = 0; i < count; i++) {
        int32_t value = (samples[i] + one / 2) >> SPSH__RESAMPLE_ONE_BITS;
        value = value > INT16_MAX ? INT16_MAX : value < INT16_MIN ? INT16_MIN : value;
        pcm[i] = (int16_t)value;
    }
}

spsh_status spsh__scaled_print_make(const spsh__print_signal *signal, double speed,
                                    spsh__print_sink sink, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    spsh__fingerprint *maker = NULL;
    float *taps = make_taps();
    int32_t *samples = calloc(PIECE, sizeof(*samples));
    int16_t *pcm = calloc(PIECE, sizeof(*pcm));
    uint64_t length = 0;

    sink.samples_fn = NULL;
    if (taps == NULL || samples == NULL || pcm == NULL) {
        rc = SPSH_DEDUP_NO_MEMORY(err);
        goto out;
    }
    rc = spsh__fingerprint_new(SPSH__PRINT_RATE_HZ, sink, &maker, err);
    if (rc == SPSH_OK)
        rc = spsh__print_signal_length(signal, &length, err);
    const uint64_t scaled = (uint64_t)((double)length / speed);
    for (uint64_t done = 0; rc == SPSH_OK && done < scaled; done += PIECE) {
        const size_t count = scaled - done < PIECE ? (size_t)(scaled - done) : PIECE;
        rc = read_with(taps, signal, speed, done, count, samples, err);
        if (rc != SPSH_OK)
            break;
        to_16_bits(samples, pcm, count);
        rc = spsh__fingerprint_push(maker, pcm, count, err);
    }
    if (rc == SPSH_OK)
        rc = spsh__fingerprint_finish(maker, err);
out:
    spsh__fingerprint_free(maker);
    free(taps);
    free(samples);
    free(pcm);
    return rc;
}

spsh_status spsh__scaled_keys_make(const spsh__print_signal *signal, double speed,
                                   spsh__print_key **ret_keys, size_t *ret_count, spsh_error *err)
{
    spsh__print print = {0};
    spsh__print_sink sink = spsh__print_collect(&print);
    sink.frames_fn = NULL;
    spsh_status rc = spsh__scaled_print_make(signal, speed, sink, err);
    if (rc == SPSH_OK) {
        *ret_keys = print.keys;
        *ret_count = print.key_count;
        print.keys = NULL;
    }
    spsh__print_free(&print);
    return rc;
}
