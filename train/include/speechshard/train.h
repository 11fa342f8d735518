/* train.h: from packed speech to a recogniser: train, evaluate, transcribe.
 *
 *     spsh_train_options options = SPSH_TRAIN_OPTIONS_INIT;
 *     options.config_path = "digits.yaml";                  // docs/TRAINING.md has its keys
 *     options.run = "run";
 *     rc = spsh_train(&options, &result, &err);
 *
 *     spsh_recogniser_options hearing = SPSH_RECOGNISER_OPTIONS_INIT;
 *     hearing.checkpoint = "run";
 *     rc = spsh_recogniser_open(&hearing, &recogniser, &err);
 *     spsh_recogniser_transcribe(recogniser, samples, sample_count, 16000, &text, &err);
 *
 * Options: NULL and 0 are the defaults where nothing else is said; texts and tables that options
 * point to are borrowed during the call. A process trains one run at a time, as MPI and the
 * launcher's variables are the process's; everything else may be called from several threads, with
 * an object each.
 *
 * The threads of a call exist only in the process that made it, and end before it returns. A child
 * that a callback forks must exit without returning from the callback.
 */
#ifndef SPEECHSHARD_TRAIN_H
#define SPEECHSHARD_TRAIN_H

#include <stdbool.h>

#include "speechshard/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- training ---- */

typedef struct spsh_train_options {
    size_t struct_size;
    const char *config_path;      /* NULL, to go on: as the checkpoint has it */
    const char *const *overrides; /* "train.rate=3e-4", NULL behind the last; they win over the
                                     configuration, a later one over an earlier one */
    const char *run;    /* folder of checkpoints, metrics and config.yaml; made; must be given */
    bool resume;        /* go on from the newest good checkpoint, where there is one */
    const spsh_io *io;  /* NULL: the operating system; also of datasets */
    spsh_log_fn log_fn; /* what happens, of rank 0; errors of every rank */
    void *log_user;
    /* After each step, rank 0: its number since the run began; epoch, loss, rate, speed and what is
     * left in one line, lent during the call. May be NULL. */
    void (*progress_fn)(void *user, uint64_t step, const char *line);
    void *progress_user;
    const volatile int *stop; /* looked at once a step, of any rank; not 0: finish the step, save,
                                 return SPSH_E_CANCELED. A signal handler may set it */
    /* Rank 0, once all is saved: what has to be done while the others still wait, as a launcher
     * ends all processes when the first one ends with a failure. stopped: behind which step the run
     * stopped, in words, lent during the call; NULL of one that is done. May be NULL. */
    void (*end_fn)(void *user, const char *stopped);
    void *end_user;
    /* Where the processes of torchrun and Kubernetes meet: "file://FOLDER" that all of them see,
     * "tcp://HOST:PORT" of rank 0; NULL or "auto": by a file in `run`, and at the address that the
     * launcher says. Given, it is in the place of MPI as well.
     * The processes prove to each other that they share a secret. Rank 0 draws it and writes it
     * into that file, with mode 0600, unless the environment has SPEECHSHARD_SECRET. */
    const char *rendezvous;
    /* What is done to processes, to try out a cluster that is not there; each NULL behind the last,
     * or NULL. slow: "RANK:FACTORx", computing takes so many times as long, by sleeping; freeze:
     * "RANK:AT+FOR", the process is stopped; kill: "RANK:AT". AT: a step ("200") or a time ("30s"),
     * since the process's first step; looked at before each */
    const char *const *slow, *const *freeze, *const *kill;
    const char *link; /* "1ms+1Gbit": messages take at least so long; NULL: what they take */
    /* The run of a cluster that is described, "learners=8,link=10us+100Gbit,step=250ms,slow=3:10x"
     * (docs/strategies/README.md): all its learners train here, in one process, with all their
     * data, gradients and messages, under a clock on which a batch takes `step`. The same options,
     * the same bits, metrics included. It needs memory for as many models; NULL: this process is
     * one learner */
    const char *simulate;
    /* Of a strategy whose messages come in an order of chance: that order is kept, in `run`/record,
     * a file of each process. Not with resume */
    bool record;
    /* A run with a record: it is done again, all its learners in this process, message for message,
     * and comes to the same bits, in `run`. Without config_path and overrides: they are the
     * record's; NULL: none */
    const char *replay;
} spsh_train_options;
/* clang-format off */
#define SPSH_TRAIN_OPTIONS_INIT {sizeof(spsh_train_options), NULL, NULL, NULL, false, NULL, \
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL}
/* clang-format on */

