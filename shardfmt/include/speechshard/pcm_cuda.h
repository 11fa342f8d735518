/* pcm_cuda.h: payloads of the codec `pcm` (pcm.h) decoded on a GPU: from the device's memory to the
 * device's memory, to the same samples.
 *
 *     spsh_cuda_pcm_open(cuda, NULL, &pcm, &err);
 *     spsh_pcm_check_part(&part, first, count, &err);     // of each utterance, by any thread
 *     spsh_cuda_copy(cuda, payloads, part.piece.data, part.piece.size_bytes, stream, &err);
 *     spsh_cuda_pcm_decode(pcm, stream, &batch, &err);    // the samples are there when the stream
 *     spsh_cuda_pcm_close(pcm);                           // has done it
 *
 * Where a block's bytes lie is read from the host's copy of the head, and the device reads and
 * writes within that, whatever the bytes there are: a payload that was not checked, or was changed
 * since, gives other samples, never a place outside. Which payloads are damaged the host alone
 * says, before (spsh_pcm_check_part); the device reports nothing.
 *
 * Several channels come out interleaved, as from spsh_pcm_decode. What takes samples apart or
 * together (a mono mix, one of several channels) is left to the host: decode such utterances there.
 */
#ifndef SPEECHSHARD_PCM_CUDA_H
#define SPEECHSHARD_PCM_CUDA_H

#include "speechshard/cuda.h"
#include "speechshard/pcm.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Blocks, each one channel of one frame, that a range of samples touches: what counts against
 * block_count_max. */
SPSH_API uint64_t spsh_cuda_pcm_block_count(uint64_t first_sample, uint64_t sample_count,
                                            uint32_t channels);

typedef struct spsh_cuda_pcm_options {
    size_t struct_size;
    uint32_t device;              /* its number */
    uint32_t utterance_count_max; /* of a batch; 0: 1024 */
    uint32_t block_count_max;     /* of a batch's utterances together; 0: 16,384 (2.3 hours of one
                                     channel of 16 kHz); at most 2^24 */
} spsh_cuda_pcm_options;
#define SPSH_CUDA_PCM_OPTIONS_INIT                                                                 \
    {                                                                                              \
        sizeof(spsh_cuda_pcm_options), 0, 0, 0                                                     \
    }

/** Room on one device. One thread at a time. */
typedef struct spsh_cuda_pcm spsh_cuda_pcm;

/**
 * Takes all memory that batches will need: 40 bytes a block four times, on the device and pinned.
 *
 * @param cuda     borrowed; must outlive ret_pcm
 * @param options  NULL for defaults; copied
 * @return SPSH_OK, SPSH_E_INVALID_ARG, SPSH_E_NO_MEMORY (host or device), SPSH_E_VERSION (the
 * plug-in cannot decode, or is of other sources), SPSH_E_IO
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_pcm_open(const spsh_cuda *cuda,
                                                       const spsh_cuda_pcm_options *options,
                                                       spsh_cuda_pcm **ret_pcm, spsh_error *err);

/** Waits for the work that was put onto streams. NULL is fine. */
SPSH_API void spsh_cuda_pcm_close(spsh_cuda_pcm *pcm);

/** A range of samples of a payload, and where it goes. */
typedef struct spsh_cuda_pcm_utterance {
    const spsh_pcm_part *part; /* host; head: read before the return; piece: only its size_bytes and
                                  the offset count here */
    uint64_t piece_offset;     /* the device has the piece at payloads[piece_offset]; any number */
    uint64_t first_sample, sample_count; /* per channel, of the payload */
    uint64_t first_value; /* they begin at samples[first_value]; sample_count * channels values;
                             quickest where first_value - first_sample is a multiple
                             of 8 */
} spsh_cuda_pcm_utterance;

/** Device pointers are to memory that the device of the options can reach; they are used when the
 * stream gets there. */
typedef struct spsh_cuda_pcm_batch {
    const spsh_cuda_pcm_utterance *utterances; /* host */
    size_t count;                              /* of utterances */
    const uint8_t *payloads;                   /* device; aligned to 16 bytes */
    size_t payload_bytes;                      /* all that may be read from there */
    int16_t *samples;                          /* device; aligned to 16 bytes */
    size_t capacity;                           /* values that fit */
} spsh_cuda_pcm_batch;

/**
 * Puts a batch onto a stream and returns.
 *
 * The host's arrays are read before the return. payloads must stay as they are, and samples must
 * not be touched, until the stream has done it. Utterances may not overlap in samples; what is
 * between them is left as it is. At most four batches are under way: a fifth call waits for the
 * first to be done. Calls may go to several streams. A call cannot be captured into a CUDA graph.
 *
 * @return SPSH_OK; as spsh_pcm_decode_part for heads, directories and ranges; SPSH_E_LIMIT (more
 * utterances or blocks than the options have, capacity or payload_bytes too small),
 * SPSH_E_INVALID_ARG: nothing was put onto the stream; SPSH_E_IO (CUDA fails). No allocation.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_pcm_decode(spsh_cuda_pcm *pcm, void *stream,
                                                         const spsh_cuda_pcm_batch *batch,
                                                         spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
