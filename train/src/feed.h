/* feed.h: the loader's batches as the model takes them: features, labels, and where they come from.
 *
 * A step has virtual_world batches ("leaves"); this rank takes those that the loader deals it. An
 * utterance that cannot be learnt from (no frames, infeasible, no symbol left of its text) stays in
 * its batch with weight 0 and is counted by reason, so that all ranks take part in everything.
 */
#ifndef SPSH_TRAIN_FEED_H
#define SPSH_TRAIN_FEED_H

#include "config.h"
#include "speechshard/loader.h"
#include "vocabulary.h"

typedef struct spsh__feed_batch {
    uint32_t batch, frames;                 /* 0: an empty batch of a step that is not full */
    const float *features;                  /* [batch][frames][dim] */
    const uint32_t *lengths;                /* frames of each */
    const uint32_t *labels, *label_offsets; /* batch + 1 offsets */
    const double *weights;                  /* 1; 0: not learnt from */
    const uint32_t *domains;
    const spsh_batch *source; /* ids, texts, epoch, step, number */
    bool is_step_end;
    uint32_t infeasible, without_text, without_frames;
    uint64_t samples; /* utterances that count */
    double seconds;
} spsh__feed_batch;

typedef struct spsh__feed spsh__feed;
spsh_status spsh__feed_open(const spsh__config *config, const spsh__vocabulary *vocabulary,
                            uint32_t rank, uint32_t world_size, bool is_training, spsh__feed **ret,
                            spsh_error *err);
void spsh__feed_close(spsh__feed *feed);
/* SPSH_E_END at the end of an epoch. Lent until the next call. */
spsh_status spsh__feed_next(spsh__feed *feed, const spsh__feed_batch **ret, spsh_error *err);
/* The loader's cursor, at a step's end. */
spsh_status spsh__feed_save(const spsh__feed *feed, uint8_t *bytes, size_t capacity,
                            size_t *ret_size, spsh_error *err);
spsh_status spsh__feed_restore(spsh__feed *feed, const uint8_t *bytes, size_t size,
                               spsh_error *err);
uint64_t spsh__feed_wait_ns(const spsh__feed *feed); /* that next waited */
#endif
