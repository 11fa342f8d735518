/* source_match.h: where an utterance's sound comes from, so that two can be told to come from one.
 *
 * The key is, what there is first of:
 *
 *     extras "source_url" with "source_start", "source_end"   a stretch of a file elsewhere (MLS)
 *     extras "source_url" or "url"                            that file
 *     source, when it is a URL                                that file
 *     source                                                  a file of this dataset
 *
 * URLs are cut at ? and #, and http://, https:// and www. before them do not count, nor does the
 * case of the host. Paths are relative to what was packed, so they are compared inside one dataset;
 * that two datasets have one file is for the exact tiers to say. Stretches are compared with
 * stretches and must overlap.
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
    uint64_t begin_ns, end_ns; /* of a stretch */
} spsh__source_key;

/* dataset: number in its set. scratch: borrowed during the call. SPSH_E_NO_MEMORY. */
spsh_status spsh__source_key_of(const spsh_utterance *utterance, uint32_t dataset,
                                spsh__builder *scratch, spsh__source_key *ret_key, spsh_error *err);

/* ---- the sources of the test side ---- */

typedef struct spsh__source_index spsh__source_index;

spsh_status spsh__source_index_open(spsh__hit_rule rule, spsh__source_index **ret_index,
                                    spsh_error *err);
void spsh__source_index_free(spsh__source_index *index);

/* ret_number: of what was added; equal whole files have one. */
spsh_status spsh__source_index_add(spsh__source_index *index, const spsh__source_key *key,
                                   uint32_t *ret_number, spsh_error *err);
spsh_status spsh__source_index_finish(spsh__source_index *index, spsh_error *err);
uint64_t spsh__source_index_bytes(const spsh__source_index *index);

/* A train utterance. Any thread. */
void spsh__source_index_probe(spsh__source_index *index, uint64_t ordinal,
                              const spsh__source_key *key);

/* hit.test, .train: seconds from the begin of each to that of what they share, for stretches. */
uint64_t spsh__source_index_hits(const spsh__source_index *index, uint32_t number,
                                 const spsh__hit **ret_hits, uint32_t *ret_kept);

#endif
