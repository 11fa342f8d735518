/* print_set_kit.h: a dataset's fingerprints, made and opened. Every failure stops the test. */
#ifndef PRINT_SET_KIT_H
#define PRINT_SET_KIT_H

#include "segment/fingerprint_run.h"
#include "set/print_set.h"
#include "spsh_test.h"

static inline void make_segments(const char *path)
{
    const spsh__fingerprint_run_options options = {.threads = 2, .part_count = 1};
    spsh_fingerprint_facts facts;
    spsh_error error = SPSH_ERROR_INIT;
    if (spsh__fingerprint_run(path, &options, &facts, &error) != SPSH_OK)
        fprintf(stderr, "%s\n", error.message);
    REQUIRE(error.status == SPSH_OK);
}

/* All of one dataset, on one side; its segments must be there. */
static inline spsh__print_set *open_print_set(const char *path)
{
    const spsh_dedup_source source = {path, NULL, SPSH_SIDE_TRAIN};
    spsh__print_set *set = NULL;
    spsh_error error = SPSH_ERROR_INIT;
    if (spsh__print_set_open(&source, 1, NULL, &set, &error) != SPSH_OK)
        fprintf(stderr, "%s\n", error.message);
    REQUIRE(set != NULL);
    return set;
}

#endif
