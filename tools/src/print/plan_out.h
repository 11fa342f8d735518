/* plan_out.h: what an epoch of a plan will be like, as tables and as JSON. */
#ifndef SPSH_PLAN_OUT_H
#define SPSH_PLAN_OUT_H

#include "cli/plan_words.h"
#include "common/json_out.h"

/** A plan, and what was found by going through its windows. */
typedef struct spsh__plan_summary {
    const char *label; /* the words of --compare, or NULL; borrowed, as the next two */
    const spsh__plan_words *words;
    const spsh__datasets *datasets;
    spsh_plan *plan;
    uint64_t epoch;
    spsh_epoch_report report;
    spsh_domain_report *domains; /* as many as the plan has */
    double seconds;              /* that opening and going through it took */
    /* of the epoch, from the above; estimated where not all windows were looked at */
    bool estimated;
    uint64_t batch_count, step_count;
    uint64_t step_batches;               /* of a full step */
    uint64_t missing_batches;            /* of the last step */
    uint64_t dropped_batches;            /* under --drop-last */
    uint64_t int16_bytes, float32_bytes; /* of the largest batch: ragged, padded */
} spsh__plan_summary;

/** Each returns SPSH_EXIT_DONE or reports a failure. */
int spsh__plan_print(const spsh__plan_summary *summary);
int spsh__plan_print_compared(const spsh__plan_summary *summaries, size_t count);

/** Members of the object that is open. */
spsh_status spsh__plan_put(spsh_json *json, const spsh__plan_summary *summary, spsh_error *err);

#endif
