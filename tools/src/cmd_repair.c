/* cmd_repair.c: `speechshard repair`: rebuild the files that verify reports, or save the rest into
 * a new dataset if bytes are lost.
 *
 *     verify -> damaged files
 *     -o OUT:       units without damage are linked, the others repaired shard by shard; publish;
 *                   overlays; verify and open the result
 *     --in-place:   only files that can be restored byte for byte; a damaged file is kept as
 *                   FILE.damaged
 *     SHARD -o DIR: only that shard
 *
 * The damaged dataset is only read, and with --in-place only renamed.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "commands.h"
#include "print/damage_out.h"
#include "speechshard/publish.h"

enum { PATH_BYTES = 4400, DAMAGED_MAX = 1 << 20 };

typedef struct shard_state {
    spsh_shard_seal seal; /* seal of the original, if known; later the seal of the output */
    bool known;           /* the manifest describes the original */
    bool damaged;
} shard_state;

typedef struct job {
    const char *path, *output;
    bool in_place, json;
    spsh_json *object;
    spsh_progress progress;
    bool print_failed;
    spsh_repair_manifest *manifest; /* NULL: no manifest is readable */
    uint8_t dataset_id[16];
    shard_state *shards;
    uint64_t shard_count;
    bool index_damaged, manifest_damaged;
    bool other_damage; /* overlays and derived files, which --in-place cannot restore */
    uint64_t damage_count, lost_records, lost_utterances, lost_edits, repaired;
} job;

/* Join directory and name. Reports a path that is too long, and returns false. */
static bool join(char dst[PATH_BYTES], const char *directory, const char *name)
{
    const int length = snprintf(dst, PATH_BYTES, "%s/%s", directory, name);
    if (length > 0 && length < PATH_BYTES)
        return true;
    spsh__cli_error("%s: the path is too long", directory);
    return false;
}

/* Names of a shard: in its folder, in the dataset ("shards/..."), and its path. */
typedef struct shard_names {
    char base[32], name[48], path[PATH_BYTES];
} shard_names;

/* Make the names. Reports a path that is too long, and returns false. */
static bool name_shard(const job *j, uint64_t n, shard_names *ret_names)
{
    spsh_shard_file_name(j->shards[n].seal.unit, j->shards[n].seal.number, ret_names->base);
    (void)snprintf(ret_names->name, sizeof(ret_names->name), "shards/%s", ret_names->base);
    return join(ret_names->path, j->path, ret_names->name);
}

/* ---- finding the damage ---- */

static int report(job *j, const char *type, const spsh_damage *damage)
{
    spsh__progress_clear();
    if (j->json)
        j->print_failed = !spsh__damage_print_json(j->object, type, j->path, damage);
    else
        spsh__damage_print(damage);
    return j->print_failed || spsh__cli_output_failed();
}

static int on_damage(void *user, const spsh_damage *damage)
{
    job *j = (job *)user;
    shard_names names;
    j->damage_count++;
    for (uint64_t n = 0; n < j->shard_count; n++) {
        if (name_shard(j, n, &names) && strcmp(names.name, damage->file) == 0) {
            j->shards[n].damaged = true;
            return 0;
        }
    }
    if (strncmp(damage->file, "index-", 6) == 0)
        j->index_damaged = true;
    else if (strncmp(damage->file, "manifest", 8) == 0)
        j->manifest_damaged = true;
    else
        j->other_damage = true;
    return report(j, "damage", damage);
}

static int on_loss(void *user, const spsh_damage *damage)
{
    return report((job *)user, "lost", damage);
}

static int on_lost_edit(void *user, const spsh_damage *damage)
{
    job *j = (job *)user;
    j->lost_edits++;
    return report(j, "lost", damage);
}

/* Report damage of the output, because no other callback does. */
static int on_output_damage(void *user, const spsh_damage *damage)
{
    return report((job *)user, "damage", damage);
}

static int on_progress(void *user, const char *phase, uint64_t done_bytes, uint64_t total_bytes)
{
    (void)phase;
    job *j = (job *)user;
    j->progress.total = total_bytes;
    spsh__progress_update(&j->progress, done_bytes, NULL);
    return 0;
}

/* ---- finding the shards ---- */

