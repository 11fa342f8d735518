/* metrics.h: what a run tells: a JSON line a step, a live line, and events for TensorBoard.
 *
 *     spsh__metrics_open("run", &start, NULL, &metrics, &err);
 *     ... rc = spsh__metrics_step(metrics, &facts, &err); ...
 *     ... rc = spsh__metrics_evaluation(metrics, &evaluation, &err); ...
 *     spsh__metrics_close(metrics);
 *
 * RUN/metrics.jsonl has a line for each start, step and evaluation, in their order; "kind" says
 * which. All have "samples", the utterances that the run had been served, which never falls: a run
 * that resumes first cuts off what the dead one wrote beyond its checkpoint. How much that was, and
 * when the last of it was written, is in the line of the new start. Numbers that are not
 * finite are null. `speechshard report` draws the page from these lines alone.
 */
#ifndef SPSH_TRAIN_METRICS_H
#define SPSH_TRAIN_METRICS_H

#include "speechshard/io.h"

#define SPSH__METRIC_DOMAINS_MAX 64U

/* Of updates by how many changes of others came before them: 0, 1, ... 15, 16 to 31, 32 to 63, and
 * all beyond. */
#define SPSH__METRIC_STALENESS 19U
uint32_t spsh__metric_staleness(uint64_t changes);

/* What begins: once a start of the process. Texts are borrowed during the call. */
typedef struct spsh__start_facts {
    uint64_t samples, step; /* of the checkpoint that it goes on from; 0: the beginning */
    uint64_t restarts;
    uint32_t world_size, virtual_world, threads;
    uint64_t weights; /* parameters of the model */
    const char *backend, *strategy, *launcher;
    /* Seconds, for the lines' times: of another clock than the computer's; NULL: of that. Borrowed
     * until close. */
    double (*time_fn)(const void *user);
    const void *time_user;
} spsh__start_facts;

typedef struct spsh__domain_facts {
    const char *name; /* UTF-8; empty: none */
    double loss;      /* mean per utterance, or frame */
    uint64_t utterances;
} spsh__domain_facts;

typedef struct spsh__step_facts {
    uint64_t step, epoch, samples; /* since the run began; epoch: ended ones */
    double audio_total_s;          /* heard since the run began */
    double loss;                   /* mean per utterance, or frame, that counted; NaN: none did */
    bool is_of_frames;             /* the model learns states of frames: the next, too */
    double frame_error;            /* share of frames */
    double gradient_norm, rate;
    double loss_scale; /* of its gradients: 1, but for fp16 */
    double step_s, wait_s, compute_s, exchange_s;
    double save_s;           /* before it, since the last step: what checkpoints held the run up */
    double audio_s, padding; /* of the step; share of its frames that are padding */
    uint64_t sent_bytes;     /* before it, since the last step's beginning, by all to each other */
    bool has_staleness;      /* the strategy counts it: the next, of parts of models */
    uint64_t staleness[SPSH__METRIC_STALENESS];
    uint32_t utterances, infeasible, without_text, without_frames, skipped_steps;
    uint32_t without_alignment, other_length;
    uint32_t learners; /* that are not lost, of a run that goes on without those; else 0 */
    uint32_t domain_count;
    spsh__domain_facts domains[SPSH__METRIC_DOMAINS_MAX];
    /* For the live line alone. */
    uint64_t epochs; /* of the whole run; 0: without a bound */
    double left_s;   /* until its end; NaN: unknown */
} spsh__step_facts;

/* UTF-8. */
typedef struct spsh__example {
    const char *id, *reference, *found;
} spsh__example;

typedef struct spsh__evaluation_facts {
    uint64_t step, samples;
    const char *set;                    /* "dev.spsh:test" */
    double loss, wer, cer, cer_letters; /* errors per reference word or character */
    bool is_of_frames;  /* a model of frames: it has these, and NaN for the other rates */
    double frame_error; /* share of frames */
    uint64_t frames, without_alignment, other_length; /* frames; utterances */
    double seconds;                                   /* that it took */
    uint64_t utterances, words;
    const spsh__example *examples;
    size_t example_count;
} spsh__evaluation_facts;

typedef struct spsh__metrics spsh__metrics;

/* run: a folder that is there. What it has beyond start->samples is cut off.
 * @return SPSH_OK; SPSH_E_IO, _NO_SPACE, _NO_MEMORY; SPSH_E_LIMIT: metrics.jsonl holds a line that
 * is none of ours */
spsh_status spsh__metrics_open(const char *run, const spsh__start_facts *start, const spsh_io *io,
                               spsh__metrics **ret, spsh_error *err);
/* After a failure (a full disk) the next call tries again: lines are whole or not there. */
spsh_status spsh__metrics_step(spsh__metrics *m, const spsh__step_facts *facts, spsh_error *err);
spsh_status spsh__metrics_evaluation(spsh__metrics *m, const spsh__evaluation_facts *facts,
                                     spsh_error *err);
/* NULL is fine. */
void spsh__metrics_close(spsh__metrics *m);

/* A step in a line for a terminal, without its number; returns text. */
const char *spsh__metrics_line(const spsh__step_facts *facts, char *text, size_t capacity);

#endif
