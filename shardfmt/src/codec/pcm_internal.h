/* pcm_internal.h: declarations shared by the sources of the codec `pcm`, and the shape of a block.
 *
 * A block is one channel of one frame: raw, constant, or predicted. A predicted block of n samples
 * is cut into PCM_LANES lanes of 16 * rows consecutive samples (the last lanes may be short or
 * empty). Each lane is predicted only from its own past, beginning with zeros. So the recursion
 *
 *     x[t] = r[t] + ((c[1] * x[t - 1] + ... + c[8] * x[t - 8]) >> shift)
 *
 * runs in all lanes at once, one vector step per t. Row b of the block holds samples 16b to 16b +
 * 15 of every lane. Residuals are packed in groups of 16 samples of one lane, each group with its
 * own width:
 *
 *     row 0:  lane 0 group, lane 1 group, ... lane 15 group     2 * width bytes each
 *     row 1:  lane 0 group, ...
 *
 * A group of width w is a little-endian string of 16 fields of w bits. Field u means the residual
 * u - bias(w), bias(w) = 2^(w - 1) - 1, or 0 for w = 0. All arithmetic is modulo 2^32, and samples
 * are its low 16 bits. So nothing overflows for any input, and all implementations agree.
 */
#ifndef SPSH_PCM_INTERNAL_H
#define SPSH_PCM_INTERNAL_H

#include <stdbool.h>

#include "speechshard/pcm.h"

/* Place before a short loop over an array of vectors, so that the array can live in registers. */
#if defined(__clang__)
#define PCM_UNROLL _Pragma("clang loop unroll(full)")
#else
#define PCM_UNROLL _Pragma("GCC unroll 16")
#endif

/* The largest form of a block is raw: one byte, then the samples. */
#define PCM_BLOCK_BYTES_MAX(samples_) (1 + 2 * (size_t)(samples_))

enum {
    PCM_FORM_RAW = 0,
    PCM_FORM_CONSTANT = 1,
    PCM_FORM_PREDICTED = 2,

    PCM_LANES = 16,
    PCM_GROUP_SAMPLES = 16, /* samples of one lane */
    PCM_ROW_SAMPLES = PCM_LANES * PCM_GROUP_SAMPLES,
    PCM_ROWS_MAX = SPSH_PCM_FRAME_SAMPLES / PCM_ROW_SAMPLES,
    PCM_WIDTH_MAX = 16,

    PCM_ORDER = 8,
    PCM_COEFFICIENT_BITS = 12,
    PCM_SHIFT_MAX = 15,
    PCM_SET_BYTES = 1 + PCM_ORDER * PCM_COEFFICIENT_BITS / 8,
    PCM_SETS_LOG2_MAX = 4,
    PCM_SETS_LOG2_MASK = 0x07, /* bits of a predicted block's second byte */
    PCM_FLAG_STARTS = 0x08,
    PCM_ZERO_BITS_SHIFT = 4,
    PCM_STARTS_BYTES = 2 * PCM_LANES,

    PCM_FIRST_ROW_WIDTH_BYTES = PCM_LANES / 2, /* rows 0 and 1: 4 bits per lane */
    PCM_NEXT_ROW_WIDTH_BYTES = PCM_LANES / 4,  /* 2 bits per lane: a difference */
    PCM_PREDICTED_HEAD_BYTES = 2,
};

/* Vector decoders read up to 32 bytes from the first byte of a group, whatever its width. */
#define PCM_READ_AHEAD_BYTES 32

/* A parsed predicted block. */
typedef struct pcm_predicted {
    const uint8_t *widths; /* spsh__pcm_width_bytes(rows) bytes */
    const uint8_t *groups; /* group_bytes, and PCM_READ_AHEAD_BYTES more that may be read */
    size_t group_bytes;
    uint32_t rows;
    /* Coefficient pairs in the layout of a multiply-add of 16-bit pairs: c[2k + 2] in the low half,
     * c[2k + 1] in the high half, for each lane. */
    uint32_t pairs[PCM_ORDER / 2][PCM_LANES];
    uint32_t shifts[PCM_LANES];
    uint32_t starts[PCM_LANES];   /* value of all samples before a lane, in both halves */
    uint8_t live_rows[PCM_LANES]; /* later groups have width 0 */
} pcm_predicted;

static inline size_t spsh__pcm_width_bytes(uint32_t rows)
{
    return rows < 2 ? PCM_FIRST_ROW_WIDTH_BYTES
                    : 2 * PCM_FIRST_ROW_WIDTH_BYTES + (rows - 2) * PCM_NEXT_ROW_WIDTH_BYTES;
}

/* Return the number of groups of a lane that hold samples. The others have width 0, whatever their
 * width codes are. */
