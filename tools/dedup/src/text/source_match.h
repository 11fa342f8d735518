/* source_match.h: find out where the audio of an utterance comes from, to compare origins.
 *
 * The key is the first of these that exists:
 *
 *     extras "source_url" with "source_start", "source_end"   a stretch of an external file (MLS)
 *     extras "source_url" or "url"                            that file
 *     source, if it is a URL                                  that file
 *     source                                                  a file of this dataset
 *
 * URLs are cut at ? and #. The prefixes http://, https://, and www. are ignored, and the case of
 * the host, too. Paths are relative to the packed directory, so they are compared only within one
 * dataset. The exact tiers find equal files of different datasets. Stretches are compared only with
 * stretches, and match if they overlap.
 */
#ifndef SPSH_DEDUP_SOURCE_MATCH_H
#define SPSH_DEDUP_SOURCE_MATCH_H

#include "common/byte_builder.h"
#include "hit_table.h"
#include "records/hash_map.h"
#include "speechshard/shard.h"

typedef struct spsh__source_key {
    bool is_known;
    bool is_stretch;
    spsh__u128 key;
    uint64_t begin_ns, end_ns; /* begin and end of a stretch */
} spsh__source_key;

/* Compute the source key. dataset is the index in its set. scratch is borrowed during the call.
 * Returns SPSH_OK or SPSH_E_NO_MEMORY. */
spsh_status spsh__source_key_of(const spsh_utterance *utterance, uint32_t dataset,
                                spsh__builder *scratch, spsh__source_key *ret_key, spsh_error *err);

/* ---- the sources of the test side ---- */

typedef struct spsh__source_index spsh__source_index;

spsh_status spsh__source_index_open(spsh__hit_rule rule, spsh__source_index **ret_index,
                                    spsh_error *err);
void spsh__source_index_free(spsh__source_index *index);

/* Add a source of the test side. *ret_number is the number of its thing. Equal whole files share
 * one number. */
spsh_status spsh__source_index_add(spsh__source_index *index, const spsh__source_key *key,
                                   uint32_t *ret_number, spsh_error *err);
spsh_status spsh__source_index_finish(spsh__source_index *index, spsh_error *err);
uint64_t spsh__source_index_bytes(const spsh__source_index *index);

/* Look up the source of a train utterance. Thread-safe. */
void spsh__source_index_probe(spsh__source_index *index, uint64_t ordinal,
                              const spsh__source_key *key);

/* Get the hits of a source. For stretches, hit.test and hit.train are the seconds from the start of
 * each stretch to the start of their overlap. */
uint64_t spsh__source_index_hits(const spsh__source_index *index, uint32_t number,
                                 const spsh__hit **ret_hits, uint32_t *ret_kept);

#endif
