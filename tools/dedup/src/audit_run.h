/* audit_run.h: an audit from the operands to the report, in order:
 *
 *     segments that are missing -> the set -> copies -> texts and names -> leaks -> files
 *
 * Listening is kept in a work directory (copies.h), so that a run that was stopped goes on.
 */
#ifndef SPSH_AUDIT_RUN_H
#define SPSH_AUDIT_RUN_H

#include "audit/audit_files.h"
#include "audit/audit_statement.h"
#include "set/dataset_splits.h"

typedef struct spsh__audit_options {
    const spsh_dedup_sources *sources;
    const char *folder;
    const char *work_path;
    const char *alias_path;
    const char *command; /* for the report; what does not change the result is not in it */
    spsh_text_profile profile;
    double fail_limits[SPSH_LEAK_COUNT]; /* spsh__audit_facts */
    bool speed_grid;
    uint64_t memory_bytes;
    uint32_t threads;
    const spsh_io *io;
    void (*progress_fn)(void *user, const char *stage, uint64_t done, uint64_t total);
    /* Before anything long: what it will take. */
    void (*space_fn)(void *user, uint64_t temporary_bytes, const char *work_path);
    void *user;
} spsh__audit_options;

/* All that the report is of; freed with spsh__audit_run_free whatever came out. */
typedef struct spsh__audit_run {
    spsh__print_set *set;
    spsh__audit_sides *sides;
    spsh__audit *audit;
    spsh__copies_facts copies;
    spsh__text_facts texts;
    spsh__leaks leaks;
    spsh__audit_facts facts;
    spsh__audit_report report;
    char *inputs;
} spsh__audit_run;

/* Temporary bytes at most, for so many stored keys of train and frames of test. */
uint64_t spsh__audit_space(const spsh__audit_options *options, uint64_t train_keys,
                           uint64_t test_frames);

/* The folder is checked first and written last. SPSH_E_CANCELED when *stop was seen true;
 * SPSH_E_NO_SPACE when the disk has too little. */
spsh_status spsh__audit_run_all(const spsh__audit_options *options, const volatile bool *stop,
                                spsh__audit_run *run, spsh_error *err);
void spsh__audit_run_free(spsh__audit_run *run);

#endif
