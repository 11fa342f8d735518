/* text_index.h: the transcripts of the test side, to be compared with any number of others.
 *
 *     spsh__text_index_open(&options, &index, err);
 *     spsh__text_index_add(index, text, &number, err);            each test text
 *     spsh__text_index_finish(index, err);
 *     spsh__text_probe_open(index, &probe, err);                  one a thread
 *     spsh__text_probe_text(probe, ordinal, text, &is_empty, err);    each train text
 *     spsh__text_index_hits(index, SPSH__TEXT_NEAR, number, &hits, &kept)    when all was probed
 *
 * Equal normalised texts have one number. A pair of texts counts in the strongest tier only: exact,
 * else near, else covered. The result does not depend on threads or order.
 */
#ifndef SPSH_DEDUP_TEXT_INDEX_H
#define SPSH_DEDUP_TEXT_INDEX_H

#include "hit_table.h"
#include "text_profile.h"

typedef enum spsh__text_tier {
    SPSH__TEXT_EXACT,
    SPSH__TEXT_NEAR,    /* hit.test and .train: similarity */
    SPSH__TEXT_COVERED, /* shares of the runs of words */
    SPSH__TEXT_TIERS,
} spsh__text_tier;

#define SPSH__TEXT_EMPTY         UINT32_MAX /* of texts that normalise to nothing */
#define SPSH__TEXT_COVERED_LEAST 0.5

typedef struct spsh__text_index spsh__text_index;
typedef struct spsh__text_probe spsh__text_probe;

/* rule: for hits of a text and tier. memory_bytes: of the index; add and finish are SPSH_E_LIMIT
 * when it is not enough (2 to 3 KB a text of ten words). */
spsh_status spsh__text_index_open(spsh_text_profile profile, spsh__hit_rule rule,
                                  uint64_t memory_bytes, spsh__text_index **ret_index,
                                  spsh_error *err);
void spsh__text_index_free(spsh__text_index *index);

/* What is not UTF-8 is empty. */
spsh_status spsh__text_index_add(spsh__text_index *index, spsh_bytes text, uint32_t *ret_number,
                                 spsh_error *err);
spsh_status spsh__text_index_finish(spsh__text_index *index, spsh_error *err);
uint64_t spsh__text_index_count(const spsh__text_index *index); /* different texts */
uint64_t spsh__text_index_bytes(const spsh__text_index *index);

spsh_status spsh__text_probe_open(spsh__text_index *index, spsh__text_probe **ret_probe,
                                  spsh_error *err);
void spsh__text_probe_free(spsh__text_probe *probe);
/* *ret_empty: there is nothing to compare. */
spsh_status spsh__text_probe_text(spsh__text_probe *probe, uint64_t ordinal, spsh_bytes text,
                                  bool *ret_empty, spsh_error *err);
/* Texts of which not all candidates were measured. */
uint64_t spsh__text_probe_crowded(const spsh__text_probe *probe);

/* Ascending ordinals; returns how many there were. */
uint64_t spsh__text_index_hits(const spsh__text_index *index, spsh__text_tier tier, uint32_t number,
                               const spsh__hit **ret_hits, uint32_t *ret_kept);
/* Of the text's runs of words, the share that any probed text holds. */
double spsh__text_index_share(const spsh__text_index *index, uint32_t number);

#endif
