/* pack_facts.h: what a pack came to, gathered once for all reports: what the dataset holds, what
 * became of the rows, how loud it is, and what a person should look at.
 *
 * Everything here is a pure function of input and options: no times, no paths of the machine.
 */
#ifndef SPSH_PACK_FACTS_H
#define SPSH_PACK_FACTS_H

#include "plan/pack_plan.h"
#include "unit/unit.h"

#define SPSH__PERCENTILES   7U
#define SPSH__DURATION_BARS 50U /* the last one: all that is longer */
#define SPSH__WARNINGS_MAX  16U
#define SPSH__WARNING_BYTES 720U

extern const unsigned spsh__percentiles[SPSH__PERCENTILES];

typedef struct spsh__amount {
    uint64_t utterances;
    double seconds;
} spsh__amount;

/** A domain or a split. */
typedef struct spsh__part {
    spsh_bytes name; /* empty: none */
    size_t number;   /* in the dataset, while facts are gathered */
    spsh__amount all;
    spsh__amount copies;  /* of audio that is stored for an earlier utterance, */
    uint64_t from_others; /* which is of another domain (or split) */
} spsh__part;

typedef struct spsh__fact_parts {
    spsh__part *items; /* the longest first, then by name */
    size_t count;
} spsh__fact_parts;

/** A domain's share of a split. */
typedef struct spsh__fact_cell {
    size_t domain, split; /* in the parts */
    spsh__amount all;
} spsh__fact_cell;

/** A kind of audio, as it is stored; all zero: kinds beyond the first hundreds. */
typedef struct spsh__kind {
    spsh_codec codec;
    uint32_t sample_rate_hz, channels;
    spsh__amount all;
} spsh__kind;

typedef struct spsh__durations {
    double min_seconds, max_seconds;
    double
        percentiles[SPSH__PERCENTILES]; /* to the millisecond up to a minute, then to the second */
    double bar_seconds;
    size_t bar_count;
    bool last_is_open; /* the last bar holds all that is longer */
    uint64_t bars[SPSH__DURATION_BARS];
} spsh__durations;

typedef struct spsh__facts {
    uint8_t dataset_id[16];
    spsh__builder options; /* JSON */
    spsh__sources sources;
    spsh__source_tally *tallies; /* by source */
    spsh__source_rows rows;      /* of all sources */
    spsh__source_tally tally;    /* of all sources */
    spsh__published_found published;
    spsh__pack_counts counts;
    spsh__reject_counts rejects;
    spsh__examples examples;
    spsh__level_counts levels; /* no recordings: not measured */
    bool has_dataset;          /* the rest is about it */
    spsh_dataset_info info;
    spsh__amount all;
    spsh__amount copies;
    spsh__fact_parts domains, splits;
    spsh__fact_cell *cells; /* by domain, then split */
    size_t cell_count;
    spsh__kind *kinds; /* the longest first */
    size_t kind_count;
    spsh__durations durations;
    char warnings[SPSH__WARNINGS_MAX][SPSH__WARNING_BYTES];
    size_t warning_count;
    spsh__builder names; /* of the parts */
} spsh__facts;

/**
 * Gather. facts holds the examples already.
 *
 * @param plan     its sources and options are taken
 * @param dataset  that was published, or NULL
 */
SPSH_NODISCARD spsh_status spsh__facts_gather(const spsh__pack_result *result, spsh__plan *plan,
                                              spsh__packed *packed, const spsh_dataset *dataset,
                                              spsh__facts *facts, spsh_error *err);

void spsh__facts_free(spsh__facts *facts);

#endif
