/* run_internal.h: the state of a run, in parts, and the functions of its files. Parts that do not
 * depend on a run have separate headers (run_world.h, run_setup.h, run_rows.h, ...).
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

/* State of a run that a checkpoint stores in addition to arenas. All ranks have the same values. */
typedef struct spsh__progress {
    uint64_t samples, step, epoch;
    uint64_t updates, skipped_steps; /* each step is one or the other */
    uint64_t evaluated_step;         /* step of the last evaluation; 0: none */
    uint64_t restarts, best_samples;
    double best_metric; /* lowest WER, or frame error; infinite: none */
    double audio_s, wall_s;
    spsh__loss_scale loss_scale;
} spsh__progress;

/* A micro-batch while the model computes it (run_step.c, run_pipeline.c). */
typedef struct spsh__run_leaf {
    uint32_t number;    /* index in the step (strategy.h) */
    spsh_status status; /* status of the strategy, during backward */
    spsh_error error;
    const spsh__feed_batch *batch; /* pipeline: batch of the last forward, for its loss */
    double *row;                   /* pipeline: row of this batch (run_rows.h) */
} spsh__run_leaf;

/* The model of this rank (run_pipeline.c: one stage, or the whole model). */
typedef struct spsh__run_model {
    spsh__model_shape shape; /* shape of the whole model */
    spsh__model *own;        /* model of this rank */
    spsh__stages *stages;    /* only in a pipeline: has `own`; else NULL */
    spsh__comm *own_comm;    /* ... with only this rank */
    spsh__slice *buckets;    /* buckets of the learner, unless there are stages */
} spsh__run_model;

/* The rounds of asynchronous learners (run_free.c, run_lost.c). */
typedef struct spsh__run_rounds {
    bool has_own_model; /* learners are asynchronous: there are rounds */
    spsh__draw *draw;
    uint64_t epoch, step; /* position of the next batch: rank 0's, at a barrier */
    uint32_t learners;    /* live learners known to rank 0; 0: a loss ends the run */
} spsh__run_rounds;

/* The checkpoint that a run resumes from, and its own checkpoints (run_state.c). */
typedef struct spsh__run_saving {
    spsh__checkpoint_file *resumed; /* rank 0, until its arenas are copied */
    spsh__checkpoint resumed_state;
    spsh__checkpoint_writer *writer; /* rank 0 */
    spsh__host_arenas arenas;        /* rank 0 */
    uint8_t *cursor;                 /* position after the last saved step */
    size_t cursor_size;
    uint64_t next_batch_hash; /* hash of the batch after the cursor */
    double saved_s, looked_s; /* times of the last save, and of the last folder check */
    double save_s;            /* seconds that checkpoints took since the last step */
} spsh__run_saving;

/* The last evaluation of the first dev set (run_evaluate.c). */
typedef struct spsh__dev_evaluation {
    spsh__evaluation last;
    bool has_last;
    double ended_s; /* time of its end, or of the beginning of this process */
} spsh__dev_evaluation;

/* State of rank 0's reports on steps and epochs (run_report.c). */
typedef struct spsh__run_report {
    spsh__metrics *metrics;
    bool has_failed;        /* metrics cannot be written, and the error was logged */
    double begin_s;         /* time at which this process began, ... */
    uint64_t begin_samples; /* ... and its samples then */
    double epoch_totals[SPSH__ROW_DOMAINS];
    bool is_epoch_whole; /* this process began the epoch at its start */
} spsh__run_report;

/* A step, and the state that it leaves for the next step (run_step.c). */
typedef struct spsh__run_step_state {
    spsh__step_facts facts;
    spsh__backend_buffer statistics_before; /* running statistics: a skipped step restores them */
    uint32_t skipped_in_a_row;
    bool has_learnt;                 /* false: no late gradients were due yet */
    double due_loss_scale;           /* loss scale of gradients that are applied a step late */
    const spsh__feed_batch *pending; /* batch of the next epoch: taken, not trained on yet */
    bool has_ended;                  /* the epoch ended in the middle of a step */
    bool has_to_stop;                /* a rank requested a stop in a step that was late */
} spsh__run_step_state;

