/* render.h: the audio of one utterance, from its record into its place in a batch. */
#ifndef SPSH_RENDER_H
#define SPSH_RENDER_H

#include "maker.h"

/* What a decode thread brings along. */
typedef struct spsh__renderer {
    const spsh_allocator *allocator;
    const spsh_dataset *const *datasets;
    spsh_reader **readers; /* by dataset; opened when first needed */
    uint32_t dataset_count;
    spsh__budget *budget;
    int32_t channel;
    const spsh__recipe *recipe; /* borrowed; as the next */
    spsh__maker *maker;
    uint32_t utterances_max, blocks_max; /* of a batch, that a device decodes */
    uint8_t *chunk;                      /* of SPSH__CHUNK_BYTES */
    uint8_t *scratch;                    /* an utterance before resampling; grows */
    size_t scratch_bytes;
    spsh_memory_source memory; /* what the decoder reads */
    spsh_decoder *decoder;     /* goes from record to record */
} spsh__renderer;

spsh_status spsh__renderer_open(spsh__renderer *renderer, spsh_error *err);
void spsh__renderer_close(spsh__renderer *renderer);

/* From job->record, which is verified first. Errors do not name the utterance. */
spsh_status spsh__render_record(spsh__renderer *renderer, spsh__job *job, const uint8_t file_id[16],
                                spsh_error *err);

/* Whether the record of a job that failed is marked undecodable. */
bool spsh__render_is_undecodable(spsh__renderer *renderer, const spsh__job *job);

/* By a reader of the dataset, which reads what it needs, through the page cache. *ret_named: the
 * error names the utterance. */
spsh_status spsh__render_self(spsh__renderer *renderer, spsh__job *job, bool *ret_named,
                              spsh_error *err);

#endif
