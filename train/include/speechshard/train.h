/* train.h: train a speech recognizer on packed datasets, evaluate it, and transcribe with it.
 *
 *     spsh_train_options options = SPSH_TRAIN_OPTIONS_INIT;
 *     options.config_path = "digits.yaml";                  // TRAINING.md lists its keys
 *     options.run = "run";
 *     rc = spsh_train(&options, &result, &err);
 *
 *     spsh_recogniser_options hearing = SPSH_RECOGNISER_OPTIONS_INIT;
 *     hearing.checkpoint = "run";
 *     rc = spsh_recogniser_open(&hearing, &recogniser, &err);
 *     spsh_recogniser_transcribe(recogniser, samples, sample_count, 16000, &text, &err);
 *
 * In options, NULL and 0 select the default unless the field says otherwise. The library borrows
 * strings and arrays in options until the call returns. A process trains one run at a time, because
 * MPI and the launcher's environment variables belong to the process. All other functions may be
 * called from several threads, with one object per thread.
 *
 * Threads that a call starts end before it returns. A child process that a callback forks must exit
 * without returning from the callback.
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
    const char *config_path;      /* may be NULL on resume: take the checkpoint's configuration */
    const char *const *overrides; /* "train.rate=3e-4", NULL-terminated. They override the
                                     configuration file; a later one overrides an earlier one */
    const char *run;    /* folder for checkpoints, metrics, and config.yaml; required; created */
    bool resume;        /* resume from the newest good checkpoint, if there is one */
    const spsh_io *io;  /* NULL: the operating system; also used for the datasets */
    spsh_log_fn log_fn; /* log messages of rank 0, and errors of every rank */
    void *log_user;
    /* Called on rank 0 after each step; may be NULL. step: steps since the run began. line: epoch,
     * loss, rate, speed, and time left; borrowed during the call. */
    void (*progress_fn)(void *user, uint64_t step, const char *line);
    void *progress_user;
    const volatile int *stop; /* read once per step, on any rank. Nonzero: finish the step, save,
                                 return SPSH_E_CANCELED. A signal handler may set it */
    /* Called on rank 0 after everything is saved, while the other ranks still wait; may be NULL.
     * Finish your own work here: a launcher kills all processes once one exits with a failure.
     * stopped: the step after which the run stopped, as text borrowed during the call; NULL if the
     * run is complete. */
    void (*end_fn)(void *user, const char *stopped);
    void *end_user;
    /* Where the processes of torchrun and Kubernetes find each other: "file://FOLDER", a folder
     * that all of them can write to, or "tcp://HOST:PORT", an address of rank 0. NULL or "auto": a
     * file in `run` and the address that the launcher passes. A value here also replaces MPI.
     * The processes prove to each other that they share a secret. Rank 0 draws the secret and
     * writes it to that file, with mode 0600, unless SPEECHSHARD_SECRET is set. */
    const char *rendezvous;
    /* Faults to inject, to try how a strategy behaves on a bad cluster. Each list is NULL or
     * NULL-terminated. slow: "RANK:FACTORx" multiplies the computing time by FACTOR, by sleeping.
     * freeze: "RANK:AT+FOR" suspends the process for the time FOR. kill: "RANK:AT" kills it. AT is
     * a step ("200") or a time ("30s") since the process's first step; it is checked before each
     * step. */
    const char *const *slow, *const *freeze, *const *kill;
    const char *link; /* "1ms+1Gbit": minimum latency and maximum bandwidth of messages; NULL: no
                         limit */
    /* Simulate a cluster: "learners=8,link=10us+100Gbit,step=250ms,slow=3:10x"
     * (docs/reference/strategies/README.md). All its learners train in this process, with all their
     * data, gradients, and messages. A virtual clock counts `step` per batch. Equal options produce
     * identical bits, including the metrics. Needs memory for one model per learner. NULL: no
     * simulation; this process is one learner */
    const char *simulate;
    /* Record the order of messages in `run`/record, one file per process. Only for strategies in
     * which that order depends on timing. Cannot be combined with resume */
    bool record;
    /* A run with a record. Repeat it: all its learners run in this process, message by message,
     * and produce identical bits in `run`. config_path and overrides must be unset, because the
     * record contains them. NULL: no replay */
    const char *replay;
} spsh_train_options;
/* clang-format off */
#define SPSH_TRAIN_OPTIONS_INIT {sizeof(spsh_train_options), NULL, NULL, NULL, false, NULL, \
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL}
/* clang-format on */

