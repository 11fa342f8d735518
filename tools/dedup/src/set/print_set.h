/* print_set.h: the utterances of several datasets with their segments, as one numbered set.
 *
 *     const spsh_dedup_source sources[] = {{"corpus.spsh", "train", SPSH_SIDE_TRAIN},
 *                                           {"corpus.spsh", "test,dev", SPSH_SIDE_TEST}};
 *     spsh__print_set_open(sources, 2, NULL, &set, err);
 *
 * The ordinal of an utterance depends only on the datasets, which are sorted by their ids, not on
 * the order of the sources. So the results do not depend on that order either. Prints are numbered
 * in the same way. An utterance keeps its number but has no side if an overlay skips it, or if no
 * source selects its split.
 */
#ifndef SPSH_DEDUP_PRINT_SET_H
#define SPSH_DEDUP_PRINT_SET_H

#include "segment/segment.h"
#include "speechshard/dedup.h"

/* Check that the source is a dataset with these splits. Same return codes as spsh__print_set_open,
 * without the checks of segments and of other sources.
 */
spsh_status spsh__print_source_check(const spsh_dedup_source *source, const spsh_io *io,
                                     spsh_error *err);

typedef struct spsh__print_set spsh__print_set;

/**
 * Open a set. A dataset may be named several times, by paths to the same folder.
 * SPSH_E_INVALID_ARG: two copies of one dataset at different places, which the results could not
 * distinguish; an utterance that two sides claim; or a split that the dataset does not have (the
 * message lists its splits). SPSH_E_NOT_FOUND: a shard has no segment; the message names the
 * command that makes it.
 *
 * Memory: one byte per utterance and 3 KB per shard. Segments are memory-mapped and keep no file
 * descriptors open. The open set is thread-safe.
 */
spsh_status spsh__print_set_open(const spsh_dedup_source *sources, size_t source_count,
                                 const spsh_io *io, spsh__print_set **ret_set, spsh_error *err);
void spsh__print_set_close(spsh__print_set *set);

size_t spsh__print_set_dataset_count(const spsh__print_set *set);
const spsh_dataset *spsh__print_set_dataset(const spsh__print_set *set, size_t dataset);
uint64_t spsh__print_set_first(const spsh__print_set *set, size_t dataset); /* first ordinal of the
                                                                               dataset */
uint64_t spsh__print_set_count(const spsh__print_set *set); /* number of utterances */
uint64_t spsh__print_set_side_count(const spsh__print_set *set, spsh_side side);
uint64_t spsh__print_set_print_count(const spsh__print_set *set);
spsh_side spsh__print_set_side(const spsh__print_set *set, uint64_t ordinal);

/* The dataset of an utterance, and the utterance's position in it. */
typedef struct spsh__set_place {
    size_t number; /* index of the dataset in the set */
    const spsh_dataset *dataset;
    uint64_t position;
} spsh__set_place;
spsh__set_place spsh__print_set_place(const spsh__print_set *set, uint64_t ordinal);
/* Return the row of an utterance in the index of its dataset. */
spsh_status spsh__print_set_index_row(const spsh__print_set *set, uint64_t ordinal,
                                      spsh_row *ret_row, spsh_error *err);

/* Return the file name of the shard that has an utterance. */
spsh_status spsh__print_set_shard_name(const spsh__print_set *set, uint64_t ordinal,
                                       char ret_name[32], spsh_error *err);

/* Return the row of an utterance in its segment. For an alias, ret_alias_of is the ordinal of its
 * primary, and only id_key, ROW_ALIAS and ROW_HAS_TEXT belong to the alias: all other fields are
 * copied from the primary. The primary may be on another side, or on none. ret_alias_of is
 * SPSH_NONE_U64 for other utterances. It may be NULL. */
spsh_status spsh__print_set_row(const spsh__print_set *set, uint64_t ordinal,
                                spsh__segment_row *ret_row, uint64_t *ret_alias_of,
                                spsh_error *err);

/* A print of the set, and its utterance. */
typedef struct spsh__set_print {
    uint64_t utterance; /* ordinal */
    uint32_t channel;
    uint64_t frame_count, key_count;
    const spsh__segment *segment; /* segment and the next two ranges: for spsh__segment_frames and
                                     spsh__segment_keys */
    uint64_t first_frame, first_key;
} spsh__set_print;
spsh_status spsh__print_set_print(const spsh__print_set *set, uint64_t print,
                                  spsh__set_print *ret_print, spsh_error *err);
/* Return the print numbers of an utterance: first to first + count - 1. An alias has the prints of
 * its primary.
 */
spsh_status spsh__print_set_prints_of(const spsh__print_set *set, uint64_t ordinal,
                                      uint64_t *ret_first, uint64_t *ret_count, spsh_error *err);
/* Copy the chunks to dst, which has capacity for row.chunk_count. */
spsh_status spsh__print_set_chunks(const spsh__print_set *set, uint64_t ordinal, spsh__chunk *dst,
                                   spsh_error *err);

/* XXH3-128 of all inputs of a result: ids of the datasets, index hashes, root hashes of the
 * segments, sides, fingerprint version. */
void spsh__print_set_hash(const spsh__print_set *set, uint8_t ret_hash[16]);

#endif
