/* schedule.c: the learning rate as a function of samples seen. It therefore does not depend on the
 * world size or the batch size (config.h).
 *
 *     rate * (samples + 1) / (warm_up + 1) until warm_up; times one of
 *     constant  1
 *     anneal    anneal ^ floor(samples / schedule_samples)
 *     cosine    (1 + cos(pi x)) / 2, x from 0 at warm_up to 1 at schedule_samples
 *
 * Only additions and multiplications: math libraries differ in the last bits.
 */
#include "config.h"

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
        rate *= ((double)samples + 1) / ((double)c->warm_up_samples + 1);
    if (c->schedule == SPSH__SCHEDULE_COSINE)
        rate *= cosine(c, samples);
    if (c->schedule == SPSH__SCHEDULE_ANNEAL && c->schedule_samples > 0)
        rate *= power(c->anneal, samples / c->schedule_samples);
    return rate;
}

void spsh__config_resolve(spsh__config *c, uint64_t epoch_samples)
{
    uint64_t samples = epoch_samples;
    if (c->schedule_samples > 0)
        return;
    if (c->schedule == SPSH__SCHEDULE_COSINE) {
        const bool has_end =
            c->epochs > 0 && !__builtin_mul_overflow(epoch_samples, c->epochs, &samples);
        if (!has_end || (c->samples_max > 0 && c->samples_max < samples))
            samples = c->samples_max;
        if (samples <= c->warm_up_samples) /* then there is nothing but warm-up */
            samples = c->warm_up_samples + 1;
    }
    c->schedule_samples = samples;
}