typedef struct spsh_train_result {
    size_t struct_size;
    uint64_t steps, epochs, samples; /* since the run began; samples: utterances served */
    double loss;                     /* mean per utterance of this call's last step; NaN: none */
    double wer, cer;                 /* of this call's last evaluation of the first dev set: errors
                                        per word, per character; NaN: none */
    double frame_error; /* of a model of frames, there: share of frames that are wrong; NaN: none */
} spsh_train_result;
/* clang-format off */
#define SPSH_TRAIN_RESULT_INIT {sizeof(spsh_train_result), 0, 0, 0, 0, 0, 0, 0}
/* clang-format on */

/**
 * Train as one process of the world that spsh_train_world_find finds, until the run is done.
 *
 * What this call does after a crash, or after SPSH_E_CANCELED and with resume, is to the bit what
 * one call would have done, on any number of processes that data.virtual_world allows. A checkpoint
 * that cannot be written for want of room is logged, and the run goes on; the last one is not.
 *
 * @param options     copied
 * @param ret_result  written on SPSH_OK and SPSH_E_CANCELED
 * @return SPSH_OK; SPSH_E_CANCELED: stopped and saved; SPSH_E_INVALID_ARG, _SYNTAX, _NOT_FOUND: the
 * configuration, with its line; SPSH_E_EXISTS: run has checkpoints, and resume is not set;
 * SPSH_E_MISMATCH: the checkpoint is of another model, vocabulary or data, or another start of this
 * run has taken over; SPSH_E_LIMIT: too many steps without finite gradients; SPSH_E_TIMEOUT:
 * another process is gone; what datasets, the loader, memory or the disk say. All processes return;
 * on failure the message of the one that failed first says most.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_train(const spsh_train_options *options,
                                               spsh_train_result *ret_result, spsh_error *err);

/* ---- evaluating ---- */

typedef struct spsh_evaluate_options {
    size_t struct_size;
    const char *checkpoint; /* a run's folder (its newest good one), or a file; must be given */
    const char *const *datasets; /* "path", "path:split,split"; NULL behind the last */
    uint32_t threads;            /* 0: as many as there are cores */
    uint32_t beam_width;         /* prefixes that a beam search keeps; 0: greedy */
    const spsh_io *io;           /* NULL: the operating system */
    spsh_log_fn log_fn;          /* records that are left out as damaged */
    void *log_user;
    /* Each utterance, in no order that means anything: NUL-terminated texts, borrowed during the
     * call; reference is the transcript as the vocabulary has it. May be NULL. */
    void (*heard_fn)(void *user, spsh_bytes id, const char *reference, const char *found);
    void *heard_user;
    const char *const *alignments; /* files, of a model of frames; NULL behind the last; NULL: those
                                      of its configuration */
} spsh_evaluate_options;
/* clang-format off */
#define SPSH_EVALUATE_OPTIONS_INIT {sizeof(spsh_evaluate_options), NULL, NULL, 0, 0, NULL, \
    NULL, NULL, NULL, NULL, NULL}
/* clang-format on */

/** Of all utterances together, against their transcripts as the vocabulary normalises them. */
typedef struct spsh_evaluation {
    size_t struct_size;
    uint64_t utterances, wrong_utterances; /* wrong: not the same text */
    uint64_t words, letters;               /* of the transcripts; letters: code points */
    uint64_t infeasible;                   /* fewer frames than their labels need */
    double loss;        /* CTC, natural logarithm; mean of the others; NaN: there are none */
    double wer, cer;    /* substitutions, deletions and insertions per word, per letter; 0 ... above
                           1, infinite where something was found and nothing was said */
    double cer_letters; /* as cer, without blanks */
    double audio_seconds, seconds; /* of audio; that it took */
    bool is_of_frames; /* a model of frames: nothing of words and letters, but what follows, and the
                          loss is cross-entropy, mean of frames */
    uint64_t frames;   /* that have a state */
    uint64_t without_alignment, other_length; /* utterances; their alignment's length */
    double frame_error;                       /* share of frames that are wrong */
} spsh_evaluation;
/* clang-format off */
#define SPSH_EVALUATION_INIT {sizeof(spsh_evaluation), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, false, 0, \
    0, 0, 0}
