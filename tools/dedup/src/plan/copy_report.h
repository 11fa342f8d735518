/* copy_report.h: the pages that people look at: of a plan, and of an audit. Facts in, HTML out.
 *
 * A page is one file (page.h). Its bytes are a pure function of the facts. Texts of corpora are
 * hostile and escaped (svg.h).
 */
#ifndef SPSH_DEDUP_COPY_REPORT_H
#define SPSH_DEDUP_COPY_REPORT_H

#include "common/byte_builder.h"
#include "copies/clusters.h"
#include "copies/copies.h"
#include "text/text_join.h"

#define SPSH__HISTOGRAM_BARS 50

/* What plan and audit have in common. */
typedef struct spsh__copy_facts {
    const spsh__print_set *set;
    const spsh__copies_facts *copies;
    const spsh__align_limits *limits;
    const char *command; /* as it was typed */
    const char *mode;    /* "mild", "deep", "audit", "exact" */
    uint64_t match_count;
    uint64_t by_tier_class[SPSH__TIER_COUNT][SPSH__ALIGN_CLASS_COUNT];
    /* of acoustic matches and of candidates that are none: bars from 0 to 0.5 (ber), 0 to 1 (ncc)
     */
    uint64_t ber_same[SPSH__HISTOGRAM_BARS], ber_other[SPSH__HISTOGRAM_BARS];
    uint64_t ncc_same[SPSH__HISTOGRAM_BARS], ncc_other[SPSH__HISTOGRAM_BARS];
} spsh__copy_facts;

/* Puts a match into by_tier_class and the histograms. */
void spsh__copy_facts_count(spsh__copy_facts *facts, const spsh__match *match);

typedef struct spsh__plan_facts {
    spsh__copy_facts common;
    const spsh__match *matches; /* common.match_count; clusters->checked go on after them */
    const spsh__clusters *clusters;
    const spsh__policy *policy;
    uint64_t dropped_count, dropped_bytes;
    double dropped_seconds, total_seconds;
} spsh__plan_facts;

/* The match that a member's number means; NULL: none. */
const spsh__match *spsh__plan_match(const spsh__plan_facts *facts, uint64_t number);

/* What a test utterance shares with train, strongest first; bit i of an utterance's mask. */
#define SPSH_LEAK_MAP(X)                                                                           \
    X(RECORDING, "recording", "the same recording, or part of one")                                \
    X(SEGMENT, "segment", "at least a second of the same audio")                                   \
    X(PERFORMANCE, "performance", "the same performance by another channel, speed or codec")       \
    X(SENTENCE, "sentence", "the same sentence")                                                   \
    X(SENTENCE_NEAR, "sentence_near", "nearly the same sentence, or most of its words in a row")   \
    X(DOCUMENT, "document", "the same book or document")                                           \
    X(SOURCE, "source", "the same source")                                                         \
    X(SPEAKER, "speaker", "the same speaker")

typedef enum spsh__leak {
#define SPSH_X(name_, text_, meaning_) SPSH__LEAK_##name_,
    SPSH_LEAK_MAP(SPSH_X)
#undef SPSH_X
        SPSH__LEAK_COUNT
} spsh__leak;

/* Train split (row) x test split (column). */
typedef struct spsh__leak_cell {
    uint64_t utterances[SPSH__LEAK_COUNT]; /* of the test split, touched by that train split */
    double seconds[SPSH__LEAK_COUNT];
} spsh__leak_cell;

typedef struct spsh__leak_split {
    char name[128]; /* "corpus.spsh: train-clean-100" */
    uint64_t utterances;
    double seconds;
} spsh__leak_split;

typedef struct spsh__audit_facts {
    spsh__copy_facts common;
    const spsh__match *matches; /* sorted; all tiers */
    const spsh__text_facts *texts;
    spsh__text_profile profile;
    const spsh__leak_split *train, *test;
    size_t train_count, test_count;
    const spsh__leak_cell *cells;  /* train_count x test_count, row by row */
    const spsh__leak_cell *totals; /* a test split: against all of train */
    const uint8_t *masks;          /* of each test utterance, by order of ordinals */
    const uint64_t *test_ordinals;
    uint64_t test_utterance_count;
    double fail_limits[SPSH__LEAK_COUNT]; /* share of test utterances allowed; > 1: any */
    bool is_failed;
} spsh__audit_facts;

/* Shown pairs get their pictures (pair_view.h), at most 40 a page; audio that cannot be read any
 * more costs a picture, not the page. */
spsh_status spsh__plan_page(const spsh__plan_facts *facts, spsh__builder *out, spsh_error *err);

#endif
