/* copy_plan.h: a deduplication plan as a file of JSON lines, sealed by a hash of all lines.
 *
 *     {"schema":"speechshard.copy-plan/1","type":"plan","datasets":[...],...}
 *     {"type":"pair","pair":0,...}                 a match and its proof
 *     {"type":"cluster","cluster":0,...}           followed by its members
 *     {"type":"member","cluster":0,...}
 *     {"type":"boilerplate",...}
 *     {"end":"<XXH3-128 of everything before this line>"}
 *
 * DEDUPE.md describes every member of every line. A plan is a pure function of the datasets
 * and the options. It does not depend on the run (time, threads, memory).
 */
#ifndef SPSH_DEDUP_COPY_PLAN_H
#define SPSH_DEDUP_COPY_PLAN_H

#include "common/row_reader.h"
#include "copy_report.h"

#define SPSH__COPY_PLAN_SCHEMA "speechshard.copy-plan/1"

/* ---- writing ---- */

typedef struct spsh__copy_plan_options {
    const spsh_io *io;
    const char *path;
    const char *const *splits; /* per dataset of the set: comma-separated splits, sorted; NULL:
                                  all */
    bool speed_grid, confirm;
} spsh__copy_plan_options;

/* Write the plan. Replaces an existing file at path atomically, by the write protocol. */
spsh_status spsh__copy_plan_write(const spsh__plan_facts *facts,
                                  const spsh__copy_plan_options *options, uint8_t ret_hash[16],
                                  spsh_error *err);

/* ---- reading ---- */

typedef struct spsh__copy_plan spsh__copy_plan;

typedef struct spsh__copy_plan_source {
    const char *path;
    uint8_t id[16];
    uint8_t index_hash[16];
    uint64_t generation;
    uint64_t first_drop, drop_count; /* range in the drops of the plan */
} spsh__copy_plan_source;

typedef struct spsh__plan_drop {
    spsh_bytes id;
    size_t kept_dataset;
    spsh_bytes kept_id;
    spsh_copy_tier tier; /* tier of the proof; kind is its class */
    spsh_copy_class kind;
} spsh__plan_drop;

/* Read and check the whole plan: hash, schema, and each line. An error names its line. A plan that
 * drops an utterance by a tier or class that does not allow a drop is rejected. Memory is
 * proportional to the dropped utterances. */
spsh_status spsh__copy_plan_open(const spsh_io *io, const char *path, spsh__copy_plan **ret_plan,
                                 spsh_error *err);
/* Read a plan of size_bytes bytes from any input, as spsh__copy_plan_open does. */
spsh_status spsh__copy_plan_parse(const spsh__text_input *input, uint64_t size_bytes,
                                  spsh__copy_plan **ret_plan, spsh_error *err);
void spsh__copy_plan_free(spsh__copy_plan *plan);

const uint8_t *spsh__copy_plan_hash(const spsh__copy_plan *plan); /* 16 bytes */
size_t spsh__copy_plan_dataset_count(const spsh__copy_plan *plan);
/* The results are borrowed until spsh__copy_plan_free. */
const spsh__copy_plan_source *spsh__copy_plan_dataset(const spsh__copy_plan *plan, size_t dataset);
spsh__plan_drop spsh__copy_plan_drop(const spsh__copy_plan *plan, uint64_t number);

#endif
