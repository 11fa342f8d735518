/* real_fft_fftw.c: transforms by FFTW.
 *
 * Planning takes milliseconds, is not thread-safe, and depends on the alignment of the buffers.
 * Plans are therefore made once for each size, under a lock, for buffers of fftw_malloc. They last
 * until the process ends. FFTW_ESTIMATE does not measure, so every run gets the same plan.
 */
#include "real_fft.h"

#include <fftw3.h>
#include <pthread.h>
#include <string.h>

#include "speechshard/inside.h"

enum { PLANS_MAX = 4 };

typedef struct plan_pair {
    size_t size; /* 0: not planned yet */
    fftw_plan forward, inverse;
} plan_pair;

static plan_pair plans[PLANS_MAX];
static pthread_mutex_t plans_lock = PTHREAD_MUTEX_INITIALIZER;

/* Return the plans for the size and buffers of fft, or NULL without memory. */
static plan_pair *find_plans(const spsh__real_fft *fft)
{
    plan_pair *found = NULL;
    pthread_mutex_lock(&plans_lock);
    for (size_t i = 0; i < PLANS_MAX && found == NULL; i++)
        if (plans[i].size == 0 || plans[i].size == fft->size)
            found = &plans[i];
    if (found != NULL && found->size == 0) {
        fftw_complex *bins = (fftw_complex *)fft->bins;
        found->forward = fftw_plan_dft_r2c_1d((int)fft->size, fft->samples, bins, FFTW_ESTIMATE);
        found->inverse = fftw_plan_dft_c2r_1d((int)fft->size, bins, fft->samples, FFTW_ESTIMATE);
        if (found->forward == NULL || found->inverse == NULL) {
            fftw_destroy_plan(found->forward);
            fftw_destroy_plan(found->inverse);
            found = NULL;
        } else {
            found->size = fft->size;
        }
    }
    pthread_mutex_unlock(&plans_lock);
    return found;
}

spsh_status spsh__real_fft_open(size_t size, spsh__real_fft *ret_fft, spsh_error *err)
{
    spsh__real_fft fft = {.size = size};
    fft.samples = fftw_alloc_real(size);
    fft.bins = (spsh__complex *)fftw_alloc_complex(size / 2 + 1);
    if (fft.samples != NULL && fft.bins != NULL)
        fft.state = find_plans(&fft);
    if (fft.state == NULL) {
        spsh__real_fft_close(&fft);
        return SPSH_NO_MEMORY(err);
    }
    memset(fft.samples, 0, size * sizeof(*fft.samples));
    memset(fft.bins, 0, (size / 2 + 1) * sizeof(*fft.bins));
    *ret_fft = fft;
    return SPSH_OK;
}

void spsh__real_fft_forward(spsh__real_fft *fft)
{
    const plan_pair *pair = fft->state;
    fftw_execute_dft_r2c(pair->forward, fft->samples, (fftw_complex *)fft->bins);
}

void spsh__real_fft_inverse(spsh__real_fft *fft)
{
    const plan_pair *pair = fft->state;
    fftw_execute_dft_c2r(pair->inverse, (fftw_complex *)fft->bins, fft->samples);
}

void spsh__real_fft_close(spsh__real_fft *fft)
{
    fftw_free(fft->samples);
    fftw_free(fft->bins);
    *fft = (spsh__real_fft){0};
}

const char *spsh__real_fft_library(void)
{
    return fftw_version;
}
