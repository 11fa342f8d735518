/* shard_internal.h: the parts of an open shard that record reader, dataset, publish, and verify
 * use. */
#ifndef SPSH_SHARD_INTERNAL_H
#define SPSH_SHARD_INTERNAL_H

#include "container.h"
#include "speechshard/shard.h"

/* Index, header, and descriptor of the shard. shard_index.h has the column ids. Borrowed until
 * close. */
const spsh__container *spsh__shard_container(const spsh_shard *shard);
const spsh_io *spsh__shard_io(const spsh_shard *shard);
const spsh_allocator *spsh__shard_allocator(const spsh_shard *shard);

/* spsh_metadata_reader_get without comparing the row with the shard's columns, for callers that
 * know the row's values from elsewhere. A shard is often opened for one row, and each column is on
 * another page. */
spsh_status spsh__metadata_reader_row(spsh_metadata_reader *reader, uint64_t row,
                                      spsh_utterance *ret_utterance, spsh_error *err);

#endif
