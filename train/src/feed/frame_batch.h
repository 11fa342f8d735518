/* frame_batch.h: a feed's batch as a model of frames takes it: chunks, and a state for each row.
 *
 *     utterances [N][T][D], a state a frame       n: aaaaabbbbbcc   m: dddddee
 *     chunks [N'][chunk_frames][D]                aaaaa bbbbb cc... ddddd ee...
 *     states, row t of chunk c at t * N' + c      as the logits lie
 *
 * Chunks do not overlap, and the last of an utterance is padded: as the published lstm-hybrid was
 * trained. Without chunks the batch is what it was.
 */
#ifndef SPSH_TRAIN_FRAME_BATCH_H
#define SPSH_TRAIN_FRAME_BATCH_H

#include "feed.h"
#include "model/model.h"

typedef struct spsh__frame_batch {
    spsh__model_batch batch; /* for the model */
    const uint32_t *states;  /* rows; UINT32_MAX: padding, or not learnt from */
    const uint32_t *owners;  /* of a chunk: its utterance in the feed's batch */
    double *row_losses;      /* rows; for spsh__cross_entropy to write */
    uint32_t *out_lengths;   /* for the model to write */
    uint64_t counted;        /* frames with a state */
} spsh__frame_batch;

typedef struct spsh__frame_cutter spsh__frame_cutter;

/* limits: of the feed; dim: its. Memory for the largest batch is taken now. SPSH_E_NO_MEMORY */
spsh_status spsh__frame_cutter_open(const spsh__model_limits *limits, uint32_t dim,
                                    uint32_t chunk_frames, spsh__frame_cutter **ret,
                                    spsh_error *err);
void spsh__frame_cutter_close(spsh__frame_cutter *c); /* NULL is fine */

/* What the model must take, for batches within limits. */
spsh__model_limits spsh__frame_limits(const spsh__model_limits *limits, uint32_t chunk_frames);

/* Lent until the next call. b is within the limits and has states for labels (feed.h). */
const spsh__frame_batch *spsh__frame_cut(spsh__frame_cutter *c, const spsh__feed_batch *b);

#endif