static int compare_shards(const void *a, const void *b)
{
    const shard_state *left = (const shard_state *)a, *right = (const shard_state *)b;
    if (left->seal.unit != right->seal.unit)
        return left->seal.unit < right->seal.unit ? -1 : 1;
    return left->seal.number < right->seal.number ? -1 : left->seal.number > right->seal.number;
}

static bool parse_shard_name(const char *name, spsh_shard_seal *seal)
{
    char again[32];
    unsigned long long unit = 0;
    unsigned number = 0;
    if (sscanf(name, "%6llu-%3u.spsh", &unit, &number) != 2) /* NOLINT: the name is made again */
        return false;
    spsh_shard_file_name(unit, number, again);
    seal->unit = unit;
    seal->number = number;
    return strcmp(again, name) == 0;
}

/* Verify a shard by itself. expected: its seal; NULL: not known. *ret_seal is set if it opens. */
static bool is_shard_damaged(const job *j, uint64_t n, const spsh_shard_seal *expected,
                             spsh_shard_seal *ret_seal)
{
    shard_names names;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_verify_options opt = SPSH_VERIFY_OPTIONS_INIT;
    spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
    spsh_shard_options as_sealed = SPSH_SHARD_OPTIONS_INIT;
    spsh_shard *shard = NULL;
    as_sealed.expected = expected;
    const bool is_damaged = !name_shard(j, n, &names) ||
                            spsh_verify(names.path, &opt, &result, &err) != SPSH_OK ||
                            result.damage_count != 0 ||
                            spsh_shard_open(names.path, &as_sealed, &shard, &err) != SPSH_OK;
    if (shard != NULL)
        *ret_seal = *spsh_shard_info(shard);
    spsh_shard_close(shard);
    return is_damaged;
}

/* Without a manifest, list the directory. A shard that opens identifies itself. */
static int list_directory(job *j)
{
    char directory[PATH_BYTES], path[PATH_BYTES];
    DIR *listing = join(directory, j->path, "shards") ? opendir(directory) : NULL;
    if (listing == NULL) {
        spsh__cli_error("%s: no manifest and no shards: not a dataset", j->path);
        return SPSH_EXIT_FAILED;
    }
    const struct dirent *entry = NULL;
    while ((entry = readdir(listing)) != NULL) { /* NOLINT(concurrency-mt-unsafe): one thread */
        spsh_shard_seal seal = {.unit = 0};
        if (!parse_shard_name(entry->d_name, &seal) || j->shard_count == DAMAGED_MAX ||
            !join(path, directory, entry->d_name))
            continue;
        shard_state *grown =
            (shard_state *)realloc(j->shards, ((size_t)j->shard_count + 1) * sizeof(*j->shards));
        if (grown == NULL) {
            (void)closedir(listing);
            return spsh__cli_fail_memory();
        }
        j->shards = grown;
        j->shards[j->shard_count++] = (shard_state){.seal = seal};
    }
    (void)closedir(listing);
    if (j->shard_count != 0)
        qsort(j->shards, (size_t)j->shard_count, sizeof(*j->shards), compare_shards);
    for (uint64_t n = 0; n < j->shard_count; n++) {
        spsh_shard_seal seal = j->shards[n].seal;
        j->shards[n].damaged = is_shard_damaged(j, n, NULL, &seal);
        j->shards[n].seal = seal;
        j->damage_count += j->shards[n].damaged;
    }
    return SPSH_EXIT_DONE;
}

static int list_manifest(job *j)
{
    memcpy(j->dataset_id, j->manifest->info->dataset_id, 16);
    j->shard_count = j->manifest->info->shard_count;
    j->shards = (shard_state *)calloc((size_t)j->shard_count + 1, sizeof(*j->shards));
    if (j->shards == NULL)
        return spsh__cli_fail_memory();
    for (uint64_t n = 0; n < j->shard_count; n++)
        j->shards[n] = (shard_state){.seal = j->manifest->seals[n], .known = true};
    return SPSH_EXIT_DONE;
}

/* Find the dataset's id in any shard with a good header. Repair also reads the id from its shard,
 * but publish needs it as well. */
