/* walk.c: a stack of paths, and one list of names that all folders reuse.
 *
 * If a path exceeds PATH_MAX, the view reports it and the walk skips it: no program could open a
 * file below it by name.
 */
#include "walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/byte_builder.h"
#include "common/file_names.h"
#include "common/grow.h"
#include "folder_set.h"
#include "path_list.h"
#include "speechshard/inside.h"

typedef struct walk {
    const spsh__view *view;
    const spsh__walk_visitor *visitor;
    bool follow_links;
    spsh__path_list pending; /* last one next */
    spsh__path_list links;   /* to folders; only with follow_links */
    spsh__folder_set seen;   /* only with follow_links */
    spsh__builder names;     /* NUL-terminated names of the folder being read */
    spsh__folder_entry *entries;
    size_t entry_count, entry_capacity;
    spsh__builder path; /* path for a stat */
} walk;

static spsh_status note(walk *w, spsh__walk_note what, const char *path, int os_errno,
                        spsh_error *err)
{
    return w->visitor->note_fn == NULL
               ? SPSH_OK
               : w->visitor->note_fn(w->visitor->note_user, what, path, os_errno, err);
}

static int compare_paths_down(const void *a, const void *b)
{
    return strcmp(*(char *const *)b, *(char *const *)a);
}

/* Sort the new entries of the list in descending order, because the walk takes them from its end.
 */
static void list_sort_down(spsh__path_list *list, size_t begin)
{
    if (list->count - begin > 1)
        qsort(list->paths + begin, list->count - begin, sizeof(*list->paths), compare_paths_down);
}

