/* audit_run.c: an audit from the sources to the report, in order:
 *
 *     missing fingerprints -> the set -> copies -> texts and names -> leaks -> files
 *
 * The comparison is kept in a work directory (copies.h), so that a stopped run can be resumed.
 */
#include <stdlib.h>
#include <string.h>

#include "speechshard/io.h"
#include "speechshard/options.h"

#include "audit/audit_files.h"
#include "audit/audit_statement.h"
#include "common/hash.h"
#include "dedup_options.h"
#include "pair/pair_audio.h"
#include "set/dataset_splits.h"
#include "set/scaled_keys.h"
#include "set/source_prints.h"
#include "speechshard/inside.h"

#define FRAMES_HZ 62.5 /* fingerprint frames per second */

enum {
    MATCHES_MAX = 3, /* matches listed per utterance, kind of text or name, and train split */
    ALIAS_BYTES_MAX = 1 << 30,
};

/* One kind of leak in one test split, with its example. */
typedef struct spsh__leak_shown {
    spsh_audit_leak leak;
    spsh_audit_example example;
    spsh_copy_match match;
    uint8_t *ids; /* storage of the example's two ids */
} spsh__leak_shown;

struct spsh_audit {
    spsh__print_set *set;
    spsh__audit_sides *sides;
    spsh__audit *audit;
    spsh__copies_facts copies;
    spsh__text_facts texts;
    spsh__leaks leaks;
    spsh__audit_report report;
    char *inputs;
    /* public results */
    size_t split_count;
    spsh_audit_split *splits;
    spsh__leak_shown *shown; /* split_count x SPSH_LEAK_COUNT items */
    size_t warning_count;
    char warnings[SPSH__AUDIT_WARNINGS_MAX][SPSH__AUDIT_WARNING_BYTES];
};

typedef struct run {
    const spsh_dedup_sources *sources;
    spsh_audit_options options;
    spsh__call_watch watch;
    spsh_audit *a;
} run;

/* ---- segments ---- */

static spsh_status make_segments(run *r, spsh_error *err)
{
    const spsh__fingerprint_run_options make = {
        .io = r->options.io,
        .threads = r->options.threads,
        .part = r->options.part,
        .part_count = r->options.part_count,
        .watch = &r->watch,
    };
    return spsh__source_prints_make(r->sources->items, r->sources->count, &make, err);
}

/* ---- matches ---- */

static uint64_t space_for(const spsh_audit_options *options, uint64_t train_keys,
                          uint64_t test_frames)
{
    /* Keys are joined only at the other speeds. At the original speed, a table in memory is
     * enough. */
    return (options->flags & SPSH_AUDIT_SPEED_GRID) != 0
               ? spsh__key_join_space(SPSH__JOIN_AUDIT, train_keys * (SPSH__SCALE_COUNT - 1),
                                      test_frames, options->memory_bytes)
               : 0;
}

/* Check the disk space. A test print has at most one key per frame. */
static spsh_status check_space(const run *r, spsh_error *err)
{
    const spsh__print_set *set = r->a->set;
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
    const uint64_t need = space_for(&r->options, train_keys, test_frames);
    if (r->options.space_fn != NULL)
        r->options.space_fn(r->options.user, need);
    return spsh__work_space_check(r->options.work_path, need, err);
}

static spsh_status find_copies(run *r, spsh_error *err)
{
    const spsh__copies_options copies = {
        .io = r->options.io,
        .work_path = r->options.work_path,
        .memory_bytes = r->options.memory_bytes,
        .threads = r->options.threads,
        .mode = SPSH__JOIN_AUDIT,
        .speed_grid = (r->options.flags & SPSH_AUDIT_SPEED_GRID) != 0,
        .part = r->options.part,
        .part_count = r->options.part_count,
        .watch = &r->watch,
    };
    const spsh_status rc =
        spsh__copies_find(r->a->set, &copies, spsh__audit_sink(r->a->audit), &r->a->copies, err);
    if (r->options.part_count == 1 || (rc != SPSH_OK && rc != SPSH_E_END))
        return rc;
    /* Two parts that finish at once would remove each other's files of the report. */
    return SPSH_FAIL(err, SPSH_E_END,
                     "this part is complete; when all parts are, the same command without a part "
                     "writes the report");
}

static spsh_status find_texts(run *r, spsh_error *err)
{
    const spsh__text_join_options texts = {
        .profile = r->options.profile,
        .alias_path = r->options.alias_path,
        .matches_max = MATCHES_MAX,
        .memory_bytes = r->options.memory_bytes,
        .threads = r->options.threads,
        .watch = &r->watch,
    };
    return spsh__text_join_run(r->a->set, &texts, spsh__audit_sink(r->a->audit), &r->a->texts, err);
}

