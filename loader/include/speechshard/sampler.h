/* sampler.h: plan the batches: a pure function of datasets, options, seed, and epoch.
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
 * The plan permutes each domain (of one dataset or of several) by a keyed bijection, mixes the
 * domains by quota, cuts the sequence into windows, and batches by length inside each window. The
 * batches are dealt to the ranks. The plan reads no audio: lengths come from the dataset index.
 *
 * An epoch has as many utterances as pass the filters. With proportional shares (alpha 1, the
 * default) it serves each exactly once. With other shares a small domain restarts within the epoch
 * in a new order, and a large domain continues in the next epoch. If shares count utterances
 * (rounded to whole ones per epoch, at least one), it continues exactly where it stopped. If they
 * count seconds or tokens, a few utterances may be repeated or omitted where two epochs meet.
 * LOADER.md specifies the order.
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
#define SPSH_BATCH_SECONDS_DEFAULT 600.0 /* if no limit of a batch is set */

/** Unit in which the shares of domains are counted. Every utterance counts at least 1 (microsecond,
 * utterance, byte). */
typedef enum spsh_unit {
    SPSH_UNIT_SECONDS = 0,
    SPSH_UNIT_UTTERANCES = 1,
    SPSH_UNIT_TOKENS = 2, /* UTF-8 bytes of the transcript, as packed */
} spsh_unit;

typedef enum spsh_duplicates {
    SPSH_DUPLICATES_ALL = 0,  /* every utterance, including copies */
    SPSH_DUPLICATES_ONCE = 1, /* only the first passing utterance per group with equal samples */
} spsh_duplicates;

/** Policy for an utterance that is longer than a batch may be. */
typedef enum spsh_long_utterances {
    SPSH_LONG_ERROR = 0,
    SPSH_LONG_DROP = 1,  /* counted in spsh_plan_info.too_long_count */
    SPSH_LONG_SPLIT = 2, /* into equal parts, each a separate item with the same id */
} spsh_long_utterances;

/** Explicit share of a domain or of a dataset. It replaces the share that follows from alpha.
 * Domains without a weight are not served. The domains of a weighted dataset divide its share in
 * proportion to their units. */
typedef struct spsh_weight {
    const char *domain; /* borrowed during the call; NULL: the whole dataset, whose domains must
                           then have no weights */
    uint32_t dataset;   /* dataset number; SPSH_NONE_U32: every dataset that has the domain */
    double weight;      /* > 0; the share is weight / sum of weights */
} spsh_weight;

typedef struct spsh_plan_options {
    size_t struct_size;
    const spsh_allocator *allocator; /* NULL: malloc and free; copied; called by several threads */
    uint64_t seed;

    /* mixing */
    spsh_unit unit;
    double alpha; /* share ~ size^alpha, in the unit; 1: proportional, 0: equal. INIT sets 1 */
    const spsh_weight *weights; /* [weight_count]; if there are any, alpha is not used */
    uint32_t weight_count;

    /* filters: an utterance must pass all of them. A name list with 0 names passes everything */
    const char *const *splits;
    uint32_t split_count;
    const char *const *domains;
    uint32_t domain_count;
    const char *const *languages;
    uint32_t language_count;
    double utterance_seconds_min;
    double utterance_seconds_max;    /* 0: no limit */
    uint32_t speaker_utterances_max; /* 0: no limit; the seed decides which ones are kept */
    spsh_duplicates duplicates;

    /* batches; if all three are 0, batch_seconds_max is SPSH_BATCH_SECONDS_DEFAULT */
    uint32_t batch_utterances_max;
    double batch_seconds_max;        /* sum of durations */
    double batch_padded_seconds_max; /* longest duration times number of utterances */
    spsh_long_utterances long_utterances;

    /* order */
    uint32_t window_utterances; /* utterances per window; batches are formed inside a window;
                                          0: SPSH_PLAN_WINDOW_DEFAULT */
    uint32_t
        shuffle_block_utterances; /* 0, 1: shuffle single utterances. K: keep runs of K adjacent
                                          utterances in one window, so that a disk can read ahead */
    uint32_t virtual_world_size;  /* batches per step; 0: the world size */
    uint32_t sample_rate_hz;      /* rate that batches are resampled to; 0: no resampling, and all
                                utterances of a batch have one rate */
    uint32_t flags;               /* SPSH_PLAN_* */
    const char *cache_dir; /* NULL: no cache; copied; created if missing. Stores the results of the
                                scan and, for several domains, the starts of windows, which makes
                                seeks in another process O(window). About 6 bytes per utterance. An
                                unusable cache is ignored */
    spsh_progress_fn progress_fn; /* NULL: none. Called by spsh_plan_open; nothing remains after it
                                     cancels */
    void *progress_user;
} spsh_plan_options;

