/* chunker.h: cuts canonical PCM where its content says so, so that equal stretches of two
 * recordings are cut alike wherever they begin.
 *
 * docs/FINGERPRINT.md 6 is normative: a rolling hash over a window of samples ends a chunk; 0.25 s
 * on average, at least 0.1 s, at most 1 s; hash: XXH3-64 of the samples. Chunks of digital silence
 * and other constant stretches are left out: they are everywhere.
 */
#ifndef SPSH_DEDUP_CHUNKER_H
#define SPSH_DEDUP_CHUNKER_H

#include "segment.h"

typedef struct spsh__chunker spsh__chunker;

spsh_status spsh__chunker_new(spsh__chunker **ret_chunker, spsh_error *err);
spsh_status spsh__chunker_begin(spsh__chunker *chunker, uint32_t rate_hz, uint32_t channels,
                                spsh_error *err);
/* As spsh__canonical_push. */
spsh_status spsh__chunker_push(spsh__chunker *chunker, const int32_t *samples, size_t count,
                               spsh_error *err);
/* The chunks, borrowed until the next begin. The last one ends with the recording; the first and
 * the last are flagged by nothing: an equal stretch shares all but those at its ends. */
spsh_status spsh__chunker_finish(spsh__chunker *chunker, const spsh__chunk **ret_chunks,
                                 size_t *ret_count, spsh_error *err);
void spsh__chunker_free(spsh__chunker *chunker);

#endif
