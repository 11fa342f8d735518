/* extract.h: compute the segment entry of an utterance: digests, chunks, and prints.
 *
 *     spsh__extractor_open(dataset, &extractor, err);            // one per thread
 *     spsh__extractor_run(extractor, position, &entry, err);
 *     spsh__extractor_close(extractor);
 *
 * Audio is decoded once, in pieces of bounded size for utterances of any length. Only the data of
 * the segment entry are kept.
 */
#ifndef SPSH_DEDUP_EXTRACT_H
#define SPSH_DEDUP_EXTRACT_H

#include "segment.h"

typedef struct spsh__extractor spsh__extractor;

spsh_status spsh__extractor_open(const spsh_dataset *dataset, spsh__extractor **ret_extractor,
                                 spsh_error *err);

/* Compute the entry of an utterance, borrowed until the next run or close. Audio that cannot be
 * decoded (SPSH_E_AUDIO, or a record that is marked so) is not an error: its entry lacks
 * SPSH__ROW_DECODED. A damaged shard is an error. */
spsh_status spsh__extractor_run(spsh__extractor *extractor, uint64_t position,
                                spsh__segment_entry *ret_entry, spsh_error *err);

void spsh__extractor_close(spsh__extractor *extractor);

#endif
