/* shard_internal.h: what record reader, dataset, publish and verify see of an open shard. */
#ifndef SPSH_SHARD_INTERNAL_H
#define SPSH_SHARD_INTERNAL_H

#include "container.h"
#include "speechshard/shard.h"

/* Its index, header and descriptor; columns by the ids of shard_index.h. Borrowed until close. */
const spsh__container *spsh__shard_container(const spsh_shard *shard);
const spsh_io *spsh__shard_io(const spsh_shard *shard);
const spsh_allocator *spsh__shard_allocator(const spsh_shard *shard);

/* spsh_metadata_reader_get without a look at the shard's columns: for those who know from elsewhere
 * what the row must say. A shard is often opened for one row, and columns lie on a page each. */
spsh_status spsh__metadata_reader_row(spsh_metadata_reader *reader, uint64_t row,
                                      spsh_utterance *ret_utterance, spsh_error *err);

#endif
