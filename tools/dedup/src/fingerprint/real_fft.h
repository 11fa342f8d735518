/* real_fft.h: Fourier transforms of real signals, for correlations.
 *
 *     spsh__real_fft fft = {0};
 *     rc = spsh__real_fft_open(8192, &fft, err);
 *     memcpy(fft.samples, block, 8192 * sizeof(double));
 *     spsh__real_fft_forward(&fft);                       // samples -> bins
 *     spsh__real_fft_inverse(&fft);                       // bins -> 8192 * samples
 *     spsh__real_fft_close(&fft);
 *
 * A library computes them: SPEECHSHARD_FFT selects real_fft_fftw.c (double precision) or
 * real_fft_kissfft.c (single precision). The last bits of a result depend on the library and on the
 * processor. So no stored bit may depend on them: the transform of the fingerprint is in fft.h.
 */
#ifndef SPSH_DEDUP_REAL_FFT_H
#define SPSH_DEDUP_REAL_FFT_H

#include "speechshard/base.h"

typedef struct spsh__complex {
    double re, im;
} spsh__complex;

/* A transform and its buffers, which the library aligns. Use each object from one thread. */
typedef struct spsh__real_fft {
    size_t size;
    double *samples;     /* size values */
    spsh__complex *bins; /* size / 2 + 1 values */
    void *state;
} spsh__real_fft;

/* size: even, without prime factors above 5. SPSH_OK or SPSH_E_NO_MEMORY. All buffers are 0. */
spsh_status spsh__real_fft_open(size_t size, spsh__real_fft *ret_fft, spsh_error *err);
/* Each call destroys its input. */
void spsh__real_fft_forward(spsh__real_fft *fft);
void spsh__real_fft_inverse(spsh__real_fft *fft);
/* An object of zeros is permitted. */
void spsh__real_fft_close(spsh__real_fft *fft);

/* Return the name and version of the library. */
const char *spsh__real_fft_library(void);

#endif
