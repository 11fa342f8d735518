/* audit.h: turn matches into leaks: the data that test utterances share with each train split.
 *
 *     spsh__audit_open(&roster, &audit, err);
 *     spsh__copies_find(set, &options, spsh__audit_sink(audit), &facts, err);
 *     spsh__text_join_run(set, &text_options, spsh__audit_sink(audit), &texts, err);
 *     spsh__audit_count(audit, &leaks, err);
 *     spsh__audit_close(audit);
 *
 * Detection lists each copy once: the first of several utterances with equal samples represents the
 * others. The audit extends the result to all of them. A copy of a test utterance has the same
 * leaks, and a match with a train utterance touches the splits of all copies of that utterance.
 *
 * The result is a pure function of roster and matches. It does not depend on their order, and
 * repeated matches change nothing.
 */
#ifndef SPSH_DEDUP_AUDIT_H
#define SPSH_DEDUP_AUDIT_H

#include "plan/copy_report.h"

/* Minimum duration of shared audio for a leak of kind segment. */
#define SPSH__LEAK_SEGMENT_MIN_S 1.0

/* Kinds of the utterances in dirty.txt: the model may have trained on the same audio or sentence.
 */
#define SPSH__LEAK_DIRTY_MASK                                                                      \
    (1U << SPSH_LEAK_RECORDING | 1U << SPSH_LEAK_SEGMENT | 1U << SPSH_LEAK_PERFORMANCE |           \
     1U << SPSH_LEAK_SENTENCE)

const char *spsh__leak_meaning(spsh_leak leak); /* the meaning in words: "the same recording, or
                                                   part of one" */

/* Return the kind of leak that a match proves, or SPSH_LEAK_COUNT for none. */
spsh_leak spsh__leak_of(const spsh__match *match);

/* Compare evidence in a total order. Negative if left is the stronger one. */
int spsh__leak_compare(const spsh__match *left, const spsh__match *right);

/* Compute Wilson's 95 % confidence interval of the share part / whole. The interval is 0 to 1 if
 * whole is 0. */
void spsh__leak_interval(uint64_t part, uint64_t whole, double *ret_low, double *ret_high);

/* The two sides. The audit borrows the roster. */
typedef struct spsh__audit_roster {
    const spsh__leak_split *train, *test; /* facts of each split */
    size_t train_count, test_count;
    const uint64_t *test_ordinals; /* ordinals of the test utterances, ascending */
    const uint32_t *test_splits;   /* per test utterance: index of its split in test */
    const double *test_seconds;
    uint64_t test_utterance_count;
    /* Get the index in train of an utterance's split. SPSH_NONE_U32 if the utterance is not on the
     * train side. */
    spsh_status (*train_split_fn)(const void *user, uint64_t ordinal, uint32_t *ret_split,
                                  spsh_error *err);
    const void *user;
} spsh__audit_roster;

/* The reason why a test utterance has a bit in its mask. */
typedef struct spsh__leak_evidence {
    uint64_t match; /* index of the strongest match in matches; SPSH_NONE_U64: no leak of that
                       kind */
    uint64_t of;    /* ordinal of the test utterance in the match: the utterance itself, or one with
                    equal samples */
} spsh__leak_evidence;

/* The result. Borrowed from the audit until spsh__audit_close. */
typedef struct spsh__leaks {
    const spsh__match *matches; /* matches across sides, each once, sorted by spsh__match_compare */
    uint64_t match_count;
    const uint8_t *masks;                /* per test utterance, in the order of the roster */
    const spsh__leak_evidence *evidence; /* test_utterance_count x SPSH_LEAK_COUNT */
    const spsh__leak_cell *cells;        /* train_count x test_count, row by row */
    const spsh__leak_cell *totals;       /* per test split */
} spsh__leaks;

typedef struct spsh__audit spsh__audit;

spsh_status spsh__audit_open(const spsh__audit_roster *roster, spsh__audit **ret_audit,
                             spsh_error *err);
/* Return a sink for matches of all tiers, in any order. */
spsh__match_sink spsh__audit_sink(spsh__audit *audit);
/* Count the leaks. Call it once, after the last match. */
spsh_status spsh__audit_count(spsh__audit *audit, spsh__leaks *ret_leaks, spsh_error *err);
void spsh__audit_close(spsh__audit *audit);

/* Return the number of a test utterance in the roster, or SPSH_NONE_U64 for another utterance. */
uint64_t spsh__audit_test_number(const spsh__audit_roster *roster, uint64_t ordinal);

#endif
