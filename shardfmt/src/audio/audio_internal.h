/* audio_internal.h: declarations shared by the sources that implement audio.h.
 *
 *     audio.c          the public functions: options, conversion, whole decodes
 *     audio_sniff.c    codec of the first bytes, or a description of other bytes
 *     audio_window.c   bounded reads from a source
 *     audio_wav.c      RIFF chunks; integer, float, A-law and mu-law decoding
 *     audio_flac.c     libFLAC: decode, encode            flac_frames.c  our own frame walker
 *                                                         flac_decode.c  our own fast decoder
 *     audio_mp3.c      MPEG frame headers, Xing and LAME  audio_ogg.c    pages, Opus, Vorbis heads
 *     audio_mpg123.c   libmpg123: MP3                     audio_vorbis.c libvorbis: its headers
 *     audio_sndfile.c  libsndfile: Vorbis, Opus, GSM      audio_pcm.c    our own codec, pcm.h
 *
 * A codec is a table of functions. Its open reads the headers itself, so that a library only ever
 * sees a stream whose kind, extent, and structure are known.
 */
#ifndef SPSH_AUDIO_INTERNAL_H
#define SPSH_AUDIO_INTERNAL_H

#include <errno.h>

#include "base/base_internal.h"
#include "speechshard/audio.h"
#include "speechshard/limits.h"

#define SPSH__WINDOW_BYTES  4096
#define SPSH__SCRATCH_BYTES 65536

/* Sliding view of a source, so that header parsers make few and bounded reads. */
typedef struct spsh__audio_window {
    const spsh_audio_source *source;
    uint64_t offset_bytes;
    size_t size_bytes;
    uint8_t bytes[SPSH__WINDOW_BYTES];
} spsh__audio_window;

void spsh__window_init(spsh__audio_window *window, const spsh_audio_source *source);

/* Get up to size_bytes (at most SPSH__WINDOW_BYTES) at offset_bytes; fewer only at the source's
 * end. */
spsh_status spsh__window_get(spsh__audio_window *window, uint64_t offset_bytes, size_t size_bytes,
                             spsh_bytes *ret_bytes, spsh_error *err);

/* Read at most size_bytes, and never past the end that the source states. */
spsh_status spsh__source_read(const spsh_audio_source *source, uint64_t offset_bytes, void *dst,
                              size_t size_bytes, size_t *ret_bytes, spsh_error *err);

/* Get the same bytes without a copy, if the source is in memory and has them all. */
bool spsh__source_view(const spsh_audio_source *source, uint64_t offset_bytes, size_t size_bytes,
                       spsh_bytes *ret_bytes);

/* A codec. judge is called once, after read has returned 0 samples or failed. If keeps_state, open
 * may find the state of an earlier stream in decoder->state, and reuses its allocations. */
typedef struct spsh__audio_backend {
    bool keeps_state;
    spsh_status (*inspect)(spsh__audio_window *window, spsh_audio_info *ret_info, spsh_error *err);
    spsh_status (*open)(spsh_decoder *decoder, spsh__audio_window *window, spsh_error *err);
    spsh_status (*read)(spsh_decoder *decoder, void *pcm, uint64_t capacity, uint64_t *ret_samples,
                        spsh_error *err);
    spsh_status (*seek)(spsh_decoder *decoder, uint64_t sample, spsh_error *err);
    void (*judge)(spsh_decoder *decoder, spsh_bytes file, spsh_decode_result *result);
    void (*close)(spsh_decoder *decoder);
} spsh__audio_backend;

extern const spsh__audio_backend spsh__audio_wav;
extern const spsh__audio_backend spsh__audio_flac;
extern const spsh__audio_backend spsh__audio_mpg123;
extern const spsh__audio_backend spsh__audio_sndfile;
extern const spsh__audio_backend spsh__audio_pcm;

struct spsh_decoder {
    spsh_allocator allocator;
    spsh_audio_source source;
    spsh_audio_info info;
    const spsh__audio_backend *backend; /* NULL: nothing is open */
    void *state;                        /* state of the codec: allocated by open, freed by close */
    const spsh_seek_point *seek_points;
    uint64_t seek_point_count;
    uint64_t pcm_bytes_max;
    uint64_t position; /* next sample that read returns */
    bool keep_going;   /* whole decode: report damage in the verdict, not as an error */
    bool skips_md5;
    uint32_t sample_rate_hz; /* rate from the caller, for codecs without one */
    uint8_t *scratch;        /* SPSH__SCRATCH_BYTES, for conversions and whole decodes */
};

/* Versions of the linked libraries: "libsndfile-1.2.0", "1.4.2", "libmpg123-api47",
 * "libsoxr-0.1.3". */
const char *spsh__mpg123_version(void);
const char *spsh__sndfile_version(void);
const char *spsh__flac_version(void);
const char *spsh__soxr_version(void);

size_t spsh__sample_bytes(spsh_sample_format format);

/* True if a call into a codec library failed because it could not allocate. Set errno to 0 before
 * the call. Libraries report a failed allocation like damaged audio, but a verdict about a file
 * must not depend on free memory. */
static inline bool spsh__library_lacks_memory(void)
{
    return errno == ENOMEM;
}

static inline bool spsh__host_is_little_endian(void)
{
    const uint16_t one = 1;
    uint8_t first = 0;
    memcpy(&first, &one, 1);
    return first == 1;
}

/* Check that rates and channels are within limits.h. */
spsh_status spsh__audio_check_info(const spsh_audio_info *info, spsh_error *err);

/* Compare the sample count with the headers' claim and set verdict and detail. */
void spsh__audio_judge_count(spsh_decode_result *result);
void spsh__audio_judge_set(spsh_decode_result *result, spsh_decode_verdict verdict,
                           const char *format, ...) SPSH_PRINTF(3, 4);

