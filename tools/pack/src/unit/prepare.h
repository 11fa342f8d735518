/* prepare.h: turn one audio file of the corpus into a record: read, check, decode, encode, hash.
 *
 * Runs on worker threads. The result depends only on the file and the options.
 */
#ifndef SPSH_PACK_PREPARE_H
#define SPSH_PACK_PREPARE_H

#include "loudness.h"
#include "plan/pack_options.h"

/** Result of preparing one file. Owns all its memory. Zero-initialize; free with
 * spsh__prepared_free. */
typedef struct spsh__prepared {
    bool rejected;
    spsh_reject_reason reason; /* set if rejected */
    char detail[240];          /* set if rejected, undecodable, or without an end flag */
    spsh_record record;        /* for the shard writer; id is empty */
    const uint8_t *payload;    /* record.payload_bytes bytes; points into file or encoded */
    uint8_t key[16];           /* copies have equal keys; audio with equal keys is compared in
                                  full */
    uint64_t source_bytes;
    uint64_t pcm_bytes;
    spsh__level level;  /* level of the decoded audio; empty if headers are trusted */
    uint64_t decode_ns; /* processor time of decoding the source file; 0: not decoded */
    bool unverified;
    bool no_end_flag; /* SPSH_DECODE_NO_END_FLAG */
    bool kept_as_is;
    uint8_t *file;    /* source_bytes bytes */
    uint8_t *wrapped; /* audio of file as a WAV file; NULL: the codec of file is supported */
    size_t wrapped_bytes;
    bool is_expanded;        /* file is compressed, so wrapped is never stored unchanged */
    bool is_lossy;           /* file has a lossy codec; set with wrapped */
    uint8_t source_hash[16]; /* XXH3-128 of file; set if wrapped is set */
    uint8_t *encoded;
    spsh_seek_point *seek_points;
} spsh__prepared;

/**
 * Prepare the audio of an item of the plan.
 *
 * @return SPSH_OK, also if the file is rejected; SPSH_E_NO_MEMORY; SPSH_E_IO: the disk failed, not
 * the file
 */
spsh_status spsh__prepare(const spsh_pack_options *options, const spsh_ingest_item *item,
                          spsh__prepared *ret_prepared, spsh_error *err);

/** True if two records hold the same audio: equal payload bytes, or equal decoded samples with
 * SPSH_PACK_DEDUPE_PCM. */
spsh_status spsh__prepared_equal(const spsh__prepared *a, const spsh__prepared *b,
                                 spsh_pack_dedupe level, bool *ret_equal, spsh_error *err);

void spsh__prepared_free(spsh__prepared *prepared);

/** Read a sidecar transcript into text. *ret_detail: NULL, or the message why it is rejected (with
 * *ret_reason). */
spsh_status spsh__prepare_text(const spsh_io *io, const spsh__piece *sidecar, spsh__builder *text,
                               spsh_reject_reason *ret_reason, const char **ret_detail,
                               spsh_error *err);

#endif
