/* json_manifest.h: manifests of JSON lines, an utterance a line, and the audio files they name.
 *
 * A format says which keys play which role; everything else is the same for all of them.
 */
#ifndef SPSH_INGEST_JSON_MANIFEST_H
#define SPSH_INGEST_JSON_MANIFEST_H

#include "ingest.h"

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
    SPSH__JSON_SHARD, /* the audio is in an archive: not this format */
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
    const char *const *extensions; /* of files that are looked at in a folder; ended by NULL */
} spsh__json_format;

/* The view's file is the manifest, or its root has one or several. */
SPSH_NODISCARD spsh_status spsh__json_manifest_probe(const spsh__view *view,
                                                     const spsh__json_format *format,
                                                     spsh_layout_probe *ret_probe, spsh_error *err);
SPSH_NODISCARD spsh_status spsh__json_manifest_scan(const spsh_ingest_options *options,
                                                    const spsh_ingest_sink *sink,
                                                    const spsh__json_format *format,
                                                    spsh_error *err);

/* "train", "dev", "test" or "validation", when the name of a file or folder has such a word between
 * characters that are no letters ("val" and "valid" are "validation"); else empty. */
spsh_bytes spsh__split_of_name(const char *name);

#endif