static bool find_dataset_id(job *j)
{
    for (uint64_t n = 0; n < j->shard_count; n++) {
        shard_names names;
        uint8_t header[96];
        if (j->shards[n].damaged || !name_shard(j, n, &names))
            continue;
        FILE *file = fopen(names.path, "rb");
        const bool came = file != NULL && fread(header, 1, sizeof(header), file) == sizeof(header);
        if (file != NULL)
            (void)fclose(file);
        if (!came)
            continue;
        memcpy(j->dataset_id, header + 64, 16);
        return true;
    }
    return false;
}

/* verify stops at a damaged manifest.spsh. Then each shard is verified by itself, against the seal
 * that an older generation has of it. */
static void examine_shards(job *j)
{
    for (uint64_t n = 0; n < j->shard_count; n++) {
        spsh_shard_seal seal;
        j->shards[n].damaged = is_shard_damaged(j, n, &j->manifest->seals[n], &seal);
    }
}

/* Verify a dataset or a shard under a progress line. */
static spsh_status verify(job *j, const char *path,
                          int (*damage_fn)(void *user, const spsh_damage *damage),
                          uint64_t *ret_damage_count, spsh_error *err)
{
    spsh_verify_options opt = SPSH_VERIFY_OPTIONS_INIT;
    spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
    opt.damage_fn = damage_fn;
    opt.progress_fn = on_progress;
    opt.user = j;
    spsh__progress_begin(&j->progress, "verify", "B", 0);
    spsh_status rc = spsh_verify(path, &opt, &result, err);
    spsh__progress_end(&j->progress);
    *ret_damage_count = result.damage_count;
    return rc;
}

static int examine(job *j)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = spsh_repair_manifest_open(j->path, NULL, &j->manifest, &err);
    if (rc == SPSH_E_NO_MEMORY)
        return spsh__cli_fail_memory();
    int status = j->manifest != NULL ? list_manifest(j) : list_directory(j);
    if (status != SPSH_EXIT_DONE)
        return status;
    if (j->manifest != NULL && j->manifest->newest) {
        uint64_t damage_count = 0;
        rc = verify(j, j->path, on_damage, &damage_count, &err);
        return rc == SPSH_OK ? SPSH_EXIT_DONE : spsh__cli_fail(NULL, &err);
    }
    spsh__cli_error("manifest.spsh cannot be read (%s)", err.message);
    j->manifest_damaged = true;
    j->damage_count++;
    if (j->manifest != NULL) {
        examine_shards(j);
        return SPSH_EXIT_DONE;
    }
    if (find_dataset_id(j))
        return SPSH_EXIT_DONE;
    spsh__cli_error("%s: no intact shard contains the dataset's id", j->path);
    return SPSH_EXIT_FAILED;
}

/* ---- repairing ---- */

static int repair_one(job *j, uint64_t n, const char *directory, spsh_repair_unit *unit,
                      spsh_repair_result *ret_result)
{
    shard_names names;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_repair_options opt = SPSH_REPAIR_OPTIONS_INIT;
    opt.damage_fn = on_loss;
    opt.user = j;
    opt.expected = j->shards[n].known ? &j->manifest->seals[n] : NULL;
    opt.unit = unit;
    if (!name_shard(j, n, &names))
        return SPSH_EXIT_FAILED;
    if (spsh_repair_shard(names.path, j->dataset_id, directory, &opt, ret_result, &err) != SPSH_OK)
        return spsh__cli_fail(NULL, &err);
    return SPSH_EXIT_DONE;
}

static void count_result(job *j, const spsh_repair_result *result)
{
    char name[32];
    spsh_shard_file_name(result->seal.unit, result->seal.number, name);
    j->lost_records += result->records_lost;
    j->lost_utterances += result->utterances_lost;
    j->repaired++;
    if (result->identical)
        spsh__cli_message("shards/%s: rebuilt, identical to the sealed shard", name);
    else
        spsh__cli_message("shards/%s: kept %" PRIu64 " recordings and %" PRIu64
                          " utterances; lost %" PRIu64 " and %" PRIu64,
                          name, result->records_kept, result->utterances_kept, result->records_lost,
                          result->utterances_lost);
}

