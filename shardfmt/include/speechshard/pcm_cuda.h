/* pcm_cuda.h: decode payloads of the codec `pcm` (pcm.h) on a GPU, from device memory to device
 * memory, to the samples that the host decodes.
 *
 *     spsh_cuda_pcm_open(cuda, NULL, &pcm, &err);
 *     spsh_pcm_check_part(&part, first, count, &err);     // per utterance, on any thread
 *     spsh_cuda_copy(cuda, payloads, part.piece.data, part.piece.size_bytes, stream, &err);
 *     spsh_cuda_pcm_decode(pcm, stream, &batch, &err);    // enqueues the work
 *     spsh_cuda_pcm_close(pcm);
 *
 * The host's copy of the head gives the position of each block. The device reads and writes only
 * within these positions, whatever the bytes are: a payload that was not checked, or that changed
 * afterwards, decodes to other samples but never accesses other memory. Only the host finds damaged
 * payloads, before the decode (spsh_pcm_check_part); the device reports nothing.
 *
 * Several channels are decoded interleaved, like spsh_pcm_decode. If only one channel or a mono mix
 * is needed, decode the utterance on the host.
 */
#ifndef SPEECHSHARD_PCM_CUDA_H
#define SPEECHSHARD_PCM_CUDA_H

#include "speechshard/cuda.h"
#include "speechshard/pcm.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Number of blocks in a range of samples, for block_count_max. A block is one channel of one
 * frame. */
SPSH_API uint64_t spsh_cuda_pcm_block_count(uint64_t first_sample, uint64_t sample_count,
                                            uint32_t channels);

typedef struct spsh_cuda_pcm_options {
    size_t struct_size;
    uint32_t device;              /* device number */
    uint32_t utterance_count_max; /* per batch; 0: 1024 */
    uint32_t block_count_max;     /* per batch, sum over utterances; 0: 16,384 (2.3 hours of one
                                     channel at 16 kHz); at most 2^24 */
} spsh_cuda_pcm_options;
#define SPSH_CUDA_PCM_OPTIONS_INIT                                                                 \
    {                                                                                              \
        sizeof(spsh_cuda_pcm_options), 0, 0, 0                                                     \
    }

/** Buffers on one device. One thread at a time. */
typedef struct spsh_cuda_pcm spsh_cuda_pcm;

/**
 * Allocate all memory that batches will need: four times 40 bytes per block, on the device and
 * pinned.
 *
 * @param cuda     borrowed; must outlive ret_pcm
 * @param options  NULL for defaults; copied
 * @return SPSH_OK, SPSH_E_INVALID_ARG, SPSH_E_NO_MEMORY (host or device), SPSH_E_VERSION (the
 * plug-in cannot decode, or has another version), SPSH_E_IO
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_pcm_open(const spsh_cuda *cuda,
                                                       const spsh_cuda_pcm_options *options,
                                                       spsh_cuda_pcm **ret_pcm, spsh_error *err);

/** Close after the enqueued work has finished. NULL is fine. */
SPSH_API void spsh_cuda_pcm_close(spsh_cuda_pcm *pcm);

/** A range of samples of a payload, and its destination. */
typedef struct spsh_cuda_pcm_utterance {
    const spsh_pcm_part *part; /* host; head: read before the return; piece: only size_bytes and
                                  offset_bytes are used */
    uint64_t piece_offset;     /* the piece begins at payloads[piece_offset]; no alignment needed */
    uint64_t first_sample, sample_count; /* per channel, in the payload */
    uint64_t first_value; /* destination: samples[first_value], sample_count * channels values.
                             Fastest if first_value - first_sample is a multiple of 8 */
} spsh_cuda_pcm_utterance;

/** Device pointers must be accessible to the device of the options; the stream uses them when the
 * work runs. */
typedef struct spsh_cuda_pcm_batch {
    const spsh_cuda_pcm_utterance *utterances; /* host */
    size_t count;                              /* number of utterances */
    const uint8_t *payloads;                   /* device; aligned to 16 bytes */
    size_t payload_bytes;                      /* readable bytes there */
    int16_t *samples;                          /* device; aligned to 16 bytes */
    size_t capacity;                           /* number of values that fit */
} spsh_cuda_pcm_batch;

/**
 * Enqueue a batch on a stream and return.
 *
 * The host arrays are read before the return. Until the stream has finished, do not change payloads
 * and do not access samples. Utterances must not overlap in samples; values between them are
 * unchanged. At most four batches are in flight: a fifth call waits until the first has finished.
 * Calls may use several streams. A call cannot be captured into a CUDA graph.
 *
 * @return SPSH_OK; without enqueuing anything: a status of spsh_pcm_decode_part for heads,
 * directories, and ranges, SPSH_E_LIMIT (more utterances or blocks than the options allow; capacity
 * or payload_bytes too small), SPSH_E_INVALID_ARG; SPSH_E_IO (CUDA failed). Allocates nothing.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_pcm_decode(spsh_cuda_pcm *pcm, void *stream,
                                                         const spsh_cuda_pcm_batch *batch,
                                                         spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
