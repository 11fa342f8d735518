/* audio.h: sniff, inspect and decode audio of every codec that a shard may hold.
 *
 *     spsh_decoder *decoder = NULL;
 *     spsh_audio_source source = {read_fn, user, size_bytes};
 *     if (spsh_decoder_open(&source, SPSH_CODEC_UNKNOWN, NULL, &decoder, &err) == SPSH_OK)
 *         rc = spsh_decoder_read_i16(decoder, pcm, capacity, &samples, &err);
 *     spsh_decoder_free(decoder);
 *
 * All untrusted audio is decoded through this header. A codec allow-list is checked before a
 * decoder library receives a byte. Each of libFLAC, libmpg123, and libsndfile is called from only
 * one source file.
 */
#ifndef SPEECHSHARD_AUDIO_H
#define SPEECHSHARD_AUDIO_H

#include <stdbool.h>

#include "speechshard/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Stored in shards: numbers are pinned. */
typedef enum spsh_codec {
    SPSH_CODEC_UNKNOWN = 0,
    SPSH_CODEC_WAV = 1,       /* RIFF/RF64: integer or float PCM, A-law, mu-law, GSM 06.10 */
    SPSH_CODEC_FLAC = 2,      /* native FLAC stream */
    SPSH_CODEC_MP3 = 3,       /* MPEG layer III, with or without ID3 */
    SPSH_CODEC_VORBIS = 4,    /* Ogg Vorbis */
    SPSH_CODEC_OPUS = 5,      /* Ogg Opus */
    SPSH_CODEC_GSM = 6,       /* headerless GSM 06.10 frames, 8 kHz mono; known by name only */
    SPSH_CODEC_PCM = 16,      /* our own lossless int16 codec, pcm.h */
    SPSH_CODEC_FEATURES = 17, /* not audio: rows of features, features.h. Decoders reject it */
} spsh_codec;

/* Layout of samples in memory and for pcm_hash. Stored: numbers are pinned. */
typedef enum spsh_sample_format {
    SPSH_SAMPLE_I16 = 1, /* integers of at most 16 significant bits */
    SPSH_SAMPLE_I32 = 2, /* integers of more than 16 significant bits, left-justified in 32 */
    SPSH_SAMPLE_F32 = 3, /* float sources; nominal range -1 ... 1 */
} spsh_sample_format;

#define SPSH_SAMPLES_UNKNOWN UINT64_MAX

/** Contents of the headers of an audio file. Samples are per channel. */
typedef struct spsh_audio_info {
    spsh_codec codec;
    spsh_sample_format format; /* the native format: I16 for lossy codecs */
    uint32_t sample_rate_hz;   /* rate of the decoder's output */
    uint32_t nominal_rate_hz;  /* original rate in an Opus header; else the same */
    uint32_t channels;
    uint32_t bits_per_sample; /* in the source: 8, 16, 24, 32; 0 for lossy codecs */
    uint64_t samples;         /* count in the header, or SPSH_SAMPLES_UNKNOWN */
    bool has_md5;             /* FLAC only: STREAMINFO has a non-zero MD5 of the PCM */
    uint8_t md5[16];
} spsh_audio_info;

/**
 * Where a decoder reads from. read_fn copies up to size_bytes at offset_bytes and sets *ret_bytes
 * (less only at the end of the source). Called on the decoder's thread.
 */
typedef struct spsh_audio_source {
    spsh_status (*read_fn)(void *user, uint64_t offset_bytes, void *dst, size_t size_bytes,
                           size_t *ret_bytes, spsh_error *err);
    void *user;
    uint64_t size_bytes;
} spsh_audio_source;

/** A source over memory: fill data, and keep the object alive as long as the decoder. */
typedef struct spsh_memory_source {
    spsh_bytes data; /* borrowed */
} spsh_memory_source;

/** Thread-safe; reading allocates nothing. */
SPSH_API spsh_audio_source spsh_audio_source_memory(spsh_memory_source *memory);

/** A point where decoding can start: sample number and the byte offset of its frame in the file. */
typedef struct spsh_seek_point {
    uint64_t sample;
    uint64_t offset_bytes;
} spsh_seek_point;

