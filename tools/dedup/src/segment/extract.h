/* extract.h: an utterance of a dataset -> digests, chunks, prints: one entry of a segment.
 *
 *     spsh__extractor_open(dataset, &extractor, err);            // one a thread
 *     spsh__extractor_run(extractor, position, &entry, err);
 *     spsh__extractor_close(extractor);
 *
 * Audio is decoded once, in pieces of a bounded size, whatever the utterance's length; only what
 * goes into the segment is kept.
 */
#ifndef SPSH_DEDUP_EXTRACT_H
#define SPSH_DEDUP_EXTRACT_H

#include "segment.h"

typedef struct spsh__extractor spsh__extractor;

spsh_status spsh__extractor_open(const spsh_dataset *dataset, spsh__extractor **ret_extractor,
                                 spsh_error *err);

/* The entry is borrowed until the next run or close. Audio that does not decode any more
 * (SPSH_E_AUDIO, a record marked so) is no failure: an entry without SPSH__ROW_DECODED. A damaged
 * shard is a failure. */
spsh_status spsh__extractor_run(spsh__extractor *extractor, uint64_t position,
                                spsh__segment_entry *ret_entry, spsh_error *err);

void spsh__extractor_close(spsh__extractor *extractor);

#endif
