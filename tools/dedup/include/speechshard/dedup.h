/* dedup.h: find copies of recordings in datasets, and leaks from training into test sets.
 *
 *     spsh_dedup_sources *sources = NULL;
 *     spsh_dedupe_result *result = NULL;
 *     spsh_dedupe_options options = SPSH_DEDUPE_OPTIONS_INIT;
 *     spsh_error err = SPSH_ERROR_INIT;
 *     options.work_path = "corpus.work";
 *     options.plan_path = "plan.jsonl"; // for spsh_copy_plan_apply
 *     if (spsh_dedup_sources_new(&sources, &err) == SPSH_OK &&
 *         spsh_dedup_sources_add(sources, "corpus.spsh", SPSH_SIDE_TRAIN, NULL, &err) == SPSH_OK &&
 *         spsh_dedupe_run(sources, &options, &result, &err) == SPSH_OK)
 *         fprintf(stdout, "%g s of copies\n", spsh_dedupe_result_facts(result)->dropped_seconds);
 *     spsh_dedupe_result_free(result);
 *     spsh_dedup_sources_free(sources);
 *
 * tests/install/consumer/find_copies.c is a whole program. DEDUPE.md, AUDIT.md, and FINGERPRINT.md
 * in docs/reference describe the files that these functions write.
 *
 * Calls: every function that takes options reads them and everything they point to during the call
 * only. In all options, 0 and NULL mean the default, except that a search of 0 is
 * SPSH_SEARCH_MILD. A call that fails leaves its outputs untouched, and nothing has to be freed.
 * Nothing is printed.
 *
 * Memory: allocated with malloc, which cannot be replaced. memory_bytes bounds the largest part. A
 * failed allocation is SPSH_E_NO_MEMORY, and everything that the call allocated is freed.
 *
 * Progress: progress_fn may be called on worker threads, never twice at a time. The stages differ
 * with the options. A value other than 0 cancels: the call returns SPSH_E_CANCELED, finished work
 * stays on disk, and the same call resumes it.
 *
 * Threads: calls on different objects, and with different work and output paths, may run at the
 * same time. Results do not change: any thread may read them until they are freed.
 */
#ifndef SPEECHSHARD_DEDUP_H
#define SPEECHSHARD_DEDUP_H

#include "speechshard/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPSH_DEDUP_MEMORY_BYTES_DEFAULT (UINT64_C(4) << 30)
#define SPSH_DEDUP_MEMORY_BYTES_MIN     (UINT64_C(64) << 20)
#define SPSH_DEDUP_THREADS_MAX          1024

/* ---- kinds of copies ---- */

/* Name and text of each class. Append new entries only. */
#define SPSH_COPY_CLASS_MAP(X)                                                                     \
    X(NONE, "none")                     /* no significant common part */                           \
    X(SAME_RECORDING, "same_recording") /* most active speech of both */                           \
    X(CONTAINED, "contained")           /* most active speech of one of them */                    \
    X(SHARED_SEGMENT, "shared_segment") /* a part of both */                                       \
    X(TIME_SCALED, "time_scaled")       /* the same waveform after undoing b's change of speed */  \
    X(PROBABLE_COPY, "probable_copy")   /* bits and pulses agree, but not the waveform: a codec */ \
    X(SAME_PERFORMANCE, "same_performance") /* the same performance, another microphone or room */ \
    X(REREAD, "reread")                     /* only bits agree: the same words, spoken again */

/** How two utterances agree, and which part of them. */
typedef enum spsh_copy_class {
#define SPSH_X(name_, text_) SPSH_COPY_##name_,
    SPSH_COPY_CLASS_MAP(SPSH_X)
#undef SPSH_X
        SPSH_COPY_CLASS_COUNT
} spsh_copy_class;

/* In order of strength. The first four can lead to a drop, the others never do. */
#define SPSH_COPY_TIER_MAP(X)                                                                      \
    X(BYTES, "bytes")               /* equal stored bytes, or one stored record */                 \
    X(PCM, "pcm")                   /* equal decoded samples, except for silence around them */    \
    X(CHUNKS, "pcm_chunks")         /* equal samples for a stretch */                              \
    X(ACOUSTIC, "acoustic")         /* fingerprint and waveform */                                 \
    X(SCALED, "acoustic_scaled")    /* same signal after a change of speed is undone */            \
    X(TEXT_EXACT, "text_exact")     /* equal normalized transcripts */                             \
    X(TEXT_NEAR, "text_near")       /* nearly equal transcripts */                                 \
    X(TEXT_COVERED, "text_covered") /* word n-grams of one text occur in the other */              \
    X(SPEAKER, "speaker")                                                                          \
    X(DOCUMENT, "document")                                                                        \
    X(SOURCE, "source") /* the same file, URL, or interval of it */

