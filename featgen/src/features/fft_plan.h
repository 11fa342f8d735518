/* fft_plan.h: plan of a real transform of any size: factors, twiddles, positions.
 *
 * An even size is done as a complex transform of half that size, whose points are pairs of samples.
 * An odd size is done as a complex transform with zeros as imaginary parts. The passes work in
 * place, decimating in frequency, so that result k is stored at places[k]:
 *
 *     pass over blocks of `length` points, j = 0 ... step - 1, step = length / radix:
 *         points j, j + step, ... --> their transform of `radix` points, number t turned by
 *         exp(-2 pi i j t / length), stored in place
 *     next pass: blocks of length = step
 */
#ifndef SPSH_FFT_PLAN_H
#define SPSH_FFT_PLAN_H

#include <stdbool.h>

#include "speechshard/base.h"

#define SPSH__FFT_PASSES_MAX 16 /* 2^15 = 32768 points */

typedef struct spsh__fft_pass {
    uint32_t radix, length, step;
    const float *twiddles; /* (step - 1) * (radix - 1) pairs cos, -sin: for j = 1 ..., t = 1 ... */
    const float *circle;   /* radix pairs cos, sin of 2 pi i / radix; NULL for radices 2 to 5 */
} spsh__fft_pass;

typedef struct spsh__fft_plan {
    uint32_t size;        /* real points, 1 ... 32768 */
    uint32_t point_count; /* complex points: size / 2, or size when that is odd */
    uint32_t pass_count;
    uint32_t prime_max; /* largest radix without a specialized pass; 0: none */
    bool is_paired;     /* the size is even */
    spsh__fft_pass passes[SPSH__FFT_PASSES_MAX];
    uint32_t *places; /* point_count */
    float *unpack;    /* is_paired: point_count / 2 + 1 pairs cos, sin of 2 pi k / size */
    float *memory;    /* allocation that holds the passes' tables */
} spsh__fft_plan;

/* Returns SPSH_OK or SPSH_E_NO_MEMORY; after an error there is nothing to close. */
spsh_status spsh__fft_plan_open(const spsh_allocator *allocator, uint32_t size,
                                spsh__fft_plan *plan, spsh_error *err);
/* Close a plan. A zeroed struct is allowed. */
void spsh__fft_plan_close(const spsh_allocator *allocator, spsh__fft_plan *plan);

#endif
