/* audio_mix.c: one channel out of several. */
#include "speechshard/audio.h"

void spsh_mix_i16(const int16_t *pcm, uint64_t samples, uint32_t channels, int16_t *dst)
{
    if (channels == 2) { /* as below, but without divisions */
        for (uint64_t n = 0; n < samples; n++)
            dst[n] = (int16_t)((pcm[2 * n] + pcm[2 * n + 1] + 1) >> 1);
        return;
    }
    const int32_t count = (int32_t)channels;
    if (count == 0)
        return; /* an empty input has no mean */
    for (uint64_t n = 0; n < samples; n++) {
        int32_t sum = 0;
        for (uint32_t c = 0; c < channels; c++)
            sum += pcm[n * channels + c];
        /* Adding a multiple of the divisor keeps the dividend positive, so that the division rounds
         * down. */
        dst[n] = (int16_t)((2 * sum + count + 131072 * count) / (2 * count) - 65536);
    }
}
