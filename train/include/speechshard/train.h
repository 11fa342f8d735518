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

/** What one utterance is heard from: 16-bit samples of one channel, borrowed during the call. */
typedef struct spsh_speech {
    const int16_t *samples;
    uint64_t sample_count;
    uint32_t sample_rate_hz; /* any: it becomes the model's */
} spsh_speech;

/**
 * Texts of several utterances, those of like length in one pass through the model: of some dozens
 * at a time, many times as fast as one by one.
 *
 * @param ret_texts  [count], UTF-8, each the caller's to free(); on failure none is there
 * @return SPSH_OK; SPSH_E_INVALID_ARG, _LIMIT: an utterance that cannot be resampled or is too
 * long; _NO_MEMORY. One thread an object.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_recogniser_transcribe_all(spsh_recogniser *recogniser,
                                                                   const spsh_speech *speech,
                                                                   size_t count, char **ret_texts,
                                                                   spsh_error *err);

/** The same of one; *ret_text is the caller's to free(). */
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

/* ---- what a run would be ---- */

typedef struct spsh_train_estimate_options {
    size_t struct_size;
    const char *config_path;
    const char *const *overrides; /* as spsh_train_options' */
    const spsh_io *io;
} spsh_train_estimate_options;
#define SPSH_TRAIN_ESTIMATE_OPTIONS_INIT                                                           \
    {                                                                                              \
        sizeof(spsh_train_estimate_options), 0, 0, 0                                               \
    }

/** A domain of a dataset that is trained on; of what passes the filters. */
typedef struct spsh_train_domain {
    char *dataset, *name; /* name: empty where there is none */
    uint64_t utterances;
    double seconds;
    double share;  /* of an epoch's seconds */
    double passes; /* how often an epoch serves each */
} spsh_train_domain;

/** A dataset that is evaluated on. */
typedef struct spsh_train_set {
    char *name;
    uint64_t utterances;
    double seconds;
} spsh_train_set;

/** A character that no symbol stands for. */
typedef struct spsh_train_unknown {
    char text[8]; /* UTF-8; empty: bytes that are not */
    int32_t point;
    uint64_t count;
} spsh_train_unknown;
#define SPSH_TRAIN_UNKNOWN_MAX 10

typedef struct spsh_train_estimate {
    char *config; /* resolved, YAML */
    uint64_t weights;
    uint32_t inputs, symbols;           /* values of a frame; with the blank */
    uint32_t world_size, threads;       /* processes as they were started; threads of each */
    uint32_t virtual_world, accumulate; /* batches of a step: their product */
    spsh_train_domain *domains;
    uint32_t domain_count;
    spsh_train_set *dev;
    uint32_t dev_count;

    /* an epoch */
    uint64_t utterances;
    double seconds, longest_seconds;
    uint64_t skipped, filtered;      /* not served: by overlays; splits and weights of 0 */
    uint64_t out_of_range, too_long; /* ...: data.utterance_seconds_*; longer than a batch */
    uint64_t batches, steps;
    uint32_t batch_utterances_max;
    double batch_padded_seconds_max;
    double padding;   /* of what batches hold; 0 ... below 1 */
    uint64_t epochs;  /* of the whole run; rounded up where samples_max ends it */
    uint64_t samples; /* utterances of it */

    /* transcripts: of those read, evenly spread over what is served */
    uint64_t texts_read, characters, unknown_characters, unknown_kinds;
    spsh_train_unknown unknown[SPSH_TRAIN_UNKNOWN_MAX]; /* the most frequent ones */
    uint32_t unknown_count;
    uint64_t without_symbols; /* a transcript, but nothing of it that can be learnt */
    /* of all: from lengths and the transcripts that may be too long */
    uint64_t without_text, without_frames, infeasible;
    bool is_infeasible_exact; /* else extrapolated from a part */

    /* bytes of rank 0, which has the most; activations: of the largest batch, without what
     * operators take beside */
    uint64_t weight_bytes, gradient_bytes, moment_bytes, activation_bytes;
    uint64_t sum_bytes;        /* of gradients of several batches */
    uint64_t loader_bytes;     /* of training; evaluation takes as much, for its time */
    uint64_t snapshot_bytes;   /* of what is being saved */
    uint64_t checkpoint_bytes; /* a file on the disk */
    uint32_t checkpoint_count; /* with the best one; 0: all are kept */
} spsh_train_estimate;

/** What spsh_train would do with a configuration, without a run: from configuration, vocabulary,
 * indexes and some transcripts. No audio is read, nothing is written. As a process of a world that
 * launch.h finds, without talking to the others. Fails where the run would not begin, and where no
 * transcript can be learnt from. *ret is the caller's to free. */
SPSH_API SPSH_NODISCARD spsh_status spsh_train_estimate_make(
    const spsh_train_estimate_options *options, spsh_train_estimate **ret, spsh_error *err);
SPSH_API void spsh_train_estimate_free(spsh_train_estimate *estimate); /* NULL is fine */

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
