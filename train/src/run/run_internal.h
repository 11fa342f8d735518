/* run_internal.h: what a training run holds, for run.c (opens it, the loop), run_learner.c (what a
 * strategy sees of it), run_record.c (the runtime's record), run_traffic.c (what is sent),
 * run_lost.c (learners that are lost), run_step.c (a step), run_free.c (steps of learners that run
 * free), run_state.c (checkpoints) and run_evaluate.c. run_world.h has what surrounds it.
 */
#ifndef SPSH_TRAIN_RUN_INTERNAL_H
#define SPSH_TRAIN_RUN_INTERNAL_H

#include "checkpoint/checkpoint.h"
#include "config/choose_backend.h"
#include "decoding/evaluate.h"
#include "estimate.h"
#include "labels/alignments.h"
#include "loss_scale.h"
#include "metrics/metrics.h"
#include "run_draw.h"
#include "run_loss.h"
#include "run_rows.h"
#include "run_setup.h"
#include "run_shared.h"
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

/* Settings that a world decides for itself: another one's are not the same. */
typedef struct spsh__run_given {
    uint32_t threads;
    spsh__backend_choice backend;
} spsh__run_given;

/* A micro-batch while the model computes it (run_step.c, run_pipeline.c). */
typedef struct spsh__run_leaf {
    uint32_t number;    /* in the step (strategy.h) */
    spsh_status status; /* of the strategy, during backward */
    spsh_error error;
    const spsh__feed_batch *batch; /* pipeline: of the last forward, for its loss */
    double *row;                   /* ... */
} spsh__run_leaf;

typedef struct spsh__run {
    const spsh_train_options *o;
    spsh__run_world *world;
    const spsh_io *io;
    spsh__config *config;
    spsh__run_given given; /* what of it the world has changed */
    char *config_text;     /* as it was given: of the run's folder, and checkpoints */
    char *vocabulary_text;
    spsh__vocabulary *vocabulary; /* NULL: a model of frames, which has alignments */
    spsh__alignments *alignments;
    spsh__compute compute;
    spsh__backend *backend; /* compute's */
    spsh__feed *feed;
    spsh__model *model;
    spsh__model_shape shape; /* the model's */
    spsh__stages *pipeline;  /* of that strategy: model is its own; else NULL */
    spsh__comm *own_comm;    /* ... of this rank alone */
    spsh__learner learner;
    spsh__staleness staleness; /* the learner's, since the last row */
    uint64_t told_bytes;       /* comm's, until the last row */
    spsh__slice *buckets;
    spsh__strategy *strategy;
    spsh__runtime *runtime;  /* of strategies that need one; else NULL */
    spsh__runtime *recorded; /* ... which is around this one; else NULL */
    char *record_folder;     /* of that; else NULL */
    bool has_begun;          /* all is open, of all ranks where there is a record */
    spsh__optimizer optimizer;
    spsh__served_updates served; /* of strategies that push gradients */
    spsh__shared_memory shared;  /* hogwild's */
    bool is_free_running;        /* learners do not step together: draw's */
    uint32_t learners; /* of those: that are not lost, as rank 0 knows; 0: it was not asked */
    spsh__draw *draw;
    uint64_t place_epoch, place_step; /* of batches: rank 0's, in a pause */
    spsh__metrics *metrics;           /* rank 0 */

    /* state */
    spsh__progress progress;
    uint8_t *cursor; /* of the last step's end */
    size_t cursor_size;
    spsh__checkpoint_file *resumed; /* rank 0, until its arenas are taken */
    spsh__checkpoint resumed_state;
    spsh__checkpoint_writer *writer; /* rank 0 */
    spsh__parameter *parameters;
    float *host_weights, *host_moments[2], *host_statistics;
    spsh__buffer statistics_before; /* of the step: a skipped one leaves them */
    uint32_t skipped_in_a_row;
    double begin_s, saved_s, evaluated_s, looked_s;
    double save_s;            /* by checkpoints since the last step */
    uint64_t begin_samples;   /* where this process began, at begin_s */
    uint64_t next_batch_hash; /* behind cursor */
    bool is_epoch_whole;      /* this process has seen its beginning */
    double epoch_totals[SPSH__ROW_DOMAINS];
    bool has_metrics_failed; /* that was told */

    /* of a step */
    spsh__step_rows rows;
    spsh__batch_loss loss;
    spsh__run_leaf leaf;
    bool has_learnt;                 /* the step; false: of late gradients none was due yet */
    bool has_to_stop;                /* somebody asked for it in a step that was late */
    double due_loss_scale;           /* of gradients that are applied a step late */
    bool has_ended;                  /* the epoch, in the middle of a step */
    const spsh__feed_batch *pending; /* of the next epoch: taken, not learnt from yet */
    spsh__step_facts facts;
    spsh__evaluation last;
    bool was_evaluated;
} spsh__run;

/* Of what the run has opened, behind the feed. */
spsh__estimating spsh__run_estimating(const spsh__run *r, spsh_train_estimate *out);
/* Behind what was opened: it goes, so that what is free is told as it was. */
spsh_status spsh__run_explain_memory(spsh__run *r, spsh_status status, spsh_error *err);
void spsh__run_log(const spsh__run *r, spsh_log_level level, const char *format, ...)
    SPSH_PRINTF(3, 4);