/* Link the file, because sealed files never change. Copy it if it is on another file system. */
static int take_shard(job *j, uint64_t n, const char *directory)
{
    shard_names names;
    char to[PATH_BYTES];
    if (!name_shard(j, n, &names) || !join(to, directory, names.base))
        return SPSH_EXIT_FAILED;
    spsh_repair_result result = SPSH_REPAIR_RESULT_INIT;
    return link(names.path, to) == 0 ? SPSH_EXIT_DONE : repair_one(j, n, directory, NULL, &result);
}

/* Repair shards begin to end - 1, which are all of one unit. */
static int repair_unit(job *j, uint64_t begin, uint64_t end, const char *directory)
{
    spsh_repair_unit *unit = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    bool damaged = false;
    int status = SPSH_EXIT_DONE;
    for (uint64_t n = begin; n < end; n++)
        damaged = damaged || j->shards[n].damaged;
    if (damaged && spsh_repair_unit_open(NULL, &unit, &err) != SPSH_OK)
        return spsh__cli_fail(NULL, &err);
    for (uint64_t n = begin; n < end && status == SPSH_EXIT_DONE; n++) {
        spsh_repair_result result = SPSH_REPAIR_RESULT_INIT;
        if (!damaged) {
            status = take_shard(j, n, directory);
            continue;
        }
        status = repair_one(j, n, directory, unit, &result);
        if (status == SPSH_EXIT_DONE && (j->shards[n].damaged || !result.identical))
            count_result(j, &result);
        if (status == SPSH_EXIT_DONE)
            j->shards[n].seal = result.seal;
    }
    spsh_repair_unit_close(unit);
    return status;
}

/* Return the --dedupe option of pack. Without a manifest, guess: copies are compared in full, so a
 * wrong guess only affects which duplicates are marked. */
static spsh_dedupe dedupe_of(const job *j)
{
    spsh_dedupe dedupe = SPSH_DEDUPE_BYTES;
    if (j->manifest == NULL)
        return dedupe;
    char *word = spsh__json_find_text(j->manifest->options_json, "dedupe");
    if (word != NULL && strcmp(word, "none") == 0)
        dedupe = SPSH_DEDUPE_NONE;
    else if (word != NULL && strcmp(word, "pcm") == 0)
        dedupe = SPSH_DEDUPE_PCM;
    free(word);
    return dedupe;
}

static int publish(job *j, const char *path)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_publish_options opt = SPSH_PUBLISH_OPTIONS_INIT;
    spsh_shard_seal *seals = (spsh_shard_seal *)calloc((size_t)j->shard_count + 1, sizeof(*seals));
    if (seals == NULL)
        return spsh__cli_fail_memory();
    for (uint64_t n = 0; n < j->shard_count; n++)
        seals[n] = j->shards[n].seal;
    opt.path = path;
    memcpy(opt.dataset_id, j->dataset_id, 16);
    opt.seals = seals;
    opt.seal_count = j->shard_count;
    opt.dedupe = dedupe_of(j);
    opt.is_locked = j->in_place;
    opt.options_json = (spsh_bytes){(const uint8_t *)"{}", 2};
    opt.log_fn = spsh__cli_log;
    if (j->manifest != NULL) {
        opt.options_json = j->manifest->options_json;
        opt.reject_count = j->manifest->info->reject_count;
        opt.source_row_count = j->manifest->info->source_row_count;
    }
    spsh_status rc = spsh_dataset_publish(&opt, NULL, &err);
    free(seals);
    return rc == SPSH_OK ? SPSH_EXIT_DONE : spsh__cli_fail(NULL, &err);
}

static int make_directory(const char *path)
{
    if (mkdir(path, 0777) == 0)
        return SPSH_EXIT_DONE;
    spsh__cli_error("%s: cannot create the directory: %s", path,
                    errno == EEXIST ? "it already exists; give a new path" : strerror(errno));
    return SPSH_EXIT_FAILED;
}

/* Verify and open the output. path: a dataset or a shard. */
static int check_output(job *j, const char *path, bool is_dataset)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_dataset *dataset = NULL;
    spsh_shard *shard = NULL;
    uint64_t damage_count = 0;
    spsh_status rc = verify(j, path, on_output_damage, &damage_count, &err);
    if (rc == SPSH_OK && damage_count != 0) {
        spsh__cli_error("%s: still damaged after the repair; the damage is listed above", path);
        return SPSH_EXIT_FAILED;
    }
    if (rc == SPSH_OK)
        rc = is_dataset ? spsh_dataset_open(path, NULL, &dataset, &err)
                        : spsh_shard_open(path, NULL, &shard, &err);
    spsh_shard_close(shard);
    spsh_dataset_close(dataset);
    return rc == SPSH_OK ? SPSH_EXIT_DONE : spsh__cli_fail("the repaired file", &err);
}

