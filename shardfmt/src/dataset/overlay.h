/* overlay.h: open, query, check, and write overlays (FORMAT.md 5). */
#ifndef SPSH_OVERLAY_H
#define SPSH_OVERLAY_H

#include "manifest.h"

enum {
    SPSH__OVERLAY_KEY = 1,
    SPSH__OVERLAY_VALUE_ENDS = 2,
    SPSH__OVERLAY_VALUES = 3,
    SPSH__OVERLAY_NOTE = 4,
    SPSH__OVERLAY_ID_HASH = 5,
};

typedef struct spsh__overlay {
    spsh__container *container;
    spsh_bytes name; /* borrowed from the manifest */
    spsh_overlay_type type;
    uint64_t entry_count;
} spsh__overlay;

/* Open the overlay with that number; it must be the file in the manifest. */
spsh_status spsh__overlay_open(const spsh_io *io, const spsh_allocator *allocator,
                               const char *dataset_path, const spsh__manifest *manifest,
                               uint64_t number, spsh__overlay *ret_overlay, spsh_error *err);

/* Take ownership of an open container after checking kind, type, and sections. */
spsh_status spsh__overlay_load(spsh__container *container, spsh__overlay *ret_overlay,
                               spsh_error *err);
void spsh__overlay_close(spsh__overlay *overlay);

/* Compute the key of an utterance id. */
void spsh__overlay_key(spsh_bytes id, uint8_t ret_key[16]);

/* Look up a key. *ret_value is borrowed until close, and untouched unless found. Thread-safe. */
spsh_status spsh__overlay_find(const spsh__overlay *overlay, const uint8_t key[16], bool *ret_found,
                               spsh_bytes *ret_value, spsh_error *err);

/* Check everything that a lookup does not: order of keys, sizes and UTF-8 of values, and that the
 * file id follows from the content. name must be set. */
spsh_status spsh__overlay_check(const spsh__overlay *overlay, const spsh_allocator *allocator,
                                spsh_error *err);

/* Check every rule of an open overlay file: padding, kind, sections, and content under that name.
 * verify and repair both use this function, so they agree on what an intact overlay is. */
spsh_status spsh__overlay_check_file(spsh__container *container, spsh_bytes name,
                                     const spsh_allocator *allocator, spsh_error *err);
/* Return the name that a user passed: without the number that the file's name may end with. */
spsh_bytes spsh__overlay_given_name(spsh_bytes name);

/* spsh_overlay_add and spsh_overlay_remove with an allocator. */
typedef struct spsh__overlay_edit {
    const spsh_io *io;
    const spsh_allocator *allocator;
    const char *dataset_path;
    const char *name;
    spsh_overlay_type type;
    const spsh_overlay_entry *entries;
    uint64_t entry_count;
} spsh__overlay_edit;
spsh_status spsh__overlay_add(const spsh__overlay_edit *edit, spsh_error *err);
spsh_status spsh__overlay_remove(const spsh__overlay_edit *edit, spsh_error *err);

#endif