static spsh_status add_entry(walk *w, const char *name, spsh__entry_type type, spsh_error *err)
{
    if (!SPSH_GROW(w->entries, w->entry_capacity, w->entry_count + 1))
        return SPSH_NO_MEMORY(err);
    const size_t name_bytes = strlen(name);
    /* The name is an offset until the folder is read, because the buffer may move. */
    w->entries[w->entry_count++] = (spsh__folder_entry){NULL, (uint32_t)name_bytes, type};
    spsh__builder_append(&w->names, name, name_bytes + 1);
    return w->names.failed ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

static spsh_status add_link(walk *w, const char *folder, const char *name, spsh_error *err)
{
    if (w->follow_links)
        return spsh__path_list_add(&w->links, folder, name, err);
    spsh__path_list one = {0};
    spsh_status rc = spsh__path_list_add(&one, folder, name, err);
    if (rc == SPSH_OK)
        rc = note(w, SPSH__WALK_LINK_NOT_TAKEN, one.paths[0], 0, err);
    spsh__path_list_free(&one);
    return rc;
}

/* Return the type of the file at a name after following links, or an errno. */
static int inspect(walk *w, const char *folder, const char *name, spsh__view_info *ret_info)
{
    spsh__builder_clear(&w->path);
    spsh__builder_append_part(&w->path, folder);
    spsh__builder_append_part(&w->path, name);
    const char *path = spsh__builder_text(&w->path);
    return path == NULL ? ENOMEM : spsh__view_stat(w->view, path, ret_info);
}

static spsh_status add_name(walk *w, const char *folder, const spsh__view_entry *entry,
                            spsh_error *err)
{
    const char *name = entry->name;
    spsh__view_info info;
    if (spsh__is_ignored_name(name))
        return SPSH_OK;
    switch (entry->type) {
    case SPSH__VIEW_FILE: return add_entry(w, name, SPSH__ENTRY_FILE, err);
    case SPSH__VIEW_FOLDER: return spsh__path_list_add(&w->pending, folder, name, err);
    case SPSH__VIEW_SPECIAL: return add_entry(w, name, SPSH__ENTRY_SPECIAL, err);
    case SPSH__VIEW_LINK: break;
    }
    const int os_errno = inspect(w, folder, name, &info);
    if (os_errno == ENOMEM)
        return SPSH_NO_MEMORY(err);
    if (os_errno != 0)
        return add_entry(w, name, SPSH__ENTRY_BROKEN, err);
    if (info.type == SPSH__VIEW_FOLDER)
        return add_link(w, folder, name, err);
    return add_entry(w, name, info.type == SPSH__VIEW_FILE ? SPSH__ENTRY_FILE : SPSH__ENTRY_SPECIAL,
                     err);
}

/* Read all names of one folder. *ret_errno is set if the listing fails midway. */
static spsh_status read_names(walk *w, spsh__view_folder *listing, const char *path, int *ret_errno,
                              spsh_error *err)
{
    spsh__view_entry entry;
    w->entry_count = 0;
    spsh__builder_clear(&w->names);
    while (spsh__view_folder_next(listing, &entry)) {
        spsh_status rc = add_name(w, path, &entry, err);
        if (rc != SPSH_OK)
            return rc;
    }
    *ret_errno = errno;
    size_t at = 0;
    for (size_t i = 0; i < w->entry_count; i++) {
        w->entries[i].name = (const char *)w->names.data + at;
        at += w->entries[i].name_bytes + 1;
    }
    return SPSH_OK;
}

static spsh_status open_folder(walk *w, const char *path, spsh__view_folder **ret_listing,
                               spsh_error *err)
{
    spsh__view_info info;
    spsh__view_folder *listing = spsh__view_folder_open(w->view, path);
    int os_errno = listing == NULL ? errno : 0;
    if (os_errno == 0 && w->follow_links)
        os_errno = spsh__view_stat(w->view, path, &info);
    if (os_errno == 0 && w->follow_links) {
        bool is_new = true;
        spsh_status rc =
            spsh__folder_set_add(&w->seen, &info, &is_new) ? SPSH_OK : SPSH_NO_MEMORY(err);
        if (rc == SPSH_OK && !is_new)
            rc = note(w, SPSH__WALK_ALREADY_VISITED, path, 0, err);
        if (rc != SPSH_OK || !is_new) {
            spsh__view_folder_close(listing);
            return rc;
        }
    }
    if (os_errno != 0) {
        spsh__view_folder_close(listing);
        return os_errno == ENOMEM ? SPSH_NO_MEMORY(err)
                                  : note(w, SPSH__WALK_UNREADABLE, path, os_errno, err);
    }
    *ret_listing = listing;
    return SPSH_OK;
}

static spsh_status visit(walk *w, const char *path, spsh_error *err)
{
    spsh__view_folder *listing = NULL;
    int os_errno = 0;
    const size_t begin = w->pending.count;
    spsh_status rc = open_folder(w, path, &listing, err);
    if (rc != SPSH_OK || listing == NULL)
        return rc;
    rc = read_names(w, listing, path, &os_errno, err);
    spsh__view_folder_close(listing);
    if (rc == SPSH_OK && os_errno != 0)
        rc = note(w, SPSH__WALK_UNREADABLE, path, os_errno, err);
    if (rc == SPSH_OK) {
        const spsh__folder folder = {w->view, path, w->entries, w->entry_count};
        list_sort_down(&w->pending, begin);
        rc = w->visitor->folder_fn(w->visitor->user, &folder, err);
    }
    return rc;
}

static spsh_status walk_all(walk *w, spsh_error *err)
{
    spsh_status rc = visit(w, "", err);
    while (rc == SPSH_OK && (w->pending.count > 0 || w->links.count > 0)) {
        spsh__path_list *list = &w->pending;
        if (list->count == 0) {
            list = &w->links;
            list_sort_down(list, 0);
        }
        char *path = list->paths[--list->count];
        rc = visit(w, path, err);
        free(path);
    }
    return rc;
}

spsh_status spsh__walk(const spsh__view *view, const spsh__walk_visitor *visitor, spsh_error *err)
{
    walk w = {.view = view, .visitor = visitor, .follow_links = spsh__view_follows_links(view)};
    spsh_status rc = walk_all(&w, err);
    spsh__path_list_free(&w.pending);
    spsh__path_list_free(&w.links);
    spsh__folder_set_free(&w.seen);
    free(w.entries);
    SPSH__BUILDERS_FREE(&w.names, &w.path);
    return rc;
}
