/* shard.h: write one sealed shard, and read one. Datasets of many shards: dataset.h.
 *
 *     spsh_shard_writer_options opt = SPSH_SHARD_WRITER_OPTIONS_INIT;
 *     opt.directory = "corpus.spsh/shards";
 *     spsh_shard_writer_open(&opt, &writer, &err);
 *     spsh_shard_writer_add_record(writer, &record, payload, &record_number, &err);
 *     spsh_shard_writer_add_utterance(writer, &utterance, &err);
 *     spsh_shard_writer_seal(writer, &seal, &err);        // durable when this returns
 *     spsh_shard_writer_free(writer);
 */
#ifndef SPEECHSHARD_SHARD_H
#define SPEECHSHARD_SHARD_H

#include "speechshard/audio.h"
#include "speechshard/base.h"
#include "speechshard/io.h"
#include "speechshard/limits.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Record flags, FORMAT.md 3.2. */
#define SPSH_RECORD_PCM_HASH    UINT32_C(1)  /* pcm_hash is valid */
#define SPSH_RECORD_UNDECODABLE UINT32_C(2)  /* intact, but beyond the decoder library */
#define SPSH_RECORD_TRUSTED     UINT32_C(4)  /* the sample count is from the header, not counted */
#define SPSH_RECORD_TRANSCODED  UINT32_C(8)  /* payload is not the source's bytes */
#define SPSH_RECORD_RESAMPLED   UINT32_C(16) /* sample rate was converted */

/* Utterance flags, FORMAT.md 3.3 and 4.2. */
#define SPSH_UTTERANCE_HAS_TEXT  UINT32_C(1)
#define SPSH_UTTERANCE_DUPLICATE UINT32_C(2) /* dataset index only: duplicate_of is set */

#define SPSH_NONE_U32 UINT32_MAX
#define SPSH_NONE_U64 UINT64_MAX

/** A record's head: the description of a stored recording. */
typedef struct spsh_record {
    spsh_bytes id; /* id of the recording; writer: borrowed during the call; reader: empty in
                      spsh_shard_record */
    uint64_t payload_bytes;
    uint64_t samples;
    uint32_t sample_rate_hz;
    uint32_t nominal_rate_hz;
    uint32_t channels;
    spsh_codec codec;
    spsh_sample_format format;
    uint32_t bits_per_sample;
    uint32_t flags; /* SPSH_RECORD_* */
    uint8_t pcm_hash[16];
    uint8_t payload_hash[16];           /* the writer computes it: ignored on input */
    const spsh_seek_point *seek_points; /* writer: borrowed during the call; may be NULL */
    uint64_t seek_point_count;
} spsh_record;

/** An utterance's metadata. Absent strings are empty. */
typedef struct spsh_utterance {
    spsh_bytes id;
    uint64_t record; /* number of its record in the unit */
    uint64_t start_sample;
    uint64_t samples;
    uint32_t flags; /* SPSH_UTTERANCE_HAS_TEXT */
    spsh_bytes domain, split, speaker, language, document;
    spsh_bytes text, source, extras;
} spsh_utterance;

typedef struct spsh_shard_writer spsh_shard_writer;

typedef struct spsh_shard_writer_options {
    size_t struct_size;
    const spsh_allocator *allocator; /* NULL: malloc and free; copied */
    const spsh_io *io;               /* NULL: the operating system; borrowed until free */
    const char *directory;           /* where the shard appears; must exist; copied */
    uint8_t dataset_id[16];          /* the plan's id */
    uint64_t unit;                   /* at most 999,999 */
    uint32_t number;                 /* number of the shard in its unit; at most 999 */
    uint64_t first_record;           /* records of the unit in earlier shards */
    uint64_t first_utterance;        /* utterances of the unit in earlier shards */
    uint64_t reserve_bytes;          /* disk space to reserve at open; 0: none */
} spsh_shard_writer_options;

/* clang-format off */
#define SPSH_SHARD_WRITER_OPTIONS_INIT \
    {sizeof(spsh_shard_writer_options), NULL, NULL, NULL, {0}, 0, 0, 0, 0, 0}
/* clang-format on */

/** Identity of a sealed shard, as the manifest stores it. */
typedef struct spsh_shard_seal {
    uint8_t file_id[16];
    uint8_t root_hash[16];
    uint64_t file_bytes;
    uint64_t unit;
    uint32_t number;
    uint64_t record_count;
    uint64_t utterance_count;
} spsh_shard_seal;

