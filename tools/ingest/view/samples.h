/* samples.h: group the members of an archive into samples, as WebDataset does.
 *
 *     000017.json  000017.flac  |  000018.json  000018.flac  |  talk/a.txt  talk/a.wav
 *
 * The key of a member is its path up to the first dot after the last '/'. The rest, in lower case,
 * is its extension. Adjacent members with the same key form a sample. Members are ignored if their
 * name has no dot or no key, if it begins with "__meta__", or if no layout uses files of that name.
 */
#ifndef SPSH_INGEST_SAMPLES_H
#define SPSH_INGEST_SAMPLES_H

#include <stdbool.h>

#include "view.h"

#define SPSH__SAMPLE_PARTS_MAX ((size_t)64)

/** One member of a sample. Borrowed during the call. */
typedef struct spsh__sample_part {
    spsh_bytes name;      /* name of the member */
    spsh_bytes extension; /* "flac", "normalized.txt" */
    spsh__piece piece;
} spsh__sample_part;

typedef struct spsh__sample {
    spsh_bytes key;
    const spsh__sample_part *parts; /* in archive order; extensions are unique */
    size_t part_count;
} spsh__sample;

typedef struct spsh__sample_sink {
    spsh_status (*sample_fn)(void *user, const spsh__sample *sample, spsh_error *err);
    /* Called before the sample for each member that the sample cannot take, because its extension
     * is repeated or there are too many members. NULL: ignore such members. */
    spsh_status (*spare_fn)(void *user, spsh_bytes name, const char *detail, spsh_error *err);
    void *user;
} spsh__sample_sink;

/**
 * Read the samples of an archive of the view, in order.
 *
 * @param to_last_dot  keys end at the last dot of the name instead of the first dot
 * @return the code of a sink function or of spsh__view_members
 */
SPSH_NODISCARD spsh_status spsh__samples_read(const spsh__view *view, const char *archive,
                                              bool to_last_dot, const spsh__sample_sink *sink,
                                              spsh_error *err);

#endif
