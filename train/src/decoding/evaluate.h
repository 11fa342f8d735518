/* evaluate.h: run a model on datasets: transcripts and their error rates.
 *
 *     spsh__evaluator_open(&options, &evaluator, &err);
 *     rc = spsh__evaluate(evaluator, feed, &result, &err);       // one epoch of a feed
 *     spsh__evaluator_close(evaluator);
 *
 * A model of frames (the feed has alignments) has no transcripts: its loss is per frame, and its
 * error rate is the share of wrong frames. WER and CER cover all utterances together, against
 * references normalized by the vocabulary. An utterance whose labels do not fit into its frames has
 * no loss, but its errors count. Each rank evaluates its own batches, and all ranks get the sums.
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
    uint32_t chunk_frames, inputs;      /* with these parameters of frame_batch.h */
    spsh__comm *comm;                   /* NULL: one rank */
    uint32_t symbols;                   /* outputs of the model */
    uint32_t beam_width;                /* 0: greedy */
    spsh__model_limits limits;          /* limits of the feed; without a feed: limits of the
                                           model */
    /* NULL: never; nonzero on any rank: all ranks end after this batch */
    const volatile int *stop;
    /* Called for each utterance of this rank. NUL-terminated strings, borrowed during the call. May
     * be NULL. */
    void (*heard_fn)(void *user, spsh_bytes id, const char *reference, const char *found);
    void *heard_user;
} spsh__evaluator_options;

typedef struct spsh__evaluation {
    spsh__errors words, letters, letters_alone; /* with blanks; without blanks */
    double loss_sum;                            /* sum over loss_count utterances */
    uint64_t loss_count, infeasible;
    /* only for a model of frames, whose loss_count also counts frames */
    uint64_t frames_right, utterances, without_alignment, other_length;
    double audio_s, took_s;
} spsh__evaluation;

/* Error rate of e's words or characters, as spsh__errors_rate; NaN if nothing was evaluated. */
static inline double spsh__error_rate(const spsh__evaluation *e, const spsh__errors *errors)
{
    return e->words.utterances > 0 ? spsh__errors_rate(errors) : (double)NAN;
}

/* Share of wrong frames; NaN without frames. */
static inline double spsh__frame_error(const spsh__evaluation *e)
{
    return 1 - (double)e->frames_right / (double)e->loss_count;
}

typedef struct spsh__evaluator spsh__evaluator;
spsh_status spsh__evaluator_open(const spsh__evaluator_options *options, spsh__evaluator **ret,
                                 spsh_error *err);
void spsh__evaluator_close(spsh__evaluator *e); /* NULL is fine */

/* Evaluate until the feed's SPSH_E_END. SPSH_E_CANCELED: stopped, on all ranks. */
spsh_status spsh__evaluate(spsh__evaluator *e, spsh__feed *feed, spsh__evaluation *ret,
                           spsh_error *err);

/* Recognize a batch, features [batch][frames][dim]. Then get the transcript of each utterance,
 * borrowed until the next call of either function. */
spsh_status spsh__evaluator_read(spsh__evaluator *e, const spsh__feed_batch *batch,
                                 spsh_error *err);
spsh_status spsh__evaluator_text(spsh__evaluator *e, uint32_t number, const char **ret_text,
                                 spsh_error *err);

#endif