#define SPSH_PLAN_IN_ORDER    UINT32_C(1) /* dataset order: no shuffling, no sorting */
#define SPSH_PLAN_DROP_LAST   UINT32_C(2) /* omit an epoch's last step if it is not full */
#define SPSH_PLAN_BY_CHANNELS UINT32_C(4) /* a batch holds utterances of one channel count */

/* clang-format off */
#define SPSH_PLAN_OPTIONS_INIT {sizeof(spsh_plan_options), NULL, 0, SPSH_UNIT_SECONDS, 1.0, \
    NULL, 0, NULL, 0, NULL, 0, NULL, 0, 0.0, 0.0, 0, SPSH_DUPLICATES_ALL, 0, 0.0, 0.0, \
    SPSH_LONG_ERROR, 0, 0, 0, 0, 0, NULL, NULL, NULL}
/* clang-format on */

typedef struct spsh_plan_info {
    uint64_t utterance_count;      /* utterances that pass the filters: the length of an epoch */
    uint64_t microseconds;         /* their total duration, each rounded up */
    uint64_t longest_microseconds; /* longest item, after dropping or splitting */
    uint32_t window_count;         /* windows per epoch */
    uint32_t domain_count;
    uint32_t sample_rate_hz_max; /* maximum rate of served utterances, after resampling */
    uint32_t channels_max;       /* maximum channel count, as stored */
    /* Utterances that do not pass. Each is counted once, under the first reason that applies. */
    uint64_t skipped_count;  /* skip overlay */
    uint64_t filtered_count; /* split, domain, language, or weight */
    uint64_t duration_count;
    uint64_t too_long_count;
    uint64_t duplicate_count;
    uint64_t speaker_count;
} spsh_plan_info;

/** A domain of the plan. name is borrowed until close; empty for utterances without a domain. */
typedef struct spsh_plan_domain {
    size_t struct_size;
    uint32_t dataset;
    spsh_bytes name;
    uint64_t utterance_count;
    uint64_t microseconds;
    uint64_t units; /* microseconds, utterances, or tokens: the plan's unit */
    double share;   /* fraction of an epoch's units */
    double passes;  /* expected passes through the domain per epoch */
} spsh_plan_domain;
/* clang-format off */
#define SPSH_PLAN_DOMAIN_INIT {sizeof(spsh_plan_domain), 0, {NULL, 0}, 0, 0, 0, 0, 0}
/* clang-format on */

/** One utterance of a batch, or a part of one. */
typedef struct spsh_item {
    uint64_t position;     /* position in its dataset */
    uint64_t start_sample; /* start of the part inside the utterance, in stored samples */
    uint64_t samples;      /* per channel, stored */
    uint64_t pass;         /* earlier passes through its domain, over all epochs */
    uint32_t dataset;
    uint32_t domain; /* number of the domain in the plan */
    uint32_t sample_rate_hz;
    uint32_t part, part_count; /* 0 of 1, unless split */
    uint64_t microseconds;     /* duration, rounded up */
} spsh_item;

/** A position between batches of the global sequence, the same on all ranks. */
typedef struct spsh_position {
    uint64_t epoch;
    uint64_t batches;      /* batches of the epoch that all ranks together have served */
    uint32_t window;       /* window of the next batch */
    uint32_t window_batch; /* index of the next batch in its window */
} spsh_position;

#define SPSH_BATCH_EMPTY    UINT32_C(1) /* this rank has no utterances in the epoch's last step */
#define SPSH_BATCH_STEP_END UINT32_C(2) /* this rank's last batch of the step */

