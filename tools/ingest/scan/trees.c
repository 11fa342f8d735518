/* trees.c: see trees.h. Depth first, names sorted, at most four levels below the root. */
#include "trees.h"

#include <errno.h>
#include <stdlib.h>

#include "common/file_names.h"
#include "ingest/view/folder_set.h"
#include "probe.h"
#include "scan_strings.h"
#include "speechshard/inside.h"

#define DEPTH_MAX         4U
#define PROBE_FOLDERS_MAX 256U
#define PROBE_ENTRIES_MAX 65536U

typedef struct tree_walk {
    const spsh__tree_search *search;
    spsh__path_list *trees;
    spsh__path_list links; /* links to folders, which are entered after all other folders */
    spsh__folder_set seen; /* only if the view follows links */
    unsigned folders;      /* folders visited so far */
} tree_walk;

/* Whether an entry is a folder to look into; links to folders count with --follow-links only. */
static spsh_status check_entry(const tree_walk *w, const spsh__view *folder, const char *path,
                               const spsh__view_entry *entry, bool *ret_enter, spsh_error *err)
{
    spsh__scan *scan = w->search->scan;
    const bool is_link = entry->type == SPSH__VIEW_LINK;
    *ret_enter = false;
    if (entry->name[0] == '.' || spsh__is_ignored_name(entry->name) ||
        spsh__is_clip_folder(entry->name) || (entry->type != SPSH__VIEW_FOLDER && !is_link))
        return SPSH_OK;
    *ret_enter = entry->enters;
    if (entry->enters || scan == NULL || !spsh__view_has_folder(folder, entry->name))
        return SPSH_OK;
    spsh__builder link = {0};
    spsh__builder_append_part(&link, path);
    spsh__builder_append_part(&link, entry->name);
    spsh_status rc = spsh__builder_text(&link) == NULL
                         ? SPSH_NO_MEMORY(err)
                         : spsh__scan_walk_note(scan, SPSH__WALK_LINK_NOT_TAKEN,
                                                spsh__builder_text(&link), 0, err);
    spsh__builder_free(&link);
    return rc;
}

/* Report an unreadable folder in a scan. A probe ignores it. */
static spsh_status note_unreadable(const tree_walk *w, const char *path, int os_errno,
                                   spsh_error *err)
{
    if (w->search->scan == NULL)
        return SPSH_OK;
    return spsh__scan_walk_note(w->search->scan, SPSH__WALK_UNREADABLE, path, os_errno, err);
}

/* Whether a folder was not entered under another path. */
static spsh_status check_new(tree_walk *w, const spsh__view *folder, const char *path,
                             bool *ret_new, spsh_error *err)
{
    spsh__view_info info;
    *ret_new = true;
    if (!spsh__view_follows_links(folder) || spsh__view_stat(folder, "", &info) != 0)
        return SPSH_OK;
    if (!spsh__folder_set_add(&w->seen, &info, ret_new))
        return SPSH_NO_MEMORY(err);
    if (*ret_new || w->search->scan == NULL)
        return SPSH_OK;
    return spsh__scan_walk_note(w->search->scan, SPSH__WALK_ALREADY_VISITED, path, 0, err);
}

/* List the paths of the folders in a folder. */
static spsh_status list_folders(tree_walk *w, const spsh__view *folder, const char *path,
                                spsh__path_list *children, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    spsh__view_entry entry;
    spsh__view_folder *listing = spsh__view_folder_open(folder, "");
    if (listing == NULL)
        return errno == ENOMEM ? SPSH_NO_MEMORY(err) : note_unreadable(w, path, errno, err);
    for (unsigned i = 0; rc == SPSH_OK && spsh__view_folder_next(listing, &entry); i++) {
        bool enter = false;
        if (w->search->scan == NULL && i == PROBE_ENTRIES_MAX)
            break;
        rc = check_entry(w, folder, path, &entry, &enter, err);
        if (rc == SPSH_OK && enter)
            rc = spsh__path_list_add(entry.type == SPSH__VIEW_LINK ? &w->links : children, path,
                                     entry.name, err);
    }
    spsh__view_folder_close(listing);
    spsh__path_list_sort(children, 0);
    return rc;
}

static bool is_done(const tree_walk *w)
{
    return w->search->scan == NULL && (w->trees->count > 0 || w->folders >= PROBE_FOLDERS_MAX);
}

