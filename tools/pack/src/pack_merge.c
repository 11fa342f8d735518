/* pack_merge.c: see pack_merge.h.
 *
 * The merge reads only commit records and journals, never a listing. It moves the shards to the
 * dataset and publishes the manifest, which completes the dataset. A merge that was killed is
 * repeated: it finds some shards moved already, and everything else as it was. Two merges at the
 * same time write the same bytes.
 */
#include "pack_merge.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "claim/claim_keeper.h"
#include "common/file_names.h"
#include "common/jsonl.h"
#include "report/pack_report.h"
#include "speechshard/inside.h"
#include "unit/unit_journal.h"

/* Up to this number of rejected rows never fails the threshold, whatever their share. */
#define REJECTS_ALWAYS_FINE UINT64_C(16)
#define MISSING_MAX_PPM     UINT64_C(200000)
#define MESSAGE_PATH_BYTES  ((size_t)150) /* maximum bytes of a path in a message */
#define NAMED_UNITS_MAX     20U           /* missing units that a message names */

/* ---- judgment of the rejects ---- */

static bool exceeds(uint64_t rows, uint64_t max_ppm, uint64_t row_count)
{
    return (double)rows * 1e6 > (double)max_ppm * (double)row_count;
}

/* Whether too many rows were rejected. A handful of bad files is never too many. Missing files
 * usually mean a download that is known to be partial, so their limit is higher. */
static bool too_many_rejects(const spsh_pack_options *options, const spsh__pack_result *result)
{
    uint64_t rows = spsh__reject_rows(&result->rejects);
    uint64_t missing = result->rejects.rows[SPSH_REJECT_MISSING_AUDIO];
    uint64_t missing_max_ppm =
        options->rejects_max_ppm > MISSING_MAX_PPM ? options->rejects_max_ppm : MISSING_MAX_PPM;

    if (rows <= REJECTS_ALWAYS_FINE)
        return false;
    return exceeds(rows - missing, options->rejects_max_ppm, result->row_count) ||
           exceeds(missing, missing_max_ppm, result->row_count);
}

/* The loss of a damaged archive or manifest cannot be counted, so only SPSH_PACK_REJECTS_ALL
 * publishes a dataset without it. Such a reject has 0 rows, unlike a producer's (STREAM.md).
 */
spsh_status spsh__merge_check_damage(const spsh_pack_options *options, const spsh__plan *plan,
                                     spsh_error *err)
{
    static const spsh_reject_reason reasons[] = {SPSH_REJECT_TRUNCATED, SPSH_REJECT_BAD_CONTAINER};
    uint64_t files = 0;

    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        const uint64_t events = plan->rejects.events[reasons[i]];
        const uint64_t rows = plan->rejects.rows[reasons[i]];
        files += events > rows ? events - rows : 0;
    }
    if (files == 0 || options->rejects_max_ppm >= SPSH_PACK_REJECTS_ALL)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_TRUNCATED,
                     "%s: not published: %" PRIu64
                     " %s damaged (see above), so the lost rows are unknown; replace the damaged "
                     "files, or pack the readable rows with SPSH_PACK_REJECTS_ALL",
                     options->output, files,
                     files == 1 ? "archive or manifest is" : "archives or manifests are");
}

/* Append a path. A long path is cut at the front, because its end distinguishes files. */
static void append_end(spsh__builder *out, const char *path, size_t bytes_max)
{
    const size_t length = strlen(path);
    if (length > bytes_max)
        spsh__builder_append_text(out, "...");
    spsh__builder_append_text(out, length > bytes_max ? path + length - bytes_max : path);
}

/* Append the subject of a line of rejects.jsonl: ", the first clips/a.wav in line 2". */
static void append_example(spsh__builder *out, const char *reject)
{
    static const char *const names[] = {"source", "line"};
    spsh__json_value values[2];
    spsh__builder scratch = {0};
    spsh__builder name = {0};
    size_t offset = 0;
    if (reject == NULL ||
        spsh__json_pick(spsh__bytes_of(reject), names, 2, values, NULL, &offset) != NULL)
        return;
    spsh__builder_append_bytes(&name, spsh__json_text(&values[0], &scratch));
    const char *source = spsh__builder_text(&name);
    if (source != NULL && source[0] != '\0') {
        spsh__builder_append_text(out, ", the first ");
        append_end(out, source, MESSAGE_PATH_BYTES);
    }
    if (values[1].kind == SPSH__JSON_NUMBER) {
        spsh__builder_append_text(out, " in line ");
        spsh__builder_append_bytes(out, values[1].raw);
    }
    spsh__builder_free(&scratch);
    spsh__builder_free(&name);
}

