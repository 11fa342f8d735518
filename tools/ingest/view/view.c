/* view.c: see view.h. Each disk lookup is one system call relative to the root's descriptor, with
 * the caller's path, so that no path is copied. Only pieces need the whole path, because a worker
 * opens them later. That path is built in one buffer of the view.
 *
 * The archive index is searched only if the disk has no such file. So a view without archives has
 * no extra cost.
 */
#include "view.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive_find.h"
#include "common/file_names.h"
#include "common/os_error.h"
#include "speechshard/inside.h"
#include "view_internal.h"

#define MEMBER_PATH_BYTES                                                                          \
    ((size_t)4 * PATH_MAX) /* room for a folder, a member, and the parts that ".." removes */

/* ---- failures ---- */

void spsh__view_note_failure(const spsh__view *view, const char *path, int os_errno)
{
    spsh__view_failure *failure = view->scratch->failure;
    if (failure->os_errno != 0 || !spsh__os_error_is_transient(os_errno))
        return;
    failure->os_errno = os_errno;
    (void)snprintf(failure->path, sizeof(failure->path), "%s%s%s", path[0] == '/' ? "" : view->root,
                   path[0] == '/' || path[0] == '\0' ? "" : "/", path);
}

spsh_status spsh__view_check(const spsh__view *view, spsh_error *err)
{
    const spsh__view_failure *failure = view->scratch->failure;
    return failure->os_errno == 0
               ? SPSH_OK
               : SPSH_FAIL_OS(err, SPSH_E_IO, failure->os_errno, "%s: cannot read it: %s",
                              failure->path, strerror(failure->os_errno));
}

/* ---- open and close ---- */

/* Folder of a file: "." for a bare name. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return strdup(".");
    return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

static spsh_status fail_root(const char *root, int os_errno, spsh_error *err)
{
    return SPSH_FAIL_OS(err, os_errno == ENOENT ? SPSH_E_NOT_FOUND : SPSH_E_IO, os_errno,
                        "%s: cannot read the file", root);
}

/* Set folder and file for view->root. The folder of a manifest may be unreadable. */
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
        return SPSH_NO_MEMORY(err);
    view->root_fd = open(view->folder, (is_folder ? O_RDONLY : O_PATH) | O_DIRECTORY | O_CLOEXEC);
    return view->root_fd < 0 ? fail_root(view->folder, errno, err) : SPSH_OK;
}

/* Create a view without a root. Copies root and scratch_directory. Takes ownership of prefix. */
static spsh_status make_view(const char *root, const char *scratch_directory, char *prefix,
                             spsh__view **ret_view, spsh_error *err)
{
    spsh__view *view = calloc(1, sizeof(*view));
    if (view == NULL) {
        free(prefix);
        return SPSH_NO_MEMORY(err);
    }
    view->root_fd = -1;
    view->root = strdup(root);
    view->prefix = prefix;
    view->scratch = calloc(1, sizeof(*view->scratch));
    view->scratch_directory = scratch_directory == NULL ? NULL : strdup(scratch_directory);
    if (view->scratch != NULL)
        view->scratch->failure = &view->scratch->own_failure;
    *ret_view = view;
    if (view->root == NULL || prefix == NULL || view->scratch == NULL ||
        (scratch_directory != NULL && view->scratch_directory == NULL))
        return SPSH_NO_MEMORY(err);
    /* Reserve memory now, so that member lookups cannot fail for lack of memory and hide a file. */
    if (scratch_directory != NULL &&
        spsh__builder_reserve(&view->scratch->member, MEMBER_PATH_BYTES) == NULL)
        return SPSH_NO_MEMORY(err);
    return SPSH_OK;
}

/* Handle a root that is an archive: its name is the name of the folder that it would unpack to. */
static spsh_status name_archive(spsh__view *view, spsh_error *err)
{
    const spsh_bytes stem = spsh__archive_stem(view->root);
    view->folder = strdup(view->root);
    view->scratch->real_root_is_known = true;
    if (view->folder == NULL)
        return SPSH_NO_MEMORY(err);
    char *parent = folder_of(view->root);
    if (parent == NULL)
        return SPSH_NO_MEMORY(err);
    char *real = realpath(parent, NULL);
    free(parent);
    spsh_status rc = SPSH_OK;
    if (real != NULL && strcmp(view->root, SPSH__ARCHIVE_STDIN) != 0) {
        spsh__builder name = {0};
        spsh__builder_append_text(&name, real);
        spsh__builder_append(&name, "/", 1);
        spsh__builder_append_bytes(&name, stem);
        if (spsh__builder_text(&name) != NULL)
            view->scratch->real_root = strdup((const char *)name.data);
        spsh__builder_free(&name);
        rc = view->scratch->real_root == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    }
    free(real);
    return rc;
}