/* ---- facts ---- */

static void take_limits(const spsh_audit_options *options, double limits[SPSH_LEAK_COUNT])
{
    for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++) {
        if (options->limits == NULL)
            limits[k] = k == SPSH_LEAK_RECORDING || k == SPSH_LEAK_SEGMENT ? 0 : 2;
        else
            limits[k] = k < options->limit_count ? options->limits[k] : 2;
    }
}

static bool has_failure(const spsh__audit_facts *facts)
{
    for (size_t i = 0; i < facts->roster->test_count; i++) {
        for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++) {
            if (spsh__audit_is_failure(facts, i, (spsh_leak)k))
                return true;
        }
    }
    return false;
}

static void gather(const run *r)
{
    spsh_audit *a = r->a;
    spsh__audit_facts *facts = &a->report.facts;
    facts->common.set = a->set;
    facts->common.copies = &a->copies;
    facts->common.limits = &spsh__align_limits_default;
    facts->common.command = r->options.command;
    facts->common.mode = "audit";
    facts->common.match_count = a->leaks.match_count;
    for (uint64_t i = 0; i < a->leaks.match_count; i++)
        spsh__copy_facts_count(&facts->common, &a->leaks.matches[i]);
    facts->roster = &a->sides->roster;
    facts->leaks = &a->leaks;
    facts->texts = &a->texts;
    facts->profile = r->options.profile;
    take_limits(&r->options, facts->fail_limits);
    facts->is_failed = has_failure(facts);
    a->report.sides = a->sides;
    a->report.inputs = a->inputs;
    a->report.io = r->options.io;
}

static spsh_status hash_aliases(const run *r, spsh_error *err)
{
    spsh__audit_report *report = &r->a->report;
    uint8_t *data = NULL;
    size_t bytes = 0;
    if (r->options.alias_path == NULL)
        return SPSH_OK;
    const spsh_status rc = spsh_io_read_file(r->options.io, r->options.alias_path, ALIAS_BYTES_MAX,
                                             NULL, &data, &bytes, err);
    if (rc != SPSH_OK)
        return rc;
    report->has_aliases = true;
    spsh__pack_hash128((spsh_bytes){data, bytes}, report->alias_hash);
    free(data);
    return SPSH_OK;
}

/* ---- the public result ---- */

/* Find the test utterance of a split with the strongest evidence of a kind. Returns
 * SPSH_NONE_U64 without such a leak. */
static uint64_t find_example(const spsh_audit *a, size_t split, unsigned leak)
{
    const spsh__audit_roster *roster = &a->sides->roster;
    const spsh__leaks *leaks = &a->leaks;
    uint64_t best = SPSH_NONE_U64;
    for (uint64_t i = 0; i < roster->test_utterance_count; i++) {
        const uint64_t match = leaks->evidence[i * SPSH_LEAK_COUNT + leak].match;
        if (roster->test_splits[i] != split || match == SPSH_NONE_U64)
            continue;
        if (best == SPSH_NONE_U64 ||
            spsh__leak_compare(
                &leaks->matches[match],
                &leaks->matches[leaks->evidence[best * SPSH_LEAK_COUNT + leak].match]) < 0)
            best = i;
    }
    return best;
}

/* Copy both ids, because a reader's strings are valid only until its next call. */
static spsh_status copy_ids(const spsh__set_readers *readers, const uint64_t ordinals[2],
                            spsh__leak_shown *shown, spsh_error *err)
{
    spsh__builder ids = {0};
    size_t test_bytes = 0;
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < 2 && rc == SPSH_OK; i++) {
        spsh_utterance utterance;
        test_bytes = ids.size_bytes;
        rc = spsh__set_readers_metadata(readers, ordinals[i], &utterance, err);
        if (rc == SPSH_OK)
            spsh__builder_append_bytes(&ids, utterance.id);
    }
    if (rc == SPSH_OK && ids.failed)
        rc = SPSH_NO_MEMORY(err);
    shown->ids = ids.data;
    if (rc != SPSH_OK)
        return rc;
    shown->example.test_id = (spsh_bytes){ids.data, test_bytes};
    shown->example.train_id = (spsh_bytes){ids.data + test_bytes, ids.size_bytes - test_bytes};
    return SPSH_OK;
}

static spsh_status show_example(const spsh_audit *a, const spsh__set_readers *readers,
                                uint64_t number, unsigned leak, spsh__leak_shown *shown,
                                spsh_error *err)
{
    const spsh__audit_roster *roster = &a->sides->roster;
    const uint64_t found = a->leaks.evidence[number * SPSH_LEAK_COUNT + leak].match;
    const spsh__match match = spsh__audit_train_first(roster, &a->leaks.matches[found]);
    const uint64_t ordinals[2] = {roster->test_ordinals[number], match.a};
    shown->match = spsh__pair_match_show(&match);
    shown->example.train_corpus = a->sides->corpora[spsh__print_set_place(a->set, match.a).number];
    shown->example.match = &shown->match;
    shown->leak.example = &shown->example;
    return copy_ids(readers, ordinals, shown, err);
}

