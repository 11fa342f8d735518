/* sinc_table.c: a Hann-windowed sinc, whose table is computed once per process. Rounding to the nearest step causes an error 60 dB below the
 * signal. */
#include "sinc_table.h"

#include <math.h>
#include <pthread.h>
#include <stddef.h>

static double weights_of_steps[(SPSH__SINC_STEPS + 1) * SPSH__SINC_TAPS];

static void make_weights(void)
{
    const double pi = 3.141592653589793;
    for (size_t step = 0; step <= SPSH__SINC_STEPS; step++) {
        for (int k = 0; k < SPSH__SINC_TAPS; k++) {
            const double distance = k - (SPSH__SINC_HALF - 1) - (double)step / SPSH__SINC_STEPS;
            const double window = 0.5 + 0.5 * cos(pi * distance / (SPSH__SINC_HALF + 1));
            const double sinc = fabs(distance) < 1e-9 ? 1 : sin(pi * distance) / (pi * distance);
            weights_of_steps[step * SPSH__SINC_TAPS + (size_t)k] = sinc * window;
        }
    }
}

const double *spsh__sinc_table(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, make_weights);
    return weights_of_steps;
}

double spsh__sinc_at(const double *table, const double *x, double part)
{
    const double *weights = table + (size_t)lrint(part * SPSH__SINC_STEPS) * SPSH__SINC_TAPS;
    double sums[4] = {0};
    for (size_t k = 0; k < SPSH__SINC_TAPS; k += 4)
        for (size_t i = 0; i < 4; i++)
            sums[i] += x[k + i] * weights[k + i];
    return sums[0] + sums[1] + sums[2] + sums[3];
}
