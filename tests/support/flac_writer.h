/* flac_writer.h: writes FLAC files bit by bit, plain enough to be right by reading.
 *
 *     flac_writer writer = {.channels = 1, .bits_per_sample = 16, .sample_rate_hz = 16000};
 *     flac_writer_begin(&writer, buffer, sizeof(buffer));
 *     flac_writer_frame(&writer, pcm, 4096);         -- verbatim subframes
 *     size_t size_bytes = flac_writer_end(&writer);  -- fills in STREAMINFO's count
 *
 * It shares no line with the library, checksums included, and it can write what encoders do not:
 * variable block sizes, any frame number, samples that exceed their range.
 */
#ifndef FLAC_WRITER_H
#define FLAC_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct flac_writer {
    uint32_t channels;
    uint32_t bits_per_sample;
    uint32_t sample_rate_hz;
    bool variable;         /* block sizes vary: frames are numbered by sample */
    bool hides_count;      /* STREAMINFO states no count, as if written to a pipe */
    uint64_t first_number; /* number of the first frame */
    uint8_t md5[16];       /* goes into STREAMINFO */

    uint8_t *dst;
    size_t capacity_bytes;
    size_t size_bytes;
    uint32_t bit_count; /* number of bits in the incomplete byte */
    uint64_t samples;
    uint64_t frames;
    uint32_t block_samples_max;
} flac_writer;

void flac_writer_begin(flac_writer *writer, uint8_t *dst, size_t capacity_bytes);

/* Interleaved samples, verbatim. Returns the frame's offset. */
size_t flac_writer_frame(flac_writer *writer, const int32_t *pcm, uint32_t samples);

/* How the samples of a frame are predicted. All zeros: a fixed predictor of order 1. */
typedef struct flac_prediction {
    uint32_t
        stereo; /* 8 left and side, 9 side and right, 10 mid and side; 0: channels as they are */
    uint32_t order; /* order of a linear predictor; 0: fixed */
    uint32_t shift;
    int32_t taps[4];
} flac_prediction;

/* Interleaved samples. After the first `order` samples, they may exceed the range of
 * bits_per_sample, as in files of old encoders. */
size_t flac_writer_predicted_frame(flac_writer *writer, const int32_t *pcm, uint32_t samples,
                                   const flac_prediction *prediction);

size_t flac_writer_end(flac_writer *writer);

#endif
