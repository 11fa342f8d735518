/* set_readers.h: readers of the datasets of a set, each opened when it is first asked for.
 *
 *     spsh__set_readers readers;
 *     spsh__set_readers_open(set, &readers, err);
 *     spsh__set_readers_find(&readers, ordinal, &reader, &position, err);
 *     spsh__set_readers_close(&readers);
 *
 * One thread per object. A reader goes on where it was, and what it lends ends with its next call:
 * who holds two utterances at once has two of these.
 */
#ifndef SPSH_DEDUP_SET_READERS_H
#define SPSH_DEDUP_SET_READERS_H

#include "print_set.h"

typedef struct spsh__set_readers {
    const spsh__print_set *set;
    spsh_reader **readers; /* of each dataset; NULL until asked for */
} spsh__set_readers;

spsh_status spsh__set_readers_open(const spsh__print_set *set, spsh__set_readers *ret_readers,
                                   spsh_error *err);
/* All zero is fine. */
void spsh__set_readers_close(spsh__set_readers *readers);

/* The reader for an utterance, and its position there; borrowed. */
spsh_status spsh__set_readers_find(const spsh__set_readers *readers, uint64_t ordinal,
                                   spsh_reader **ret_reader, uint64_t *ret_position,
                                   spsh_error *err);
/* Its texts; borrowed until the next call for its dataset. */
spsh_status spsh__set_readers_metadata(const spsh__set_readers *readers, uint64_t ordinal,
                                       spsh_utterance *ret_utterance, spsh_error *err);

#endif