/** The evidence that two utterances are copies. */
typedef enum spsh_copy_tier {
#define SPSH_X(name_, text_) SPSH_TIER_##name_,
    SPSH_COPY_TIER_MAP(SPSH_X)
#undef SPSH_X
        SPSH_TIER_COUNT
} spsh_copy_tier;

/** The text of the map, such as "same_recording". Never NULL for a value below the count. */
SPSH_API const char *spsh_copy_class_text(spsh_copy_class value);
SPSH_API const char *spsh_copy_tier_text(spsh_copy_tier tier);

/** A stretch that two utterances, a and b, have in common. A field that the tier does not measure
 * is 0. */
typedef struct spsh_copy_match {
    spsh_copy_class kind; /* SPSH_COPY_NONE for tiers of text and metadata */
    spsh_copy_tier tier;
    double a_start_s, a_seconds;     /* in a */
    double b_start_s;                /* in b */
    uint32_t rate_hz;                /* unit of the three fields below, in samples per second */
    uint64_t a_first, b_first;       /* first samples of the stretch */
    uint64_t count;                  /* samples of a */
    uint32_t a_channel, b_channel;   /* 0: the mix of all channels; else the channel, from 1 */
    bool is_inverted;                /* polarity */
    double active_seconds;           /* active speech in the stretch */
    double coverage_a, coverage_b;   /* share of the utterance's active speech, 0 to 1 */
    double ber;                      /* bit error rate of the fingerprints, 0 to 0.5 */
    double words_hz;                 /* distinct fingerprint words per second */
    double tonality;                 /* 0 to 1 */
    double ncc, ncc_white, envelope; /* correlations, -1 to 1 */
    double block_share;              /* share of 200 ms blocks that agree, 0 to 1 */
    double slope_ppm, spread_ms;     /* drift of b against a, and the spread around the drift */
    double scale;                    /* factor by which b's speed was divided; 1: unchanged */
    double similarity;               /* 1 - edit distance / length, between the transcripts */
} spsh_copy_match;

/* ---- datasets ---- */

typedef enum spsh_side {
    SPSH_SIDE_NONE = 0,
    SPSH_SIDE_TRAIN = 1, /* the only side in a deduplication */
    SPSH_SIDE_TEST = 2,
} spsh_side;

/** Datasets, or splits of them, as the functions below take them. One thread at a time while
 * sources are added. */
typedef struct spsh_dedup_sources spsh_dedup_sources;

typedef struct spsh_dedup_source {
    const char *path;
    const char *splits; /* comma-separated names; NULL: all utterances */
    spsh_side side;
} spsh_dedup_source;

/** @return SPSH_OK or SPSH_E_NO_MEMORY. Free with spsh_dedup_sources_free. */
SPSH_API SPSH_NODISCARD spsh_status spsh_dedup_sources_new(spsh_dedup_sources **ret_sources,
                                                           spsh_error *err);

/**
 * Add a source.
 *
 * @param name  "DATASET" or "DATASET:SPLIT,SPLIT"; copied. A path may hold colons: a name that
 *              exists is a dataset with all its splits
 * @param side  SPSH_SIDE_TRAIN or SPSH_SIDE_TEST
 * @param io    looks up which names exist; NULL: spsh_io_default
 * @return SPSH_OK; SPSH_E_INVALID_ARG: no path, or an empty name among the splits; _NO_MEMORY.
 *         Whether dataset and splits exist is found when the sources are used
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_dedup_sources_add(spsh_dedup_sources *sources,
                                                           const char *name, spsh_side side,
                                                           const spsh_io *io, spsh_error *err);
SPSH_API size_t spsh_dedup_sources_count(const spsh_dedup_sources *sources);
/** index: below the count. Borrowed until the next source is added. */
SPSH_API const spsh_dedup_source *spsh_dedup_sources_get(const spsh_dedup_sources *sources,
                                                         size_t index);
/** NULL is fine. */
SPSH_API void spsh_dedup_sources_free(spsh_dedup_sources *sources);

/* ---- fingerprints ---- */

typedef struct spsh_fingerprint_options {
    size_t struct_size;
    const spsh_io *io;            /* NULL: spsh_io_default */
    spsh_progress_fn progress_fn; /* may be NULL; stage "fingerprint", in utterances */
    void *user;
    uint64_t part, part_count; /* only shards whose number is part modulo part_count; 0, 0: all */
    uint32_t threads;          /* 0: one per core */
    uint32_t flags;            /* must be 0 */
} spsh_fingerprint_options;

