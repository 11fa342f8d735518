/* run_rows.h: the numbers of each micro-batch of a step other than its gradients, and their sums
 * over all micro-batches, from which all ranks derive their next action.
 *
 *     rows          [own leaves][count]    this rank's, one row per micro-batch
 *     own_totals    [count]                the sums that divide gradients of this learner
 *     totals        [count]                the sums over all learners
 */
#ifndef SPSH_TRAIN_RUN_ROWS_H
#define SPSH_TRAIN_RUN_ROWS_H

#include "feed/feed.h"
#include "metrics/metrics.h"

/* Three numbers per domain follow these: the sum of losses, their count, and the count of their
 * utterances. A loss belongs to an utterance, or to a frame. */
enum {
    SPSH__ROW_LOSS,
    SPSH__ROW_LOSSES,  /* count: the divisor of losses and gradients */
    SPSH__ROW_RIGHT,   /* correct frames, for a model of frames */
    SPSH__ROW_COUNTED, /* utterances with a loss */
    SPSH__ROW_SERVED,  /* all utterances */
    SPSH__ROW_INFEASIBLE,
    SPSH__ROW_WITHOUT_TEXT,
    SPSH__ROW_WITHOUT_FRAMES,
    SPSH__ROW_WITHOUT_ALIGNMENT,
    SPSH__ROW_OTHER_LENGTH, /* utterances whose alignment has another length */
    SPSH__ROW_AUDIO_S,
    SPSH__ROW_FRAMES,        /* frames of utterances */
    SPSH__ROW_PADDED_FRAMES, /* frames of the batch, including padding */
    SPSH__ROW_STOP,          /* nonzero: requested by any rank */
    SPSH__ROW_SAVE,
    SPSH__ROW_EVALUATE,
    SPSH__ROW_STEPS,   /* asynchronous learners: number of updates */
    SPSH__ROW_SKIPPED, /* learners with separate models: number of skipped updates */
    SPSH__ROW_SENT,    /* bytes to other ranks, between the beginnings of two steps */
    SPSH__ROW_STALE,   /* updates since the last row, by staleness */
    SPSH__ROW_DOMAINS = SPSH__ROW_STALE + SPSH__METRIC_STALENESS,
};

typedef struct spsh__step_rows {
    double *rows, *totals;
    double *own_totals; /* same as totals, unless learners have separate models */
    uint32_t count;     /* numbers per row */
    uint32_t domain_count;
    uint32_t leaves; /* micro-batches of this rank */
} spsh__step_rows;

/* has_own: own_totals differ from totals. The rows must be closed even after a failure. */
spsh_status spsh__rows_open(const spsh__feed *feed, uint32_t leaves, bool has_own,
                            spsh__step_rows *ret, spsh_error *err);
void spsh__rows_close(spsh__step_rows *rows);
/* Set all rows of this rank to zero. spsh__row_of returns the row of micro-batch `own`. */
void spsh__rows_clear(spsh__step_rows *rows);
double *spsh__row_of(const spsh__step_rows *rows, uint32_t own);

/* Count a batch. padded_frames: frames of the batch after the model's padding. The batch may have
 * no frames at all and then skips the model. */
void spsh__row_count(double *row, const spsh__feed_batch *b, uint64_t padded_frames);
/* loss: a sum of losses, their count, and the count of their utterances. Domains past the limit
 * share the last entry. */
void spsh__row_add_loss(double *row, uint32_t domain_count, uint32_t domain, const double loss[3]);
/* Remove a loss that is not finite, and the losses of all domains, from the row. */
void spsh__row_drop_loss(double *row, uint32_t count);

/* Fill the metrics of a step from its totals. */
void spsh__rows_report(const spsh__step_rows *rows, const spsh__feed *feed,
                       spsh__step_facts *facts);

#endif
