/* segment.h: a file with the duplicate-detection data of all utterances of one sealed shard.
 *
 *     DATASET/fingerprints/000012-003.spsh     belongs to DATASET/shards/000012-003.spsh
 *
 * A segment depends only on its shard, the dataset's index, and the version. Any machine writes
 * identical bytes, in any order of work, with the same version of the decoders of lossy codecs
 * (other versions may decode slightly different samples). So segments need no merging, and an
 * interrupted run resumes with the shards that lack a segment. The file has the container format
 * (FORMAT.md 2, kind 5): columns with checksummed pages, immutable after publication.
 */
#ifndef SPSH_DEDUP_SEGMENT_H
#define SPSH_DEDUP_SEGMENT_H

#include "fingerprint/fingerprint.h"
#include "speechshard/dataset.h"

#define SPSH__SEGMENT_DIRECTORY "fingerprints"

/* Version of everything in a segment except prints: digests, chunks, measurements. Prints have
 * their own version, SPSH__FINGERPRINT_VERSION. */
#define SPSH__SEGMENT_VERSION 1

/* Flags of a row. */
#define SPSH__ROW_DECODED UINT32_C(1) /* digests, chunks and prints are present */
#define SPSH__ROW_WHOLE                                                                            \
    UINT32_C(2) /* the utterance is a whole record, which payload_hash
                                         identifies */
#define SPSH__ROW_ALIAS                                                                            \
    UINT32_C(4)                        /* equal samples as its duplicate_of; no other data are
                   stored */
#define SPSH__ROW_LOSSLESS UINT32_C(8) /* the codec is lossless */
#define SPSH__ROW_HAS_TEXT UINT32_C(16)

/* Data of one utterance. */
typedef struct spsh__segment_row {
    uint8_t id_key[16]; /* XXH3-128 of the id */
    uint32_t flags;
    uint32_t sample_rate_hz;
    uint32_t channels;
    uint64_t samples;
    uint8_t payload_hash[16];
    uint8_t pcm_full[16]; /* canonical digest, docs/reference/FINGERPRINT.md 5 */
    uint8_t pcm_trim[16]; /* without leading and trailing zeros */
    uint8_t pcm_mono[16]; /* digest of one channel if all channels are equal (also with one
                             channel); else zero */
    uint64_t trim_first, trim_count;
    uint64_t first_print, print_count; /* prints in this segment */
    uint64_t first_chunk, chunk_count;
    /* Measurements for the policies. */
    uint32_t bandwidth_hz;  /* highest frequency with signal: measured, independent of
                               sample_rate_hz */
    uint32_t clipped_count; /* samples at full scale, in runs */
    uint32_t payload_bps;   /* stored bits per second of the record */
    uint32_t active_ms;     /* active speech, from the print of the mix */
} spsh__segment_row;

/* Return the duration of the decoded audio. */
static inline double spsh__segment_row_seconds(const spsh__segment_row *row)
{
    return (row->flags & SPSH__ROW_DECODED) != 0 ? (double)row->samples / row->sample_rate_hz : 0;
}

/* A print of the mix of all channels (channel 0), or of one channel if the channels differ. */
typedef struct spsh__segment_print {
    uint64_t row;
    uint32_t channel;
    uint64_t first_frame, frame_count;
    uint64_t first_key, key_count;
} spsh__segment_print;

/* A content-defined stretch of canonical PCM (docs/reference/FINGERPRINT.md 6). */
typedef struct spsh__chunk {
    uint64_t hash;
    uint64_t first_sample; /* position in the utterance */
    uint32_t samples;
} spsh__chunk;

/* ---- writing: collect all data of a shard, then publish ---- */

typedef struct spsh__segment_writer spsh__segment_writer;

/* Data of one utterance, borrowed during the call. The writer sets the first_* and *_count fields
 * of prints and chunks in row. */
typedef struct spsh__segment_entry {
    spsh__segment_row row;
    const spsh__print *prints; /* print_count prints, without samples */
    const uint32_t *channels;  /* channel of each print */
    size_t print_count;
    const spsh__chunk *chunks;
    size_t chunk_count;
} spsh__segment_entry;

