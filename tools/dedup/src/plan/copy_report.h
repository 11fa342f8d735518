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
    uint64_t by_tier_class[SPSH_TIER_COUNT][SPSH_COPY_CLASS_COUNT];
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

/* Train split (row) x test split (column). */
typedef struct spsh__leak_cell {
    uint64_t utterances[SPSH_LEAK_COUNT]; /* of the test split, touched by that train split */
    double seconds[SPSH_LEAK_COUNT];
} spsh__leak_cell;

typedef struct spsh__leak_split {
    char name[128]; /* "corpus.spsh: train-clean-100" */
    uint64_t utterances;
    double seconds;
} spsh__leak_split;

/* Shown pairs get their pictures (pair_view.h), at most 40 a page; audio that cannot be read any
 * more costs a picture, not the page. */
spsh_status spsh__plan_page(const spsh__plan_facts *facts, spsh__builder *out, spsh_error *err);

#endif