typedef struct spsh_train_result {
    size_t struct_size;
    uint64_t steps, epochs, samples; /* since the run began; samples: utterances trained on */
    double loss;                     /* mean per utterance in this call's last step; NaN: no step */
    double wer, cer;                 /* this call's last evaluation on the first dev set: errors
                                        per word and per character; NaN: no evaluation */
    double frame_error; /* frame model, same evaluation: fraction of wrong frames; NaN: none */
} spsh_train_result;
/* clang-format off */
#define SPSH_TRAIN_RESULT_INIT {sizeof(spsh_train_result), 0, 0, 0, 0, 0, 0, 0}
/* clang-format on */

/**
 * Train until the run is complete, as one process of the world that spsh_train_world_find finds.
 *
 * A run that is resumed after a crash or after SPSH_E_CANCELED produces the same bits as one
 * uninterrupted call, on any number of processes that data.virtual_world allows. If the disk is too
 * full for a checkpoint, the call logs it and continues; for the last checkpoint it fails.
 *
 * All processes return. After a failure, the process that failed first has the most useful message.
 *
 * @param options     copied
 * @param ret_result  written on SPSH_OK and SPSH_E_CANCELED
 * @return SPSH_OK; SPSH_E_CANCELED: stopped and saved; SPSH_E_INVALID_ARG, _SYNTAX, _NOT_FOUND,
 * _UNKNOWN_NAME: the configuration is wrong, with its line; SPSH_E_EXISTS: run has checkpoints and
 * resume is not set; SPSH_E_MISMATCH: the checkpoint has another model, vocabulary, or data, or
 * another start of this run has taken over; SPSH_E_LIMIT: too many steps without finite gradients;
 * SPSH_E_TIMEOUT: another process disconnected; or any error from the datasets, the loader, the
 * allocator, or the disk
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_train(const spsh_train_options *options,
                                               spsh_train_result *ret_result, spsh_error *err);

/* ---- evaluating ---- */

typedef struct spsh_evaluate_options {
    size_t struct_size;
    const char *checkpoint; /* file, or a run's folder for its newest good checkpoint; required */
    const char *const *datasets; /* "path" or "path:split,split"; NULL-terminated */
    uint32_t threads;            /* 0: one per core */
    uint32_t beam_width;         /* number of prefixes in the beam search; 0: greedy search */
    const spsh_io *io;           /* NULL: the operating system */
    spsh_log_fn log_fn;          /* damaged records that are skipped */
    void *log_user;
    /* Called for each utterance, in unspecified order; may be NULL. reference: the transcript,
     * normalized by the vocabulary. The strings end with NUL and are borrowed during the call. */
    void (*heard_fn)(void *user, spsh_bytes id, const char *reference, const char *found);
    void *heard_user;
    const char *const *alignments; /* frame model: alignment files, NULL-terminated; NULL: from
                                      the model's configuration */
} spsh_evaluate_options;
/* clang-format off */
#define SPSH_EVALUATE_OPTIONS_INIT {sizeof(spsh_evaluate_options), NULL, NULL, 0, 0, NULL, \
    NULL, NULL, NULL, NULL, NULL}
/* clang-format on */

/** Totals over all utterances, compared with their transcripts after the vocabulary's
 * normalization. */
typedef struct spsh_evaluation {
    size_t struct_size;
    uint64_t utterances, wrong_utterances; /* wrong: the texts differ */
    uint64_t words, letters;               /* in the transcripts; letters: code points */
    uint64_t infeasible;                   /* utterances with fewer frames than their labels need */
    double loss;        /* CTC, natural logarithm: mean of feasible utterances; NaN without any */
    double wer, cer;    /* (substitutions + deletions + insertions) per word, per letter. May exceed
                           1; infinite if text was found in empty transcripts only */
    double cer_letters; /* cer without spaces */
    double audio_seconds, seconds; /* length of the audio; time that the evaluation took */
    bool is_of_frames; /* frame model: words and letters are 0, the fields below are set, and loss
                          is the mean cross-entropy per frame */
    uint64_t frames;   /* frames with a state */
    uint64_t without_alignment, other_length; /* utterances without an alignment; utterances whose
                                                 alignment has another length */
    double frame_error;                       /* fraction of wrong frames */
} spsh_evaluation;
/* clang-format off */
#define SPSH_EVALUATION_INIT {sizeof(spsh_evaluation), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, false, 0, \
    0, 0, 0}
