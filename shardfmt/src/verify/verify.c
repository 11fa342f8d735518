/* verify.c: list the files, check them in order, and check them against each other.
 *
 * The manifest comes first, since it lists the other files. The dataset index comes next, since it
 * shows the cost of a damaged record. Then come the shards, in the manifest's order, fingerprint
 * segments, overlays, statistics, and older generations. Then all of them are checked against
 * each other. Last, the dataset is opened as readers open it. Each file is read once, through the
 * read engine. The small ones (manifest, index, overlays) are then opened as readers open them, and
 * their content is checked against the rules of the format.
 *
 * Every part needs an intact manifest and index: they list the shards and the cost of damage. Only
 * part 0 reports their damage; the other parts check them with is_muted.
 */
#include "base/buffer.h"
#include "dataset/dataset_internal.h"
#include "dataset/overlay.h"
#include "io/io_internal.h"
#include "speechshard/cores.h"
#include "speechshard/options.h"
#include "speechshard/statistics.h"
#include "verify_internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define ULL(value_) ((unsigned long long)(value_))

/* Direct reads: 32 requests of 1 MiB. From the page cache a smaller arena stays in the processor's.
 * A block for each further thread. */
#define ARENA_BYTES        ((size_t)33 << 20)
#define ARENA_BYTES_CACHED ((size_t)9 << 20)
#define ARENA_BYTES_THREAD ((size_t)5 << 20)

enum {
    JOBS_MAX = 256,
    FILES_MAX = 2,
    FLAGS_KNOWN = SPSH_VERIFY_DECODE | SPSH_VERIFY_CACHED | SPSH_VERIFY_NO_URING,
};

/* ---- content of files without blocks ---- */

static spsh_status check_strings(const spsh__container *c, uint32_t ends_id, spsh_error *err)
{
    uint64_t count = spsh__container_count(c, ends_id);
    spsh_status rc = spsh__container_require_strings(c, ends_id, count, err);
    for (uint64_t n = 0; n < count && rc == SPSH_OK; n++) {
        spsh_bytes string = {NULL, 0};
        rc = spsh__container_string(c, ends_id, n, &string, err);
    }
    return rc;
}

static spsh_status check_index(const spsh__verify *v, const spsh__container *c, spsh_error *err)
{
    uint64_t count = spsh__container_footer(c)->utterance_count;
    spsh_status rc = spsh__container_check_padding(c, err);
    if (rc == SPSH_OK && v->manifest != NULL)
        rc = spsh__dataset_check_index(v->manifest, c, err);
    for (uint32_t id = SPSH__INDEX_COLUMN_FIRST; id <= SPSH__INDEX_COLUMN_LAST && rc == SPSH_OK;
         id++)
        rc = spsh__container_require(c, id, spsh__index_element_bytes(id), count, err);
    for (uint32_t kind = 0; kind < SPSH_NAME_KINDS && rc == SPSH_OK; kind++)
        rc = check_strings(c, SPSH__INDEX_NAME_ENDS + 2 * kind, err);
    return rc;
}

/* The name, without folder and suffix, is part of the input of the file id. */
static spsh_status check_overlay(const spsh__verify *v, const spsh__verify_file *file,
                                 spsh__container *c, spsh_error *err)
{
    const char *slash = strrchr(file->path, '/');
    const char *name = slash != NULL ? slash + 1 : file->path;
    size_t name_bytes = strlen(name);
    const char *ending = ".spsh";
    if (name_bytes > strlen(ending) && strcmp(name + name_bytes - strlen(ending), ending) == 0)
        name_bytes -= strlen(ending);
    return spsh__overlay_check_file(c, (spsh_bytes){(const uint8_t *)name, name_bytes},
                                    v->allocator, err);
}

static spsh_status check_content(spsh__verify *v, spsh__verify_file *file,
                                 spsh__container **ret_container, spsh_error *err)
{
    spsh__container *c = NULL;
    spsh_error why = SPSH_ERROR_INIT;
    spsh_status rc =
        spsh__container_open(v->io, file->path, file->footer.kind, v->allocator, &c, &why);
    if (rc == SPSH_OK && v->manifest != NULL &&
        memcmp(file->header.dataset_id, v->manifest->info.dataset_id, 16) != 0)
        rc = SPSH_FAIL_AT(&why, SPSH_E_MISMATCH, 64, "%s: header: the id is of another dataset",
                          file->name);
    if (rc == SPSH_OK && file->footer.kind == SPSH__KIND_INDEX)
        rc = check_index(v, c, &why);
    else if (rc == SPSH_OK && file->footer.kind == SPSH__KIND_OVERLAY)
        rc = check_overlay(v, file, c, &why);
    else if (rc == SPSH_OK)
        rc = spsh__container_check_padding(c, &why);
    if (rc == SPSH_OK && ret_container != NULL) {
        *ret_container = c;
        c = NULL;
    }
    spsh__container_close(c);
    if (rc == SPSH_OK)
        return SPSH_OK;
    if (rc == SPSH_E_NO_MEMORY)
        return SPSH_FAIL_AT(err, rc, why.offset_bytes, "%s", why.message);
    return spsh__verify_refused(v, file, "content", 0, &why, err);
}

