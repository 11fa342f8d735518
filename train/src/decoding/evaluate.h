/* evaluate.h: what a model makes of datasets: transcripts, and how wrong they are.
 *
 *     spsh__evaluator_open(&options, &evaluator, &err);
 *     rc = spsh__evaluate(evaluator, feed, &result, &err);       // one epoch of a feed
 *     spsh__evaluator_close(evaluator);
 *
 * Of a model of frames (the feed has alignments) there are no transcripts: the loss is a frame's,
 * and frames are right or wrong. WER and CER are of all utterances together, against the references
 * as the vocabulary normalises them. An utterance whose labels do not fit into its frames has no
 * loss, but errors. Of several ranks each takes its batches, and all get the sums.
 */
#ifndef SPSH_TRAIN_EVALUATE_H
#define SPSH_TRAIN_EVALUATE_H

#include <math.h>

#include "comm/comm.h"
#include "decoder.h"
#include "feed/feed.h"
#include "feed/frame_batch.h"
#include "model/model.h"

typedef struct spsh__evaluator_options {
    spsh__backend *backend; /* all borrowed until close */
    spsh__model *model;
    const spsh__vocabulary *vocabulary; /* NULL: a model of frames */
    uint32_t chunk_frames, inputs;      /* ... of which these, as frame_batch.h's */
    spsh__comm *comm;                   /* NULL: alone */
    uint32_t symbols;                   /* outputs of the model */
    uint32_t beam_width;                /* 0: greedy */
    spsh__model_limits limits;          /* of the feed; of one without a feed: the model's */
    /* NULL: never; not 0: end behind this batch, on all ranks, if it is so on one. */
    const volatile int *stop;
    /* Each utterance of this rank: NUL-terminated, borrowed during the call. May be NULL. */
    void (*heard_fn)(void *user, spsh_bytes id, const char *reference, const char *found);
    void *heard_user;
} spsh__evaluator_options;

typedef struct spsh__evaluation {
    spsh__errors words, letters, letters_alone; /* with blanks; without */
    double loss_sum;                            /* of loss_count utterances */
    uint64_t loss_count, infeasible;
    /* of a model of frames: loss_count are frames, too */
    uint64_t frames_right, utterances, without_alignment, other_length;
    double audio_s, took_s;
} spsh__evaluation;

/* Of e's words or letters, as spsh__errors_rate; not a number: nothing was heard. */
static inline double spsh__error_rate(const spsh__evaluation *e, const spsh__errors *errors)
{
    return e->words.utterances > 0 ? spsh__errors_rate(errors) : (double)NAN;
}

/* Share of frames; not a number: there are none. */
static inline double spsh__frame_error(const spsh__evaluation *e)
{
    return 1 - (double)e->frames_right / (double)e->loss_count;
}

typedef struct spsh__evaluator spsh__evaluator;
spsh_status spsh__evaluator_open(const spsh__evaluator_options *options, spsh__evaluator **ret,
                                 spsh_error *err);
void spsh__evaluator_close(spsh__evaluator *e); /* NULL is fine */

/* Until the feed's SPSH_E_END. SPSH_E_CANCELED: stopped, on all ranks alike. */
spsh_status spsh__evaluate(spsh__evaluator *e, spsh__feed *feed, spsh__evaluation *ret,
                           spsh_error *err);

/* The model's view of a batch, features [batch][frames][dim]; then the text of each, borrowed until
 * the next call of either. */
spsh_status spsh__evaluator_read(spsh__evaluator *e, const spsh__feed_batch *batch,
                                 spsh_error *err);
spsh_status spsh__evaluator_text(spsh__evaluator *e, uint32_t number, const char **ret_text,
                                 spsh_error *err);

#endif