/* clang-format on */

/**
 * Transcribe datasets and count the errors.
 *
 * @param options     copied
 * @param ret_result  written on success only
 * @return SPSH_OK; SPSH_E_NOT_FOUND: no such checkpoint or dataset; SPSH_E_CORRUPT: no good
 * checkpoint; SPSH_E_INVALID_ARG, also if no utterance has a transcript; SPSH_E_UNKNOWN_NAME: no
 * such split; SPSH_E_NO_MEMORY; or any
 * error from the datasets or the loader. Thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_evaluate(const spsh_evaluate_options *options,
                                                  spsh_evaluation *ret_result, spsh_error *err);

/* ---- recognizing ---- */

/** A trained model: weights, vocabulary, and features. One thread per object. A forked child may
 * use and close it; there it computes on the calling thread only. */
typedef struct spsh_recogniser spsh_recogniser;

typedef struct spsh_recogniser_options {
    size_t struct_size;
    const char *checkpoint; /* file, or a run's folder for its newest good checkpoint; required */
    uint32_t threads;       /* 0: one per core */
    uint32_t beam_width;    /* number of prefixes in the beam search; 0: greedy search */
    const spsh_io *io;      /* NULL: the operating system; borrowed until close */
    spsh_log_fn log_fn;     /* damaged checkpoints that are skipped */
    void *log_user;
} spsh_recogniser_options;
/* clang-format off */
#define SPSH_RECOGNISER_OPTIONS_INIT {sizeof(spsh_recogniser_options), NULL, 0, 0, NULL, NULL, NULL}
/* clang-format on */

/**
 * @param options  copied
 * @param ret      written on success only; free with spsh_recogniser_close
 * @return SPSH_OK; SPSH_E_INVALID_ARG; SPSH_E_NOT_FOUND; SPSH_E_CORRUPT: no good checkpoint;
 * SPSH_E_VERSION; SPSH_E_UNSUPPORTED: a frame model has no text output; SPSH_E_NO_MEMORY
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_recogniser_open(const spsh_recogniser_options *options,
                                                         spsh_recogniser **ret, spsh_error *err);
/** NULL is fine. */
SPSH_API void spsh_recogniser_close(spsh_recogniser *recogniser);

/** Audio of one utterance: 16-bit samples, one channel; borrowed during the call. */
typedef struct spsh_speech {
    const int16_t *samples;
    uint64_t sample_count;
    uint32_t sample_rate_hz; /* any rate; resampled to the model's */
} spsh_speech;

/**
 * Transcribe several utterances. Utterances of similar length share one pass through the model, so
 * dozens per call are many times as fast as one per call.
 *
 * @param ret_texts  [count], UTF-8; the caller frees each with free(). Unset on failure
 * @return SPSH_OK; SPSH_E_INVALID_ARG, _LIMIT: an utterance that cannot be resampled or is too
 * long; _NO_MEMORY. One thread per object.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_recogniser_transcribe_all(spsh_recogniser *recogniser,
                                                                   const spsh_speech *speech,
                                                                   size_t count, char **ret_texts,
                                                                   spsh_error *err);

/** Transcribe one utterance; the caller frees *ret_text with free(). One thread per object. */
SPSH_API SPSH_NODISCARD spsh_status spsh_recogniser_transcribe(spsh_recogniser *recogniser,
                                                               const int16_t *samples,
                                                               uint64_t sample_count,
                                                               uint32_t sample_rate_hz,
                                                               char **ret_text, spsh_error *err);

/* ---- vocabulary ---- */

typedef struct spsh_vocabulary_options {
    size_t struct_size;
    const char *config_path;      /* names the transcripts (data.train) and the file (vocabulary) */
    const char *const *overrides; /* as in spsh_train_options */
    const char *kind;             /* "characters" or "pieces"; NULL: characters */
    const char *profile; /* normalization of transcripts: "lower", "upper", "nfc"; NULL: lower */
    uint32_t symbols;    /* maximum, with the blank; 0: all characters, or 1,024 pieces */
    const spsh_io *io;   /* NULL: the operating system */
} spsh_vocabulary_options;
/* clang-format off */
#define SPSH_VOCABULARY_OPTIONS_INIT {sizeof(spsh_vocabulary_options), NULL, NULL, NULL, NULL, \
    0, NULL}
