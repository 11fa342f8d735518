/* sample_scan.h: from samples of archives to utterances. */
#ifndef SPSH_INGEST_SAMPLE_SCAN_H
#define SPSH_INGEST_SAMPLE_SCAN_H

#include "ingest/scan/scan.h"
#include "ingest/view/samples.h"

/** Archives of a view, in the order in which they are read. */
typedef struct spsh__sample_set {
    /* NULL behind the last. *ret_split is empty before: the split, where it is known. */
    const char *(*archive_fn)(const void *user, size_t number, spsh_bytes *ret_split);
    const void *user;
    spsh_bytes split; /* of archives whose path names none */
} spsh__sample_set;

/* Emit every sample that has audio, and reject what is left over. Reads the names twice where there
 * are several archives: an id needs its archive's name when two archives have the same key. */
SPSH_NODISCARD spsh_status spsh__sample_scan(spsh__scan *scan, const spsh__sample_set *set,
                                             spsh_error *err);

/* The archive's path, or what a root that is an archive is called, in out; NULL without memory. */
const char *spsh__sample_archive_name(const spsh__view *view, const char *archive,
                                      spsh__builder *out);

/* What an archive is called before its number: "talks" for "a/talks-000017.tar". Empty when it has
 * no number, or when the words only say that it is a part or which split it is. */
spsh_bytes spsh__sample_prefix(const char *archive);

/* Digits of the number that ends the name of an archive, 0 when there is none. */
size_t spsh__sample_number_digits(const char *archive);

/* The parts that a sample is made of, or NULL. */
typedef struct spsh__sample_roles {
    const spsh__sample_part *audio, *text, *json;
} spsh__sample_roles;

spsh__sample_roles spsh__sample_roles_of(const spsh__sample *sample);

#endif
