/* run_internal.h: the state of a run, as parts, and what its files do with it. Parts that need no
 * run have headers of their own (run_world.h, run_setup.h, run_rows.h, ...).
 */
#ifndef SPSH_TRAIN_RUN_INTERNAL_H
#define SPSH_TRAIN_RUN_INTERNAL_H

#include "checkpoint/checkpoint.h"
#include "config/choose_backend.h"
#include "decoding/evaluate.h"
#include "estimate.h"
#include "host_arenas.h"
#include "labels/alignments.h"
#include "loss_scale.h"
#include "metrics/metrics.h"
#include "run_draw.h"
#include "run_loss.h"
#include "run_record.h"
#include "run_rows.h"
#include "run_setup.h"
#include "run_shared.h"
#include "run_traffic.h"
#include "run_update.h"
#include "run_world.h"
#include "speechshard/train.h"
#include "strategy/pipeline_parallel.h"
#include "strategy/strategy.h"

/* What a checkpoint says of a run beside arenas; all ranks have the same. */
typedef struct spsh__progress {
    uint64_t samples, step, epoch;
    uint64_t updates, skipped_steps; /* steps are either */
    uint64_t evaluated_step;         /* the last one behind which it was; 0: none */
    uint64_t restarts, best_samples;
    double best_metric; /* lowest WER, or frame error; infinite: none */
    double audio_s, wall_s;
    spsh__loss_scale loss_scale;
} spsh__progress;

/* A micro-batch while the model computes it (run_step.c, run_pipeline.c). */
typedef struct spsh__run_leaf {
    uint32_t number;    /* in the step (strategy.h) */
    spsh_status status; /* of the strategy, during backward */
    spsh_error error;
    const spsh__feed_batch *batch; /* pipeline: of the last forward, for its loss */
    double *row;                   /* ... its row (run_rows.h) */
} spsh__run_leaf;

/* What this rank computes (run_pipeline.c: a stage of the model, or all of it). */
typedef struct spsh__run_model {
    spsh__model_shape shape; /* of the whole model */
    spsh__model *own;        /* this rank's */
    spsh__stages *stages;    /* of a pipeline: has `own`; else NULL */
    spsh__comm *own_comm;    /* ... of this rank alone */
    spsh__slice *buckets;    /* the learner's, unless there are stages */
} spsh__run_model;

/* The rounds of learners that do not step together (run_free.c, run_lost.c). */
typedef struct spsh__run_rounds {
    bool is_free; /* there are rounds: learners do not step together */
    spsh__draw *draw;
    uint64_t epoch, step; /* of the next batch: rank 0's, in a pause */
    uint32_t learners;    /* that are not lost, as rank 0 knows; 0: losses end the run */
} spsh__run_rounds;

/* What a run resumes from, and its checkpoints (run_state.c). */
typedef struct spsh__run_saving {
    spsh__checkpoint_file *resumed; /* rank 0, until its arenas are taken */
    spsh__checkpoint resumed_state;
    spsh__checkpoint_writer *writer; /* rank 0 */
    spsh__host_arenas arenas;        /* rank 0 */
    uint8_t *cursor;                 /* of the end of the last step that was saved */
    size_t cursor_size;
    uint64_t next_batch_hash; /* of the batch after the cursor */
    double saved_s, looked_s; /* times of the last save, and of the last look at the folder */
    double save_s;            /* seconds that checkpoints took since the last step */
} spsh__run_saving;

/* The last evaluation of the first dev set (run_evaluate.c). */
typedef struct spsh__dev_evaluation {
    spsh__evaluation last;
    bool has_last;
    double ended_s; /* time of its end, or of the beginning of this process */
} spsh__dev_evaluation;

/* What rank 0 reports of steps and epochs (run_report.c). */
typedef struct spsh__run_report {
    spsh__metrics *metrics;
    bool has_failed;        /* metrics are not written, and that was logged */
    double begin_s;         /* time at which this process began, ... */
    uint64_t begin_samples; /* ... and where */
    double epoch_totals[SPSH__ROW_DOMAINS];
    bool is_epoch_whole; /* this process has seen its beginning */
} spsh__run_report;