/** Verdict on a finished decode. The absence of an error is not enough for EXACT. */
typedef enum spsh_decode_verdict {
    SPSH_DECODE_EXACT = 0,         /* count, and MD5 if present, agree with the headers */
    SPSH_DECODE_UNVERIFIED = 1,    /* no count in the headers; the stream ended cleanly */
    SPSH_DECODE_SHORT = 2,         /* fewer samples than in the headers, or the stream is cut */
    SPSH_DECODE_LONG = 3,          /* more samples than in the headers */
    SPSH_DECODE_MD5_MISMATCH = 4,  /* correct count, wrong MD5 */
    SPSH_DECODE_DECODER_LIMIT = 5, /* FLAC with intact frames (header CRC-8, frame CRC-16, counts)
                                      that libFLAC rejects. The samples do not have the stored MD5,
                                      or may wrap and no MD5 is stored */
    SPSH_DECODE_NO_END_FLAG = 6 /* Ogg without an end-of-stream flag: all pages are intact, the last
                                   packet is complete, and the count agrees */
} spsh_decode_verdict;

typedef struct spsh_decoder spsh_decoder;

/** Allocator and limits; 0 and NULL mean the defaults. */
typedef struct spsh_decoder_options {
    size_t struct_size;
    const spsh_allocator *allocator;    /* copied */
    const spsh_seek_point *seek_points; /* borrowed until free; ascending; may be NULL */
    uint64_t seek_point_count;
    uint64_t pcm_bytes_max;  /* 0: SPSH_PCM_BYTES_MAX; more is SPSH_E_LIMIT */
    uint32_t sample_rate_hz; /* for codecs whose payload carries no rate: pcm */
    bool skip_md5;           /* a whole FLAC decode is judged by its count and each frame's CRC-16;
                                the MD5 costs a third of the decoder's time */
} spsh_decoder_options;

/* clang-format off */
#define SPSH_DECODER_OPTIONS_INIT {sizeof(spsh_decoder_options), NULL, NULL, 0, 0, 0, false}
/* clang-format on */

/**
 * The decoders that are linked, such as
 * "libsndfile-1.2.0 libFLAC-1.4.2 libmpg123-api47 libsoxr-0.1.3 pcm-1". Part of a dataset's
 * identity, because exact lengths and PCM hashes depend on the decoders. Thread-safe.
 */
SPSH_API const char *spsh_audio_versions(void);

/** "flac" for SPSH_CODEC_FLAC, "unknown" for others. Thread-safe. */
SPSH_API const char *spsh_codec_name(spsh_codec codec);

/**
 * Detect the codec from the first bytes of a file.
 *
 * @param head        the first bytes; 4096 are enough
 * @param name        file name for the headerless codecs (".gsm"); may be NULL
 * @return the codec, or SPSH_CODEC_UNKNOWN. Reads nothing outside head. Thread-safe.
 */
SPSH_API spsh_codec spsh_audio_sniff(const void *head, size_t head_bytes, const char *name);

