/* segment.h: what is known of the utterances of one sealed shard, in a file of its own.
 *
 *     DATASET/fingerprints/000012-003.spsh     beside DATASET/shards/000012-003.spsh
 *
 * A segment is a pure function of its shard, the dataset's index and the version: whichever machine
 * makes it, in whatever order, its bytes are the same (with one version of the decoders of lossy
 * codecs: another one's samples differ by a bit here and there); so a set of segments needs no
 * merging, and a run that was killed goes on with the shards that have none. The file has the
 * container's form (FORMAT.md 2, kind 5): columns with checksummed pages, immutable once published.
 */
#ifndef SPSH_DEDUP_SEGMENT_H
#define SPSH_DEDUP_SEGMENT_H

#include "fingerprint/fingerprint.h"
#include "speechshard/dataset.h"

#define SPSH__SEGMENT_DIRECTORY "fingerprints"

/* Of everything in a segment that is no print: digests, chunks, measures. Prints have their own,
 * SPSH__FINGERPRINT_VERSION. */
#define SPSH__SEGMENT_VERSION 1

/* flags of a row */
#define SPSH__ROW_DECODED UINT32_C(1) /* digests, chunks and prints are there */
#define SPSH__ROW_WHOLE   UINT32_C(2) /* views a whole record: payload_hash speaks for it */
#define SPSH__ROW_ALIAS                                                                            \
    UINT32_C(4) /* its samples are those of its duplicate_of: nothing else here */
#define SPSH__ROW_LOSSLESS UINT32_C(8) /* codec */
#define SPSH__ROW_HAS_TEXT UINT32_C(16)

/* An utterance. */
typedef struct spsh__segment_row {
    uint8_t id_key[16]; /* XXH3-128 of the id */
    uint32_t flags;
    uint32_t sample_rate_hz;
    uint32_t channels;
    uint64_t samples;
    uint8_t payload_hash[16];
    uint8_t pcm_full[16]; /* docs/FINGERPRINT.md 5: canonical digests */
    uint8_t pcm_trim[16]; /* without the zeros around it */
    uint8_t pcm_mono[16]; /* of one channel, when all are equal (also of mono); else zero */
    uint64_t trim_first, trim_count;
    uint64_t first_print, print_count; /* in this segment */
    uint64_t first_chunk, chunk_count;
    /* what policies ask for */
    uint32_t bandwidth_hz;  /* up to where there is signal: measured, not the header's rate */
    uint32_t clipped_count; /* samples at full scale in runs */
    uint32_t payload_bps;   /* stored bits a second, of its record */
    uint32_t active_ms;     /* active speech, by the print of the mix */
} spsh__segment_row;

/* Of audio that was decoded. */
static inline double spsh__segment_row_seconds(const spsh__segment_row *row)
{
    return (row->flags & SPSH__ROW_DECODED) != 0 ? (double)row->samples / row->sample_rate_hz : 0;
}

/* A print: of the mix of all channels (channel 0), and of each channel where they differ. */
typedef struct spsh__segment_print {
    uint64_t row;
    uint32_t channel;
    uint64_t first_frame, frame_count;
    uint64_t first_key, key_count;
} spsh__segment_print;

/* A content-defined piece of canonical PCM (docs/FINGERPRINT.md 6). */
typedef struct spsh__chunk {
    uint64_t hash;
    uint64_t first_sample; /* inside the utterance */
    uint32_t samples;
} spsh__chunk;

/* ---- writing: everything of a shard is collected, then published ---- */

typedef struct spsh__segment_writer spsh__segment_writer;

/* What belongs to one utterance; all borrowed during the call. row's first_* and *_count of prints
 * and chunks are set by the writer. */
typedef struct spsh__segment_entry {
    spsh__segment_row row;
    const spsh__print *prints; /* print_count, without samples */
    const uint32_t *channels;  /* of the prints */
    size_t print_count;
    const spsh__chunk *chunks;
    size_t chunk_count;
} spsh__segment_entry;

spsh_status spsh__segment_writer_open(spsh__segment_writer **ret_writer, spsh_error *err);
/* In the order of the shard's utterances. */
spsh_status spsh__segment_writer_add(spsh__segment_writer *writer, const spsh__segment_entry *entry,
                                     spsh_error *err);
/* All rows of part behind those of writer: pieces of a shard that threads have collected. */
spsh_status spsh__segment_writer_append(spsh__segment_writer *writer,
                                        const spsh__segment_writer *part, spsh_error *err);
/* Empty again, for the next shard or piece; memory is kept. */
spsh_status spsh__segment_writer_reset(spsh__segment_writer *writer, spsh_error *err);
/* Of all columns, as they will be in the file. */
uint64_t spsh__segment_writer_data_bytes(const spsh__segment_writer *writer);
uint64_t spsh__segment_writer_row_count(const spsh__segment_writer *writer);
/* DATASET/fingerprints is made if need be. seal: of the shard. */
spsh_status spsh__segment_writer_publish(spsh__segment_writer *writer, const spsh_dataset *dataset,
                                         const spsh_shard_seal *seal, const spsh_io *io,
                                         spsh_error *err);
void spsh__segment_writer_free(spsh__segment_writer *writer);

/* ---- reading ---- */

/* The path of a file in DATASET/fingerprints, from malloc; of the folder if name is empty. NULL: no
 * memory. */
char *spsh__segment_path(const spsh_dataset *dataset, const char *name);

typedef struct spsh__segment spsh__segment;

/* SPSH_E_NOT_FOUND: the shard has none; _MISMATCH: of another shard; _VERSION: of another version
 * of the fingerprint; _CORRUPT names the file and the offset of the damaged page. */
spsh_status spsh__segment_open(const spsh_dataset *dataset, const spsh_shard_seal *seal,
                               const spsh_io *io, spsh__segment **ret_segment, spsh_error *err);
void spsh__segment_close(spsh__segment *segment);
/* How many of each there are. */
typedef struct spsh__segment_counts {
    uint64_t rows, prints, frames, keys, chunks;
} spsh__segment_counts;
const spsh__segment_counts *spsh__segment_counts_get(const spsh__segment *segment);
/* Rows that have a flag. */
spsh_status spsh__segment_flag_count(const spsh__segment *segment, uint32_t flag,
                                     uint64_t *ret_count, spsh_error *err);
uint64_t spsh__segment_file_bytes(const spsh__segment *segment);
/* Equal hashes: equal files. */
void spsh__segment_root_hash(const spsh__segment *segment, uint8_t ret_hash[16]);

/* All below: any thread; pages are checked when first touched; ranges out of bounds and values that
 * cannot be are SPSH_E_CORRUPT. */
spsh_status spsh__segment_row_get(const spsh__segment *segment, uint64_t row,
                                  spsh__segment_row *ret_row, spsh_error *err);
spsh_status spsh__segment_print_get(const spsh__segment *segment, uint64_t print,
                                    spsh__segment_print *ret_print, spsh_error *err);
/* Copies; dst has room for count. */
spsh_status spsh__segment_keys(const spsh__segment *segment, uint64_t first, uint64_t count,
                               spsh__print_key *dst, spsh_error *err);
spsh_status spsh__segment_frames(const spsh__segment *segment, uint64_t first, uint64_t count,
                                 spsh__print_frame *dst, spsh_error *err);
spsh_status spsh__segment_chunks(const spsh__segment *segment, uint64_t first, uint64_t count,
                                 spsh__chunk *dst, spsh_error *err);
/* Every page against its checksum, for verify. */
spsh_status spsh__segment_check(const spsh__segment *segment, spsh_error *err);

#endif
