/* real_fft_kissfft.c: transforms by KISS FFT, whose Debian package has single precision only. */
#include "real_fft.h"

#include <kissfft/kiss_fftr.h>
#include <stdlib.h>

#include "speechshard/inside.h"

typedef struct kiss_state {
    kiss_fftr_cfg forward, inverse;
    kiss_fft_scalar *samples;
    kiss_fft_cpx *bins;
} kiss_state;

spsh_status spsh__real_fft_open(size_t size, spsh__real_fft *ret_fft, spsh_error *err)
{
    const size_t bin_count = size / 2 + 1;
    spsh__real_fft fft = {.size = size};
    fft.samples = calloc(size, sizeof(*fft.samples));
    fft.bins = calloc(bin_count, sizeof(*fft.bins));
    kiss_state *state = calloc(1, sizeof(*state));
    fft.state = state;
    if (state != NULL) {
        state->forward = kiss_fftr_alloc((int)size, 0, NULL, NULL);
        state->inverse = kiss_fftr_alloc((int)size, 1, NULL, NULL);
        state->samples = calloc(size, sizeof(*state->samples));
        state->bins = calloc(bin_count, sizeof(*state->bins));
    }
    if (fft.samples == NULL || fft.bins == NULL || state == NULL || state->forward == NULL ||
        state->inverse == NULL || state->samples == NULL || state->bins == NULL) {
        spsh__real_fft_close(&fft);
        return SPSH_NO_MEMORY(err);
    }
    *ret_fft = fft;
    return SPSH_OK;
}

void spsh__real_fft_forward(spsh__real_fft *fft)
{
    const kiss_state *state = fft->state;
    for (size_t i = 0; i < fft->size; i++)
        state->samples[i] = (kiss_fft_scalar)fft->samples[i];
    kiss_fftr(state->forward, state->samples, state->bins);
    for (size_t k = 0; k <= fft->size / 2; k++)
        fft->bins[k] = (spsh__complex){(double)state->bins[k].r, (double)state->bins[k].i};
}

void spsh__real_fft_inverse(spsh__real_fft *fft)
{
    const kiss_state *state = fft->state;
    for (size_t k = 0; k <= fft->size / 2; k++)
        state->bins[k] =
            (kiss_fft_cpx){(kiss_fft_scalar)fft->bins[k].re, (kiss_fft_scalar)fft->bins[k].im};
    kiss_fftri(state->inverse, state->bins, state->samples);
    for (size_t i = 0; i < fft->size; i++)
        fft->samples[i] = (double)state->samples[i];
}

void spsh__real_fft_close(spsh__real_fft *fft)
{
    kiss_state *state = fft->state;
    if (state != NULL) {
        kiss_fftr_free(state->forward);
        kiss_fftr_free(state->inverse);
        free(state->samples);
        free(state->bins);
    }
    free(state);
    free(fft->samples);
    free(fft->bins);
    *fft = (spsh__real_fft){0};
}

const char *spsh__real_fft_library(void)
{
    return "kissfft";
}
