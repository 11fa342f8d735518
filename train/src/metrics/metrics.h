/* metrics.h: the reports of a run: one JSON line per step, a live line, and TensorBoard events.
 *
 *     spsh__metrics_open("run", &start, NULL, &metrics, &err);
 *     ... rc = spsh__metrics_step(metrics, &facts, &err); ...
 *     ... rc = spsh__metrics_evaluation(metrics, &evaluation, &err); ...
 *     spsh__metrics_close(metrics);
 *
 * RUN/metrics.jsonl has one line per start, step, and evaluation, in order. "kind" names the type.
 * All lines have "samples", the number of utterances served so far, which never falls: a resumed
 * run first removes the lines that the previous process wrote after the checkpoint. The line of the
 * new start has the amount of lost work and the time of the last lost line. Numbers that are not
 * finite are null. `speechshard report` draws its page from these lines only.
 */
#ifndef SPSH_TRAIN_METRICS_H
#define SPSH_TRAIN_METRICS_H

#include "speechshard/io.h"

#define SPSH__METRIC_DOMAINS_MAX 64U

/* Histogram bin of an update whose staleness is `changes`, the number of updates by other learners
 * before it. The bins are 0, 1, ... 15, 16 to 31, 32 to 63, and all above. */
#define SPSH__METRIC_STALENESS 19U
uint32_t spsh__metric_staleness(uint64_t changes);

/* Facts about one start of the process. Strings are borrowed during the call. */
typedef struct spsh__start_facts {
    uint64_t samples, step; /* position of the checkpoint to resume from; 0: none */
    uint64_t restarts;
    uint32_t world_size, virtual_world, threads;
    uint64_t weights; /* parameters of the model */
    const char *backend, *strategy, *launcher;
    /* Clock of the lines, in seconds. NULL: the computer's clock. Borrowed until close. */
    double (*time_fn)(const void *user);
    const void *time_user;
} spsh__start_facts;

typedef struct spsh__domain_facts {
    const char *name; /* UTF-8; empty: none */
    double loss;      /* mean per utterance, or frame */
    uint64_t utterances;
} spsh__domain_facts;

typedef struct spsh__step_facts {
    uint64_t step, epoch, samples; /* totals of the run; epoch: number of completed epochs */
    double audio_total_s;          /* audio served since the run began */
    double loss;                   /* mean per counted utterance, or frame; NaN: none */
    bool is_of_frames;             /* the model is trained on states of frames: frame_error is
                                      valid */
    double frame_error;            /* fraction of wrong frames */
    double gradient_norm, rate;
    double loss_scale; /* scale of the loss and its gradients: 1, except for fp16 */
    double step_s, wait_s, compute_s, exchange_s;
    double save_s;           /* time that checkpoints delayed the run before this step, since the
                                last step */
    double audio_s, padding; /* audio of the step; share of its frames that are padding */
    uint64_t sent_bytes;     /* bytes that all ranks sent each other between the beginnings of the
                                last step and this one */
    bool has_staleness;      /* the strategy counts staleness: the next field counts updates of
                                parts of models */
    uint64_t staleness[SPSH__METRIC_STALENESS];
    uint32_t utterances, infeasible, without_text, without_frames, skipped_steps;
    uint32_t without_alignment, other_length;
    uint32_t learners; /* live learners of a run that continues without lost ones; else 0 */
    uint32_t domain_count;
    spsh__domain_facts domains[SPSH__METRIC_DOMAINS_MAX];
    /* Only for the live line. */
    uint64_t epochs; /* epochs of the whole run; 0: unlimited */
    double left_s;   /* until the end of the run; NaN: unknown */
} spsh__step_facts;

/* UTF-8. */
typedef struct spsh__example {
    const char *id, *reference, *found;
} spsh__example;

typedef struct spsh__evaluation_facts {
    uint64_t step, samples;
    const char *set;                    /* "dev.spsh:test" */
    double loss, wer, cer, cer_letters; /* errors per reference word or character */
    bool is_of_frames;  /* a model of frames: the next fields are valid, and the other rates are
                           NaN */
    double frame_error; /* fraction of wrong frames */
    uint64_t frames, without_alignment, other_length; /* frames; utterances */
    double seconds;                                   /* duration of the evaluation */
    uint64_t utterances, words;
    const spsh__example *examples;
    size_t example_count;
} spsh__evaluation_facts;

typedef struct spsh__metrics spsh__metrics;

/* run: an existing folder. Lines past start->samples are removed. @return SPSH_OK; SPSH_E_IO,
 * _NO_SPACE, _NO_MEMORY; SPSH_E_LIMIT: metrics.jsonl holds a line that this module did not write */
spsh_status spsh__metrics_open(const char *run, const spsh__start_facts *start, const spsh_io *io,
                               spsh__metrics **ret, spsh_error *err);
/* After a failure (a full disk) the next call tries again. Lines are complete or absent. */
spsh_status spsh__metrics_step(spsh__metrics *m, const spsh__step_facts *facts, spsh_error *err);
spsh_status spsh__metrics_evaluation(spsh__metrics *m, const spsh__evaluation_facts *facts,
                                     spsh_error *err);
/* NULL is fine. */
void spsh__metrics_close(spsh__metrics *m);

/* Format a step as one line for a terminal, without its number. Returns text. */
const char *spsh__metrics_line(const spsh__step_facts *facts, char *text, size_t capacity);

#endif