spsh_status spsh__segment_writer_open(spsh__segment_writer **ret_writer, spsh_error *err);
/* Add the utterances in the order of the shard. */
spsh_status spsh__segment_writer_add(spsh__segment_writer *writer, const spsh__segment_entry *entry,
                                     spsh_error *err);
/* Append all rows of part to writer. Threads collect the parts of a shard. */
spsh_status spsh__segment_writer_append(spsh__segment_writer *writer,
                                        const spsh__segment_writer *part, spsh_error *err);
/* Empty the writer for the next shard or part, and keep its memory. */
spsh_status spsh__segment_writer_reset(spsh__segment_writer *writer, spsh_error *err);
/* Total bytes of all columns in the file. */
uint64_t spsh__segment_writer_data_bytes(const spsh__segment_writer *writer);
uint64_t spsh__segment_writer_row_count(const spsh__segment_writer *writer);
/* Publish the segment of the shard that seal describes. Creates DATASET/fingerprints if necessary.
 */
spsh_status spsh__segment_writer_publish(spsh__segment_writer *writer, const spsh_dataset *dataset,
                                         const spsh_shard_seal *seal, const spsh_io *io,
                                         spsh_error *err);
void spsh__segment_writer_free(spsh__segment_writer *writer);

/* ---- reading ---- */

/* Return the path of a file in DATASET/fingerprints, or of the folder if name is empty. Free it
 * with free. NULL: out of memory. */
char *spsh__segment_path(const spsh_dataset *dataset, const char *name);

typedef struct spsh__segment spsh__segment;

/* SPSH_E_NOT_FOUND: the shard has no segment; _MISMATCH: the segment belongs to another shard;
 * _VERSION: it has another version of the fingerprint; _CORRUPT: the message names the file and the
 * offset of the damaged page. */
spsh_status spsh__segment_open(const spsh_dataset *dataset, const spsh_shard_seal *seal,
                               const spsh_io *io, spsh__segment **ret_segment, spsh_error *err);
void spsh__segment_close(spsh__segment *segment);
/* Number of elements of each kind. */
typedef struct spsh__segment_counts {
    uint64_t rows, prints, frames, keys, chunks;
} spsh__segment_counts;
const spsh__segment_counts *spsh__segment_counts_get(const spsh__segment *segment);
/* Count the rows with a flag. */
spsh_status spsh__segment_flag_count(const spsh__segment *segment, uint32_t flag,
                                     uint64_t *ret_count, spsh_error *err);
uint64_t spsh__segment_file_bytes(const spsh__segment *segment);
/* Get the root hash of the file. Equal hashes mean equal files. */
void spsh__segment_root_hash(const spsh__segment *segment, uint8_t ret_hash[16]);

/* Any thread may call the functions below. Pages are verified at their first use. SPSH_E_CORRUPT
 * for ranges out of bounds and for invalid values. */
spsh_status spsh__segment_row_get(const spsh__segment *segment, uint64_t row,
                                  spsh__segment_row *ret_row, spsh_error *err);
spsh_status spsh__segment_print_get(const spsh__segment *segment, uint64_t print,
                                    spsh__segment_print *ret_print, spsh_error *err);
/* Copy the keys to dst, which has capacity for count. */
spsh_status spsh__segment_keys(const spsh__segment *segment, uint64_t first, uint64_t count,
                               spsh__print_key *dst, spsh_error *err);
spsh_status spsh__segment_frames(const spsh__segment *segment, uint64_t first, uint64_t count,
                                 spsh__print_frame *dst, spsh_error *err);
spsh_status spsh__segment_chunks(const spsh__segment *segment, uint64_t first, uint64_t count,
                                 spsh__chunk *dst, spsh_error *err);
/* Verify the checksums of all pages. */
spsh_status spsh__segment_check(const spsh__segment *segment, spsh_error *err);

#endif