static spsh_status open_archives(const spsh__view *view, bool is_archive, spsh_error *err)
{
    spsh__view_scratch *scratch = view->scratch;
    const spsh__archive_index_options indexing = {
        .io = view->io,
        .root = is_archive ? view->root : view->folder,
        .scratch_directory = view->scratch_directory,
        .follow_links = view->follow_links,
        .plain_only = view->file != NULL,
        .used_only = view->file != NULL,
        .observer = &view->observer,
    };
    spsh_status rc = spsh__archive_index_build(&indexing, &scratch->own_index, err);
    if (rc == SPSH_OK && !is_archive &&
        spsh__archive_index_archive(scratch->own_index, 0) == NULL) {
        spsh__archive_index_free(scratch->own_index); /* most corpora */
        scratch->own_index = NULL;
    }
    scratch->index = scratch->own_index;
    if (scratch->index != NULL)
        scratch->index_root = spsh__view_real_root(view);
    return rc;
}

spsh_status spsh__view_index_archives(const spsh__view *view, spsh_error *err)
{
    if (!view->scratch->has_archives_to_index)
        return SPSH_OK;
    view->scratch->has_archives_to_index = false;
    return open_archives(view, false, err);
}

spsh_status spsh__view_open(const spsh__view_options *options, spsh__view **ret_view,
                            spsh_error *err)
{
    const spsh_io *io = options->io == NULL ? spsh_io_default() : options->io;
    const bool unpacks = options->scratch_directory != NULL;
    bool is_archive = unpacks && strcmp(options->root, SPSH__ARCHIVE_STDIN) == 0;
    spsh__view *view = NULL;
    spsh_status rc = make_view(options->root, options->scratch_directory, strdup(""), &view, err);

    if (rc == SPSH_OK && !is_archive)
        rc = open_root(view, err);
    if (rc == SPSH_OK && unpacks && view->file != NULL)
        rc = spsh__archive_is_one(io, view->root, &is_archive, err);
    if (rc == SPSH_OK && is_archive) {
        if (view->root_fd >= 0)
            (void)close(view->root_fd);
        free(view->file);
        free(view->folder);
        view->root_fd = -1;
        view->file = NULL;
        view->folder = NULL;
        rc = name_archive(view, err);
    }
    if (rc == SPSH_OK) {
        view->io = io;
        view->follow_links = options->follow_links;
        view->observer = options->observer == NULL ? (spsh__view_observer){0} : *options->observer;
        view->scratch->has_archives_to_index = unpacks && view->file != NULL;
    }
    if (rc == SPSH_OK && unpacks && view->file == NULL)
        rc = open_archives(view, is_archive, err);
    if (rc == SPSH_OK) {
        *ret_view = view;
        view = NULL;
    }
    spsh__view_close(view);
    return rc;
}

static char *join(const char *folder, const char *path)
{
    spsh__builder whole = {0};
    spsh__builder_append_text(&whole, folder);
    if (path[0] != '\0' && whole.size_bytes > 0 && whole.data[whole.size_bytes - 1] != '/')
        spsh__builder_append(&whole, "/", 1);
    spsh__builder_append_text(&whole, path);
    char *text = spsh__builder_text(&whole) == NULL ? NULL : strdup((const char *)whole.data);
    spsh__builder_free(&whole);
    return text;
}

