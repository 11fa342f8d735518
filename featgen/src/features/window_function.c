/* window_function.c: see window_function.h. In double, rounded once. */
#include "window_function.h"

#include <math.h>

#define PI 3.14159265358979323846

static double value_at(spsh_feature_window window, double turn)
{
    const double cosine = cos(2 * PI * turn);
    switch (window) {
    case SPSH_WINDOW_POVEY: return pow(0.5 - 0.5 * cosine, 0.85);
    case SPSH_WINDOW_HANN:
    case SPSH_WINDOW_HANN_PERIODIC: return 0.5 - 0.5 * cosine;
    case SPSH_WINDOW_HAMMING:
    case SPSH_WINDOW_HAMMING_PERIODIC: return 0.54 - 0.46 * cosine;
    case SPSH_WINDOW_BLACKMAN: return 0.42 - 0.5 * cosine + 0.08 * cos(4 * PI * turn);
    case SPSH_WINDOW_RECTANGULAR: break;
    }
    return 1;
}

void spsh__window_fill(spsh_feature_window window, uint32_t count, float *values)
{
    const bool is_periodic =
        window == SPSH_WINDOW_HANN_PERIODIC || window == SPSH_WINDOW_HAMMING_PERIODIC;
    const double period = is_periodic ? count : count - 1.0;
    for (uint32_t i = 0; i < count; i++)
        values[i] = count == 1 ? 1 : (float)value_at(window, i / period);
}