/* ---- files ---- */

/* Make all checks of a file that need no other file. ret_container: the opened file if no damage
 * was found; may be NULL. */
static spsh_status check_file(spsh__verify *v, spsh__verify_file *file,
                              spsh__container **ret_container, spsh_error *err)
{
    spsh_status rc = spsh__verify_file_begin(v, file, err);
    const uint32_t kind = file->header_ok   ? file->header.kind
                          : file->footer_ok ? file->footer.kind
                                            : file->kind;
    if (rc == SPSH_OK && file->opened && !file->foreign) {
        if (kind == SPSH__KIND_SHARD && file->id_known)
            rc = spsh__verify_shard(v, file, err);
        else if (kind != SPSH__KIND_SHARD && v->result.damage_count == file->damage_before)
            rc = check_content(v, file, ret_container, err);
    }
    spsh__verify_file_end(v, file);
    return rc;
}

spsh_status spsh__verify_named(spsh__verify *v, const char *name, spsh__verify_file *file,
                               spsh__container **ret_container, spsh_error *err)
{
    char *path = spsh__path_join(v->allocator, v->directory, name);
    if (path == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s", name);
    file->name = name;
    file->path = path;
    spsh_status rc = check_file(v, file, ret_container, err);
    spsh__free(v->allocator, path);
    return rc;
}

spsh_status spsh__verify_listed_shard(spsh__verify *v, const spsh__manifest *manifest,
                                      uint64_t number, spsh_error *err)
{
    spsh_shard_seal seal;
    char name[48], file_name[32];
    spsh_status rc = spsh__manifest_seal(manifest, number, &seal, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__file_ref expected = {.file_bytes = seal.file_bytes};
    memcpy(expected.file_id, seal.file_id, 16);
    memcpy(expected.root_hash, seal.root_hash, 16);
    spsh_shard_file_name(seal.unit, seal.number, file_name);
    (void)snprintf(name, sizeof(name), "shards/%s", file_name);
    spsh__verify_file file = {.kind = SPSH__KIND_SHARD, .expected = &expected, .shard = number};
    rc = spsh__verify_named(v, name, &file, NULL, err);
    v->shard_damage_count += v->result.damage_count - file.damage_before;
    return rc;
}

static spsh_status check_shards(spsh__verify *v, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (uint64_t n = v->opt.part; n < v->manifest->info.shard_count && rc == SPSH_OK;
         n += v->opt.part_count)
        rc = spsh__verify_listed_shard(v, v->manifest, n, err);
    return rc;
}

spsh_status spsh__verify_shards_damaged(spsh__verify *v, bool *ret_is_damaged, spsh_error *err)
{
    const spsh_verify_result before = v->result;
    const uint64_t count = v->has_searched ? 0 : v->manifest->info.shard_count;
    spsh_status rc = SPSH_OK;
    v->has_searched = true;
    v->is_muted = true;
    for (uint64_t n = 0; n < count && rc == SPSH_OK && v->shard_damage_count == 0; n++)
        if (n % v->opt.part_count != v->opt.part)
            rc = spsh__verify_listed_shard(v, v->manifest, n, err);
    v->is_muted = false;
    v->result = before;
    *ret_is_damaged = v->shard_damage_count != 0;
    return rc;
}

/* *ret_new: no generation before listed this very file. */
static spsh_status is_new_overlay(spsh__verify *v, const spsh__file_ref *file, spsh_bytes name,
                                  bool *ret_new, spsh_error *err)
{
    uint8_t key[40 + 128];
    uint32_t number = 0;
    const uint32_t count = spsh__names_count(v->overlays);
    memcpy(key, file->file_id, 16);
    memcpy(key + 16, file->root_hash, 16);
    spsh__store_u64le(key + 32, file->file_bytes);
    memcpy(key + 40, name.data, name.size_bytes); /* at most 128: spsh__manifest_overlay */
    spsh_status rc =
        spsh__names_add(v->overlays, (spsh_bytes){key, 40 + name.size_bytes}, &number, err);
    *ret_new = number == count;
    return rc;
}

spsh_status spsh__verify_overlays(spsh__verify *v, const spsh__manifest *manifest, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (uint64_t n = 0; n < manifest->info.overlay_count && rc == SPSH_OK; n++) {
        spsh__file_ref expected;
        spsh_bytes overlay = {NULL, 0};
        bool is_new = false;
        char name[300];
        rc = spsh__manifest_overlay(manifest, n, &expected, &overlay, err);
        if (rc == SPSH_OK)
            rc = is_new_overlay(v, &expected, overlay, &is_new, err);
        if (rc != SPSH_OK || !is_new)
            continue;
        (void)snprintf(name, sizeof(name), "overlays/%.*s.spsh", (int)overlay.size_bytes,
                       (const char *)overlay.data);
        spsh__verify_file file = {.kind = SPSH__KIND_OVERLAY, .expected = &expected};
        rc = spsh__verify_named(v, name, &file, NULL, err);
    }
    return rc;
}

static spsh_status check_if_there(spsh__verify *v, const char *name, uint32_t kind, spsh_error *err)
{
    struct stat info;
    spsh__verify_file file = {.kind = kind};
    char *path = spsh__path_join(v->allocator, v->directory, name);
    if (path == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s", name);
    const bool there = v->io->stat_fn(v->io->user, path, &info) != -ENOENT;
    spsh__free(v->allocator, path);
    return there ? spsh__verify_named(v, name, &file, NULL, err) : SPSH_OK;
}

/* Check the fingerprint segments, which are derived from the shards and can be recomputed. */
static spsh_status check_fingerprints(spsh__verify *v, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (uint64_t n = v->opt.part; n < v->manifest->info.shard_count && rc == SPSH_OK;
         n += v->opt.part_count) {
        spsh_shard_seal seal;
        char name[48], file_name[32];
        rc = spsh__manifest_seal(v->manifest, n, &seal, err);
        if (rc != SPSH_OK)
            break;
        spsh_shard_file_name(seal.unit, seal.number, file_name);
        (void)snprintf(name, sizeof(name), "fingerprints/%s", file_name);
        rc = check_if_there(v, name, SPSH__KIND_FINGERPRINT, err);
    }
    return rc;
}

/* "KEY.spsh" or "KEY-SHARD.spsh", as statistics.h names them; excludes temporary files of a writer.
 */
static bool is_statistics(const char *name)
{
    const char *ending = strchr(name, '.');
    const size_t size = strspn(name, "0123456789abcdef-");
    return size >= 32 && ending == name + size && strcmp(ending, ".spsh") == 0 &&
           size < SPSH_STATISTICS_NAME_BYTES - strlen(ending);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((const char *)a, (const char *)b);
}

typedef char statistics_name[SPSH_STATISTICS_NAME_BYTES];

/* No other file lists these files. Sort them, so that reports are the same on every machine. */
static spsh_status list_statistics(const spsh__verify *v, DIR *open, spsh__buffer *names,
                                   size_t *ret_count, spsh_error *err)
{
    const struct dirent *entry = NULL;
    spsh_status rc = SPSH_OK;
    while (rc == SPSH_OK && (entry = readdir(open)) != NULL) {
        statistics_name name = "";
        if (!is_statistics(entry->d_name))
            continue;
        memcpy(name, entry->d_name, strlen(entry->d_name));
        rc = spsh__buffer_append(names, v->allocator, name, sizeof(name), err);
        *ret_count += rc == SPSH_OK ? 1 : 0;
    }
    if (*ret_count > 1)
        qsort(names->data, *ret_count, sizeof(statistics_name), compare_names);
    return rc;
}

/* Likewise derived. */
static spsh_status check_statistics(spsh__verify *v, spsh_error *err)
{
    spsh__buffer names = {NULL, 0, 0};
    size_t count = 0;
    char *path = spsh__path_join(v->allocator, v->directory, SPSH_STATISTICS_DIRECTORY);
    if (path == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s", v->directory);
    DIR *open = opendir(path);
    spsh__free(v->allocator, path);
    if (open == NULL)
        return SPSH_OK;
    spsh_status rc = list_statistics(v, open, &names, &count, err);
    (void)closedir(open);
    for (size_t n = 0; n < count && rc == SPSH_OK; n++) {
        char name[SPSH_STATISTICS_NAME_BYTES + 16];
        (void)snprintf(name, sizeof(name), SPSH_STATISTICS_DIRECTORY "/%s",
                       (const char *)names.data + n * sizeof(statistics_name));
        rc = check_if_there(v, name, SPSH__KIND_STATISTICS, err);
    }
    spsh__buffer_free(&names, v->allocator);
    return rc;
}

static uint64_t sum_bytes(const spsh__verify *v)
{
    const spsh__manifest *manifest = v->manifest;
    uint64_t total = v->result.bytes + manifest->index.file_bytes;
    for (uint64_t n = v->opt.part; n < manifest->info.shard_count; n += v->opt.part_count) {
        spsh_shard_seal seal;
        if (spsh__manifest_seal(manifest, n, &seal, NULL) == SPSH_OK)
            total += seal.file_bytes;
    }
    for (uint64_t n = 0; n < manifest->info.overlay_count; n++) {
        spsh__file_ref overlay;
        spsh_bytes name;
        if (spsh__manifest_overlay(manifest, n, &overlay, &name, NULL) == SPSH_OK)
            total += overlay.file_bytes;
    }
    return total;
}

/* Begin to report. The result so far is counted by part 0. */
static void unmute(spsh__verify *v)
{
    if (!v->is_muted)
        return;
    v->is_muted = false;
    v->result.files = v->result.bytes = v->result.damage_count = 0;
}

/* Check the files that do not belong to one shard, and all files against each other. */
static spsh_status check_rest(spsh__verify *v, spsh_error *err)
{
    spsh_status rc = spsh__verify_overlays(v, v->manifest, err);
    if (rc == SPSH_OK)
        rc = check_statistics(v, err);
    if (rc == SPSH_OK)
        rc = spsh__verify_older(v, err);
    if (rc == SPSH_OK && v->index != NULL)
        rc = spsh__verify_dataset(v, err);
    return rc == SPSH_OK ? spsh__verify_opens(v, 0, err) : rc;
}

static spsh_status check_listed(spsh__verify *v, spsh_error *err)
{
    char name[40];
    spsh__container *index = NULL;
    spsh__verify_file file = {.kind = SPSH__KIND_INDEX, .expected = &v->manifest->index};
    v->total_bytes = sum_bytes(v);
    spsh__generation_name("index", v->manifest->index_generation, name);
    spsh_status rc = spsh__verify_named(v, name, &file, &index, err);
    v->index = index;
    unmute(v);
    if (rc == SPSH_OK)
        rc = check_shards(v, err);
    if (rc == SPSH_OK)
        rc = check_fingerprints(v, err);
    if (rc == SPSH_OK && v->opt.part == 0)
        rc = check_rest(v, err);
    v->index = NULL;
    spsh__container_close(index);
    return rc;
}

static spsh_status open_manifest(const spsh__verify *v, uint64_t generation,
                                 spsh__manifest *ret_manifest, spsh_error *err)
{
    spsh_status rc =
        spsh__manifest_open(v->io, v->allocator, v->directory, generation, ret_manifest, err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh__manifest_check(ret_manifest, err);
    if (rc != SPSH_OK)
        spsh__manifest_close(ret_manifest);
    return rc;
}

/* The newest generation that is readable although manifest.spsh is damaged. */
static spsh_status open_older_manifest(const spsh__verify *v, spsh__manifest *ret_manifest)
{
    spsh__buffer numbers = {NULL, 0, 0};
    spsh_status rc = spsh__manifest_generations(v->allocator, v->directory, &numbers, NULL);
    const uint64_t *number = (const uint64_t *)(const void *)numbers.data;
    size_t left = rc == SPSH_OK ? numbers.size_bytes / sizeof(*number) : 0;
    rc = SPSH_E_NOT_FOUND;
    while (rc != SPSH_OK && left > 0)
        rc = open_manifest(v, number[--left], ret_manifest, NULL);
    spsh__buffer_free(&numbers, v->allocator);
    return rc;
}

static spsh_status check_dataset(spsh__verify *v, spsh_error *err)
{
    spsh__verify_file file = {.kind = SPSH__KIND_MANIFEST};
    spsh__manifest manifest;
    spsh_error why = SPSH_ERROR_INIT;
    spsh_status rc = spsh__verify_named(v, "manifest.spsh", &file, NULL, err);
    if (rc != SPSH_OK)
        return rc;
    rc = open_manifest(v, 0, &manifest, &why);
    if (rc == SPSH_E_NO_MEMORY || (rc == SPSH_E_NOT_FOUND && v->result.damage_count <= 1))
        return SPSH_FAIL(err, rc, "%s", why.message);
    if (rc != SPSH_OK && v->result.damage_count == 0) {
        rc = spsh__verify_refused(v, &file, "content", 0, &why, err);
        if (rc != SPSH_OK)
            return rc;
        rc = why.status;
    }
    if (rc != SPSH_OK && open_older_manifest(v, &manifest) != SPSH_OK)
        return SPSH_OK; /* reported; without a manifest the other files are not known */
    v->manifest = &manifest;
    v->overlays = spsh__names_new(v->allocator);
    rc = v->overlays != NULL ? check_listed(v, err)
                             : SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: overlays", v->directory);
    spsh__names_free(v->overlays);
    v->manifest = NULL;
    spsh__manifest_close(&manifest);
    return rc;
}

/* ---- the call ---- */

static spsh_status take_options(spsh__verify *v, const spsh_verify_options *options,
                                spsh_error *err)
{
    spsh_status rc = spsh_options_take(options, &v->opt, sizeof(v->opt), err);
    if (rc != SPSH_OK)
        return rc;
    if ((v->opt.flags & ~(uint32_t)FLAGS_KNOWN) != 0 || v->opt.jobs > JOBS_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "verify: flags 0x%x are unknown, or jobs, %u, exceeds %d", v->opt.flags,
                         v->opt.jobs, JOBS_MAX);
    v->allocator = v->opt.allocator != NULL ? v->opt.allocator : spsh_allocator_default();
    v->io = v->opt.io != NULL ? v->opt.io : spsh_io_default();
    if (v->opt.part_count == 0)
        v->opt.part_count = 1;
    if (v->opt.part >= v->opt.part_count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "verify: part is %llu, but part_count is %llu",
                         ULL(v->opt.part), ULL(v->opt.part_count));
    if (v->opt.jobs == 0)
        v->opt.jobs = spsh_core_count(JOBS_MAX);
    return SPSH_OK;
}

static spsh_status open_engine(spsh__verify *v, spsh_error *err)
{
    const bool cached = (v->opt.flags & SPSH_VERIFY_CACHED) != 0;
    const spsh_read_engine_options opt = {
        .struct_size = sizeof(opt),
        .allocator = v->allocator,
        .io = v->io,
        .arena_bytes =
            (cached ? ARENA_BYTES_CACHED : ARENA_BYTES) + (v->opt.jobs - 1) * ARENA_BYTES_THREAD,
        .files_max = FILES_MAX,
        .flags = SPSH_READ_IN_ORDER | (cached ? SPSH_READ_CACHED : 0) |
                 ((v->opt.flags & SPSH_VERIFY_NO_URING) != 0 ? SPSH_READ_NO_URING : 0),
    };
    spsh_status rc = spsh_read_engine_open(&opt, &v->engine, err);
    if (rc == SPSH_OK)
        (void)snprintf(v->result.engine, sizeof(v->result.engine), "%s",
                       spsh_read_engine_name(v->engine));
    return rc;
}

spsh_status spsh_verify(const char *path, const spsh_verify_options *options,
                        spsh_verify_result *ret_result, spsh_error *err)
{
    spsh__verify v;
    struct stat info;
    memset(&v, 0, sizeof(v));
    spsh_status rc = spsh_result_check(ret_result, sizeof(v.result), err);
    if (rc == SPSH_OK)
        rc = take_options(&v, options, err);
    if (rc != SPSH_OK)
        return rc;
    /* "path/." is a directory whether path is one or a link to one. */
    char *inside = spsh__path_join(v.allocator, path, ".");
    if (inside == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s", path);
    const bool directory = v.io->stat_fn(v.io->user, inside, &info) == 0;
    spsh__free(v.allocator, inside);
    int found = v.io->stat_fn(v.io->user, path, &info);
    if (found < 0)
        return SPSH_FAIL_OS(err, spsh_io_status(-found), -found, "%s: %s", path,
                            spsh__os_text(-found));
    rc = open_engine(&v, err);
    if (rc == SPSH_OK && directory) {
        v.directory = path;
        v.is_muted = v.opt.part != 0;
        rc = check_dataset(&v, err);
        unmute(&v);
    } else if (rc == SPSH_OK && v.opt.part == 0) {
        spsh__verify_file file = {.name = path, .path = path};
        v.total_bytes = (uint64_t)info.st_size;
        rc = check_file(&v, &file, NULL, err);
    }
    spsh_read_engine_close(v.engine);
    spsh_result_give(ret_result, &v.result, sizeof(v.result));
    return rc;
}
