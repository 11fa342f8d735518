/* join_pairs.h: pair sorted probes with equal keys into hits.
 *
 * A key that more than SPSH__JOIN_CROWD probes share is crowded: hold music, a held vowel, or one
 * clip a million times. For a crowded key, one probe per print is paired with the probes of the
 * first few prints and of the previous few, in the order of the print numbers. That connects true
 * copies and keeps the work proportional to the number of probes.
 */
#ifndef SPSH_DEDUP_JOIN_PAIRS_H
#define SPSH_DEDUP_JOIN_PAIRS_H

#include "join_record.h"

enum {
    SPSH__JOIN_CROWD = 256,
    SPSH__JOIN_FEW = 8,            /* first prints, and previous prints, that a crowded probe is
                                      paired with */
    SPSH__JOIN_TESTS_MAX = 1 << 16 /* maximum number of test probes kept per key; the rest are
                                      ignored */
};

typedef struct spsh__join_pairs spsh__join_pairs;

/* hits_fn receives the hits in pieces. Any result except SPSH_OK ends the pairing. */
typedef struct spsh__hit_sink {
    spsh_status (*hits_fn)(void *user, const spsh__u128 *hits, size_t count, spsh_error *err);
    void *user;
} spsh__hit_sink;

spsh_status spsh__join_pairs_new(const spsh__join_form *form, spsh__hit_sink sink,
                                 spsh__join_pairs **ret_pairs, spsh_error *err);
/* Add packed probes in ascending order. */
spsh_status spsh__join_pairs_add(spsh__join_pairs *pairs, const spsh__u128 *probes, size_t count,
                                 spsh_error *err);
/* Pair the probes of the last key and emit the remaining hits. Then the object accepts another
 * partition. */
spsh_status spsh__join_pairs_finish(spsh__join_pairs *pairs, spsh_error *err);
uint64_t spsh__join_pairs_hits(const spsh__join_pairs *pairs);
uint64_t spsh__join_pairs_crowded(const spsh__join_pairs *pairs); /* number of crowded keys */
void spsh__join_pairs_free(spsh__join_pairs *pairs);

#endif
