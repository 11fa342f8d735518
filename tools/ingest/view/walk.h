/* walk.h: every folder below a root, once, in the order of the sorted names.
 *
 * Memory: the names of the largest folder (16 bytes and the name per entry) and the paths of the
 * folders that are known and not read yet. No folder is held open but the one being read.
 *
 * Symbolic links to files are files. Links to folders are reported, and walked only if the view
 * follows links: after everything that is reached without them, in the order of their paths, each
 * folder once (by device and inode). What a folder is called therefore does not depend on the order
 * in which a file system lists it, and a loop ends at once.
 */
#ifndef SPSH_INGEST_WALK_H
#define SPSH_INGEST_WALK_H

#include <stdbool.h>

#include "speechshard/base.h"
#include "view.h"

typedef enum spsh__entry_type {
    SPSH__ENTRY_FILE,
    SPSH__ENTRY_SPECIAL, /* FIFO, socket, device */
    SPSH__ENTRY_BROKEN,  /* a link to nothing, or one that cannot be looked at */
} spsh__entry_type;

typedef struct spsh__folder_entry {
    const char *name;
    uint32_t name_bytes;
    spsh__entry_type type;
} spsh__folder_entry;

/** One folder, during the call. Entries are in no order; ignored names and folders are not among
 * them. */
typedef struct spsh__folder {
    const spsh__view *view;
    const char *path; /* in the view; "" for the root */
    const spsh__folder_entry *entries;
    size_t entry_count;
} spsh__folder;

typedef enum spsh__walk_note {
    SPSH__WALK_UNREADABLE,      /* os_errno says why */
    SPSH__WALK_LINK_NOT_TAKEN,  /* a link to a folder, the view does not follow links */
    SPSH__WALK_ALREADY_VISITED, /* a link to a folder that was walked under another name */
} spsh__walk_note;

typedef struct spsh__walk_visitor {
    spsh_status (*folder_fn)(void *user, const spsh__folder *folder, spsh_error *err);
    void *user;
    spsh_status (*note_fn)(void *user, spsh__walk_note note, const char *path, int os_errno,
                           spsh_error *err); /* NULL: ignore notes */
    void *note_user;
} spsh__walk_visitor;

/* SPSH_E_NOT_FOUND or SPSH_E_IO when root itself cannot be read, no memory, or what a visitor gave.
 */
SPSH_NODISCARD spsh_status spsh__walk(const spsh__view *view, const spsh__walk_visitor *visitor,
                                      spsh_error *err);

#endif
