/* hear.h: one utterance as a loader serves it in an epoch, out of its turn: to be listened to, to
 * be looked at, or to be told in numbers.
 *
 *     spsh_hearing_open(dataset, position, &opt, &hearing, &err);      // the loader's options
 *     spsh_hearing_draw(hearing, epoch, &draw, &subject, &err);        // what will be done
 *     spsh_augment_draw_json(&draw, &subject, text, sizeof(text));
 *     spsh_hearing_listen(hearing, epoch, &heard, &err);
 *     ... heard.samples, heard.rows ...
 *     spsh_hearing_close(hearing);
 *
 * It goes the way of the loader's decode threads, so that what is heard is what a batch holds.
 */
#ifndef SPEECHSHARD_HEAR_H
#define SPEECHSHARD_HEAR_H

#include "speechshard/loader.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct spsh_hearing spsh_hearing;

/**
 * @param dataset   borrowed until close, as the datasets of noises and rooms
 * @param position  of the utterance
 * @param options   those of spsh_loader_open. Looked at are: features (NULL: kaldi-fbank at
 *                  plan->sample_rate_hz, or the utterance's rate; or what the dataset stores),
 *                  augment, noises, rooms, channel, memory_bytes, plan->seed, plan->allocator. The
 *                  output is features of float32, whatever the options say
 * @return SPSH_OK, or as spsh_loader_open; SPSH_E_NO_MEMORY: it needs more than memory_bytes, too
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_hearing_open(const spsh_dataset *dataset,
                                                      uint64_t position,
                                                      const spsh_loader_options *options,
                                                      spsh_hearing **ret_hearing, spsh_error *err);
/** NULL is fine. */
SPSH_API void spsh_hearing_close(spsh_hearing *hearing);

/** As computed, or as stored; until close. */
SPSH_API const spsh_feature_options *spsh_hearing_features(const spsh_hearing *hearing);

/**
 * What is done to the utterance in an epoch, without reading any audio.
 *
 * @param ret_subject  its strings are borrowed until the next call; noise_start counts samples of
 *                     the noise at its own rate
 * @return SPSH_OK, or what is wrong with the index. One thread per object.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_hearing_draw(spsh_hearing *hearing, uint64_t epoch,
                                                      spsh_augment_draw *ret_draw,
                                                      spsh_augment_subject *ret_subject,
                                                      spsh_error *err);

/** All of it borrowed until the next call. */
typedef struct spsh_heard {
    size_t struct_size;
    uint32_t sample_rate_hz;
    const int16_t *samples; /* one channel; NULL: the dataset stores features */
    uint64_t sample_count;
    const float *rows; /* frame_count * dim, with masks */
    uint64_t frame_count;
    uint32_t dim;
} spsh_heard;
/* clang-format off */
#define SPSH_HEARD_INIT {sizeof(spsh_heard), 0, NULL, 0, NULL, 0, 0}
/* clang-format on */

/** @return SPSH_OK, or as spsh_loader_next of an utterance, a noise or a room that cannot be read:
 * nothing is left out. One thread per object. */
SPSH_API SPSH_NODISCARD spsh_status spsh_hearing_listen(spsh_hearing *hearing, uint64_t epoch,
                                                        spsh_heard *ret_heard, spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
