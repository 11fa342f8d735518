/* view.c: see view.h. Every look at the disk is one system call relative to the root's descriptor,
 * with the path as the caller has it, so that looking costs no copy of a path. Only pieces need
 * the whole path, because a worker opens them later; it is built in one buffer of the view.
 */
#include "view.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fail.h"
#include "view_internal.h"

static spsh_status no_memory(spsh_error *err)
{
    return SPSH_INGEST_FAIL(err, SPSH_E_NO_MEMORY, "no memory for the paths of a corpus");
}

/* ---- open and close ---- */

/* The folder a file stands in: "." for a bare name. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return strdup(".");
    return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

static spsh_status fail_root(const char *root, int os_errno, spsh_error *err)
{
    return SPSH_INGEST_FAIL_OS(err, os_errno == ENOENT ? SPSH_E_NOT_FOUND : SPSH_E_IO, os_errno,
                               "%s: cannot be read", root);
}

/* Name what view->root is. The folder of a manifest may be one that cannot be listed. */
static spsh_status open_root(spsh__view *view, spsh_error *err)
{
    struct stat info;
    if (stat(view->root, &info) != 0)
        return fail_root(view->root, errno, err);
    const bool is_folder = S_ISDIR(info.st_mode);
    view->folder = is_folder ? strdup(view->root) : folder_of(view->root);
    if (!is_folder) {
        const char *slash = strrchr(view->root, '/');
        view->file = strdup(slash == NULL ? view->root : slash + 1);
    }
    if (view->folder == NULL || (!is_folder && view->file == NULL))
        return no_memory(err);
    view->root_fd = open(view->folder, (is_folder ? O_RDONLY : O_PATH) | O_DIRECTORY | O_CLOEXEC);
    return view->root_fd < 0 ? fail_root(view->folder, errno, err) : SPSH_OK;
}

/* Takes root, which may be NULL when there was no memory for it. */
static spsh_status open_view(char *root, spsh__view **ret_view, spsh_error *err)
{
    spsh__view *view = calloc(1, sizeof(*view));
    spsh_status rc = SPSH_OK;
    if (view == NULL || root == NULL) {
        free(view);
        free(root);
        return no_memory(err);
    }
    view->root = root;
    view->root_fd = -1;
    view->scratch = calloc(1, sizeof(*view->scratch));
    rc = view->scratch == NULL ? no_memory(err) : open_root(view, err);
    if (rc == SPSH_OK) {
        *ret_view = view;
        view = NULL;
    }
    spsh__view_close(view);
    return rc;
}

spsh_status spsh__view_open(const spsh__view_options *options, spsh__view **ret_view,
                            spsh_error *err)
{
    return open_view(strdup(options->root), ret_view, err);
}

spsh_status spsh__view_below(const spsh__view *view, const char *path, spsh__view **ret_view,
                             spsh_error *err)
{
    spsh__builder whole = {0};
    if (path[0] == '\0')
        return open_view(strdup(view->root), ret_view, err);
    spsh__builder_append_text(&whole, view->folder);
    if (whole.size_bytes > 0 && whole.data[whole.size_bytes - 1] != '/')
        spsh__builder_append(&whole, "/", 1);
    spsh__builder_append_text(&whole, path);
    char *root = spsh__builder_text(&whole) == NULL ? NULL : strdup((const char *)whole.data);
    spsh__builder_free(&whole);
    return open_view(root, ret_view, err);
}

void spsh__view_close(spsh__view *view)
{
    if (view == NULL)
        return;
    if (view->root_fd >= 0)
        (void)close(view->root_fd);
    if (view->scratch != NULL) {
        spsh__builder_free(&view->scratch->path);
        free(view->scratch->real_root);
    }
    free(view->scratch);
    free(view->file);
    free(view->folder);
    free(view->root);
    free(view);
}

/* ---- the root ---- */

const char *spsh__view_root(const spsh__view *view)
{
    return view->root;
}

const char *spsh__view_file(const spsh__view *view)
{
    return view->file;
}

const char *spsh__view_real_root(const spsh__view *view)
{
    spsh__view_scratch *scratch = view->scratch;
    if (!scratch->real_root_is_known) {
        scratch->real_root = realpath(view->folder, NULL);
        scratch->real_root_is_known = true;
    }
    return scratch->real_root;
}

void spsh__view_folder_name(const spsh__view *view, const char *path, spsh__builder *out)
{
    const char *whole = path[0] == '\0' ? spsh__view_real_root(view) : path;
    const char *slash = whole == NULL ? NULL : strrchr(whole, '/');
    if (whole != NULL)
        spsh__builder_append_text(out, slash == NULL ? whole : slash + 1);
}