static inline uint32_t spsh__pcm_live_rows(uint32_t samples, uint32_t rows, uint32_t lane)
{
    uint32_t first = lane * rows * PCM_GROUP_SAMPLES;
    uint32_t groups = samples <= first ? 0 : (samples - first - 1) / PCM_GROUP_SAMPLES + 1;
    return groups < rows ? groups : rows;
}

/* Prefetch a row some rows ahead. The hardware prefetcher is too slow for this stream. The address
 * may be outside the payload, since nothing is read from it here. */
static inline void spsh__pcm_prefetch(const uint8_t *groups)
{
    PCM_UNROLL
    for (uintptr_t i = 0; i < 5; i++)
        /* NOLINTNEXTLINE(performance-no-int-to-ptr): a pointer sum must not leave its array */
        __builtin_prefetch((const void *)((uintptr_t)groups + 2048 + 64 * i));
}

/* Decode 256 * rows samples. Returns false if widths are out of range or do not sum to group_bytes.
 */
typedef bool pcm_decode_fn(const pcm_predicted *block, int16_t *pcm);
pcm_decode_fn spsh__pcm_decode_scalar;
#if defined(__x86_64__)
pcm_decode_fn spsh__pcm_decode_avx2;
pcm_decode_fn spsh__pcm_decode_avx512;
#endif

/* values[k] belongs to x[t - 1 - k]. */
typedef struct pcm_coefficients {
    int16_t values[PCM_ORDER];
    uint32_t shift;
} pcm_coefficients;

/* Parts of the encoder that have a vector form. At least PCM_ORDER samples precede pcm. */
typedef void pcm_residuals_fn(const pcm_coefficients *set, const int16_t *pcm, uint32_t count,
                              int16_t *residuals);
/* Return the smallest width w whose fields cover -(2^(w - 1) - 1) to 2^(w - 1). */
typedef uint8_t pcm_width_fn(const int16_t residuals[PCM_GROUP_SAMPLES]);
/* Write up to PCM_PACK_AHEAD_BYTES, of which 2 * width are valid. */
typedef void pcm_pack_fn(const int16_t residuals[PCM_GROUP_SAMPLES], unsigned width, uint8_t *out);
#define PCM_PACK_AHEAD_BYTES 32
pcm_residuals_fn spsh__pcm_residuals_scalar;
#if defined(__x86_64__)
pcm_residuals_fn spsh__pcm_residuals_avx2;
pcm_width_fn spsh__pcm_width_avx2;
pcm_pack_fn spsh__pcm_pack_avx2;
#endif

typedef enum pcm_isa { PCM_ISA_SCALAR, PCM_ISA_AVX2, PCM_ISA_AVX512, PCM_ISA_COUNT } pcm_isa;

/* Return the best instruction set of this processor, or the one that a test or benchmark forced. */
pcm_isa spsh__pcm_isa(void);
bool spsh__pcm_isa_is_supported(pcm_isa isa);
/* Do not call while another thread encodes or decodes. PCM_ISA_COUNT selects the best again. */
void spsh__pcm_force_isa(pcm_isa isa);

/* Encode 1 to SPSH_PCM_FRAME_SAMPLES samples. Returns the size, at most PCM_BLOCK_BYTES_MAX. */
size_t spsh__pcm_block_encode(const int16_t *pcm, uint32_t samples, uint8_t *block);

/* Decode `samples` values; pcm has capacity for whole rows. readable_bytes: bytes from block on
 * that may be read, at least block_bytes. Returns false if the block is invalid. */
bool spsh__pcm_block_decode(const uint8_t *block, size_t block_bytes, size_t readable_bytes,
                            uint32_t samples, int16_t *pcm);

/* Return whether spsh__pcm_block_decode would decode the block. Reads only the block's head. */
bool spsh__pcm_block_check(const uint8_t *block, size_t block_bytes, uint32_t samples);

/* Frames [first_frame, end_frame) of a payload, which a range touches. */
typedef struct pcm_range {
    spsh_pcm_info info;
    uint64_t first_frame, end_frame;
    uint64_t first_sample, end_sample;
} pcm_range;

/* Check the head, and that the range is within it. An empty range touches no frames. */
spsh_status spsh__pcm_range_of(const spsh_pcm_part *part, uint64_t first_sample,
                               uint64_t sample_count, pcm_range *ret_range, spsh_error *err);

/* Find the offset of a block within the part's piece, and check it. */
spsh_status spsh__pcm_find_block(const spsh_pcm_part *part, const spsh_pcm_info *info,
                                 uint64_t block_index, spsh_bytes *ret_block, spsh_error *err);

/* Return the samples per channel of a frame. */
uint32_t spsh__pcm_frame_length(uint64_t samples, uint64_t frame_index);

#endif
