/* text_index.h: the transcripts of the test side, to compare with any number of others.
 *
 *     spsh__text_index_open(profile, rule, memory_bytes, &index, err);
 *     spsh__text_index_add(index, text, &number, err);            each test text
 *     spsh__text_index_finish(index, err);
 *     spsh__text_probe_open(index, &probe, err);                  one per thread
 *     spsh__text_probe_text(probe, ordinal, text, &is_empty, err);    each train text
 *     spsh__text_index_hits(index, SPSH__TEXT_NEAR, number, &hits, &kept)    after all probes
 *
 * Equal normalized texts share one number. A pair of texts counts only in the strongest tier:
 * exact, then near, then covered. The result does not depend on threads or order.
 */
#ifndef SPSH_DEDUP_TEXT_INDEX_H
#define SPSH_DEDUP_TEXT_INDEX_H

#include "hit_table.h"
#include "text_profile.h"

typedef enum spsh__text_tier {
    SPSH__TEXT_EXACT,
    SPSH__TEXT_NEAR,    /* hit.test and hit.train: similarity */
    SPSH__TEXT_COVERED, /* hit.test and hit.train: shares of the runs of words */
    SPSH__TEXT_TIERS,
} spsh__text_tier;

#define SPSH__TEXT_EMPTY                                                                           \
    UINT32_MAX /* number of every text that is empty after
                                               normalization */
#define SPSH__TEXT_COVERED_LEAST 0.5

typedef struct spsh__text_index spsh__text_index;
typedef struct spsh__text_probe spsh__text_probe;

/* Open an index. rule applies to the hits of each text and tier. memory_bytes limits the index (2
 * to 3 KB per text of ten words). spsh__text_index_add and _finish return SPSH_E_LIMIT above it. */
spsh_status spsh__text_index_open(spsh_text_profile profile, spsh__hit_rule rule,
                                  uint64_t memory_bytes, spsh__text_index **ret_index,
                                  spsh_error *err);
void spsh__text_index_free(spsh__text_index *index);

/* Add a text. Text that is not UTF-8 counts as empty. */
spsh_status spsh__text_index_add(spsh__text_index *index, spsh_bytes text, uint32_t *ret_number,
                                 spsh_error *err);
spsh_status spsh__text_index_finish(spsh__text_index *index, spsh_error *err);
uint64_t spsh__text_index_count(const spsh__text_index *index); /* number of different texts */
uint64_t spsh__text_index_bytes(const spsh__text_index *index);

spsh_status spsh__text_probe_open(spsh__text_index *index, spsh__text_probe **ret_probe,
                                  spsh_error *err);
void spsh__text_probe_free(spsh__text_probe *probe);
/* Compare a train text. *ret_empty: the text is empty after normalization. */
spsh_status spsh__text_probe_text(spsh__text_probe *probe, uint64_t ordinal, spsh_bytes text,
                                  bool *ret_empty, spsh_error *err);
/* Number of probed texts for which some candidates were not measured. */
uint64_t spsh__text_probe_crowded(const spsh__text_probe *probe);

/* Get the kept hits in ascending order of ordinals. Returns the number of hits, kept or not. */
uint64_t spsh__text_index_hits(const spsh__text_index *index, spsh__text_tier tier, uint32_t number,
                               const spsh__hit **ret_hits, uint32_t *ret_kept);
/* Return the share of the text's runs of words that any probed text contains. */
double spsh__text_index_share(const spsh__text_index *index, uint32_t number);

#endif
