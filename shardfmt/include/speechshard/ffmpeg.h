/* ffmpeg.h: audio that speechshard does not read, decoded by FFmpeg's libraries. They are only in a
 * plug-in, libspeechshard-ffmpeg.so, which spsh_ffmpeg_open loads. Nothing else needs them:
 * decoded audio is stored as a codec of audio.h.
 *
 *     spsh_ffmpeg *ffmpeg = NULL;
 *     if (spsh_ffmpeg_open(NULL, &ffmpeg, &err) != SPSH_OK)
 *         fprintf(stderr, "%s\n", err.message);       // states why
 *     rc = spsh_ffmpeg_decode(ffmpeg, file, "a.m4a", sink, user, &result, &err);
 *     spsh_ffmpeg_close(ffmpeg);
 */
#ifndef SPEECHSHARD_FFMPEG_H
#define SPEECHSHARD_FFMPEG_H

#include "speechshard/audio.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPSH_FFMPEG_PLUGIN_NAME "libspeechshard-ffmpeg.so"

/** A loaded plug-in. Immutable: any thread may use it, but not during close. */
typedef struct spsh_ffmpeg spsh_ffmpeg;

/**
 * Load the plug-in.
 *
 * @param path  path of the plug-in. NULL: search it as spsh_cuda_open searches its own
 * @return SPSH_OK; SPSH_E_NOT_FOUND (no plug-in there), SPSH_E_VERSION (a plug-in of another
 *         version), SPSH_E_IO (it cannot be loaded), SPSH_E_NO_MEMORY. Thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_ffmpeg_open(const char *path, spsh_ffmpeg **ret_ffmpeg,
                                                     spsh_error *err);

/** NULL is fine. */
SPSH_API void spsh_ffmpeg_close(spsh_ffmpeg *ffmpeg);

/** The libraries that decode, such as "libavformat-59.27.100 libavcodec-59.37.100". */
SPSH_API const char *spsh_ffmpeg_versions(const spsh_ffmpeg *ffmpeg);

/** True if the first bytes, or for G.722 the name, are of a kind that the plug-in reads. */
SPSH_API bool spsh_ffmpeg_sniff(const void *head, size_t head_bytes, const char *name);

/**
 * Decode a whole file in memory, and compare it with its headers.
 *
 * Reads MP4 (AAC, ALAC), Matroska and WebM (Opus, Vorbis, AAC, FLAC, MP3, PCM), ASF (WMA), AMR,
 * AIFF, CAF, ADTS AAC, G.722, and SPHERE compressed by shorten, with one audio stream. Lossy codecs
 * become int16 by the rule of docs/reference/format-audio.md.
 *
 * @param name        file name, for G.722, which has no magic number; may be NULL
 * @param sink        may be NULL: only count
 * @param ret_result  struct_size is set by the caller; written on success only. Success includes
 *                    every verdict. info.codec is SPSH_CODEC_UNKNOWN; there is no pcm_hash
 * @return SPSH_OK; SPSH_E_AUDIO; SPSH_E_UNSUPPORTED; SPSH_E_LIMIT: more than SPSH_PCM_BYTES_MAX;
 *         SPSH_E_NO_MEMORY; or the sink's status. Thread-safe. Limits memory and work for hostile
 *         input, but FFmpeg's libraries run in the process.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_ffmpeg_decode(const spsh_ffmpeg *ffmpeg, spsh_bytes file,
                                                       const char *name, spsh_pcm_sink_fn sink,
                                                       void *user, spsh_decode_result *ret_result,
                                                       spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