/* ---- looking ---- */

static const char *path_at(const char *path)
{
    return path[0] == '\0' ? "." : path;
}

static spsh__view_type type_of(mode_t mode)
{
    if (S_ISREG(mode))
        return SPSH__VIEW_FILE;
    if (S_ISDIR(mode))
        return SPSH__VIEW_FOLDER;
    return S_ISLNK(mode) ? SPSH__VIEW_LINK : SPSH__VIEW_SPECIAL;
}

int spsh__view_stat(const spsh__view *view, const char *path, spsh__view_info *ret_info)
{
    struct stat info;
    if (fstatat(view->root_fd, path_at(path), &info, 0) != 0)
        return errno;
    *ret_info = (spsh__view_info){
        .type = type_of(info.st_mode),
        .size_bytes = (uint64_t)info.st_size,
        .device = (uint64_t)info.st_dev,
        .inode = (uint64_t)info.st_ino,
    };
    return 0;
}

bool spsh__view_has_file(const spsh__view *view, const char *path)
{
    spsh__view_info info;
    return spsh__view_stat(view, path, &info) == 0 && info.type == SPSH__VIEW_FILE;
}

bool spsh__view_has_folder(const spsh__view *view, const char *path)
{
    spsh__view_info info;
    return spsh__view_stat(view, path, &info) == 0 && info.type == SPSH__VIEW_FOLDER;
}

int spsh__view_locate_known(const spsh__view *view, const char *path, uint64_t size_bytes,
                            spsh__piece *ret_piece)
{
    spsh__builder *whole = &view->scratch->path;
    spsh__builder_clear(whole);
    if (path[0] != '/') {
        spsh__builder_append_text(whole, view->folder);
        spsh__builder_append(whole, "/", 1);
    }
    spsh__builder_append_text(whole, path);
    const char *text = spsh__builder_text(whole);
    if (text == NULL)
        return ENOMEM;
    *ret_piece = (spsh__piece){text, 0, size_bytes, size_bytes};
    return 0;
}

int spsh__view_locate(const spsh__view *view, const char *path, spsh__piece *ret_piece)
{
    spsh__view_info info;
    const int os_errno = spsh__view_stat(view, path, &info);
    if (os_errno != 0)
        return os_errno;
    if (info.type != SPSH__VIEW_FILE)
        return info.type == SPSH__VIEW_FOLDER ? EISDIR : EINVAL;
    return spsh__view_locate_known(view, path, info.size_bytes, ret_piece);
}

/* ---- listing ---- */

spsh__view_folder *spsh__view_folder_open(const spsh__view *view, const char *path)
{
    spsh__view_folder *folder = calloc(1, sizeof(*folder));
    if (folder == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    /* A file below a longer path could not be opened by name. */
    const bool is_long = strlen(view->folder) + 1 + strlen(path) >= PATH_MAX;
    const int fd =
        is_long ? -1 : openat(view->root_fd, path_at(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int os_errno = is_long ? ENAMETOOLONG : errno;
    if (fd >= 0) {
        folder->directory = fdopendir(fd);
        os_errno = errno;
    }
    if (folder->directory != NULL)
        return folder;
    if (fd >= 0)
        (void)close(fd);
    free(folder);
    errno = os_errno;
    return NULL;
}

/* A name whose type cannot be told is called a link: looking behind it says why. */
static spsh__view_type entry_type(DIR *directory, const struct dirent *entry)
{
    struct stat info;
    switch (entry->d_type) {
    case DT_REG: return SPSH__VIEW_FILE;
    case DT_DIR: return SPSH__VIEW_FOLDER;
    case DT_LNK: return SPSH__VIEW_LINK;
    case DT_UNKNOWN: break;
    default: return SPSH__VIEW_SPECIAL;
    }
    if (fstatat(dirfd(directory), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return SPSH__VIEW_LINK;
    return type_of(info.st_mode);
}

bool spsh__view_folder_next(spsh__view_folder *folder, spsh__view_entry *ret_entry)
{
    const struct dirent *entry = NULL;
    do {
        errno = 0;
        entry = readdir(folder->directory);
    } while (entry != NULL &&
             (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
    if (entry == NULL)
        return false;
    *ret_entry = (spsh__view_entry){entry->d_name, entry_type(folder->directory, entry)};
    return true;
}

void spsh__view_folder_close(spsh__view_folder *folder)
{
    if (folder == NULL)
        return;
    (void)closedir(folder->directory);
    free(folder);
}
