/* feature_maker.h: an utterance of a dataset -> rows of features.
 *
 *     spsh__feature_maker_open(&setup, &maker, err);                 // one a thread
 *     spsh__feature_maker_run(maker, position, &row, &rows, &frames, err);
 *     spsh__feature_maker_close(maker);
 *
 * The samples are the loader's of an int16 batch with one channel: the mean of the channels,
 * rounded to the nearest, resampled to the features' rate.
 */
#ifndef SPSH_FEATURES_FEATURE_MAKER_H
#define SPSH_FEATURES_FEATURE_MAKER_H

#include "speechshard/dataset.h"
#include "speechshard/featgen.h"
#include "speechshard/statistics.h"

/* What all threads share; borrowed. */
typedef struct spsh__feature_setup {
    const spsh_dataset *dataset;
    const spsh_featgen *featgen;
    const spsh_statistics *statistics; /* for SPSH_NORM_SPEAKER and _DATASET; else NULL */
} spsh__feature_setup;

/* Memory that grows and is used again. */
typedef struct spsh__feature_bytes {
    uint8_t *data;
    size_t size_bytes, capacity_bytes;
} spsh__feature_bytes;

/* Room for an array. What was there is not kept. */
spsh_status spsh__feature_bytes_take(spsh__feature_bytes *bytes, uint64_t count,
                                     size_t element_bytes, spsh_error *err);

typedef struct spsh__feature_maker spsh__feature_maker;

spsh_status spsh__feature_maker_open(const spsh__feature_setup *setup,
                                     spsh__feature_maker **ret_maker, spsh_error *err);

/* row: of that position. The rows are borrowed until the next run or close. Errors name the
 * utterance. */
spsh_status spsh__feature_maker_run(spsh__feature_maker *maker, uint64_t position,
                                    const spsh_row *row, const float **ret_rows,
                                    uint64_t *ret_frame_count, spsh_error *err);

/* NULL is fine. */
void spsh__feature_maker_close(spsh__feature_maker *maker);

/* Whether the record of an utterance that could not be decoded is marked undecodable. */
bool spsh__feature_is_undecodable(spsh__feature_maker *maker, uint64_t position);

/* Does the failure belong to an utterance (its record is damaged or beyond the decoders), not to
 * the disk or to us? */
bool spsh__feature_is_damage(spsh_status status);

#endif
