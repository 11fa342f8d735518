/* device_job.h: what the kernels of features work on. Their text, device_frames.h and
 * device_norm.h, is written in what C and CUDA share (speechshard/device_text.h).
 *
 *     job (tables, samples, places) --> block b of utterance u: frames b * lanes ... --> rows
 *                                   --> statistics of u --> values, masks, padding
 */
#ifndef SPSH_DEVICE_JOB_H
#define SPSH_DEVICE_JOB_H

#include "features/frames.h"
#include "speechshard/device_text.h"
#include "speechshard/featgen_cuda.h"

#define SPSH__DEVICE_LANES_MAX 8U /* frames of a block; a power of two */
#define SPSH__DEVICE_PARTS     4U /* partial sums of samples, as frames_body.h has them */

/* One of a batch. */
typedef struct spsh__device_utterance {
    uint64_t first_sample; /* in job.samples */
    uint64_t given_count;  /* samples there are; those up to sample_count are 0 */
    uint64_t sample_count;
    uint64_t frame_count;
    uint64_t first_row;   /* in job.rows: frames before it */
    uint64_t first_value; /* in job.values */
} spsh__device_utterance;

/* Places in a block's memory, in vectors of `lanes` floats: value i of lane l lies at
 * i * lanes + l, so that neighbouring threads, which do neighbouring lanes, touch neighbours. */
typedef struct spsh__device_room {
    uint32_t plane; /* points: real parts at 0, imaginary parts here; later mel bins and values */
    uint32_t other; /* samples as values; later powers; results of a pass that is not in place */
    uint32_t sums;  /* SPSH__DEVICE_PARTS of samples, as many of squares */
    uint32_t end;
} spsh__device_room;

typedef struct spsh__device_job {
    spsh__frame_tables tables; /* pointers into the device's memory */
    spsh__device_room room;
    uint32_t lane_shift; /* lanes = 1 << lane_shift */
    float scale;         /* sample to value */
    int64_t first_start; /* the first sample of frame 0 */

    const int16_t *samples;
    const spsh__device_utterance *utterances;
    uint32_t utterance_count;
    float *rows; /* between frames and norm; NULL: values are taken for it, or there is no norm */
    void *values;
    spsh_feature_dtype dtype;
    uint64_t padded_frames; /* 0: ragged */
    float padding_value;
    /* SPEAKER, DATASET: given. Else the kernel's: of all dimensions, of one, or just the least. */
    const float *mean, *scales;
    uint32_t stats_stride; /* from an utterance's mean to the next one's */
    uint32_t stats_step;   /* from a dimension's to the next one's: 1, or 0 for one of all */
    float *own_mean, *own_scales;
    double *sums; /* 2 * dim an utterance */

    uint32_t time_masks, frequency_masks; /* of each utterance */
    const spsh_cuda_mask *masks;          /* an utterance's, of time first, behind another's */
    float *mask_values;                   /* what masked values of an utterance become */
} spsh__device_job;

/* A batch's table: its utterances, and their masks right behind them. */
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
    uint32_t lane_count; /* frames there are */
    float *memory;       /* room.end * lanes */
    uint32_t order;      /* as spsh__kernel_block's */
} spsh__device_block;

static inline uint32_t spsh__device_larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static inline spsh__device_room spsh__device_room_of(const spsh__frame_tables *tables)
{
    const uint32_t plane = tables->fft.point_count;
    const bool has_mels = tables->features.kind != SPSH_FEATURE_SPECTRUM;
    const uint32_t bins = has_mels ? tables->mels.row_count + tables->dim : 0;
    const uint32_t moved = tables->fft.prime_max != 0 ? 2 * plane : 0;
    const uint32_t read = spsh__device_larger(tables->window_samples, tables->bin_count);
    spsh__device_room room;
    room.plane = plane;
    room.other = spsh__device_larger(2 * plane, bins);
    room.sums = room.other + spsh__device_larger(read, moved);
    room.end = room.sums + 2 * SPSH__DEVICE_PARTS;
    return room;
}

/* As many lanes as fit memory_bytes, a power of two; false: not even one fits. */
static inline bool spsh__device_lanes(const spsh__device_room *room, size_t memory_bytes,
                                      uint32_t *ret_shift)
{
    uint32_t shift = 0;
    if (room->end * sizeof(float) > memory_bytes)
        return false;
    while ((1U << (shift + 1)) <= SPSH__DEVICE_LANES_MAX &&
           ((size_t)room->end << (shift + 1)) * sizeof(float) <= memory_bytes)
        shift++;
    *ret_shift = shift;
    return true;
}

#endif
