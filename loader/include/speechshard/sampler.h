/* sampler.h: which utterances make which batch: a pure function of datasets, options, seed, epoch.
 *
 *     spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
 *     opt.seed = 1;
 *     opt.batch_seconds_max = 600;
 *     if (spsh_plan_open(datasets, 1, &opt, &plan, &err) != SPSH_OK) ...
 *     spsh_sampler_open(plan, rank, world_size, &sampler, &err);
 *     while (spsh_sampler_next(sampler, &batch, &err) == SPSH_OK)   // SPSH_E_END: the epoch's end
 *         ... batch.items[0 ... batch.item_count) ...
 *     spsh_sampler_close(sampler);
 *     spsh_plan_close(plan);
 *
 * Domains (of one dataset or of several) are permuted by a keyed bijection, each on its own, mixed
 * by quota, cut into windows, and batched by length inside each window. A batch is what is dealt to
 * ranks. No audio is read: lengths come from the dataset index.
 *
 * An epoch has as many utterances as pass the filters. With proportional shares (alpha 1, the
 * default) it serves each exactly once. With other shares a small domain starts over within the
 * epoch, in a new order, and a large one goes on in the next epoch: where it stopped when shares
 * are of utterances (rounded to whole ones of an epoch, at least one); about there when they are of
 * seconds or tokens, as the seam may then repeat or pass over a few. docs/LOADER.md says exactly
 * what the order is.
 */
#ifndef SPEECHSHARD_SAMPLER_H
#define SPEECHSHARD_SAMPLER_H

#include "speechshard/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPSH_PLAN_DATASETS_MAX     UINT32_C(1024)
#define SPSH_PLAN_WINDOW_DEFAULT   UINT32_C(65536)
#define SPSH_PLAN_WINDOW_MAX       UINT32_C(4194304)
#define SPSH_BATCH_SECONDS_DEFAULT 600.0 /* when no bound of a batch is given */

/** In which unit shares of domains are counted. Every utterance counts at least 1 (microsecond,
 * utterance, byte). */
typedef enum spsh_unit {
    SPSH_UNIT_SECONDS = 0,
    SPSH_UNIT_UTTERANCES = 1,
    SPSH_UNIT_TOKENS = 2, /* UTF-8 bytes of the transcript, as packed */
} spsh_unit;

typedef enum spsh_duplicates {
    SPSH_DUPLICATES_ALL = 0,  /* every utterance, copies too */
    SPSH_DUPLICATES_ONCE = 1, /* of utterances with the same samples, the first that passes */
} spsh_duplicates;

/** What becomes of an utterance that is longer than a batch may be. */
typedef enum spsh_long_utterances {
    SPSH_LONG_ERROR = 0,
    SPSH_LONG_DROP = 1,  /* counted in spsh_plan_info.too_long_count */
    SPSH_LONG_SPLIT = 2, /* into equal parts, each an item of its own with the same id */
} spsh_long_utterances;

/** The share of a domain, or of a dataset, instead of what alpha gives. Domains without one are not
 * served. The domains of a dataset with a share divide it in proportion to their units. */
typedef struct spsh_weight {
    const char *domain; /* borrowed during the call; NULL: the whole dataset, whose domains then
                           have no weights of their own */
    uint32_t dataset;   /* number of the dataset; SPSH_NONE_U32: in every dataset that has domain */
    double weight;      /* > 0; shares are weight / sum of weights */
} spsh_weight;

