/* hear.h: prepare one utterance as a loader serves it in an epoch, outside the loader's order, to
 * listen to it, plot it, or report what augmentation does to it.
 *
 *     spsh_hearing_open(dataset, position, &opt, &hearing, &err);      // the loader's options
 *     spsh_hearing_draw(hearing, epoch, &draw, &subject, &err);        // what augmentation does
 *     spsh_augment_draw_json(&draw, &subject, text, sizeof(text));
 *     spsh_hearing_listen(hearing, epoch, &heard, &err);
 *     ... heard.samples, heard.rows ...
 *     spsh_hearing_close(hearing);
 *
 * It uses the code of the loader's decode threads, so the result equals the utterance in a batch.
 */
#ifndef SPEECHSHARD_HEAR_H
#define SPEECHSHARD_HEAR_H

#include "speechshard/loader.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct spsh_hearing spsh_hearing;

/**
 * Open one utterance.
 *
 * @param dataset   borrowed until close, like the datasets of noises and RIRs
 * @param position  position of the utterance
 * @param options   as for spsh_loader_open. Used: features (NULL: what the dataset stores, or
 *                  kaldi-fbank at plan->sample_rate_hz or the utterance's rate), augment, noises,
 *                  rooms, channel, memory_bytes, plan->seed, plan->allocator. The output is always
 *                  float32 features
 * @return SPSH_OK, or a status of spsh_loader_open; SPSH_E_NO_MEMORY also above memory_bytes
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_hearing_open(const spsh_dataset *dataset,
                                                      uint64_t position,
                                                      const spsh_loader_options *options,
                                                      spsh_hearing **ret_hearing, spsh_error *err);
/** NULL is fine. */
SPSH_API void spsh_hearing_close(spsh_hearing *hearing);

/** Options of the features, computed or stored; borrowed until close. */
SPSH_API const spsh_feature_options *spsh_hearing_features(const spsh_hearing *hearing);

/**
 * Draw the augmentation of the utterance in an epoch. Reads no audio.
 *
 * @param ret_subject  its strings are borrowed until the next call; noise_start counts samples of
 *                     the noise at its own rate
 * @return SPSH_OK, or the error found in the index. One thread per object.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_hearing_draw(spsh_hearing *hearing, uint64_t epoch,
                                                      spsh_augment_draw *ret_draw,
                                                      spsh_augment_subject *ret_subject,
                                                      spsh_error *err);

/** The prepared utterance. All pointers are borrowed until the next call. */
typedef struct spsh_heard {
    size_t struct_size;
    uint32_t sample_rate_hz;
    const int16_t *samples; /* one channel; NULL: the dataset stores features */
    uint64_t sample_count;
    const float *rows; /* [frame_count * dim], masks applied */
    uint64_t frame_count;
    uint32_t dim;
} spsh_heard;
/* clang-format off */
#define SPSH_HEARD_INIT {sizeof(spsh_heard), 0, NULL, 0, NULL, 0, 0}
/* clang-format on */

/** Prepare the utterance. Fails if the utterance, a noise, or an RIR cannot be read; omits nothing.
 * @return SPSH_OK, or a status of spsh_loader_next. One thread per object. */
SPSH_API SPSH_NODISCARD spsh_status spsh_hearing_listen(spsh_hearing *hearing, uint64_t epoch,
                                                        spsh_heard *ret_heard, spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
