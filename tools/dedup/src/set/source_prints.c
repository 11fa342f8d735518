/* source_prints.c: process one source after another, and skip paths that an earlier source has. */
#include "source_prints.h"

#include <string.h>

#include "split_names.h"

#define MEASURE_S 2.0
#define KEYS_HZ   4.5 /* stored keys per second of speech */

static bool is_repeated(const spsh_dedup_source *sources, size_t number)
{
    for (size_t i = 0; i < number; i++)
        if (strcmp(sources[i].path, sources[number].path) == 0)
            return true;
    return false;
}

static spsh_status check_all(const spsh_dedup_source *sources, size_t source_count,
                             const spsh_io *io, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < source_count && rc == SPSH_OK; i++)
        rc = spsh__print_source_check(&sources[i], io, err);
    return rc;
}

spsh_status spsh__source_prints_make(const spsh_dedup_source *sources, size_t source_count,
                                     const spsh__fingerprint_run_options *options, spsh_error *err)
{
    spsh_fingerprint_facts facts;
    spsh_status rc = check_all(sources, source_count, options->io, err);
    for (size_t i = 0; i < source_count && rc == SPSH_OK; i++)
        if (!is_repeated(sources, i))
            rc = spsh__fingerprint_run(sources[i].path, options, &facts, err);
    return rc;
}

/* ---- estimates ---- */

/* Return the side of a split of the dataset of sources[number]. No two sources put a split on
 * different sides. */
static spsh_side side_of(const spsh_dedup_source *sources, size_t source_count, size_t number,
                         spsh_bytes split)
{
    for (size_t i = number; i < source_count; i++)
        if (strcmp(sources[i].path, sources[number].path) == 0 &&
            (sources[i].splits == NULL || spsh__split_names_has(sources[i].splits, split)))
            return sources[i].side;
    return SPSH_SIDE_NONE;
}

static spsh_status add_audio(const spsh_dedup_source *sources, size_t source_count, size_t number,
                             const spsh_io *io, spsh_dedup_cost *all, spsh_error *err)
{
    spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
    spsh_dataset *dataset = NULL;
    opt.io = io;
    spsh_status rc = spsh_dataset_open(sources[number].path, &opt, &dataset, err);
    if (rc != SPSH_OK)
        return rc;
    for (uint64_t i = 0; i < spsh_dataset_group_count(dataset) && rc == SPSH_OK; i++) {
        spsh_dataset_group group;
        rc = spsh_dataset_group_get(dataset, i, &group, err);
        if (rc != SPSH_OK || group.sample_rate_hz == 0)
            continue;
        const spsh_side side = side_of(sources, source_count, number, group.split);
        const double seconds = (double)group.samples / group.sample_rate_hz;
        all->train_seconds += side == SPSH_SIDE_TRAIN ? seconds : 0;
        all->test_seconds += side == SPSH_SIDE_TEST ? seconds : 0;
    }
    spsh_dataset_close(dataset);
    return rc;
}

spsh_status spsh__source_prints_estimate(const spsh_dedup_source *sources, size_t source_count,
                                         const spsh_io *io, spsh_dedup_cost *ret_cost,
                                         spsh_error *err)
{
    const spsh__fingerprint_run_options run = {.io = io, .part_count = 1};
    spsh_dedup_cost all = {0};
    spsh_status rc = check_all(sources, source_count, io, err);
    for (size_t i = 0; i < source_count && rc == SPSH_OK; i++) {
        spsh_fingerprint_cost one = {0};
        if (is_repeated(sources, i))
            continue;
        rc = add_audio(sources, source_count, i, io, &all, err);
        if (rc == SPSH_OK)
            rc = spsh__fingerprint_estimate_make(sources[i].path, &run, MEASURE_S, &one, err);
        all.fingerprint_seconds += one.seconds;
        all.fingerprint_core_seconds += one.core_seconds;
        all.fingerprint_bytes += one.file_bytes;
    }
    all.key_count = (uint64_t)(all.train_seconds * KEYS_HZ);
    if (rc == SPSH_OK)
        *ret_cost = all;
    return rc;
}
