/* pcm_internal.h: what the sources of the codec `pcm` share. */
#ifndef SPSH_PCM_INTERNAL_H
#define SPSH_PCM_INTERNAL_H

#include <stdbool.h>

#include "speechshard/pcm.h"

/* A block is one channel of one frame. Its largest form is raw: one byte, then the samples. */
#define PCM_BLOCK_BYTES_MAX(samples_) (1 + 2 * (size_t)(samples_))

/* Encodes 1 to SPSH_PCM_FRAME_SAMPLES samples; returns the size, at most PCM_BLOCK_BYTES_MAX. */
size_t spsh__pcm_block_encode(const int16_t *pcm, uint32_t samples, uint8_t *block);

/* false when the bytes are no valid block of so many samples. */
bool spsh__pcm_block_decode(const uint8_t *block, size_t block_bytes, uint32_t samples,
                            int16_t *pcm);

#endif
