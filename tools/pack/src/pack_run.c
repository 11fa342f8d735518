/* pack_run.c: run a whole pack: lock, plan or resume, units, threshold, merge, reports, cleanup.
 *
 * Publishing the manifest completes the pack. Before it, everything except sealed shards is stored
 * in DATASET/.pack. After it, only the reports and the removal of .pack remain, and a rerun
 * finishes both.
 */
#include "pack_run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/file_names.h"
#include "common/jsonl.h"
#include "ingest/view/archive_index.h"
#include "plan/pack_plan.h"
#include "report/pack_report.h"
#include "speechshard/inside.h"
#include "unit/unit.h"

/* Up to this number of rejected rows never fails the threshold, whatever their share. */
#define REJECTS_ALWAYS_FINE UINT64_C(16)
#define MISSING_MAX_PPM     UINT64_C(200000)
#define MESSAGE_PATH_BYTES  ((size_t)150) /* maximum bytes of a path in a message */

enum { WORK, SHARDS, REPORTS, MANIFEST, LOCK, PLAN, PATHS };

/* Paths of the output folder and of entries in it, NUL-terminated. */
typedef struct paths {
    const char *output;
    spsh__builder all[PATHS];
} paths;

static spsh_status make_paths(const char *output, paths *ret, spsh_error *err)
{
    static const char *const names[PATHS] = {
        [WORK] = SPSH__PACK_WORK_DIRECTORY,
        [SHARDS] = "shards",
        [REPORTS] = "reports",
        [MANIFEST] = "manifest.spsh",
        [LOCK] = SPSH__PACK_WORK_DIRECTORY "/lock",
        [PLAN] = SPSH__PACK_WORK_DIRECTORY "/plan",
    };
    ret->output = output;
    for (size_t i = 0; i < PATHS; i++)
        if (spsh__builder_path(&ret->all[i], output, names[i]) == NULL)
            return SPSH_NO_MEMORY(err);
    return SPSH_OK;
}

static void free_paths(paths *p)
{
    for (size_t i = 0; i < PATHS; i++)
        spsh__builder_free(&p->all[i]);
}

static const char *path(const paths *p, size_t which)
{
    return (const char *)p->all[which].data;
}

static bool exists(const spsh_io *io, const char *name)
{
    struct stat state;
    return io->stat_fn(io->user, name, &state) == 0;
}

/* Remove every file in a directory whose name matches. */
static void remove_files(const spsh_io *io, const char *directory,
                         bool (*matches)(const char *name))
{
    DIR *open = opendir(directory);
    const struct dirent *entry = NULL;

    while (open != NULL && (entry = readdir(open)) != NULL) {
        spsh__builder file = {0};
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            !matches(entry->d_name))
            continue;
        if (spsh__builder_path(&file, directory, entry->d_name) != NULL)
            (void)io->unlink_fn(io->user, (const char *)file.data);
        spsh__builder_free(&file);
    }
    if (open != NULL)
        (void)closedir(open);
}

static bool is_temporary(const char *name)
{
    return strstr(name, ".tmp-") != NULL;
}

/* True for a file unpacked from an archive by a run that did not finish its plan. */
static bool is_unpacked(const char *name)
{
    return strncmp(name, SPSH__ARCHIVE_SPOOL_PREFIX, strlen(SPSH__ARCHIVE_SPOOL_PREFIX)) == 0;
}

static bool is_any(const char *name)
{
    return name[0] != '\0';
}

/* The lock of packs is held, so temporary files are leftovers of a killed run. Temporary files of
 * the manifest and the index can also belong to an editor. Opening the dataset's own lock removes
 * them if no editor holds it. */
static void remove_temporaries(const spsh_io *io, const paths *p)
{
    spsh_dataset_lock *lock = NULL;
    if (spsh_dataset_lock_open(p->output, io, &lock, NULL) == SPSH_OK)
        spsh_dataset_lock_close(lock);
    remove_files(io, path(p, WORK), is_temporary);
    remove_files(io, path(p, SHARDS), is_temporary);
    remove_files(io, path(p, REPORTS), is_temporary);
}

