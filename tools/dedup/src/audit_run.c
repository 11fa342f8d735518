/* audit_run.c: one stage after the other; what a stage needs is freed with the run. */
#include "audit_run.h"

#include <stdlib.h>
#include <string.h>

#include "speechshard/io.h"

#include "common/hash.h"
#include "set/scaled_keys.h"
#include "set/source_prints.h"
#include "speechshard/inside.h"
#include "work_space.h"

enum {
    MATCHES_MAX = 3, /* of an utterance, kind of text or name, and train split */
    ALIAS_BYTES_MAX = 1 << 30,
};

/* ---- segments ---- */

static spsh_status make_segments(const spsh__audit_options *options, const volatile bool *stop,
                                 spsh_error *err)
{
    const spsh__fingerprint_run_options run = {
        .io = options->io,
        .threads = options->threads,
        .part_count = 1,
        .progress_fn = options->progress_fn,
        .user = options->user,
    };
    return spsh__source_prints_make(options->sources->items, options->sources->count, &run, stop,
                                    err);
}

/* ---- matches ---- */

uint64_t spsh__audit_space(const spsh__audit_options *options, uint64_t train_keys,
                           uint64_t test_frames)
{
    /* Keys are joined at other speeds than train's own alone; else a table in memory does. */
    return options->speed_grid
               ? spsh__key_join_space(SPSH__JOIN_AUDIT, train_keys * (SPSH__SCALE_COUNT - 1),
                                      test_frames, options->memory_bytes)
               : 0;
}

/* A test print has a key at each frame at most. */
static spsh_status check_space(const spsh__audit_options *options, const spsh__print_set *set,
                               spsh_error *err)
{
    uint64_t train_keys = 0;
    uint64_t test_frames = 0;
    for (uint64_t i = 0; i < spsh__print_set_print_count(set); i++) {
        spsh__set_print print;
        const spsh_status rc = spsh__print_set_print(set, i, &print, err);
        if (rc != SPSH_OK)
            return rc;
        const spsh_side side = spsh__print_set_side(set, print.utterance);
        train_keys += side == SPSH_SIDE_TRAIN ? print.key_count : 0;
        test_frames += side == SPSH_SIDE_TEST ? print.frame_count : 0;
    }
    const uint64_t need = spsh__audit_space(options, train_keys, test_frames);
    if (options->space_fn != NULL)
        options->space_fn(options->user, need, options->work_path);
    return spsh__work_space_check(options->work_path, need, err);
}

static spsh_status find_copies(const spsh__audit_options *options, const volatile bool *stop,
                               spsh__audit_run *run, spsh_error *err)
{
    const spsh__copies_options copies = {
        .io = options->io,
        .work_path = options->work_path,
        .memory_bytes = options->memory_bytes,
        .threads = options->threads,
        .mode = SPSH__JOIN_AUDIT,
        .speed_grid = options->speed_grid,
        .part_count = 1,
        .limits = &spsh__align_limits_default,
        .progress_fn = options->progress_fn,
        .user = options->user,
    };
    return spsh__copies_find(run->set, &copies, stop, spsh__audit_sink(run->audit), &run->copies,
                             err);
}

static spsh_status find_texts(const spsh__audit_options *options, const volatile bool *stop,
                              spsh__audit_run *run, spsh_error *err)
{
    const spsh__text_join_options texts = {
        .profile = options->profile,
        .alias_path = options->alias_path,
        .matches_max = MATCHES_MAX,
        .memory_bytes = options->memory_bytes,
        .threads = options->threads,
        .stop = stop,
        .progress_fn = options->progress_fn,
        .user = options->user,
    };
    return spsh__text_join_run(run->set, &texts, spsh__audit_sink(run->audit), &run->texts, err);
}

/* ---- facts ---- */