/* clang-format off */
#define SPSH_FINGERPRINT_OPTIONS_INIT \
    {sizeof(spsh_fingerprint_options), NULL, NULL, NULL, 0, 0, 0, 0}
/* clang-format on */

/** Fingerprints of a dataset, or of a part of its shards. */
typedef struct spsh_fingerprint_facts {
    size_t struct_size;
    uint64_t shard_count;
    uint64_t made_count; /* shards whose fingerprints this call made */
    uint64_t utterance_count;
    uint64_t alias_count;     /* utterances that share the samples of another one */
    uint64_t undecoded_count; /* utterances that cannot be decoded: only equal bytes are found */
    uint64_t key_count, chunk_count;
    uint64_t file_bytes;
    double made_seconds; /* audio that this call decoded */
} spsh_fingerprint_facts;

/* clang-format off */
#define SPSH_FINGERPRINT_FACTS_INIT {sizeof(spsh_fingerprint_facts), 0, 0, 0, 0, 0, 0, 0, 0, 0}
/* clang-format on */

/**
 * Compute the fingerprints that a dataset lacks: a file per shard in DATASET/fingerprints. Valid
 * files stay, and damaged or outdated ones are replaced. The bytes depend only on the dataset.
 * spsh_dedupe_run, spsh_audit_run, and spsh_pair_explain do the same for their datasets.
 *
 * @param options    NULL: defaults
 * @param ret_facts  struct_size is set by the caller
 * @return SPSH_OK; SPSH_E_INVALID_ARG; _CANCELED: finished files stay; _NO_MEMORY; _NO_SPACE; _IO;
 *         or any error of opening and reading the dataset
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_fingerprint_run(const char *dataset_path,
                                                         const spsh_fingerprint_options *options,
                                                         spsh_fingerprint_facts *ret_facts,
                                                         spsh_error *err);

/** Cost of the fingerprints that a dataset lacks. */
typedef struct spsh_fingerprint_cost {
    size_t struct_size;
    uint64_t shard_count, missing_count; /* shards; shards without sound fingerprints */
    uint64_t utterance_count;            /* in the missing shards; all fields below count them */
    double seconds;                      /* audio to decode */
    double core_seconds;                 /* time on one core */
    uint64_t file_bytes;                 /* to be written */
    uint64_t measured_count;             /* utterances that were measured for this estimate */
    double measured_seconds;             /* audio of the measured utterances */
} spsh_fingerprint_cost;

/* clang-format off */
#define SPSH_FINGERPRINT_COST_INIT {sizeof(spsh_fingerprint_cost), 0, 0, 0, 0, 0, 0, 0, 0}
/* clang-format on */

/** Measure a few utterances for about measure_seconds; nothing is written. threads and progress_fn
 * are not used. Errors as for spsh_fingerprint_run. */
SPSH_API SPSH_NODISCARD spsh_status
spsh_fingerprint_estimate(const char *dataset_path, const spsh_fingerprint_options *options,
                          double measure_seconds, spsh_fingerprint_cost *ret_cost, spsh_error *err);

/** Cost of a run over several datasets, for spsh_dedupe_estimate and spsh_audit_estimate.
 */
typedef struct spsh_dedup_cost {
    size_t struct_size;
    double train_seconds, test_seconds; /* audio of the sides */
    double fingerprint_seconds;         /* audio of the datasets without fingerprints */
    double fingerprint_core_seconds;
    uint64_t fingerprint_bytes;
    uint64_t key_count;       /* on the train side */
    uint64_t temporary_bytes; /* in work_path, at most */
} spsh_dedup_cost;

/* clang-format off */
#define SPSH_DEDUP_COST_INIT {sizeof(spsh_dedup_cost), 0, 0, 0, 0, 0, 0, 0}
/* clang-format on */

/* ---- deduplication ---- */

/** The member of a cluster that is kept. */
typedef enum spsh_dedupe_keep {
    SPSH_KEEP_BEST, /* lossless, bandwidth, bit rate, length, has text, fewer clipped, order */
    SPSH_KEEP_FIRST,
    SPSH_KEEP_LONGEST,
} spsh_dedupe_keep;

/** The rule for a recording that is part of another one. */
typedef enum spsh_dedupe_contained {
    SPSH_CONTAINED_TAG,       /* both stay; the plan names them */
    SPSH_CONTAINED_KEEP_LONG, /* the part is dropped */
    SPSH_CONTAINED_KEEP_PART, /* the whole is dropped if its parts have all of its active speech */
} spsh_dedupe_contained;

