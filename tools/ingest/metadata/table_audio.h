/* table_audio.h: find the file that a table's audio column names, and derive its names. */
#ifndef SPSH_INGEST_TABLE_AUDIO_H
#define SPSH_INGEST_TABLE_AUDIO_H

#include <stdbool.h>

#include "common/byte_builder.h"
#include "ingest/scan/ingest.h"

typedef enum spsh__audio_found {
    SPSH__AUDIO_FOUND,
    SPSH__AUDIO_MISSING,
    SPSH__AUDIO_NOT_REGULAR,
    SPSH__AUDIO_UNREADABLE,
    SPSH__AUDIO_REMOTE, /* a URL: scheme://... */
} spsh__audio_found;

/** The audio of the current row. Valid until the next call with the same resolver. */
typedef struct spsh__audio_file {
    spsh__audio_found found;
    int os_errno;     /* if UNREADABLE */
    const char *path; /* path in the view, or absolute if outside of it; bytes as on disk */
    bool extension_was_added;
    uint64_t size_bytes;
} spsh__audio_file;

typedef struct spsh__audio_resolver spsh__audio_resolver;

/* Create a resolver for a table in the root of view. view is borrowed. */
SPSH_NODISCARD spsh_status spsh__audio_resolver_new(const spsh__view *view,
                                                    spsh__audio_resolver **ret_resolver,
                                                    spsh_error *err);
void spsh__audio_resolver_free(spsh__audio_resolver *resolver);

/**
 * Find the file that a table names. Tries the path as absolute, relative to the root, and below
 * clips/, wavs/, wav/, audio/, and audios/. Then tries each of these with .wav, .flac, .mp3, .opus,
 * and .ogg appended. The location that matched the last row is tried first, so a table normally
 * costs one stat per row.
 */
SPSH_NODISCARD spsh_status spsh__audio_resolve(spsh__audio_resolver *resolver, spsh_bytes written,
                                               spsh__audio_file *ret_file, spsh_error *err);

/* Whether an utterance must be rejected because of its audio. ret_reject gets reason and detail. */
bool spsh__audio_refused(const spsh__audio_file *audio, spsh_reject *ret_reject);

/* The same for a file of the view: os_errno and info are what spsh__view_stat returned. A folder
 * counts as a missing file. */
bool spsh__audio_stat_refused(int os_errno, const spsh__view_info *info, spsh_reject *ret_reject);

/**
 * Append a normalized path to out: without "./" and doubled '/', and relative if it is an absolute
 * path below the root.
 */
void spsh__audio_plain_path(const spsh__audio_resolver *resolver, spsh_bytes written,
                            spsh__builder *out);

#endif
