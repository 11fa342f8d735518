/* texts.h: ids and transcripts of utterances, from a bounded cache.
 *
 * A shard keeps strings in compressed blocks of rows, and a reader of a dataset holds one block. A
 * shuffled epoch asks for rows all over the dataset; a table of readers, each for its stretch of
 * rows, decompresses a block once instead of once for every utterance, as long as the table covers
 * the dataset. Threads share the table.
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