/** How far the search goes. */
typedef enum spsh_dedupe_search {
    SPSH_SEARCH_MILD, /* copies through common codecs, trims, and filters */
    SPSH_SEARCH_DEEP, /* also through harsh codecs, and short clips; takes longer */
    SPSH_SEARCH_AUTO, /* chosen by the material and the size of the datasets; set by INIT */
} spsh_dedupe_search;

/** The plan's decision on a member of a cluster. */
typedef enum spsh_copy_decision {
    SPSH_DECISION_KEEP,
    SPSH_DECISION_DROP,
    SPSH_DECISION_TAG,       /* a copy in part, or of a kind that is never dropped */
    SPSH_DECISION_PROTECTED, /* a copy in a split that drop_from does not name */
    SPSH_DECISION_UNPROVEN,  /* linked, but no match proves it against the kept member */
    SPSH_DECISION_COUNT,
} spsh_copy_decision;

/** "keep", "drop", "tag", "protected", or "unproven". */
SPSH_API const char *spsh_copy_decision_text(spsh_copy_decision decision);

typedef struct spsh_dedupe_options {
    size_t struct_size;
    const spsh_io *io;            /* NULL: spsh_io_default */
    spsh_progress_fn progress_fn; /* may be NULL */
    /* Called once before the long part, with the temporary bytes that work_path needs at most; may
     * be NULL. */
    void (*space_fn)(void *user, uint64_t temporary_bytes);
    void *user;            /* for both functions */
    const char *work_path; /* required: directory for unfinished work, removed after success */
    const char *plan_path; /* NULL: no plan is written */
    const char *html_path; /* NULL: no page is written */
    const char *command;   /* command line that the page shows; NULL: "" */
    const char *drop_from; /* comma-separated splits: drop only from these; NULL: from all */
    const char *const
        *prefer;           /* prefer_count paths of sources: keep their copies first, in order */
    size_t prefer_count;   /* at most SPSH_DEDUPE_PREFER_MAX */
    uint64_t memory_bytes; /* for sorting and joining; 0: SPSH_DEDUP_MEMORY_BYTES_DEFAULT */
    /* Several machines can share work_path. This call does the part numbered `part`, from 0, of
     * part_count parts. 0, 0: all. */
    uint64_t part, part_count;
    uint32_t threads; /* 0: one per core */
    uint32_t flags;   /* SPSH_DEDUPE_* */
    spsh_dedupe_search search;
    spsh_dedupe_keep keep;
    spsh_dedupe_contained contained;
} spsh_dedupe_options;

#define SPSH_DEDUPE_EXACT_ONLY   UINT32_C(1) /* equal bytes and samples only */
#define SPSH_DEDUPE_SPEED_GRID   UINT32_C(2) /* also find changed speeds; they are never dropped */
#define SPSH_DEDUPE_CONFIRM      UINT32_C(4) /* read exact copies again and compare them */
#define SPSH_DEDUPE_DISCARD_WORK UINT32_C(8) /* remove work_path after a failure, too */
#define SPSH_DEDUPE_PREFER_MAX   64

/* clang-format off */
#define SPSH_DEDUPE_OPTIONS_INIT \
    {sizeof(spsh_dedupe_options), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, \
     0, 0, 0, 0, SPSH_SEARCH_AUTO, SPSH_KEEP_BEST, SPSH_CONTAINED_TAG}
/* clang-format on */

/** The copies that a run found. All pointers that the functions below return are borrowed from it.
 */
typedef struct spsh_dedupe_result spsh_dedupe_result;

typedef struct spsh_dedupe_facts {
    size_t dataset_count;
    uint64_t utterance_count; /* utterances of the sources, without skipped ones */
    double seconds;           /* audio of these utterances */
    uint64_t undecoded_count; /* utterances that cannot be decoded: only equal bytes are found */
    uint64_t key_count;       /* fingerprint keys that were compared */
    uint64_t candidate_count; /* pairs whose audio was compared */
    uint64_t decoded_count;   /* utterances that were decoded to compare them */
    uint64_t cluster_count, member_count;
    uint64_t texts_differ_count; /* clusters whose transcripts differ */
    size_t boilerplate_count;
    uint64_t dropped_count, dropped_bytes; /* utterances that the plan drops */
    double dropped_seconds;
    uint8_t plan_hash[16]; /* all zero without plan_path */
    uint32_t key_bits;     /* bits per compared key: 48 or 32; 0 if no keys were compared */
    uint32_t contour_bits; /* weak bits per loudness contour that the search flips; 0: contours were
                              not searched */
    uint64_t telephone_count; /* utterances of at most 4 kHz, or below 40 kbit/s; 0 if exact only */
    uint64_t short_pair_count; /* pairs of clips below 0.5 s that are too short to prove */
    bool is_limited;           /* a deep search would find more copies of these utterances */
} spsh_dedupe_facts;