/* Delete the plan's journal first and sync the directory. Without the journal the other files have
 * no effect, but a journal without its files would stop every later run. */
static void remove_work(const spsh_io *io, const paths *p)
{
    if (io->unlink_fn(io->user, path(p, PLAN)) != 0 && exists(io, path(p, PLAN)))
        return;
    if (spsh_io_sync_directory(io, path(p, WORK), NULL) != SPSH_OK)
        return;
    remove_files(io, path(p, WORK), is_any);
    (void)io->rmdir_fn(io->user, path(p, WORK));
}

/* Remove everything that a pack without output created. rmdir keeps directories that are not empty.
 */
static void remove_empty(const spsh_io *io, const paths *p)
{
    remove_work(io, p);
    (void)io->rmdir_fn(io->user, path(p, SHARDS));
    (void)io->rmdir_fn(io->user, path(p, REPORTS));
    (void)io->rmdir_fn(io->user, p->output);
}

/* Take the lock. The kernel releases it when the process ends, so a killed run leaves no stale
 * lock. */
static spsh_status take_lock(const spsh_io *io, const paths *p, int *ret_fd, spsh_error *err)
{
    int fd = io->open_fn(io->user, path(p, LOCK), O_RDWR | O_CREAT | O_CLOEXEC, 0666);

    if (fd < 0)
        return SPSH_FAIL_OS(err, spsh_io_status(-fd), -fd, "%s: %s", path(p, LOCK), strerror(-fd));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        (void)io->close_fn(io->user, fd);
        return SPSH_FAIL(err, SPSH_E_EXISTS,
                         "%s: another pack is writing to it; wait until that one has finished",
                         p->output);
    }
    *ret_fd = fd;
    return SPSH_OK;
}

static spsh_status make_directories(const spsh_io *io, const paths *p, spsh_error *err)
{
    const char *const all[] = {p->output, path(p, WORK), path(p, SHARDS), path(p, REPORTS)};
    spsh_status rc = SPSH_OK;

    for (size_t i = 0; rc == SPSH_OK && i < sizeof(all) / sizeof(all[0]); i++)
        rc = spsh_io_make_directory(io, all[i], err);
    return rc;
}

static void log_line(const spsh_pack_options *options, const char *line)
{
    if (options->log_fn != NULL)
        options->log_fn(options->user, SPSH_LOG_INFO, line);
}

static spsh_status get_plan(const spsh_pack_options *options, const paths *p, spsh__plan *plan,
                            spsh_error *err)
{
    spsh_status rc = spsh__plan_load(options, path(p, WORK), plan, err);

    if (rc == SPSH_OK)
        log_line(options, "resuming an interrupted pack");
    if (rc == SPSH_E_NOT_FOUND) {
        remove_files(options->io, path(p, WORK), is_unpacked);
        rc = spsh__plan_build(options, path(p, WORK), plan, err);
    }
    if (rc == SPSH_OK) {
        char line[160];
        (void)snprintf(line, sizeof(line), "%" PRIu64 " utterance%s to pack in %" PRIu64 " unit%s",
                       plan->item_count, plan->item_count == 1 ? "" : "s", plan->unit_count,
                       plan->unit_count == 1 ? "" : "s");
        log_line(options, line);
    }
    return rc;
}

/* Check whether the existing dataset is the one of this plan. The dataset ids are compared, and no
 * audio is read again. */
