/* audit_sides.h: the splits of a set's two sides, and the utterances of test: what an audit counts.
 *
 * Splits are ordered by what they are called, not by the order in which they were given. Utterances
 * that an overlay skips are on no side and are not counted.
 */
#ifndef SPSH_DEDUP_AUDIT_SIDES_H
#define SPSH_DEDUP_AUDIT_SIDES_H

#include "audit.h"

/* One split of one dataset. */
typedef struct spsh__audit_split {
    size_t dataset;     /* of the set */
    uint32_t number;    /* for spsh_dataset_name; SPSH_NONE_U32: utterances without a split */
    const char *corpus; /* borrowed from the sides' datasets */
    spsh_bytes name;    /* borrowed from the dataset; empty: none */
} spsh__audit_split;

typedef struct spsh__audit_sides {
    spsh__audit_roster roster;
    spsh__audit_split *train, *test; /* by the roster's numbers */
    const spsh__print_set *set;
    char *
        *corpora; /* of each dataset: the last part of its path; two alike have their ids behind */
    /* What the roster points to. */
    struct spsh__split_table *tables; /* of each dataset */
    spsh__leak_split *train_facts, *test_facts;
    uint64_t *test_ordinals;
    uint32_t *test_splits;
    double *test_seconds;
} spsh__audit_sides;

/* set: borrowed until free. SPSH_E_INVALID_ARG when a side is empty. Time: three columns of the
 * index are read. Memory: 20 bytes a test utterance. */
spsh_status spsh__audit_sides_make(const spsh__print_set *set, spsh__audit_sides **ret_sides,
                                   spsh_error *err);
void spsh__audit_sides_free(spsh__audit_sides *sides);

/* The last part of a path, from malloc; bytes that are not UTF-8 are question marks. */
spsh_status spsh__audit_corpus_name(const char *path, char **ret_name, spsh_error *err);

#endif
