/* pack_run.c: run a whole pack or a share of it: plan, units, merge.
 *
 * Publishing the manifest completes the pack. Before it, everything is stored in DATASET/.pack.
 * After it, only the reports and the removal of .pack remain, and a rerun finishes both. Every
 * process shares the plan, the units, and the merge with others by claims (claim.h). A pack that is
 * not a part also locks out a second one, because two on one machine are slower than one.
 */
#include "pack_run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "claim/claim_keeper.h"
#include "pack_archives.h"
#include "pack_merge.h"
#include "pack_units.h"
#include "report/pack_facts.h"
#include "speechshard/inside.h"
#include "unit/unit_journal.h"

#define WAIT_MAX_NS UINT64_C(500000000)

void spsh__pack_log(const spsh_pack_options *options, const char *format, ...)
{
    char line[320];
    va_list arguments;

    if (options->log_fn == NULL)
        return;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    options->log_fn(options->user, SPSH_LOG_INFO, line);
}

spsh_status spsh__pack_wait(const spsh__pack_state *state, spsh_error *err)
{
    const spsh__claim_host *host = state->claims.host;
    uint64_t pause_ns = state->claims.lease_s * (UINT64_C(1000000000) / SPSH__CLAIM_BEATS / 2);

    if (pause_ns > WAIT_MAX_NS)
        pause_ns = WAIT_MAX_NS;
    host->sleep_fn(host->user, pause_ns);
    return spsh__pack_progress(state->options, "wait", 0, 0, err);
}

/* Take the lock. The kernel releases it when the process ends, so a killed run leaves no stale
 * lock. */
static spsh_status take_lock(const spsh__pack_state *state, int *ret_fd, spsh_error *err)
{
    const spsh_io *io = state->options->io;
    const char *path = spsh__pack_path(&state->paths, SPSH__PACK_LOCK);
    int fd = io->open_fn(io->user, path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);

    if (fd < 0)
        return SPSH_FAIL_OS(err, spsh_io_status(-fd), -fd, "%s: %s", path, strerror(-fd));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        (void)io->close_fn(io->user, fd);
        return SPSH_FAIL(err, SPSH_E_EXISTS,
                         "%s: another pack is writing to it; wait until that one has finished",
                         state->options->output);
    }
    *ret_fd = fd;
    return SPSH_OK;
}

/* ---- a published dataset ---- */

static void set_already_packed(spsh__pack_state *state, const spsh_dataset *dataset)
{
    state->result.info = *spsh_dataset_info_get(dataset);
    state->result.already_packed = true;
    state->result.counts.packed = state->result.info.utterance_count;
    state->has_ended = true;
}

static spsh_status fail_other_dataset(const spsh_pack_options *options, spsh_error *err)
{
    return SPSH_FAIL(
        err, SPSH_E_EXISTS,
        "%s holds a dataset of other corpora or options; choose another output, or remove it",
        options->output);
}

/* Check whether the existing dataset is the one of this plan. The dataset ids are compared, and no
 * audio is read again. */
static spsh_status compare_with_plan(spsh__pack_state *state, const spsh__plan *plan,
                                     spsh_error *err)
{
    spsh_dataset_options opening = SPSH_DATASET_OPTIONS_INIT;
    spsh_dataset *dataset = NULL;

    opening.io = state->options->io;
    spsh_status rc = spsh_dataset_open(state->options->output, &opening, &dataset, err);
    if (rc != SPSH_OK)
        return rc;
    if (memcmp(spsh_dataset_info_get(dataset)->dataset_id, plan->dataset_id,
               sizeof(plan->dataset_id)) != 0)
        rc = fail_other_dataset(state->options, err);
    else
        set_already_packed(state, dataset);
    spsh_dataset_close(dataset);
    return rc;
}

