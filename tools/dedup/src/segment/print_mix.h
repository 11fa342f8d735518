/* print_mix.h: which one-channel signal a print is of.
 *
 * Channel 0 is the mix: the sum of all channels divided by their number, rounded towards minus
 * infinity; of one channel: itself. Channel c is the c-th, from 1. docs/FINGERPRINT.md 7.
 */
#ifndef SPSH_PRINT_MIX_H
#define SPSH_PRINT_MIX_H

#include <stddef.h>
#include <stdint.h>

/* count values of 32 bits, left-justified, to 16: rounded half up, limited at the top, as the
 * library does it. */
void spsh__mix_narrow(const int32_t *samples, size_t count, int16_t *narrow);

/* count samples per channel, interleaved; mono has room for count and may be the same memory. */
void spsh__mix_channel(const int16_t *samples, size_t count, uint32_t channels, uint32_t channel,
                       int16_t *mono);

#endif
