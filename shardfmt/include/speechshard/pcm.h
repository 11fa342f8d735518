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
 * SPSH_PCM_FRAME_SAMPLES samples. Any range of samples can be decoded from the head and the bytes
 * of the frames that it touches. The same audio gives the same bytes on every processor. Nothing
 * here allocates; every function is thread-safe and safe on hostile payloads: it reads nothing
 * outside the given bytes. Checksums are the shard's matter: a damaged payload may decode to other
 * samples.
 */
#ifndef SPEECHSHARD_PCM_H
#define SPEECHSHARD_PCM_H

#include "speechshard/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Samples of one channel in one frame; the last frame of a payload may be shorter. */
#define SPSH_PCM_FRAME_SAMPLES UINT32_C(8192)

/** What a payload's head says. */
typedef struct spsh_pcm_info {
    uint64_t samples;       /* per channel; 0 is valid */
    uint32_t channels;      /* 1 to SPSH_CHANNELS_MAX */
    uint32_t frame_samples; /* per channel, of every frame but the last */
    uint64_t frame_count;
} spsh_pcm_info;

/** The head of a payload and one contiguous piece of it, as a reader of part of a payload has them.
 */
typedef struct spsh_pcm_part {
    spsh_bytes head;       /* the first spsh_pcm_head_bytes(...) bytes of the payload */
    spsh_bytes piece;      /* what spsh_pcm_range asked for, or more */
    uint64_t offset_bytes; /* of the piece in the payload */
} spsh_pcm_part;

/**
 * The largest payload that spsh_pcm_encode can make of so many samples per channel.
 *
 * @return SIZE_MAX if there are more than SPSH_PCM_BYTES_MAX bytes of PCM, or channels is not 1 to
 *         SPSH_CHANNELS_MAX
 */
SPSH_API size_t spsh_pcm_bound(uint64_t samples, uint32_t channels);

/** Bytes of the head of a payload with so many samples per channel; SIZE_MAX as spsh_pcm_bound. */
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
 * Check a payload's head and frame directory, and say what it holds. Frames are not read.
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
 * Reads the head and the frames that the range touches, nothing else.
 *
 * @param payload  the whole payload; borrowed
 * @param pcm      room for sample_count * channels values; on failure its contents are undefined;
 *                 may be NULL if sample_count is 0
 * @param err      may be NULL; written on failure only; offsets are relative to the payload
 * @return as spsh_pcm_inspect; SPSH_E_INVALID_ARG also for a range outside the payload's samples
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_pcm_decode(const uint8_t *payload, size_t payload_bytes,
                                                    uint64_t first_sample, uint64_t sample_count,
                                                    int16_t *pcm, spsh_error *err);

/**
 * The bytes of a payload that hold a range of samples, from its head alone.
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
 * spsh_pcm_decode for a reader that holds the head and one piece of the payload.
 *
 * @param part  borrowed; its piece must cover what spsh_pcm_range says, else SPSH_E_TRUNCATED
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_pcm_decode_part(const spsh_pcm_part *part,
                                                         uint64_t first_sample,
                                                         uint64_t sample_count, int16_t *pcm,
                                                         spsh_error *err);

/**
 * What spsh_pcm_decode_part would return, without decoding: all rules of the format are checked,
 * at a small part of the cost. For those who decode elsewhere (pcm_cuda.h).
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_pcm_check_part(const spsh_pcm_part *part,
                                                        uint64_t first_sample,
                                                        uint64_t sample_count, spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