/* Check the published dataset without a plan. any_options: accept every dataset. */
static spsh_status compare_with_options(spsh__pack_state *state, bool any_options, spsh_error *err)
{
    spsh_dataset_options opening = SPSH_DATASET_OPTIONS_INIT;
    spsh_dataset *dataset = NULL;
    spsh_bytes json = {NULL, 0};

    opening.io = state->options->io;
    spsh_status rc = spsh_dataset_open(state->options->output, &opening, &dataset, err);
    if (rc != SPSH_OK)
        return rc;
    bool is_equal = true;
    rc = spsh_dataset_pack_options(dataset, &json, err);
    if (rc == SPSH_OK && !any_options)
        rc = spsh__plan_options_equal(state->options, json, &is_equal, err);
    if (rc == SPSH_OK && !is_equal)
        rc = fail_other_dataset(state->options, err);
    if (rc == SPSH_OK)
        set_already_packed(state, dataset);
    spsh_dataset_close(dataset);
    return rc;
}

/* Whether no living process has claimed a name. A folder without a record counts as left by a
 * process that was killed while it removed the state. waits: until it is known. */
static bool is_idle(const spsh__pack_state *state, const char *name, bool waits)
{
    spsh__claim_watch watch = {0};
    spsh__claim_state claimed = SPSH__CLAIM_UNKNOWN;
    spsh__own_claim claim;
    char owner[SPSH__CLAIM_OWNER_BYTES];
    spsh_status rc = SPSH_OK;

    while (rc == SPSH_OK) {
        rc = spsh__claim_try(&state->claims, name, &watch, &claim, &claimed, owner, NULL);
        if (rc == SPSH_OK && claimed == SPSH__CLAIM_WON)
            spsh__claim_remove(&claim);
        if (rc == SPSH_OK && (claimed == SPSH__CLAIM_WON || owner[0] == '\0'))
            return true;
        if (rc == SPSH_OK)
            rc = waits && claimed == SPSH__CLAIM_UNKNOWN ? spsh__pack_wait(state, NULL)
                                                         : SPSH_E_EXISTS;
    }
    return false;
}

/* The dataset is published and there is no plan: a merge that was killed may have left files. They
 * belong to no process unless a living one merges, or compares the corpus with the dataset. */
static void finish_removal(const spsh__pack_state *state, bool waits)
{
    const spsh_io *io = state->options->io;

    if (is_idle(state, "plan", waits) && is_idle(state, "merge", waits) &&
        !spsh__pack_has_plan(io, &state->paths))
        spsh__pack_remove_work(io, &state->paths);
    else /* a claim of this process may have kept a merge that ends from removing the folder */
        (void)io->rmdir_fn(io->user, spsh__pack_path(&state->paths, SPSH__PACK_WORK));
}

static bool is_published(const spsh__pack_state *state)
{
    return spsh__pack_exists(state->options->io, &state->paths, SPSH__PACK_MANIFEST);
}

/* ---- the plan ---- */

/* Remove commit records of another plan, which a killed run has left. A planner that was taken for
 * dead may have published the same plan by now, and its units may be in work: their records and
 * folders must stay. Claims of old folders are taken over like those of lost processes. */
static void remove_foreign_records(const spsh__pack_state *state, const spsh__plan *plan)
{
    const spsh_io *io = state->options->io;
    const char *work = spsh__pack_path(&state->paths, SPSH__PACK_WORK);
    DIR *open = opendir(work);
    const struct dirent *entry = NULL;

    while (open != NULL && (entry = readdir(open)) != NULL) {
        const char *at = entry->d_name + strlen("unit-");
        uint64_t unit = 0;
        uint32_t generation = 0;
        spsh__builder path = {0};
        if (strncmp(entry->d_name, "unit-", strlen("unit-")) != 0 ||
            !spsh__take_digits(&at, UINT64_MAX, &unit) || strcmp(at, ".done") != 0 ||
            spsh__unit_done_load(io, work, plan, unit, &generation, NULL) != SPSH_E_CORRUPT)
            continue;
        if (spsh__builder_path(&path, work, entry->d_name) != NULL)
            (void)io->unlink_fn(io->user, (const char *)path.data);
        spsh__builder_free(&path);
    }
    if (open != NULL)
        (void)closedir(open);
}

