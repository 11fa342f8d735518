/* audit_run.c: one stage after the other; what a stage needs is freed with the run. */
#include "audit_run.h"

#include <stdlib.h>
#include <string.h>

#include "speechshard/io.h"

#include "dedup/fail.h"
#include "fingerprint_run.h"
#include "hash.h"
#include "scaled_keys.h"
#include "work_space.h"

enum {
    MATCHES_MAX = 3, /* of an utterance, kind of text or name, and train split */
    ALIAS_BYTES_MAX = 1 << 30,
};

/* ---- segments ---- */

/* fingerprint_run's progress has no stage. */
static void on_fingerprint(void *user, uint64_t done, uint64_t total)
{
    const spsh__audit_options *options = (const spsh__audit_options *)user;
    options->progress_fn(options->user, "fingerprint", done, total);
}

static spsh_status make_segments(const spsh__audit_options *options, const volatile bool *stop,
                                 spsh_error *err)
{
    spsh__audit_options copy = *options;
    const spsh__fingerprint_run_options run = {
        .io = options->io,
        .threads = options->threads,
        .part_count = 1,
        .progress_fn = options->progress_fn != NULL ? on_fingerprint : NULL,
        .user = &copy,
    };
    for (size_t i = 0; i < options->sources->count; i++) {
        const char *path = options->sources->items[i].path;
        spsh__fingerprint_run_facts facts;
        bool is_done = false;
        for (size_t k = 0; k < i && !is_done; k++)
            is_done = strcmp(options->sources->items[k].path, path) == 0;
        const spsh_status rc =
            is_done ? SPSH_OK : spsh__fingerprint_run(path, &run, stop, &facts, err);
        if (rc != SPSH_OK)
            return rc;
    }
    return SPSH_OK;
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
        const spsh__side side = spsh__print_set_side(set, print.utterance);
        train_keys += side == SPSH__SIDE_TRAIN ? print.key_count : 0;
        test_frames += side == SPSH__SIDE_TEST ? print.frame_count : 0;
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

static unsigned bar_of(double value, double top)
{
    const double bar = value / top * SPSH__HISTOGRAM_BARS;
    if (!(bar > 0))
        return 0;
    return bar < SPSH__HISTOGRAM_BARS ? (unsigned)bar : SPSH__HISTOGRAM_BARS - 1;
}

/* What the page shows of the matches. */
static void count_matches(const spsh__leaks *leaks, spsh__copy_facts *facts)
{
    facts->match_count = leaks->match_count;
    for (uint64_t i = 0; i < leaks->match_count; i++) {
        const spsh__match *match = &leaks->matches[i];
        const double ncc = match->ncc < 0 ? -match->ncc : match->ncc;
        const bool is_same = match->kind == SPSH__ALIGN_SAME_RECORDING ||
                             match->kind == SPSH__ALIGN_CONTAINED ||
                             match->kind == SPSH__ALIGN_SHARED_SEGMENT;
        facts->by_tier_class[match->tier][match->kind]++;
        if (match->tier != SPSH__TIER_ACOUSTIC && match->tier != SPSH__TIER_SCALED)
            continue;
        (is_same ? facts->ber_same : facts->ber_other)[bar_of(match->ber, 0.5)]++;
        (is_same ? facts->ncc_same : facts->ncc_other)[bar_of(ncc, 1)]++;
    }
}

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
    count_matches(&run->leaks, &facts->common);
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
