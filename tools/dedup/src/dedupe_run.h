/* dedupe_run.h: deduplication from the operands to the plan, in order:
 *
 *     segments that are missing -> the set -> copies -> clusters -> plan, page
 *
 * What is found is kept in a work directory (copies.h), so that a run that was stopped goes on.
 */
#ifndef SPSH_DEDUPE_RUN_H
#define SPSH_DEDUPE_RUN_H

#include "plan/copy_plan.h"
#include "set/dataset_splits.h"

typedef struct spsh__dedupe_options {
    const spsh_dedup_sources *sources;
    const char *plan_path; /* NULL: no plan is written */
    const char *html_path; /* NULL: no page */
    const char *work_path;
    const char *command; /* for the page */
    spsh__join_mode mode;
    bool exact_only, speed_grid, confirm;
    spsh__policy policy;       /* prefer: from the two below */
    const char *const *prefer; /* datasets by their paths */
    size_t prefer_count;
    uint64_t memory_bytes;
    uint32_t threads;
    uint64_t part, part_count; /* 0 of 1: all */
    const spsh_io *io;
    void (*progress_fn)(void *user, const char *stage, uint64_t done, uint64_t total);
    /* Before anything long: what it will take. */
    void (*space_fn)(void *user, uint64_t temporary_bytes, const char *work_path);
    void *user;
} spsh__dedupe_options;

/* What may go, by the tier that proves it. */
typedef struct spsh__dedupe_sum {
    uint64_t utterances, bytes;
    double seconds;
} spsh__dedupe_sum;

typedef struct spsh__dedupe {
    spsh__print_set *set;
    spsh__copies_facts copies;
    spsh__match *matches;
    uint64_t match_count, match_capacity;
    spsh__clusters clusters;
    spsh__policy policy;
    spsh__plan_facts facts;
    spsh__dedupe_sum by_tier[SPSH_TIER_COUNT];
    uint64_t decisions[SPSH_DECISION_UNPROVEN + 1]; /* members */
    uint64_t key_count;
    uint8_t plan_hash[16];
} spsh__dedupe;

/**
 * @return SPSH_E_CANCELED when *stop was seen true; SPSH_E_END when other parts have to be run
 * first: nothing is written, run it again then; SPSH_E_NO_SPACE when the disk has too little.
 * Free in any case.
 */
spsh_status spsh__dedupe_run(const spsh__dedupe_options *options, const volatile bool *stop,
                             spsh__dedupe *dedupe, spsh_error *err);
void spsh__dedupe_free(spsh__dedupe *dedupe);

/* Temporary bytes for so many stored keys. */
uint64_t spsh__dedupe_space(const spsh__dedupe_options *options, uint64_t key_count);

#endif
