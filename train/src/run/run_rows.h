/* run_rows.h: the numbers that each leaf (micro-batch) of a step has beside its gradients, and
 * their sums over all leaves, from which all ranks decide what to do next.
 *
 *     rows          [own leaves][count]    this rank's, one row per leaf
 *     own_totals    [count]                the sums that gradients of this learner are divided by
 *     totals        [count]                the sums over all learners
 */
#ifndef SPSH_TRAIN_RUN_ROWS_H
#define SPSH_TRAIN_RUN_ROWS_H

#include "feed/feed.h"
#include "metrics/metrics.h"

/* After these come three numbers per domain: the sum of losses, their count, and the count of
 * their utterances. A loss is an utterance's, or a frame's. */
enum {
    SPSH__ROW_LOSS,
    SPSH__ROW_LOSSES,  /* how many: what their sum and gradients are divided by */
    SPSH__ROW_RIGHT,   /* frames, of a model of frames */
    SPSH__ROW_COUNTED, /* utterances with a loss */
    SPSH__ROW_SERVED,  /* all utterances */
    SPSH__ROW_INFEASIBLE,
    SPSH__ROW_WITHOUT_TEXT,
    SPSH__ROW_WITHOUT_FRAMES,
    SPSH__ROW_WITHOUT_ALIGNMENT,
    SPSH__ROW_OTHER_LENGTH, /* of the alignment */
    SPSH__ROW_AUDIO_S,
    SPSH__ROW_FRAMES,        /* of utterances */
    SPSH__ROW_PADDED_FRAMES, /* of the batch, with padding */
    SPSH__ROW_STOP,          /* not 0: asked for, by whichever rank */
    SPSH__ROW_SAVE,
    SPSH__ROW_EVALUATE,
    SPSH__ROW_STEPS,   /* of learners that do not step together: so many made an update */
    SPSH__ROW_SKIPPED, /* of learners with models of their own: it made no update */
    SPSH__ROW_SENT,    /* bytes, to other ranks, between two steps' beginnings */
    SPSH__ROW_STALE,   /* updates since the last row, by their staleness */
    SPSH__ROW_DOMAINS = SPSH__ROW_STALE + SPSH__METRIC_STALENESS,
};

typedef struct spsh__step_rows {
    double *rows, *totals;
    double *own_totals; /* totals, unless each learner has a model of its own */
    uint32_t count;     /* numbers of a row */
    uint32_t domain_count;
    uint32_t leaves; /* of this rank */
} spsh__step_rows;

/* has_own: own_totals are not totals. After a failure, too, the rows must be closed. */
spsh_status spsh__rows_open(const spsh__feed *feed, uint32_t leaves, bool has_own,
                            spsh__step_rows *ret, spsh_error *err);
void spsh__rows_close(spsh__step_rows *rows);
/* Set all rows of this rank to zero, and find that of its leaf `own`. */
void spsh__rows_clear(spsh__step_rows *rows);
double *spsh__row_of(const spsh__step_rows *rows, uint32_t own);

/* Count a batch. padded_frames: frames of one utterance as the model computes them. The batch may
 * have no frames at all, so that no model sees it. */
void spsh__row_count(double *row, const spsh__feed_batch *b, uint32_t padded_frames);
/* loss: the sum of losses of utterance n, their count, and 1, or 0 for a part of an utterance. The
 * last domain is that of all further ones. */
void spsh__row_add_loss(double *row, uint32_t domain_count, uint32_t domain, const double loss[3]);
/* Remove a loss that is not finite, with those of all domains, so that it is in no sum. */
void spsh__row_drop_loss(double *row, uint32_t count);

/* Fill what metrics report of a step from its totals. */
void spsh__rows_report(const spsh__step_rows *rows, const spsh__feed *feed,
                       spsh__step_facts *facts);

#endif