/** Utterances that the plan drops, by the tier that proves it. */
typedef struct spsh_dedupe_sum {
    uint64_t utterance_count, bytes;
    double seconds;
} spsh_dedupe_sum;

/** Copies of one recording. */
typedef struct spsh_copy_cluster {
    uint64_t first_member, member_count; /* the kept member comes first */
    double saved_seconds;
    uint64_t saved_bytes;
    bool texts_differ; /* the normalized transcripts of its copies differ */
} spsh_copy_cluster;

typedef struct spsh_copy_member {
    size_t dataset;    /* for spsh_dedupe_result_dataset */
    uint64_t position; /* position of the utterance in that dataset */
    spsh_copy_decision decision;
    const char *reason; /* a few words, such as "lower bandwidth" */
} spsh_copy_member;

/** A stretch that many utterances share, such as a jingle. Nothing is dropped for it. */
typedef struct spsh_boilerplate {
    size_t dataset;
    uint64_t position; /* an utterance that contains the stretch */
    double start_s, seconds;
    uint64_t utterance_count; /* copies of one recording count once */
} spsh_boilerplate;

/**
 * Find copies in the sources and write a plan that drops copies. The datasets do not change, except
 * that missing fingerprints are made. The plan names datasets by the sources' paths: absolute paths
 * let it be applied from anywhere. The result does not depend on threads, memory, or parts.
 *
 * @param sources  of side SPSH_SIDE_TRAIN only
 * @return SPSH_OK; SPSH_E_END: this part is done, other parts are not, and no plan is written;
 *         SPSH_E_CANCELED; _INVALID_ARG: options; _UNKNOWN_NAME: a split that does not exist;
 *         _NO_SPACE: work_path needs more; _MISMATCH: work_path belongs to another run; _NO_MEMORY;
 *         _IO; or any error of opening and reading a dataset
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_dedupe_run(const spsh_dedup_sources *sources,
                                                    const spsh_dedupe_options *options,
                                                    spsh_dedupe_result **ret_result,
                                                    spsh_error *err);
SPSH_API const spsh_dedupe_facts *spsh_dedupe_result_facts(const spsh_dedupe_result *result);
/** index: below dataset_count. */
SPSH_API const spsh_dataset *spsh_dedupe_result_dataset(const spsh_dedupe_result *result,
                                                        size_t index);
/** Pairs of utterances that were found to be of this kind by this evidence. */
SPSH_API uint64_t spsh_dedupe_result_matches(const spsh_dedupe_result *result, spsh_copy_tier tier,
                                             spsh_copy_class kind);
SPSH_API const spsh_dedupe_sum *spsh_dedupe_result_dropped(const spsh_dedupe_result *result,
                                                           spsh_copy_tier tier);
/** Members with this decision. */
SPSH_API uint64_t spsh_dedupe_result_decisions(const spsh_dedupe_result *result,
                                               spsh_copy_decision decision);
/** index: below cluster_count. */
SPSH_API const spsh_copy_cluster *spsh_dedupe_result_cluster(const spsh_dedupe_result *result,
                                                             uint64_t index);
/** index: below member_count. */
SPSH_API const spsh_copy_member *spsh_dedupe_result_member(const spsh_dedupe_result *result,
                                                           uint64_t index);
/** index: below boilerplate_count; the stretch with the most utterances comes first. */
SPSH_API const spsh_boilerplate *spsh_dedupe_result_boilerplate(const spsh_dedupe_result *result,
                                                                size_t index);
/** NULL is fine. */
SPSH_API void spsh_dedupe_result_free(spsh_dedupe_result *result);

/** Measure a few utterances of each dataset; nothing is written. Errors as for spsh_dedupe_run.
 *
 * @param ret_cost  struct_size is set by the caller */
SPSH_API SPSH_NODISCARD spsh_status spsh_dedupe_estimate(const spsh_dedup_sources *sources,
                                                         const spsh_dedupe_options *options,
                                                         spsh_dedup_cost *ret_cost,
                                                         spsh_error *err);

/* ---- plans ---- */

typedef struct spsh_copy_plan_options {
    size_t struct_size;
    const spsh_io *io; /* NULL: spsh_io_default */
    /* dataset_count paths of datasets that were moved: each replaces the path of the dataset with
     * the same id. */
    const char *const *datasets;
    size_t dataset_count;
} spsh_copy_plan_options;

/* clang-format off */
#define SPSH_COPY_PLAN_OPTIONS_INIT {sizeof(spsh_copy_plan_options), NULL, NULL, 0}
/* clang-format on */

