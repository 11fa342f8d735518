/* wrapped_wav.h: make a WAV file in memory from the samples of a source in another container. The
 * WAV file is then processed as any other: decoded, judged, hashed, and encoded. */
#ifndef SPSH_PACK_WRAPPED_WAV_H
#define SPSH_PACK_WRAPPED_WAV_H

#include <stddef.h>
#include <stdint.h>

enum {
    SPSH__WAV_HEAD_BYTES = 44,
    SPSH__WAV_TAG_INTEGER = 1,
    SPSH__WAV_TAG_FLOAT = 3,
    SPSH__WAV_TAG_ALAW = 6,
    SPSH__WAV_TAG_MULAW = 7,
};

typedef struct spsh__wav_form {
    uint16_t tag; /* SPSH__WAV_TAG_* */
    uint16_t bits_per_sample;
    uint16_t channels;
    uint32_t sample_rate_hz;
} spsh__wav_form;

/* Write the head of a WAV file with data_bytes of samples, at most SPSH_PCM_BYTES_MAX. */
void spsh__wav_head(const spsh__wav_form *form, uint64_t data_bytes,
                    uint8_t head[SPSH__WAV_HEAD_BYTES]);

#endif
