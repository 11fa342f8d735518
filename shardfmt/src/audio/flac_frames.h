/* flac_frames.h: walks the frames of a FLAC file in memory without decoding them. */
#ifndef SPSH_FLAC_FRAMES_H
#define SPSH_FLAC_FRAMES_H

#include <stdbool.h>

#include "base/base_internal.h"

/* Content of a frame header. */
typedef struct spsh__flac_frame {
    uint64_t offset_bytes; /* in the file */
    uint64_t size_bytes;   /* with header and CRC-16 */
    uint64_t sample;       /* first sample, counted from the first frame of the file */
    uint64_t number;       /* coded: frame number, or sample number if block sizes vary */
    uint32_t block_samples;
    uint32_t channels;
    uint32_t channel_code; /* 0 to 7: one less than channels; 8 to 10: left, right, mid and side */
    uint32_t sample_rate_hz;  /* 0: as in STREAMINFO */
    uint32_t bits_per_sample; /* 0: as in STREAMINFO */
    uint32_t header_bytes;
    bool number_is_sample;
} spsh__flac_frame;

/* Properties of all frames, from STREAMINFO. */
typedef struct spsh__flac_shape {
    uint32_t channels;
    uint32_t sample_rate_hz;
    uint32_t bits_per_sample;
    uint32_t block_samples_max;
} spsh__flac_shape;

/* One file being walked. */
typedef struct spsh__flac_walker {
    spsh_bytes file;
    uint64_t offset_bytes; /* offset of the next frame */
    uint64_t sample;
    uint64_t sample_count; /* count from STREAMINFO; 0 if unknown */
    spsh__flac_shape shape;
    bool has_frame;        /* last is set */
    spsh__flac_frame last; /* frame that was returned last */
} spsh__flac_walker;

/* Continue the CRC-16 `crc` with data; start with 0. */
uint32_t spsh__flac_crc16(uint32_t crc, const uint8_t *data, size_t size_bytes);

/* Parse a frame header of at most 16 bytes, and check its CRC-8 and every reserved value. Returns
 * false if the header is invalid. */
bool spsh__flac_parse_frame(spsh_bytes bytes, spsh__flac_frame *ret_frame);

/* Return whether the header agrees with STREAMINFO in everything except the block size. */
bool spsh__flac_has_shape(const spsh__flac_frame *frame, const spsh__flac_shape *shape);

/* Start at the first frame. The caller finds its offset in the metadata blocks. */
void spsh__flac_walk_begin(spsh__flac_walker *walker, spsh_bytes file,
                           uint64_t first_frame_offset_bytes, const uint8_t streaminfo[34]);

/* Return SPSH_OK; SPSH_E_END after the last frame; SPSH_E_CORRUPT with the damaged frame's offset.
 */
spsh_status spsh__flac_walk_next(spsh__flac_walker *walker, spsh__flac_frame *ret_frame,
                                 spsh_error *err);

#endif
