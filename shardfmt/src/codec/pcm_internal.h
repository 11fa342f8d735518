/* pcm_internal.h: what the sources of the codec `pcm` share: the shape of a block.
 *
 * A block is one channel of one frame: raw, constant, or predicted. A predicted block of n samples
 * is cut into PCM_LANES lanes of 16 * rows consecutive samples (the last lanes may be short or
 * empty), and each lane is predicted from its own past alone, beginning with zeros. So the
 * recursion
 *
 *     x[t] = r[t] + ((c[1] * x[t - 1] + ... + c[8] * x[t - 8]) >> shift)
 *
 * runs in all lanes at once, one vector step per t. Row b of the block holds samples 16b to 16b +
 * 15 of every lane; residuals are packed in groups of 16 samples of one lane, each group with its
 * own width:
 *
 *     row 0:  lane 0 group, lane 1 group, ... lane 15 group     2 * width bytes each
 *     row 1:  lane 0 group, ...
 *
 * A group of width w is a little-endian string of 16 fields of w bits; field u means residual
 * u - bias(w), bias(w) = 2^(w - 1) - 1, or 0 for w = 0. All arithmetic is modulo 2^32, samples are
 * its low 16 bits: nothing overflows, whatever the bytes are, and every implementation agrees.
 */
#ifndef SPSH_PCM_INTERNAL_H
#define SPSH_PCM_INTERNAL_H

#include <stdbool.h>

#include "speechshard/pcm.h"

/* In front of a short loop over an array of vectors, so that it can live in registers. */
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
    PCM_GROUP_SAMPLES = 16, /* of one lane */
    PCM_ROW_SAMPLES = PCM_LANES * PCM_GROUP_SAMPLES,
    PCM_ROWS_MAX = SPSH_PCM_FRAME_SAMPLES / PCM_ROW_SAMPLES,
    PCM_WIDTH_MAX = 16,

    PCM_ORDER = 8,
    PCM_COEFFICIENT_BITS = 12,
    PCM_SHIFT_MAX = 15,
    PCM_SET_BYTES = 1 + PCM_ORDER * PCM_COEFFICIENT_BITS / 8,
    PCM_SETS_LOG2_MAX = 4,
    PCM_SETS_LOG2_MASK = 0x07, /* of a predicted block's second byte */
    PCM_FLAG_STARTS = 0x08,
    PCM_ZERO_BITS_SHIFT = 4,
    PCM_STARTS_BYTES = 2 * PCM_LANES,

    PCM_FIRST_ROW_WIDTH_BYTES = PCM_LANES / 2, /* rows 0 and 1: 4 bits a lane */
    PCM_NEXT_ROW_WIDTH_BYTES = PCM_LANES / 4,  /* 2 bits a lane: a difference */
    PCM_PREDICTED_HEAD_BYTES = 2,
};

/* Vector decoders read up to 32 bytes from the first byte of a group, whatever its width. */
#define PCM_READ_AHEAD_BYTES 32

/* A predicted block, taken apart. */
typedef struct pcm_predicted {
    const uint8_t *widths; /* spsh__pcm_width_bytes(rows) bytes */
    const uint8_t *groups; /* group_bytes, and PCM_READ_AHEAD_BYTES more that may be read */
    size_t group_bytes;
    uint32_t rows;
    /* Coefficient pairs as a multiply-add of 16-bit pairs takes them: c[2k + 2] in the low half,
     * c[2k + 1] in the high half, for each lane. */
    uint32_t pairs[PCM_ORDER / 2][PCM_LANES];
    uint32_t shifts[PCM_LANES];
    uint32_t starts[PCM_LANES];   /* what all samples before a lane count as; in both halves */
    uint8_t live_rows[PCM_LANES]; /* groups from here on have width 0 */
} pcm_predicted;

static inline size_t spsh__pcm_width_bytes(uint32_t rows)
{
    return rows < 2 ? PCM_FIRST_ROW_WIDTH_BYTES
                    : 2 * PCM_FIRST_ROW_WIDTH_BYTES + (rows - 2) * PCM_NEXT_ROW_WIDTH_BYTES;
}

