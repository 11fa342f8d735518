/* dataset.h: open a dataset of many shards, look up utterances, and read their audio and text.
 *
 *     spsh_dataset *dataset = NULL;
 *     if (spsh_dataset_open("corpus.spsh", NULL, &dataset, &err) != SPSH_OK) ...
 *     spsh_dataset_find(dataset, id, &position, &err);
 *     spsh_reader_open(dataset, &reader, &err);                   // one per thread
 *     spsh_reader_read_i16(reader, position, 0, pcm, capacity, &samples, &err);
 *     spsh_reader_close(reader);
 *     spsh_dataset_close(dataset);
 *
 * Opening maps the manifest and the dataset index and touches a few pages of them; shards are
 * opened when their audio or text is first read. A position numbers the utterances of a dataset
 * from 0.
 *
 * A forked child may use and close a dataset, no matter what other threads of the parent did with
 * it at the fork. It may use and close a reader if no other thread was in a call with it.
 */
#ifndef SPEECHSHARD_DATASET_H
#define SPEECHSHARD_DATASET_H

#include "speechshard/shard.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct spsh_dataset spsh_dataset;

typedef struct spsh_dataset_options {
    size_t struct_size;
    const spsh_allocator *allocator; /* NULL: malloc and free; copied */
    const spsh_io *io;               /* NULL: the operating system; borrowed until close */
    uint64_t generation;             /* generation of the manifest; 0: the newest */
    uint32_t shards_open_max;        /* maximum number of open shard files; 0: 512 */
    uint32_t flags;                  /* SPSH_DATASET_* */
} spsh_dataset_options;

#define SPSH_DATASET_IGNORE_OVERLAYS UINT32_C(1) /* as packed: no skips, original transcripts */

/* clang-format off */
#define SPSH_DATASET_OPTIONS_INIT {sizeof(spsh_dataset_options), NULL, NULL, 0, 0, 0}
/* clang-format on */

/** Totals of the manifest. */
typedef struct spsh_dataset_info {
    size_t struct_size;
    uint8_t dataset_id[16];
    uint64_t generation;
    uint64_t shard_count;
    uint64_t utterance_count;
    uint64_t record_count;
    uint64_t duplicate_count; /* utterances with the same samples as an earlier utterance */
    uint64_t payload_bytes;
    uint64_t unused_payload_bytes; /* copies of records in other units, which nothing refers to */
    uint64_t shard_bytes;          /* sum of file sizes */
    uint64_t speaker_count;
    uint64_t reject_count;     /* source rows that pack rejected */
    uint64_t source_row_count; /* utterance_count plus reject_count */
    uint64_t overlay_count;
    uint8_t index_hash[16]; /* root hash of the dataset index: equal hashes mean equal rows */
} spsh_dataset_info;
/* clang-format off */
#define SPSH_DATASET_INFO_INIT {sizeof(spsh_dataset_info), {0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
    0, {0}}
/* clang-format on */

/** One (domain, split, rate) of the manifest. Names are borrowed until close; empty: absent. */
typedef struct spsh_dataset_group {
    spsh_bytes domain, split;
    uint32_t sample_rate_hz;
    uint64_t utterance_count;
    uint64_t samples;
} spsh_dataset_group;

/** Columns of the dataset index, as numbered in FORMAT.md 4.2, with the bytes of an element. */
typedef enum spsh_column {
    SPSH_COLUMN_ID_HASH = 32,        /* 8 */
    SPSH_COLUMN_BY_ID = 33,          /* 8: positions in ascending (id_hash, position) */
    SPSH_COLUMN_PAYLOAD_SHARD = 34,  /* 4 */
    SPSH_COLUMN_PAYLOAD_RECORD = 35, /* 4 */
    SPSH_COLUMN_RECORD_OFFSET = 36,  /* 8 */
    SPSH_COLUMN_RECORD_BYTES = 37,   /* 4 */
    SPSH_COLUMN_START_SAMPLE = 38,   /* 8 */
    SPSH_COLUMN_SAMPLES = 39,        /* 8 */
    SPSH_COLUMN_SAMPLE_RATE_HZ = 40, /* 4 */
    SPSH_COLUMN_CHANNELS = 41,       /* 2 */
    SPSH_COLUMN_CODEC = 42,          /* 2 */
    SPSH_COLUMN_FLAGS = 43,          /* 4 */
    SPSH_COLUMN_DUPLICATE_OF = 44,   /* 8 */
    SPSH_COLUMN_DOMAIN = 45, /* 4; this and the next ones: name numbers for spsh_dataset_name */
    SPSH_COLUMN_SPLIT = 46,
    SPSH_COLUMN_SPEAKER = 47,
    SPSH_COLUMN_LANGUAGE = 48,
    SPSH_COLUMN_DOCUMENT = 49,
    SPSH_COLUMN_TEXT_BYTES = 50, /* 4: a size, not a name number */
} spsh_column;