/* A step, and what it leaves for the next one (run_step.c). */
typedef struct spsh__run_step_state {
    spsh__step_facts facts;
    spsh__backend_buffer statistics_before; /* running statistics: a skipped step restores them */
    uint32_t skipped_in_a_row;
    bool has_learnt;                 /* false: no late gradients were due yet */
    double due_loss_scale;           /* of gradients that are applied a step late */
    const spsh__feed_batch *pending; /* of the next epoch: taken, not trained on yet */
    bool has_ended;                  /* the epoch, in the middle of a step */
    bool has_to_stop;                /* a rank asked for it in a step that was late */
} spsh__run_step_state;

typedef struct spsh__run {
    const spsh_train_options *o;
    const spsh_io *io;
    spsh__run_world *world; /* the other ranks, their messages, the clock (run_world.h) */
    spsh__run_setup setup;  /* the configuration (run_setup.h) */
    spsh__compute compute;
    spsh__backend *backend; /* compute's */
    spsh__feed *feed;
    spsh__run_model model;
    spsh__progress progress;

    /* how learners keep their models together (run_learner.c) */
    spsh__learner learner;
    spsh__strategy *strategy;
    spsh__optimizer optimizer;   /* run_update.h */
    spsh__served_updates served; /* of strategies that push gradients */
    spsh__shared_memory shared;  /* hogwild's (run_shared.h) */
    spsh__run_runtime runtime;   /* of strategies that need one (run_record.h) */
    spsh__run_traffic traffic;   /* run_traffic.h */
    spsh__run_rounds rounds;

    /* a step */
    spsh__step_rows rows;  /* run_rows.h */
    spsh__batch_loss loss; /* run_loss.h */
    spsh__run_leaf leaf;
    spsh__run_step_state step;

    /* between steps */
    spsh__run_saving saving;
    spsh__dev_evaluation evaluation;
    spsh__run_report report;
} spsh__run;

/* ---- run_open.c ---- */
/* For batches of these datasets, which are evaluated: every utterance once. */
spsh__feed_options spsh__run_feed_options(const spsh__run *r, const char *const *names);
/* Of what the run has opened, behind the feed. */
spsh__estimating spsh__run_estimating(const spsh__run *r, spsh_train_estimate *out);
/* Behind what was opened: it goes, so that what is free is told as it was. */
spsh_status spsh__run_explain_memory(spsh__run *r, spsh_status status, spsh_error *err);
spsh_status spsh__run_open(spsh__run *r, spsh_error *err);
void spsh__run_close(spsh__run *r); /* after a failure of open, too */

/* ---- run_report.c ---- */
/* Rank 0 logs for all; errors are logged by every rank. */
void spsh__run_log(const spsh__run *r, spsh_log_level level, const char *format, ...)
    SPSH_PRINTF(3, 4);
/* Write RUN/config.yaml, and open metrics. */
spsh_status spsh__run_open_report(spsh__run *r, spsh_error *err);
void spsh__run_report_start(const spsh__run *r);
/* Report a step and count its totals in the epoch's. */
void spsh__run_report_step(spsh__run *r);
/* Report an epoch. SPSH_E_NOT_FOUND: none of its utterances can be trained on. */
spsh_status spsh__run_report_epoch(spsh__run *r, spsh_error *err);
void spsh__run_report_graphs(const spsh__run *r);

/* ---- run_learner.c ---- */
/* Of the configuration: model's arenas, and what else strategies see of a learner. */
spsh_status spsh__run_open_learner(spsh__run *r, spsh_error *err);
spsh_status spsh__run_open_strategy(spsh__run *r, spsh_error *err);
void spsh__run_close_moments(spsh__learner *l);
void spsh__run_close_strategy(spsh__run *r);
/* What it tells of a step is not another rank's as well. */
bool spsh__run_is_heard(const spsh__learner *l);
/* All ranks, outside of steps: weights and statistics become those that are evaluated and kept, the
 * same on all; is_taken: and learners go on from them. */
spsh_status spsh__run_meet(spsh__run *r, bool is_taken, spsh_error *err);

