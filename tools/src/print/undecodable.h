/* undecodable.h: count the recordings of a dataset that pack has marked undecodable. */
#ifndef SPSH_UNDECODABLE_H
#define SPSH_UNDECODABLE_H

#include "speechshard/dataset.h"

/**
 * Count the records that are marked SPSH_RECORD_UNDECODABLE, from the shards' indices. A shard
 * that cannot be read adds none, because `verify` reports damage.
 *
 * @param named_fn  called with the id of each recording, may be NULL
 */
uint64_t spsh__undecodable_count(const spsh_dataset *dataset,
                                 void (*named_fn)(void *user, spsh_bytes id), void *user);

#endif
