/* augment_speed.c: see augment_speed.h. Weights are made in double and rounded once. */
#include "augment_speed.h"

#include <math.h>

#include "speechshard/featgen.h"
#include "speechshard/inside.h"

#define PI          3.14159265358979323846
#define CUTOFF      0.95 /* the middle of the slope from 0.9 to 1 */
#define KAISER_BETA 9.0  /* side lobes below -90 dB */

enum { HALF_LEAST = 60, HALF_MULTIPLE = 4, PERCENT_OF_ONE = 100 };

/* The modified Bessel function of order 0: sum of ((x / 2)^n / n!)^2, to the last bit of a double.
 */
static double bessel_i0(double x)
{
    double sum = 1;
    double term = 1;
    for (int n = 1; term > sum * 1e-17; n++) {
        term *= x / (2 * n) * (x / (2 * n));
        sum += term;
    }
    return sum;
}

static double weight(double distance, double half, double cutoff)
{
    const double share = distance / half;
    const double inside = 1 - share * share;
    if (inside < 0)
        return 0;
    const double sinc = distance == 0 ? cutoff : sin(PI * cutoff * distance) / (PI * distance);
    return sinc * bessel_i0(KAISER_BETA * sqrt(inside));
}

/* Compute the 2 * half weights for an output at fraction `place` between two inputs, 0 <= place <
 * 1. */
static void fill_place(double place, uint32_t half, double cutoff, float *weights)
{
    double sum = 0;
    for (uint32_t t = 0; t < 2 * half; t++)
        sum += weight((double)t - (half - 1.0) - place, half, cutoff);
    for (uint32_t t = 0; t < 2 * half; t++)
        weights[t] = (float)(weight((double)t - (half - 1.0) - place, half, cutoff) / sum);
}

spsh_status spsh__resampler_open(const spsh_allocator *allocator, uint32_t percent,
                                 spsh__resampler *resampler, spsh_error *err)
{
    const uint32_t divisor = (uint32_t)spsh__gcd(percent, PERCENT_OF_ONE);
    const uint32_t slow = percent > PERCENT_OF_ONE ? percent : PERCENT_OF_ONE;
    const uint32_t half = (HALF_LEAST * slow + PERCENT_OF_ONE - 1) / PERCENT_OF_ONE;
    *resampler = (spsh__resampler){
        .percent = percent,
        .up = PERCENT_OF_ONE / divisor,
        .down = percent / divisor,
        .half = (half + HALF_MULTIPLE - 1) / HALF_MULTIPLE * HALF_MULTIPLE,
    };
    const size_t taps = (size_t)2 * resampler->half;
    resampler->weights = spsh__new(allocator, resampler->up * taps, sizeof(float));
    if (resampler->weights == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "augmentation: weights of a speed of %u %%",
                         percent);
    for (uint32_t place = 0; place < resampler->up; place++)
        fill_place((double)place / resampler->up, resampler->half, CUTOFF * PERCENT_OF_ONE / slow,
                   resampler->weights + place * taps);
    return SPSH_OK;
}

void spsh__resampler_close(const spsh_allocator *allocator, spsh__resampler *resampler)
{
    spsh__free(allocator, resampler->weights);
    *resampler = (spsh__resampler){0};
}
