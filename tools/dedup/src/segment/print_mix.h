/* print_mix.h: compute the one-channel signal of a print.
 *
 * Channel 0 is the mix: the sum of all channels divided by their number, rounded towards minus
 * infinity. With one channel, the mix is that channel. Channel c is the c-th channel, counted from
 * 1. See docs/reference/FINGERPRINT.md 7.
 */
#ifndef SPSH_PRINT_MIX_H
#define SPSH_PRINT_MIX_H

#include <stddef.h>
#include <stdint.h>

/* Convert count left-justified 32-bit values to 16 bits. Values are rounded half up and saturate at
 * the maximum, as in the rest of the library. */
void spsh__mix_narrow(const int32_t *samples, size_t count, int16_t *narrow);

/* Extract a channel or the mix from count interleaved samples per channel. mono has capacity for
 * count samples and may be the same memory as samples. */
void spsh__mix_channel(const int16_t *samples, size_t count, uint32_t channels, uint32_t channel,
                       int16_t *mono);

#endif
