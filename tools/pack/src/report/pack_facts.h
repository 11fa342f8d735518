/* pack_facts.h: the outcome of a pack, gathered once for all reports: contents of the dataset,
 * outcome of the rows, loudness, and warnings for a person.
 *
 * Everything here is a pure function of input and options: no times, no paths of the machine.
 */
#ifndef SPSH_PACK_FACTS_H
#define SPSH_PACK_FACTS_H

#include "plan/pack_plan.h"
#include "unit/unit.h"

#define SPSH__PERCENTILES   7U
#define SPSH__DURATION_BARS 50U /* the last bar holds all longer utterances */
#define SPSH__WARNINGS_MAX  16U
#define SPSH__WARNING_BYTES 720U

extern const unsigned spsh__percentiles[SPSH__PERCENTILES];

typedef struct spsh__amount {
    uint64_t utterances;
    double seconds;
} spsh__amount;

/** A domain or a split. */
typedef struct spsh__part {
    spsh_bytes name; /* empty: no name */
    size_t number;   /* number in the dataset, only while facts are gathered */
    spsh__amount all;
    spsh__amount copies;  /* audio stored for an earlier utterance, */
    uint64_t from_others; /* copies whose audio is stored for another domain (or split) */
} spsh__part;

typedef struct spsh__fact_parts {
    spsh__part *items; /* longest first, then by name */
    size_t count;
} spsh__fact_parts;

/** The utterances of one domain in one split. */
typedef struct spsh__fact_cell {
    size_t domain, split; /* indices of the parts */
    spsh__amount all;
} spsh__fact_cell;

typedef struct spsh__durations {
    double min_seconds, max_seconds;
    double percentiles[SPSH__PERCENTILES]; /* precision: 1 ms up to a minute, then 1 s */
    double bar_seconds;
    size_t bar_count;
    bool last_is_open; /* the last bar holds all longer utterances */
    uint64_t bars[SPSH__DURATION_BARS];
} spsh__durations;

typedef struct spsh__facts {
    uint8_t dataset_id[16];
    spsh__builder options; /* JSON */
    spsh__sources sources;
    spsh__source_tally *tallies; /* by source */
    spsh__source_rows rows;      /* sum of all sources */
    spsh__source_tally tally;    /* sum of all sources */
    spsh__published_found published;
    spsh__pack_counts counts;
    spsh__reject_counts rejects;
    spsh__examples examples;
    spsh__level_counts levels; /* without recordings: not measured */
    bool has_dataset;          /* true if the fields below are set */
    spsh_dataset_info info;
    spsh__amount all;
    spsh__amount copies;
    spsh__fact_parts domains, splits;
    spsh__fact_cell *cells; /* sorted by domain, then split */
    size_t cell_count;
    spsh_pack_kind *kinds; /* longest first */
    size_t kind_count;
    spsh__durations durations;
    char warnings[SPSH__WARNINGS_MAX][SPSH__WARNING_BYTES];
    size_t warning_count;
    spsh__builder names; /* names of the parts */
} spsh__facts;

/**
 * Gather the facts. facts must hold the examples already.
 *
 * @param plan     its sources and options are moved into facts
 * @param dataset  the published dataset, or NULL
 */
SPSH_NODISCARD spsh_status spsh__facts_gather(const spsh__pack_result *result, spsh__plan *plan,
                                              spsh__packed *packed, const spsh_dataset *dataset,
                                              spsh__facts *facts, spsh_error *err);

void spsh__facts_free(spsh__facts *facts);

#endif
