/* print_set.h: the utterances of several datasets with their segments, as one numbered set.
 *
 *     const spsh_dedup_source sources[] = {{"corpus.spsh", "train", SPSH_SIDE_TRAIN},
 *                                           {"corpus.spsh", "test,dev", SPSH_SIDE_TEST}};
 *     spsh__print_set_open(sources, 2, NULL, &set, err);
 *
 * An utterance's ordinal depends on the datasets alone (they are ordered by their ids), not on the
 * order in which they are given; so nothing that is found does. The same holds for prints, which
 * are numbered likewise. Utterances that an overlay skips, or that no source's splits name, keep
 * their numbers but are on no side.
 */
#ifndef SPSH_DEDUP_PRINT_SET_H
#define SPSH_DEDUP_PRINT_SET_H

#include "segment/segment.h"
#include "speechshard/dedup.h"

/* Is it a dataset, with these splits? As spsh__print_set_open, but for segments and other sources.
 */
spsh_status spsh__print_source_check(const spsh_dedup_source *source, const spsh_io *io,
                                     spsh_error *err);

typedef struct spsh__print_set spsh__print_set;

/**
 * A dataset may be named more than once, by paths that lead to one folder (copies of a dataset in
 * two places are SPSH_E_INVALID_ARG: nothing that is written could tell them apart); two sides that
 * claim one utterance are SPSH_E_INVALID_ARG, and so is a split that the dataset does not have (its
 * splits are named). A shard without a segment: SPSH_E_NOT_FOUND, the message names the command
 * that makes it.
 *
 * Memory: one byte an utterance, 3 KB a shard; the segments are mapped and keep no descriptor.
 * Thread-safe afterwards.
 */
spsh_status spsh__print_set_open(const spsh_dedup_source *sources, size_t source_count,
                                 const spsh_io *io, spsh__print_set **ret_set, spsh_error *err);
void spsh__print_set_close(spsh__print_set *set);

size_t spsh__print_set_dataset_count(const spsh__print_set *set);
const spsh_dataset *spsh__print_set_dataset(const spsh__print_set *set, size_t dataset);
uint64_t spsh__print_set_first(const spsh__print_set *set, size_t dataset); /* its first ordinal */
uint64_t spsh__print_set_count(const spsh__print_set *set);                 /* utterances */
uint64_t spsh__print_set_side_count(const spsh__print_set *set, spsh_side side);
uint64_t spsh__print_set_print_count(const spsh__print_set *set);
spsh_side spsh__print_set_side(const spsh__print_set *set, uint64_t ordinal);

/* Which dataset, and the position in it. */
void spsh__print_set_place(const spsh__print_set *set, uint64_t ordinal, size_t *ret_dataset,
                           uint64_t *ret_position);

/* The row; of an alias (ret_alias_of is not SPSH_NONE_U64) everything but id_key, ROW_ALIAS and
 * ROW_HAS_TEXT is that of the utterance it copies. That one may be on another side, or on none. */
spsh_status spsh__print_set_row(const spsh__print_set *set, uint64_t ordinal,
                                spsh__segment_row *ret_row, uint64_t *ret_alias_of,
                                spsh_error *err);

/* A print by its number in the set, and whose it is. */
typedef struct spsh__set_print {
    uint64_t utterance; /* ordinal */
    uint32_t channel;
    uint64_t frame_count, key_count;
    const spsh__segment *segment; /* with the two below: for spsh__segment_frames and _keys */
    uint64_t first_frame, first_key;
} spsh__set_print;
spsh_status spsh__print_set_print(const spsh__print_set *set, uint64_t print,
                                  spsh__set_print *ret_print, spsh_error *err);
/* Its prints: numbers first ... first + count - 1; of an alias: those of the utterance it copies.
 */
spsh_status spsh__print_set_prints_of(const spsh__print_set *set, uint64_t ordinal,
                                      uint64_t *ret_first, uint64_t *ret_count, spsh_error *err);
/* Copies; dst has room for row.chunk_count. */
spsh_status spsh__print_set_chunks(const spsh__print_set *set, uint64_t ordinal, spsh__chunk *dst,
                                   spsh_error *err);

/* XXH3-128 over everything a result depends on: datasets' ids, index hashes, segments' root hashes,
 * sides, fingerprint version. */
void spsh__print_set_hash(const spsh__print_set *set, uint8_t ret_hash[16]);

#endif
