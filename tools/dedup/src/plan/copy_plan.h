/* copy_plan.h: a plan of deduplication as a file: JSON lines, sealed by a hash of all of them.
 *
 *     {"schema":"speechshard.copy-plan/1","type":"plan","datasets":[...],...}
 *     {"type":"pair","pair":0,...}                 what was found, and how it is proven
 *     {"type":"cluster","cluster":0,...}           then its members
 *     {"type":"member","cluster":0,...}
 *     {"type":"boilerplate",...}
 *     {"end":"<XXH3-128 of everything before this line>"}
 *
 * docs/DEDUPE.md has every member of every line. A plan is a pure function of the datasets and the
 * options; nothing of a run (time, threads, memory) is in it.
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
    const char *const *splits; /* of each dataset of the set: with commas, sorted; NULL: all */
    bool speed_grid, confirm;
} spsh__copy_plan_options;

/* Replaces what is at path, by the write protocol. */
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
    uint64_t first_drop, drop_count; /* in the plan's drops */
} spsh__copy_plan_source;

typedef struct spsh__plan_drop {
    spsh_bytes id;
    size_t kept_dataset;
    spsh_bytes kept_id;
    spsh_copy_tier tier; /* of the proof */
    spsh_copy_class kind;
} spsh__plan_drop;

/* Reads and checks the whole: hash, schema, each line. What is wrong is told with its line. A plan
 * that drops what may not be dropped is refused. Memory: what is dropped. */
spsh_status spsh__copy_plan_open(const spsh_io *io, const char *path, spsh__copy_plan **ret_plan,
                                 spsh_error *err);
/* The same from anywhere; size_bytes of it. */
spsh_status spsh__copy_plan_parse(const spsh__text_input *input, uint64_t size_bytes,
                                  spsh__copy_plan **ret_plan, spsh_error *err);
void spsh__copy_plan_free(spsh__copy_plan *plan);

const uint8_t *spsh__copy_plan_hash(const spsh__copy_plan *plan); /* 16 bytes */
size_t spsh__copy_plan_dataset_count(const spsh__copy_plan *plan);
/* Borrowed until free. */
const spsh__copy_plan_source *spsh__copy_plan_dataset(const spsh__copy_plan *plan, size_t dataset);
spsh__plan_drop spsh__copy_plan_drop(const spsh__copy_plan *plan, uint64_t number);

#endif