typedef struct spsh_plan_options {
    size_t struct_size;
    const spsh_allocator *allocator; /* NULL: malloc and free; copied; called by several threads */
    uint64_t seed;

    /* mixing */
    spsh_unit unit;
    double alpha; /* share ~ size^alpha, in the unit; 1 proportional, 0 equal. INIT sets 1 */
    const spsh_weight *weights; /* weight_count of them; then alpha is not used */
    uint32_t weight_count;

    /* filters: what passes all of them is served. Name lists: 0 names, everything */
    const char *const *splits;
    uint32_t split_count;
    const char *const *domains;
    uint32_t domain_count;
    const char *const *languages;
    uint32_t language_count;
    double utterance_seconds_min;
    double utterance_seconds_max;    /* 0: no bound */
    uint32_t speaker_utterances_max; /* 0: no bound; which ones are kept depends on the seed */
    spsh_duplicates duplicates;

    /* batches; when all three are 0: batch_seconds_max is SPSH_BATCH_SECONDS_DEFAULT */
    uint32_t batch_utterances_max;
    double batch_seconds_max;        /* sum of durations */
    double batch_padded_seconds_max; /* longest duration times utterances */
    spsh_long_utterances long_utterances;

    /* order */
    uint32_t window_utterances;        /* batches are made of so many at a time; 0: the default */
    uint32_t shuffle_block_utterances; /* 0, 1: every utterance by itself; K: runs of K neighbours
                                          stay in one window, so that a disk can read ahead */
    uint32_t virtual_world_size;       /* batches of one step; 0: the world size */
    uint32_t sample_rate_hz; /* that the batches will be resampled to; 0: none: then a batch holds
                                utterances of one rate */
    uint32_t flags;          /* SPSH_PLAN_* */
    const char *cache_dir;   /* NULL: none; copied. Where the results of scanning are kept for the
                                next time, and, with several domains, where windows begin: from
                                there a seek is O(window) in another process, too. About 6 bytes an
                                utterance; made if missing; whatever is wrong with it is no error */
    spsh_progress_fn progress_fn; /* NULL: none. Of spsh_plan_open; nothing is left behind if it
                                     cancels */
    void *progress_user;
} spsh_plan_options;

#define SPSH_PLAN_IN_ORDER    UINT32_C(1) /* no shuffling, no sorting: as in the dataset */
#define SPSH_PLAN_DROP_LAST   UINT32_C(2) /* leave out an epoch's last step when it is not full */
#define SPSH_PLAN_BY_CHANNELS UINT32_C(4) /* a batch holds utterances of one channel count */

/* clang-format off */
#define SPSH_PLAN_OPTIONS_INIT {sizeof(spsh_plan_options), NULL, 0, SPSH_UNIT_SECONDS, 1.0, \
    NULL, 0, NULL, 0, NULL, 0, NULL, 0, 0.0, 0.0, 0, SPSH_DUPLICATES_ALL, 0, 0.0, 0.0, \
    SPSH_LONG_ERROR, 0, 0, 0, 0, 0, NULL, NULL, NULL}
/* clang-format on */

typedef struct spsh_plan_info {
    uint64_t utterance_count;      /* that pass the filters: the length of an epoch */
    uint64_t microseconds;         /* of them, each rounded up to a whole one */
    uint64_t longest_microseconds; /* of an item: after dropping or splitting */
    uint32_t window_count;         /* of an epoch */
    uint32_t domain_count;
    uint32_t sample_rate_hz_max; /* of what is served, after resampling */
    uint32_t channels_max;       /* as stored */
    /* why others do not pass; each is counted once, under the first that applies */
    uint64_t skipped_count;  /* by a skip overlay */
    uint64_t filtered_count; /* split, domain, language, weight */
    uint64_t duration_count;
    uint64_t too_long_count;
    uint64_t duplicate_count;
    uint64_t speaker_count;
} spsh_plan_info;

/** A domain of the plan; name is borrowed until close, empty when absent. */
typedef struct spsh_plan_domain {
    size_t struct_size;
    uint32_t dataset;
    spsh_bytes name;
    uint64_t utterance_count;
    uint64_t microseconds;
    uint64_t units; /* in the plan's unit: microseconds, utterances or tokens */
    double share;   /* of the unit */
    double passes;  /* of the domain in an epoch, expected */
} spsh_plan_domain;
/* clang-format off */
#define SPSH_PLAN_DOMAIN_INIT {sizeof(spsh_plan_domain), 0, {NULL, 0}, 0, 0, 0, 0, 0}
/* clang-format on */

/** One utterance of a batch, or a part of one. */
typedef struct spsh_item {
    uint64_t position;     /* in its dataset */
    uint64_t start_sample; /* of the part, inside the utterance, in stored samples */
    uint64_t samples;      /* per channel, stored */
    uint64_t pass;         /* how often its domain began anew before, over all epochs */
    uint32_t dataset;
    uint32_t domain; /* of the plan */
    uint32_t sample_rate_hz;
    uint32_t part, part_count; /* 0 of 1, unless split */
    uint64_t microseconds;     /* of its duration, rounded up */
} spsh_item;

/** A place between batches of the global sequence, the same on all ranks. */
typedef struct spsh_position {
    uint64_t epoch;
    uint64_t batches;      /* of the epoch, served on all ranks together */
    uint32_t window;       /* that the next batch is in */
    uint32_t window_batch; /* its number there */
} spsh_position;

