/* render.h: decode one utterance from its record to its position in a batch. */
#ifndef SPSH_RENDER_H
#define SPSH_RENDER_H

#include "maker.h"

/* The state of one decode thread. */
typedef struct spsh__renderer {
    const spsh_allocator *allocator;
    const spsh_dataset *const *datasets;
    spsh_reader **readers; /* per dataset; opened at the first use */
    uint32_t dataset_count;
    spsh__budget *budget;
    int32_t channel;
    const spsh__recipe *recipe;          /* borrowed */
    spsh__maker *maker;                  /* borrowed */
    uint32_t utterances_max, blocks_max; /* limits per batch of what a device decodes */
    uint8_t *chunk;                      /* [SPSH__CHUNK_BYTES] */
    uint8_t *scratch;                    /* an utterance before resampling; grows */
    size_t scratch_bytes;
    spsh_memory_source memory; /* input of the decoder */
    spsh_decoder *decoder;     /* reused for all records */
} spsh__renderer;

spsh_status spsh__renderer_open(spsh__renderer *renderer, spsh_error *err);
void spsh__renderer_close(spsh__renderer *renderer);

/* Decode job->record, after verifying it. Errors do not name the utterance. */
spsh_status spsh__render_record(spsh__renderer *renderer, spsh__job *job, const uint8_t file_id[16],
                                spsh_error *err);

/* Is the record of a failed job marked undecodable? */
bool spsh__render_is_undecodable(spsh__renderer *renderer, const spsh__job *job);

/* Read and decode with a reader of the dataset, which reads only the needed bytes, through the page
 * cache. *ret_named: the error names the utterance. */
spsh_status spsh__render_self(spsh__renderer *renderer, spsh__job *job, bool *ret_named,
                              spsh_error *err);

#endif