typedef struct spsh__run {
    const spsh_train_options *o;
    const spsh_io *io;
    spsh__run_world *world; /* the other ranks, their messages, the clock (run_world.h) */
    spsh__run_setup setup;  /* the configuration (run_setup.h) */
    spsh__compute compute;
    spsh__backend *backend; /* owned by compute */
    spsh__feed *feed;
    spsh__run_model model;
    spsh__progress progress;

    /* synchronization of the learners' models (run_learner.c) */
    spsh__learner learner;
    spsh__strategy *strategy;
    spsh__optimizer optimizer;   /* run_update.h */
    spsh__served_updates served; /* only for strategies that push gradients */
    spsh__shared_memory shared;  /* only for hogwild (run_shared.h) */
    spsh__run_runtime runtime;   /* only for strategies that need one (run_record.h) */
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
/* Return the options of a feed for evaluation of these datasets: every utterance once. */
spsh__feed_options spsh__run_feed_options(const spsh__run *r, const char *const *names);
/* Explain an out-of-memory failure. Closes the model and the optimizer moments first, so that the
 * message states the free memory before they were opened. */
spsh_status spsh__run_explain_memory(spsh__run *r, spsh_status status, spsh_error *err);
spsh_status spsh__run_open(spsh__run *r, spsh_error *err);
void spsh__run_close(spsh__run *r); /* call also after a failed open */

/* ---- run_report.c ---- */
/* Only rank 0 logs, except for errors, which every rank logs. */
void spsh__run_log(const spsh__run *r, spsh_log_level level, const char *format, ...)
    SPSH_PRINTF(3, 4);
/* Write RUN/config.yaml, and open metrics. */
spsh_status spsh__run_open_report(spsh__run *r, spsh_error *err);
void spsh__run_report_start(const spsh__run *r);
/* Report a step and add its totals to the epoch's. */
void spsh__run_report_step(spsh__run *r);
/* Report an epoch. SPSH_E_NOT_FOUND: none of its utterances can be trained on. */
spsh_status spsh__run_report_epoch(spsh__run *r, spsh_error *err);
void spsh__run_report_graphs(const spsh__run *r);

/* ---- run_learner.c ---- */
/* Open the model's arenas and the other parts of a learner, as configured. */
spsh_status spsh__run_open_learner(spsh__run *r, spsh_error *err);
spsh_status spsh__run_open_strategy(spsh__run *r, spsh_error *err);
void spsh__run_close_moments(spsh__learner *l);
void spsh__run_close_strategy(spsh__run *r);
/* True for the one rank per node whose totals count. The other ranks have the same totals. */
bool spsh__run_is_heard(const spsh__learner *l);
/* All ranks, between steps: compute the weights and statistics to evaluate and save, the same on
 * all ranks. is_taken: learners continue from them. */
spsh_status spsh__run_meet(spsh__run *r, bool is_taken, spsh_error *err);

/* ---- run_pipeline.c: runs whose ranks have one stage of the model each ---- */
/* Open the model of this rank, in a run of stages. */
spsh_status spsh__run_open_stage(spsh__run *r, const spsh__model_limits *limits, spsh_error *err);
spsh_status spsh__run_stage_learner(spsh__run *r, spsh_error *err);
void spsh__run_close_model(spsh__run_model *m);
/* Return the layout (slices, sizes of arenas) of the whole model. */
const spsh__model *spsh__run_whole(const spsh__run_model *m);
/* True if this rank counts the utterances, frames, and losses of batches. */
bool spsh__run_counts(const spsh__learner *l);
/* All ranks: copy to rank 0's memory for checkpoints, or from that memory. */
spsh_status spsh__run_gather_stages(const spsh__learner *l, const spsh__host_arenas *host,
                                    spsh_error *err);
spsh_status spsh__run_scatter_stages(const spsh__learner *l, const spsh__host_arenas *host,
                                     spsh_error *err);
/* All ranks: copy the weights and statistics of all stages to `reader`, a whole model. */
spsh_status spsh__run_share_stages(const spsh__learner *l, spsh__model *reader, spsh_error *err);

/* ---- run_step.c ---- */
/* Run one step; r->step.facts describes it. SPSH_E_END: the epoch has ended, and no step was run.
 */
spsh_status spsh__run_step(spsh__run *r, spsh_error *err);
spsh_status spsh__run_step_open(spsh__run *r, spsh_error *err);
/* For asynchronous learners: make an update from the drawn batches. Sets only own_totals, since the
 * totals of other learners are unknown. */
spsh_status spsh__run_learn_drawn(spsh__run *r, const spsh__drawn *drawn, spsh_error *err);
void spsh__run_fill_facts(spsh__run *r); /* from totals and progress */
/* All ranks: apply gradients that are still due in one more step. Sets r->step.has_learnt. */
spsh_status spsh__run_flush(spsh__run *r, spsh_error *err);

/* ---- run_lost.c: train.on_lost ---- */
/* Call before a runtime is opened. SPSH_E_INVALID_ARG, _UNSUPPORTED: with these options a run
 * cannot continue without a rank. */
spsh_status spsh__run_open_lost(spsh__run *r, spsh_error *err);
/* Rank 0, in a round: log lost ranks. */
spsh_status spsh__run_poll_lost(spsh__run *r, spsh_error *err);
/* Call after spsh__leases_meet, which finds the lost ranks. Replaces the communicator by one of the
 * live ranks. */
spsh_status spsh__run_shrink(spsh__run *r, spsh_error *err);
void spsh__run_close_lost(spsh__run *r);

/* ---- run_free.c ---- */
/* Runs instead of steps. SPSH_E_CANCELED: stop. */
spsh_status spsh__run_free(spsh__run *r, spsh_error *err);

/* ---- run.c ---- */
/* Call after late gradients are applied. Report the epoch, evaluate, and save. */
spsh_status spsh__run_end_epoch(spsh__run *r, spsh_error *err);
bool spsh__run_is_done(const spsh__config *config, const spsh__progress *progress);

/* ---- run_state.c ---- */
/* Share the outcome of work that only rank 0 does with all ranks. */
spsh_status spsh__run_agree(const spsh__run_world *w, spsh_status own, spsh_error *err);
/* Find the checkpoint to resume from, with its config and vocabulary, before other objects are
 * opened. */
spsh_status spsh__run_find(spsh__run *r, spsh_error *err);
/* Restore arenas and counters, and allocate memory for saving. Call before the strategy starts. */
spsh_status spsh__run_restore(spsh__run *r, spsh_error *err);
/* All ranks. A full disk is logged, and the run continues. */
spsh_status spsh__run_save(spsh__run *r, spsh_error *err);
spsh_status spsh__run_save_last(spsh__run *r, spsh_error *err); /* waits; fails */
void spsh__run_close_saving(spsh__run_saving *s);
/* Check the last save between saves. SPSH_E_MISMATCH: a newer start has taken over. */
spsh_status spsh__run_poll(spsh__run *r, spsh_error *err);

/* ---- run_evaluate.c ---- */
/* Check the dev sets, and the alignments for them. Call before the model is opened. */
spsh_status spsh__run_check_dev(spsh__run *r, spsh_error *err);
/* SPSH_E_CANCELED: the run must stop; there is no result. */
spsh_status spsh__run_evaluate(spsh__run *r, spsh_error *err);
#endif
