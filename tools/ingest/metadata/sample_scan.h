/* sample_scan.h: convert samples of archives to utterances. */
#ifndef SPSH_INGEST_SAMPLE_SCAN_H
#define SPSH_INGEST_SAMPLE_SCAN_H

#include "ingest/scan/scan.h"
#include "ingest/view/samples.h"

/** Archives of a view, in reading order. */
typedef struct spsh__sample_set {
    /* Return the archive at that index, or NULL after the last. *ret_split is empty before the
     * call; set it if the split is known. */
    const char *(*archive_fn)(const void *user, size_t number, spsh_bytes *ret_split);
    const void *user;
    spsh_bytes split; /* split, if the archive's path names no split */
} spsh__sample_set;

/* Emit every sample that has audio, and reject the other members. With several archives, reads the
 * names twice: an id includes the archive's name if two archives have the same key. */
SPSH_NODISCARD spsh_status spsh__sample_scan(spsh__scan *scan, const spsh__sample_set *set,
                                             spsh_error *err);

/* Write the archive's path to out and return it. For a root that is an archive, writes the root's
 * name. Returns NULL if out of memory. */
const char *spsh__sample_archive_name(const spsh__view *view, const char *archive,
                                      spsh__builder *out);

/* Return the part of an archive's name before its number: "talks" for "a/talks-000017.tar". Empty
 * if the name has no number, or if the words only mark a part or a split. */
spsh_bytes spsh__sample_prefix(const char *archive);

/* Return the count of digits at the end of an archive's name, or 0. */
size_t spsh__sample_number_digits(const char *archive);

/* The parts of a sample by role, or NULL. */
typedef struct spsh__sample_roles {
    const spsh__sample_part *audio, *text, *json;
} spsh__sample_roles;

spsh__sample_roles spsh__sample_roles_of(const spsh__sample *sample);

#endif