#define SPSH_BATCH_EMPTY    UINT32_C(1) /* this rank gets nothing in the epoch's last step */
#define SPSH_BATCH_STEP_END UINT32_C(2) /* last one of this rank in the step */

/** items: borrowed until the next call on the sampler. */
typedef struct spsh_planned_batch {
    size_t struct_size;
    const spsh_item *items;
    uint32_t item_count; /* 0 when empty */
    uint32_t flags;      /* SPSH_BATCH_* */
    uint64_t epoch;
    uint64_t step;                /* of the epoch */
    uint64_t number;              /* of the batch in the epoch's global sequence */
    uint64_t microseconds;        /* sum over items */
    uint64_t padded_microseconds; /* longest times count */
    spsh_position at;             /* of this batch itself: for spsh_sampler_substitute */
    spsh_position next;           /* the place behind this batch and its peers on the other ranks */
} spsh_planned_batch;
/* clang-format off */
#define SPSH_PLANNED_BATCH_INIT {sizeof(spsh_planned_batch), NULL, 0, 0, 0, 0, 0, 0, 0, \
    {0, 0, 0, 0}, {0, 0, 0, 0}}
/* clang-format on */

/** An immutable plan. Any thread, not during close. Also in a child that was forked, if no other
 * thread of the parent was in a call with the plan. */
typedef struct spsh_plan spsh_plan;
/** A place in a plan, for one rank. One thread per object. */
typedef struct spsh_sampler spsh_sampler;

/**
 * Scan the index for what passes the filters; O(utterances), unless cache_dir has it from before.
 *
 * @param datasets  borrowed until close
 * @param options   NULL for defaults; copied
 * @return SPSH_OK; SPSH_E_INVALID_ARG (an option out of range, or a name that no dataset has: the
 * message lists those it has); SPSH_E_NOT_FOUND (nothing passes: the message says how many were
 * left out why); SPSH_E_LIMIT (an utterance longer than a batch, under SPSH_LONG_ERROR);
 * SPSH_E_CANCELED (by progress_fn); SPSH_E_CORRUPT, _IO, _NO_MEMORY
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_plan_open(const spsh_dataset *const *datasets,
                                                   uint32_t dataset_count,
                                                   const spsh_plan_options *options,
                                                   spsh_plan **ret_plan, spsh_error *err);
SPSH_API void spsh_plan_close(spsh_plan *plan); /* samplers first; NULL is fine */
SPSH_API const spsh_plan_info *spsh_plan_info_get(const spsh_plan *plan);
SPSH_API SPSH_NODISCARD spsh_status spsh_plan_domain_get(const spsh_plan *plan, uint32_t domain,
                                                         spsh_plan_domain *ret_domain,
                                                         spsh_error *err);

/** What an epoch will be like, from the index alone. */
typedef struct spsh_epoch_report {
    size_t struct_size;
    uint32_t window_count;  /* looked at */
    uint32_t windows_total; /* of the epoch */
    uint64_t batch_count;   /* of the windows looked at; as the rest */
    uint64_t item_count;
    uint64_t microseconds;
    uint64_t padded_microseconds;
    uint64_t batch_microseconds_max;        /* largest sum of durations */
    uint64_t batch_padded_microseconds_max; /* largest after padding */
    uint32_t batch_items_max;
    double shuffle_quality;    /* 0 ... 1: how rarely storage neighbours share a batch, against
                                  chance: expected / found pairs less than 64 positions apart */
    double read_amplification; /* bytes of whole 4 KiB units / bytes of records */
} spsh_epoch_report;
/* clang-format off */
#define SPSH_EPOCH_REPORT_INIT {sizeof(spsh_epoch_report), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
/* clang-format on */

/** Per domain of the plan, of the windows looked at. */
typedef struct spsh_domain_report {
    uint64_t item_count;
    uint64_t units;
    double passes; /* utterances served over utterances there are */
} spsh_domain_report;

/**
 * Go through an epoch, or its first windows_max windows (0: all).
 *
 * @param ret_domains  NULL, or room for plan's domain_count entries
 * O(utterances looked at). Thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_plan_report(const spsh_plan *plan, uint64_t epoch,
                                                     uint32_t windows_max,
                                                     spsh_epoch_report *ret_report,
                                                     spsh_domain_report *ret_domains,
                                                     spsh_error *err);

/** Batches of an epoch, whatever SPSH_PLAN_DROP_LAST leaves out of them; goes through it on the
 * first call for that epoch. Thread-safe. */
