/* statistics.h: sums of features over the speakers of a dataset, kept beside it.
 *
 *     spsh_statistics_open(dataset, text, NULL, &statistics, &err);   // text: norm=none
 *     spsh_statistics_get(statistics, spsh_statistics_speaker(row.speaker), &sums,
 * &err);
 *     spsh_feature_sums_norm(...);                                    // featgen.h: mean and scale
 *
 * `speechshard featgen DATASET --stats` makes them: DATASET/statistics/KEY.spsh, KEY being the hash
 * of the features' canonical text with norm=none. They are of the utterances as packed (overlays
 * are not looked at) and a function of the dataset and the text (FORMAT.md 9).
 */
#ifndef SPEECHSHARD_STATISTICS_H
#define SPEECHSHARD_STATISTICS_H

#include "speechshard/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPSH_STATISTICS_DIRECTORY "statistics"

/* Groups are numbered. */
#define SPSH_STATISTICS_DATASET    UINT64_C(0) /* all utterances */
#define SPSH_STATISTICS_NO_SPEAKER UINT64_C(1) /* those without a speaker; by speaker only */

/** "0123456789abcdef0123456789abcdef.spsh": the name of the file for a text. Thread-safe. */
SPSH_API void spsh_statistics_file_name(const char *text, char dst[40]);

typedef struct spsh_statistics spsh_statistics;

/**
 * @param dataset  borrowed during the call
 * @param text     spsh_feature_options_text of the options with norm = SPSH_NORM_NONE
 * @param io       NULL: the operating system; borrowed until close
 * @return SPSH_OK; SPSH_E_NOT_FOUND (none were made: the message says how); SPSH_E_MISMATCH (of
 * another dataset or text); as spsh_table_file_open
 *
 * Safe on hostile input. Everything below but close is thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_statistics_open(const spsh_dataset *dataset,
                                                         const char *text, const spsh_io *io,
                                                         spsh_statistics **ret_statistics,
                                                         spsh_error *err);
/** NULL is fine. */
SPSH_API void spsh_statistics_close(spsh_statistics *statistics);

/** Values of a frame. */
SPSH_API uint32_t spsh_statistics_dim(const spsh_statistics *statistics);
/** 1 when only the whole dataset was summed; else 2 and one for each speaker of the dataset. */
SPSH_API uint64_t spsh_statistics_group_count(const spsh_statistics *statistics);

/** The group of spsh_row.speaker (SPSH_NONE_U32: those without one). */
static inline uint64_t spsh_statistics_speaker(uint32_t speaker)
{
    return speaker == SPSH_NONE_U32 ? SPSH_STATISTICS_NO_SPEAKER : (uint64_t)speaker + 2;
}

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

#ifdef __cplusplus
}
#endif

#endif
