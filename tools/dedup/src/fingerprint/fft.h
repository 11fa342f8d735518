/* fft.h: the two Fourier transforms of this folder.
 *
 * spsh__fft_lanes is part of the fingerprint's definition: single precision, every operation in the
 * order of docs/FINGERPRINT.md, four independent transforms side by side, which is what makes it
 * fast without any freedom in the order of adding. spsh__fft is an ordinary one in double
 * precision, for correlations, whose last bits nothing rests on.
 */
#ifndef SPSH_DEDUP_FFT_H
#define SPSH_DEDUP_FFT_H

#include <stddef.h>
#include <stdint.h>

#include "cosine.h"

#define SPSH__LANES        4
#define SPSH__FFT_LANE_MAX 2048

typedef float spsh__lanes __attribute__((vector_size(16)));

/* Twiddle factors: cosine and minus sine of step / 2048 turns. */
typedef struct spsh__fft_circle {
    float cosine[SPSH__TURN];
    float minus_sine[SPSH__TURN];
} spsh__fft_circle;

void spsh__fft_circle_init(spsh__fft_circle *circle);

/* Forward, in place, size 1024 or 2048; bin k is then at spsh__fft_position(k, size). */
void spsh__fft_lanes(const spsh__fft_circle *circle, spsh__lanes *re, spsh__lanes *im, size_t size);
size_t spsh__fft_position(size_t bin, size_t size);

typedef struct spsh__complex {
    double re, im;
} spsh__complex;

/* Forward, in place; size is a power of two, 2 or more; roots from spsh__fft_roots_init. */
void spsh__fft(spsh__complex *x, size_t size, const spsh__complex *roots);

/* Writes size / 2 roots of unity. */
void spsh__fft_roots_init(spsh__complex *roots, size_t size);

#endif
