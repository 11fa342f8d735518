/* train.h: from packed speech to a recogniser: train, evaluate, transcribe.
 *
 *     spsh_train_options options = SPSH_TRAIN_OPTIONS_INIT;
 *     options.config_path = "digits.yaml";
 *     rc = spsh_train(&options, &result, &err);        // SPSH_E_CANCELED: stopped and saved; call
 * again
 */
#ifndef SPEECHSHARD_TRAIN_H
#define SPEECHSHARD_TRAIN_H

#include <stdbool.h>

#include "speechshard/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct spsh_train_options {
    size_t struct_size;
    const char *config_path;
    const char *const *overrides; /* "train.rate=3e-4"; NULL behind the last; may be NULL */
    const char *run;              /* the run's folder; made */
    bool resume;                  /* from the newest good checkpoint, where there is one */
    const spsh_io *io;
    spsh_log_fn log_fn;
    void *log_user;
    /* Called after each step; a text for a live line. May be NULL. */
    void (*progress_fn)(void *user, const char *line);
    void *progress_user;
    const volatile int *stop; /* not 0: finish the step, save, return SPSH_E_CANCELED */
} spsh_train_options;
#define SPSH_TRAIN_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(spsh_train_options), 0, 0, 0, false, 0, 0, 0, 0, 0, 0                               \
    }

typedef struct spsh_train_result {
    uint64_t steps, epochs, samples;
    double loss, wer, cer; /* of the last step, of the last evaluation; NaN: none */
} spsh_train_result;

/** One process of a world that launch.h finds. Returns when the run is done. */
SPSH_API SPSH_NODISCARD spsh_status spsh_train(const spsh_train_options *options,
                                               spsh_train_result *ret_result, spsh_error *err);

/* ---- evaluating ---- */

typedef struct spsh_evaluate_options {
    size_t struct_size;
    const char *checkpoint;      /* a run's folder (its newest good one), or a file */
    const char *const *datasets; /* "path", "path:split,split"; NULL behind the last */
    uint32_t threads;            /* 0: as many as there are cores */
    uint32_t beam_width;         /* 0: greedy */
    const spsh_io *io;
    spsh_log_fn log_fn;
    void *log_user;
    /* Each utterance, in no order that means anything: NUL-terminated texts, borrowed during the
     * call; reference is the transcript as the vocabulary has it. May be NULL. */
    void (*heard_fn)(void *user, spsh_bytes id, const char *reference, const char *found);
    void *heard_user;
} spsh_evaluate_options;
#define SPSH_EVALUATE_OPTIONS_INIT                                                                 \
    {                                                                                              \
        sizeof(spsh_evaluate_options), 0, 0, 0, 0, 0, 0, 0, 0, 0                                   \
    }

/** Rates are errors per word or character of all references together; NaN: there is none. */
typedef struct spsh_evaluation {
    uint64_t utterances, wrong_utterances, words, letters;
    uint64_t infeasible; /* fewer frames than their labels need */
    double loss;         /* mean of the others */
    double wer, cer;     /* cer: blanks are characters */
    double cer_letters;  /* ... are not */
    double audio_seconds, seconds;
} spsh_evaluation;

SPSH_API SPSH_NODISCARD spsh_status spsh_evaluate(const spsh_evaluate_options *options,
                                                  spsh_evaluation *ret_result, spsh_error *err);

/* ---- recognising ---- */

/** A trained model: checkpoint, vocabulary, features. */
typedef struct spsh_recogniser spsh_recogniser;
SPSH_API SPSH_NODISCARD spsh_status spsh_recogniser_open(const char *checkpoint, uint32_t threads,
                                                         uint32_t beam_width, spsh_recogniser **ret,
                                                         spsh_error *err);
SPSH_API void spsh_recogniser_close(spsh_recogniser *recogniser);

/** Text of 16-bit samples, one channel. *ret_text is the caller's to free(). One thread. */
SPSH_API SPSH_NODISCARD spsh_status spsh_recogniser_transcribe(spsh_recogniser *recogniser,
                                                               const int16_t *samples,
                                                               uint64_t sample_count,
                                                               uint32_t sample_rate_hz,
                                                               char **ret_text, spsh_error *err);

/* ---- what comes before ---- */

typedef struct spsh_vocabulary_options {
    size_t struct_size;
    const char *config_path; /* its data.train are read, and its vocabulary's name is written */
    const char *const *overrides; /* as spsh_train_options' */
    const char *kind;             /* "characters", "pieces"; NULL: characters */
    const char *profile; /* how texts are normalised first: "lower", "upper", "nfc"; NULL: lower */
    uint32_t symbols;    /* with the blank, at most; 0: all characters, 1,024 pieces */
    const spsh_io *io;
} spsh_vocabulary_options;
#define SPSH_VOCABULARY_OPTIONS_INIT                                                               \
    {                                                                                              \
        sizeof(spsh_vocabulary_options), 0, 0, 0, 0, 0, 0                                          \
    }

/** Make the vocabulary of a configuration from the transcripts that it trains on.
 * @param ret_path  of the file, the caller's to free(). SPSH_E_EXISTS: it is there with others. */
SPSH_API SPSH_NODISCARD spsh_status spsh_vocabulary_make(const spsh_vocabulary_options *options,
                                                         char **ret_path, uint32_t *ret_symbols,
                                                         spsh_error *err);

/** Who started this process: mpirun, srun, torchrun, plain variables. */
typedef struct spsh_train_world {
    char launcher[32];
    uint32_t rank, world_size, local_rank, local_size, node, node_count;
    char master[256]; /* host of rank 0, where the launcher says it */
    uint32_t master_port;
    char run_id[128];
    uint32_t restart_count;
} spsh_train_world;

/** @return SPSH_OK; SPSH_E_INVALID_ARG: variables that contradict each other */
SPSH_API SPSH_NODISCARD spsh_status spsh_train_world_find(spsh_train_world *ret_world,
                                                          spsh_error *err);

#ifdef __cplusplus
}
#endif
#endif
