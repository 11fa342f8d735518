/* walk.h: visit every folder below a root once, in the order of the sorted names.
 *
 * Memory: the names of the largest folder (16 bytes plus the name per entry) and the paths of the
 * pending folders. Only the folder being read is open.
 *
 * Symbolic links to files count as files. Links to folders are reported, and walked only if the
 * view follows links. The walk visits them last, in path order, and each folder once (by device and
 * inode). So the path of a folder does not depend on the listing order of the file system, and
 * loops end at once.
 */
#ifndef SPSH_INGEST_WALK_H
#define SPSH_INGEST_WALK_H

#include <stdbool.h>

#include "speechshard/base.h"
#include "view.h"

typedef enum spsh__entry_type {
    SPSH__ENTRY_FILE,
    SPSH__ENTRY_SPECIAL, /* FIFO, socket, device */
    SPSH__ENTRY_BROKEN,  /* a dangling link, or an entry that stat cannot read */
} spsh__entry_type;

typedef struct spsh__folder_entry {
    const char *name;
    uint32_t name_bytes;
    spsh__entry_type type;
} spsh__folder_entry;

/** One folder. Borrowed during the call. Entries are unsorted and do not include folders or ignored
 * names. */
typedef struct spsh__folder {
    const spsh__view *view;
    const char *path; /* path in the view; "" for the root */
    const spsh__folder_entry *entries;
    size_t entry_count;
} spsh__folder;

typedef enum spsh__walk_note {
    SPSH__WALK_UNREADABLE,      /* os_errno is the cause */
    SPSH__WALK_LINK_NOT_TAKEN,  /* a link to a folder, in a view that does not follow links */
    SPSH__WALK_ALREADY_VISITED, /* a link to a folder that was walked under another path */
} spsh__walk_note;

typedef struct spsh__walk_visitor {
    spsh_status (*folder_fn)(void *user, const spsh__folder *folder, spsh_error *err);
    void *user;
    spsh_status (*note_fn)(void *user, spsh__walk_note note, const char *path, int os_errno,
                           spsh_error *err); /* NULL: ignore notes */
    void *note_user;
} spsh__walk_visitor;

/* Walk the view. SPSH_E_NOT_FOUND or SPSH_E_IO if the root cannot be read; SPSH_E_NO_MEMORY; or any
 * code that the visitor returns.
 */
SPSH_NODISCARD spsh_status spsh__walk(const spsh__view *view, const spsh__walk_visitor *visitor,
                                      spsh_error *err);

#endif
