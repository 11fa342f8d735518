/* flac_decode.h: decode frames of a FLAC file in memory, plain ones bit for bit as libFLAC does.
 *
 * Encoders write "plain" frames: 4 to 16 bits per sample, every sample within its range, every
 * checksum right, no reserved value used. All other frames are rejected without a reason. The
 * caller then passes the frame to libFLAC, whose result counts.
 */
#ifndef SPSH_FLAC_DECODE_H
#define SPSH_FLAC_DECODE_H

#include "flac_frames.h"

#define SPSH__FLAC_BITS_MAX         16
#define SPSH__FLAC_WRAPPED_BITS_MAX 24

/* Decode the frame at the start of bytes, which extend to the end of the file. Channel c's samples
 * are planes[c * block_samples_max] and following. The shape has 4 to SPSH__FLAC_BITS_MAX bits and
 * blocks of 1 to 65535 samples. ret_frame's offset_bytes and sample are 0. Returns false if the
 * frame is not plain; the content of planes is then undefined. Reads nothing outside of bytes,
 * allocates nothing. Thread-safe. */
bool spsh__flac_decode_frame(spsh_bytes bytes, const spsh__flac_shape *shape, int32_t *planes,
                             spsh__flac_frame *ret_frame);

/* Decode without checking the CRC-16, so that fuzzing reaches code after that check. The frame's
 * last two bytes may be missing. */
bool spsh__flac_decode_unchecked(spsh_bytes bytes, const spsh__flac_shape *shape, int32_t *planes,
                                 spsh__flac_frame *ret_frame);

/* Decode a frame whose samples may leave their range. Old encoders took samples from 32-bit
 * integers that rounding had carried to 32768, and stored the MD5 of the low bits. The prediction
 * uses the samples unreduced. Each sample is then reduced to its low bits. This is what decoders
 * did before libFLAC 1.4, and it equals spsh__flac_decode_frame if that succeeds.
 *
 * Slower. The shape has 4 to SPSH__FLAC_WRAPPED_BITS_MAX bits; otherwise the rules of
 * spsh__flac_decode_frame apply. The result is right only if the MD5 of the whole stream agrees.
 */
bool spsh__flac_decode_wrapped(spsh_bytes bytes, const spsh__flac_shape *shape, int32_t *planes,
                               spsh__flac_frame *ret_frame);

/* Return whether this processor has the vector instructions that make this decoder faster than
 * libFLAC. The plain C form is slower. */
bool spsh__flac_decode_is_fast(void);

/* Disable vector instructions, for tests and benchmarks. Do not call while another thread decodes.
 */
void spsh__flac_force_plain_c(bool is_forced);

#endif
