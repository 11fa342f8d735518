/* featgen_cuda.h: compute features on a GPU, from 16-bit samples in device memory to rows in device
 * memory, with the tables and the arithmetic of featgen.h.
 *
 *     spsh_cuda_open(NULL, &cuda, &err);
 *     spsh_featgen_open(&features, NULL, &featgen, &err);
 *     spsh_cuda_features_open(cuda, featgen, NULL, &device_features, &err);
 *     spsh_cuda_features_compute(device_features, stream, &batch, frame_counts, &err);
 *     ...                                     // work on the same stream that reads the rows
 *     spsh_cuda_features_close(device_features);
 *
 * docs/reference/FEATURES.md, "On the GPU", states how closely the rows agree with the CPU's.
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
    uint32_t device;              /* device number */
    uint32_t utterance_count_max; /* per batch; 0: 1024; at most SPSH_CUDA_UTTERANCE_COUNT_MAX */
    uint64_t frame_count_max;     /* per batch, sum over utterances; 0: 262,144 (44 minutes at 10 ms
                                     per frame) */
    spsh_feature_dtype dtype;     /* type of the values */
    uint32_t time_masks, frequency_masks; /* per utterance; at most SPSH_AUGMENT_MASKS_MAX each; 0:
                                             none */
} spsh_cuda_features_options;
#define SPSH_CUDA_FEATURES_OPTIONS_INIT                                                            \
    {                                                                                              \
        sizeof(spsh_cuda_features_options), 0, 0, 0, SPSH_FLOAT32, 0, 0                            \
    }

/** Tables and buffers on one device. One thread at a time. */
typedef struct spsh_cuda_features spsh_cuda_features;

/**
 * Copy the tables of featgen to a device and allocate all memory that batches will need: the
 * tables; four times 48 bytes per utterance and 8 bytes per mask; statistics (dim values per
 * utterance) for masks or a norm over the utterance; and, for float16 with a norm or masks,
 * frame_count_max rows of floats.
 *
 * @param cuda, featgen  borrowed; must outlive ret_features
 * @param options        NULL for defaults; copied
 * @return SPSH_OK, SPSH_E_INVALID_ARG, SPSH_E_NO_MEMORY (host or device), SPSH_E_VERSION (the
 * plug-in has no features, or has another version), SPSH_E_UNSUPPORTED (the transform does not fit
 * into the shared memory of a block; the message has both sizes; compute on the CPU), SPSH_E_IO.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_features_open(
    const spsh_cuda *cuda, const spsh_featgen *featgen, const spsh_cuda_features_options *options,
    spsh_cuda_features **ret_features, spsh_error *err);

/** Close after the enqueued work has finished. NULL is fine. */
SPSH_API void spsh_cuda_features_close(spsh_cuda_features *features);

/** Masked frames (or bins): first ... first + count - 1. Those outside the utterance are ignored.
 */
typedef struct spsh_cuda_mask {
    uint32_t first, count;
} spsh_cuda_mask;

/** Utterances, one channel each, and the destination of their rows. Device pointers must be
 * accessible to the device of the options; the stream uses them when the work runs. */
typedef struct spsh_cuda_feature_batch {
    const int16_t *samples;        /* device */
    const uint64_t *offsets;       /* host: utterance u begins at samples[offsets[u]] */
    const uint64_t *sample_counts; /* host */
    size_t count;                  /* number of utterances */

    void *values;           /* device; values of the options' dtype */
    size_t capacity;        /* number of values that fit */
    uint64_t padded_frames; /* utterance u begins at u * padded_frames * dim; padding_value fills
                               the frames after its last one. 0: ragged, one after another */
    float padding_value;

    const float *mean, *scale; /* device; SPSH_NORM_SPEAKER and _DATASET: dim values */
    uint32_t stats_stride;     /* values from one utterance's mean (scale) to the next one's; 0: all
                                  utterances share them */

    const spsh_cuda_mask *masks; /* host: for each utterance its time_masks, then its
                                    frequency_masks. Masked values become the mean of all values of
                                    the utterance. NULL: no masks */
} spsh_cuda_feature_batch;

/**
 * Enqueue a batch on a stream and return. The rows are complete when the stream has finished it.
 *
 * The host arrays are read before the return. Until the stream has finished, do not change samples,
 * mean, or scale, and do not access values. All calls on one spsh_cuda_features share its buffers:
 * calls on one stream may follow each other; before a call on another stream, make that stream wait
 * for an event of the first. At most four batches are in flight: a fifth call waits until the first
 * has finished. A call cannot be captured into a CUDA graph.
 *
 * @param stream        cudaStream_t of the options' device
 * @param frame_counts  host, [count]; written before the return; may be NULL
 * @return SPSH_OK; SPSH_E_LIMIT, with nothing enqueued (more utterances or frames than the options
 * allow, an utterance longer than padded_frames, or capacity too small); SPSH_E_INVALID_ARG;
 * SPSH_E_IO (CUDA failed; the message has its error; a lost device stays lost). Allocates nothing.
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