/* Make the plan and publish it. For a published dataset the plan is only compared with it. */
static spsh_status build_plan(spsh__pack_state *state, const spsh__own_claim *claim,
                              spsh_error *err)
{
    const spsh_pack_options *options = state->options;
    const char *work = spsh__pack_path(&state->paths, SPSH__PACK_WORK);
    spsh__plan plan = {0};
    spsh_error cause = SPSH_ERROR_INIT;

    const spsh__plan_unpacker unpacker = {spsh__archives_unpack, state};
    spsh_status rc = spsh__plan_build(options, work, claim->folder, &unpacker, &plan, err);
    if (rc == SPSH_OK)
        rc = spsh__merge_check_damage(options, &plan, err);
    if (rc == SPSH_OK && is_published(state)) {
        rc = compare_with_plan(state, &plan, err);
        spsh__pack_remove_temporaries(options->io, &state->paths);
    } else if (rc == SPSH_OK && !spsh__pack_has_plan(options->io, &state->paths)) {
        remove_foreign_records(state, &plan);
        rc = spsh__plan_publish(options, work, &plan, &cause);
        rc = rc == SPSH_E_EXISTS ? SPSH_OK : spsh__fail_again(rc, &cause, err);
    }
    spsh__plan_free(&plan);
    return rc;
}

/* Remove what the previous owner of the claim has unpacked, if it cannot use it anymore. */
static void remove_previous_plan(const spsh__pack_state *state, const spsh__own_claim *claim)
{
    char folder[SPSH__CLAIM_NAME_BYTES];
    spsh__builder path = {0};

    if (!claim->previous_has_stopped || claim->generation == 1)
        return;
    spsh__claim_folder("plan", claim->generation - 1, folder);
    if (spsh__builder_path(&path, spsh__pack_path(&state->paths, SPSH__PACK_WORK), folder) != NULL)
        spsh__pack_remove_plan_files(state->options->io, (const char *)path.data);
    spsh__builder_free(&path);
}

/* Remove a plan that is not published: the next run must read replaced files. */
static void remove_own_plan(const spsh__pack_state *state, spsh__own_claim *claim)
{
    const spsh_io *io = state->options->io;
    const char *work = spsh__pack_path(&state->paths, SPSH__PACK_WORK);
    spsh__builder path = {0};

    spsh__claim_close(claim);
    if (spsh__builder_path(&path, work, claim->folder) != NULL)
        spsh__pack_remove_folder(io, (const char *)path.data);
    spsh__builder_free(&path);
    (void)io->rmdir_fn(io->user, work); /* if no other process uses it */
}

/* Make the plan as the owner of its claim, unless another process has made it meanwhile. */
static spsh_status make_plan(spsh__pack_state *state, spsh__own_claim *claim, spsh_error *err)
{
    spsh__claim_keeper keeper;
    spsh_status rc = SPSH_OK;

    if (spsh__pack_has_plan(state->options->io, &state->paths)) {
        spsh__claim_remove(claim);
        return SPSH_OK;
    }
    remove_previous_plan(state, claim);
    rc = spsh__claim_keeper_start(&keeper, claim, err);
    if (rc == SPSH_OK) {
        rc = build_plan(state, claim, err);
        spsh__claim_keeper_stop(&keeper);
    }
    if (rc == SPSH_OK && !state->has_ended)
        spsh__claim_close(claim);
    else if (spsh__pack_has_plan(state->options->io, &state->paths))
        spsh__claim_release(claim); /* it may be the own plan: a later step of publishing failed */
    else
        remove_own_plan(state, claim);
    return rc;
}

/* This process's notes while another one makes the plan. */
typedef struct plan_wait {
    spsh__claim_watch watch;
    uint64_t list_hash; /* see spsh__archives_help */
    bool has_logged;
} plan_wait;

/* Help the process that makes the plan to unpack archives, or wait. Errors are of no consequence
 * once there is a plan. */
