/* checkpoint_folder.c: file names, and which process may write which files.
 *
 *     000003.generation                  claim, created exclusively
 *     000003-000000012000.spsh           of that generation, after 12,000 samples
 *     000003-000000012000.spsh.tmp-41-0  in progress, or left by a process that was killed
 *
 * A claim is valid if nothing in the folder has a higher number after its creation. Two processes
 * that start at the same time therefore get different numbers. A delayed process, whose number was
 * used and removed in the meantime, finds the higher number and tries again. So numbers only rise,
 * and the process with the highest number owns the run.
 *
 * Numbers are padded so that `ls` shows the order of preference. They may outgrow the padding.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "checkpoint_internal.h"
#include "speechshard/inside.h"

enum { CLAIM_TRIES = 1000 };

void spsh__checkpoint_name(spsh__checkpoint_place place, char name[SPSH__CHECKPOINT_NAME_BYTES])
{
    (void)snprintf(name, SPSH__CHECKPOINT_NAME_BYTES, "%06" PRIu32 "-%012" PRIu64 ".spsh",
                   place.generation, place.samples);
}

static void claim_name(uint32_t generation, char name[SPSH__CHECKPOINT_NAME_BYTES])
{
    (void)snprintf(name, SPSH__CHECKPOINT_NAME_BYTES, "%06" PRIu32 ".generation", generation);
}

char *spsh__checkpoint_join(const spsh_allocator *allocator, const char *directory,
                            const char *name)
{
    const size_t size = strlen(directory) + strlen(name) + 2;
    char *path = (char *)spsh__new(allocator, size, 1);
    if (path != NULL)
        (void)snprintf(path, size, "%s/%s", directory, name);
    return path;
}

typedef enum name_kind { NAME_OTHER, NAME_CLAIM, NAME_CHECKPOINT, NAME_TEMPORARY } name_kind;

/* Return the kind of a name in the folder. Only names in our own spelling count. */
static name_kind read_name(const char *name, spsh__checkpoint_place *ret)
{
    char spelt[SPSH__CHECKPOINT_NAME_BYTES];
    uint64_t generation = 0;
    uint64_t samples = 0;
    const char *at = name;
    if (!spsh__take_digits(&at, UINT32_MAX, &generation))
        return NAME_OTHER;
    *ret = (spsh__checkpoint_place){(uint32_t)generation, 0};
    claim_name(ret->generation, spelt);
    if (strcmp(name, spelt) == 0)
        return NAME_CLAIM;
    if (*at++ != '-' || !spsh__take_digits(&at, UINT64_MAX, &samples))
        return NAME_OTHER;
    ret->samples = samples;
    spsh__checkpoint_name(*ret, spelt);
    const size_t size = strlen(spelt);
    if (strncmp(name, spelt, size) != 0)
        return NAME_OTHER;
    if (name[size] == '\0')
        return NAME_CHECKPOINT;
    return strncmp(name + size, ".tmp-", 5) == 0 ? NAME_TEMPORARY : NAME_OTHER;
}

/* ---- listing ---- */

static int compare_places(const void *left, const void *right)
{
    const spsh__checkpoint_place *a = (const spsh__checkpoint_place *)left;
    const spsh__checkpoint_place *b = (const spsh__checkpoint_place *)right;
    if (a->generation != b->generation)
        return a->generation < b->generation ? 1 : -1;
    return (a->samples < b->samples) - (a->samples > b->samples);
}

static bool add_place(const spsh_allocator *allocator, spsh__checkpoint_list *list,
                      spsh__checkpoint_place place)
{
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity * 2 + 8;
        spsh__checkpoint_place *places = (spsh__checkpoint_place *)spsh__enlarge(
            allocator, list->places, list->count, capacity, sizeof(*places));
        if (places == NULL)
            return false;
        list->places = places;
        list->capacity = capacity;
    }
    list->places[list->count++] = place;
    return true;
}

static spsh_status open_folder(const char *folder, DIR **ret, spsh_error *err)
{
    DIR *open = opendir(folder);
    if (open == NULL && errno == ENOENT)
        return SPSH_FAIL_OS(
            err, SPSH_E_NOT_FOUND, errno,
            "%s: folder not found; the path is not a run, or the run has no checkpoint yet",
            folder);
    if (open == NULL)
        return SPSH_FAIL_OS(err, SPSH_E_IO, errno, "%s: cannot list the checkpoints", folder);
    *ret = open;
    return SPSH_OK;
}

spsh_status spsh__checkpoint_list_read(const char *folder, const spsh_allocator *allocator,
                                       spsh__checkpoint_list *ret, spsh_error *err)
{
    spsh__checkpoint_list list = {0};
    DIR *open = NULL;
    const struct dirent *entry = NULL;
    spsh_status rc = open_folder(folder, &open, err);
    if (rc != SPSH_OK)
        return rc;
    while (rc == SPSH_OK) {
        errno = 0;
        entry = readdir(open); /* NOLINT(concurrency-mt-unsafe): only this thread uses the stream */
        if (entry == NULL && errno != 0)
            rc = SPSH_FAIL_OS(err, SPSH_E_IO, errno, "%s: cannot list the checkpoints", folder);
        if (entry == NULL)
            break;
        spsh__checkpoint_place place = {0, 0};
        const name_kind kind = read_name(entry->d_name, &place);
        if (kind != NAME_CLAIM && kind != NAME_CHECKPOINT)
            continue;
        if (place.generation > list.generation)
            list.generation = place.generation;
        if (kind == NAME_CHECKPOINT && !add_place(allocator, &list, place))
            rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: list of checkpoints", folder);
    }
    (void)closedir(open);
    if (rc != SPSH_OK) {
        spsh__free(allocator, list.places);
        return rc;
    }
    if (list.count > 1)
        qsort(list.places, list.count, sizeof(*list.places), compare_places);
    *ret = list;
    return SPSH_OK;
}

