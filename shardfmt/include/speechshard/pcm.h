/* pcm.h: the codec `pcm`: lossless 16-bit audio made for decode speed.
 *
 *     size_t capacity_bytes = spsh_pcm_bound(samples, channels);
 *     uint8_t *payload = malloc(capacity_bytes);
 *     size_t payload_bytes = 0;
 *     if (spsh_pcm_encode(pcm, samples, channels, payload, capacity_bytes, &payload_bytes, &err) ==
 *         SPSH_OK)
 *         rc = spsh_pcm_decode(payload, payload_bytes, 0, samples, pcm, &err);
 *
 * A payload is a head (counts and a directory of frames) and independent frames of
 * SPSH_PCM_FRAME_SAMPLES samples. To decode a range of samples, the head and the frames of that
 * range suffice. Equal audio encodes to identical bytes on every processor. No function allocates.
 * Every function is thread-safe and safe on hostile payloads: it reads only the given bytes. The
 * shard has the checksums; without checking them, a damaged payload may decode to other samples.
 */
#ifndef SPEECHSHARD_PCM_H
#define SPEECHSHARD_PCM_H

#include "speechshard/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Samples of one channel in one frame; the last frame of a payload may be shorter. */
#define SPSH_PCM_FRAME_SAMPLES UINT32_C(8192)

/** Contents of a payload's head. */
typedef struct spsh_pcm_info {
    uint64_t samples;       /* per channel; 0 is valid */
    uint32_t channels;      /* 1 to SPSH_CHANNELS_MAX */
    uint32_t frame_samples; /* per channel and frame; the last frame may have fewer */
    uint64_t frame_count;
} spsh_pcm_info;

/** The head of a payload and one contiguous piece of it. */
typedef struct spsh_pcm_part {
    spsh_bytes head;       /* the first spsh_pcm_head_bytes(...) bytes of the payload */
    spsh_bytes piece;      /* the bytes that spsh_pcm_range returned, or more */
    uint64_t offset_bytes; /* position of the piece in the payload */
} spsh_pcm_part;

/**
 * Maximum payload size for `samples` samples per channel.
 *
 * @return SIZE_MAX if there are more than SPSH_PCM_BYTES_MAX bytes of PCM, or channels is not 1 to
 *         SPSH_CHANNELS_MAX
 */
SPSH_API size_t spsh_pcm_bound(uint64_t samples, uint32_t channels);

/** Size of the head of a payload; SIZE_MAX like spsh_pcm_bound. samples: per channel. */
SPSH_API size_t spsh_pcm_head_bytes(uint64_t samples, uint32_t channels);

/**
 * Encode interleaved samples.
 *
 * @param pcm                samples * channels values; borrowed; may be NULL if samples is 0
 * @param samples            per channel
 * @param payload            written; on failure its contents are undefined
 * @param capacity_bytes     of payload; must be at least spsh_pcm_bound(samples, channels)
 * @param ret_payload_bytes  written on success only
 * @param err                may be NULL; written on failure only
 * @return SPSH_OK, SPSH_E_INVALID_ARG or SPSH_E_LIMIT
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_pcm_encode(const int16_t *pcm, uint64_t samples,
                                                    uint32_t channels, uint8_t *payload,
                                                    size_t capacity_bytes,
                                                    size_t *ret_payload_bytes, spsh_error *err);

/**
 * Check a payload's head and frame directory, and describe its contents. Frames are not read.
 *
 * @param payload   the whole payload; borrowed
 * @param ret_info  written on success only
 * @param err       may be NULL; written on failure only; offsets are relative to the payload
 * @return SPSH_OK, SPSH_E_INVALID_ARG, SPSH_E_TRUNCATED, SPSH_E_VERSION, SPSH_E_LIMIT or
 *         SPSH_E_CORRUPT
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_pcm_inspect(const uint8_t *payload, size_t payload_bytes,
                                                     spsh_pcm_info *ret_info, spsh_error *err);

/**
 * Decode samples [first_sample, first_sample + sample_count) of all channels, interleaved.
 *
 * Reads only the head and the frames of the range.
 *
 * @param payload  the whole payload; borrowed
 * @param pcm      [sample_count * channels]; on failure its contents are undefined;
 *                 may be NULL if sample_count is 0
 * @param err      may be NULL; written on failure only; offsets are relative to the payload
 * @return as spsh_pcm_inspect; SPSH_E_INVALID_ARG also for a range outside the payload's samples
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_pcm_decode(const uint8_t *payload, size_t payload_bytes,
                                                    uint64_t first_sample, uint64_t sample_count,
                                                    int16_t *pcm, spsh_error *err);

/**
 * Find the bytes of a payload that contain a range of samples, from its head only.
 *
 * @param head              the payload's first spsh_pcm_head_bytes(...) bytes, or more; borrowed
 * @param ret_offset_bytes  in the payload; written on success only
 * @param ret_size_bytes    0 for an empty range; written on success only
 * @param err               may be NULL; written on failure only
 * @return as spsh_pcm_decode
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_pcm_range(spsh_bytes head, uint64_t first_sample,
                                                   uint64_t sample_count,
                                                   uint64_t *ret_offset_bytes,
                                                   uint64_t *ret_size_bytes, spsh_error *err);

/**
 * Decode like spsh_pcm_decode, from the head and one piece of the payload.
 *
 * @param part  borrowed; its piece must contain the range of spsh_pcm_range, else SPSH_E_TRUNCATED
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_pcm_decode_part(const spsh_pcm_part *part,
                                                         uint64_t first_sample,
                                                         uint64_t sample_count, int16_t *pcm,
                                                         spsh_error *err);

/**
 * Return the status of spsh_pcm_decode_part without decoding. Checks all rules of the format at a
 * small part of the cost. For decoders that run elsewhere (pcm_cuda.h).
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_pcm_check_part(const spsh_pcm_part *part,
                                                        uint64_t first_sample,
                                                        uint64_t sample_count, spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
