/* chunker.h: cuts canonical PCM where its content says so, so that equal stretches of two
 * recordings are cut alike wherever they begin.
 *
 * docs/FINGERPRINT.md 6 is normative: a cut is where a hash of the last 32 samples is the greatest
 * within an eighth of a second; 0.25 s apart on average, at least 0.125 s. Hash of a chunk: XXH3-64
 * of its samples. Chunks of digital silence and other constant or periodic stretches are left out:
 * they are everywhere.
 */
#ifndef SPSH_DEDUP_CHUNKER_H
#define SPSH_DEDUP_CHUNKER_H

#include "segment.h"

typedef struct spsh__chunker spsh__chunker;

spsh_status spsh__chunker_new(spsh__chunker **ret_chunker, spsh_error *err);
/* 1 to SPSH_CHANNELS_MAX channels at any rate that a dataset may have. Memory: a few seconds of
 * samples. */
spsh_status spsh__chunker_begin(spsh__chunker *chunker, uint32_t rate_hz, uint32_t channels,
                                spsh_error *err);
/* As spsh__canonical_push. */
spsh_status spsh__chunker_push(spsh__chunker *chunker, const int32_t *samples, size_t count,
                               spsh_error *err);
/* The chunks, borrowed until the next begin. The first begins and the last one ends with the
 * recording, by nothing in its content: an equal stretch shares all but those at its ends. */
spsh_status spsh__chunker_finish(spsh__chunker *chunker, const spsh__chunk **ret_chunks,
                                 size_t *ret_count, spsh_error *err);
void spsh__chunker_free(spsh__chunker *chunker);

#endif