static spsh_status visit(tree_walk *w, const char *path, unsigned depth, spsh_error *err)
{
    bool is_tree = false;
    bool is_new = true;
    spsh__path_list children = {0};
    spsh__view *folder = NULL;
    spsh_error open_error = SPSH_ERROR_INIT;
    w->folders++;
    spsh_status rc = spsh__view_below(w->search->view, path, &folder, &open_error);
    if (rc == SPSH_E_NO_MEMORY)
        return SPSH_NO_MEMORY(err);
    if (rc != SPSH_OK)
        return note_unreadable(w, path, open_error.os_errno, err);
    rc = check_new(w, folder, path, &is_new, err);
    if (rc == SPSH_OK && is_new)
        rc = w->search->check_fn(folder, &is_tree, err);
    if (rc == SPSH_OK && is_tree)
        rc = spsh__path_list_add(w->trees, "", path, err);
    else if (rc == SPSH_OK && is_new && depth < DEPTH_MAX)
        rc = list_folders(w, folder, path, &children, err);
    spsh__view_close(folder);
    for (size_t i = 0; i < children.count && rc == SPSH_OK && !is_done(w); i++)
        rc = visit(w, children.paths[i], depth + 1, err);
    spsh__path_list_free(&children);
    return rc;
}

/* Visit links in path order, like spsh__walk. */
static spsh_status visit_links(tree_walk *w, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    while (rc == SPSH_OK && w->links.count > 0 && !is_done(w)) {
        unsigned depth = 1;
        spsh__path_list_sort(&w->links, 0);
        char *path = w->links.paths[0];
        w->links.paths[0] = w->links.paths[--w->links.count];
        for (const char *c = path; *c != '\0'; c++)
            depth += *c == '/';
        rc = visit(w, path, depth, err);
        free(path);
    }
    return rc;
}

spsh_status spsh__trees_find(const spsh__tree_search *search, spsh__path_list *ret_trees,
                             spsh_error *err)
{
    spsh__path_list trees = {0};
    tree_walk walk = {.search = search, .trees = &trees};
    spsh_status rc = SPSH_OK;
    if (spsh__view_file(search->view) == NULL)
        rc = visit(&walk, "", 0, err);
    if (rc == SPSH_OK)
        rc = visit_links(&walk, err);
    spsh__path_list_free(&walk.links);
    spsh__folder_set_free(&walk.seen);
    if (rc != SPSH_OK) {
        spsh__path_list_free(&trees);
        return rc;
    }
    *ret_trees = trees;
    return SPSH_OK;
}

static spsh_status scan_tree(spsh__scan *scan, const char *path, const spsh__tree_layout *layout,
                             spsh_error *err)
{
    const spsh__strings_mark mark = spsh__strings_here(scan);
    spsh__view *view = NULL;
    spsh__view_folder_name(scan->options->view, path, spsh__strings_open(scan));
    const char *name = spsh__text_of(spsh__strings_close(scan));
    spsh_status rc = scan->strings.failed ? SPSH_NO_MEMORY(err)
                                          : spsh__view_below(scan->options->view, path, &view, err);
    const spsh__tree tree = {view, path, name};
    if (rc == SPSH_OK)
        rc = layout->scan_fn(scan, &tree, err);
    spsh__view_close(view);
    spsh__strings_release(scan, mark);
    return rc;
}

spsh_status spsh__trees_scan(spsh__scan *scan, const spsh__tree_layout *layout, spsh_error *err)
{
    const spsh__view *view = scan->options->view;
    spsh__path_list trees = {0};
    const spsh__tree_search search = {view, scan, layout->check_fn};
    spsh_status rc = spsh__trees_find(&search, &trees, err);
    if (rc == SPSH_OK && trees.count == 0)
        rc = SPSH_FAIL(err, SPSH_E_NOT_FOUND, "%s: no folder here %s", spsh__view_root(view),
                       layout->what);
    for (size_t i = 0; i < trees.count && rc == SPSH_OK; i++)
        rc = scan_tree(scan, trees.paths[i], layout, err);
    spsh__path_list_free(&trees);
    return rc;
}

spsh_status spsh__trees_probe(const spsh__view *view, const spsh__tree_layout *layout,
                              spsh_layout_probe *ret_probe, spsh_error *err)
{
    const spsh__tree_search search = {
        view, NULL, layout->probe_check_fn != NULL ? layout->probe_check_fn : layout->check_fn};
    spsh__path_list trees = {0};
    spsh_status rc = spsh__trees_find(&search, &trees, err);
    if (rc == SPSH_OK && trees.count > 0) {
        ret_probe->matches = true;
        spsh__probe_evidence(ret_probe, "%.120s %s",
                             trees.paths[0][0] == '\0' ? "it" : trees.paths[0], layout->what);
    }
    spsh__path_list_free(&trees);
    return rc;
}
