/* run_history.h: the content of a training run's metrics.jsonl, in bounded memory for any length.
 *
 *     rc = spsh__run_history_read("run", io, &history, &err);
 *     ... history.steps (series.h), history.evaluations ...
 *     spsh__run_history_free(&history);
 *
 * The file may be read while the run continues: a last line without a line end is ignored. A line
 * that is not a JSON object is skipped and counted. A start line gives the step from which the
 * process resumed. Later steps of an earlier, failed process are removed. Missing numbers are NaN.
 */
#ifndef SPSH_TRAIN_RUN_HISTORY_H
#define SPSH_TRAIN_RUN_HISTORY_H

#include "common/series.h"
#include "speechshard/io.h"

enum { SPSH__RUN_DOMAINS_MAX = 64, SPSH__RUN_SETS_MAX = 64 };

/* Columns of the steps. docs/reference/TRAINING.md describes them. */
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
    SPSH__RUN_WITHOUT_ALIGNMENT, /* this and the next two: only for frame models */
    SPSH__RUN_OTHER_LENGTH,
    SPSH__RUN_FRAME_ERROR,
    SPSH__RUN_COLUMNS,
} spsh__run_column;

/* Values of the newest line of a kind. */
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

/* An evaluated set, with the examples of its last evaluation. */
typedef struct spsh__run_set {
    char *name;
    spsh__series series;
    spsh__run_example *examples;
    size_t example_count;
} spsh__run_set;

/* before_time and the rest of the line describe the process before this start (TRAINING.md,
 * section 9). They are NaN in runs of earlier versions. */
typedef struct spsh__run_start {
    double samples, time, world_size, threads, weights;
    double before_time, lost_samples, lost_starts, lost_s, lost_process_s, stopped_s;
    double last_time; /* time of the last line before the next start; without one, its own time */
    char *backend, *strategy, *launcher;
} spsh__run_start;

/* series: loss of the domain, weighted by utterances. */
typedef struct spsh__run_domain {
    char *name;
    spsh__series series;
} spsh__run_domain;

typedef struct spsh__run_history {
    spsh__series steps; /* x: utterances served; columns: SPSH__RUN_COLUMNS */
    double last[SPSH__RUN_COLUMNS];
    spsh__run_place last_step;
    double last_time; /* time of the newest line of any kind */
    spsh__run_evaluation *evaluations;
    size_t evaluation_count, evaluation_capacity;
    spsh__run_set sets[SPSH__RUN_SETS_MAX]; /* in the order of their first evaluation */
    size_t set_count;
    spsh__run_start *starts;
    size_t start_count;
    spsh__run_domain domains[SPSH__RUN_DOMAINS_MAX];
    size_t domain_count;
    uint64_t damaged_lines, first_damaged_line; /* counts lines from 1 */
} spsh__run_history;

/* Read the metrics of a run. SPSH_E_NOT_FOUND: no run; SPSH_E_IO. On failure there is nothing to
 * free. */
SPSH_NODISCARD spsh_status spsh__run_history_read(const char *run, const spsh_io *io,
                                                  spsh__run_history **ret, spsh_error *err);
void spsh__run_history_free(spsh__run_history *history);

/* Return the error rate that selects the best checkpoint: the share of wrong words, or of wrong
 * frames for a frame model. NaN: not recorded. */
double spsh__run_error(const spsh__run_evaluation *evaluation);
/* Return the newest evaluation of a set, or the best one of the first set. NULL: no evaluation. */
const spsh__run_evaluation *spsh__run_newest(const spsh__run_history *history, size_t set);
const spsh__run_evaluation *spsh__run_best(const spsh__run_history *history);

#endif