/**
 * Read the headers only.
 *
 * @param codec     SPSH_CODEC_UNKNOWN: sniff. Bytes do not identify SPSH_CODEC_GSM: for it, pass
 * the result of spsh_audio_sniff for the file's name
 * @param ret_info  written on success only
 * @return SPSH_OK, SPSH_E_AUDIO (not audio, or a header that contradicts itself),
 *         SPSH_E_UNSUPPORTED (a codec outside the allow-list), SPSH_E_TRUNCATED (the file ends
 *         inside its headers; a WAV that is shorter than it states; an Ogg stream that does not
 *         end), SPSH_E_LIMIT, or any status of read_fn. Thread-safe. Safe on hostile input.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_audio_inspect(const spsh_audio_source *source,
                                                       spsh_codec codec, spsh_audio_info *ret_info,
                                                       spsh_error *err);

/**
 * Open a decoder at sample 0.
 *
 * @param source       copied; its user data must outlive the decoder
 * @param ret_decoder  written on success only; free with spsh_decoder_free
 * Codes as spsh_audio_inspect, and SPSH_E_NO_MEMORY. One thread per decoder.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_decoder_open(const spsh_audio_source *source,
                                                      spsh_codec codec,
                                                      const spsh_decoder_options *options,
                                                      spsh_decoder **ret_decoder, spsh_error *err);

/**
 * Replace the decoder's stream by another, at its sample 0, and reuse its memory and the library's
 * objects. Our code allocates nothing if the codec is FLAC, WAV, MP3, or pcm, is the same as
 * before, and the buffers are large enough. For many short utterances.
 *
 * @param options  NULL for defaults, which replace the previous options; the allocator is not used
 * @return as spsh_decoder_open. After a failure nothing is open: the decoder can be reopened or
 * freed; other calls fail with SPSH_E_INVALID_ARG.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_decoder_reopen(spsh_decoder *decoder,
                                                        const spsh_audio_source *source,
                                                        spsh_codec codec,
                                                        const spsh_decoder_options *options,
                                                        spsh_error *err);

/** Valid until reopen or free. */
SPSH_API const spsh_audio_info *spsh_decoder_info(const spsh_decoder *decoder);

/**
 * Go to a sample: from the last seek point at or before it. Without a seek point, go there directly
 * (WAV, pcm, FLAC) or decode from the start. The samples are the same as in a decode of the whole
 * file.
 *
 * @return SPSH_OK; SPSH_E_INVALID_ARG past the end; otherwise as read.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_decoder_seek(spsh_decoder *decoder, uint64_t sample,
                                                      spsh_error *err);

/**
 * Decode the next samples, interleaved. In the decoder's native format there is no loss; reading
 * another format converts: I32 to I16 by rounding half up and clamping, integers to float by 2^-15
 * or 2^-31, float to integer by scaling, rounding half to even and clamping; NaN becomes 0.
 *
 * FLAC samples of at most 24 bits that leave their range wrap to their low bits if the stream has
 * an MD5, as in files of old encoders. A whole decode checks that MD5. Without an MD5 such samples
 * are damage.
 *
 * @param capacity     samples per channel that fit into pcm
 * @param ret_samples  samples per channel written; less than capacity only at the end
 * @return SPSH_OK; SPSH_E_AUDIO at damage (earlier calls have returned the samples before it);
 *         SPSH_E_TRUNCATED if the audio ends before the count of the headers; SPSH_E_LIMIT; or any
 *         status of read_fn.
 * One thread per decoder. Our code allocates nothing; the libraries may.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_decoder_read_i16(spsh_decoder *decoder, int16_t *pcm,
                                                          uint64_t capacity, uint64_t *ret_samples,
                                                          spsh_error *err);
SPSH_API SPSH_NODISCARD spsh_status spsh_decoder_read_i32(spsh_decoder *decoder, int32_t *pcm,
                                                          uint64_t capacity, uint64_t *ret_samples,
                                                          spsh_error *err);
SPSH_API SPSH_NODISCARD spsh_status spsh_decoder_read_f32(spsh_decoder *decoder, float *pcm,
                                                          uint64_t capacity, uint64_t *ret_samples,
                                                          spsh_error *err);

/**
 * Decode two streams from their positions to their ends, in their native formats, and compare all
 * samples. Decoders with different formats, rates, or channel counts are unequal without decoding.
 *
 * @param ret_equal  written on success only
 * @return SPSH_OK; SPSH_E_INVALID_ARG if a is b, or either has no open stream; any code of
 *         spsh_decoder_read_i16. One thread for both decoders. Our code allocates nothing.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_decoder_compare(spsh_decoder *a, spsh_decoder *b,
                                                         bool *ret_equal, spsh_error *err);

/** NULL is fine. */
SPSH_API void spsh_decoder_free(spsh_decoder *decoder);

