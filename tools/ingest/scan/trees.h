/* trees.h: the folders at or below a root where a corpus begins, however it was unpacked: the root
 * itself, one wrapper folder, a release with a folder a language. Folders that only hold audio are
 * not entered, so millions of clips are not read to find out that they are clips.
 */
#ifndef SPSH_INGEST_TREES_H
#define SPSH_INGEST_TREES_H

#include "ingest/view/path_list.h"
#include "scan.h"

/* Whether the root of a view is a tree; *ret_is_tree is false before. */
typedef spsh_status (*spsh__tree_check_fn)(const spsh__view *folder, bool *ret_is_tree,
                                           spsh_error *err);

typedef struct spsh__tree_search {
    const spsh__view *view;
    spsh__scan *scan; /* NULL for a probe: it stops at the first tree and after some folders */
    spsh__tree_check_fn check_fn;
} spsh__tree_search;

/* *ret_trees becomes paths relative to the root: sorted, then the trees that only links lead to.
 * Trees inside a tree are not looked for. On failure nothing has to be freed. */
SPSH_NODISCARD spsh_status spsh__trees_find(const spsh__tree_search *search,
                                            spsh__path_list *ret_trees, spsh_error *err);

/** A layout whose trees are read one by one. */
typedef struct spsh__tree_layout {
    const char *what; /* it is known by, behind "it" or a path: "holds clips/ and ..." */
    spsh__tree_check_fn check_fn;
    /* name: of the tree's folder, see spsh__view_folder_name */
    spsh_status (*scan_fn)(spsh__scan *scan, const char *path, const char *name, spsh_error *err);
} spsh__tree_layout;

/* A layout's scan: find the trees and read each. */
SPSH_NODISCARD spsh_status spsh__trees_scan(spsh__scan *scan, const spsh__tree_layout *layout,
                                            spsh_error *err);

/* A layout's probe: says where the first tree is, and what it holds. */
SPSH_NODISCARD spsh_status spsh__trees_probe(const spsh__view *view, spsh__tree_check_fn check_fn,
                                             const char *what, spsh_layout_probe *ret_probe,
                                             spsh_error *err);

#endif