static spsh_status check_published(const spsh_pack_options *options, const spsh__plan *plan,
                                   spsh__pack_result *result, spsh_error *err)
{
    spsh_dataset_options opening = SPSH_DATASET_OPTIONS_INIT;
    spsh_dataset *dataset = NULL;

    opening.io = options->io;
    spsh_status rc = spsh_dataset_open(options->output, &opening, &dataset, err);
    if (rc != SPSH_OK)
        return rc;
    result->info = *spsh_dataset_info_get(dataset);
    spsh_dataset_close(dataset);
    if (memcmp(result->info.dataset_id, plan->dataset_id, sizeof(plan->dataset_id)) != 0)
        return SPSH_FAIL(
            err, SPSH_E_EXISTS,
            "%s holds a dataset of other corpora or options; choose another output, or remove it",
            options->output);
    result->already_packed = true;
    result->counts.packed = result->info.utterance_count;
    return SPSH_OK;
}

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
static spsh_status check_damage(const spsh_pack_options *options, const spsh__plan *plan,
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

static spsh_status merge(const spsh_pack_options *options, const spsh__plan *plan,
                         const spsh__packed *packed, spsh__pack_result *result, spsh_error *err)
{
    spsh_publish_options publish = SPSH_PUBLISH_OPTIONS_INIT;

    spsh_status rc = spsh__pack_progress(options, "merge", 0, 0, err);
    if (rc != SPSH_OK)
        return rc;
    publish.io = options->io;
    publish.path = options->output;
    memcpy(publish.dataset_id, plan->dataset_id, sizeof(publish.dataset_id));
    publish.seals = packed->seals;
    publish.seal_count = packed->seal_count;
    publish.dedupe = (spsh_dedupe)(options->dedupe - SPSH_PACK_DEDUPE_NONE);
    publish.options_json = (spsh_bytes){plan->options.data, plan->options.size_bytes};
    publish.reject_count = spsh__reject_rows(&result->rejects);
    publish.source_row_count = result->row_count;
    publish.memory_bytes = options->memory_bytes;
    publish.progress_fn = options->progress_fn;
    publish.progress_user = options->user;
    result->info = (spsh_dataset_info)SPSH_DATASET_INFO_INIT;
    rc = spsh_dataset_publish(&publish, &result->info, err);
    return rc == SPSH_E_CANCELED ? spsh__pack_canceled(err) : rc;
}

static spsh_status pack_units(const spsh_pack_options *options, const paths *p,
                              const spsh__plan *plan, spsh__packed *packed, spsh_error *err)
{
    const spsh__unit_context context = {options, plan, path(p, WORK), path(p, SHARDS)};
    spsh_status rc = SPSH_OK;

    for (uint64_t unit = 0; rc == SPSH_OK && unit < plan->unit_count; unit++)
        rc = spsh__unit_pack(&context, unit, packed, err);
    return rc;
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
static spsh_status report(const spsh_pack_options *options, const paths *p, spsh__plan *plan,
                          spsh__packed *packed, spsh__pack_result *result, spsh_error *err)
{
    spsh_dataset_options opening = SPSH_DATASET_OPTIONS_INIT;
    spsh_dataset *dataset = NULL;

    opening.io = options->io;
    opening.flags = SPSH_DATASET_IGNORE_OVERLAYS;
    spsh_status rc = spsh_dataset_open(options->output, &opening, &dataset, err);
    if (rc == SPSH_OK)
        rc = spsh__facts_gather(result, plan, packed, dataset, result->facts, err);
    spsh_dataset_close(dataset);
    if (rc == SPSH_OK)
        rc = spsh__report_write(options, path(p, REPORTS), result->facts, err);
    return rc;
}

static spsh_status finish(const spsh_pack_options *options, const paths *p, spsh__plan *plan,
                          spsh__packed *packed, spsh__pack_result *result, spsh_error *err)
{
    spsh_status rc = check_balance(plan, packed, err);

    result->facts = calloc(1, sizeof(*result->facts));
    if (rc == SPSH_OK && result->facts == NULL)
        rc = SPSH_NO_MEMORY(err);
    if (rc == SPSH_OK)
        rc = spsh__report_write_rejects(options, path(p, WORK), path(p, REPORTS), packed,
                                        &result->facts->examples, err);
    if (rc != SPSH_OK)
        return rc;
    result->too_many_rejects = too_many_rejects(options, result);
    if (options->is_strict && spsh__reject_rows(&result->rejects) > 0) {
        result->withheld = true;
        return spsh__facts_gather(result, plan, packed, NULL, result->facts, err);
    }
    if (result->counts.packed == 0) {
        remove_work(options->io, p); /* the next run must scan the repaired corpus again */
        return fail_empty(options, result, err);
    }
    rc = merge(options, plan, packed, result, err);
    if (rc == SPSH_OK)
        rc = report(options, p, plan, packed, result, err);
    if (rc == SPSH_OK)
        remove_work(options->io, p);
    return rc;
}

/* Pack the utterances of the plan and publish them. If a killed run has already published, only
 * finish its work. */
static spsh_status pack_plan(const spsh_pack_options *options, const paths *p, spsh__plan *plan,
                             spsh__pack_result *result, spsh_error *err)
{
    spsh__packed packed = {0};
    spsh_status rc = spsh__packed_begin(&packed, plan) ? pack_units(options, p, plan, &packed, err)
                                                       : SPSH_NO_MEMORY(err);

    if (rc == SPSH_OK) {
        result->counts = packed.counts;
        result->rejects = plan->rejects;
        spsh__reject_counts_add(&result->rejects, &packed.rejects);
        result->decode_ns = packed.decode_ns;
        result->decode_audio_ms = packed.decode_audio_ms;
        rc = finish(options, p, plan, &packed, result, err);
    }
    spsh__packed_free(&packed);
    return rc;
}

static spsh_status pack_locked(const spsh_pack_options *options, const paths *p,
                               spsh__pack_result *result, spsh_error *err)
{
    spsh__plan plan = {0};

    remove_temporaries(options->io, p);
    spsh_status rc = get_plan(options, p, &plan, err);
    if (rc != SPSH_OK)
        return rc;
    result->row_count = plan.row_count;
    rc = check_damage(options, &plan, err);
    if (rc != SPSH_OK) {
        remove_work(options->io, p); /* the next run must read replaced files */
        spsh__plan_free(&plan);
        return rc;
    }
    if (exists(options->io, path(p, MANIFEST)) && !plan.loaded) {
        /* The dataset is published and complete. The plan was made only to compare it. */
        rc = check_published(options, &plan, result, err);
        remove_work(options->io, p);
    } else {
        rc = pack_plan(options, p, &plan, result, err);
    }
    spsh__plan_free(&plan);
    return rc;
}

/* True for "." and "..", and for the folders that a pack leaves if it has nothing to publish. */
static bool is_ours(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, "reports") == 0 ||
           strcmp(name, "shards") == 0;
}

/* An existing directory must be a dataset, finished or not, or empty. */
static spsh_status check_output(const spsh_pack_options *options, const paths *p, spsh_error *err)
{
    bool foreign = false;
    DIR *open = opendir(options->output);
    const struct dirent *entry = NULL;

    while (open != NULL && (entry = readdir(open)) != NULL)
        foreign = foreign || !is_ours(entry->d_name);
    if (open != NULL)
        (void)closedir(open);
    if (foreign && !exists(options->io, path(p, MANIFEST)) && !exists(options->io, path(p, WORK)))
        return SPSH_FAIL(err, SPSH_E_EXISTS,
                         "%s is not empty and not a dataset; choose another output",
                         options->output);
    return SPSH_OK;
}

spsh_status spsh__pack_run(const spsh_pack_options *options, spsh__pack_result *ret_result,
                           spsh_error *err)
{
    spsh__pack_result result = {0};
    paths p = {0};
    int lock = -1;
    spsh_status rc = make_paths(options->output, &p, err);

    if (rc == SPSH_OK)
        rc = check_output(options, &p, err);
    if (rc == SPSH_OK)
        rc = make_directories(options->io, &p, err);
    if (rc == SPSH_OK)
        rc = take_lock(options->io, &p, &lock, err);
    if (rc == SPSH_OK)
        rc = pack_locked(options, &p, &result, err);
    if (rc != SPSH_OK && lock >= 0 && !exists(options->io, path(&p, PLAN)))
        remove_empty(options->io, &p);
    if (lock >= 0)
        (void)options->io->close_fn(options->io->user, lock);
    free_paths(&p);
    if (rc == SPSH_OK)
        *ret_result = result;
    else
        spsh__pack_result_free(&result);
    return rc;
}

void spsh__pack_result_free(spsh__pack_result *result)
{
    spsh__facts_free(result->facts);
    free(result->facts);
    *result = (spsh__pack_result){0};
}