static void gather(const spsh__audit_options *options, spsh__audit_run *run)
{
    const spsh__audit_roster *roster = &run->sides->roster;
    spsh__audit_facts *facts = &run->facts;
    /* What depends on the machine is no fact of the audit. */
    run->copies.join.spilled_bytes = 0;
    facts->common.set = run->set;
    facts->common.copies = &run->copies;
    facts->common.limits = &spsh__align_limits_default;
    facts->common.command = options->command;
    facts->common.mode = "audit";
    facts->common.match_count = run->leaks.match_count;
    for (uint64_t i = 0; i < run->leaks.match_count; i++)
        spsh__copy_facts_count(&facts->common, &run->leaks.matches[i]);
    facts->matches = run->leaks.matches;
    facts->texts = &run->texts;
    facts->profile = options->profile;
    facts->train = roster->train;
    facts->test = roster->test;
    facts->train_count = roster->train_count;
    facts->test_count = roster->test_count;
    facts->cells = run->leaks.cells;
    facts->totals = run->leaks.totals;
    facts->masks = run->leaks.masks;
    facts->test_ordinals = roster->test_ordinals;
    facts->test_utterance_count = roster->test_utterance_count;
    memcpy(facts->fail_limits, options->fail_limits, sizeof(facts->fail_limits));
    facts->is_failed = spsh__audit_failures(facts, NULL) > 0;
    run->report.facts = facts;
    run->report.sides = run->sides;
    run->report.leaks = &run->leaks;
    run->report.inputs = run->inputs;
    run->report.io = options->io;
}

static spsh_status hash_aliases(const spsh__audit_options *options, spsh__audit_report *report,
                                spsh_error *err)
{
    uint8_t *data = NULL;
    size_t bytes = 0;
    if (options->alias_path == NULL)
        return SPSH_OK;
    const spsh_status rc = spsh_io_read_file(options->io, options->alias_path, ALIAS_BYTES_MAX,
                                             NULL, &data, &bytes, err);
    if (rc != SPSH_OK)
        return rc;
    report->has_aliases = true;
    spsh__pack_hash128((spsh_bytes){data, bytes}, report->alias_hash);
    free(data);
    return SPSH_OK;
}

/* ---- the whole ---- */

static spsh_status open_sides(const spsh__audit_options *options, spsh__audit_run *run,
                              spsh_error *err)
{
    spsh_status rc = spsh__print_set_open(options->sources->items, options->sources->count,
                                          options->io, &run->set, err);
    if (rc == SPSH_OK)
        rc = spsh__audit_sides_make(run->set, &run->sides, err);
    if (rc == SPSH_OK)
        rc = spsh__audit_open(&run->sides->roster, &run->audit, err);
    return rc;
}

spsh_status spsh__audit_run_all(const spsh__audit_options *options, const volatile bool *stop,
                                spsh__audit_run *run, spsh_error *err)
{
    spsh_status rc = spsh__audit_folder_check(options->folder, options->io, err);
    if (rc == SPSH_OK)
        rc = hash_aliases(options, &run->report, err);
    if (rc == SPSH_OK)
        rc = spsh__audit_inputs(options->sources->items, options->sources->count, options->io,
                                &run->inputs, err);
    if (rc == SPSH_OK)
        rc = make_segments(options, stop, err);
    if (rc == SPSH_OK)
        rc = open_sides(options, run, err);
    if (rc == SPSH_OK)
        rc = check_space(options, run->set, err);
    if (rc == SPSH_OK)
        rc = find_copies(options, stop, run, err);
    if (rc == SPSH_OK)
        rc = find_texts(options, stop, run, err);
    if (rc == SPSH_OK)
        rc = spsh__audit_count(run->audit, &run->leaks, err);
    if (rc != SPSH_OK)
        return rc;
    gather(options, run);
    rc = spsh__audit_files_write(options->folder, &run->report, err);
    if (rc == SPSH_OK)
        rc = spsh__copies_remove(options->work_path, options->io, err);
    return rc;
}

void spsh__audit_run_free(spsh__audit_run *run)
{
    spsh__audit_close(run->audit);
    spsh__audit_sides_free(run->sides);
    spsh__print_set_close(run->set);
    free(run->texts.tests);
    free(run->inputs);
    *run = (spsh__audit_run){0};
}