/* Groups of a lane that hold samples; the others have width 0, whatever their width codes say. */
static inline uint32_t spsh__pcm_live_rows(uint32_t samples, uint32_t rows, uint32_t lane)
{
    uint32_t first = lane * rows * PCM_GROUP_SAMPLES;
    uint32_t groups = samples <= first ? 0 : (samples - first - 1) / PCM_GROUP_SAMPLES + 1;
    return groups < rows ? groups : rows;
}

/* Asks for a row some rows ahead. The bytes go by faster than hardware follows them; the address
 * may lie outside the payload, since it is never read from. */
static inline void spsh__pcm_prefetch(const uint8_t *groups)
{
    PCM_UNROLL
    for (uintptr_t i = 0; i < 5; i++)
        /* NOLINTNEXTLINE(performance-no-int-to-ptr): a pointer sum must not leave its array */
        __builtin_prefetch((const void *)((uintptr_t)groups + 2048 + 64 * i));
}

/* 256 * rows samples; false when widths are out of range or do not add up to group_bytes. */
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

/* The parts of the encoder that have a vector form. pcm stands behind at least PCM_ORDER others. */
typedef void pcm_residuals_fn(const pcm_coefficients *set, const int16_t *pcm, uint32_t count,
                              int16_t *residuals);
/* The smallest width w whose fields reach from -(2^(w - 1) - 1) to 2^(w - 1). */
typedef uint8_t pcm_width_fn(const int16_t residuals[PCM_GROUP_SAMPLES]);
/* Writes up to PCM_PACK_AHEAD_BYTES, of which 2 * width count. */
typedef void pcm_pack_fn(const int16_t residuals[PCM_GROUP_SAMPLES], unsigned width, uint8_t *out);
#define PCM_PACK_AHEAD_BYTES 32
pcm_residuals_fn spsh__pcm_residuals_scalar;
#if defined(__x86_64__)
pcm_residuals_fn spsh__pcm_residuals_avx2;
pcm_width_fn spsh__pcm_width_avx2;
pcm_pack_fn spsh__pcm_pack_avx2;
#endif

typedef enum pcm_isa { PCM_ISA_SCALAR, PCM_ISA_AVX2, PCM_ISA_AVX512, PCM_ISA_COUNT } pcm_isa;

/* The best that this processor has; or, for tests and benchmarks, what was forced. */
pcm_isa spsh__pcm_isa(void);
bool spsh__pcm_isa_is_supported(pcm_isa isa);
/* Not while another thread encodes or decodes. PCM_ISA_COUNT: the best again. */
void spsh__pcm_force_isa(pcm_isa isa);

/* Encodes 1 to SPSH_PCM_FRAME_SAMPLES samples; returns the size, at most PCM_BLOCK_BYTES_MAX. */
size_t spsh__pcm_block_encode(const int16_t *pcm, uint32_t samples, uint8_t *block);

/* Decodes samples values; pcm has room for whole rows. readable_bytes is what may be read from
 * block on, at least block_bytes. false when the bytes are no valid block. */
bool spsh__pcm_block_decode(const uint8_t *block, size_t block_bytes, size_t readable_bytes,
                            uint32_t samples, int16_t *pcm);

/* Would spsh__pcm_block_decode decode it? Reads the block's head alone. */
bool spsh__pcm_block_check(const uint8_t *block, size_t block_bytes, uint32_t samples);

/* What of a payload a range touches: frames [first_frame, end_frame). */
typedef struct pcm_range {
    spsh_pcm_info info;
    uint64_t first_frame, end_frame;
    uint64_t first_sample, end_sample;
} pcm_range;

/* Checks the head, and that the range is within it; an empty one touches no frames. */
spsh_status spsh__pcm_range_of(const spsh_pcm_part *part, uint64_t first_sample,
                               uint64_t sample_count, pcm_range *ret_range, spsh_error *err);

/* Where a block lies within the part's piece, which is checked. */
spsh_status spsh__pcm_find_block(const spsh_pcm_part *part, const spsh_pcm_info *info,
                                 uint64_t block_index, spsh_bytes *ret_block, spsh_error *err);

/* Samples of each channel of a frame. */
uint32_t spsh__pcm_frame_length(uint64_t samples, uint64_t frame_index);

#endif