SPSH_API SPSH_NODISCARD spsh_status spsh_plan_batch_count(const spsh_plan *plan, uint64_t epoch,
                                                          uint64_t *ret_batches, spsh_error *err);

/** At the beginning of epoch 0. plan: borrowed until close. */
SPSH_API SPSH_NODISCARD spsh_status spsh_sampler_open(const spsh_plan *plan, uint32_t rank,
                                                      uint32_t world_size,
                                                      spsh_sampler **ret_sampler, spsh_error *err);
SPSH_API void spsh_sampler_close(spsh_sampler *sampler);

/**
 * The rank's next batch.
 *
 * Batches c, c + 1, ... of the epoch go to ranks 0, 1, ...; then c moves on by the world size.
 * Where the virtual step or the epoch ends before the last rank's turn, the rest get an empty
 * batch, so that all ranks always make the same number of calls. No allocation, but for rank 0 with
 * a cache directory, now and then.
 * @return SPSH_OK; SPSH_E_END once behind the last batch of an epoch: the next call begins the next
 * epoch; SPSH_E_LIMIT, _CORRUPT, _IO, _NO_MEMORY
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_sampler_next(spsh_sampler *sampler,
                                                      spsh_planned_batch *ret_batch,
                                                      spsh_error *err);

/** Where the next call continues. */
SPSH_API spsh_position spsh_sampler_tell(const spsh_sampler *sampler);

/** Go to a place that a sampler of the same plan gave, of any rank and world size. O(window) when
 * the plan has been there or has one domain; else windows before it are scanned for lengths. */
SPSH_API SPSH_NODISCARD spsh_status spsh_sampler_seek(spsh_sampler *sampler,
                                                      const spsh_position *position,
                                                      spsh_error *err);

/** Find the place in front of a batch of an epoch; batch may be one behind the last. The first call
 * for an epoch goes through it, as spsh_plan_batch_count. Thread-safe. */
SPSH_API SPSH_NODISCARD spsh_status spsh_plan_find(const spsh_plan *plan, uint64_t epoch,
                                                   uint64_t batch, spsh_position *ret_position,
                                                   spsh_error *err);

/**
 * Another item for one that cannot be read: same domain, not longer, drawn from the window by
 * (seed, epoch, item, attempt). It is none of the batch's own; different attempts give different
 * items; two items of a batch may be given the same one.
 *
 * @param position  `at` of the batch that the item is in
 * @return SPSH_OK, SPSH_E_NOT_FOUND when the window has none
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_sampler_substitute(spsh_sampler *sampler,
                                                            const spsh_position *position,
                                                            const spsh_item *item, uint32_t attempt,
                                                            spsh_item *ret_item, spsh_error *err);

/* A cursor: 80 bytes, little-endian, the same on all ranks.
 *
 *     0   "SPSHCUR1"          40  u64 epoch
 *     8   u64 seed            48  u64 batches
 *     16  u64 dataset_key     56  u32 window, u32 window_batch
 *     24  u64 options_key     64  u32 extra_bytes (behind the cursor, the loader's), u32 0
 *     32  u64 skips_key       72  u64 XXH3-64, seed 0, of bytes 0 to 71
 *
 * The keys are hashes of what the order depends on: the datasets' indexes, the options (all but the
 * virtual world size, SPSH_PLAN_DROP_LAST, cache_dir), and the utterances that skip overlays name.
 */
#define SPSH_CURSOR_BYTES UINT32_C(80)

SPSH_API void spsh_cursor_encode(const spsh_plan *plan, const spsh_position *position,
                                 uint32_t extra_bytes, uint8_t ret_cursor[SPSH_CURSOR_BYTES]);

/**
 * @param size_bytes  size of the whole cursor: 80 and the extra bytes, neither more nor less
 * @return SPSH_OK; SPSH_E_CORRUPT, _TRUNCATED, _VERSION (not a cursor, or damaged); SPSH_E_MISMATCH
 * (of another dataset, of other options, of another seed, or skip overlays have changed: the
 * message says which)
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_cursor_decode(const spsh_plan *plan, const void *cursor,
                                                       size_t size_bytes,
                                                       spsh_position *ret_position,
                                                       uint32_t *ret_extra_bytes, spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
