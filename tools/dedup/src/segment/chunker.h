/* chunker.h: cut canonical PCM at positions that depend only on its content, so that equal
 * stretches of two recordings are cut identically wherever they begin.
 *
 * FINGERPRINT.md 6 is normative. A cut is a position where a hash of the last 32 samples is
 * the maximum within an eighth of a second. Cuts are 0.25 s apart on average, and at least 0.125 s.
 * The hash of a chunk is the XXH3-64 of its samples. Chunks of digital silence and other constant
 * or periodic stretches are omitted, because they occur everywhere.
 */
#ifndef SPSH_DEDUP_CHUNKER_H
#define SPSH_DEDUP_CHUNKER_H

#include "segment.h"

typedef struct spsh__chunker spsh__chunker;

spsh_status spsh__chunker_new(spsh__chunker **ret_chunker, spsh_error *err);
/* Start a recording with 1 to SPSH_CHANNELS_MAX channels, at any rate that a dataset may have.
 * Memory: a few seconds of samples. */
spsh_status spsh__chunker_begin(spsh__chunker *chunker, uint32_t rate_hz, uint32_t channels,
                                spsh_error *err);
/* Add count samples per channel, as spsh__canonical_push does. */
spsh_status spsh__chunker_push(spsh__chunker *chunker, const int32_t *samples, size_t count,
                               spsh_error *err);
/* Return the chunks, borrowed until the next begin. The start of the first chunk and the end of the
 * last are the ends of the recording, not content-defined cuts. So an equal stretch shares all
 * chunks except those at its ends. */
spsh_status spsh__chunker_finish(spsh__chunker *chunker, const spsh__chunk **ret_chunks,
                                 size_t *ret_count, spsh_error *err);
void spsh__chunker_free(spsh__chunker *chunker);

#endif