/* clang-format on */

/**
 * Transcribe datasets and count what is wrong.
 *
 * @param options     copied
 * @param ret_result  written on success only
 * @return SPSH_OK; SPSH_E_NOT_FOUND: no checkpoint, no dataset; SPSH_E_CORRUPT: no good checkpoint;
 * SPSH_E_INVALID_ARG, also if no utterance has a transcript; SPSH_E_NO_MEMORY; what datasets and
 * the loader say. Thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_evaluate(const spsh_evaluate_options *options,
                                                  spsh_evaluation *ret_result, spsh_error *err);

/* ---- recognising ---- */

/** A trained model: weights, vocabulary, features. One thread per object. In a child that was
 * forked it can be used and closed, and computes on the calling thread only. */
typedef struct spsh_recogniser spsh_recogniser;

typedef struct spsh_recogniser_options {
    size_t struct_size;
    const char *checkpoint; /* a run's folder (its newest good one), or a file; must be given */
    uint32_t threads;       /* 0: as many as there are cores */
    uint32_t beam_width;    /* prefixes that a beam search keeps; 0: greedy */
    const spsh_io *io;      /* NULL: the operating system; borrowed until close */
    spsh_log_fn log_fn;     /* damaged checkpoints that are passed over */
    void *log_user;
} spsh_recogniser_options;
/* clang-format off */
#define SPSH_RECOGNISER_OPTIONS_INIT {sizeof(spsh_recogniser_options), NULL, 0, 0, NULL, NULL, NULL}
/* clang-format on */

/**
 * @param options  copied
 * @param ret      written on success only; free with spsh_recogniser_close
 * @return SPSH_OK; SPSH_E_INVALID_ARG; SPSH_E_NOT_FOUND; SPSH_E_CORRUPT: no good checkpoint;
 * SPSH_E_VERSION; SPSH_E_UNSUPPORTED: a model of frames; SPSH_E_NO_MEMORY
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_recogniser_open(const spsh_recogniser_options *options,
                                                         spsh_recogniser **ret, spsh_error *err);
/** NULL is fine. */
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
 * long; _NO_MEMORY. One thread per object.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_recogniser_transcribe_all(spsh_recogniser *recogniser,
                                                                   const spsh_speech *speech,
                                                                   size_t count, char **ret_texts,
                                                                   spsh_error *err);

/** The same of one; *ret_text is the caller's to free(). One thread per object. */
SPSH_API SPSH_NODISCARD spsh_status spsh_recogniser_transcribe(spsh_recogniser *recogniser,
                                                               const int16_t *samples,
                                                               uint64_t sample_count,
                                                               uint32_t sample_rate_hz,
                                                               char **ret_text, spsh_error *err);

/* ---- what comes before ---- */

typedef struct spsh_vocabulary_options {
    size_t struct_size;
    const char *config_path;      /* names the transcripts (data.train) and the file (vocabulary) */
    const char *const *overrides; /* as spsh_train_options' */
    const char *kind;             /* "characters", "pieces"; NULL: characters */
    const char *profile; /* how texts are normalised first: "lower", "upper", "nfc"; NULL: lower */
    uint32_t symbols;    /* with the blank, at most; 0: all characters, 1,024 pieces */
    const spsh_io *io;   /* NULL: the operating system */
} spsh_vocabulary_options;
/* clang-format off */
#define SPSH_VOCABULARY_OPTIONS_INIT {sizeof(spsh_vocabulary_options), NULL, NULL, NULL, NULL, \
    0, NULL}
/* clang-format on */

