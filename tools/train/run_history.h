/* run_history.h: what a training run's metrics.jsonl says, as columns.
 *
 *     rc = spsh__run_history_read("run", io, &history, &err);
 *     ... history.step_count, history.columns[SPSH__RUN_LOSS] ...
 *     spsh__run_history_free(&history);
 *
 * A last line without an end (a run that is going on, or died) is left out. Numbers that are not
 * there are NaN.
 */
#ifndef SPSH_TRAIN_RUN_HISTORY_H
#define SPSH_TRAIN_RUN_HISTORY_H

#include <stdbool.h>

#include "speechshard/io.h"

enum { SPSH__RUN_DOMAINS_MAX = 64 };

/* Of steps. */
typedef enum spsh__run_column {
    SPSH__RUN_SAMPLES,
    SPSH__RUN_STEP,
    SPSH__RUN_EPOCH,
    SPSH__RUN_TIME, /* seconds since 1970 */
    SPSH__RUN_LOSS,
    SPSH__RUN_NORM,
    SPSH__RUN_RATE,
    SPSH__RUN_STEP_S,
    SPSH__RUN_WAIT_S,
    SPSH__RUN_EXCHANGE_S,
    SPSH__RUN_AUDIO_S,
    SPSH__RUN_AUDIO_TOTAL_S,
    SPSH__RUN_PADDING,
    SPSH__RUN_UTTERANCES,
    SPSH__RUN_INFEASIBLE,
    SPSH__RUN_WITHOUT_TEXT,
    SPSH__RUN_WITHOUT_FRAMES,
    SPSH__RUN_SKIPPED_STEPS,
    SPSH__RUN_COLUMNS,
} spsh__run_column;

typedef struct spsh__run_example {
    char *id, *reference, *found;
} spsh__run_example;

typedef struct spsh__run_evaluation {
    double samples, step, loss, wer, cer, cer_letters, seconds, utterances, words;
    char *set;
    spsh__run_example *examples;
    size_t example_count;
} spsh__run_evaluation;

typedef struct spsh__run_start {
    double samples, time, world_size, threads, weights;
    char *backend, *strategy, *launcher;
} spsh__run_start;

typedef struct spsh__run_domain {
    char *name;
    double utterances;
    double recent_loss; /* mean over the last tenth of the steps */
    double recent_utterances;
} spsh__run_domain;

typedef struct spsh__run_history {
    double *columns[SPSH__RUN_COLUMNS];
    size_t step_count, step_capacity;
    spsh__run_evaluation *evaluations;
    size_t evaluation_count;
    spsh__run_start *starts;
    size_t start_count;
    spsh__run_domain domains[SPSH__RUN_DOMAINS_MAX];
    size_t domain_count;
} spsh__run_history;

/* SPSH_E_NOT_FOUND: no run; SPSH_E_SYNTAX with the line. On failure nothing is left to free. */
SPSH_NODISCARD spsh_status spsh__run_history_read(const char *run, const spsh_io *io,
                                                  spsh__run_history *ret, spsh_error *err);
void spsh__run_history_free(spsh__run_history *history);

#endif
