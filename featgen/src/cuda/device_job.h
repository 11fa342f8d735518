/* device_job.h: the input of the feature kernels. Their source, device_frames.h and device_norm.h,
 * is written in the common subset of C and CUDA (speechshard/device_text.h).
 *
 *     job (tables, samples, places) --> block b of utterance u: frames b * lanes ... --> rows
 *                                   --> statistics of u --> values, masks, padding
 */
#ifndef SPSH_DEVICE_JOB_H
#define SPSH_DEVICE_JOB_H

#include "features/frames.h"
#include "speechshard/device_text.h"
#include "speechshard/featgen_cuda.h"

#define SPSH__DEVICE_LANES_MAX 8U /* frames per block; a power of two */
#define SPSH__DEVICE_PARTS     4U /* partial sums of samples, as frames_body.h has them */

/* One utterance of a batch. */
typedef struct spsh__device_utterance {
    uint64_t first_sample; /* in job.samples */
    uint64_t given_count;  /* samples given; the rest up to sample_count are 0 */
    uint64_t sample_count;
    uint64_t frame_count;
    uint64_t first_row;   /* first row in job.rows */
    uint64_t first_value; /* in job.values */
} spsh__device_utterance;

/* Offsets in a block's memory, in vectors of `lanes` floats. Value i of lane l is at i * lanes + l,
 * so adjacent threads, which do adjacent lanes, access adjacent addresses. */
typedef struct spsh__device_layout {
    uint32_t plane; /* points: real parts at 0, imaginary parts here; later mel bins and values */
    uint32_t other; /* samples as values; later powers; results of a pass that is not in place */
    uint32_t sums;  /* SPSH__DEVICE_PARTS sums of samples, then as many of squares */
    uint32_t end;
} spsh__device_layout;

typedef struct spsh__device_job {
    spsh__frame_tables tables; /* pointers into the device's memory */
    spsh__device_layout layout;
    uint32_t lane_shift; /* lanes = 1 << lane_shift */
    float scale;         /* factor from sample to value */
    int64_t first_start; /* the first sample of frame 0 */

    const int16_t *samples;
    const spsh__device_utterance *utterances;
    uint32_t utterance_count;
    float *rows; /* rows between frames and norm; NULL: stored as values, or no norm */
    void *values;
    spsh_feature_dtype dtype;
    uint64_t padded_frames; /* 0: ragged batch */
    float padding_value;
    /* SPEAKER, DATASET: from the caller. Other norms: computed by the kernel, for all dimensions,
     * for one, or (WHISPER) only the lower bound. */
    const float *mean, *scales;
    uint32_t stats_stride; /* distance between the means of two utterances */
    uint32_t stats_step;   /* distance between two dimensions: 1, or 0 if all share one */
    float *own_mean, *own_scales;
    double *sums; /* 2 * dim per utterance */

    uint32_t time_masks, frequency_masks; /* masks per utterance */
    const spsh_cuda_mask *masks;          /* grouped by utterance, time masks first */
    float *mask_values;                   /* value for the masked positions of each utterance */
} spsh__device_job;

/* Size of a batch's table: its utterances, directly followed by their masks. */
static inline size_t spsh__device_table_bytes(size_t utterance_count, uint32_t mask_count)
{
    return utterance_count * (sizeof(spsh__device_utterance) + mask_count * sizeof(spsh_cuda_mask));
}

static inline spsh_cuda_mask *spsh__device_table_masks(spsh__device_utterance *utterances,
                                                       size_t utterance_count)
{
    return (spsh_cuda_mask *)(void *)(utterances + utterance_count);
}

typedef struct spsh__device_block {
    const spsh__device_job *job;
    const spsh__device_utterance *utterance;
    uint64_t first_frame;
    uint32_t lane_count; /* frames in this block */
    float *memory;       /* layout.end * lanes */
    uint32_t order;      /* same as in spsh__kernel_block */
} spsh__device_block;

static inline uint32_t spsh__device_larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static inline spsh__device_layout spsh__device_layout_of(const spsh__frame_tables *tables)
{
    const uint32_t plane = tables->fft.point_count;
    const bool has_mels = tables->features.kind != SPSH_FEATURE_SPECTRUM;
    const uint32_t bins = has_mels ? tables->mels.row_count + tables->dim : 0;
    const uint32_t moved = tables->fft.prime_max != 0 ? 2 * plane : 0;
    const uint32_t read = spsh__device_larger(tables->window_samples, tables->bin_count);
    spsh__device_layout layout;
    layout.plane = plane;
    layout.other = spsh__device_larger(2 * plane, bins);
    layout.sums = layout.other + spsh__device_larger(read, moved);
    layout.end = layout.sums + 2 * SPSH__DEVICE_PARTS;
    return layout;
}

/* Find the largest number of lanes, a power of two, that fits memory_bytes. Returns false if not
 * even one fits. */
static inline bool spsh__device_lanes(const spsh__device_layout *layout, size_t memory_bytes,
                                      uint32_t *ret_shift)
{
    uint32_t shift = 0;
    if (layout->end * sizeof(float) > memory_bytes)
        return false;
    while ((1U << (shift + 1)) <= SPSH__DEVICE_LANES_MAX &&
           ((size_t)layout->end << (shift + 1)) * sizeof(float) <= memory_bytes)
        shift++;
    *ret_shift = shift;
    return true;
}

#endif