/* clang-format on */

/**
 * Make a configuration's vocabulary file from its training transcripts. Skipped utterances do not
 * count. Equal transcripts produce an identical file.
 *
 * @param ret_path     path of the file; the caller frees it with free()
 * @param ret_symbols  number of symbols, with the blank
 * @return SPSH_OK; SPSH_E_EXISTS: the file exists with other content; SPSH_E_NOT_FOUND: no such
 * kind, profile, or dataset, or no transcript; SPSH_E_UNKNOWN_NAME: no such split;
 * SPSH_E_INVALID_ARG: the configuration is wrong or has no vocabulary; SPSH_E_SYNTAX, _IO,
 * _NO_SPACE, _NO_MEMORY. Thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_vocabulary_make(const spsh_vocabulary_options *options,
                                                         char **ret_path, uint32_t *ret_symbols,
                                                         spsh_error *err);

/* ---- estimate of a run ---- */

typedef struct spsh_train_estimate_options {
    size_t struct_size;
    const char *config_path;      /* required */
    const char *const *overrides; /* as in spsh_train_options */
    const spsh_io *io;            /* NULL: the operating system */
} spsh_train_estimate_options;
/* clang-format off */
#define SPSH_TRAIN_ESTIMATE_OPTIONS_INIT {sizeof(spsh_train_estimate_options), NULL, NULL, NULL}
/* clang-format on */

/** A domain of a training dataset. Counts only utterances that pass the filters. */
typedef struct spsh_train_domain {
    char *dataset, *name; /* name: empty for utterances without a domain */
    uint64_t utterances;
    double seconds;
    double share;  /* fraction of an epoch's seconds */
    double passes; /* mean number of times that an epoch serves each utterance */
} spsh_train_domain;

/** An evaluation dataset. */
typedef struct spsh_train_set {
    char *name;
    uint64_t utterances;
    double seconds;
} spsh_train_set;

/** A character without a symbol in the vocabulary. */
typedef struct spsh_train_unknown {
    char text[8]; /* UTF-8; empty for bytes that are not UTF-8 */
    int32_t point;
    uint64_t count;
} spsh_train_unknown;
#define SPSH_TRAIN_UNKNOWN_MAX 10

typedef struct spsh_train_estimate {
    char *config; /* resolved configuration, YAML */
    uint64_t weights;
    uint32_t buckets;                   /* groups in which gradients become ready */
    uint32_t inputs, symbols;           /* values per frame; symbols with the blank */
    uint32_t states;                    /* frame model: states, and symbols is 0; else 0 */
    uint32_t world_size, threads;       /* number of started processes; threads per process */
    uint32_t virtual_world, accumulate; /* their product is the number of batches per step */
    spsh_train_domain *domains;
    uint32_t domain_count;
    spsh_train_set *dev;
    uint32_t dev_count;

    /* one epoch */
    uint64_t utterances;
    double seconds, longest_seconds;
    uint64_t skipped, filtered;      /* not served: by skip overlays; by splits and weights of 0 */
    uint64_t out_of_range, too_long; /* not served: data.utterance_seconds_*; longer than a batch */
    uint64_t batches, steps;
    uint32_t batch_utterances_max;
    double batch_padded_seconds_max;
    double padding;   /* fraction of the batches that is padding; 0 ... below 1 */
    uint64_t epochs;  /* whole run; rounded up if samples_max ends it */
    uint64_t samples; /* whole run: utterances */

    /* transcripts: a sample, spread evenly over the served utterances */
    uint64_t texts_read, characters, unknown_characters, unknown_kinds;
    spsh_train_unknown unknown[SPSH_TRAIN_UNKNOWN_MAX]; /* the most frequent ones */
    uint32_t unknown_count;
    uint64_t without_symbols; /* transcripts without any symbol of the vocabulary */
    /* utterances that cannot be trained on, from all lengths and the suspect transcripts */
    uint64_t without_text, without_frames, infeasible;
    bool is_infeasible_exact;                 /* false: infeasible is extrapolated from a sample */
    uint64_t without_alignment, other_length; /* frame model: no alignment; alignment of another
                                                 length */

    /* Bytes on rank 0, which needs the most. activation_bytes: the largest batch, without the
     * temporary memory of operators. That memory is work_bytes on a device; for the host it is not
     * estimated. */
    uint64_t weight_bytes, gradient_bytes, moment_bytes, activation_bytes;
    uint64_t sum_bytes;        /* gradients summed over several batches or ranks */
    uint64_t loader_bytes;     /* training; evaluation needs as much while it runs */
    uint64_t snapshot_bytes;   /* copy of the state that is being saved */
    uint64_t checkpoint_bytes; /* size of one file on disk */
    uint32_t checkpoint_count; /* kept checkpoints, with the best one; 0: all are kept */

    /* Description of the device. On a GPU, its memory holds weights, gradients, moments,
     * activations, sums, copies, the loader's batches, and the memory of operators: device_bytes in
     * total. device_bytes is 0 if all of them are in host memory. */
    char compute[400];
    uint64_t copy_bytes;          /* 16-bit copy of the weights, for bf16 and fp16 products */
    uint64_t loader_device_bytes; /* batches on the device, of training and of evaluation */
    uint64_t work_bytes;          /* operators and libraries, on a device */
    uint64_t device_bytes, device_free_bytes; /* device memory: needed by the run; free now */
    /* Device: the largest data.max_padded_seconds, a multiple of 20 below 20480, whose run fits in
     * the free memory and leaves 1 GB for memory that is not estimated. 0: none, or no device. */
    uint32_t padded_seconds_fit;
} spsh_train_estimate;