/* Convert float samples to int16 by the rule of audio.h: times 32768, half to even, clamped, NaN to
 * 0. */
void spsh__f32_to_i16(const float *src, int16_t *dst, size_t count);

/* Detect the codec of a file, after any ID3v2 tags. The error names the kind of an unsupported
 * file. */
spsh_status spsh__audio_detect(spsh__audio_window *window, spsh_codec *ret_codec, spsh_error *err);

/* Fail for bytes of no supported codec; the message describes their likely kind. */
spsh_status spsh__audio_refuse(spsh_bytes head, spsh_error *err);

/* Find the offset of the first byte after the ID3v2 tags at the start; 0 without a tag. */
spsh_status spsh__id3_skip(spsh__audio_window *window, uint64_t *ret_offset, spsh_error *err);

/* Coding of a WAV file's payload. */
typedef enum spsh__wav_coding {
    SPSH__WAV_INTEGER,
    SPSH__WAV_FLOAT,
    SPSH__WAV_ALAW,
    SPSH__WAV_MULAW,
    SPSH__WAV_GSM,
} spsh__wav_coding;

typedef struct spsh__wav_layout {
    spsh__wav_coding coding;
    uint32_t block_bytes; /* one sample of all channels; GSM: 65 */
    uint64_t data_offset_bytes;
    uint64_t data_bytes; /* bytes present, in whole blocks */
    bool is_cut;         /* the header states more bytes than are present */
} spsh__wav_layout;

/* Read the chunks. A cut file does not fail: layout->is_cut is set. */
spsh_status spsh__wav_parse(spsh__audio_window *window, spsh_audio_info *ret_info,
                            spsh__wav_layout *ret_layout, spsh_error *err);

#define SPSH__OGG_PATCHES 2

/* Changes to the head of an Ogg page, for libsndfile. */
typedef struct spsh__ogg_page_patch {
    bool is_used;
    uint64_t offset_bytes; /* offset of the page */
    uint8_t head[26];      /* from byte 5 on: flags, position, serial number, sequence, CRC */
} spsh__ogg_page_patch;

/* The extent of compressed audio inside a file, found by walking its frames or pages. */
typedef struct spsh__stream_extent {
    uint64_t begin_bytes;
    uint64_t end_bytes;    /* end of the last intact frame or page */
    uint32_t head_bytes;   /* Ogg: size of the first page */
    uint64_t samples;      /* count that the intact part states or, for MP3, sums up to */
    bool is_clean;         /* only tags follow, and the last packet is complete */
    uint32_t pre_skip;     /* Opus: samples to discard at the start */
    uint64_t begin_sample; /* Opus: position of the first sample, with the pre-skip */
    bool counts_packets;   /* Opus: the samples of all packets are counted */
    bool lacks_end_flag;   /* Ogg: clean, but the last page has no end-of-stream flag */
    spsh__ogg_page_patch patches[SPSH__OGG_PATCHES]; /* Ogg */
    char detail[120];                                /* why it is not clean */
} spsh__stream_extent;

/* Compare the sample count with the sum of the frames or pages, if the headers claim no count. */
void spsh__audio_judge_extent(spsh_decode_result *result, const spsh__stream_extent *extent);

/* Check a seek that decoded up to the sample: SPSH_E_INVALID_ARG if the audio ended before. */
spsh_status spsh__audio_check_reached(const spsh_decoder *decoder, uint64_t sample,
                                      spsh_error *err);

/* Both fill info. With head_only they read only the first frame (MP3), or the pages up to the first
 * audio and the last page (Ogg). */
spsh_status spsh__mp3_parse(spsh__audio_window *window, bool head_only, spsh_audio_info *ret_info,
                            spsh__stream_extent *ret_extent, spsh_error *err);
spsh_status spsh__ogg_parse(spsh__audio_window *window, bool head_only, spsh_audio_info *ret_info,
                            spsh__stream_extent *ret_extent, spsh_error *err);

/* Check the headers of a Vorbis stream that spsh__ogg_parse has walked, and write replacement pages
 * to head. extent->begin_bytes becomes the first page of audio. */
struct spsh__buffer;
spsh_status spsh__vorbis_compose(spsh__audio_window *window, const spsh_allocator *allocator,
                                 spsh__stream_extent *extent, struct spsh__buffer *head,
                                 spsh_error *err);

/* Apply the patches to a copy of size_bytes from offset_bytes. */
void spsh__ogg_patch(const spsh__stream_extent *extent, uint64_t offset_bytes, uint8_t *bytes,
                     size_t size_bytes);

/* Compute and store the CRC of a whole page. */
void spsh__ogg_store_crc(uint8_t *page, size_t size_bytes);

/* Return whether two consecutive layer III frames, or one that ends the file, start at bytes. */
bool spsh__mp3_is_frame_pair(spsh_bytes bytes, bool is_whole_file);

/* Return "MPEG layer II" or similar if bytes start with such a frame header, else NULL. */
const char *spsh__mpeg_other_layer(spsh_bytes bytes);

/* Headers of a FLAC file, up to the first frame. */
typedef struct spsh__flac_head {
    uint64_t marker_offset_bytes; /* offset of "fLaC" */
    uint64_t first_frame_offset_bytes;
    uint8_t streaminfo[34];
    uint32_t block_samples_min;
    uint32_t block_samples_max;
} spsh__flac_head;

spsh_status spsh__flac_parse_head(spsh__audio_window *window, spsh_audio_info *ret_info,
                                  spsh__flac_head *ret_head, spsh_error *err);

#endif
