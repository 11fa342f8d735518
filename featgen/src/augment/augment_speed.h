/* augment_speed.h: the weights of a change of speed.
 *
 * A windowed sinc: output i, at input p = i * percent / 100, is the sum of x[t] w(t - p) over the
 * inputs around p, with, for s = max(1, percent / 100) and h = half,
 *
 *     w(d) = sin(pi c d) / (pi d) * I0(B sqrt(1 - (d / h)^2)) / I0(B),   c = 0.95 / s
 *
 * scaled so that the weights of each fractional position add up to 1. The response is flat up to
 * 0.9 of the lower of the two Nyquist frequencies, and frequencies above that Nyquist frequency do
 * not alias. Samples outside of an utterance are zeros.
 */
#ifndef SPSH_AUGMENT_SPEED_H
#define SPSH_AUGMENT_SPEED_H

#include "augment_kernels.h"

/* percent: 50 ... 200. Returns SPSH_OK or SPSH_E_NO_MEMORY; after an error there is nothing to
 * close. */
spsh_status spsh__resampler_open(const spsh_allocator *allocator, uint32_t percent,
                                 spsh__resampler *resampler, spsh_error *err);
/* Close a resampler. A zeroed struct is allowed. */
void spsh__resampler_close(const spsh_allocator *allocator, spsh__resampler *resampler);

#endif
