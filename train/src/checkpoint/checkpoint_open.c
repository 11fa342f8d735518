/* checkpoint_open.c: open the newest valid checkpoint of a run, or the named file.
 *
 * The files of the folder are tried in order of preference. RUN/latest is not used: the last name
 * that was written does not prove that its file is still valid. Damaged files are skipped and
 * logged. Other errors (out of memory, an unknown version) are returned: a retry or a newer program
 * might succeed, and an older checkpoint would silently lose the work since.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "checkpoint_internal.h"
#include "speechshard/inside.h"

typedef struct search {
    const char *folder;
    const spsh_io *io;
    const spsh_allocator *allocator;
    spsh_log_fn log_fn;
    void *log_user;
} search;

static bool is_passed_over(spsh_status rc)
{
    switch (rc) {
    case SPSH_E_IO:
    case SPSH_E_NOT_FOUND: /* removed by a writer since the folder was listed */
    case SPSH_E_NOT_SPEECHSHARD:
    case SPSH_E_CORRUPT:
    case SPSH_E_TRUNCATED:
    case SPSH_E_LIMIT:
    case SPSH_E_MISMATCH: return true;
    default: return false;
    }
}

/* err: not NULL. */
static spsh_status try_place(const search *s, spsh__checkpoint_place place,
                             spsh__checkpoint_file **ret_file, spsh__checkpoint *ret,
                             spsh_error *err)
{
    char name[SPSH__CHECKPOINT_NAME_BYTES];
    char text[600];
    spsh__checkpoint_name(place, name);
    char *path = spsh__checkpoint_join(s->allocator, s->folder, name);
    if (path == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: checkpoint", name);
    spsh_error why = SPSH_ERROR_INIT;
    spsh__checkpoint found = {0};
    spsh__checkpoint_file *file = NULL;
    spsh_status rc = spsh__checkpoint_read(path, s->io, s->allocator, &file, &found, &why);
    if (rc == SPSH_OK && (found.generation != place.generation || found.samples != place.samples)) {
        spsh__checkpoint_close(file);
        rc =
            SPSH_FAIL(&why, SPSH_E_MISMATCH,
                      "%s: generation or sample count inside the file differs from its name", path);
    }
    if (rc == SPSH_OK) {
        *ret_file = file;
        *ret = found;
    } else {
        *err = why;
    }
    if (rc != SPSH_OK && is_passed_over(rc) && s->log_fn != NULL) {
        (void)snprintf(text, sizeof(text), "skipping a checkpoint that cannot be used: %s",
                       why.message);
        s->log_fn(s->log_user, SPSH_LOG_WARNING, text);
    }
    spsh__free(s->allocator, path);
    return rc;
}

static spsh_status open_newest(const search *s, spsh__checkpoint_file **ret_file,
                               spsh__checkpoint *ret, spsh_error *err)
{
    spsh__checkpoint_list list = {0};
    spsh_error first = SPSH_ERROR_INIT;
    spsh_error why = SPSH_ERROR_INIT;
    spsh_status rc = spsh__checkpoint_list_read(s->folder, s->allocator, &list, err);
    if (rc != SPSH_OK)
        return rc;
    rc = SPSH_E_NOT_FOUND;
    for (size_t i = 0; i < list.count && is_passed_over(rc); i++) {
        rc = try_place(s, list.places[i], ret_file, ret, &why);
        if (i == 0)
            first = why;
    }
    spsh__free(s->allocator, list.places);
    if (rc == SPSH_OK)
        return rc;
    if (list.count == 0)
        return SPSH_FAIL(err, SPSH_E_NOT_FOUND, "%s: the run has no checkpoint yet", s->folder);
    if (!is_passed_over(rc))
        return spsh__fail_again(rc, &why, err);
    return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, first.offset_bytes,
                        "none of the %zu checkpoints can be used; the newest: %.300s", list.count,
                        first.message);
}

/* Follow a symbolic link, too. */
static bool is_folder(const spsh_io *io, const char *path)
{
    int fd = -EINTR;
    while (fd == -EINTR)
        fd = io->open_fn(io->user, path, O_RDONLY | O_DIRECTORY, 0);
    if (fd >= 0)
        (void)io->close_fn(io->user, fd);
    return fd >= 0;
}

static bool has(const spsh_io *io, const char *folder, const char *name)
{
    struct stat info;
    char *path = spsh__checkpoint_join(spsh_allocator_default(), folder, name);
    memset(&info, 0, sizeof(info));
    const bool found = path != NULL && io->stat_fn(io->user, path, &info) == 0;
    spsh__free(spsh_allocator_default(), path);
    return found;
}

/* Describe a path that is neither a run nor a checkpoint; keep the error of any other failure. */
static spsh_status explain(const char *path, const spsh_io *io, spsh_status rc, spsh_error *err)
{
    if (err == NULL || (rc != SPSH_E_NOT_FOUND && rc != SPSH_E_NOT_SPEECHSHARD))
        return rc;
    if (rc == SPSH_E_NOT_SPEECHSHARD)
        return SPSH_FAIL(err, rc, "%s: neither a checkpoint nor the folder of a run", path);
    if (!is_folder(io, path))
        return SPSH_FAIL_OS(err, rc, err->os_errno,
                            "%s: no such run or checkpoint; a run is the folder that train -o "
                            "writes",
                            path);
    if (has(io, path, "manifest.spsh"))
        return SPSH_FAIL_OS(err, rc, err->os_errno,
                            "%s: a dataset, not a run; a run is the folder that train -o writes",
                            path);
    if (!has(io, path, "checkpoints"))
        return SPSH_FAIL_OS(err, rc, err->os_errno,
                            "%s: not the folder of a run, or the run has no checkpoint yet", path);
    return rc;
}

/* NOLINTNEXTLINE(readability-function-size): log_user follows log_fn */
spsh_status spsh__checkpoint_open(const char *path, const spsh_io *io, spsh_log_fn log_fn,
                                  void *log_user, spsh__checkpoint_file **ret_file,
                                  spsh__checkpoint *ret, spsh_error *err)
{
    const spsh_allocator *allocator = spsh_allocator_default();
    if (io == NULL)
        io = spsh_io_default();
    if (!is_folder(io, path))
        return explain(path, io, spsh__checkpoint_read(path, io, allocator, ret_file, ret, err),
                       err);
    char *folder = spsh__checkpoint_join(allocator, path, "checkpoints");
    if (folder == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: checkpoints", path);
    const search s = {folder, io, allocator, log_fn, log_user};
    const spsh_status rc = open_newest(&s, ret_file, ret, err);
    spsh__free(allocator, folder);
    return explain(path, io, rc, err);
}
