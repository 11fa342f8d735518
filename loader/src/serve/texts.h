/* texts.h: ids and transcripts of utterances, from a bounded cache.
 *
 * A shard stores strings in compressed blocks of rows, and a reader of a dataset caches one block.
 * A shuffled epoch needs rows from the whole dataset. So there is a table of readers, each for one
 * range of rows. If the table covers the dataset, a block is decompressed once, instead of once per
 * utterance. Threads share the table.
 */
#ifndef SPSH_TEXTS_H
#define SPSH_TEXTS_H

#include "batch/slot.h"

typedef struct spsh__texts spsh__texts;

/* datasets: borrowed. */
spsh_status spsh__texts_open(const spsh_allocator *allocator, const spsh_dataset *const *datasets,
                             uint32_t entry_count, spsh__texts **ret_texts, spsh_error *err);
void spsh__texts_close(spsh__texts *texts);

/* Copy id and transcript of the job's utterance into its slot. Thread-safe. */
spsh_status spsh__texts_get(spsh__texts *texts, const spsh__job *job, spsh_bytes *ret_id,
                            spsh_bytes *ret_text, spsh_error *err);

#endif
