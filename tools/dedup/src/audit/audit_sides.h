/* audit_sides.h: the splits of both sides and the test utterances, which an audit counts.
 *
 * Splits are ordered by name, not in the order of the sources. Utterances that an overlay skips are
 * on no side and are not counted.
 */
#ifndef SPSH_DEDUP_AUDIT_SIDES_H
#define SPSH_DEDUP_AUDIT_SIDES_H

#include "audit.h"

/* One split of one dataset. */
typedef struct spsh__audit_split {
    size_t dataset;     /* index in the set */
    uint32_t number;    /* number for spsh_dataset_name; SPSH_NONE_U32: utterances without a
                           split */
    const char *corpus; /* borrowed from corpora of the sides */
    spsh_bytes name;    /* borrowed from the dataset; empty: no split */
} spsh__audit_split;

typedef struct spsh__audit_sides {
    spsh__audit_roster roster;
    spsh__audit_split *train, *test; /* indexed by the roster's numbers */
    const spsh__print_set *set;
    size_t dataset_count; /* datasets in the set */
    char **corpora; /* name per dataset: the last part of its path, followed by its id if two are
                     equal */
    /* Arrays that the roster points to. */
    struct spsh__split_table *tables; /* per dataset */
    spsh__leak_split *train_facts, *test_facts;
    uint64_t *test_ordinals;
    uint32_t *test_splits;
    double *test_seconds;
} spsh__audit_sides;

/* Make the sides. set is borrowed until free. SPSH_E_INVALID_ARG if a side is empty. Reads three
 * columns of the index. Memory: 20 bytes per test utterance. */
spsh_status spsh__audit_sides_make(const spsh__print_set *set, spsh__audit_sides **ret_sides,
                                   spsh_error *err);
void spsh__audit_sides_free(spsh__audit_sides *sides);

/* Return the last part of a path as a string for free(). Bytes that are not UTF-8 become question
 * marks. */
spsh_status spsh__audit_corpus_name(const char *path, char **ret_name, spsh_error *err);

#endif
