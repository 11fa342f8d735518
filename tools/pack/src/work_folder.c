/* work_folder.c: see work_folder.h.
 *
 * Folders are listed only to remove their files. A listing may be old and miss files. Then the
 * folder is not empty and is listed again, or stays.
 */
#include "work_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "claim/claim.h"
#include "ingest/view/archive_index.h"
#include "plan/pack_options.h"
#include "speechshard/inside.h"
#include "unit/unit_journal.h"

#define REMOVE_TRIES 3
#define FOLDER_TRIES 1000

spsh_status spsh__pack_paths_make(const char *output, spsh__pack_paths *ret, spsh_error *err)
{
    static const char *const names[SPSH__PACK_PLACES] = {
        [SPSH__PACK_WORK] = SPSH__PACK_WORK_DIRECTORY,
        [SPSH__PACK_SHARDS] = "shards",
        [SPSH__PACK_REPORTS] = "reports",
        [SPSH__PACK_MANIFEST] = "manifest.spsh",
        [SPSH__PACK_LOCK] = SPSH__PACK_WORK_DIRECTORY "/lock",
        [SPSH__PACK_PLAN] = SPSH__PACK_WORK_DIRECTORY "/plan",
    };
    ret->output = output;
    for (size_t i = 0; i < SPSH__PACK_PLACES; i++)
        if (spsh__builder_path(&ret->all[i], output, names[i]) == NULL)
            return SPSH_NO_MEMORY(err);
    return SPSH_OK;
}

void spsh__pack_paths_free(spsh__pack_paths *paths)
{
    for (size_t i = 0; i < SPSH__PACK_PLACES; i++)
        spsh__builder_free(&paths->all[i]);
}

const char *spsh__pack_path(const spsh__pack_paths *paths, spsh__pack_place place)
{
    return (const char *)paths->all[place].data;
}

bool spsh__pack_exists(const spsh_io *io, const spsh__pack_paths *paths, spsh__pack_place place)
{
    struct stat state;
    return io->stat_fn(io->user, spsh__pack_path(paths, place), &state) == 0;
}

static int open_plan(const spsh_io *io, const spsh__pack_paths *paths)
{
    int fd = -EINTR;
    while (fd == -EINTR)
        fd =
            io->open_fn(io->user, spsh__pack_path(paths, SPSH__PACK_PLAN), O_RDONLY | O_CLOEXEC, 0);
    return fd;
}

/* A wrong "no" would let this process remove the state of units that others pack. */
bool spsh__pack_has_plan(const spsh_io *io, const spsh__pack_paths *paths)
{
    int fd = open_plan(io, paths);

    if (fd == -ENOENT) {
        spsh__claims_refresh(io, spsh__pack_path(paths, SPSH__PACK_WORK));
        fd = open_plan(io, paths);
    }
    if (fd >= 0)
        (void)io->close_fn(io->user, fd);
    return fd != -ENOENT;
}

