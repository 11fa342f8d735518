/* ffmpeg_plugin.h: the interface between ffmpeg.h and its plug-in. Not for users: it changes with
 * any version. The plug-in links none of our libraries: it receives everything in arguments.
 */
#ifndef SPEECHSHARD_FFMPEG_PLUGIN_H
#define SPEECHSHARD_FFMPEG_PLUGIN_H

#include "speechshard/audio.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPSH__FFMPEG_PLUGIN_SYMBOL "spsh_ffmpeg_plugin"

enum { SPSH__FFMPEG_ABI = 1 };

/* A file in memory, and where its samples go. */
typedef struct spsh__ffmpeg_job {
    spsh_bytes file;
    const char
        *demuxer; /* FFmpeg's name; our code chose it from the bytes, FFmpeg does not probe */
    uint64_t pcm_bytes_max;
    spsh_pcm_sink_fn sink; /* NULL: none */
    void *user;
} spsh__ffmpeg_job;

typedef struct spsh__ffmpeg_plugin {
    uint32_t abi;        /* SPSH__FFMPEG_ABI */
    const char *version; /* SPSH_VERSION_STRING */
    const char *libraries;
    spsh_status (*decode_fn)(const spsh__ffmpeg_job *job, spsh_decode_result *result,
                             spsh_error *err);
} spsh__ffmpeg_plugin;

typedef const spsh__ffmpeg_plugin *spsh__ffmpeg_plugin_fn(void);

#ifdef __cplusplus
}
#endif

#endif
