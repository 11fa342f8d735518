/* trees.c: see trees.h. Depth first, names sorted, at most four levels below the root. */
#include "trees.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fail.h"
#include "layouts.h"
#include "names.h"

#define DEPTH_MAX         4U
#define PROBE_FOLDERS_MAX 256U
#define PROBE_ENTRIES_MAX 65536U

typedef struct tree_walk {
    const spsh__tree_search *search;
    spsh__trees *trees;
    unsigned folders; /* looked at */
} tree_walk;

static spsh_status no_memory(spsh_error *err)
{
    return SPSH_INGEST_FAIL(err, SPSH_E_NO_MEMORY, "no memory for the names of folders");
}

/* Takes path. */
static spsh_status add_path(spsh__trees *trees, char *path, spsh_error *err)
{
    if (path != NULL && trees->count == trees->capacity) {
        const size_t capacity = trees->capacity == 0 ? 16 : trees->capacity * 2;
        char **paths = realloc(trees->paths, capacity * sizeof(*paths));
        if (paths == NULL) {
            free(path);
            return no_memory(err);
        }
        trees->paths = paths;
        trees->capacity = capacity;
    }
    if (path == NULL)
        return no_memory(err);
    trees->paths[trees->count++] = path;
    return SPSH_OK;
}

static char *join(const char *folder, const char *name)
{
    spsh__builder path = {0};
    spsh__builder_append_text(&path, folder);
    if (folder[0] != '\0')
        spsh__builder_append(&path, "/", 1);
    spsh__builder_append_text(&path, name);
    char *text = spsh__builder_text(&path) == NULL ? NULL : strdup((const char *)path.data);
    spsh__builder_free(&path);
    return text;
}

