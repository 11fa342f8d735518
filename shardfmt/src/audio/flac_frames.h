/* flac_frames.h: walks the frames of a FLAC file in memory without decoding them. */
#ifndef SPSH_FLAC_FRAMES_H
#define SPSH_FLAC_FRAMES_H

#include <stdbool.h>

#include "base/base_internal.h"

/* What a frame header says. */
typedef struct spsh__flac_frame {
    uint64_t offset_bytes; /* in the file */
    uint64_t size_bytes;   /* with header and CRC-16 */
    uint64_t sample;       /* first sample, counted from the first frame of the file */
    uint64_t number;       /* coded: frame number, or sample number of variable block sizes */
    uint32_t block_samples;
    uint32_t channels;
    uint32_t channel_code; /* 0 to 7: one less than channels; 8 to 10: left, right, mid and side */
    uint32_t sample_rate_hz;  /* 0: as in STREAMINFO */
    uint32_t bits_per_sample; /* 0: as in STREAMINFO */
    uint32_t header_bytes;
    bool number_is_sample;
} spsh__flac_frame;

/* What STREAMINFO says of all frames. */
typedef struct spsh__flac_shape {
    uint32_t channels;
    uint32_t sample_rate_hz;
    uint32_t bits_per_sample;
    uint32_t block_samples_max;
} spsh__flac_shape;

/* One file being walked. */
typedef struct spsh__flac_walker {
    spsh_bytes file;
    uint64_t offset_bytes; /* of the next frame */
    uint64_t sample;
    uint64_t sample_count; /* STREAMINFO's; 0 when it states none */
    spsh__flac_shape shape;
    bool has_frame;        /* last is set */
    spsh__flac_frame last; /* the frame that was returned before */
} spsh__flac_walker;

/* CRC-16 of what crc stands for and data behind it; 0 at the start. */
uint32_t spsh__flac_crc16(uint32_t crc, const uint8_t *data, size_t size_bytes);

/* Parses a frame header, of 16 bytes at most, and checks its CRC-8 and every reserved value. false:
 * it is none. */
bool spsh__flac_parse_frame(spsh_bytes bytes, spsh__flac_frame *ret_frame);

/* Whether the header agrees with STREAMINFO: all but the block size. */
bool spsh__flac_has_shape(const spsh__flac_frame *frame, const spsh__flac_shape *shape);

/* Starts at the first frame, whose offset the caller has from the metadata blocks. */
void spsh__flac_walk_begin(spsh__flac_walker *walker, spsh_bytes file,
                           uint64_t first_frame_offset_bytes, const uint8_t streaminfo[34]);

/* SPSH_OK; SPSH_E_END behind the last frame; SPSH_E_CORRUPT with the damaged frame's offset. */
spsh_status spsh__flac_walk_next(spsh__flac_walker *walker, spsh__flac_frame *ret_frame,
                                 spsh_error *err);

#endif
