/* view_internal.h: the structs of a view, for the sources that implement it. */
#ifndef SPSH_INGEST_VIEW_INTERNAL_H
#define SPSH_INGEST_VIEW_INTERNAL_H

#include <dirent.h>

#include "archive_index.h"
#include "name_index.h"
#include "view.h"

/** The first failure of a disk or a file server (os_error.h). */
typedef struct spsh__view_failure {
    int os_errno; /* 0: none */
    char path[240];
} spsh__view_failure;

/** State that functions with a const view may change. */
typedef struct spsh__view_scratch {
    spsh__builder path;   /* path of the last located piece */
    spsh__builder member; /* index path of the last lookup */
    char *real_root;
    bool real_root_is_known;          /* real_root is final, even if NULL */
    const spsh__archive_index *index; /* NULL: no archives, or not indexed yet */
    spsh__archive_index *own_index;   /* index if this view owns it and frees it, or NULL */
    const char *index_root;           /* absolute path of the index's root; NULL: unknown */
    bool has_archives_to_index;       /* spsh__view_index_archives was not called yet */
    spsh__view_failure own_failure;
    spsh__view_failure *failure; /* own_failure of the view at the top */
} spsh__view_scratch;

struct spsh__view {
    char *root;              /* as passed by the caller */
    char *folder;            /* base of relative paths: root, or the folder of the manifest */
    char *file;              /* name of the manifest in folder, or NULL */
    int root_fd;             /* descriptor of folder; -1: the folder exists only in archives */
    char *scratch_directory; /* or NULL */
    bool follow_links;
    const spsh_io *io;            /* for archives */
    spsh__view_observer observer; /* for archives */
    char *prefix;                 /* prefix of paths in the index: "" or the path of this view below
                                     the index's root */
    spsh__view_scratch *scratch;
};

struct spsh__view_folder {
    const spsh__view *view;
    DIR *directory; /* or NULL */
    bool follow_links;
    const spsh__archive_index *index;
    uint64_t next, end; /* range of index entries, listed after the disk entries */
    bool disk_is_read;
    spsh__name_index on_disk; /* disk names, which hide members */
    bool looks;               /* on_disk is incomplete for lack of memory: check the disk for each
                                 member */
    char path[];
};

/* Note an errno for spsh__view_check if it is a failure of a disk or a file server. */
void spsh__view_note_failure(const spsh__view *view, const char *path, int os_errno);

#endif