/** Result of decoding a whole file. */
typedef struct spsh_decode_result {
    size_t struct_size;
    spsh_audio_info info;
    uint64_t samples; /* decoded, per channel; under DECODER_LIMIT the header's count */
    spsh_decode_verdict verdict;
    uint8_t pcm_hash[16]; /* FORMAT.md, "PCM hash"; zero under DECODER_LIMIT */
    char detail[160];     /* one line for a report; empty under EXACT and UNVERIFIED */
} spsh_decode_result;
/* clang-format off */
#define SPSH_DECODE_RESULT_INIT {sizeof(spsh_decode_result), \
    {SPSH_CODEC_UNKNOWN, SPSH_SAMPLE_I16, 0, 0, 0, 0, 0, false, {0}}, 0, SPSH_DECODE_EXACT, {0}, \
    {0}}
/* clang-format on */

/** Receives decoded PCM in the native format, interleaved. A non-zero status ends the decode. */
typedef spsh_status (*spsh_pcm_sink_fn)(void *user, const spsh_audio_info *info, const void *pcm,
                                        uint64_t samples, spsh_error *err);

/**
 * Decode a whole file in memory, compare it with its headers, and hash its PCM.
 *
 * @param sink        may be NULL: only hash and count
 * @param ret_result  written on success only; success includes every verdict: the caller decides
 * @return SPSH_OK; SPSH_E_AUDIO, SPSH_E_UNSUPPORTED, SPSH_E_LIMIT, SPSH_E_NO_MEMORY, or the sink's
 * status. Thread-safe. Safe on hostile input.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_audio_decode_memory(spsh_bytes file, spsh_codec codec,
                                                             const spsh_decoder_options *options,
                                                             spsh_pcm_sink_fn sink, void *user,
                                                             spsh_decode_result *ret_result,
                                                             spsh_error *err);

/**
 * Find seek points of a FLAC file in memory, at least interval_samples apart, the first at sample
 * 0. Walks the frames and checks each CRC-8 and CRC-16. Other codecs: *ret_count = 0.
 *
 * @param points      [capacity]; NULL with capacity 0: only count
 * @return SPSH_OK, SPSH_E_CORRUPT with the offset of the first damaged frame. Thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_audio_seek_points(spsh_bytes file, spsh_codec codec,
                                                           uint64_t interval_samples,
                                                           spsh_seek_point *points,
                                                           uint64_t capacity, uint64_t *ret_count,
                                                           spsh_error *err);

/** Encode int16 (bits 16) or left-justified int32 (bits 24) PCM as FLAC level 5, deterministically.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_flac_encode(const void *pcm, spsh_sample_format format,
                                                     uint32_t bits_per_sample, uint64_t samples,
                                                     uint32_t channels, uint32_t sample_rate_hz,
                                                     uint8_t *dst, size_t capacity_bytes,
                                                     size_t *ret_bytes, spsh_error *err);

/** Capacity that spsh_flac_encode always fits into. */
SPSH_API size_t spsh_flac_bound(uint64_t samples, uint32_t channels, uint32_t bits_per_sample);

/** Mix interleaved int16 PCM to one channel: the mean, rounded to nearest, halves up. dst:
 * [samples]; it may equal pcm. Thread-safe. */
SPSH_API void spsh_mix_i16(const int16_t *pcm, uint64_t samples, uint32_t channels, int16_t *dst);

/**
 * Resample interleaved int16 PCM (libsoxr, very high quality), deterministically.
 *
 * The output has ceil(samples * to / from) samples per channel; capacity is in samples per channel.
 * @return SPSH_OK, SPSH_E_INVALID_ARG, SPSH_E_LIMIT (capacity), SPSH_E_NO_MEMORY. Thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_resample_i16(const int16_t *pcm, uint64_t samples,
                                                      uint32_t channels, uint32_t from_rate_hz,
                                                      uint32_t to_rate_hz, int16_t *dst,
                                                      uint64_t capacity, uint64_t *ret_samples,
                                                      spsh_error *err);

/** The same for float PCM. Full scale is 1; larger values are not clipped. */
SPSH_API SPSH_NODISCARD spsh_status spsh_resample_f32(const float *pcm, uint64_t samples,
                                                      uint32_t channels, uint32_t from_rate_hz,
                                                      uint32_t to_rate_hz, float *dst,
                                                      uint64_t capacity, uint64_t *ret_samples,
                                                      spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
