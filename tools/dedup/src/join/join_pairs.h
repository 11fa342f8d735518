/* join_pairs.h: probes in order -> hits: those with equal keys, paired.
 *
 * A key that more than SPSH__JOIN_CROWD probes share is crowded: hold music, one vowel held, one
 * clip a million times. Then one probe a print meets the first few prints and the next few, in the
 * order of their numbers. That connects true copies and makes the work proportional to the probes.
 */
#ifndef SPSH_DEDUP_JOIN_PAIRS_H
#define SPSH_DEDUP_JOIN_PAIRS_H

#include "join_record.h"

enum {
    SPSH__JOIN_CROWD = 256,
    SPSH__JOIN_FEW = 8,            /* first prints, and next ones, that a crowded probe meets */
    SPSH__JOIN_TESTS_MAX = 1 << 16 /* probes of test that a crowded key keeps */
};

typedef struct spsh__join_pairs spsh__join_pairs;

/* hits_fn takes them in pieces; anything but SPSH_OK ends the pairing. */
typedef struct spsh__hit_sink {
    spsh_status (*hits_fn)(void *user, const spsh__u128 *hits, size_t count, spsh_error *err);
    void *user;
} spsh__hit_sink;

spsh_status spsh__join_pairs_new(const spsh__join_form *form, spsh__hit_sink sink,
                                 spsh__join_pairs **ret_pairs, spsh_error *err);
/* Packed probes in ascending order. */
spsh_status spsh__join_pairs_add(spsh__join_pairs *pairs, const spsh__u128 *probes, size_t count,
                                 spsh_error *err);
/* The last key's, and what is left of hits; then the object takes another partition. */
spsh_status spsh__join_pairs_finish(spsh__join_pairs *pairs, spsh_error *err);
uint64_t spsh__join_pairs_hits(const spsh__join_pairs *pairs);
uint64_t spsh__join_pairs_crowded(const spsh__join_pairs *pairs); /* keys */
void spsh__join_pairs_free(spsh__join_pairs *pairs);

#endif