static spsh_status wait_for_plan(spsh__pack_state *state, plan_wait *wait, spsh_error *err)
{
    spsh_error cause = SPSH_ERROR_INIT;
    bool has_helped = false;
    const spsh_status rc = spsh__archives_help(state, &wait->list_hash, &has_helped, &cause);

    if (rc == SPSH_OK)
        return has_helped ? SPSH_OK : spsh__pack_wait(state, err);
    if (rc != SPSH_E_CANCELED && rc != SPSH_E_NO_MEMORY &&
        (is_published(state) || spsh__pack_has_plan(state->options->io, &state->paths)))
        return SPSH_OK;
    return spsh__fail_again(rc, &cause, err);
}

/* Look at the claim of the plan once: make the plan, or note that another process makes it. */
static spsh_status claim_plan(spsh__pack_state *state, plan_wait *wait, spsh_error *err)
{
    spsh__own_claim claim;
    spsh__claim_state claimed = SPSH__CLAIM_UNKNOWN;
    spsh_error cause = SPSH_ERROR_INIT;
    char owner[SPSH__CLAIM_OWNER_BYTES];

    spsh_status rc =
        spsh__claim_try(&state->claims, "plan", &wait->watch, &claim, &claimed, owner, &cause);
    if (rc == SPSH_E_NOT_FOUND) /* another process has just removed the state */
        return spsh__pack_make_folders(state->options->io, &state->paths, err);
    if (rc != SPSH_OK)
        return spsh__fail_again(rc, &cause, err);
    if (claimed == SPSH__CLAIM_WON)
        return make_plan(state, &claim, err);
    if (!wait->has_logged)
        spsh__pack_log(state->options, "waiting for the plan, which %s makes",
                       owner[0] == '\0' ? "another process" : owner);
    wait->has_logged = true;
    return wait_for_plan(state, wait, err);
}

static void log_plan(const spsh__pack_state *state, bool is_old)
{
    const spsh__plan *plan = &state->plan;

    if (is_old)
        spsh__pack_log(state->options, state->options->is_part ? "using the plan that is there"
                                                               : "resuming an interrupted pack");
    spsh__pack_log(state->options, "%" PRIu64 " utterance%s to pack in %" PRIu64 " unit%s",
                   plan->item_count, plan->item_count == 1 ? "" : "s", plan->unit_count,
                   plan->unit_count == 1 ? "" : "s");
}

/* Check that this machine sees the corpus of a plan that another process made. Sets has_ended if
 * the plan is removed meanwhile, because another part has published the dataset. */
static spsh_status check_sources(spsh__pack_state *state, spsh_error *err)
{
    const spsh_io *io = state->options->io;
    spsh_error cause = SPSH_ERROR_INIT;
    const spsh_status rc = spsh__plan_check_sources(
        io, spsh__pack_path(&state->paths, SPSH__PACK_WORK), &state->plan, &cause);

    state->has_ended = rc != SPSH_OK && !spsh__pack_has_plan(io, &state->paths);
    return state->has_ended ? SPSH_OK : spsh__fail_again(rc, &cause, err);
}

/* Load the plan, or make it first. Sets has_ended if there is nothing to pack. */
static spsh_status get_plan(spsh__pack_state *state, spsh_error *err)
{
    const spsh_pack_options *options = state->options;
    const bool is_whole = !options->is_part && !options->is_plan_only;
    plan_wait wait = {0};
    bool is_old = true;

    for (;;) {
        spsh_error cause = SPSH_ERROR_INIT;
        spsh_status rc = spsh__plan_load(options, spsh__pack_path(&state->paths, SPSH__PACK_WORK),
                                         false, &state->plan, &cause);
        if (rc == SPSH_OK)
            break;
        if (rc != SPSH_E_NOT_FOUND)
            return spsh__fail_again(rc, &cause, err);
        if (!is_whole && is_published(state)) {
            rc = compare_with_options(state, false, err);
            finish_removal(state, false);
            return rc;
        }
        is_old = false;
        rc = claim_plan(state, &wait, err);
        if (rc != SPSH_OK || state->has_ended)
            return rc;
    }
    log_plan(state, is_old);
    state->result.row_count = state->plan.row_count;
    state->result.unit_count = state->plan.unit_count;
    state->result.planned = state->plan.item_count;
    return is_old && options->is_part ? check_sources(state, err) : SPSH_OK;
}