/** An utterance's row in the dataset index. Name numbers go to spsh_dataset_name. */
typedef struct spsh_row {
    uint64_t id_hash;
    uint32_t shard; /* shard with its metadata */
    uint64_t shard_row;
    uint32_t payload_shard; /* shard with its audio */
    uint32_t payload_record;
    uint64_t record_offset_bytes;
    uint32_t record_bytes;
    uint64_t start_sample;
    uint64_t samples;
    uint32_t sample_rate_hz;
    uint32_t channels;
    spsh_codec codec;
    uint32_t flags;        /* SPSH_UTTERANCE_* */
    uint64_t duplicate_of; /* position of the earlier utterance, or SPSH_NONE_U64 */
    uint32_t domain, split, speaker, language, document;
    uint32_t text_bytes;
} spsh_row;

/**
 * Cut DATASET:SPLITS in two by replacing the colon with a NUL. If the whole name exists as a path,
 * it is a dataset with all its splits. Otherwise the path ends at the last colon whose left side
 * exists as a path, or, if there is none, at the last colon.
 *
 * @param name        changed on success only
 * @param io          used to look up paths; NULL: the operating system
 * @param ret_splits  names separated by commas, inside name; NULL: all splits
 * @return SPSH_OK; SPSH_E_INVALID_ARG: no path, an empty name of a split, or one that is not UTF-8;
 * the message quotes the name. Missing datasets and splits are not errors here; opening them fails.
 *
 * Thread-safe. No allocation.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_dataset_name_cut(char *name, const spsh_io *io,
                                                          const char **ret_splits, spsh_error *err);

/**
 * Open a dataset.
 *
 * @param path     the dataset's directory
 * @param options  NULL for defaults
 * @return SPSH_OK, _NOT_FOUND (no manifest: not a dataset, or pack did not finish; the message says
 * which), _NOT_SPEECHSHARD, _VERSION, _TRUNCATED, _CORRUPT, _MISMATCH, _LIMIT, _IO, _NO_MEMORY,
 * _INVALID_ARG. Safe on hostile input. After the call, any thread may use it, but not during close.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_dataset_open(const char *path,
                                                      const spsh_dataset_options *options,
                                                      spsh_dataset **ret_dataset, spsh_error *err);
SPSH_API void spsh_dataset_close(spsh_dataset *dataset);

SPSH_API const spsh_dataset_info *spsh_dataset_info_get(const spsh_dataset *dataset);
SPSH_API const char *spsh_dataset_path(const spsh_dataset *dataset);

/** Seal of a shard by its number in the manifest, as the manifest states it. */
SPSH_API SPSH_NODISCARD spsh_status spsh_dataset_shard(const spsh_dataset *dataset, uint64_t shard,
                                                       spsh_shard_seal *ret_seal, spsh_error *err);
SPSH_API uint64_t spsh_dataset_group_count(const spsh_dataset *dataset);
SPSH_API SPSH_NODISCARD spsh_status spsh_dataset_group_get(const spsh_dataset *dataset,
                                                           uint64_t group,
                                                           spsh_dataset_group *ret_group,
                                                           spsh_error *err);
SPSH_API uint64_t spsh_dataset_name_count(const spsh_dataset *dataset, spsh_name_kind kind);
/** SPSH_NONE_U32 gives the empty name; borrowed until close. Thread-safe. */
SPSH_API SPSH_NODISCARD spsh_status spsh_dataset_name(const spsh_dataset *dataset,
                                                      spsh_name_kind kind, uint32_t number,
                                                      spsh_bytes *ret_name, spsh_error *err);
/** The options JSON of the manifest; borrowed until close. */
SPSH_API SPSH_NODISCARD spsh_status spsh_dataset_pack_options(const spsh_dataset *dataset,
                                                              spsh_bytes *ret_json,
                                                              spsh_error *err);

/** Rows [first, first + count) of the index. Thread-safe; no allocation. */
SPSH_API SPSH_NODISCARD spsh_status spsh_dataset_rows(const spsh_dataset *dataset, uint64_t first,
                                                      uint64_t count, spsh_row *ret_rows,
                                                      spsh_error *err);

