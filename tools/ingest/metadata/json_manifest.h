/* json_manifest.h: manifests of JSON lines, one utterance per line, and the audio files that they
 * name.
 *
 * A format maps keys to roles. Everything else is the same for all formats.
 */
#ifndef SPSH_INGEST_JSON_MANIFEST_H
#define SPSH_INGEST_JSON_MANIFEST_H

#include "common/jsonl.h"
#include "ingest/scan/ingest.h"
#include "ingest/scan/scan.h"

typedef enum spsh__json_role {
    SPSH__JSON_AUDIO,
    SPSH__JSON_ID,
    SPSH__JSON_TEXT,
    SPSH__JSON_TEXT_FILE, /* path of a file with the transcript */
    SPSH__JSON_DOMAIN,
    SPSH__JSON_SPEAKER,
    SPSH__JSON_LANGUAGE,
    SPSH__JSON_START, /* seconds, like the next two roles */
    SPSH__JSON_END,
    SPSH__JSON_DURATION,
    SPSH__JSON_SKIP,  /* if truthy, the line is skipped */
    SPSH__JSON_SHARD, /* number of the archive that contains the audio */
    SPSH__JSON_ROLES,
} spsh__json_role;

/** One key of a role. If a line has several keys of one role, the first in the format's order is
 * used, and the others become extras. */
typedef struct spsh__json_key {
    spsh__json_role role;
    const char *name;
} spsh__json_key;

typedef struct spsh__json_format {
    const char *title; /* "a NeMo manifest" */
    const spsh__json_key *keys;
    size_t key_count;
    uint32_t required;             /* bit i: the first line must have role i */
    uint32_t excluded;             /* bit i: the first line must not have role i */
    const char *const *extensions; /* extensions of candidate files in a folder; NULL-terminated */
} spsh__json_format;

/** The audio of a line in an archive member. Borrowed until the next find_fn. */
typedef struct spsh__json_archived {
    bool found;
    const char *detail; /* why it was not found */
    spsh__piece piece;
    spsh_bytes source; /* source of the utterance, also used as the recording id */
} spsh__json_archived;

/** Manifests whose audio is in archives that the layout knows. */
typedef struct spsh__json_archives {
    /* written: path as in the line; shard: value of the shard role, or NULL */
    spsh_status (*find_fn)(void *user, spsh_bytes written, const spsh__json_value *shard,
                           spsh__json_archived *ret_member, spsh_error *err);
    void *user;
    const char *folder; /* folder name for the ids */
    spsh_bytes split;   /* split, if the manifest's file name names no split */
} spsh__json_archives;

/* Read the manifest at a path of the view. */
SPSH_NODISCARD spsh_status spsh__json_manifest_read(spsh__scan *scan,
                                                    const spsh__json_format *format,
                                                    const char *path,
                                                    const spsh__json_archives *members,
                                                    spsh_error *err);

/* Whether the file at a path of the view is such a manifest, judged by its first readable line. */
SPSH_NODISCARD spsh_status spsh__json_manifest_fits(const spsh__view *view, const char *path,
                                                    const spsh__json_format *format, bool *ret_fits,
                                                    spsh_error *err);

/* Whether the view's file is such a manifest, or the view's root contains one or several. */
SPSH_NODISCARD spsh_status spsh__json_manifest_probe(const spsh__view *view,
                                                     const spsh__json_format *format,
                                                     spsh_layout_probe *ret_probe, spsh_error *err);
SPSH_NODISCARD spsh_status spsh__json_manifest_scan(spsh__scan *scan,
                                                    const spsh__json_format *format,
                                                    spsh_error *err);

/* Return "train", "dev", "test", or "validation" if a file or folder name contains that word
 * between non-letters ("val" and "valid" are "validation"), else empty. */
spsh_bytes spsh__split_of_name(const char *name);

/* Return the split in the name of the root. Returns false if out of memory. */
bool spsh__split_of_root(const spsh__view *view, spsh_bytes *ret_split);

#endif