typedef struct spsh_copy_plan_facts {
    size_t struct_size;
    size_t dataset_count;     /* datasets with something to drop */
    size_t changed_count;     /* datasets that this call changed */
    uint64_t utterance_count; /* utterances that the plan drops */
    char overlay[24];         /* name of its overlay, such as "dedupe-0f3c5a7b9d1e" */
} spsh_copy_plan_facts;

/* clang-format off */
#define SPSH_COPY_PLAN_FACTS_INIT {sizeof(spsh_copy_plan_facts), 0, 0, 0, {0}}
/* clang-format on */

/**
 * Put a plan into force: every dataset that loses utterances gets an overlay that skips them, or
 * none gets one after a failure. Datasets that have the overlay already are left alone.
 *
 * @param ret_facts  struct_size is set by the caller
 * @return SPSH_OK; SPSH_E_CORRUPT, _SYNTAX, _VERSION: the plan; _NOT_FOUND: a dataset in the
 *         options is not in the plan; _MISMATCH: a dataset is not the one that the plan was made
 *         for, or a kept utterance is skipped by now; _NO_MEMORY; _IO; _NO_SPACE
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_copy_plan_apply(const char *plan_path,
                                                         const spsh_copy_plan_options *options,
                                                         spsh_copy_plan_facts *ret_facts,
                                                         spsh_error *err);

/** Remove the plan's overlay from every dataset that has it; later overlays stay. After a failure
 * the same call resumes. Errors as for spsh_copy_plan_apply. */
SPSH_API SPSH_NODISCARD spsh_status spsh_copy_plan_revert(const char *plan_path,
                                                          const spsh_copy_plan_options *options,
                                                          spsh_copy_plan_facts *ret_facts,
                                                          spsh_error *err);

/* ---- audits ---- */

/* Strongest first; append only. */
#define SPSH_LEAK_MAP(X)                                                                           \
    X(RECORDING, "recording", "the same recording, or part of one")                                \
    X(SEGMENT, "segment", "at least a second of the same audio")                                   \
    X(PERFORMANCE, "performance", "the same performance by another channel, speed or codec")       \
    X(SENTENCE, "sentence", "the same sentence")                                                   \
    X(SENTENCE_NEAR, "sentence_near", "nearly the same sentence, or most of its words in a row")   \
    X(DOCUMENT, "document", "the same book or document")                                           \
    X(SOURCE, "source", "the same source")                                                         \
    X(SPEAKER, "speaker", "the same speaker")

/** A kind of leak: the data that a test utterance shares with train. */
typedef enum spsh_leak {
#define SPSH_X(name_, text_, meaning_) SPSH_LEAK_##name_,
    SPSH_LEAK_MAP(SPSH_X)
#undef SPSH_X
        SPSH_LEAK_COUNT
} spsh_leak;

/** "recording". Never NULL for a value below the count. */
SPSH_API const char *spsh_leak_text(spsh_leak leak);

/** How transcripts are made comparable (docs/reference/dedupe-text.md). */
typedef enum spsh_text_profile {
    SPSH_TEXT_PROFILE_DEFAULT,
    SPSH_TEXT_PROFILE_CJK,   /* each ideograph is a word */
    SPSH_TEXT_PROFILE_MARKS, /* without diacritics */
    SPSH_TEXT_PROFILE_COUNT,
} spsh_text_profile;

typedef struct spsh_audit_options {
    size_t struct_size;
    const spsh_io *io;            /* NULL: spsh_io_default */
    spsh_progress_fn progress_fn; /* may be NULL */
    /* Called once before the long part, with the temporary bytes that work_path needs at most; may
     * be NULL. */
    void (*space_fn)(void *user, uint64_t temporary_bytes);
    void *user;            /* for both functions */
    const char *folder;    /* required: directory of the report; an earlier report is replaced */
    const char *work_path; /* required: directory for unfinished work, removed after success */
    const char
        *alias_path;     /* lines of a name, a tab, and the name that it stands for; NULL: none */
    const char *command; /* command line that the report shows; NULL: "" */
    /* limit_count limits by spsh_leak: the maximum share of a test split with such a leak, 0 to 1.
     * More than 1, or no limit in the list: no limit. NULL: 0 for RECORDING and SEGMENT. */
    const double *limits;
    size_t limit_count;
    uint64_t memory_bytes; /* for joins; 0: SPSH_DEDUP_MEMORY_BYTES_DEFAULT */
    uint32_t threads;      /* 0: one per core */
    uint32_t flags;        /* SPSH_AUDIT_* */
    spsh_text_profile profile;
    /* Several machines can share work_path. This call makes the fingerprints and compares the
     * candidates of the part numbered `part`, from 0, of part_count parts, and writes no report.
     * Call it again without parts for the report. 0, 0: all. */
    uint64_t part, part_count;
} spsh_audit_options;