/** One batch of a rank. items: borrowed until the next call on the sampler. */
typedef struct spsh_planned_batch {
    size_t struct_size;
    const spsh_item *items;
    uint32_t item_count; /* 0 when empty */
    uint32_t flags;      /* SPSH_BATCH_* */
    uint64_t epoch;
    uint64_t step;                /* step in the epoch */
    uint64_t number;              /* index of the batch in the epoch's global sequence */
    uint64_t microseconds;        /* sum over items */
    uint64_t padded_microseconds; /* longest item times item_count */
    spsh_position at;             /* position of this batch, for spsh_sampler_substitute */
    spsh_position next;           /* position after this batch and the other ranks' batches */
} spsh_planned_batch;
/* clang-format off */
#define SPSH_PLANNED_BATCH_INIT {sizeof(spsh_planned_batch), NULL, 0, 0, 0, 0, 0, 0, 0, \
    {0, 0, 0, 0}, {0, 0, 0, 0}}
/* clang-format on */

/** An immutable plan. Any thread, but not during close. A forked child may use it if no other
 * thread of the parent was in a call with the plan. */
typedef struct spsh_plan spsh_plan;
/** A position in a plan, for one rank. One thread per object. */
typedef struct spsh_sampler spsh_sampler;

/**
 * Scan the indexes for utterances that pass the filters. O(utterances), unless cache_dir has the
 * results of an earlier scan.
 *
 * @param datasets  borrowed until close
 * @param options   NULL for defaults; copied
 * @return SPSH_OK; SPSH_E_INVALID_ARG (an option is out of range); SPSH_E_UNKNOWN_NAME (no dataset
 * has a name; the message lists the names that exist); SPSH_E_NOT_FOUND (no utterance passes; the
 * message counts the reasons); SPSH_E_LIMIT (an utterance is longer than a batch, under
 * SPSH_LONG_ERROR); SPSH_E_CANCELED (by progress_fn); SPSH_E_CORRUPT, _IO, _NO_MEMORY
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_plan_open(const spsh_dataset *const *datasets,
                                                   uint32_t dataset_count,
                                                   const spsh_plan_options *options,
                                                   spsh_plan **ret_plan, spsh_error *err);
SPSH_API void spsh_plan_close(spsh_plan *plan); /* close its samplers first; NULL is fine */
SPSH_API const spsh_plan_info *spsh_plan_info_get(const spsh_plan *plan);
SPSH_API SPSH_NODISCARD spsh_status spsh_plan_domain_get(const spsh_plan *plan, uint32_t domain,
                                                         spsh_plan_domain *ret_domain,
                                                         spsh_error *err);

/** Facts about an epoch, computed from the indexes only. */
typedef struct spsh_epoch_report {
    size_t struct_size;
    uint32_t window_count;  /* windows in this report */
    uint32_t windows_total; /* windows in the epoch */
    uint64_t batch_count;   /* this and the fields below: in the windows of this report */
    uint64_t item_count;
    uint64_t microseconds;
    uint64_t padded_microseconds;
    uint64_t batch_microseconds_max;        /* maximum sum of durations */
    uint64_t batch_padded_microseconds_max; /* maximum after padding */
    uint32_t batch_items_max;
    double shuffle_quality; /* 0 ... 1: how rarely utterances that are stored close together share
                                  a batch. Pairs less than 64 positions apart: number expected by
                                  chance / number found */
    double read_amplification; /* bytes of whole 4 KiB units / bytes of records */
} spsh_epoch_report;
/* clang-format off */
#define SPSH_EPOCH_REPORT_INIT {sizeof(spsh_epoch_report), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
/* clang-format on */

/** One domain of the plan, in the windows of the report. */
typedef struct spsh_domain_report {
    uint64_t item_count;
    uint64_t units;
    double passes; /* served utterances / utterances of the domain */
} spsh_domain_report;

/**
 * Report on an epoch, or on its first windows_max windows (0: all). O(utterances in them).
 * Thread-safe.
 *
 * @param ret_domains  NULL, or an array of the plan's domain_count entries
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_plan_report(const spsh_plan *plan, uint64_t epoch,
                                                     uint32_t windows_max,
                                                     spsh_epoch_report *ret_report,
                                                     spsh_domain_report *ret_domains,
                                                     spsh_error *err);

/** Number of batches in an epoch, including those that SPSH_PLAN_DROP_LAST omits. The first call
 * for an epoch plans the whole epoch. Thread-safe. */
