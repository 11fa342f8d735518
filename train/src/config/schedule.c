/* schedule.c: the learning rate and the size of an update as functions of samples seen. Neither
 * depends on the world size (config.h).
 *
 *     rate * (from + (1 - from) * (samples + 1) / (warm_up + 1)) until warm_up; times one of
 *     constant  1
 *     anneal    anneal ^ floor((samples - warm_up) / schedule_samples)
 *     cosine    (1 + cos(pi x)) / 2, x from 0 at warm_up to 1 at schedule_samples
 *
 * Only additions, multiplications, divisions, and square roots, which IEEE 754 rounds correctly:
 * other functions of math libraries differ in the last bits.
 */
#include "config.h"

#include <math.h>

#include "speechshard/inside.h"
#include "speechshard/sampler.h"

/* cos(pi x) for 0 <= x <= 1, by Taylor's series where it is short: |y| <= pi / 2. */
static double half_cosine(double x)
{
    const double pi = 3.14159265358979323846;
    const double y = pi * (0.5 - x); /* cos(pi x) = sin(y) */
    double term = y;
    double sum = y;
    for (int i = 1; i < 14; i++) {
        term *= -y * y / ((double)(2 * i) * (double)(2 * i + 1));
        sum += term;
    }
    return sum;
}

/* base ^ exponent by squaring: at most 64 rounds. */
static double power(double base, uint64_t exponent)
{
    double result = 1;
    for (; exponent > 0; exponent >>= 1) {
        if ((exponent & 1) != 0)
            result *= base;
        base *= base;
    }
    return result;
}

static double cosine(const spsh__config *c, uint64_t samples)
{
    if (samples >= c->schedule_samples)
        return 0;
    if (samples <= c->warm_up_samples)
        return 1;
    const double gone = (double)(samples - c->warm_up_samples);
    return 0.5 + 0.5 * half_cosine(gone / (double)(c->schedule_samples - c->warm_up_samples));
}

double spsh__schedule_rate(const spsh__config *c, uint64_t samples)
{
    double rate = c->is_adamw ? c->adamw.rate : c->sgd.rate;
    if (samples < c->warm_up_samples)
        rate *= c->warm_up_from +
                (1 - c->warm_up_from) * ((double)samples + 1) / ((double)c->warm_up_samples + 1);
    if (c->schedule == SPSH__SCHEDULE_COSINE)
        rate *= cosine(c, samples);
    if (c->schedule == SPSH__SCHEDULE_ANNEAL && c->schedule_samples > 0 &&
        samples > c->warm_up_samples)
        rate *= power(c->anneal, (samples - c->warm_up_samples) / c->schedule_samples);
    return rate;
}

double spsh__schedule_scale(const spsh__config *c, uint32_t virtual_world, uint64_t samples)
{
    const double batches = (double)virtual_world * spsh__schedule_accumulate(c, samples);
    const double ratio = batches * spsh__config_batch_seconds(c) / c->rate_seconds;
    switch (c->rate_scaling) {
    case SPSH__SCALING_LINEAR: return ratio;
    case SPSH__SCALING_SQRT: return sqrt(ratio);
    case SPSH__SCALING_NONE: break;
    }
    return 1;
}

uint32_t spsh__schedule_accumulate(const spsh__config *c, uint64_t samples)
{
    uint64_t count = c->accumulate;
    if (c->accumulate_samples == 0)
        return c->accumulate;
    for (uint64_t n = samples / c->accumulate_samples; n > 0 && count < c->accumulate_max; n--)
        count *= 2;
    return count < c->accumulate_max ? (uint32_t)count : c->accumulate_max;
}

uint32_t spsh__schedule_accumulate_most(const spsh__config *c)
{
    return c->accumulate_samples > 0 ? c->accumulate_max : c->accumulate;
}

double spsh__config_batch_seconds(const spsh__config *c)
{
    if (c->max_padded_seconds > 0)
        return c->max_padded_seconds;
    return c->max_seconds > 0 ? c->max_seconds : SPSH_BATCH_SECONDS_DEFAULT;
}

/* Utterances until the cosine is 0. */
static uint64_t cosine_samples(const spsh__config *c, uint64_t epoch_samples)
{
    uint64_t samples = 0;
    const bool has_end =
        c->epochs > 0 && !__builtin_mul_overflow(epoch_samples, c->epochs, &samples);
    if (!has_end || (c->samples_max > 0 && c->samples_max < samples))
        samples = c->samples_max;
    /* Without utterances after the warm-up, there is only the warm-up. */
    return samples <= c->warm_up_samples ? c->warm_up_samples + 1 : samples;
}

spsh_status spsh__config_resolve(spsh__config *c, uint64_t epoch_samples, spsh_error *err)
{
    const double warm_up = (double)epoch_samples * c->warm_up_epochs + 0.5;
    const bool is_cosine = c->schedule == SPSH__SCHEDULE_COSINE;
    if (c->warm_up_epochs > 0)
        c->warm_up_samples =
            warm_up < SPSH__COUNT_MAX - 1 ? (uint64_t)warm_up : (uint64_t)SPSH__COUNT_MAX - 1;
    c->warm_up_epochs = 0;
    if (is_cosine && c->schedule_samples > 0 && c->schedule_samples <= c->warm_up_samples)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "train.schedule_samples is %llu, but train.warm_up_epochs makes a warm-up "
                         "of %llu utterances; the cosine must be longer than the warm-up",
                         (unsigned long long)c->schedule_samples,
                         (unsigned long long)c->warm_up_samples);
    if (c->schedule_samples == 0)
        c->schedule_samples = is_cosine ? cosine_samples(c, epoch_samples) : epoch_samples;
    if (c->schedule_samples > (uint64_t)SPSH__COUNT_MAX)
        c->schedule_samples = (uint64_t)SPSH__COUNT_MAX;
    return SPSH_OK;
}