static spsh_status fail_empty(const spsh_pack_options *options, const spsh__pack_result *result,
                              spsh_error *err)
{
    const uint64_t *rows = result->rejects.rows;
    spsh__builder corpora = {0};
    spsh__builder example = {0};
    size_t most = 0;

    append_end(&corpora, options->corpora[0], MESSAGE_PATH_BYTES);
    if (options->corpus_count > 1)
        spsh__builder_append_text(&corpora, " and others");
    for (size_t i = 1; i < SPSH_REJECT_COUNT; i++)
        most = rows[i] > rows[most] ? i : most;
    append_example(&example, result->facts->examples.lines[most][0]);
    const char *root = spsh__builder_text(&corpora);
    const char *first = spsh__builder_text(&example);
    spsh_status rc = SPSH_OK;
    if (root == NULL || first == NULL)
        rc = SPSH_NO_MEMORY(err);
    else if (rows[most] == 0)
        rc = SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                       "%s: nothing to pack: the corpus has no rows%s (see reports/rejects.jsonl)",
                       root, options->split_filter == NULL ? "" : " of these splits");
    else
        rc = SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                       "%s: nothing to pack: no utterance is left of %" PRIu64 " %s; %" PRIu64
                       " %s %s%s (see reports/rejects.jsonl)",
                       root, result->row_count, result->row_count == 1 ? "row" : "rows", rows[most],
                       rows[most] == 1 ? "is" : "are",
                       spsh__reject_reason_text((spsh_reject_reason)most), first);
    spsh__builder_free(&corpora);
    spsh__builder_free(&example);
    return rc;
}

/* ---- the dataset ---- */

static spsh_status publish(const spsh_pack_options *options, const spsh__plan *plan,
                           const spsh__packed *packed, spsh__pack_result *result, spsh_error *err)
{
    spsh_publish_options publishing = SPSH_PUBLISH_OPTIONS_INIT;

    spsh_status rc = spsh__pack_progress(options, "merge", 0, 0, err);
    if (rc != SPSH_OK)
        return rc;
    publishing.io = options->io;
    publishing.path = options->output;
    memcpy(publishing.dataset_id, plan->dataset_id, sizeof(publishing.dataset_id));
    publishing.seals = packed->seals;
    publishing.seal_count = packed->seal_count;
    publishing.dedupe = (spsh_dedupe)(options->dedupe - SPSH_PACK_DEDUPE_NONE);
    publishing.options_json = (spsh_bytes){plan->options.data, plan->options.size_bytes};
    publishing.reject_count = spsh__reject_rows(&result->rejects);
    publishing.source_row_count = result->row_count;
    publishing.memory_bytes = options->memory_bytes;
    publishing.progress_fn = options->progress_fn;
    publishing.progress_user = options->user;
    result->info = (spsh_dataset_info)SPSH_DATASET_INFO_INIT;
    rc = spsh_dataset_publish(&publishing, &result->info, err);
    return rc == SPSH_E_CANCELED ? spsh__pack_canceled(err) : rc;
}

/* Check that every row of every source has one outcome. A difference is a defect of this program.
 */
static spsh_status check_balance(const spsh__plan *plan, const spsh__packed *packed,
                                 spsh_error *err)
{
    for (size_t i = 0; i < plan->sources.count; i++) {
        const spsh__source *source = &plan->sources.items[i];
        if (!spsh__source_balances(&source->rows, &packed->tallies[i]))
            return SPSH_FAIL(
                err, SPSH_E_CORRUPT,
                "%s: of %" PRIu64 " rows, %" PRIu64 " were packed and %" PRIu64
                " were rejected, which are not all; this is a bug of speechshard, please report it",
                source->root, spsh__source_rows_in(&source->rows), packed->tallies[i].packed,
                spsh__source_rejected(&source->rows, &packed->tallies[i]));
    }
    return SPSH_OK;
}

