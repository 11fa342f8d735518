/* copy_report.h: the HTML pages of a plan and of an audit, made from facts.
 *
 * A page is one file (page.h). Its bytes are a pure function of the facts. Text from a corpus is
 * untrusted, so it is escaped (svg.h).
 */
#ifndef SPSH_DEDUP_COPY_REPORT_H
#define SPSH_DEDUP_COPY_REPORT_H

#include "common/byte_builder.h"
#include "common/json_out.h"
#include "copies/clusters.h"
#include "copies/copies.h"
#include "text/text_join.h"

#define SPSH__HISTOGRAM_BARS 50

/* Facts that plans and audits share. */
typedef struct spsh__copy_facts {
    const spsh__print_set *set;
    const spsh__copies_facts *copies;
    const spsh__align_limits *limits;
    const char *command; /* command line as typed */
    const char *mode;    /* search mode: "mild", "deep", "audit", "exact" */
    uint64_t match_count;
    uint64_t by_tier_class[SPSH_TIER_COUNT][SPSH_COPY_CLASS_COUNT];
    /* Histograms of acoustic matches (same) and of rejected candidates (other). Bars cover 0 to 0.5
     * for ber and 0 to 1 for ncc.
     */
    uint64_t ber_same[SPSH__HISTOGRAM_BARS], ber_other[SPSH__HISTOGRAM_BARS];
    uint64_t ncc_same[SPSH__HISTOGRAM_BARS], ncc_other[SPSH__HISTOGRAM_BARS];
} spsh__copy_facts;

/* Write the limits of the verdicts as members of the innermost open object. */
void spsh__limits_put(spsh_json *json, const spsh__align_limits *limits);

/* Count a match in by_tier_class and in the histograms. */
void spsh__copy_facts_count(spsh__copy_facts *facts, const spsh__match *match);

typedef struct spsh__plan_facts {
    spsh__copy_facts common;
    const spsh__match *matches; /* common.match_count items; the indices of clusters->checked
                                   follow */
    const spsh__match_list *short_pairs; /* clips that are too short to prove (tiny_pairs.h) */
    const spsh__clusters *clusters;
    const spsh__policy *policy;
    uint64_t dropped_count, dropped_bytes;
    double dropped_seconds, total_seconds;
} spsh__plan_facts;

/* Return the match with the index that a member gives, or NULL for SPSH_NONE_U64. */
const spsh__match *spsh__plan_match(const spsh__plan_facts *facts, uint64_t number);

/* A cell of the matrix train split (row) x test split (column). */
typedef struct spsh__leak_cell {
    uint64_t utterances[SPSH_LEAK_COUNT]; /* test utterances with a leak from the train split, per
                                             kind */
    double seconds[SPSH_LEAK_COUNT];
} spsh__leak_cell;

typedef struct spsh__leak_split {
    char name[128]; /* "corpus.spsh: train-clean-100" */
    uint64_t utterances;
    double seconds;
} spsh__leak_split;

/* Write the page of a plan. Pairs get pictures (pair_view.h), at most 40 per page. If audio can no
 * longer be read, only its picture is missing. */
spsh_status spsh__plan_page(const spsh__plan_facts *facts, spsh__builder *out, spsh_error *err);

#endif
