/* pcm_block.c: one channel of one frame. */
#include "pcm_internal.h"

#include "base_internal.h"

enum { FORM_RAW = 0 };

size_t spsh__pcm_block_encode(const int16_t *pcm, uint32_t samples, uint8_t *block)
{
    block[0] = FORM_RAW;
    for (uint32_t i = 0; i < samples; i++)
        spsh__store_u16le(block + 1 + 2 * (size_t)i, (uint16_t)pcm[i]);
    return PCM_BLOCK_BYTES_MAX(samples);
}

bool spsh__pcm_block_decode(const uint8_t *block, size_t block_bytes, uint32_t samples,
                            int16_t *pcm)
{
    if (block_bytes != PCM_BLOCK_BYTES_MAX(samples) || block[0] != FORM_RAW)
        return false;
    for (uint32_t i = 0; i < samples; i++)
        pcm[i] = (int16_t)spsh__load_u16le(block + 1 + 2 * (size_t)i);
    return true;
}