/* ---- all of it ---- */

/* The dataset was published by another process while this one worked on it. */
static spsh_status end_published(spsh__pack_state *state, spsh_error *err)
{
    if (state->result.already_packed)
        return SPSH_OK;
    const spsh_status rc = compare_with_options(state, true, err);
    if (rc == SPSH_OK)
        finish_removal(state, state->options->corpora == NULL);
    return rc;
}

static spsh_status pack_planned(spsh__pack_state *state, spsh_error *err)
{
    const spsh_pack_options *options = state->options;
    bool merged = false;
    spsh_status rc = spsh__merge_check_damage(options, &state->plan, err);

    if (rc != SPSH_OK && !options->is_part)
        spsh__pack_remove_work(options->io, &state->paths); /* the next run reads replaced files */
    if (rc != SPSH_OK)
        return rc;
    if (options->is_plan_only) {
        state->result.is_share = true;
        state->result.is_plan_only = true;
        return SPSH_OK;
    }
    if (!spsh__packed_begin(&state->packed, &state->plan))
        return SPSH_NO_MEMORY(err);
    state->packed.total_bytes = options->is_part ? 0 : state->plan.source_bytes;
    rc = spsh__units_pack(state, !options->is_part, err);
    if (rc == SPSH_OK && !state->has_ended &&
        (!options->is_part || (options->merges_parts && state->result.units_left == 0)))
        rc = spsh__merge_run(state, !options->is_part, &merged, err);
    state->result.is_share = options->is_part && !merged && !state->has_ended;
    return rc;
}

/* True for "." and "..", and for the folders that a pack leaves if it has nothing to publish. */
static bool is_ours(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, "reports") == 0 ||
           strcmp(name, "shards") == 0;
}

/* An existing directory must be a dataset, finished or not, or empty. */
static spsh_status check_output(const spsh__pack_state *state, spsh_error *err)
{
    const spsh_pack_options *options = state->options;
    bool foreign = false;
    DIR *open = opendir(options->output);
    const struct dirent *entry = NULL;

    while (open != NULL && (entry = readdir(open)) != NULL)
        foreign = foreign || !is_ours(entry->d_name);
    if (open != NULL)
        (void)closedir(open);
    if (foreign && !is_published(state) &&
        !spsh__pack_exists(options->io, &state->paths, SPSH__PACK_WORK))
        return SPSH_FAIL(err, SPSH_E_EXISTS,
                         "%s is not empty and not a dataset; choose another output",
                         options->output);
    return SPSH_OK;
}

static void end_state(spsh__pack_state *state)
{
    spsh__plan_free(&state->plan);
    spsh__packed_free(&state->packed);
    spsh__pack_paths_free(&state->paths);
}

/* Move the corpora to the result, which names them in reports. */
static void take_corpora(spsh__pack_state *state)
{
    state->result.corpora = state->plan.corpora;
    state->result.corpus_count = state->plan.corpus_count;
    state->plan.corpora = NULL;
    state->plan.corpus_count = 0;
}

