/* dataset_lock.c: one writer of a published dataset at a time, and removal of the files that killed
 * writers left.
 *
 *     .lock                    flock: editors exclusive, or rejected; publishers shared, and wait
 *     NAME.spsh.tmp-PID-N      manifest, index and overlay files that were being written
 *     .sort.tmp-PID-N          a sorter's, between its creation and its removal
 *     repair.tmp/              rebuilt shards that `repair --in-place` has not moved yet
 *
 * A process number proves nothing: it may belong to another machine, or to a new process by now.
 * The lock does, since the kernel drops it when the process exits. The process that holds it
 * exclusively is the only writer, so files with these names are leftovers. The last holder unlinks
 * the file. A writer that opened it before then holds a lock that no other process can see. That
 * writer finds that the name is missing, or names another file, and opens it again.
 *
 * A file system without locks cannot detect other writers. Edits proceed there without a lock, and
 * leftovers stay.
 */
#include "dataset_lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>

#include "speechshard/publish.h"

#define LOCK_NAME        ".lock"
#define REPAIR_DIRECTORY "repair.tmp"

enum { OPEN_TRIES = 100, PATH_BYTES = 4400 };

struct spsh_dataset_lock {
    spsh_allocator allocator;
    const spsh_io *io;
    char *dataset_path;
    char *path;
    int fd;
    bool is_held; /* false: the file system has no locks */
};

/* ---- leftovers ---- */

/* Bytes in front of ".tmp-PID-N", or 0 for another name. */
static size_t temporary_stem(const char *name)
{
    static const char digits[] = "0123456789";
    const char *mark = strstr(name, ".tmp-");
    if (mark == NULL)
        return 0;
    const char *at = mark + strlen(".tmp-");
    const size_t pid = strspn(at, digits);
    const size_t number = at[pid] == '-' ? strspn(at + pid + 1, digits) : 0;
    return pid > 0 && number > 0 && at[pid + 1 + number] == '\0' ? (size_t)(mark - name) : 0;
}

static bool ends_with_spsh(const char *name, size_t name_bytes)
{
    return name_bytes > 5 && memcmp(name + name_bytes - 5, ".spsh", 5) == 0;
}

static bool is_left_in_root(const char *name)
{
    const size_t stem = temporary_stem(name);
    if (stem == strlen(".sort") && memcmp(name, ".sort", stem) == 0)
        return true;
    return ends_with_spsh(name, stem) &&
           (strncmp(name, "manifest", 8) == 0 || strncmp(name, "index-", 6) == 0);
}

static bool is_left_in_overlays(const char *name)
{
    return ends_with_spsh(name, temporary_stem(name));
}

static bool is_left_by_repair(const char *name)
{
    return ends_with_spsh(name, strlen(name)) || is_left_in_overlays(name);
}

typedef struct left_folder {
    const char *name;
    bool (*is_left_fn)(const char *name);
} left_folder;

static const left_folder folders[] = {
    {".",              is_left_in_root    },
    {"overlays",       is_left_in_overlays},
    {REPAIR_DIRECTORY, is_left_by_repair  },
};

/* Call found_fn with the paths of leftovers inside the dataset, until it returns non-zero. A folder
 * that cannot be read is skipped. */
static void each_leftover(const char *dataset_path, int (*found_fn)(void *user, const char *name),
                          void *user)
{
    int stop = 0;
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]) && stop == 0; i++) {
        char path[PATH_BYTES], name[PATH_BYTES];
        const int length = snprintf(path, sizeof(path), "%s/%s", dataset_path, folders[i].name);
        DIR *open = length > 0 && length < PATH_BYTES ? opendir(path) : NULL;
        const struct dirent *entry = NULL;
        while (open != NULL && stop == 0 &&
               (entry = readdir(open)) != NULL) { /* NOLINT(concurrency-mt-unsafe): own stream */
            if (!folders[i].is_left_fn(entry->d_name))
                continue;
            (void)snprintf(name, sizeof(name), "%s%s%s", i == 0 ? "" : folders[i].name,
                           i == 0 ? "" : "/", entry->d_name);
            stop = found_fn(user, name);
        }
        if (open != NULL)
            (void)closedir(open);
    }
}

static int remove_leftover(void *user, const char *name)
{
    const spsh_dataset_lock *lock = (const spsh_dataset_lock *)user;
    char *path = spsh__path_join(&lock->allocator, lock->dataset_path, name);
    if (path != NULL)
        (void)lock->io->unlink_fn(lock->io->user, path);
    spsh__free(&lock->allocator, path);
    return 0;
}

/* Ignore errors: a leftover that cannot be removed does no harm. */
static void remove_leftovers(spsh_dataset_lock *lock)
{
    each_leftover(lock->dataset_path, remove_leftover, lock);
    char *path = spsh__path_join(&lock->allocator, lock->dataset_path, REPAIR_DIRECTORY);
    if (path != NULL)
        (void)lock->io->rmdir_fn(lock->io->user, path);
    spsh__free(&lock->allocator, path);
}

/* ---- the lock ---- */

static spsh_status fail_busy(const spsh_dataset_lock *lock, spsh_error *err)
{
    return SPSH_FAIL(err, SPSH_E_EXISTS,
                     "%s: another command is writing to it; repeat this one when that has finished",
                     lock->dataset_path);
}

