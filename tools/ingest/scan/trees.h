/* trees.h: find the folders at or below a root where a corpus begins, however it was unpacked: the
 * root itself, one wrapper folder, or a release with one folder per language. The search does not
 * enter folders that contain only audio, so it never lists millions of clips.
 */
#ifndef SPSH_INGEST_TREES_H
#define SPSH_INGEST_TREES_H

#include "ingest/view/path_list.h"
#include "scan.h"

/* Whether the root of a view is a tree. *ret_is_tree is false before the call. */
typedef spsh_status (*spsh__tree_check_fn)(const spsh__view *folder, bool *ret_is_tree,
                                           spsh_error *err);

typedef struct spsh__tree_search {
    const spsh__view *view;
    spsh__scan *scan; /* NULL for a probe, which stops at the first tree and after a limited number
                         of folders */
    spsh__tree_check_fn check_fn;
} spsh__tree_search;

/* Return the paths of the trees relative to the root: first the sorted trees, then the trees that
 * only links lead to. Does not search inside a tree. On failure nothing has to be freed. */
SPSH_NODISCARD spsh_status spsh__trees_find(const spsh__tree_search *search,
                                            spsh__path_list *ret_trees, spsh_error *err);

typedef struct spsh__tree {
    const spsh__view *view; /* of the tree */
    const char *path;       /* relative to the root */
    const char *name;       /* name of its folder, see spsh__view_folder_name */
} spsh__tree;

/** A layout whose trees are read one by one. */
typedef struct spsh__tree_layout {
    const char *what; /* evidence, printed after "it" or a path: "holds clips/ and ..." */
    spsh__tree_check_fn check_fn;
    /* Its strings (scan_strings.h) are freed after it. NULL: the layout has a function for the
     * whole root. */
    spsh_status (*scan_fn)(spsh__scan *scan, const spsh__tree *tree, spsh_error *err);
    spsh__tree_check_fn probe_check_fn; /* for a probe; NULL: check_fn */
} spsh__tree_layout;

/* Scan function of such a layout: find the trees and scan each. */
SPSH_NODISCARD spsh_status spsh__trees_scan(spsh__scan *scan, const spsh__tree_layout *layout,
                                            spsh_error *err);

/* Probe function of such a layout: report the path of the first tree and its contents. */
SPSH_NODISCARD spsh_status spsh__trees_probe(const spsh__view *view,
                                             const spsh__tree_layout *layout,
                                             spsh_layout_probe *ret_probe, spsh_error *err);

#endif