/** Write the name of a shard's file, for example "000012-003.spsh". Thread-safe. */
SPSH_API void spsh_shard_file_name(uint64_t unit, uint32_t number, char dst[32]);

/** Start a shard. Memory: one block of 4 MiB, one metadata block, names, and for the index about
 * 150 bytes per record and 80 bytes per utterance. */
SPSH_API SPSH_NODISCARD spsh_status spsh_shard_writer_open(const spsh_shard_writer_options *options,
                                                           spsh_shard_writer **ret_writer,
                                                           spsh_error *err);

/**
 * Append a record.
 *
 * @param record      samples, rates, codec, flags, hash, id, seek points; borrowed during the call
 * @param payload     record->payload_bytes bytes; borrowed during the call
 * @param ret_record  its number inside the unit, for spsh_utterance.record
 * @return SPSH_OK, SPSH_E_INVALID_ARG (a field violates FORMAT.md 3.2), SPSH_E_LIMIT, _IO,
 * _NO_SPACE, _NO_MEMORY. After any other failure than SPSH_E_INVALID_ARG or SPSH_E_LIMIT only free
 * is allowed.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_shard_writer_add_record(spsh_shard_writer *writer,
                                                                 const spsh_record *record,
                                                                 const void *payload,
                                                                 uint64_t *ret_record,
                                                                 spsh_error *err);

/** Append an utterance of a record that is in this shard or an earlier one of the unit. */
SPSH_API SPSH_NODISCARD spsh_status spsh_shard_writer_add_utterance(spsh_shard_writer *writer,
                                                                    const spsh_utterance *utterance,
                                                                    spsh_error *err);

/** Size that the file would have if sealed now, accurate to one block. Decides when to start the
 * next shard. */
SPSH_API uint64_t spsh_shard_writer_size(const spsh_shard_writer *writer);

/** Write index and footers, sync and publish the file, sync the directory. After it only free is
 * allowed. */
SPSH_API SPSH_NODISCARD spsh_status spsh_shard_writer_seal(spsh_shard_writer *writer,
                                                           spsh_shard_seal *ret_seal,
                                                           spsh_error *err);

/** Free the writer; NULL is fine. Removes the temporary file of a shard that is not sealed. */
SPSH_API void spsh_shard_writer_free(spsh_shard_writer *writer);

/* ---- reading ---- */

typedef struct spsh_shard spsh_shard;

typedef struct spsh_shard_options {
    size_t struct_size;
    const spsh_allocator *allocator; /* NULL: malloc and free; copied */
    const spsh_io *io;               /* NULL: the operating system; borrowed until close */
    const spsh_shard_seal
        *expected; /* NULL: any; else file id, root hash and size must agree (_MISMATCH) */
} spsh_shard_options;

/* clang-format off */
#define SPSH_SHARD_OPTIONS_INIT {sizeof(spsh_shard_options), NULL, NULL, NULL}
/* clang-format on */

/** Position of a record in its file. */
typedef struct spsh_record_place {
    uint64_t offset_bytes; /* position of the head */
    uint64_t head_bytes;
    uint64_t payload_bytes;
    uint64_t record_bytes; /* head, payload and padding */
} spsh_record_place;

/** An utterance's fixed-width columns. domain ... document are numbers for spsh_shard_name;
 * SPSH_NONE_U32: absent. */
typedef struct spsh_shard_row {
    uint64_t id_hash;
    uint64_t record; /* inside the unit */
    uint64_t start_sample;
    uint64_t samples;
    uint32_t flags;
    uint32_t domain, split, speaker, language, document;
    uint32_t text_bytes;
} spsh_shard_row;

typedef enum spsh_name_kind {
    SPSH_NAME_DOMAIN = 0,
    SPSH_NAME_SPLIT = 1,
    SPSH_NAME_SPEAKER = 2,
    SPSH_NAME_LANGUAGE = 3,
    SPSH_NAME_DOCUMENT = 4,
    SPSH_NAME_KINDS = 5,
} spsh_name_kind;