#define SPSH_AUDIT_SPEED_GRID UINT32_C(1) /* also find audio whose speed was changed */

/* clang-format off */
#define SPSH_AUDIT_OPTIONS_INIT \
    {sizeof(spsh_audit_options), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, \
     SPSH_TEXT_PROFILE_DEFAULT, 0, 0}
/* clang-format on */

/** The leaks that an audit found. All pointers that the functions below return are borrowed from
 * it. */
typedef struct spsh_audit spsh_audit;

/** A split of a test dataset. */
typedef struct spsh_audit_split {
    const char *name; /* "corpus.spsh: test" */
    uint64_t utterance_count;
    double seconds;
    uint64_t dirty_count; /* with a leak of kind RECORDING, SEGMENT, PERFORMANCE, or SENTENCE */
} spsh_audit_split;

/** A test utterance, and the train utterance with which it shares something. */
typedef struct spsh_audit_example {
    spsh_bytes test_id;
    const char *train_corpus; /* last part of the dataset's path */
    spsh_bytes train_id;
    const spsh_copy_match *match; /* a: train; b: test */
} spsh_audit_example;

/** The utterances of a test split with one kind of leak. */
typedef struct spsh_audit_leak {
    uint64_t utterance_count;
    double seconds;
    double share_low, share_high;      /* Wilson interval of 95 % for their share, 0 to 1 */
    double limit;                      /* maximum share with a leak; more than 1: no limit */
    bool is_failure;                   /* more utterances leak than the limit allows */
    const spsh_audit_example *example; /* leak with the strongest evidence; NULL: no leak */
} spsh_audit_leak;

/**
 * Compare every test utterance with all of train, and write a report to options->folder.
 *
 * @param sources  at least one of each side
 * @return SPSH_OK, also when a limit is exceeded; SPSH_E_END: this part is done, and the message
 *         says what remains; SPSH_E_CANCELED; _INVALID_ARG: options, or a side without utterances;
 *         _UNKNOWN_NAME: a split that does not exist; _EXISTS: the folder holds something else;
 *         _NO_SPACE; _MISMATCH: work_path belongs to another run; _NO_MEMORY; _IO; or any error of
 *         opening and reading a dataset
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_audit_run(const spsh_dedup_sources *sources,
                                                   const spsh_audit_options *options,
                                                   spsh_audit **ret_audit, spsh_error *err);
/** Splits of test, ordered by name. */
SPSH_API size_t spsh_audit_split_count(const spsh_audit *audit);
SPSH_API const spsh_audit_split *spsh_audit_split_get(const spsh_audit *audit, size_t split);
SPSH_API const spsh_audit_leak *spsh_audit_leak_get(const spsh_audit *audit, size_t split,
                                                    spsh_leak leak);
/** Warnings: facts that a reader of the numbers must know, a sentence each. */
SPSH_API size_t spsh_audit_warning_count(const spsh_audit *audit);
SPSH_API const char *spsh_audit_warning(const spsh_audit *audit, size_t index);
/** NULL is fine. */
SPSH_API void spsh_audit_free(spsh_audit *audit);

/** Measure a few utterances of each dataset; nothing is written. Errors as for spsh_audit_run.
 *
 * @param ret_cost  struct_size is set by the caller */
SPSH_API SPSH_NODISCARD spsh_status spsh_audit_estimate(const spsh_dedup_sources *sources,
                                                        const spsh_audit_options *options,
                                                        spsh_dedup_cost *ret_cost, spsh_error *err);

/**
 * Check that a report is unchanged, by the hashes of its statement.json.
 *
 * @param sources         compare their data with the audit's; NULL: do not
 * @param io              NULL: spsh_io_default
 * @param ret_file_count  files of the report that were hashed
 * @return SPSH_OK; SPSH_E_CORRUPT: the statement or a file was changed; SPSH_E_MISMATCH: other
 *         data; _SYNTAX: no statement; _VERSION; _NO_MEMORY; _IO. The message names the first
 *         difference
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_audit_check(const char *statement_path,
                                                     const spsh_dedup_sources *sources,
                                                     const spsh_io *io, uint64_t *ret_file_count,
                                                     spsh_error *err);

/* ---- a pair ---- */

typedef struct spsh_explain_options {
    size_t struct_size;
    const spsh_io *io;            /* NULL: spsh_io_default */
    spsh_progress_fn progress_fn; /* may be NULL; called for missing fingerprints */
    void *user;
    uint32_t threads; /* 0: one per core */
    uint32_t flags;   /* must be 0 */
} spsh_explain_options;

