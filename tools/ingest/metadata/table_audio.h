/* table_audio.h: from what a table writes in its audio column to a file and its names. */
#ifndef SPSH_INGEST_TABLE_AUDIO_H
#define SPSH_INGEST_TABLE_AUDIO_H

#include <stdbool.h>

#include "common/byte_builder.h"
#include "ingest/view/view.h"

typedef enum spsh__audio_found {
    SPSH__AUDIO_FOUND,
    SPSH__AUDIO_MISSING,
    SPSH__AUDIO_NOT_REGULAR,
    SPSH__AUDIO_UNREADABLE,
    SPSH__AUDIO_REMOTE, /* scheme://... */
} spsh__audio_found;

/** The audio of the current row. Valid until the next call with the same resolver. */
typedef struct spsh__audio_file {
    spsh__audio_found found;
    int os_errno;     /* when UNREADABLE */
    const char *path; /* in the view, or absolute when it lies outside; bytes as on disk */
    bool extension_was_added;
    uint64_t size_bytes;
} spsh__audio_file;

typedef struct spsh__audio_resolver spsh__audio_resolver;

/* The table stands in the root of view, which is borrowed. */
SPSH_NODISCARD spsh_status spsh__audio_resolver_new(const spsh__view *view,
                                                    spsh__audio_resolver **ret_resolver,
                                                    spsh_error *err);
void spsh__audio_resolver_free(spsh__audio_resolver *resolver);

/**
 * Find the file that a table means: absolute, relative to the root, below clips/ wavs/ wav/ audio/
 * audios/, then each of these with .wav .flac .mp3 .opus .ogg added. The place where the last row's
 * file was is tried first, so a table costs one stat a row.
 */
SPSH_NODISCARD spsh_status spsh__audio_resolve(spsh__audio_resolver *resolver, spsh_bytes written,
                                               spsh__audio_file *ret_file, spsh_error *err);

/**
 * The same path written one way: no "./", no doubled '/', and relative where it is absolute but
 * below the root. Appended to out.
 */
void spsh__audio_plain_path(const spsh__audio_resolver *resolver, spsh_bytes written,
                            spsh__builder *out);

#endif
