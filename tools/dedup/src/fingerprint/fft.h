/* fft.h: the Fourier transform that is part of the definition of the fingerprint.
 *
 * It has single precision, with every operation in the order of FINGERPRINT.md. It computes four
 * independent transforms in parallel lanes, which makes it fast without changing the order of
 * additions. Correlations use real_fft.h.
 */
#ifndef SPSH_DEDUP_FFT_H
#define SPSH_DEDUP_FFT_H

#include <stddef.h>
#include <stdint.h>

#include "cosine.h"

#define SPSH__LANES        4
#define SPSH__FFT_LANE_MAX 2048

typedef float spsh__lanes __attribute__((vector_size(16)));

/* Twiddle factors: cosine and negative sine of step / 2048 turns. */
typedef struct spsh__fft_circle {
    float cosine[SPSH__TURN];
    float minus_sine[SPSH__TURN];
} spsh__fft_circle;

void spsh__fft_circle_init(spsh__fft_circle *circle);

/* Forward transform in place, of size 1024 or 2048. The result for bin k is at
 * spsh__fft_position(k, size). */
void spsh__fft_lanes(const spsh__fft_circle *circle, spsh__lanes *re, spsh__lanes *im, size_t size);
size_t spsh__fft_position(size_t bin, size_t size);

#endif