/**
 * Make the vocabulary of a configuration from the transcripts that it trains on; those of skipped
 * utterances do not count. The same transcripts give the same bytes.
 *
 * @param ret_path     of the file, the caller's to free()
 * @param ret_symbols  with the blank
 * @return SPSH_OK; SPSH_E_EXISTS: the file is there and says something else; SPSH_E_NOT_FOUND: no
 * such kind, profile or dataset, or no text at all; SPSH_E_INVALID_ARG: the configuration names no
 * vocabulary, or is wrong; SPSH_E_SYNTAX, _IO, _NO_SPACE, _NO_MEMORY. Thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_vocabulary_make(const spsh_vocabulary_options *options,
                                                         char **ret_path, uint32_t *ret_symbols,
                                                         spsh_error *err);

/* ---- what a run would be ---- */

typedef struct spsh_train_estimate_options {
    size_t struct_size;
    const char *config_path;      /* must be given */
    const char *const *overrides; /* as spsh_train_options' */
    const spsh_io *io;            /* NULL: the operating system */
} spsh_train_estimate_options;
/* clang-format off */
#define SPSH_TRAIN_ESTIMATE_OPTIONS_INIT {sizeof(spsh_train_estimate_options), NULL, NULL, NULL}
/* clang-format on */

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
    uint32_t buckets;                   /* in which gradients become ready */
    uint32_t inputs, symbols;           /* values of a frame; with the blank */
    uint32_t states;                    /* of a model of frames, which has no symbols; else 0 */
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
    bool is_infeasible_exact;                 /* else extrapolated from a part */
    uint64_t without_alignment, other_length; /* of a model of frames; an alignment's length */

    /* bytes of rank 0, which has the most; activations: of the largest batch, without what
     * operators take beside, which is work_bytes of a device and not told of the host */
    uint64_t weight_bytes, gradient_bytes, moment_bytes, activation_bytes;
    uint64_t sum_bytes;        /* of gradients of several batches */
    uint64_t loader_bytes;     /* of training; evaluation takes as much, for its time */
    uint64_t snapshot_bytes;   /* of what is being saved */
    uint64_t checkpoint_bytes; /* a file on the disk */
    uint32_t checkpoint_count; /* with the best one; 0: all are kept */

    /* What it computes on, in words. Of a device weights, gradients, moments, activations, sums,
     * copies, the loader's batches and what operators take beside are in its memory: device_bytes
     * together; 0: in the host's. */
    char compute[400];
    uint64_t copy_bytes;          /* of weights, in 16 bits, for products in bf16 and fp16 */
    uint64_t loader_device_bytes; /* batches on the device: of training and of evaluation */
    uint64_t work_bytes;          /* of operators and libraries, on a device */
    uint64_t device_bytes, device_free_bytes; /* what the run takes of it; what is free now */
} spsh_train_estimate;

/**
 * What spsh_train would do with a configuration, without a run: from configuration, vocabulary,
 * indexes and some transcripts. No audio is read, nothing is written. As a process of the world
 * that spsh_train_world_find finds, without talking to the others.
 *
 * @param options  copied
 * @param ret      written on success only; free with spsh_train_estimate_free
 * @return SPSH_OK; what spsh_train says where it would not begin; SPSH_E_NOT_FOUND: no transcript
 * can be learnt from. Thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_train_estimate_make(
    const spsh_train_estimate_options *options, spsh_train_estimate **ret, spsh_error *err);
/** NULL is fine. */
SPSH_API void spsh_train_estimate_free(spsh_train_estimate *estimate);

/* ---- what a cluster would do ---- */

/* Of the loss that a simulated run begins with: where `target_batches` are counted. */
#define SPSH_TRAIN_TARGET 0.1

typedef struct spsh_train_simulate_options {
    size_t struct_size;
    /* The computers and what happens to them, "learners=8,link=10us+100Gbit,step=250ms,slow=3:10x":
     * docs/strategies/README.md has all of its keys; must be given */
    const char *cluster;
    const char *config_path;      /* whose model it is, and whose data must be there; NULL, and only
                                     then, `cluster` says weights= */
    const char *const *overrides; /* as spsh_train_options' */
    const spsh_io *io;            /* NULL: the operating system */
} spsh_train_simulate_options;
/* clang-format off */
#define SPSH_TRAIN_SIMULATE_OPTIONS_INIT {sizeof(spsh_train_simulate_options), NULL, NULL, NULL, \
    NULL}