/**
 * Estimate the steps and the memory of a run without training. Reads the configuration, the
 * vocabulary, the indexes, and some transcripts; reads no audio and writes nothing. Takes the place
 * of this process in the world that spsh_train_world_find finds, and sends no message.
 *
 * @param options  copied
 * @param ret      written on success only; free with spsh_train_estimate_free
 * @return SPSH_OK; any status with which spsh_train would fail at its start; SPSH_E_NOT_FOUND: no
 * transcript can be trained on. Thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_train_estimate_make(
    const spsh_train_estimate_options *options, spsh_train_estimate **ret, spsh_error *err);
/** NULL is fine. */
SPSH_API void spsh_train_estimate_free(spsh_train_estimate *estimate);

/* ---- simulation of a cluster ---- */

/* target_batches counts batches until the loss is this fraction of the initial loss. */
#define SPSH_TRAIN_TARGET 0.1

typedef struct spsh_train_simulate_options {
    size_t struct_size;
    /* The computers and their faults, "learners=8,link=10us+100Gbit,step=250ms,slow=3:10x";
     * required. docs/reference/strategies/README.md lists the keys */
    const char *cluster;
    const char *config_path;      /* configuration whose model is simulated; its data must exist.
                                     NULL if, and only if, `cluster` has the key weights */
    const char *const *overrides; /* as in spsh_train_options */
    const spsh_io *io;            /* NULL: the operating system */
} spsh_train_simulate_options;
/* clang-format off */
#define SPSH_TRAIN_SIMULATE_OPTIONS_INIT {sizeof(spsh_train_simulate_options), NULL, NULL, NULL, \
    NULL}
/* clang-format on */

#define SPSH_TRAIN_STOPPED_BYTES 200

/** One strategy on one number of learners. A batch is one learner's step. */
typedef struct spsh_train_simulated {
    char strategy[32];
    uint32_t learners;
    char stopped[SPSH_TRAIN_STOPPED_BYTES]; /* why the strategy cannot run there, or stopped early;
                                               else empty */
    double share;       /* steps_per_s divided by the ideal: learners / step time */
    double steps_per_s; /* all learners together */
    double *speeds;     /* [learners]: steps per second of each */
    double slowest_steps_per_s, fastest_steps_per_s;
    double sent_bytes; /* sent over links, per learner and step */
    double exposed_s;  /* per learner and step: time spent on waiting for others */
    /* Staleness: updates by other learners to a part of the model, from when a learner reads the
     * weights for a gradient until it applies that gradient. */
    double staleness_mean;
    uint32_t staleness_p50, staleness_max;
    uint64_t batches; /* requested batches; fewer if the strategy stopped */
    double seconds;   /* time for these batches; NaN: stopped */
    /* Batches and time to reduce the loss of a quadratic with noisy gradients to SPSH_TRAIN_TARGET
     * of its initial value. 0 and NaN: not reached within four times the requested batches */
    uint64_t target_batches;
    double target_seconds;
} spsh_train_simulated;

