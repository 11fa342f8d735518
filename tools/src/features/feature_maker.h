/* feature_maker.h: compute the feature rows of one utterance.
 *
 *     spsh__feature_maker_open(&setup, &maker, err);                 // one per thread
 *     spsh__feature_maker_run(maker, position, &row, &rows, &frames, err);
 *     spsh__feature_maker_close(maker);
 *
 * The samples equal the loader's samples of an int16 batch with one channel: the mean of the
 * channels, rounded to the nearest, resampled to the features' rate.
 */
#ifndef SPSH_FEATURES_FEATURE_MAKER_H
#define SPSH_FEATURES_FEATURE_MAKER_H

#include "speechshard/dataset.h"
#include "speechshard/featgen.h"
#include "speechshard/statistics.h"

/* Inputs that all threads share; borrowed. */
typedef struct spsh__feature_setup {
    const spsh_dataset *dataset;
    const spsh_featgen *featgen;
    const spsh_statistics *statistics; /* for SPSH_NORM_SPEAKER and _DATASET; else NULL */
} spsh__feature_setup;

/* Growing memory that is reused. */
typedef struct spsh__feature_bytes {
    uint8_t *data;
    size_t size_bytes, capacity_bytes;
} spsh__feature_bytes;

/* Provide memory for an array. The old content is lost. */
spsh_status spsh__feature_bytes_take(spsh__feature_bytes *bytes, uint64_t count,
                                     size_t element_bytes, spsh_error *err);

typedef struct spsh__feature_maker spsh__feature_maker;

spsh_status spsh__feature_maker_open(const spsh__feature_setup *setup,
                                     spsh__feature_maker **ret_maker, spsh_error *err);

/* row: the row at position. The feature rows are borrowed until the next run or close. Errors name
 * the utterance. */
spsh_status spsh__feature_maker_run(spsh__feature_maker *maker, uint64_t position,
                                    const spsh_row *row, const float **ret_rows,
                                    uint64_t *ret_frame_count, spsh_error *err);

/* NULL is fine. */
void spsh__feature_maker_close(spsh__feature_maker *maker);

/* True if the record of an utterance that could not be decoded is marked undecodable. */
bool spsh__feature_is_undecodable(spsh__feature_maker *maker, uint64_t position);

/* True if the utterance causes the failure (its record is damaged, or decoders do not support it),
 * and not the disk or this program. */
bool spsh__feature_is_damage(spsh_status status);

#endif
