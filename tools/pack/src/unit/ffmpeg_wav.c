/* ffmpeg_wav.c: reserve space for the WAV header, append the samples, then write the header, which
 * states their number. */
#include "ffmpeg_wav.h"

#include "common/byte_builder.h"
#include "speechshard/inside.h"
#include "speechshard/limits.h"
#include "wrapped_wav.h"

enum { VALUES_AT_ONCE = 4096 };

static size_t value_bytes(const spsh_audio_info *info)
{
    if (info->format == SPSH_SAMPLE_I16)
        return 2;
    return info->format == SPSH_SAMPLE_I32 && info->bits_per_sample <= 24 ? 3 : 4;
}

/* Store the upper bytes of a value in little-endian order. */
static void store(const spsh_audio_info *info, const void *pcm, size_t at, uint8_t *dst)
{
    uint32_t value = 0;
    if (info->format == SPSH_SAMPLE_I16)
        value = (uint32_t)(uint16_t)((const int16_t *)pcm)[at];
    else
        memcpy(&value, (const uint8_t *)pcm + 4 * at, 4);
    if (value_bytes(info) == 3)
        value >>= 8;
    for (size_t b = 0; b < value_bytes(info); b++)
        dst[b] = (uint8_t)(value >> (8 * b));
}

static spsh_status take_pcm(void *user, const spsh_audio_info *info, const void *pcm,
                            uint64_t samples, spsh_error *err)
{
    spsh__builder *wav = user;
    uint8_t bytes[4 * VALUES_AT_ONCE];
    const size_t size = value_bytes(info);
    const size_t values = (size_t)samples * info->channels;
    for (size_t done = 0; done < values;) {
        const size_t count = values - done < VALUES_AT_ONCE ? values - done : VALUES_AT_ONCE;
        for (size_t i = 0; i < count; i++)
            store(info, pcm, done + i, bytes + i * size);
        spsh__builder_append(wav, bytes, count * size);
        done += count;
    }
    return wav->failed ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

spsh_status spsh__ffmpeg_to_wav(const spsh_ffmpeg *ffmpeg, spsh_bytes file, const char *name,
                                spsh__ffmpeg_wav *ret_wav, spsh_decode_result *ret_result,
                                spsh_error *err)
{
    static const uint8_t head[SPSH__WAV_HEAD_BYTES] = {0};
    spsh__builder wav = {0};
    spsh__builder_append(&wav, head, sizeof(head));
    const spsh_status rc = spsh_ffmpeg_decode(ffmpeg, file, name, take_pcm, &wav, ret_result, err);
    if (rc != SPSH_OK || wav.failed) {
        spsh__builder_free(&wav);
        return rc != SPSH_OK ? rc : SPSH_NO_MEMORY(err);
    }
    const spsh_audio_info *info = &ret_result->info;
    const spsh__wav_form form = {.tag = info->format == SPSH_SAMPLE_F32 ? SPSH__WAV_TAG_FLOAT
                                                                        : SPSH__WAV_TAG_INTEGER,
                                 .bits_per_sample = (uint16_t)(8 * value_bytes(info)),
                                 .channels = (uint16_t)info->channels,
                                 .sample_rate_hz = info->sample_rate_hz};
    spsh__wav_head(&form, wav.size_bytes - sizeof(head), wav.data);
    *ret_wav = (spsh__ffmpeg_wav){wav.data, wav.size_bytes};
    return SPSH_OK;
}
