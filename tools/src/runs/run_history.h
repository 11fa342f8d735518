/* run_history.h: what a training run's metrics.jsonl says, in bounded memory however long it is.
 *
 *     rc = spsh__run_history_read("run", io, &history, &err);
 *     ... history.steps (series.h), history.evaluations ...
 *     spsh__run_history_free(&history);
 *
 * The file of a run that is going on may be read: a last line without an end is left out. A line
 * that is no JSON object is passed over and counted. What follows a start counts from where it
 * began: steps beyond that, of a process that died, are forgotten. Numbers that are not there are
 * NaN.
 */
#ifndef SPSH_TRAIN_RUN_HISTORY_H
#define SPSH_TRAIN_RUN_HISTORY_H

#include "common/series.h"
#include "speechshard/io.h"

enum { SPSH__RUN_DOMAINS_MAX = 64, SPSH__RUN_SETS_MAX = 64 };

/* Of steps; docs/TRAINING.md has what they are. */
typedef enum spsh__run_column {
    SPSH__RUN_LOSS,
    SPSH__RUN_NORM,
    SPSH__RUN_RATE,
    SPSH__RUN_STEP_S,
    SPSH__RUN_WAIT_S,
    SPSH__RUN_EXCHANGE_S,
    SPSH__RUN_SAVE_S,
    SPSH__RUN_AUDIO_S,
    SPSH__RUN_PADDING,
    SPSH__RUN_UTTERANCES,
    SPSH__RUN_INFEASIBLE,
    SPSH__RUN_WITHOUT_TEXT,
    SPSH__RUN_WITHOUT_FRAMES,
    SPSH__RUN_WITHOUT_ALIGNMENT, /* this and the next two: of models of frames alone */
    SPSH__RUN_OTHER_LENGTH,
    SPSH__RUN_FRAME_ERROR,
    SPSH__RUN_COLUMNS,
} spsh__run_column;

/* The newest line of a kind. */
typedef struct spsh__run_place {
    double samples, step, epoch, time, skipped_steps; /* time: seconds since 1970 */
} spsh__run_place;

typedef struct spsh__run_example {
    char *id, *reference, *found;
} spsh__run_example;

typedef struct spsh__run_evaluation {
    double samples, step, time, loss, wer, cer, cer_letters, frame_error, seconds, utterances;
    size_t set;
} spsh__run_evaluation;

enum { SPSH__SET_LOSS, SPSH__SET_WER, SPSH__SET_CER, SPSH__SET_FRAME_ERROR, SPSH__SET_COLUMNS };

/* One that is evaluated; examples of its last evaluation. */
typedef struct spsh__run_set {
    char *name;
    spsh__series series;
    spsh__run_example *examples;
    size_t example_count;
} spsh__run_set;

/* before_time and the rest of its line: what the process before it left (docs/TRAINING.md, section
 * 9); NaN in runs of earlier versions. */
typedef struct spsh__run_start {
    double samples, time, world_size, threads, weights;
    double before_time, lost_samples, lost_starts, lost_s, lost_process_s, stopped_s;
    double last_time; /* of the last line until the next start; its own where there is none */
    char *backend, *strategy, *launcher;
} spsh__run_start;

/* series: its loss, weighted by utterances. */
typedef struct spsh__run_domain {
    char *name;
    spsh__series series;
} spsh__run_domain;

typedef struct spsh__run_history {
    spsh__series steps; /* over utterances served; SPSH__RUN_COLUMNS */
    double last[SPSH__RUN_COLUMNS];
    spsh__run_place last_step;
    double last_time; /* of any line */
    spsh__run_evaluation *evaluations;
    size_t evaluation_count, evaluation_capacity;
    spsh__run_set sets[SPSH__RUN_SETS_MAX]; /* in the order of their first evaluation */
    size_t set_count;
    spsh__run_start *starts;
    size_t start_count;
    spsh__run_domain domains[SPSH__RUN_DOMAINS_MAX];
    size_t domain_count;
    uint64_t damaged_lines, first_damaged_line; /* from 1 */
} spsh__run_history;

/* SPSH_E_NOT_FOUND: no run; SPSH_E_IO. On failure nothing is left to free. */
SPSH_NODISCARD spsh_status spsh__run_history_read(const char *run, const spsh_io *io,
                                                  spsh__run_history **ret, spsh_error *err);
void spsh__run_history_free(spsh__run_history *history);

/* What decides which checkpoint is best: the share of wrong words, of a model of frames that of
 * wrong frames; NaN: nothing was said. */
double spsh__run_error(const spsh__run_evaluation *evaluation);
/* The newest of a set; the best of the first set. NULL: there is none. */
const spsh__run_evaluation *spsh__run_newest(const spsh__run_history *history, size_t set);
const spsh__run_evaluation *spsh__run_best(const spsh__run_history *history);

#endif