/**
 * Elements [first, first + count) of one column. For callers that read a few columns of millions of
 * rows.
 *
 * @param ret_elements  points into the mapped file: little-endian, contiguous, aligned to the size
 * of an element; valid until close. Unchanged on failure.
 * @return SPSH_OK, SPSH_E_INVALID_ARG (column, range), _CORRUPT
 *
 * Thread-safe; no allocation. Checks the checksums, but not the values: spsh_dataset_rows also
 * detects invalid values of a faulty writer.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_dataset_column(const spsh_dataset *dataset,
                                                        spsh_column column, uint64_t first,
                                                        uint64_t count, spsh_bytes *ret_elements,
                                                        spsh_error *err);

/**
 * Positions of the utterances in the skip overlays in force, ascending, without repeats. Ignores
 * ids that no utterance has.
 *
 * @param positions  receives the first `capacity` positions; NULL with capacity 0: only count
 * @param ret_count  number of positions; may exceed capacity
 * @return SPSH_OK, SPSH_E_NO_MEMORY, any status of reading the index, or, if hashes of ids collide,
 * of reading metadata
 *
 * Thread-safe. Uses 8 bytes of temporary memory per entry of a skip overlay.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_dataset_skipped_positions(const spsh_dataset *dataset,
                                                                   uint64_t *positions,
                                                                   uint64_t capacity,
                                                                   uint64_t *ret_count,
                                                                   spsh_error *err);

/** Is the utterance in a skip overlay? *ret_reason may be NULL; borrowed until close. Thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_dataset_skipped(const spsh_dataset *dataset, spsh_bytes id,
                                                         bool *ret_skipped, spsh_bytes *ret_reason,
                                                         spsh_error *err);

/** Reads text, payloads and PCM. One thread per object; several per dataset are fine. */
typedef struct spsh_reader spsh_reader;
SPSH_API SPSH_NODISCARD spsh_status spsh_reader_open(const spsh_dataset *dataset,
                                                     spsh_reader **ret_reader, spsh_error *err);
SPSH_API void spsh_reader_close(spsh_reader *reader);

/** Position of an utterance by id; SPSH_E_NOT_FOUND names the id. */
SPSH_API SPSH_NODISCARD spsh_status spsh_reader_find(spsh_reader *reader, spsh_bytes id,
                                                     uint64_t *ret_position, spsh_error *err);

/** Strings of an utterance, transcript overlays applied; borrowed until the next call on this
 * reader. */
SPSH_API SPSH_NODISCARD spsh_status spsh_reader_metadata(spsh_reader *reader, uint64_t position,
                                                         spsh_utterance *ret_utterance,
                                                         spsh_error *err);

/** The record that holds an utterance's audio, head checked; borrowed until the next call on this
 * reader. */
SPSH_API SPSH_NODISCARD spsh_status spsh_reader_record(spsh_reader *reader, uint64_t position,
                                                       const spsh_record **ret_record,
                                                       spsh_error *err);

/** Payload bytes [offset, offset + size) of that record, verified. */
SPSH_API SPSH_NODISCARD spsh_status spsh_reader_payload(spsh_reader *reader, uint64_t position,
                                                        uint64_t offset_bytes, void *dst,
                                                        size_t size_bytes, spsh_error *err);

/**
 * Decode samples of an utterance, interleaved.
 *
 * @param first_sample  inside the utterance
 * @param capacity      samples per channel that fit into pcm
 * @param ret_samples   min(capacity, samples of the utterance - first_sample)
 * Sequential calls on one utterance continue the same decoder. SPSH_E_AUDIO names the utterance
 * when its record is marked undecodable or decodes to another length than stored.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_reader_read_i16(spsh_reader *reader, uint64_t position,
                                                         uint64_t first_sample, int16_t *pcm,
                                                         uint64_t capacity, uint64_t *ret_samples,
                                                         spsh_error *err);
SPSH_API SPSH_NODISCARD spsh_status spsh_reader_read_i32(spsh_reader *reader, uint64_t position,
                                                         uint64_t first_sample, int32_t *pcm,
                                                         uint64_t capacity, uint64_t *ret_samples,
                                                         spsh_error *err);
SPSH_API SPSH_NODISCARD spsh_status spsh_reader_read_f32(spsh_reader *reader, uint64_t position,
                                                         uint64_t first_sample, float *pcm,
                                                         uint64_t capacity, uint64_t *ret_samples,
                                                         spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