int spsh__tree_open(const char *root, const char *path)
{
    char *whole = path[0] == '\0' ? NULL : join(root, path);
    if (path[0] != '\0' && whole == NULL) {
        errno = ENOMEM;
        return -1;
    }
    const int fd = open(whole != NULL ? whole : root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(whole);
    return fd;
}

/* Whether an entry is a folder to look into; links to folders count with --follow-links only. */
static spsh_status check_entry(const tree_walk *w, int fd, const struct dirent *entry,
                               const char *folder, bool *ret_enter, spsh_error *err)
{
    struct stat info;
    spsh__scan *scan = w->search->scan;
    *ret_enter = false;
    if (entry->d_name[0] == '.' || spsh__is_ignored_name(entry->d_name) ||
        spsh__is_clip_folder(entry->d_name))
        return SPSH_OK;
    if (entry->d_type != DT_DIR && entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN)
        return SPSH_OK;
    if (fstatat(fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return SPSH_OK;
    const bool is_link = S_ISLNK(info.st_mode);
    if (is_link && fstatat(fd, entry->d_name, &info, 0) != 0)
        return SPSH_OK;
    if (!S_ISDIR(info.st_mode))
        return SPSH_OK;
    *ret_enter = !is_link || (scan != NULL && scan->options->follow_links);
    if (*ret_enter || scan == NULL)
        return SPSH_OK;
    char *path = join(folder, entry->d_name);
    if (path == NULL)
        return no_memory(err);
    spsh_status rc = spsh__scan_walk_note(scan, SPSH__WALK_LINK_NOT_TAKEN, path, 0, err);
    free(path);
    return rc;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The paths of the folders in a folder. */
static spsh_status list_folders(const tree_walk *w, int fd, const char *folder,
                                spsh__trees *children, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    const struct dirent *entry = NULL;
    const int own = dup(fd);
    DIR *directory = own < 0 ? NULL : fdopendir(own);
    if (directory == NULL) {
        const int error = errno;
        if (own >= 0)
            (void)close(own);
        return w->search->scan == NULL
                   ? SPSH_OK
                   : spsh__scan_walk_note(w->search->scan, SPSH__WALK_UNREADABLE, folder, error,
                                          err);
    }
    for (unsigned i = 0; rc == SPSH_OK && (entry = readdir(directory)) != NULL; i++) {
        bool enter = false;
        if (w->search->scan == NULL && i == PROBE_ENTRIES_MAX)
            break;
        rc = check_entry(w, fd, entry, folder, &enter, err);
        if (rc == SPSH_OK && enter)
            rc = add_path(children, join(folder, entry->d_name), err);
    }
    (void)closedir(directory);
    if (children->count > 1)
        qsort(children->paths, children->count, sizeof(children->paths[0]), compare_paths);
    return rc;
}

static bool is_done(const tree_walk *w)
{
    return w->search->scan == NULL && (w->trees->count > 0 || w->folders >= PROBE_FOLDERS_MAX);
}

static spsh_status visit(tree_walk *w, const char *path, unsigned depth, spsh_error *err)
{
    bool is_tree = false;
    spsh__trees children = {0};
    const int fd = spsh__tree_open(w->search->root, path);
    w->folders++;
    if (fd < 0)
        return w->search->scan == NULL
                   ? SPSH_OK
                   : spsh__scan_walk_note(w->search->scan, SPSH__WALK_UNREADABLE, path, errno, err);
    spsh_status rc = w->search->check_fn(fd, &is_tree, err);
    if (rc == SPSH_OK && is_tree)
        rc = add_path(w->trees, strdup(path), err);
    else if (rc == SPSH_OK && depth < DEPTH_MAX)
        rc = list_folders(w, fd, path, &children, err);
    (void)close(fd);
    for (size_t i = 0; i < children.count && rc == SPSH_OK && !is_done(w); i++)
        rc = visit(w, children.paths[i], depth + 1, err);
    spsh__trees_free(&children);
    return rc;
}

spsh_status spsh__trees_find(const spsh__tree_search *search, spsh__trees *ret_trees,
                             spsh_error *err)
{
    struct stat info;
    spsh__trees trees = {0};
    tree_walk walk = {.search = search, .trees = &trees};
    spsh_status rc = SPSH_OK;
    if (stat(search->root, &info) == 0 && S_ISDIR(info.st_mode))
        rc = visit(&walk, "", 0, err);
    if (rc != SPSH_OK) {
        spsh__trees_free(&trees);
        return rc;
    }
    *ret_trees = trees;
    return SPSH_OK;
}

void spsh__trees_free(spsh__trees *trees)
{
    for (size_t i = 0; i < trees->count; i++)
        free(trees->paths[i]);
    free(trees->paths);
    *trees = (spsh__trees){0};
}

static spsh_status scan_named(spsh__scan *scan, const char *path, const spsh__tree_layout *layout,
                              spsh_error *err)
{
    spsh__builder builder = {0};
    spsh__tree_name(scan->options->root, path, &builder);
    const char *name = spsh__builder_text(&builder);
    spsh_status rc = name == NULL ? no_memory(err) : layout->scan_fn(scan, path, name, err);
    spsh__builder_free(&builder);
    return rc;
}

spsh_status spsh__trees_scan(const spsh_ingest_options *options, const spsh_ingest_sink *sink,
                             const spsh__tree_layout *layout, spsh_error *err)
{
    spsh__scan scan;
    spsh__trees trees = {0};
    const spsh__tree_search search = {options->root, &scan, layout->check_fn};
    spsh_status rc = spsh__scan_begin(&scan, options, sink, err);
    if (rc == SPSH_OK)
        rc = spsh__trees_find(&search, &trees, err);
    if (rc == SPSH_OK && trees.count == 0)
        rc = SPSH_INGEST_FAIL(err, SPSH_E_NOT_FOUND, "%s: no folder here %s", options->root,
                              layout->what);
    for (size_t i = 0; i < trees.count && rc == SPSH_OK; i++)
        rc = scan_named(&scan, trees.paths[i], layout, err);
    if (rc == SPSH_OK)
        rc = spsh__scan_finish(&scan, err);
    spsh__trees_free(&trees);
    return rc;
}

spsh_status spsh__trees_probe(const char *root, spsh__tree_check_fn check_fn, const char *what,
                              spsh_layout_probe *ret_probe, spsh_error *err)
{
    const spsh__tree_search search = {root, NULL, check_fn};
    spsh__trees trees = {0};
    *ret_probe = (spsh_layout_probe){0};
    spsh_status rc = spsh__trees_find(&search, &trees, err);
    if (rc == SPSH_OK && trees.count > 0) {
        ret_probe->matches = true;
        spsh__probe_say(ret_probe, "%.120s %s", trees.paths[0][0] == '\0' ? "it" : trees.paths[0],
                        what);
    }
    spsh__trees_free(&trees);
    return rc;
}

void spsh__tree_name(const char *root, const char *path, spsh__builder *out)
{
    const char *slash = strrchr(path, '/');
    if (path[0] != '\0') {
        spsh__builder_append_text(out, slash == NULL ? path : slash + 1);
        return;
    }
    char *real = realpath(root, NULL);
    slash = real == NULL ? NULL : strrchr(real, '/');
    if (slash != NULL)
        spsh__builder_append_text(out, slash + 1);
    free(real);
}

bool spsh__tree_has_file(int folder_fd, const char *name)
{
    struct stat info;
    return fstatat(folder_fd, name, &info, 0) == 0 && S_ISREG(info.st_mode);
}

bool spsh__tree_has_folder(int folder_fd, const char *name)
{
    struct stat info;
    return fstatat(folder_fd, name, &info, 0) == 0 && S_ISDIR(info.st_mode);
}