static spsh_status run(spsh__pack_state *state, int *ret_lock, spsh_error *err)
{
    const spsh_pack_options *options = state->options;
    spsh_status rc = spsh__pack_make_folders(options->io, &state->paths, err);

    if (rc == SPSH_OK && !options->is_part && !options->is_plan_only)
        rc = take_lock(state, ret_lock, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__claims_begin(&state->claims, options->io, spsh__pack_path(&state->paths, SPSH__PACK_WORK),
                       options->lease_s);
    rc = get_plan(state, err);
    if (rc == SPSH_OK && !state->has_ended)
        rc = pack_planned(state, err);
    if (rc == SPSH_OK && state->has_ended)
        rc = end_published(state, err);
    return rc;
}

static spsh_status end_run(spsh__pack_state *state, spsh_status rc, spsh__pack_result *ret_result)
{
    take_corpora(state);
    if (rc == SPSH_OK)
        *ret_result = state->result;
    else
        spsh__pack_result_free(&state->result);
    end_state(state);
    return rc;
}

spsh_status spsh__pack_run(const spsh_pack_options *options, spsh__pack_result *ret_result,
                           spsh_error *err)
{
    spsh__pack_state state = {.options = options};
    int lock = -1;
    spsh_status rc = spsh__pack_paths_make(options->output, &state.paths, err);

    if (rc == SPSH_OK)
        rc = check_output(&state, err);
    if (rc == SPSH_OK)
        rc = run(&state, &lock, err);
    /* Parts do not take the lock. After a failure, one of them may be making the plan. */
    if (lock >= 0 && (rc == SPSH_OK || is_idle(&state, "plan", false)) &&
        !spsh__pack_has_plan(options->io, &state.paths)) {
        if (rc == SPSH_OK)
            spsh__pack_remove_work(options->io, &state.paths);
        else
            spsh__pack_remove_empty(options->io, &state.paths);
    }
    if (lock >= 0)
        (void)options->io->close_fn(options->io->user, lock);
    return end_run(&state, rc, ret_result);
}

/* ---- a merge without packing ---- */

/* Take from the plan what the call that made it was given. */
static void take_options(spsh__pack_state *state, spsh_pack_options *merging)
{
    merging->corpora = (const char *const *)state->plan.corpora;
    merging->corpus_count = state->plan.corpus_count;
    merging->dedupe = state->plan.dedupe;
    merging->is_strict = state->plan.is_strict;
    merging->rejects_max_ppm = state->plan.rejects_max_ppm;
}

static spsh_status fail_nothing(const spsh_pack_options *options, spsh_error *err)
{
    return SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                     "%s has neither a plan nor a dataset; pack its parts first", options->output);
}

static spsh_status merge_planned(spsh__pack_state *state, spsh_pack_options *merging,
                                 spsh_error *err)
{
    spsh_error cause = SPSH_ERROR_INIT;
    bool merged = false;

    spsh__claims_begin(&state->claims, merging->io, spsh__pack_path(&state->paths, SPSH__PACK_WORK),
                       merging->lease_s);
    spsh_status rc = spsh__plan_load(merging, spsh__pack_path(&state->paths, SPSH__PACK_WORK), true,
                                     &state->plan, &cause);

    if (rc == SPSH_E_NOT_FOUND && !is_published(state))
        return fail_nothing(merging, err);
    if (rc == SPSH_E_NOT_FOUND)
        return end_published(state, err);
    if (rc != SPSH_OK)
        return spsh__fail_again(rc, &cause, err);
    take_options(state, merging);
    state->result.row_count = state->plan.row_count;
    state->result.unit_count = state->plan.unit_count;
    state->result.planned = state->plan.item_count;
    rc = spsh__merge_run(state, true, &merged, err);
    if (rc == SPSH_OK && state->has_ended)
        rc = end_published(state, err);
    return rc;
}

spsh_status spsh__pack_merge_run(const spsh_pack_options *options, spsh__pack_result *ret_result,
                                 spsh_error *err)
{
    spsh_pack_options merging = *options;
    spsh__pack_state state = {.options = &merging};
    spsh_status rc = spsh__pack_paths_make(options->output, &state.paths, err);

    if (rc == SPSH_OK && spsh__pack_exists(options->io, &state.paths, SPSH__PACK_WORK))
        rc = spsh__pack_make_folders(options->io, &state.paths, err);
    if (rc == SPSH_OK)
        rc = merge_planned(&state, &merging, err);
    return end_run(&state, rc, ret_result);
}

void spsh__pack_result_free(spsh__pack_result *result)
{
    for (size_t i = 0; i < result->corpus_count; i++)
        free(result->corpora[i]);
    free(result->corpora);
    spsh__facts_free(result->facts);
    free(result->facts);
    *result = (spsh__pack_result){0};
}