static spsh_status show_split(spsh_audit *a, const spsh__set_readers *readers, size_t split,
                              spsh_error *err)
{
    const spsh__audit_facts *facts = &a->report.facts;
    const spsh__leak_split *test = &facts->roster->test[split];
    const spsh__leak_cell *cell = &a->leaks.totals[split];
    a->splits[split] = (spsh_audit_split){test->name, test->utterances, test->seconds,
                                          spsh__audit_dirty_count(&a->report, split)};
    for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++) {
        spsh__leak_shown *shown = &a->shown[split * SPSH_LEAK_COUNT + k];
        spsh_audit_leak *leak = &shown->leak;
        const uint64_t number = find_example(a, split, k);
        leak->utterance_count = cell->utterances[k];
        leak->seconds = cell->seconds[k];
        spsh__leak_interval(cell->utterances[k], test->utterances, &leak->share_low,
                            &leak->share_high);
        leak->limit = facts->fail_limits[k];
        leak->is_failure = spsh__audit_is_failure(facts, split, (spsh_leak)k);
        const spsh_status rc =
            number == SPSH_NONE_U64 ? SPSH_OK : show_example(a, readers, number, k, shown, err);
        if (rc != SPSH_OK)
            return rc;
    }
    return SPSH_OK;
}

/* Fill splits, shown, and warnings from the facts. */
static spsh_status show_all(spsh_audit *audit, spsh_error *err)
{
    const size_t count = audit->sides->roster.test_count;
    spsh__set_readers readers = {0};
    audit->splits = calloc(count + 1, sizeof(*audit->splits));
    audit->shown = calloc(count * SPSH_LEAK_COUNT + 1, sizeof(*audit->shown));
    if (audit->splits == NULL || audit->shown == NULL)
        return SPSH_NO_MEMORY(err);
    audit->split_count = count;
    spsh_status rc = spsh__set_readers_open(audit->set, &readers, err);
    for (size_t i = 0; i < count && rc == SPSH_OK; i++)
        rc = show_split(audit, &readers, i, err);
    spsh__set_readers_close(&readers);
    audit->warning_count = spsh__audit_warnings(&audit->report, audit->warnings);
    return rc;
}

/* ---- the run ---- */

static spsh_status take_options(run *r, const spsh_audit_options *options, spsh_error *err)
{
    spsh_audit_options *o = &r->options;
    *o = (spsh_audit_options)SPSH_AUDIT_OPTIONS_INIT;
    spsh_status rc = spsh_options_take(options, o, sizeof(*o), err);
    if (rc != SPSH_OK)
        return rc;
    o->io = o->io == NULL ? spsh_io_default() : o->io;
    o->command = o->command == NULL ? "" : o->command;
    o->threads = spsh__dedup_threads(o->threads);
    o->part_count = o->part_count == 0 ? 1 : o->part_count;
    r->watch.progress_fn = o->progress_fn;
    r->watch.user = o->user;
    if ((o->flags & ~SPSH_AUDIT_SPEED_GRID) != 0 || (unsigned)o->profile >= SPSH_TEXT_PROFILE_COUNT)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "an option has an unknown value or flag");
    rc = spsh__dedup_path_check("work_path", o->work_path, err);
    return rc == SPSH_OK ? spsh__dedup_memory_take(&o->memory_bytes, err) : rc;
}

static spsh_status open_sides(const run *r, spsh_error *err)
{
    spsh_audit *a = r->a;
    spsh_status rc =
        spsh__print_set_open(r->sources->items, r->sources->count, r->options.io, &a->set, err);
    if (rc == SPSH_E_NOT_FOUND && r->options.part_count > 1)
        return SPSH_FAIL(err, SPSH_E_END, SPSH__PART_HAS_PRINTS);
    if (rc == SPSH_OK)
        rc = spsh__audit_sides_make(a->set, &a->sides, err);
    if (rc == SPSH_OK)
        rc = spsh__audit_open(&a->sides->roster, &a->audit, err);
    return rc;
}

