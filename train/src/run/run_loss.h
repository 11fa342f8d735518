/* run_loss.h: the loss of a micro-batch: CTC for transcripts, or cross-entropy for the states of
 * frames.
 *
 *     const spsh__model_batch batch = spsh__loss_begin(&loss, b);
 *     ... spsh__model_forward of batch writes spsh__loss_out_lengths(&loss) ...
 *     spsh__loss_put(&loss, b, model, logits, scale);     // gradients of the logits
 *     ... spsh__backend_finish ...
 *     spsh__loss_take(&loss, b, domain_count, row);       // the losses are on the host now
 */
#ifndef SPSH_TRAIN_RUN_LOSS_H
#define SPSH_TRAIN_RUN_LOSS_H

#include "feed/frame_batch.h"
#include "model/model.h"

typedef struct spsh__batch_loss {
    spsh__backend *backend;       /* borrowed until close */
    uint32_t outputs;             /* symbols of the vocabulary, or states of frames */
    spsh__frame_cutter *cutter;   /* only for a model of frames; else NULL */
    spsh__ctc_result *results;    /* per utterance */
    uint32_t *out_lengths;        /* per utterance: frames of the logits */
    const spsh__frame_batch *cut; /* current batch, borrowed from the cutter; else NULL */
    spsh__cross_entropy entropy;  /* current batch, until the backend is finished */
} spsh__batch_loss;

/* chunk_frames: chunk length for a model of frames (frame_batch.h). vocabulary NULL: a model of
 * frames. The loss must be closed even after a failure. SPSH_E_NO_MEMORY. */
typedef struct spsh__batch_loss_options {
    spsh__backend *backend;
    const spsh__feed *feed;
    const spsh__vocabulary *vocabulary;
    uint32_t states, chunk_frames;
} spsh__batch_loss_options;
spsh_status spsh__loss_open(const spsh__batch_loss_options *options, spsh__batch_loss *ret,
                            spsh_error *err);
void spsh__loss_close(spsh__batch_loss *l); /* accepts an all-zero struct */

/* Return the batch in the model's form. */
spsh__model_batch spsh__loss_begin(spsh__batch_loss *l, const spsh__feed_batch *b);
uint32_t *spsh__loss_out_lengths(const spsh__batch_loss *l);
/* scale: loss scale, against underflow of fp16 gradients. */
void spsh__loss_put(spsh__batch_loss *l, const spsh__feed_batch *b, spsh__model *m,
                    spsh__backend_buffer logits, double scale);
/* Add the losses to a row (run_rows.h). */
void spsh__loss_take(const spsh__batch_loss *l, const spsh__feed_batch *b, uint32_t domain_count,
                     double *row);

#endif
