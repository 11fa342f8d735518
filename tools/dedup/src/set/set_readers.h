/* set_readers.h: readers of the datasets of a set, each opened at its first use.
 *
 *     spsh__set_readers readers;
 *     spsh__set_readers_open(set, &readers, err);
 *     spsh__set_readers_find(&readers, ordinal, &reader, &position, err);
 *     spsh__set_readers_close(&readers);
 *
 * Use each object from one thread. A reader resumes decoding at its last position. Its borrowed
 * data are valid until its next call, so a caller that needs two utterances at once needs two
 * objects.
 */
#ifndef SPSH_DEDUP_SET_READERS_H
#define SPSH_DEDUP_SET_READERS_H

#include "print_set.h"

typedef struct spsh__set_readers {
    const spsh__print_set *set;
    spsh_reader **readers; /* one per dataset; NULL before the first use */
} spsh__set_readers;

spsh_status spsh__set_readers_open(const spsh__print_set *set, spsh__set_readers *ret_readers,
                                   spsh_error *err);
/* A zeroed object is accepted. */
void spsh__set_readers_close(spsh__set_readers *readers);

/* Return the borrowed reader of an utterance, and the position of the utterance in it. */
spsh_status spsh__set_readers_find(const spsh__set_readers *readers, uint64_t ordinal,
                                   spsh_reader **ret_reader, uint64_t *ret_position,
                                   spsh_error *err);
/* Return the metadata of an utterance. Strings are borrowed until the next call for the same
 * dataset. */
spsh_status spsh__set_readers_metadata(const spsh__set_readers *readers, uint64_t ordinal,
                                       spsh_utterance *ret_utterance, spsh_error *err);

#endif