/* The configuration as it was given, without what the world has changed of it. of_record: as a
 * replay needs it, which no launcher tells of nodes. malloc'd; NULL: no memory. */
char *spsh__run_config_text(const spsh__run *r, bool of_record);

/* ---- run_record.c ---- */
/* Rank 0, before anything is made: what cannot be recorded, or is already; names the folder. */
spsh_status spsh__run_check_record(spsh__run *r, spsh_error *err);
/* r->runtime, around which a record is kept. */
spsh_status spsh__run_open_runtime(spsh__run *r, spsh_error *err);
void spsh__run_close_runtime(spsh__run *r);
/* What a learner does by the clock or for a signal; *value becomes what it was then. */
spsh_status spsh__run_note(const spsh__run *r, uint64_t *value, spsh_error *err);
/* Between these two the serving task does not see what the computing task writes. */
spsh_status spsh__run_enter(const spsh__run *r, uint64_t number, spsh_error *err);
void spsh__run_leave(const spsh__run *r);

/* ---- run_traffic.c ---- */
/* To other ranks, by this one, ever. */
uint64_t spsh__run_sent_bytes(const spsh__run *r);
/* Into the row at hand: bytes since the last call's all_bytes, and staleness since then. */
spsh_status spsh__run_put_traffic(spsh__run *r, uint64_t all_bytes, spsh_error *err);

/* Of the configuration: model's arenas, and what else strategies see of a learner. */
spsh_status spsh__run_open_learner(spsh__run *r, spsh_error *err);
spsh_status spsh__run_open_strategy(spsh__run *r, spsh_error *err);
void spsh__run_close_moments(spsh__run *r);
void spsh__run_close_strategy(spsh__run *r);
/* What it tells of a step is not another rank's as well. */
bool spsh__run_is_heard(const spsh__run *r);
/* All ranks, outside of steps: weights and statistics become those that are evaluated and kept, the
 * same on all; is_taken: and learners go on from them. */
spsh_status spsh__run_meet(spsh__run *r, bool is_taken, spsh_error *err);

/* ---- run_pipeline.c: of runs whose ranks have a stage of the model each ---- */
/* The model and its learner, in a run of stages. */
spsh_status spsh__run_open_stage(spsh__run *r, const spsh__model_limits *limits, spsh_error *err);
spsh_status spsh__run_stage_learner(spsh__run *r, spsh_error *err);
void spsh__run_close_model(spsh__run *r);
/* Slices, and sizes of arenas, of all that is trained. */
const spsh__model *spsh__run_whole(const spsh__run *r);
/* This rank counts what is in batches, and their losses. */
bool spsh__run_counts(const spsh__run *r);
/* All ranks: to rank 0's memory for checkpoints, and from there. */
spsh_status spsh__run_gather_stages(spsh__run *r, spsh_error *err);
spsh_status spsh__run_scatter_stages(spsh__run *r, spsh_error *err);
/* All ranks: `reader`, a whole model, gets all stages' weights and statistics. */
spsh_status spsh__run_share_stages(spsh__run *r, spsh__model *reader, spsh_error *err);

/* SPSH_E_END: the epoch is over, and there was no step. r->facts are the step's. */
spsh_status spsh__run_step(spsh__run *r, spsh_error *err);
spsh_status spsh__run_step_open(spsh__run *r, spsh_error *err);
/* Of learners that do not step together: an update of so many batches that were drawn. own_totals
 * are its; what all made of theirs is not known. */
spsh_status spsh__run_learn_drawn(spsh__run *r, const spsh__drawn *drawn, spsh_error *err);
void spsh__run_fill_facts(spsh__run *r); /* of totals and progress */
/* All ranks: what gradients are still to be applied make one more step; r->has_learnt. */
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

/* Instead of steps; SPSH_E_CANCELED: to stop. */
spsh_status spsh__run_free(spsh__run *r, spsh_error *err);
/* The loop's: a step's totals are told and counted; the epoch has ended; the run has. */
void spsh__run_tell(spsh__run *r);
spsh_status spsh__run_end_epoch(spsh__run *r, spsh_error *err);
bool spsh__run_is_done(const spsh__run *r);

/* Rank 0's outcome of what it does alone becomes everybody's. */
spsh_status spsh__run_agree(spsh__run *r, spsh_status own, spsh_error *err);
/* Finds the checkpoint to go on from, before anything else is opened: config and vocabulary. */
spsh_status spsh__run_find(spsh__run *r, spsh_error *err);
/* Its arenas and counters; memory for saving. Before the strategy starts. */
spsh_status spsh__run_restore(spsh__run *r, spsh_error *err);
/* All ranks. A full disk is logged, and the run goes on. */
spsh_status spsh__run_save(spsh__run *r, spsh_error *err);
spsh_status spsh__run_save_last(spsh__run *r, spsh_error *err); /* waits; fails */
/* Between saves: what became of the last one; SPSH_E_MISMATCH: a newer start has taken over. */
spsh_status spsh__run_look(spsh__run *r, spsh_error *err);

/* That dev sets are there, and what of alignments is theirs; before the model is opened. */
spsh_status spsh__run_check_dev(spsh__run *r, spsh_error *err);
/* SPSH_E_CANCELED: the run is to stop; nothing is known then. */
spsh_status spsh__run_evaluate(spsh__run *r, spsh_error *err);
#endif
