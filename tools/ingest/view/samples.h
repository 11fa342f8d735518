/* samples.h: members of an archive grouped to samples, as WebDataset writes and reads them.
 *
 *     000017.json  000017.flac  |  000018.json  000018.flac  |  talk/a.txt  talk/a.wav
 *
 * A member's key is its path up to the first dot behind the last '/', what follows, in lower case,
 * is its extension. Members that follow each other with one key are a sample. Names without a dot
 * or without a key, names that begin with "__meta__", and those that no layout looks at belong to
 * none.
 */
#ifndef SPSH_INGEST_SAMPLES_H
#define SPSH_INGEST_SAMPLES_H

#include <stdbool.h>

#include "view.h"

#define SPSH__SAMPLE_PARTS_MAX ((size_t)64)

/** One member of a sample. Borrowed during the call. */
typedef struct spsh__sample_part {
    spsh_bytes name;      /* of the member */
    spsh_bytes extension; /* "flac", "normalized.txt" */
    spsh__piece piece;
} spsh__sample_part;

typedef struct spsh__sample {
    spsh_bytes key;
    const spsh__sample_part *parts; /* in the order of the archive; no extension twice */
    size_t part_count;
} spsh__sample;

typedef struct spsh__sample_sink {
    spsh_status (*sample_fn)(void *user, const spsh__sample *sample, spsh_error *err);
    /* A member that its sample cannot take: its extension is there already, or there are too many.
     * Called before the sample; NULL: they are passed over. */
    spsh_status (*spare_fn)(void *user, spsh_bytes name, const char *detail, spsh_error *err);
    void *user;
} spsh__sample_sink;

/**
 * Read the samples of an archive of the view, in order.
 *
 * @param to_last_dot  keys end at the last dot of the name instead of the first
 * @return what a function of the sink returned, or what spsh__view_members did
 */
SPSH_NODISCARD spsh_status spsh__samples_read(const spsh__view *view, const char *archive,
                                              bool to_last_dot, const spsh__sample_sink *sink,
                                              spsh_error *err);

#endif