/* Resolve links, so that the work folder has one path in claims and messages. */
static spsh_status resolve_work(spsh__pack_paths *paths, spsh_error *err)
{
    char *absolute = realpath(paths->output, NULL);
    spsh__builder *work = &paths->all[SPSH__PACK_WORK];

    if (absolute == NULL)
        return SPSH_FAIL_OS(err, spsh_io_status(errno), errno, "%s: %s", paths->output,
                            strerror(errno));
    spsh__builder_clear(work);
    const char *path = spsh__builder_path(work, absolute, SPSH__PACK_WORK_DIRECTORY);
    free(absolute);
    return path == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

/* Another process that finds the dataset published removes the empty work folder. */
static spsh_status make_folder(const spsh_io *io, const char *path, spsh_error *err)
{
    spsh_error cause = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_E_NOT_FOUND;

    for (int tries = 0; rc == SPSH_E_NOT_FOUND && tries < FOLDER_TRIES; tries++)
        rc = spsh_io_make_directory(io, path, &cause);
    return rc == SPSH_OK ? SPSH_OK : spsh__fail_again(rc, &cause, err);
}

spsh_status spsh__pack_make_folders(const spsh_io *io, spsh__pack_paths *paths, spsh_error *err)
{
    static const spsh__pack_place inner[] = {SPSH__PACK_WORK, SPSH__PACK_SHARDS,
                                             SPSH__PACK_REPORTS};
    spsh_status rc = spsh_io_make_directory(io, paths->output, err);

    if (rc == SPSH_OK)
        rc = resolve_work(paths, err);
    for (size_t i = 0; rc == SPSH_OK && i < sizeof(inner) / sizeof(inner[0]); i++)
        rc = make_folder(io, spsh__pack_path(paths, inner[i]), err);
    return rc;
}

/* ---- removal ---- */

static bool is_temporary(const char *name)
{
    return strstr(name, ".tmp-") != NULL;
}

static bool is_of_share(const char *name)
{
    return strncmp(name, SPSH__SHARE_PREFIX, strlen(SPSH__SHARE_PREFIX)) == 0;
}

static bool is_of_plan(const char *name)
{
    return strncmp(name, "plan.", 5) == 0 ||
           strncmp(name, SPSH__ARCHIVE_SPOOL_PREFIX, strlen(SPSH__ARCHIVE_SPOOL_PREFIX)) == 0;
}

static bool is_any(const char *name)
{
    return name[0] != '\0';
}

/* Remove each entry whose name matches, a folder with the files in it. */
static void remove_matching(const spsh_io *io, const char *directory,
                            bool (*matches)(const char *name))
{
    DIR *open = opendir(directory);
    const struct dirent *entry = NULL;

    while (open != NULL && (entry = readdir(open)) != NULL) {
        spsh__builder path = {0};
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            !matches(entry->d_name))
            continue;
        if (spsh__builder_path(&path, directory, entry->d_name) != NULL) {
            const int rc = io->unlink_fn(io->user, (const char *)path.data);
            if (rc == -EISDIR || rc == -EPERM) /* EPERM: POSIX's error for a folder */
                spsh__pack_remove_folder(io, (const char *)path.data);
        }
        spsh__builder_free(&path);
    }
    if (open != NULL)
        (void)closedir(open);
}

void spsh__pack_remove_folder(const spsh_io *io, const char *folder)
{
    int rc = -ENOTEMPTY;

    for (int i = 0; i < REMOVE_TRIES && (rc == -ENOTEMPTY || rc == -EEXIST); i++) {
        remove_matching(io, folder, is_any);
        rc = io->rmdir_fn(io->user, folder);
    }
}

/* Temporary files of the manifest and the index can also belong to an editor. Opening the dataset's
 * own lock removes them if no editor holds it. */
void spsh__pack_remove_temporaries(const spsh_io *io, const spsh__pack_paths *paths)
{
    spsh_dataset_lock *lock = NULL;

    if (spsh_dataset_lock_open(paths->output, io, &lock, NULL) == SPSH_OK)
        spsh_dataset_lock_close(lock);
    remove_matching(io, spsh__pack_path(paths, SPSH__PACK_SHARDS), is_temporary);
    remove_matching(io, spsh__pack_path(paths, SPSH__PACK_REPORTS), is_temporary);
}

void spsh__pack_remove_plan_files(const spsh_io *io, const char *folder)
{
    remove_matching(io, folder, is_of_plan);
}

void spsh__pack_remove_shares(const spsh_io *io, const spsh__pack_paths *paths)
{
    remove_matching(io, spsh__pack_path(paths, SPSH__PACK_WORK), is_of_share);
}

/* Without the plan the other files have no effect, but a plan without its files would stop every
 * later run. So the plan goes first. */
void spsh__pack_remove_work(const spsh_io *io, const spsh__pack_paths *paths)
{
    if (io->unlink_fn(io->user, spsh__pack_path(paths, SPSH__PACK_PLAN)) != 0 &&
        spsh__pack_exists(io, paths, SPSH__PACK_PLAN))
        return;
    if (spsh_io_sync_directory(io, spsh__pack_path(paths, SPSH__PACK_WORK), NULL) != SPSH_OK)
        return;
    spsh__pack_remove_folder(io, spsh__pack_path(paths, SPSH__PACK_WORK));
}

void spsh__pack_remove_empty(const spsh_io *io, const spsh__pack_paths *paths)
{
    spsh__pack_remove_work(io, paths);
    (void)io->rmdir_fn(io->user, spsh__pack_path(paths, SPSH__PACK_SHARDS));
    (void)io->rmdir_fn(io->user, spsh__pack_path(paths, SPSH__PACK_REPORTS));
    (void)io->rmdir_fn(io->user, paths->output);
}