/* clang-format off */
#define SPSH_EXPLAIN_OPTIONS_INIT {sizeof(spsh_explain_options), NULL, NULL, NULL, 0, 0}
/* clang-format on */

/** All known facts about two utterances. All pointers that the functions below return are borrowed
 * from it. */
typedef struct spsh_explanation spsh_explanation;

/** One of the two utterances. */
typedef struct spsh_explain_side {
    const spsh_dataset *dataset;
    spsh_row row;
    spsh_utterance utterance;
    uint32_t bandwidth_hz;  /* highest frequency with signal; 0: unknown */
    uint32_t clipped_count; /* samples at full scale in runs */
    uint32_t active_ms;     /* active speech */
    bool is_decoded;        /* false: its audio cannot be decoded */
} spsh_explain_side;

/** A limit of the rule, and the measured value. */
typedef struct spsh_explain_check {
    const char *what;
    const char *unit; /* "", "s", "%" */
    double found, limit;
    bool is_at_most; /* true: limit is a maximum; false: a minimum */
    bool is_passed;
    bool decides; /* the verdict depends on this check */
} spsh_explain_check;

typedef struct spsh_explain_facts {
    spsh_copy_class kind;
    spsh_copy_tier tier;
    bool may_drop;                         /* dedupe may drop one of the two on this evidence */
    const char *verdict;                   /* one or two sentences */
    bool is_one_record;                    /* equal stored bytes, or one stored record */
    bool has_equal_pcm, has_equal_trimmed; /* all samples; samples without silence around them */
    bool has_equal_mono;                   /* samples except for the number of channels */
    uint64_t equal_chunk_count;            /* equal pieces of samples */
    double equal_chunk_seconds;
    bool has_texts, has_equal_texts; /* both have a transcript */
    double similarity;               /* 1 - edit distance / length, of the transcripts */
    const char *text_profile;        /* how transcripts were compared: "default-1" */
    bool has_gain;
    double gain_db; /* level of b relative to a */
    size_t match_count, check_count;
    const spsh_copy_match *closest; /* the first match, or the nearest miss; count 0: none */
} spsh_explain_facts;

/**
 * Compare two utterances by bytes, samples, fingerprints, waveforms, and transcripts. Missing
 * fingerprints of their datasets are made first.
 *
 * @param paths  datasets of a and b; may be the same
 * @param ids    ids of a and b
 * @return SPSH_OK; SPSH_E_NOT_FOUND: no such utterance (the message suggests one);
 *         SPSH_E_INVALID_ARG: a and b are the same utterance; _CANCELED; _NO_MEMORY; _NO_SPACE;
 *         _IO; or any error of opening and reading a dataset
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_pair_explain(const char *const paths[2],
                                                      const char *const ids[2],
                                                      const spsh_explain_options *options,
                                                      spsh_explanation **ret_explanation,
                                                      spsh_error *err);
SPSH_API const spsh_explain_facts *spsh_explanation_facts(const spsh_explanation *explanation);
/** side: 0 or 1. */
SPSH_API const spsh_explain_side *spsh_explanation_side(const spsh_explanation *explanation,
                                                        size_t side);
/** index: below match_count. The verdict is about the first match. */
SPSH_API const spsh_copy_match *spsh_explanation_match(const spsh_explanation *explanation,
                                                       size_t index);
/** index: below check_count. */
SPSH_API const spsh_explain_check *spsh_explanation_check(const spsh_explanation *explanation,
                                                          size_t index);

/** Write an SVG file: both waveforms aligned, wrong bits, correlation. SPSH_E_NO_MEMORY, _IO,
 * _NO_SPACE, or an error of reading audio. */
SPSH_API SPSH_NODISCARD spsh_status spsh_explanation_write_picture(
    const spsh_explanation *explanation, const char *path, spsh_error *err);
/** Write an HTML page with the picture and all limits. command: command line that it shows. */
SPSH_API SPSH_NODISCARD spsh_status spsh_explanation_write_page(const spsh_explanation *explanation,
                                                                const char *path,
                                                                const char *command,
                                                                spsh_error *err);
/** Write a stereo WAV file of the common part, aligned: a on the left, b on the right. */
SPSH_API SPSH_NODISCARD spsh_status spsh_explanation_write_audio(
    const spsh_explanation *explanation, const char *path, spsh_error *err);
/** NULL is fine. */
SPSH_API void spsh_explanation_free(spsh_explanation *explanation);

#ifdef __cplusplus
}
#endif

#endif