/* clang-format on */

#define SPSH_TRAIN_STOPPED_BYTES 200

/** A strategy on so many learners. A batch is one learner's step. */
typedef struct spsh_train_simulated {
    char strategy[32];
    uint32_t learners;
    char stopped[SPSH_TRAIN_STOPPED_BYTES]; /* why it does not run there, or not to the end; else
                                               empty */
    double share;       /* of learners / step: what they would do without each other */
    double steps_per_s; /* of all learners together */
    double *speeds;     /* [learners]: steps a second of each */
    double slowest_steps_per_s, fastest_steps_per_s;
    double sent_bytes; /* over links, by a learner a step */
    double exposed_s;  /* of a learner's step: not computing, but waiting for others */
    /* Changes of others that came to a part of the model between the reading of the weights that a
     * gradient is of and its update */
    double staleness_mean;
    uint32_t staleness_p50, staleness_max;
    uint64_t batches; /* that were asked for; fewer of one that stopped */
    double seconds;   /* that they took; NaN: stopped */
    /* A quadratic with noisy gradients, until its loss is SPSH_TRAIN_TARGET of the first one; 0 and
     * NaN: not in four times as many batches */
    uint64_t target_batches;
    double target_seconds;
} spsh_train_simulated;

typedef struct spsh_train_simulation {
    uint64_t weights;
    double step_s;              /* a batch on one learner */
    uint32_t name_count;        /* strategies */
    spsh_train_simulated *runs; /* by learners, then by strategy */
    uint32_t run_count;
} spsh_train_simulation;

/**
 * What strategies would do on a cluster: they run under a clock of their own, with all their
 * messages, and a small model in the place of the real one. The same options, the same result, on
 * any machine.
 *
 * @param options  copied
 * @param ret      written on success only; free with spsh_train_simulation_free
 * @return SPSH_OK, also where strategies stop: their rows say why; SPSH_E_INVALID_ARG: cluster,
 * with the word that is wrong, or it says too little; SPSH_E_NOT_FOUND: no such strategy, or run to
 * take the step from; what spsh_train_estimate_make says of the configuration; SPSH_E_NO_MEMORY,
 * _LIMIT. Thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_train_simulate(const spsh_train_simulate_options *options,
                                                        spsh_train_simulation **ret,
                                                        spsh_error *err);
/** NULL is fine. */
SPSH_API void spsh_train_simulation_free(spsh_train_simulation *simulation);

/** Who started this process, and what it is among the others. */
typedef struct spsh_train_world {
    size_t struct_size;
    char launcher[32]; /* "mpirun", "torchrun", "srun", "pmi", "environment", "alone" */
    uint32_t rank, world_size;
    uint32_t local_rank, local_size; /* among the processes of its node */
    uint32_t node, node_count;
    char master[256];       /* host of rank 0, where the launcher says it; else empty */
    uint32_t master_port;   /* 0: not said */
    char run_id[128];       /* of the launcher; else empty */
    uint32_t restart_count; /* how often the launcher has begun it again */
    char comm[8];           /* what carries messages: "self", "mpi", "tcp" */
    bool has_mpi;           /* was built in */
} spsh_train_world;
/* clang-format off */
#define SPSH_TRAIN_WORLD_INIT {sizeof(spsh_train_world), {0}, 0, 0, 0, 0, 0, 0, {0}, 0, {0}, 0, \
    {0}, false}
/* clang-format on */

/** From the environment of mpirun, srun, torchrun, Kubernetes, or plain variables:
 * docs/TRAINING.md.
 * @return SPSH_OK; SPSH_E_INVALID_ARG: variables that contradict each other, or are no numbers */
SPSH_API SPSH_NODISCARD spsh_status spsh_train_world_find(spsh_train_world *ret_world,
                                                          spsh_error *err);

#ifdef __cplusplus
}
#endif
#endif