/* Report the options of pack and the number of rejects as lost: only manifests have them, and no
 * manifest is readable. */
static int lose_pack_options(job *j)
{
    const spsh_damage damage = {.file = "manifest.spsh",
                                .part = "pack options",
                                .offset_bytes = SPSH_OFFSET_NONE,
                                .message =
                                    "lost, with the counts of rejected rows and source rows"};
    return on_loss(j, &damage);
}

static int carry_overlays(job *j)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_repair_options opt = SPSH_REPAIR_OPTIONS_INIT;
    opt.damage_fn = on_lost_edit;
    opt.user = j;
    return spsh_repair_overlays(j->path, j->output, &opt, NULL, &err) == SPSH_OK
               ? SPSH_EXIT_DONE
               : spsh__cli_fail("overlays", &err);
}

static bool nothing_is_lost(const job *j)
{
    return j->lost_records + j->lost_utterances + j->lost_edits == 0 && j->manifest != NULL;
}

static int repair_to_output(job *j)
{
    char directory[PATH_BYTES];
    if (!join(directory, j->output, "shards"))
        return SPSH_EXIT_FAILED;
    int status = make_directory(j->output);
    if (status == SPSH_EXIT_DONE)
        status = make_directory(directory);
    for (uint64_t begin = 0, end = 0; begin < j->shard_count && status == SPSH_EXIT_DONE;
         begin = end) {
        while (end < j->shard_count && j->shards[end].seal.unit == j->shards[begin].seal.unit)
            end++;
        status = repair_unit(j, begin, end, directory);
    }
    if (status == SPSH_EXIT_DONE)
        status = publish(j, j->output);
    if (status == SPSH_EXIT_DONE && j->manifest == NULL && lose_pack_options(j) != 0)
        return SPSH_EXIT_FAILED;
    if (status == SPSH_EXIT_DONE)
        status = carry_overlays(j);
    if (status == SPSH_EXIT_DONE)
        status = check_output(j, j->output, true);
    if (status != SPSH_EXIT_DONE)
        return status;
    spsh__cli_message(
        "%s: %" PRIu64 " shards, %" PRIu64 " of them repaired; lost %" PRIu64
        " recordings and %" PRIu64 " utterances; %" PRIu64 " overlays lost or in doubt",
        j->output, j->shard_count, j->repaired, j->lost_records, j->lost_utterances, j->lost_edits);
    return nothing_is_lost(j) ? SPSH_EXIT_DONE : SPSH_EXIT_FAILED;
}

/* ---- in place ---- */

static bool aside_path(char dst[PATH_BYTES], const char *path)
{
    const int length = snprintf(dst, PATH_BYTES, "%s.damaged", path);
    return length > 0 && length < PATH_BYTES;
}

/* Rename FILE to FILE.damaged and put the rebuilt file in its place. A hard link keeps FILE present
 * at every moment. Without hard links, a kill may leave only FILE.damaged: see take_back. */
static int replace(const char *rebuilt, const char *path)
{
    char aside[PATH_BYTES];
    const bool fits = aside_path(aside, path);
    if (fits)
        (void)unlink(aside);
    if (!fits || (link(path, aside) != 0 && rename(path, aside) != 0) ||
        rename(rebuilt, path) != 0) {
        spsh__cli_error("%s: cannot replace the file: %s", path, strerror(errno));
        return SPSH_EXIT_FAILED;
    }
    return SPSH_EXIT_DONE;
}

/* Undo the first step of replace if a kill prevented the second: repair needs the damaged file. */
static void take_back(const char *path)
{
    char aside[PATH_BYTES];
    struct stat info;
    if (stat(path, &info) != 0 && errno == ENOENT && aside_path(aside, path))
        (void)rename(aside, path);
}

