/* ffmpeg_wav.h: a file that FFmpeg's plug-in decodes, as a WAV file in memory. */
#ifndef SPSH_PACK_FFMPEG_WAV_H
#define SPSH_PACK_FFMPEG_WAV_H

#include "speechshard/ffmpeg.h"

typedef struct spsh__ffmpeg_wav {
    uint8_t *data; /* allocated with malloc */
    size_t size_bytes;
} spsh__ffmpeg_wav;

/* Decode a file. The WAV file has 16, 24, or 32 bits per sample, or 32-bit float. *ret_wav is set
 * with every verdict. Codes as spsh_ffmpeg_decode. */
SPSH_NODISCARD spsh_status spsh__ffmpeg_to_wav(const spsh_ffmpeg *ffmpeg, spsh_bytes file,
                                               const char *name, spsh__ffmpeg_wav *ret_wav,
                                               spsh_decode_result *ret_result, spsh_error *err);

#endif
