/* view_internal.h: what a view is made of, for the sources that implement it. */
#ifndef SPSH_INGEST_VIEW_INTERNAL_H
#define SPSH_INGEST_VIEW_INTERNAL_H

#include <dirent.h>

#include "archive_index.h"
#include "name_index.h"
#include "view.h"

/** What functions that take a const view may change. */
typedef struct spsh__view_scratch {
    spsh__builder path;   /* of the piece that was located last */
    spsh__builder member; /* path in the index that was looked up last */
    char *real_root;
    bool real_root_is_known;          /* real_root is what it will be, NULL too */
    const spsh__archive_index *index; /* or NULL: no archives, or not indexed yet */
    spsh__archive_index *own_index;   /* the same, to be freed with this view */
    const char *index_root;           /* absolute path of the index's root; NULL: unknown */
    bool has_archives_to_index;       /* spsh__view_index_archives was not called yet */
} spsh__view_scratch;

struct spsh__view {
    char *root;   /* as it was given */
    char *folder; /* what paths are relative to: root, or the folder of the manifest */
    char *file;   /* name of the manifest in folder, or NULL */
    int root_fd;  /* of folder; -1: there is no such folder on the disk, only in archives */
    char *scratch_directory; /* or NULL */
    bool follow_links;
    const spsh_io *io;            /* for archives */
    spsh__view_observer observer; /* the same */
    char *prefix;                 /* of paths in the index: "" or what is above the root */
    spsh__view_scratch *scratch;
};

struct spsh__view_folder {
    DIR *directory; /* or NULL */
    bool follow_links;
    const spsh__archive_index *index;
    uint64_t next, end; /* entries of the index that come behind those of the disk */
    bool disk_is_read;
    spsh__name_index on_disk; /* names that hide members */
    bool looks;               /* there was no memory for them: look at the disk */
};

#endif