/* Handle a folder that exists only in archives. */
static spsh_status name_member(const spsh__view *above, const char *path, spsh__view *view,
                               spsh_error *err)
{
    const char *real = spsh__view_real_root(above);
    view->folder = strdup(view->root);
    view->scratch->real_root_is_known = true;
    view->scratch->real_root = real == NULL ? NULL : join(real, path);
    const bool is_short = real != NULL && view->scratch->real_root == NULL;
    return view->folder == NULL || is_short ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

spsh_status spsh__view_below(const spsh__view *view, const char *path, spsh__view **ret_view,
                             spsh_error *err)
{
    spsh__view *below = NULL;
    spsh__view_info info = {.device = 0, .inode = 0};
    char *root = path[0] == '\0' ? strdup(view->root) : join(view->folder, path);
    if (root == NULL)
        return SPSH_NO_MEMORY(err);
    spsh_status rc =
        make_view(root, view->scratch_directory, join(view->prefix, path), &below, err);
    free(root);
    if (rc == SPSH_OK)
        below->scratch->failure = view->scratch->failure;
    const int os_errno = spsh__view_stat(view, path, &info);
    const bool is_in_archive =
        os_errno == 0 && info.type == SPSH__VIEW_FOLDER && info.device == 0 && info.inode == 0;
    if (rc == SPSH_OK)
        rc = is_in_archive ? name_member(view, path, below, err) : open_root(below, err);
    if (rc == SPSH_OK && path[0] != '\0' && below->file != NULL) {
        /* Paths of a manifest are relative to its folder. */
        char *slash = strrchr(below->prefix, '/');
        *(slash == NULL ? below->prefix : slash) = '\0';
    }
    if (rc == SPSH_OK) {
        below->scratch->index = view->scratch->index;
        below->follow_links = view->follow_links;
        below->scratch->index_root = view->scratch->index_root;
        *ret_view = below;
        below = NULL;
    }
    spsh__view_close(below);
    return rc;
}

void spsh__view_close(spsh__view *view)
{
    if (view == NULL)
        return;
    if (view->root_fd >= 0)
        (void)close(view->root_fd);
    if (view->scratch != NULL) {
        spsh__archive_index_free(view->scratch->own_index);
        SPSH__BUILDERS_FREE(&view->scratch->path, &view->scratch->member);
        free(view->scratch->real_root);
    }
    free(view->scratch);
    free(view->file);
    free(view->folder);
    free(view->root);
    free(view->prefix);
    free(view->scratch_directory);
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

bool spsh__view_follows_links(const spsh__view *view)
{
    return view->follow_links;
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

/* Append a path without empty, "." and ".." parts. Returns false if the path leads above its start.
 */
static bool append_plain(spsh__builder *out, const char *path)
{
    while (*path != '\0') {
        size_t part = strcspn(path, "/");
        if (part == 2 && memcmp(path, "..", 2) == 0) {
            if (out->size_bytes == 0)
                return false;
            while (out->size_bytes > 0 && out->data[out->size_bytes - 1] != '/')
                out->size_bytes--;
            out->size_bytes -= out->size_bytes > 0 ? 1 : 0;
        } else if (part > 0 && !(part == 1 && path[0] == '.')) {
            if (out->size_bytes > 0)
                spsh__builder_append(out, "/", 1);
            spsh__builder_append(out, path, part);
        }
        path += part;
        path += *path == '/' ? 1 : 0;
    }
    return true;
}

/* Path in the index, or NULL if the index cannot contain it. */
static const char *path_in_archives(const spsh__view *view, const char *path)
{
    spsh__builder *out = &view->scratch->member;
    if (view->scratch->index == NULL || strlen(view->prefix) + strlen(path) + 2 > MEMBER_PATH_BYTES)
        return NULL;
    spsh__builder_clear(out);
    if (path[0] == '/') {
        /* Use the path that it would have if unpacked. */
        const size_t root_bytes =
            view->scratch->index_root == NULL ? 0 : strlen(view->scratch->index_root);
        if (root_bytes == 0 || strncmp(path, view->scratch->index_root, root_bytes) != 0 ||
            path[root_bytes] != '/')
            return NULL;
        path += root_bytes;
    } else {
        spsh__builder_append_text(out, view->prefix);
    }
    if (!append_plain(out, path))
        return NULL;
    return spsh__builder_text(out);
}

/* Find a path in the archives. Call it only if the disk has no such file. */
static bool find_in_archives(const spsh__view *view, const char *path,
                             spsh__archive_entry *ret_entry)
{
    const char *member = path_in_archives(view, path);
    return member != NULL && spsh__archive_index_find(view->scratch->index, member, ret_entry);
}

static int stat_on_disk(const spsh__view *view, const char *path, struct stat *ret_info)
{
    if (view->root_fd < 0 && path[0] != '/')
        return ENOENT;
    const int os_errno = fstatat(view->root_fd, path_at(path), ret_info, 0) == 0 ? 0 : errno;
    spsh__view_note_failure(view, path, os_errno);
    return os_errno;
}

int spsh__view_stat(const spsh__view *view, const char *path, spsh__view_info *ret_info)
{
    struct stat info;
    spsh__archive_entry entry;
    const int os_errno = stat_on_disk(view, path, &info);
    if ((os_errno == ENOENT || os_errno == ENOTDIR) && find_in_archives(view, path, &entry)) {
        *ret_info = (spsh__view_info){.type = entry.type, .size_bytes = entry.piece.size_bytes};
        return 0;
    }
    if (os_errno != 0)
        return os_errno;
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

/* Return a piece that stays valid after its entry. */
static int give_piece(const spsh__view *view, const spsh__piece *piece, spsh__piece *ret_piece)
{
    spsh__builder *whole = &view->scratch->path;
    spsh__builder_clear(whole);
    spsh__builder_append_text(whole, piece->path);
    *ret_piece = *piece;
    ret_piece->path = spsh__builder_text(whole);
    return ret_piece->path == NULL ? ENOMEM : 0;
}

static int give_file(const spsh__view *view, const char *path, uint64_t size_bytes,
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

int spsh__view_locate_known(const spsh__view *view, const char *path, uint64_t size_bytes,
                            spsh__piece *ret_piece)
{
    spsh__archive_entry entry;
    struct stat info;
    /* A file on the disk hides a member. Without archives, no check is needed. */
    if (view->scratch->index != NULL && find_in_archives(view, path, &entry) &&
        entry.type == SPSH__VIEW_FILE && stat_on_disk(view, path, &info) != 0)
        return give_piece(view, &entry.piece, ret_piece);
    return give_file(view, path, size_bytes, ret_piece);
}

int spsh__view_locate(const spsh__view *view, const char *path, spsh__piece *ret_piece)
{
    spsh__view_info info;
    const int os_errno = spsh__view_stat(view, path, &info);
    if (os_errno != 0)
        return os_errno;
    if (info.type != SPSH__VIEW_FILE)
        return info.type == SPSH__VIEW_FOLDER ? EISDIR : EINVAL;
    if (info.device == 0 && info.inode == 0)
        return spsh__view_locate_known(view, path, info.size_bytes, ret_piece);
    return give_file(view, path, info.size_bytes, ret_piece);
}

/* ---- listing ---- */

static DIR *open_on_disk(const spsh__view *view, const char *path, int *ret_errno)
{
    /* A file with a longer path could not be opened by name. */
    *ret_errno = ENAMETOOLONG;
    if (strlen(view->folder) + 1 + strlen(path) >= PATH_MAX)
        return NULL;
    *ret_errno = ENOENT;
    if (view->root_fd < 0 && path[0] != '/')
        return NULL;
    const int fd = openat(view->root_fd, path_at(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    *ret_errno = errno;
    if (directory == NULL)
        spsh__view_note_failure(view, path, *ret_errno);
    if (directory == NULL && fd >= 0)
        (void)close(fd);
    return directory;
}

spsh__view_folder *spsh__view_folder_open(const spsh__view *view, const char *path)
{
    int os_errno = ENOMEM;
    const size_t path_bytes = strlen(path) + 1;
    spsh__view_folder *folder = calloc(1, sizeof(*folder) + path_bytes);
    if (folder == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    folder->view = view;
    memcpy(folder->path, path, path_bytes);
    folder->directory = open_on_disk(view, path, &os_errno);
    folder->follow_links = view->follow_links;
    const bool is_absent = os_errno == ENOENT || os_errno == ENOTDIR;
    const char *member =
        folder->directory != NULL || is_absent ? path_in_archives(view, path) : NULL;
    if (member != NULL &&
        spsh__archive_index_folder(view->scratch->index, member, &folder->next, &folder->end))
        folder->index = view->scratch->index;
    if (folder->directory != NULL || folder->index != NULL)
        return folder;
    free(folder);
    errno = os_errno;
    return NULL;
}

/* Report an entry of unknown type as a link: a later stat of its target returns the error. */
static spsh__view_type entry_type(const spsh__view_folder *folder, const struct dirent *entry)
{
    struct stat info;
    switch (entry->d_type) {
    case DT_REG: return SPSH__VIEW_FILE;
    case DT_DIR: return SPSH__VIEW_FOLDER;
    case DT_LNK: return SPSH__VIEW_LINK;
    case DT_UNKNOWN: break;
    default: return SPSH__VIEW_SPECIAL;
    }
    if (fstatat(dirfd(folder->directory), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0)
        return type_of(info.st_mode);
    spsh__view_note_failure(folder->view, folder->path, errno);
    return SPSH__VIEW_LINK;
}

static bool leads_to_folder(const spsh__view_folder *folder, const char *link)
{
    struct stat target;
    if (fstatat(dirfd(folder->directory), link, &target, 0) == 0)
        return S_ISDIR(target.st_mode);
    spsh__view_note_failure(folder->view, folder->path, errno);
    return false;
}

/* Return the next member that no file on the disk hides. */
static bool next_member(spsh__view_folder *folder, spsh__view_entry *ret_entry)
{
    spsh__archive_entry entry;
    struct stat info;
    while (folder->next < folder->end) {
        spsh__archive_index_entry(folder->index, folder->next++, &entry);
        if (spsh__name_index_find(&folder->on_disk, spsh__bytes_of(entry.name)) != NULL)
            continue;
        if (folder->directory != NULL && folder->looks &&
            fstatat(dirfd(folder->directory), entry.name, &info, AT_SYMLINK_NOFOLLOW) == 0)
            continue;
        *ret_entry = (spsh__view_entry){entry.name, entry.type, entry.type == SPSH__VIEW_FOLDER};
        return true;
    }
    errno = 0;
    return false;
}

bool spsh__view_folder_next(spsh__view_folder *folder, spsh__view_entry *ret_entry)
{
    const struct dirent *entry = NULL;
    if (folder->directory == NULL || folder->disk_is_read)
        return next_member(folder, ret_entry);
    do {
        errno = 0;
        entry = readdir(folder->directory);
    } while (entry != NULL &&
             (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
    if (entry == NULL) {
        spsh__view_note_failure(folder->view, folder->path, errno);
        folder->disk_is_read = errno == 0;
        return folder->disk_is_read && next_member(folder, ret_entry);
    }
    if (folder->next < folder->end && !folder->looks)
        folder->looks =
            spsh__name_index_add(&folder->on_disk, spsh__bytes_of(entry->d_name), 1) == NULL;
    const spsh__view_type type = entry_type(folder, entry);
    const bool enters =
        type == SPSH__VIEW_FOLDER ||
        (type == SPSH__VIEW_LINK && folder->follow_links && leads_to_folder(folder, entry->d_name));
    *ret_entry = (spsh__view_entry){entry->d_name, type, enters};
    return true;
}

void spsh__view_folder_close(spsh__view_folder *folder)
{
    if (folder == NULL)
        return;
    if (folder->directory != NULL)
        (void)closedir(folder->directory);
    spsh__name_index_free(&folder->on_disk);
    free(folder);
}

/* ---- archives ---- */

const char *spsh__view_archive(const spsh__view *view, size_t number)
{
    const size_t prefix_bytes = strlen(view->prefix);
    const char *archive = NULL;
    if (view->scratch->index == NULL)
        return NULL;
    if (prefix_bytes == 0)
        return spsh__archive_index_archive(view->scratch->index, number);
    /* Paths are sorted, so the archives below one folder are adjacent. */
    size_t first = spsh__archive_index_first(view->scratch->index, view->prefix);
    archive = spsh__archive_index_archive(view->scratch->index, first + number);
    if (archive == NULL || strncmp(archive, view->prefix, prefix_bytes) != 0 ||
        archive[prefix_bytes] != '/')
        return NULL;
    return archive + prefix_bytes + 1;
}

spsh_status spsh__view_members(const spsh__view *view, const char *archive,
                               spsh__view_member_fn member_fn, void *user, spsh_error *err)
{
    char *path = view->scratch->index == NULL ? NULL : join(view->prefix, archive);
    if (view->scratch->index == NULL)
        return SPSH_FAIL(err, SPSH_E_NOT_FOUND, "%s: archive not found", archive);
    if (path == NULL)
        return SPSH_NO_MEMORY(err);
    spsh_status rc = spsh__archive_index_members(view->scratch->index, path, member_fn, user, err);
    free(path);
    return rc;
}

void spsh__view_scan_begins(const spsh__view *view)
{
    if (view->scratch->index != NULL)
        spsh__archive_index_forget_listed(view->scratch->index);
}

spsh_status spsh__view_scan_ends(const spsh__view *view, const spsh__view_observer *observer,
                                 spsh_error *err)
{
    return view->scratch->index == NULL
               ? SPSH_OK
               : spsh__archive_index_report(view->scratch->index, observer, err);
}
