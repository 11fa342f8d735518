/* json_manifest.h: manifests of JSON lines, an utterance a line, and the audio files they name.
 *
 * A format says which keys play which role; everything else is the same for all of them.
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
    SPSH__JSON_TEXT_FILE, /* path of a file with the text */
    SPSH__JSON_DOMAIN,
    SPSH__JSON_SPEAKER,
    SPSH__JSON_LANGUAGE,
    SPSH__JSON_START, /* seconds, as are the next two */
    SPSH__JSON_END,
    SPSH__JSON_DURATION,
    SPSH__JSON_SKIP,  /* when truthy, the line does not count */
    SPSH__JSON_SHARD, /* number of the archive that the audio is in */
    SPSH__JSON_ROLES,
} spsh__json_role;

/** Of the keys of one role, the first that a line has plays it; the others are extras. */
typedef struct spsh__json_key {
    spsh__json_role role;
    const char *name;
} spsh__json_key;

typedef struct spsh__json_format {
    const char *title; /* "a NeMo manifest" */
    const spsh__json_key *keys;
    size_t key_count;
    uint32_t required;             /* bit i: the first line has role i */
    uint32_t excluded;             /* bit i: it has not */
    const char *const *extensions; /* of files that are looked at in a folder; ended by NULL */
} spsh__json_format;

/** The audio of a line, in a member of an archive. Borrowed until the next one is looked for. */
typedef struct spsh__json_archived {
    bool found;
    const char *detail; /* why not */
    spsh__piece piece;
    spsh_bytes source; /* for the utterance; stands for the recording, too */
} spsh__json_archived;

/** Manifests whose audio is in archives that the layout knows. */
typedef struct spsh__json_archives {
    /* written: as in the line; shard: the value of its role, or NULL */
    spsh_status (*find_fn)(void *user, spsh_bytes written, const spsh__json_value *shard,
                           spsh__json_archived *ret_member, spsh_error *err);
    void *user;
    const char *folder; /* part of the ids */
    spsh_bytes split;   /* of manifests whose name says none */
} spsh__json_archives;

/* Read the manifest at a path of the view. */
SPSH_NODISCARD spsh_status spsh__json_manifest_read(spsh__scan *scan,
                                                    const spsh__json_format *format,
                                                    const char *path,
                                                    const spsh__json_archives *members,
                                                    spsh_error *err);

/* Whether the file at a path of the view is one, by the first of its lines that can be read. */
SPSH_NODISCARD spsh_status spsh__json_manifest_fits(const spsh__view *view, const char *path,
                                                    const spsh__json_format *format, bool *ret_fits,
                                                    spsh_error *err);

/* The view's file is the manifest, or its root has one or several. */
SPSH_NODISCARD spsh_status spsh__json_manifest_probe(const spsh__view *view,
                                                     const spsh__json_format *format,
                                                     spsh_layout_probe *ret_probe, spsh_error *err);
SPSH_NODISCARD spsh_status spsh__json_manifest_scan(spsh__scan *scan,
                                                    const spsh__json_format *format,
                                                    spsh_error *err);

/* "train", "dev", "test" or "validation", when the name of a file or folder has such a word between
 * characters that are no letters ("val" and "valid" are "validation"); else empty. */
spsh_bytes spsh__split_of_name(const char *name);

/* The same for what the root is called. False without memory. */
bool spsh__split_of_root(const spsh__view *view, spsh_bytes *ret_split);

#endif
