/* wrapped_wav.c: see wrapped_wav.h. */
#include "wrapped_wav.h"

#include <string.h>

#include "speechshard/inside.h"

void spsh__wav_head(const spsh__wav_form *form, uint64_t data_bytes,
                    uint8_t head[SPSH__WAV_HEAD_BYTES])
{
    const uint32_t block_bytes = (uint32_t)form->channels * form->bits_per_sample / 8;
    memcpy(head, "RIFF", 4);
    spsh__store_u32le(head + 4, (uint32_t)(SPSH__WAV_HEAD_BYTES - 8 + data_bytes));
    memcpy(head + 8, "WAVEfmt ", 8);
    spsh__store_u32le(head + 16, 16);
    spsh__store_u16le(head + 20, form->tag);
    spsh__store_u16le(head + 22, form->channels);
    spsh__store_u32le(head + 24, form->sample_rate_hz);
    spsh__store_u32le(head + 28, form->sample_rate_hz * block_bytes);
    spsh__store_u16le(head + 32, (uint16_t)block_bytes);
    spsh__store_u16le(head + 34, form->bits_per_sample);
    memcpy(head + 36, "data", 4);
    spsh__store_u32le(head + 40, (uint32_t)data_bytes);
}
