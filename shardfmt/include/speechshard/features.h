/* features.h: payloads of the codec `features`: rows of numbers instead of audio.
 *
 *     spsh_features_inspect(payload, payload_bytes, &info, &err);
 *     void *rows = malloc(info.frame_count * info.dim * info.value_bytes);
 *     spsh_features_decode((spsh_bytes){payload, payload_bytes}, 0, info.frame_count, rows,
 * scratch, &err);
 *
 * A payload is a head, a directory and blocks of frames, each compressed by itself where that pays;
 * any range of frames is decoded from the head and the blocks that it touches (format-features.md).
 * Nothing here allocates; every function is thread-safe and safe on hostile payloads: it reads
 * nothing outside the given bytes. Checksums are the shard's matter: a damaged payload may decode
 * to other values.
 *
 * A dataset of features says in its manifest what they are: spsh_features_dataset.
 */
#ifndef SPEECHSHARD_FEATURES_H
#define SPEECHSHARD_FEATURES_H

#include "speechshard/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPSH_FEATURES_DIM_MAX UINT32_C(32768) /* values of a frame */
#define SPSH_FEATURES_BLOCK_BYTES                                                                  \
    UINT32_C(                                                                                      \
        131072) /* of a block's rows at most; of scratch room                                 \
                      */

/** What a payload's head says. */
typedef struct spsh_features_info {
    uint32_t dim;          /* values of a frame; 1 to SPSH_FEATURES_DIM_MAX */
    uint32_t value_bytes;  /* 4: IEEE single; 2: IEEE half (binary16) */
    uint32_t block_frames; /* of every block but the last, which may have fewer */
    uint64_t frame_count;  /* 0 is valid */
    uint8_t source[16];    /* which samples of the source they were computed from: equal ones have
                              equal names */
} spsh_features_info;

/** The largest payload of so many frames; SIZE_MAX where there can be none. */
SPSH_API size_t spsh_features_bound(uint64_t frame_count, uint32_t dim, uint32_t value_bytes);

/**
 * Encode rows.
 *
 * @param info               dim, value_bytes, frame_count and source; block_frames is chosen here
 * @param rows               frame_count * dim values of value_bytes, little-endian; borrowed; may
 *                           be NULL if there are none
 * @param payload            written; on failure its contents are undefined
 * @param capacity_bytes     of payload; at least spsh_features_bound
 * @param ret_payload_bytes  written on success only
 * @return SPSH_OK, SPSH_E_INVALID_ARG, SPSH_E_LIMIT
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_features_encode(const spsh_features_info *info,
                                                         const void *rows, uint8_t *payload,
                                                         size_t capacity_bytes,
                                                         size_t *ret_payload_bytes,
                                                         spsh_error *err);

/**
 * Check a payload's head and directory, and say what it holds. Blocks are not read.
 *
 * @param ret_info  written on success only
 * @param err       offsets are relative to the payload
 * @return SPSH_OK, SPSH_E_TRUNCATED, SPSH_E_VERSION, SPSH_E_LIMIT, SPSH_E_CORRUPT
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_features_inspect(const uint8_t *payload,
                                                          size_t payload_bytes,
                                                          spsh_features_info *ret_info,
                                                          spsh_error *err);

/**
 * Rows of frames [first_frame, first_frame + frame_count), as they were encoded: value_bytes each,
 * little-endian. Halves become floats by spsh_float_from_half (featgen.h).
 *
 * @param payload  the whole payload; borrowed
 * @param rows     frame_count * dim * value_bytes bytes, no alignment needed; undefined on failure
 * @param scratch  SPSH_FEATURES_BLOCK_BYTES bytes, of one thread
 * @return as spsh_features_inspect; SPSH_E_INVALID_ARG for a range outside the payload's frames
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_features_decode(spsh_bytes payload, uint64_t first_frame,
                                                         uint64_t frame_count, void *rows,
                                                         void *scratch, spsh_error *err);

/** XXH3-128 of: u32 value_bytes, u32 dim, u64 frame_count, XXH3-128 of the rows. The record's
 * pcm_hash. */
SPSH_API void spsh_features_hash(const spsh_features_info *info, const void *rows,
                                 uint8_t ret_hash[16]);

#define SPSH_FEATURES_TEXT_BYTES_MAX 1024

/** What a dataset of features says of itself. */
typedef struct spsh_features_description {
    size_t struct_size;
    char text[SPSH_FEATURES_TEXT_BYTES_MAX]; /* canonical: spsh_feature_options_text */
    uint32_t value_bytes;
    uint8_t source_dataset_id[16]; /* whose audio it was */
} spsh_features_description;
/* clang-format off */
#define SPSH_FEATURES_DESCRIPTION_INIT {sizeof(spsh_features_description), {0}, 0, {0}}
/* clang-format on */

/**
 * Does a dataset hold features, and which? Not one record is touched.
 *
 * @return SPSH_OK; SPSH_E_NOT_FOUND (it holds audio); SPSH_E_CORRUPT. Thread-safe; no allocation.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_features_dataset(const spsh_dataset *dataset,
                                                          spsh_features_description *ret_described,
                                                          spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
