/* frame_batch.h: convert a feed's batch for a model of frames: chunks, and a state for each row.
 *
 *     utterances [N][T][D], one state per frame   n: aaaaabbbbbcc   m: dddddee
 *     chunks [N'][chunk_frames][D]                aaaaa bbbbb cc... ddddd ee...
 *     states, row t of chunk c at t * N' + c      the order of the logits
 *
 * Chunks do not overlap, and the last chunk of an utterance is padded, as in the training of the
 * published lstm-hybrid. Without chunks the batch stays unchanged.
 */
#ifndef SPSH_TRAIN_FRAME_BATCH_H
#define SPSH_TRAIN_FRAME_BATCH_H

#include "feed.h"
#include "model/model.h"

typedef struct spsh__frame_batch {
    spsh__model_batch batch; /* input of the model */
    const uint32_t *states;  /* per row; UINT32_MAX: padding, or not trained on */
    const uint32_t *owners;  /* per chunk: index of its utterance in the feed's batch */
    double *row_losses;      /* per row; spsh__cross_entropy writes them */
    uint32_t *out_lengths;   /* written by the model */
    uint64_t counted;        /* frames with a state */
} spsh__frame_batch;

typedef struct spsh__frame_cutter spsh__frame_cutter;

/* limits, dim: of the feed. Allocates memory for the largest batch. SPSH_E_NO_MEMORY */
spsh_status spsh__frame_cutter_open(const spsh__model_limits *limits, uint32_t dim,
                                    uint32_t chunk_frames, spsh__frame_cutter **ret,
                                    spsh_error *err);
void spsh__frame_cutter_close(spsh__frame_cutter *c); /* NULL is fine */

/* Limits of the model's batches if the feed's batches are within `limits`. */
spsh__model_limits spsh__frame_limits(const spsh__model_limits *limits, uint32_t chunk_frames);

/* Borrowed until the next call. b is within the limits and has states as labels (feed.h). */
const spsh__frame_batch *spsh__frame_cut(spsh__frame_cutter *c, const spsh__feed_batch *b);

#endif
