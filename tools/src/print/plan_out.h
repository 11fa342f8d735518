/* plan_out.h: print the properties of an epoch of a plan, as tables and as JSON. */
#ifndef SPSH_PLAN_OUT_H
#define SPSH_PLAN_OUT_H

#include "cli/plan_words.h"
#include "common/json_out.h"

/** A plan, and the results of reading its windows. */
typedef struct spsh__plan_summary {
    const char *label; /* the options of --compare, or NULL; borrowed, like the next two */
    const spsh__plan_words *words;
    const spsh__datasets *datasets;
    spsh_plan *plan;
    uint64_t epoch;
    spsh_epoch_report report;
    spsh_domain_report *domains; /* one per domain of the plan */
    double seconds;              /* time to open and read the plan */
    /* derived for the epoch; estimated if not all windows were read */
    bool estimated;
    uint64_t batch_count, step_count;
    uint64_t step_batches;               /* batches per full step */
    uint64_t missing_batches;            /* batches missing in the last step */
    uint64_t dropped_batches;            /* dropped by --drop-last */
    uint64_t int16_bytes, float32_bytes; /* size of the largest batch: ragged, padded */
} spsh__plan_summary;

/** Each returns SPSH_EXIT_DONE or reports a failure. */
int spsh__plan_print(const spsh__plan_summary *summary);
int spsh__plan_print_compared(const spsh__plan_summary *summaries, size_t count);

/** Add members to the open object. */
spsh_status spsh__plan_put(spsh_json *json, const spsh__plan_summary *summary, spsh_error *err);

#endif