/* 0, or a negative errno. */
static int open_file(spsh_dataset_lock *lock)
{
    lock->fd = lock->io->open_fn(lock->io->user, lock->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    return lock->fd < 0 ? lock->fd : 0;
}

static void close_file(spsh_dataset_lock *lock)
{
    if (lock->fd >= 0)
        (void)lock->io->close_fn(lock->io->user, lock->fd);
    lock->fd = -1;
}

/* Return whether the name still refers to the locked file. */
static bool is_same_file(const spsh_dataset_lock *lock)
{
    struct stat opened, named;
    return lock->io->fstat_fn(lock->io->user, lock->fd, &opened) == 0 &&
           lock->io->stat_fn(lock->io->user, lock->path, &named) == 0 &&
           opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

static spsh_status take(spsh_dataset_lock *lock, int operation, spsh_error *err)
{
    for (int i = 0; i < OPEN_TRIES; i++) {
        const int failed = open_file(lock);
        if (failed != 0 && failed != -EINTR)
            return SPSH_FAIL_OS(err, spsh_io_status(-failed), -failed, "%s: cannot open: %s",
                                lock->path, spsh__os_text(-failed));
        if (failed != 0)
            continue;
        lock->is_held = flock(lock->fd, operation) == 0;
        if (!lock->is_held && (errno == EWOULDBLOCK || errno == EINTR))
            return fail_busy(lock, err);
        if (!lock->is_held || is_same_file(lock))
            return SPSH_OK;
        close_file(lock);
    }
    return fail_busy(lock, err);
}

static void free_lock(spsh_dataset_lock *lock)
{
    const spsh_allocator allocator = lock->allocator;
    close_file(lock);
    spsh__free(&allocator, lock->path);
    spsh__free(&allocator, lock->dataset_path);
    spsh__free(&allocator, lock);
}

spsh_status spsh__dataset_lock_open(const char *dataset_path, spsh__lock_kind kind,
                                    const spsh_io *io, const spsh_allocator *allocator,
                                    spsh_dataset_lock **ret_lock, spsh_error *err)
{
    spsh_error busy = SPSH_ERROR_INIT;
    spsh_dataset_lock *lock = (spsh_dataset_lock *)spsh__alloc(allocator, sizeof(*lock));
    if (lock == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: lock", dataset_path);
    *lock = (spsh_dataset_lock){.allocator = *allocator, .io = io, .fd = -1};
    lock->dataset_path = spsh__string_copy(allocator, dataset_path);
    lock->path = spsh__path_join(allocator, dataset_path, LOCK_NAME);
    spsh_status rc = lock->dataset_path == NULL || lock->path == NULL
                         ? SPSH_FAIL(&busy, SPSH_E_NO_MEMORY, "%s: lock", dataset_path)
                         : take(lock, LOCK_EX | LOCK_NB, &busy);
    if (rc == SPSH_OK && lock->is_held)
        remove_leftovers(lock);
    if (kind == SPSH__LOCK_SHARED && (rc == SPSH_OK || rc == SPSH_E_EXISTS)) {
        close_file(lock); /* all is removed: the exclusive lock is not needed any more */
        rc = take(lock, LOCK_SH, &busy);
    }
    if (rc == SPSH_OK) {
        *ret_lock = lock;
        return rc;
    }
    if (err != NULL)
        *err = busy;
    free_lock(lock);
    return rc;
}

spsh_status spsh_dataset_lock_open(const char *dataset_path, const spsh_io *io,
                                   spsh_dataset_lock **ret_lock, spsh_error *err)
{
    return spsh__dataset_lock_open(dataset_path, SPSH__LOCK_EXCLUSIVE,
                                   io == NULL ? spsh_io_default() : io, spsh_allocator_default(),
                                   ret_lock, err);
}

void spsh_dataset_lock_close(spsh_dataset_lock *lock)
{
    if (lock == NULL)
        return;
    /* Another publisher may hold the lock as well: then leave the file for that process. */
    if (!lock->is_held || flock(lock->fd, LOCK_EX | LOCK_NB) == 0)
        (void)lock->io->unlink_fn(lock->io->user, lock->path);
    free_lock(lock);
}

/* Without a lock file no writer is alive. */
static bool is_being_written(const char *dataset_path)
{
    const spsh_io *io = spsh_io_default();
    char path[PATH_BYTES];
    const int length = snprintf(path, sizeof(path), "%s/" LOCK_NAME, dataset_path);
    const int fd = length > 0 && length < PATH_BYTES
                       ? io->open_fn(io->user, path, O_RDONLY | O_CLOEXEC, 0)
                       : -ENOENT;
    if (fd < 0)
        return fd != -ENOENT;
    const bool is_locked = flock(fd, LOCK_SH | LOCK_NB) != 0;
    (void)io->close_fn(io->user, fd);
    return is_locked;
}

/* Returns non-zero if found_fn does. */
static int report_if_there(const char *dataset_path, const char *name,
                           int (*found_fn)(void *user, const char *name), void *user)
{
    struct stat info;
    char path[PATH_BYTES];
    const int length = snprintf(path, sizeof(path), "%s/%s", dataset_path, name);
    return length > 0 && length < PATH_BYTES && lstat(path, &info) == 0 ? found_fn(user, name) : 0;
}

void spsh_dataset_leftovers(const char *dataset_path, int (*found_fn)(void *user, const char *name),
                            void *user)
{
    if (is_being_written(dataset_path))
        return;
    if (report_if_there(dataset_path, LOCK_NAME, found_fn, user) == 0 &&
        report_if_there(dataset_path, REPAIR_DIRECTORY, found_fn, user) == 0)
        each_leftover(dataset_path, found_fn, user);
}

void spsh_dataset_leftovers_remove(const char *dataset_path, const spsh_io *io)
{
    spsh_dataset_lock *lock = NULL;
    if (spsh_dataset_lock_open(dataset_path, io, &lock, NULL) == SPSH_OK)
        spsh_dataset_lock_close(lock);
}
