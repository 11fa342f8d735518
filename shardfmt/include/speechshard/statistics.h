/* statistics.h: sums of features over the speakers of a dataset, kept beside it.
 *
 *     spsh_statistics_open(dataset, text, NULL, &statistics, &err);   // text: with norm=none
 *     spsh_statistics_get(statistics, spsh_statistics_speaker(row.speaker), &sums, &err);
 *     spsh_feature_sums_norm(...);                                    // featgen.h: mean and scale
 *
 * `speechshard featgen DATASET --stats` makes them: DATASET/statistics/KEY.spsh, KEY being the hash
 * of the features' canonical text with norm=none. They are of the utterances as packed (overlays
 * are not looked at), and a function of the dataset and the text (FORMAT.md 9).
 */
#ifndef SPEECHSHARD_STATISTICS_H
#define SPEECHSHARD_STATISTICS_H

#include "speechshard/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPSH_STATISTICS_DIRECTORY  "statistics"
#define SPSH_STATISTICS_NAME_BYTES 64

/* Groups of utterances are numbered. */
#define SPSH_STATISTICS_DATASET    UINT64_C(0) /* all */
#define SPSH_STATISTICS_NO_SPEAKER UINT64_C(1) /* those without a speaker; by speaker only */

/* Of all shards; else the sums of one, by its number in the manifest, which a run that was
 * interrupted goes on with. */
#define SPSH_STATISTICS_WHOLE SPSH_NONE_U64

/** The group of spsh_row.speaker (SPSH_NONE_U32: those without one). */
static inline uint64_t spsh_statistics_speaker(uint32_t speaker)
{
    return speaker == SPSH_NONE_U32 ? SPSH_STATISTICS_NO_SPEAKER : (uint64_t)speaker + 2;
}

/** "KEY.spsh", or "KEY-00000012.spsh" of a shard. Thread-safe. */
SPSH_API void spsh_statistics_file_name(const char *text, uint64_t shard,
                                        char dst[SPSH_STATISTICS_NAME_BYTES]);

typedef struct spsh_statistics spsh_statistics;

/**
 * @param dataset  borrowed during the call
 * @param text     spsh_feature_options_text of the options with norm = SPSH_NORM_NONE
 * @param shard    SPSH_STATISTICS_WHOLE, or a shard
 * @param io       NULL: the operating system; borrowed until close
 * @return SPSH_OK; SPSH_E_NOT_FOUND (none were made: the message says how); SPSH_E_MISMATCH (of
 * another dataset or text); _NOT_SPEECHSHARD, _VERSION, _TRUNCATED, _CORRUPT, _LIMIT, _IO,
 * _NO_MEMORY
 *
 * Safe on hostile input. Everything below but close is thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_statistics_open(const spsh_dataset *dataset,
                                                         const char *text, uint64_t shard,
                                                         const spsh_io *io,
                                                         spsh_statistics **ret_statistics,
                                                         spsh_error *err);
/** NULL is fine. */
SPSH_API void spsh_statistics_close(spsh_statistics *statistics);

/** Values of a frame. */
SPSH_API uint32_t spsh_statistics_dim(const spsh_statistics *statistics);
/** Groups that are there. Of the whole: 1 when only the dataset was summed, else 2 and one for each
 * speaker of the dataset. */
SPSH_API uint64_t spsh_statistics_group_count(const spsh_statistics *statistics);
/** The n-th of them, ascending. */
SPSH_API SPSH_NODISCARD spsh_status spsh_statistics_group(const spsh_statistics *statistics,
                                                          uint64_t n, uint64_t *ret_group,
                                                          spsh_error *err);

/** Sums of one group; sum and square_sum: dim values each, the caller's memory. */
typedef struct spsh_statistics_sums {
    uint64_t frame_count;
    double *sum, *square_sum;
} spsh_statistics_sums;

/**
 * @return SPSH_OK; SPSH_E_NOT_FOUND (no such group: made without --by speaker); SPSH_E_CORRUPT (a
 * damaged page; a sum that is not finite). No allocation.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_statistics_get(const spsh_statistics *statistics,
                                                        uint64_t group,
                                                        spsh_statistics_sums *ret_sums,
                                                        spsh_error *err);

/** A file to be written; all borrowed during the call. */
typedef struct spsh_statistics_content {
    const spsh_dataset *dataset;
    const char *text;
    uint64_t shard; /* or SPSH_STATISTICS_WHOLE */
    uint32_t dim;
    uint64_t group_count;
    const uint64_t *groups;       /* ascending */
    const uint64_t *frame_counts; /* group_count */
    const double *sums;           /* group_count * dim */
    const double *square_sums;
} spsh_statistics_content;

/**
 * Write it to DATASET/statistics, which is made if need be; what is there is replaced.
 *
 * @param io  NULL: the operating system
 * @return SPSH_OK, SPSH_E_INVALID_ARG, _LIMIT, _IO, _NO_SPACE, _NO_MEMORY
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_statistics_publish(const spsh_statistics_content *content,
                                                            const spsh_io *io, spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