typedef struct spsh_train_simulation {
    uint64_t weights;
    double step_s;              /* time of one batch on one learner */
    uint32_t name_count;        /* number of strategies */
    spsh_train_simulated *runs; /* ordered by number of learners, then by strategy */
    uint32_t run_count;
} spsh_train_simulation;

/**
 * Simulate strategies on a cluster. They send all their messages under a virtual clock, with a
 * small model instead of the real one. Equal options produce equal results on any machine.
 *
 * @param options  copied
 * @param ret      written on success only; free with spsh_train_simulation_free
 * @return SPSH_OK, also if strategies stop: see `stopped`; SPSH_E_INVALID_ARG: cluster has a wrong
 * word or lacks a key; SPSH_E_NOT_FOUND: no such strategy, or no run to take the step time from;
 * any status of spsh_train_estimate_make for the configuration; SPSH_E_NO_MEMORY, _LIMIT.
 * Thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_train_simulate(const spsh_train_simulate_options *options,
                                                        spsh_train_simulation **ret,
                                                        spsh_error *err);
/** NULL is fine. */
SPSH_API void spsh_train_simulation_free(spsh_train_simulation *simulation);

/** The launcher of this process, and this process's place among all processes. */
typedef struct spsh_train_world {
    size_t struct_size;
    char launcher[32]; /* "mpirun", "torchrun", "srun", "pmi", "environment", "alone" */
    uint32_t rank, world_size;
    uint32_t local_rank, local_size; /* among the processes of the node */
    uint32_t node, node_count;
    char master[256];       /* host of rank 0, if the launcher passes it; else empty */
    uint32_t master_port;   /* 0: not passed */
    char run_id[128];       /* the launcher's name for the run; else empty */
    uint32_t restart_count; /* number of restarts by the launcher */
    char comm[8];           /* transport of the messages: "self", "mpi", "tcp" */
    bool has_mpi;           /* the library was built with MPI */
} spsh_train_world;
/* clang-format off */
#define SPSH_TRAIN_WORLD_INIT {sizeof(spsh_train_world), {0}, 0, 0, 0, 0, 0, 0, {0}, 0, {0}, 0, \
    {0}, false}
/* clang-format on */

/** Find the world in the environment variables of mpirun, srun, torchrun, or Kubernetes, or in
 * plain variables (docs/reference/TRAINING.md).
 * @return SPSH_OK; SPSH_E_INVALID_ARG: variables contradict each other, or are not numbers */
SPSH_API SPSH_NODISCARD spsh_status spsh_train_world_find(spsh_train_world *ret_world,
                                                          spsh_error *err);

/** Part of this process if several processes divide a pack, a search for copies, or other work. */
typedef struct spsh_job_part {
    size_t struct_size;
    uint64_t index;  /* from 0 */
    uint64_t count;  /* number of parts; 0: unknown */
    char source[64]; /* "Slurm array", "mpirun", "SGE array and mpirun"; empty: the text */
} spsh_job_part;
/* clang-format off */
#define SPSH_JOB_PART_INIT {sizeof(spsh_job_part), 0, 0, {0}}
/* clang-format on */

/**
 * Find the part of this process.
 *
 * @param text  "2/3": the last of three parts. "auto": the part that the variables of a job array
 *              (Slurm, Kubernetes, SGE, PBS, LSF, AWS Batch, Google Batch) or of a launcher
 *              (spsh_train_world_find) describe. "auto/16": the same of 16 parts. NULL: as "auto",
 *              but without an error if the variables do not set the count
 * @return SPSH_OK; SPSH_E_NOT_FOUND: neither an array nor a launcher; SPSH_E_INVALID_ARG: text is
 *         none of these, or variables are not numbers, contradict each other or the count, or
 *         describe an array with gaps
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_job_part_find(const char *text, spsh_job_part *ret_part,
                                                       spsh_error *err);

#ifdef __cplusplus
}
#endif
#endif