static int repair_shard_in_place(job *j, uint64_t n, const char *directory)
{
    shard_names names;
    char rebuilt[PATH_BYTES];
    spsh_repair_result result = SPSH_REPAIR_RESULT_INIT;
    if (!name_shard(j, n, &names) || !join(rebuilt, directory, names.base))
        return SPSH_EXIT_FAILED;
    take_back(names.path);
    int status = repair_one(j, n, directory, NULL, &result);
    if (status != SPSH_EXIT_DONE)
        return status;
    if (!result.identical) {
        (void)unlink(rebuilt);
        spsh__cli_error("%s: cannot be restored exactly; save the rest of the dataset with -o",
                        names.name);
        return SPSH_EXIT_FAILED;
    }
    status = check_output(j, rebuilt, false);
    if (status == SPSH_EXIT_DONE)
        status = replace(rebuilt, names.path);
    if (status == SPSH_EXIT_DONE)
        count_result(j, &result);
    return status;
}

/* Rebuild the index from the shards. publish compares an existing file of that name with the new
 * index. So move the damaged file aside first, and move it back if nothing replaces it. */
static int rebuild_index(job *j)
{
    char path[PATH_BYTES], aside[PATH_BYTES];
    struct stat info;
    if (!join(path, j->path, "index-00000001.spsh") || !aside_path(aside, path))
        return SPSH_EXIT_FAILED;
    const bool moved = rename(path, aside) == 0;
    int status = publish(j, j->path);
    if (stat(path, &info) != 0 && moved)
        (void)rename(aside, path);
    if (status == SPSH_EXIT_DONE)
        spsh__cli_message("index-00000001.spsh: rebuilt");
    return status;
}

/* Rebuild the damaged files. The caller holds the dataset's lock. */
static int repair_files(job *j)
{
    char directory[PATH_BYTES];
    int status = SPSH_EXIT_DONE;
    if (!join(directory, j->path, "repair.tmp"))
        return SPSH_EXIT_FAILED;
    if (mkdir(directory, 0777) != 0 && errno != EEXIST)
        return make_directory(directory);
    for (uint64_t n = 0; n < j->shard_count; n++)
        if (j->shards[n].damaged && repair_shard_in_place(j, n, directory) != SPSH_EXIT_DONE)
            status = SPSH_EXIT_FAILED;
    (void)rmdir(directory);
    if (j->index_damaged && status == SPSH_EXIT_DONE)
        status = rebuild_index(j);
    return status;
}

static int repair_in_place(job *j)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_dataset_lock *lock = NULL;
    if (j->manifest_damaged || j->other_damage) {
        spsh__cli_error("%s: a manifest, an overlay, or a file of fingerprints or statistics is "
                        "damaged; repair in place cannot rebuild it; write a new dataset with -o",
                        j->path);
        return SPSH_EXIT_FAILED;
    }
    if (spsh_dataset_lock_open(j->path, NULL, &lock, &err) != SPSH_OK)
        return spsh__cli_fail(NULL, &err);
    int status = repair_files(j);
    spsh_dataset_lock_close(lock);
    if (status == SPSH_EXIT_DONE)
        status = check_output(j, j->path, true);
    if (status == SPSH_EXIT_DONE)
        spsh__cli_message("%s: %" PRIu64 " shards rebuilt; the damaged files are kept as "
                          "*.damaged",
                          j->path, j->repaired);
    return status;
}

/* ---- the command ---- */

static int repair_dataset(job *j)
{
    int status = examine(j);
    if (status == SPSH_EXIT_DONE && j->damage_count == 0 && j->in_place)
        spsh_dataset_leftovers_remove(j->path, NULL);
    if (status == SPSH_EXIT_DONE && j->damage_count == 0)
        spsh__cli_message("%s: no damage, nothing to repair", j->path);
    else if (status == SPSH_EXIT_DONE)
        status = j->in_place ? repair_in_place(j) : repair_to_output(j);
    spsh_repair_manifest_close(j->manifest);
    free(j->shards);
    return status;
}

static bool is_shard(void *user, const char *name, size_t name_bytes)
{
    char shard[32];
    spsh_shard_seal seal = {.unit = 0};
    (void)user;
    const int length = snprintf(shard, sizeof(shard), "%.*s", (int)name_bytes, name);
    return length > 0 && length < (int)sizeof(shard) && parse_shard_name(shard, &seal);
}

