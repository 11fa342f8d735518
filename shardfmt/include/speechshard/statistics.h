/* statistics.h: sums of features per speaker and over a dataset, stored in the dataset's directory.
 *
 *     spsh_statistics_open(dataset, text, NULL, &statistics, &err);   // text: with norm=none
 *     spsh_statistics_get(statistics, spsh_statistics_speaker(row.speaker), &sums, &err);
 *     spsh_feature_sums_norm(...);                                    // featgen.h: mean and scale
 *
 * `speechshard featgen DATASET --stats` writes DATASET/statistics/KEY.spsh. KEY is the hash of the
 * features' canonical text with norm=none. The sums depend only on the dataset and that text. They
 * include all packed utterances; overlays have no effect (FORMAT.md 9).
 */
#ifndef SPEECHSHARD_STATISTICS_H
#define SPEECHSHARD_STATISTICS_H

#include "speechshard/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPSH_STATISTICS_DIRECTORY  "statistics"
#define SPSH_STATISTICS_NAME_BYTES 64

/* Numbers of groups of utterances. */
#define SPSH_STATISTICS_DATASET    UINT64_C(0) /* all */
#define SPSH_STATISTICS_NO_SPEAKER UINT64_C(1) /* utterances without a speaker; only by speaker */

/* The sums of all shards. Other numbers: one shard, by its number in the manifest; an interrupted
 * run continues with these files. */
#define SPSH_STATISTICS_WHOLE SPSH_NONE_U64

/** Return the group of spsh_row.speaker (SPSH_NONE_U32: no speaker). */
static inline uint64_t spsh_statistics_speaker(uint32_t speaker)
{
    return speaker == SPSH_NONE_U32 ? SPSH_STATISTICS_NO_SPEAKER : (uint64_t)speaker + 2;
}

/** Write "KEY.spsh", or "KEY-00000012.spsh" for a shard. Thread-safe. */
SPSH_API void spsh_statistics_file_name(const char *text, uint64_t shard,
                                        char dst[SPSH_STATISTICS_NAME_BYTES]);

typedef struct spsh_statistics spsh_statistics;

/**
 * Open the statistics of a dataset.
 *
 * @param dataset  borrowed during the call
 * @param text     spsh_feature_options_text of the options with norm = SPSH_NORM_NONE
 * @param shard    SPSH_STATISTICS_WHOLE, or a shard
 * @param io       NULL: the operating system; borrowed until close
 * @return SPSH_OK; SPSH_E_NOT_FOUND (they do not exist; the message has the command);
 * SPSH_E_MISMATCH (another dataset or text); _NOT_SPEECHSHARD, _VERSION, _TRUNCATED, _CORRUPT,
 * _LIMIT, _IO, _NO_MEMORY
 *
 * Safe on hostile input. All functions below except close are thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_statistics_open(const spsh_dataset *dataset,
                                                         const char *text, uint64_t shard,
                                                         const spsh_io *io,
                                                         spsh_statistics **ret_statistics,
                                                         spsh_error *err);
/** NULL is fine. */
SPSH_API void spsh_statistics_close(spsh_statistics *statistics);

/** Number of values per frame. */
SPSH_API uint32_t spsh_statistics_dim(const spsh_statistics *statistics);
/** Number of groups in the file. For all shards: 1 if only the dataset was summed, else 2 plus the
 * number of speakers. */
SPSH_API uint64_t spsh_statistics_group_count(const spsh_statistics *statistics);
/** Return group n, in ascending order. */
SPSH_API SPSH_NODISCARD spsh_status spsh_statistics_group(const spsh_statistics *statistics,
                                                          uint64_t n, uint64_t *ret_group,
                                                          spsh_error *err);

/** Sums of one group. sum, square_sum: [dim], owned by the caller. */
typedef struct spsh_statistics_sums {
    uint64_t frame_count;
    double *sum, *square_sum;
} spsh_statistics_sums;

/**
 * Read the sums of a group.
 *
 * @return SPSH_OK; SPSH_E_NOT_FOUND (no such group: the file has no sums by speaker);
 * SPSH_E_CORRUPT (a damaged page, or a sum that is not finite). Allocates nothing.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_statistics_get(const spsh_statistics *statistics,
                                                        uint64_t group,
                                                        spsh_statistics_sums *ret_sums,
                                                        spsh_error *err);

/** Contents of a file to write; borrowed during the call. */
typedef struct spsh_statistics_content {
    const spsh_dataset *dataset;
    const char *text;
    uint64_t shard; /* or SPSH_STATISTICS_WHOLE */
    uint32_t dim;
    uint64_t group_count;
    const uint64_t *groups;       /* ascending */
    const uint64_t *frame_counts; /* [group_count] */
    const double *sums;           /* [group_count * dim] */
    const double *square_sums;
} spsh_statistics_content;

/**
 * Write the file to DATASET/statistics. Creates the directory; replaces an existing file.
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
