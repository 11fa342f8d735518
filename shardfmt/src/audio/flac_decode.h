/* flac_decode.h: decodes frames of a FLAC file in memory, plain ones bit for bit as libFLAC does.
 *
 * "Plain" is what encoders write: 4 to 16 bits per sample, every sample within its range, every
 * checksum right, no reserved value used. All else is refused, without a reason: libFLAC then says
 * what it makes of the frame.
 */
#ifndef SPSH_FLAC_DECODE_H
#define SPSH_FLAC_DECODE_H

#include "flac_frames.h"

#define SPSH__FLAC_BITS_MAX         16
#define SPSH__FLAC_WRAPPED_BITS_MAX 24

/* Decodes the frame at the start of bytes, which go on to the end of the file. Channel c's samples
 * are planes[c * block_samples_max] and following; the shape has 4 to SPSH__FLAC_BITS_MAX bits and
 * blocks of 1 to 65535 samples. ret_frame's offset_bytes and sample are 0.
 * false: not plain; the planes then hold anything. Reads nothing outside of bytes, allocates
 * nothing. Thread-safe. */
bool spsh__flac_decode_frame(spsh_bytes bytes, const spsh__flac_shape *shape, int32_t *planes,
                             spsh__flac_frame *ret_frame);

/* The same without a look at the CRC-16, for fuzzing: damage that it would stop goes deeper. The
 * frame's last two bytes need not be there. */
bool spsh__flac_decode_unchecked(spsh_bytes bytes, const spsh__flac_shape *shape, int32_t *planes,
                                 spsh__flac_frame *ret_frame);

/* Decode a frame whose samples may leave their range. Old encoders took samples from 32-bit
 * integers that rounding had carried to 32768, and stored the MD5 of the low bits. The prediction
 * uses the samples as they are. Each sample is then reduced to its low bits. This is what decoders
 * did before libFLAC 1.4, and it equals spsh__flac_decode_frame where that succeeds.
 *
 * Slower. The shape has 4 to SPSH__FLAC_WRAPPED_BITS_MAX bits, else as spsh__flac_decode_frame. The
 * result is right only if the MD5 of the whole stream agrees. */
bool spsh__flac_decode_wrapped(spsh_bytes bytes, const spsh__flac_shape *shape, int32_t *planes,
                               spsh__flac_frame *ret_frame);

/* Whether this processor has what makes it faster than libFLAC. Plain C is not. */
bool spsh__flac_decode_is_fast(void);

/* For tests and benchmarks: no vector instructions. Not while another thread decodes. */
void spsh__flac_force_plain_c(bool is_forced);

#endif