/**
 * Open a sealed shard. Checks header, footer, and page table; checks each index page on first use.
 *
 * @return SPSH_OK, _NOT_FOUND, _NOT_SPEECHSHARD, _VERSION, _TRUNCATED, _CORRUPT, _MISMATCH, _LIMIT,
 * _IO, _NO_MEMORY. Safe on hostile input. Functions that only read the index are thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_shard_open(const char *path,
                                                    const spsh_shard_options *options,
                                                    spsh_shard **ret_shard, spsh_error *err);
SPSH_API void spsh_shard_close(spsh_shard *shard);

SPSH_API const spsh_shard_seal *spsh_shard_info(const spsh_shard *shard);
SPSH_API uint64_t spsh_shard_first_record(const spsh_shard *shard);    /* inside the unit */
SPSH_API uint64_t spsh_shard_first_utterance(const spsh_shard *shard); /* inside the unit */

/** Read a record from the index. record: number in this shard, 0 ... record_count - 1. id and seek
 * points stay empty. Thread-safe. */
SPSH_API SPSH_NODISCARD spsh_status spsh_shard_record(const spsh_shard *shard, uint64_t record,
                                                      spsh_record *ret_record,
                                                      spsh_record_place *ret_place,
                                                      spsh_error *err);

/** Read an utterance from the index, by row. Thread-safe. */
SPSH_API SPSH_NODISCARD spsh_status spsh_shard_row_get(const spsh_shard *shard, uint64_t row,
                                                       spsh_shard_row *ret_row, spsh_error *err);

/** Return a name from a string table; borrowed until close. Thread-safe. */
SPSH_API SPSH_NODISCARD spsh_status spsh_shard_name(const spsh_shard *shard, spsh_name_kind kind,
                                                    uint32_t number, spsh_bytes *ret_name,
                                                    spsh_error *err);
SPSH_API uint64_t spsh_shard_name_count(const spsh_shard *shard, spsh_name_kind kind);

/** Reads metadata; holds one decompressed block. One thread per object; several per shard are fine.
 */
typedef struct spsh_metadata_reader spsh_metadata_reader;
SPSH_API SPSH_NODISCARD spsh_status spsh_metadata_reader_open(const spsh_shard *shard,
                                                              spsh_metadata_reader **ret_reader,
                                                              spsh_error *err);
/** All strings of an utterance; borrowed until the next get or close. */
SPSH_API SPSH_NODISCARD spsh_status spsh_metadata_reader_get(spsh_metadata_reader *reader,
                                                             uint64_t row,
                                                             spsh_utterance *ret_utterance,
                                                             spsh_error *err);
SPSH_API void spsh_metadata_reader_close(spsh_metadata_reader *reader);

/** Row of an utterance by id; SPSH_E_NOT_FOUND. Reads metadata to compare ids in full. */
SPSH_API SPSH_NODISCARD spsh_status spsh_shard_find(const spsh_shard *shard,
                                                    spsh_metadata_reader *reader, spsh_bytes id,
                                                    uint64_t *ret_row, spsh_error *err);

/**
 * One record opened for reading: its head is read and checked now, payload pages when they are
 * read. One thread per object; several per shard are fine.
 */
typedef struct spsh_record_reader spsh_record_reader;
SPSH_API SPSH_NODISCARD spsh_status spsh_record_reader_open(const spsh_shard *shard,
                                                            uint64_t record,
                                                            spsh_record_reader **ret_reader,
                                                            spsh_error *err);
/** The complete head, with id and seek points; borrowed until close. */
SPSH_API const spsh_record *spsh_record_reader_info(const spsh_record_reader *reader);
/** Copy payload bytes [offset, offset + size); reads and verifies only the pages it touches. */
SPSH_API SPSH_NODISCARD spsh_status spsh_record_reader_read(spsh_record_reader *reader,
                                                            uint64_t offset_bytes, void *dst,
                                                            size_t size_bytes, spsh_error *err);
/** The payload as a decoder's source; the reader must outlive the decoder. */
SPSH_API spsh_audio_source spsh_record_reader_source(spsh_record_reader *reader);
SPSH_API void spsh_record_reader_close(spsh_record_reader *reader);

/**
 * Check a whole record in memory (as the loader read it): head, position, page checksums.
 *
 * @param file_id       file id of the shard
 * @param offset_bytes  position of the record in the shard
 * @param data          record_bytes bytes; borrowed; ret_record and ret_payload point into it
 * @param seek_points   not decoded: ret_record->seek_points is NULL
 * Thread-safe, no allocation, safe on hostile input.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_record_check(const uint8_t file_id[16],
                                                      uint64_t offset_bytes, const uint8_t *data,
                                                      size_t size_bytes, spsh_record *ret_record,
                                                      spsh_bytes *ret_payload, spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