SPSH_API SPSH_NODISCARD spsh_status spsh_plan_batch_count(const spsh_plan *plan, uint64_t epoch,
                                                          uint64_t *ret_batches, spsh_error *err);

/** Open a sampler at the beginning of epoch 0. plan: borrowed until close. */
SPSH_API SPSH_NODISCARD spsh_status spsh_sampler_open(const spsh_plan *plan, uint32_t rank,
                                                      uint32_t world_size,
                                                      spsh_sampler **ret_sampler, spsh_error *err);
SPSH_API void spsh_sampler_close(spsh_sampler *sampler);

/**
 * Return the rank's next batch.
 *
 * Batches c, c + 1, ... of the epoch go to ranks 0, 1, ...; then c advances by the world size. If
 * the virtual step or the epoch ends before the last rank's turn, the remaining ranks receive an
 * empty batch, so that all ranks make the same number of calls. Allocates nothing, except
 * occasionally on rank 0 with a cache directory.
 * @return SPSH_OK; SPSH_E_END once after the last batch of an epoch: the next call starts the next
 * epoch; SPSH_E_LIMIT, _CORRUPT, _IO, _NO_MEMORY
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_sampler_next(spsh_sampler *sampler,
                                                      spsh_planned_batch *ret_batch,
                                                      spsh_error *err);

/** Return the position at which the next call continues. */
SPSH_API spsh_position spsh_sampler_tell(const spsh_sampler *sampler);

/** Go to a position from a sampler of the same plan, of any rank and world size. O(window) if the
 * plan has passed that position before or has one domain; otherwise it scans the lengths in all
 * windows before it. */
SPSH_API SPSH_NODISCARD spsh_status spsh_sampler_seek(spsh_sampler *sampler,
                                                      const spsh_position *position,
                                                      spsh_error *err);

/** Find the position before a batch of an epoch; `batch` may be the number of batches, for the end.
 * The first call for an epoch plans the whole epoch, like spsh_plan_batch_count. Thread-safe. */
SPSH_API SPSH_NODISCARD spsh_status spsh_plan_find(const spsh_plan *plan, uint64_t epoch,
                                                   uint64_t batch, spsh_position *ret_position,
                                                   spsh_error *err);

/**
 * Find a substitute for an item that cannot be read: same domain, not longer, drawn from the window
 * by (seed, epoch, item, attempt). It is not in the batch already. Different attempts return
 * different items, but two items of a batch may have the same substitute.
 *
 * @param position  `at` of the item's batch
 * @return SPSH_OK; SPSH_E_NOT_FOUND if the window has no such item
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
 *     24  u64 options_key     64  u32 extra_bytes (the loader's, after the cursor), u32 0
 *     32  u64 skips_key       72  u64 XXH3-64, seed 0, of bytes 0 to 71
 *
 * The keys are hashes of everything that decides the order: the datasets' indexes, the options
 * except virtual_world_size, SPSH_PLAN_DROP_LAST, and cache_dir, and the utterances that skip
 * overlays name.
 */
#define SPSH_CURSOR_BYTES UINT32_C(80)

SPSH_API void spsh_cursor_encode(const spsh_plan *plan, const spsh_position *position,
                                 uint32_t extra_bytes, uint8_t ret_cursor[SPSH_CURSOR_BYTES]);

/**
 * Check a cursor against a plan and return its position.
 *
 * @param size_bytes  exact size of the cursor: 80 plus the extra bytes
 * @return SPSH_OK; SPSH_E_CORRUPT, _TRUNCATED, _VERSION (not a cursor, or damaged); SPSH_E_MISMATCH
 * (another dataset, other options, another seed, or changed skip overlays; the message names which)
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_cursor_decode(const spsh_plan *plan, const void *cursor,
                                                       size_t size_bytes,
                                                       spsh_position *ret_position,
                                                       uint32_t *ret_extra_bytes, spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
