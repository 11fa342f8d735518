/* print_mix.c: one channel out of many (docs/reference/FINGERPRINT.md 7). */
#include "print_mix.h"

#include <string.h>

void spsh__mix_narrow(const int32_t *samples, size_t count, int16_t *narrow)
{
    for (size_t i = 0; i < count; i++) {
        const int64_t value = ((int64_t)samples[i] + 0x8000) >> 16;
        narrow[i] = (int16_t)(value > INT16_MAX ? INT16_MAX : value);
    }
}

static int16_t divide_down(int32_t sum, int32_t channels)
{
    const int32_t quotient = sum / channels;
    return (int16_t)(quotient - (sum % channels < 0));
}

void spsh__mix_channel(const int16_t *samples, size_t count, uint32_t channels, uint32_t channel,
                       int16_t *mono)
{
    if (channels <= 1) {
        if (mono != samples)
            memcpy(mono, samples, count * sizeof(*mono));
        return;
    }
    for (size_t i = 0; i < count && channel > 0; i++)
        mono[i] = samples[i * channels + channel - 1];
    for (size_t i = 0; i < count && channel == 0; i++) {
        int32_t sum = 0;
        for (uint32_t c = 0; c < channels; c++)
            sum += samples[i * channels + c];
        mono[i] = divide_down(sum, (int32_t)channels);
    }
}
