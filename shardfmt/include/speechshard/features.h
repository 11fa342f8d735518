/* features.h: payloads of the codec `features`, which contain feature rows instead of audio.
 *
 *     spsh_features_inspect(payload, payload_bytes, &info, &err);
 *     void *rows = malloc(info.frame_count * info.dim * info.value_bytes);
 *     spsh_bytes whole = {payload, payload_bytes};
 *     spsh_features_decode(whole, 0, info.frame_count, rows, scratch, &err);
 *
 * A payload is a head, a directory, and blocks of frames. Each block is compressed separately if
 * that makes it smaller. To decode a range of frames, the head and the blocks of that range suffice
 * (format-features.md). No function allocates. Every function is thread-safe and safe on hostile
 * payloads: it reads only the given bytes. The shard has the checksums; without checking them, a
 * damaged payload may decode to other values.
 *
 * The manifest of a feature dataset describes its features: spsh_features_dataset.
 */
#ifndef SPEECHSHARD_FEATURES_H
#define SPEECHSHARD_FEATURES_H

#include "speechshard/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPSH_FEATURES_DIM_MAX     UINT32_C(32768)  /* values per frame */
#define SPSH_FEATURES_BLOCK_BYTES UINT32_C(131072) /* maximum size of a block, and of scratch */

/** Contents of a payload's head. */
typedef struct spsh_features_info {
    uint32_t dim;          /* values per frame; 1 to SPSH_FEATURES_DIM_MAX */
    uint32_t value_bytes;  /* 4: IEEE single; 2: IEEE half (binary16) */
    uint32_t block_frames; /* frames per block; the last block may have fewer */
    uint64_t frame_count;  /* 0 is valid */
    uint8_t source[16];    /* identifies the source samples: equal samples have equal values
                              here */
} spsh_features_info;

/** Maximum payload size for frame_count frames; SIZE_MAX if the arguments exceed the limits. */
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
 * Check a payload's head and directory, and describe its contents. Blocks are not read.
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
 * Decode frames [first_frame, first_frame + frame_count) to the rows that were encoded:
 * little-endian values of value_bytes. spsh_float_from_half (featgen.h) converts float16 values.
 *
 * @param payload  the whole payload; borrowed
 * @param rows     frame_count * dim * value_bytes bytes, no alignment needed; undefined on failure
 * @param scratch  SPSH_FEATURES_BLOCK_BYTES bytes, not shared between threads
 * @return as spsh_features_inspect; SPSH_E_INVALID_ARG for a range outside the payload's frames
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_features_decode(spsh_bytes payload, uint64_t first_frame,
                                                         uint64_t frame_count, void *rows,
                                                         void *scratch, spsh_error *err);

/** XXH3-128 of u32 value_bytes, u32 dim, u64 frame_count, and the XXH3-128 of the rows. It is the
 * record's pcm_hash. */
SPSH_API void spsh_features_hash(const spsh_features_info *info, const void *rows,
                                 uint8_t ret_hash[16]);

#define SPSH_FEATURES_TEXT_BYTES_MAX 1024

/** Description of a feature dataset. */
typedef struct spsh_features_description {
    size_t struct_size;
    char text[SPSH_FEATURES_TEXT_BYTES_MAX]; /* canonical: spsh_feature_options_text */
    uint32_t value_bytes;
    uint8_t source_dataset_id[16]; /* the audio dataset */
} spsh_features_description;
/* clang-format off */
#define SPSH_FEATURES_DESCRIPTION_INIT {sizeof(spsh_features_description), {0}, 0, {0}}
/* clang-format on */

/**
 * Describe the features of a dataset. Reads no record.
 *
 * @return SPSH_OK; SPSH_E_NOT_FOUND (it contains audio); SPSH_E_CORRUPT. Thread-safe; no
 * allocation.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_features_dataset(const spsh_dataset *dataset,
                                                          spsh_features_description *ret_described,
                                                          spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
