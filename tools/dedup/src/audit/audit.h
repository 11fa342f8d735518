/* audit.h: matches in, leaks out: what each test utterance shares with train, and with which split.
 *
 *     spsh__audit_open(&roster, &audit, err);
 *     spsh__copies_find(set, &options, spsh__audit_sink(audit), &facts, err);
 *     spsh__text_join_run(set, &text_options, spsh__audit_sink(audit), &texts, err);
 *     spsh__audit_count(audit, &leaks, err);
 *     spsh__audit_close(audit);
 *
 * Detection lists each copy once: of utterances with equal samples the first one speaks for the
 * others. Here it is told of all of them: a copy of a test utterance leaks what that leaks, and
 * what matches a train utterance touches the splits of all its copies.
 *
 * A pure function of roster and matches: neither their order nor repetitions count.
 */
#ifndef SPSH_DEDUP_AUDIT_H
#define SPSH_DEDUP_AUDIT_H

#include "plan/copy_report.h"

/* Audio that is shared for less is no leak of kind segment. */
#define SPSH__LEAK_SEGMENT_MIN_S 1.0

/* Kinds whose utterances are in dirty.txt: what a model may have heard, or read. */
#define SPSH__LEAK_DIRTY_MASK                                                                      \
    (1U << SPSH_LEAK_RECORDING | 1U << SPSH_LEAK_SEGMENT | 1U << SPSH_LEAK_PERFORMANCE |           \
     1U << SPSH_LEAK_SENTENCE)

const char *spsh__leak_meaning(spsh_leak leak); /* "the same recording, or part of one" */

/* The kind that a match is evidence of; SPSH_LEAK_COUNT: none. */
spsh_leak spsh__leak_of(const spsh__match *match);

/* Negative: left is the stronger evidence; a total order. */
int spsh__leak_compare(const spsh__match *left, const spsh__match *right);

/* Wilson's interval of 95 % for a share of part in whole, as shares; 0 and 1 of nothing. */
void spsh__leak_interval(uint64_t part, uint64_t whole, double *ret_low, double *ret_high);

/* The two sides. Borrowed by the audit. */
typedef struct spsh__audit_roster {
    const spsh__leak_split *train, *test; /* splits */
    size_t train_count, test_count;
    const uint64_t *test_ordinals; /* utterances, ascending */
    const uint32_t *test_splits;   /* of each: its number in test */
    const double *test_seconds;
    uint64_t test_utterance_count;
    /* Number in train of an utterance's split; SPSH_NONE_U32: it is not of train. */
    spsh_status (*train_split_fn)(const void *user, uint64_t ordinal, uint32_t *ret_split,
                                  spsh_error *err);
    const void *user;
} spsh__audit_roster;

/* Why a test utterance has a bit in its mask. */
typedef struct spsh__leak_evidence {
    uint64_t match; /* the strongest one, in matches; SPSH_NONE_U64: no leak of that kind */
    uint64_t of; /* the test utterance (ordinal) that it is of: itself, or one with its samples */
} spsh__leak_evidence;

/* Borrowed from the audit until close. */
typedef struct spsh__leaks {
    const spsh__match *matches; /* across sides, sorted by spsh__match_compare, each once */
    uint64_t match_count;
    const uint8_t *masks;                /* of each test utterance, by the roster's order */
    const spsh__leak_evidence *evidence; /* test_utterance_count x SPSH_LEAK_COUNT */
    const spsh__leak_cell *cells;        /* train_count x test_count, row by row */
    const spsh__leak_cell *totals;       /* of each test split */
} spsh__leaks;

typedef struct spsh__audit spsh__audit;

spsh_status spsh__audit_open(const spsh__audit_roster *roster, spsh__audit **ret_audit,
                             spsh_error *err);
/* Takes matches of all tiers, in any order. */
spsh__match_sink spsh__audit_sink(spsh__audit *audit);
/* Once, after the last match. */
spsh_status spsh__audit_count(spsh__audit *audit, spsh__leaks *ret_leaks, spsh_error *err);
void spsh__audit_close(spsh__audit *audit);

/* Number of a test utterance in the roster; SPSH_NONE_U64: it is none. */
uint64_t spsh__audit_test_number(const spsh__audit_roster *roster, uint64_t ordinal);

#endif