/* Gather the facts about the published dataset and about the rows, and write the reports. */
static spsh_status report(spsh__pack_state *state, spsh__packed *packed, spsh_error *err)
{
    const spsh_pack_options *options = state->options;
    spsh__pack_result *result = &state->result;
    spsh_dataset_options opening = SPSH_DATASET_OPTIONS_INIT;
    spsh_dataset *dataset = NULL;

    opening.io = options->io;
    opening.flags = SPSH_DATASET_IGNORE_OVERLAYS;
    spsh_status rc = spsh_dataset_open(options->output, &opening, &dataset, err);
    if (rc == SPSH_OK)
        rc = spsh__facts_gather(result, &state->plan, packed, dataset, result->facts, err);
    spsh_dataset_close(dataset);
    if (rc == SPSH_OK)
        rc = spsh__report_write(options->io, spsh__pack_path(&state->paths, SPSH__PACK_REPORTS),
                                (const char *)state->plan.command.data, result->facts, err);
    return rc;
}

/* Publish the dataset and write the reports. *ret_ends: no later run needs the state. */
static spsh_status finish(spsh__pack_state *state, spsh__packed *packed, bool *ret_ends,
                          spsh_error *err)
{
    const spsh_pack_options *options = state->options;
    spsh__pack_result *result = &state->result;
    spsh_status rc = check_balance(&state->plan, packed, err);

    result->facts = calloc(1, sizeof(*result->facts));
    if (rc == SPSH_OK && result->facts == NULL)
        rc = SPSH_NO_MEMORY(err);
    if (rc == SPSH_OK)
        rc = spsh__report_write_rejects(options, spsh__pack_path(&state->paths, SPSH__PACK_WORK),
                                        spsh__pack_path(&state->paths, SPSH__PACK_REPORTS), packed,
                                        &result->facts->examples, err);
    if (rc != SPSH_OK)
        return rc;
    result->too_many_rejects = too_many_rejects(options, result);
    if (options->is_strict && spsh__reject_rows(&result->rejects) > 0) {
        result->withheld = true;
        return spsh__facts_gather(result, &state->plan, packed, NULL, result->facts, err);
    }
    if (result->counts.packed == 0) {
        *ret_ends = true; /* the next run must scan the repaired corpus again */
        return fail_empty(options, result, err);
    }
    rc = publish(options, &state->plan, packed, result, err);
    if (rc == SPSH_OK)
        rc = report(state, packed, err);
    *ret_ends = rc == SPSH_OK;
    return rc;
}

/* ---- the units ---- */

/* Name the first missing units: ": 3, 17, and 4 more". */
static spsh_status fail_missing(const spsh__pack_state *state, const uint32_t *generations,
                                uint64_t missing, spsh_error *err)
{
    spsh__builder names = {0};
    uint64_t named = 0;

    for (uint64_t unit = 0; named < missing && named < NAMED_UNITS_MAX; unit++) {
        char text[32];
        if (generations[unit] != 0)
            continue;
        (void)snprintf(text, sizeof(text), "%s%" PRIu64, named == 0 ? "" : ", ", unit);
        spsh__builder_append_text(&names, text);
        named++;
    }
    if (missing > named) {
        char text[48];
        (void)snprintf(text, sizeof(text), ", and %" PRIu64 " more", missing - named);
        spsh__builder_append_text(&names, text);
    }
    spsh_status rc =
        spsh__builder_text(&names) == NULL
            ? SPSH_NO_MEMORY(err)
            : SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                        "%" PRIu64 " of %" PRIu64
                        " units are not packed: %s; run any part of the pack again, then merge",
                        missing, state->plan.unit_count, (const char *)names.data);
    spsh__builder_free(&names);
    return rc;
}

/* Find the attempt of each unit that was done first. generations: 0 for units without one. */
static spsh_status load_done(const spsh__pack_state *state, uint32_t *generations,
                             uint64_t *ret_missing, spsh_error *err)
{
    const char *work = spsh__pack_path(&state->paths, SPSH__PACK_WORK);
    uint64_t missing = 0;

    for (uint64_t unit = 0; unit < state->plan.unit_count; unit++) {
        if (generations[unit] != 0)
            continue;
        spsh_error cause = SPSH_ERROR_INIT;
        const spsh_status rc = spsh__unit_done_load(state->options->io, work, &state->plan, unit,
                                                    &generations[unit], &cause);
        missing += rc == SPSH_E_NOT_FOUND ? 1 : 0;
        if (rc != SPSH_OK && rc != SPSH_E_NOT_FOUND)
            return spsh__fail_again(rc, &cause, err);
    }
    *ret_missing = missing;
    return SPSH_OK;
}