/* ---- run_pipeline.c: of runs whose ranks have a stage of the model each ---- */
/* The model and its learner, in a run of stages. */
spsh_status spsh__run_open_stage(spsh__run *r, const spsh__model_limits *limits, spsh_error *err);
spsh_status spsh__run_stage_learner(spsh__run *r, spsh_error *err);
void spsh__run_close_model(spsh__run_model *m);
/* Slices, and sizes of arenas, of all that is trained. */
const spsh__model *spsh__run_whole(const spsh__run_model *m);
/* This rank counts what is in batches, and their losses. */
bool spsh__run_counts(const spsh__learner *l);
/* All ranks: to rank 0's memory for checkpoints, and from there. */
spsh_status spsh__run_gather_stages(const spsh__learner *l, const spsh__host_arenas *host,
                                    spsh_error *err);
spsh_status spsh__run_scatter_stages(const spsh__learner *l, const spsh__host_arenas *host,
                                     spsh_error *err);
/* All ranks: `reader`, a whole model, gets all stages' weights and statistics. */
spsh_status spsh__run_share_stages(const spsh__learner *l, spsh__model *reader, spsh_error *err);

/* ---- run_step.c ---- */
/* SPSH_E_END: the epoch is over, and there was no step. r->step.facts are the step's. */
spsh_status spsh__run_step(spsh__run *r, spsh_error *err);
spsh_status spsh__run_step_open(spsh__run *r, spsh_error *err);
/* Of learners that do not step together: an update of so many batches that were drawn. own_totals
 * are its; what all made of theirs is not known. */
spsh_status spsh__run_learn_drawn(spsh__run *r, const spsh__drawn *drawn, spsh_error *err);
void spsh__run_fill_facts(spsh__run *r); /* of totals and progress */
/* All ranks: what gradients are still to be applied make one more step; r->step.has_learnt. */
spsh_status spsh__run_flush(spsh__run *r, spsh_error *err);

/* ---- run_lost.c: train.on_lost ---- */
/* Before a runtime is opened. SPSH_E_INVALID_ARG, _UNSUPPORTED: with these options a run cannot go
 * on without a rank. */
spsh_status spsh__run_open_lost(spsh__run *r, spsh_error *err);
/* Rank 0, in a round: tells who has been lost. */
spsh_status spsh__run_look_lost(spsh__run *r, spsh_error *err);
/* Behind leases' meet, which has said who is lost: comm is of the others from here on. */
spsh_status spsh__run_shrink(spsh__run *r, spsh_error *err);
void spsh__run_close_lost(spsh__run *r);

/* ---- run_free.c ---- */
/* Instead of steps; SPSH_E_CANCELED: to stop. */
spsh_status spsh__run_free(spsh__run *r, spsh_error *err);

/* ---- run.c ---- */
/* After gradients that are still due: report the epoch, evaluate and save. */
spsh_status spsh__run_end_epoch(spsh__run *r, spsh_error *err);
bool spsh__run_is_done(const spsh__config *config, const spsh__progress *progress);

/* ---- run_state.c ---- */
/* Rank 0's outcome of what it does alone becomes everybody's. */
spsh_status spsh__run_agree(const spsh__run_world *w, spsh_status own, spsh_error *err);
/* Finds the checkpoint to go on from, before anything else is opened: config and vocabulary. */
spsh_status spsh__run_find(spsh__run *r, spsh_error *err);
/* Its arenas and counters; memory for saving. Before the strategy starts. */
spsh_status spsh__run_restore(spsh__run *r, spsh_error *err);
/* All ranks. A full disk is logged, and the run goes on. */
spsh_status spsh__run_save(spsh__run *r, spsh_error *err);
spsh_status spsh__run_save_last(spsh__run *r, spsh_error *err); /* waits; fails */
void spsh__run_close_saving(spsh__run_saving *s);
/* Between saves: what became of the last one; SPSH_E_MISMATCH: a newer start has taken over. */
spsh_status spsh__run_look(spsh__run *r, spsh_error *err);

/* ---- run_evaluate.c ---- */
/* That dev sets are there, and what of alignments is theirs; before the model is opened. */
spsh_status spsh__run_check_dev(spsh__run *r, spsh_error *err);
/* SPSH_E_CANCELED: the run is to stop; nothing is known then. */
spsh_status spsh__run_evaluate(spsh__run *r, spsh_error *err);
#endif
