/* featgen_cuda.h: features on a GPU: 16-bit samples in the device's memory to rows in the device's
 * memory, with the tables and the arithmetic of featgen.h.
 *
 *     spsh_cuda_open(NULL, &cuda, &err);
 *     spsh_featgen_open(&features, NULL, &featgen, &err);
 *     spsh_cuda_features_open(cuda, featgen, NULL, &device_features, &err);
 *     spsh_cuda_features_compute(device_features, stream, &batch, frame_counts, &err);
 *     ...                                     // more work on the same stream, which takes the rows
 *     spsh_cuda_features_close(device_features);
 *
 * docs/FEATURES.md, "On the GPU", has what is equal to the CPU's features and how nearly.
 */
#ifndef SPEECHSHARD_FEATGEN_CUDA_H
#define SPEECHSHARD_FEATGEN_CUDA_H

#include "speechshard/cuda.h"
#include "speechshard/featgen.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPSH_CUDA_UTTERANCE_COUNT_MAX UINT32_C(65535)

typedef struct spsh_cuda_features_options {
    size_t struct_size;
    uint32_t device;              /* its number */
    uint32_t utterance_count_max; /* of a batch; 0: 1024; at most SPSH_CUDA_UTTERANCE_COUNT_MAX */
    uint64_t frame_count_max;     /* of a batch's utterances together; 0: 262,144 (44 minutes of
                                     10 ms) */
    spsh_feature_dtype dtype;     /* of values */
    uint32_t time_masks, frequency_masks; /* of each utterance; at most SPSH_AUGMENT_MASKS_MAX each;
                                             0: none */
} spsh_cuda_features_options;
#define SPSH_CUDA_FEATURES_OPTIONS_INIT                                                            \
    {                                                                                              \
        sizeof(spsh_cuda_features_options), 0, 0, 0, SPSH_FLOAT32, 0, 0                            \
    }

/** Tables and room on one device. One thread at a time. */
typedef struct spsh_cuda_features spsh_cuda_features;

/**
 * Brings the tables of featgen to a device and takes all memory that batches will need: the tables,
 * 48 bytes an utterance and 8 bytes a mask of it four times, statistics (dim values an utterance,
 * where there is a norm of the utterance's own, or masks), and, for float16 with a norm or masks,
 * frame_count_max rows of floats.
 *
 * @param cuda, featgen  borrowed; must outlive ret_features
 * @param options        NULL for defaults; copied
 * @return SPSH_OK, SPSH_E_INVALID_ARG, SPSH_E_NO_MEMORY (host or device), SPSH_E_VERSION (the
 * plug-in has no features, or others'), SPSH_E_UNSUPPORTED (a transform too large for the memory
 * that the threads of a block share: the message has both sizes; compute on the CPU), SPSH_E_IO.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_features_open(
    const spsh_cuda *cuda, const spsh_featgen *featgen, const spsh_cuda_features_options *options,
    spsh_cuda_features **ret_features, spsh_error *err);

/** Waits for the work that was put onto streams. NULL is fine. */
SPSH_API void spsh_cuda_features_close(spsh_cuda_features *features);

/** Values of frames (frequency: of each frame) first ... first + count - 1, where there are any. */
typedef struct spsh_cuda_mask {
    uint32_t first, count;
} spsh_cuda_mask;

/** Utterances, one channel each, and where their rows go. Device pointers are to memory that the
 * device of the options can reach; they are used when the stream gets there. */
typedef struct spsh_cuda_feature_batch {
    const int16_t *samples;        /* device */
    const uint64_t *offsets;       /* host: utterance u begins at samples[offsets[u]] */
    const uint64_t *sample_counts; /* host */
    size_t count;                  /* of utterances */

    void *values;           /* device; values of the options' dtype */
    size_t capacity;        /* values that fit */
    uint64_t padded_frames; /* utterance u begins at u * padded_frames * dim, padding_value behind
                               its last frame; 0: ragged, one right after the other */
    float padding_value;

    const float *mean, *scale; /* device; SPSH_NORM_SPEAKER and _DATASET: dim values */
    uint32_t stats_stride;     /* values from an utterance's mean (scale) to the next one's; 0: all
                                  have the same */

    const spsh_cuda_mask *masks; /* host: time_masks and then frequency_masks of utterance 0, of
                                    utterance 1, ... Masked values become the mean of all of the
                                    utterance's; NULL: nothing is masked */
} spsh_cuda_feature_batch;

/**
 * Puts a batch onto a stream and returns: rows are there when the stream has done it.
 *
 * The host's arrays are read before the return. samples, mean and scale must stay as they are, and
 * values must not be touched, until then. Calls of one spsh_cuda_features share its room: on one
 * stream they may follow each other; to go to another stream, make that wait for the first one's
 * event. At most four batches are under way: a fifth call waits for the first to be done. A call
 * cannot be captured into a CUDA graph.
 *
 * @param stream        cudaStream_t of the options' device
 * @param frame_counts  host; written before the return: count numbers; may be NULL
 * @return SPSH_OK; SPSH_E_LIMIT (more utterances or frames than the options have, an utterance
 * longer than padded_frames, capacity too small: nothing was put onto the stream),
 * SPSH_E_INVALID_ARG, SPSH_E_IO (CUDA fails: the message has its name; a device that was lost stays
 * lost). No allocation.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_features_compute(spsh_cuda_features *features,
                                                               void *stream,
                                                               const spsh_cuda_feature_batch *batch,
                                                               uint64_t *frame_counts,
                                                               spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