/* Find the attempts of all units. */
static spsh_status load_all_done(const spsh__pack_state *state, uint32_t *generations,
                                 spsh_error *err)
{
    uint64_t missing = 0;
    spsh_status rc = load_done(state, generations, &missing, err);

    if (rc == SPSH_OK && missing > 0) {
        spsh__claims_refresh(state->options->io, spsh__pack_path(&state->paths, SPSH__PACK_WORK));
        rc = load_done(state, generations, &missing, err);
    }
    if (rc != SPSH_OK || missing == 0)
        return rc;
    spsh__pack_remove_shares(state->options->io, &state->paths); /* a commit record was removed */
    return fail_missing(state, generations, missing, err);
}

/* Move a shard to the dataset. A merge that was killed may have moved it already. */
static spsh_status move_shard(const spsh__pack_state *state, const char *directory,
                              const spsh_shard_seal *seal, spsh_error *err)
{
    const spsh_io *io = state->options->io;
    spsh__builder from = {0};
    spsh__builder to = {0};
    struct stat found;
    char name[32];
    int rc = -ENOMEM;

    spsh_shard_file_name(seal->unit, seal->number, name);
    if (spsh__builder_path(&from, directory, name) != NULL &&
        spsh__builder_path(&to, spsh__pack_path(&state->paths, SPSH__PACK_SHARDS), name) != NULL) {
        rc = io->rename_fn(io->user, (const char *)from.data, (const char *)to.data);
        if (rc == -ENOENT)
            rc = io->stat_fn(io->user, (const char *)to.data, &found);
    }
    spsh_status status = SPSH_OK;
    if (rc == -ENOMEM)
        status = SPSH_NO_MEMORY(err);
    else if (rc < 0)
        status =
            SPSH_FAIL_OS(err, spsh_io_status(-rc), -rc, "%s/%s: cannot move it to the dataset: %s",
                         directory, name, strerror(-rc));
    SPSH__BUILDERS_FREE(&from, &to);
    return status;
}

/* Load the journals of one unit and move its shards. */
static spsh_status take_unit(const spsh__pack_state *state, uint64_t unit, uint32_t generation,
                             spsh__packed *packed, spsh_error *err)
{
    const char *work = spsh__pack_path(&state->paths, SPSH__PACK_WORK);
    const size_t first = packed->seal_count;
    char folder[SPSH__CLAIM_NAME_BYTES];
    char name[32];
    spsh__builder directory = {0};

    (void)snprintf(name, sizeof(name), "unit-%06" PRIu64, unit);
    spsh__claim_folder(name, generation, folder);
    if (spsh__builder_path(&directory, work, folder) == NULL) {
        spsh__builder_free(&directory);
        return SPSH_NO_MEMORY(err);
    }
    const spsh__unit_context context = {state->options, &state->plan, work, folder,
                                        (const char *)directory.data};
    spsh_status rc = spsh__unit_load(&context, unit, packed, err);
    for (size_t i = first; rc == SPSH_OK && i < packed->seal_count; i++)
        rc = move_shard(state, context.directory, &packed->seals[i], err);
    spsh__builder_free(&directory);
    return rc;
}

static spsh_status take_units(const spsh__pack_state *state, const uint32_t *generations,
                              spsh__packed *packed, spsh_error *err)
{
    spsh_status rc = spsh__packed_begin(packed, &state->plan) &&
                             spsh__packed_add_rejects(packed, state->plan.folder, "plan.rejects")
                         ? SPSH_OK
                         : SPSH_NO_MEMORY(err);

    for (uint64_t unit = 0; rc == SPSH_OK && unit < state->plan.unit_count; unit++)
        rc = take_unit(state, unit, generations[unit], packed, err);
    if (rc == SPSH_OK)
        rc = spsh_io_sync_directory(state->options->io,
                                    spsh__pack_path(&state->paths, SPSH__PACK_SHARDS), err);
    return rc;
}