/* Repair one shard file. If it is in a dataset with a readable manifest, the manifest describes the
 * original. */
static int repair_file(job *j)
{
    char above[PATH_BYTES], written[PATH_BYTES], written_name[32];
    const char *slash = strrchr(j->path, '/');
    const char *name = slash != NULL ? slash + 1 : j->path;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_repair_options opt = SPSH_REPAIR_OPTIONS_INIT;
    spsh_repair_result result = SPSH_REPAIR_RESULT_INIT;
    spsh_shard_seal named = {.unit = 0};
    int length = snprintf(above, sizeof(above), "%.*s..", (int)(name - j->path), j->path);
    opt.damage_fn = on_loss;
    opt.user = j;
    if (length > 0 && length < PATH_BYTES && parse_shard_name(name, &named) &&
        spsh_repair_manifest_open(above, NULL, &j->manifest, &err) == SPSH_OK)
        for (uint64_t n = 0; n < j->manifest->info->shard_count; n++)
            if (j->manifest->seals[n].unit == named.unit &&
                j->manifest->seals[n].number == named.number)
                opt.expected = &j->manifest->seals[n];
    if (mkdir(j->output, 0777) != 0 && errno != EEXIST)
        return make_directory(j->output);
    spsh_stale_files_remove(spsh_io_default(), j->output, is_shard, NULL);
    const uint8_t *dataset_id = j->manifest != NULL ? j->manifest->info->dataset_id : NULL;
    spsh_status rc = spsh_repair_shard(j->path, dataset_id, j->output, &opt, &result, &err);
    spsh_repair_manifest_close(j->manifest);
    if (rc != SPSH_OK)
        return spsh__cli_fail(NULL, &err);
    spsh_shard_file_name(result.seal.unit, result.seal.number, written_name);
    if (!join(written, j->output, written_name) ||
        check_output(j, written, false) != SPSH_EXIT_DONE)
        return SPSH_EXIT_FAILED;
    count_result(j, &result);
    return result.records_lost + result.utterances_lost == 0 ? SPSH_EXIT_DONE : SPSH_EXIT_FAILED;
}

int spsh__cmd_repair(int argc, char **argv)
{
    job j = {.output = NULL};
    struct stat info;
    const spsh_cli_option options[] = {
        {"output", 'o', SPSH_CLI_TEXT, "DIRECTORY",
         "new directory for the repaired dataset or shard", &j.output, 0, 0},
        {"in-place", 0, SPSH_CLI_FLAG, NULL,
         "replace damaged files that can be restored exactly; keep the damaged ones as "
         "FILE.damaged",
         &j.in_place, 0, 0},
        {"json", 0, SPSH_CLI_FLAG, NULL, "print one JSON object per line", &j.json, 0, 0},
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {
        "repair",
        "DATASET",
        "DATASET -o DIRECTORY\nDATASET --in-place\nSHARD.spsh -o DIRECTORY",
        "rebuild derived parts and save intact recordings",
        "Rebuilds lost headers, indexes, and footers byte for byte. From damaged blocks it saves "
        "each intact recording. Overlays in force are checked and copied, even if the newest "
        "manifest is damaged. Each loss, and each overlay in doubt, is printed. The result is "
        "verified and opened. Exit status 0: the result is complete, and nothing is lost.",
        "speechshard repair corpus.spsh --in-place\n"
        "speechshard repair corpus.spsh -o repaired.spsh\n",
        options};
    spsh_cli_args args;
    int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc != SPSH_CLI_RUN)
        return rc;
    j.path = args.operands[0];
    if ((j.output != NULL) == j.in_place)
        return spsh__cli_usage("repair", "either -o DIRECTORY or --in-place is needed");
    const bool is_file = stat(j.path, &info) == 0 && S_ISREG(info.st_mode);
    if (is_file && j.in_place)
        return spsh__cli_usage("repair", "--in-place needs a dataset; a single shard goes to -o");
    j.object = spsh__json_new();
    if (j.object == NULL)
        return spsh__cli_fail_memory();
    rc = is_file ? repair_file(&j) : repair_dataset(&j);
    spsh__json_free(j.object);
    return spsh__cli_finish(rc);
}