static spsh_status find(run *r, spsh_error *err)
{
    const spsh_audit_options *o = &r->options;
    spsh_status rc = spsh__dedup_path_check("folder", o->folder, err);
    if (rc == SPSH_OK)
        rc = spsh__audit_folder_check(o->folder, o->io, err);
    if (rc == SPSH_OK)
        rc = hash_aliases(r, err);
    if (rc == SPSH_OK)
        rc = spsh__audit_inputs(r->sources->items, r->sources->count, o->io, &r->a->inputs, err);
    if (rc == SPSH_OK)
        rc = make_segments(r, err);
    if (rc == SPSH_OK)
        rc = open_sides(r, err);
    if (rc == SPSH_OK)
        rc = check_space(r, err);
    if (rc == SPSH_OK)
        rc = find_copies(r, err);
    if (rc == SPSH_OK)
        rc = find_texts(r, err);
    if (rc == SPSH_OK)
        rc = spsh__audit_count(r->a->audit, &r->a->leaks, err);
    return rc == SPSH_OK ? spsh__call_watch_check(&r->watch, err) : rc;
}

static spsh_status run_all(const spsh_dedup_sources *sources, const spsh_audit_options *options,
                           spsh_audit **ret_audit, spsh_error *err)
{
    run r = {.sources = sources};
    spsh_status rc = take_options(&r, options, err);
    if (rc != SPSH_OK)
        return rc;
    r.a = calloc(1, sizeof(*r.a));
    rc = r.a == NULL ? SPSH_NO_MEMORY(err) : find(&r, err);
    if (rc == SPSH_OK) {
        gather(&r);
        rc = show_all(r.a, err);
    }
    if (rc == SPSH_OK)
        rc = spsh__audit_files_write(r.options.folder, &r.a->report, err);
    if (rc == SPSH_OK)
        rc = spsh__copies_remove(r.options.work_path, r.options.io, err);
    if (rc == SPSH_OK)
        *ret_audit = r.a;
    else
        spsh_audit_free(r.a);
    return rc;
}

spsh_status spsh_audit_run(const spsh_dedup_sources *sources, const spsh_audit_options *options,
                           spsh_audit **ret_audit, spsh_error *err)
{
    spsh_error local = SPSH_ERROR_INIT; /* stages also write to it for missing files, which is not a
                                           failure */
    return spsh__fail_again(run_all(sources, options, ret_audit, &local), &local, err);
}

spsh_status spsh_audit_estimate(const spsh_dedup_sources *sources,
                                const spsh_audit_options *options, spsh_dedup_cost *ret_cost,
                                spsh_error *err)
{
    run r = {.sources = sources};
    spsh_dedup_cost cost = {0};
    spsh_status rc = take_options(&r, options, err);
    if (rc == SPSH_OK)
        rc = spsh_result_check(ret_cost, sizeof(cost), err);
    if (rc == SPSH_OK)
        rc = spsh__source_prints_estimate(sources->items, sources->count, r.options.io, &cost, err);
    if (rc != SPSH_OK)
        return rc;
    cost.temporary_bytes =
        space_for(&r.options, cost.key_count, (uint64_t)(cost.test_seconds * FRAMES_HZ));
    spsh_result_give(ret_cost, &cost, sizeof(cost));
    return SPSH_OK;
}

spsh_status spsh_audit_check(const char *statement_path, const spsh_dedup_sources *sources,
                             const spsh_io *io, uint64_t *ret_file_count, spsh_error *err)
{
    const spsh_io *use = io == NULL ? spsh_io_default() : io;
    char *inputs = NULL;
    spsh_status rc = SPSH_OK;
    if (sources != NULL)
        rc = spsh__audit_inputs(sources->items, sources->count, use, &inputs, err);
    if (rc == SPSH_OK)
        rc = spsh__audit_statement_check(statement_path, inputs, use, ret_file_count, err);
    free(inputs);
    return rc;
}

/* ---- the result ---- */

size_t spsh_audit_split_count(const spsh_audit *audit)
{
    return audit->split_count;
}

const spsh_audit_split *spsh_audit_split_get(const spsh_audit *audit, size_t split)
{
    return &audit->splits[split];
}

const spsh_audit_leak *spsh_audit_leak_get(const spsh_audit *audit, size_t split, spsh_leak leak)
{
    return &audit->shown[split * SPSH_LEAK_COUNT + leak].leak;
}

size_t spsh_audit_warning_count(const spsh_audit *audit)
{
    return audit->warning_count;
}

const char *spsh_audit_warning(const spsh_audit *audit, size_t index)
{
    return audit->warnings[index];
}

void spsh_audit_free(spsh_audit *audit)
{
    if (audit == NULL)
        return;
    for (size_t i = 0; i < audit->split_count * SPSH_LEAK_COUNT; i++)
        free(audit->shown[i].ids);
    free(audit->shown);
    free(audit->splits);
    spsh__audit_close(audit->audit);
    spsh__audit_sides_free(audit->sides);
    spsh__print_set_close(audit->set);
    free(audit->texts.tests);
    free(audit->inputs);
    free(audit);
}