/* A dataset that is published there must be the one of this plan. */
static spsh_status check_published(const spsh__pack_state *state, spsh_error *err)
{
    spsh_dataset_options opening = SPSH_DATASET_OPTIONS_INIT;
    spsh_dataset *dataset = NULL;

    if (!spsh__pack_exists(state->options->io, &state->paths, SPSH__PACK_MANIFEST))
        return SPSH_OK;
    opening.io = state->options->io;
    spsh_status rc = spsh_dataset_open(state->options->output, &opening, &dataset, err);
    if (rc != SPSH_OK)
        return rc;
    if (memcmp(spsh_dataset_info_get(dataset)->dataset_id, state->plan.dataset_id,
               sizeof(state->plan.dataset_id)) != 0)
        rc = SPSH_FAIL(err, SPSH_E_EXISTS,
                       "%s holds a dataset of other corpora or options; choose another output, or "
                       "remove it",
                       state->options->output);
    spsh_dataset_close(dataset);
    return rc;
}

/* The merge, for the owner of its claim. */
static spsh_status merge(spsh__pack_state *state, bool *ret_ends, spsh_error *err)
{
    spsh__pack_result *result = &state->result;
    spsh__packed packed = {0};
    uint32_t *generations = calloc(state->plan.unit_count + 1, sizeof(*generations));
    spsh_status rc =
        generations == NULL ? SPSH_NO_MEMORY(err) : load_all_done(state, generations, err);

    if (rc == SPSH_OK)
        rc = check_published(state, err);
    if (rc == SPSH_OK) {
        spsh__pack_remove_temporaries(state->options->io, &state->paths);
        rc = take_units(state, generations, &packed, err);
    }
    if (rc == SPSH_OK) {
        result->counts = packed.counts;
        result->rejects = state->plan.rejects;
        spsh__reject_counts_add(&result->rejects, &packed.rejects);
        result->decode_ns = state->packed.decode_ns;
        result->decode_audio_ms = state->packed.decode_audio_ms;
        rc = finish(state, &packed, ret_ends, err);
    }
    spsh__packed_free(&packed);
    free(generations);
    return rc;
}

/* Merge with the claim, and end the claim. */
static spsh_status merge_claimed(spsh__pack_state *state, spsh__own_claim *claim, bool *ret_merged,
                                 spsh_error *err)
{
    spsh__claim_keeper keeper;
    bool ends = false;
    spsh_status rc = SPSH_OK;

    if (!spsh__pack_has_plan(state->options->io, &state->paths)) {
        spsh__claim_remove(claim);
        state->has_ended = true;
        return SPSH_OK;
    }
    rc = spsh__claim_keeper_start(&keeper, claim, err);
    if (rc == SPSH_OK) {
        rc = merge(state, &ends, err);
        spsh__claim_keeper_stop(&keeper);
    }
    *ret_merged = rc == SPSH_OK;
    if (ends) {
        spsh__claim_close(claim); /* some file systems keep open files in their folders */
        spsh__pack_remove_work(state->options->io, &state->paths);
    } else {
        spsh__claim_release(claim);
    }
    return rc;
}

spsh_status spsh__merge_run(spsh__pack_state *state, bool waits, bool *ret_merged, spsh_error *err)
{
    spsh__claim_watch watch = {0};
    spsh__own_claim claim;
    spsh__claim_state claimed = SPSH__CLAIM_UNKNOWN;
    char owner[SPSH__CLAIM_OWNER_BYTES];
    bool has_logged = false;
    spsh_status rc = SPSH_OK;

    *ret_merged = false;
    while (rc == SPSH_OK && !state->has_ended) {
        spsh_error cause = SPSH_ERROR_INIT;
        rc = spsh__claim_try(&state->claims, "merge", &watch, &claim, &claimed, owner, &cause);
        if (rc == SPSH_OK && claimed == SPSH__CLAIM_WON)
            return merge_claimed(state, &claim, ret_merged, err);
        state->has_ended = !spsh__pack_has_plan(state->options->io, &state->paths);
        if (state->has_ended)
            return SPSH_OK;
        if (rc != SPSH_OK)
            return spsh__fail_again(rc, &cause, err);
        if (claimed == SPSH__CLAIM_ALIVE && !waits)
            return SPSH_OK;
        if (!has_logged)
            spsh__pack_log(state->options, "waiting for %s, which merges",
                           owner[0] == '\0' ? "another process" : owner);
        has_logged = true;
        rc = spsh__pack_wait(state, err);
    }
    return rc;
}