/* ---- claiming ---- */

static spsh_status highest_generation(const char *folder, const spsh_allocator *allocator,
                                      uint32_t *ret, spsh_error *err)
{
    spsh__checkpoint_list list = {0};
    const spsh_status rc = spsh__checkpoint_list_read(folder, allocator, &list, err);
    if (rc == SPSH_OK)
        *ret = list.generation;
    spsh__free(allocator, list.places);
    return rc;
}

/* *ret_taken: another process has the claim. */
static spsh_status create_claim(const char *folder, uint32_t generation, const spsh_io *io,
                                const spsh_allocator *allocator, bool *ret_taken, spsh_error *err)
{
    char name[SPSH__CHECKPOINT_NAME_BYTES];
    claim_name(generation, name);
    char *path = spsh__checkpoint_join(allocator, folder, name);
    if (path == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: name of a new file", folder);
    int fd = -EINTR;
    while (fd == -EINTR)
        fd = io->open_fn(io->user, path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    spsh_status rc = SPSH_OK;
    *ret_taken = fd == -EEXIST;
    if (fd >= 0)
        (void)io->close_fn(io->user, fd);
    else if (!*ret_taken)
        rc = SPSH_FAIL_OS(err, spsh_io_status(-fd), -fd, "%s: cannot create the file", path);
    spsh__free(allocator, path);
    return rc;
}

spsh_status spsh__checkpoint_claim(const char *folder, const spsh_io *io,
                                   const spsh_allocator *allocator, uint32_t *ret_generation,
                                   spsh_error *err)
{
    uint32_t highest = 0;
    spsh_status rc = highest_generation(folder, allocator, &highest, err);
    for (uint32_t n = 0; n < CLAIM_TRIES && rc == SPSH_OK && highest < UINT32_MAX; n++) {
        const uint32_t mine = highest + 1;
        bool is_taken = false;
        rc = create_claim(folder, mine, io, allocator, &is_taken, err);
        if (rc == SPSH_OK)
            rc = highest_generation(folder, allocator, &highest, err);
        if (rc == SPSH_OK && !is_taken && highest == mine) {
            rc = spsh_io_sync_directory(io, folder, err);
            if (rc == SPSH_OK)
                *ret_generation = mine;
            return rc;
        }
        if (highest < mine) /* another process claimed the number, and its claim was removed */
            highest = mine;
    }
    if (rc == SPSH_OK)
        rc = SPSH_FAIL(err, SPSH_E_LIMIT,
                       "%s: cannot claim a generation above %" PRIu32
                       ": other processes take each number first; end the other starts of this run",
                       folder, highest);
    return rc;
}

/* ---- removing ---- */

static spsh_status remove_file(const char *folder, const char *name, const spsh_io *io,
                               const spsh_allocator *allocator, spsh_error *err)
{
    char *path = spsh__checkpoint_join(allocator, folder, name);
    if (path == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: name of a file to remove", folder);
    const int io_rc = io->unlink_fn(io->user, path);
    spsh_status rc = SPSH_OK;
    if (io_rc < 0 && io_rc != -ENOENT)
        rc = SPSH_FAIL_OS(err, spsh_io_status(-io_rc), -io_rc, "%s: cannot remove the file", path);
    spsh__free(allocator, path);
    return rc;
}

static bool is_leftover(const char *name, uint32_t generation)
{
    spsh__checkpoint_place place = {0, 0};
    const name_kind kind = read_name(name, &place);
    if (kind == NAME_CLAIM || kind == NAME_TEMPORARY)
        return place.generation < generation;
    return strncmp(name, "latest.tmp-", 11) == 0;
}

void spsh__checkpoint_sweep(const char *folder, uint32_t generation, const spsh_io *io,
                            const spsh_allocator *allocator)
{
    const struct dirent *entry = NULL;
    DIR *open = NULL;
    if (open_folder(folder, &open, NULL) != SPSH_OK)
        return;
    while ((entry = readdir(open)) != NULL) { /* NOLINT(concurrency-mt-unsafe): as above */
        if (is_leftover(entry->d_name, generation))
            (void)remove_file(folder, entry->d_name, io, allocator, NULL);
    }
    (void)closedir(open);
}

spsh_status spsh__checkpoint_prune(const char *folder, uint32_t keep, uint64_t best_samples,
                                   const spsh_io *io, const spsh_allocator *allocator,
                                   spsh_error *err)
{
    spsh__checkpoint_list list = {0};
    bool has_best = false;
    if (keep == 0)
        return SPSH_OK;
    spsh_status rc = spsh__checkpoint_list_read(folder, allocator, &list, err);
    for (size_t i = 0; rc == SPSH_OK && i < list.count; i++) {
        char name[SPSH__CHECKPOINT_NAME_BYTES];
        const bool is_best = !has_best && list.places[i].samples == best_samples;
        has_best = has_best || is_best;
        if (i < keep || is_best)
            continue;
        spsh__checkpoint_name(list.places[i], name);
        rc = remove_file(folder, name, io, allocator, err);
    }
    spsh__free(allocator, list.places);
    return rc;
}
