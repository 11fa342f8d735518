/* augment.h: what is done to an utterance for one epoch: speed, room, noise, gain, masks.
 *
 *     spsh_augment_options options = SPSH_AUGMENT_OPTIONS_INIT;       // does nothing
 *     spsh_augment_options_parse("speeds=0.9:1:1.1,noise_probability=0.4,time_masks=2", &options,
 * &err); spsh_augment_draw(&options, seed, epoch, utterance_key, sample_count, &draw);
 *     ... draw says all that will be done, in numbers; spsh_augment_draw_json writes it ...
 *     spsh_augment_samples(augmenter, &draw, pcm, sample_count, &sound, out, &err);
 *     ... features of out ...
 *     spsh_augment_mask(&draw, rows, frame_count, dim, value);
 *
 * A draw is a function of seed, epoch, the utterance's key and the options: of no thread, rank,
 * batch or order. Each kind of augmentation draws from a stream of its own, so that switching one
 * on does not change another. What a draw does to samples is exact to the bit, too.
 *
 * Order: speed, room, noise (its level from the power of what it is added to), gain; features;
 * masks.
 */
#ifndef SPEECHSHARD_AUGMENT_H
#define SPEECHSHARD_AUGMENT_H

#include <stdbool.h>

#include "speechshard/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPSH_AUGMENT_SPEEDS_MAX     8
#define SPSH_AUGMENT_MASKS_MAX      16 /* of time; and as many of frequency */
#define SPSH_AUGMENT_TEXT_BYTES_MAX 1024

/** 0 in every field: nothing is done. */
typedef struct spsh_augment_options {
    size_t struct_size;
    uint32_t speed_count;
    uint32_t
        speeds[SPSH_AUGMENT_SPEEDS_MAX]; /* in percent, 50 ... 200; one is drawn, each as likely */
    float noise_probability;             /* 0 ... 1 */
    float noise_snr_db_min, noise_snr_db_max;
    float room_probability;
    float gain_probability; /* of a gain that is uniform in dB */
    float gain_db_min, gain_db_max;
    uint32_t time_masks; /* each 0 ... time_mask_frames_max frames long, uniform */
    uint32_t time_mask_frames_max;
    float time_mask_share_max; /* a mask is no longer than this share of the frames; 0: 1 */
    uint32_t frequency_masks;  /* each 0 ... frequency_mask_bins_max bins high */
    uint32_t frequency_mask_bins_max;
} spsh_augment_options;
#define SPSH_AUGMENT_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(spsh_augment_options), 0, {0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                   \
    }

/** As spsh_feature_options_parse: a preset ("none", "specaugment-ld": 2 time masks of 100 frames
 * and 2 of 27 bins, "deepspeech": see docs/FEATURES.md), then field=value; speeds=0.9:1:1.1.
 * Thread-safe. */
SPSH_API SPSH_NODISCARD spsh_status spsh_augment_options_parse(const char *text,
                                                               spsh_augment_options *options,
                                                               spsh_error *err);
SPSH_API size_t spsh_augment_options_text(const spsh_augment_options *options, char *text,
                                          size_t capacity_bytes);
SPSH_API SPSH_NODISCARD spsh_status spsh_augment_options_check(const spsh_augment_options *options,
                                                               spsh_error *err);

/** Part of a whole as a 64-bit fraction: value * whole / 2^64. Independent of what it is a part of.
 */
typedef uint64_t spsh_fraction;

typedef struct spsh_augment_mask_draw {
    spsh_fraction length, place; /* of the longest mask; of what remains beside it */
} spsh_augment_mask_draw;

/** Everything that is done to an utterance in an epoch. */
typedef struct spsh_augment_draw {
    uint32_t speed_percent; /* 100: as it is */
    bool has_room, has_noise, has_gain;
    spsh_fraction room;        /* which response, of all there are */
    spsh_fraction noise;       /* which noise */
    spsh_fraction noise_start; /* where in it; it is repeated when it is too short */
    float snr_db, gain_db;
    uint32_t time_masks, frequency_masks;
    uint32_t time_mask_frames_max, frequency_mask_bins_max; /* as the options' */
    float time_mask_share_max;
    spsh_augment_mask_draw time[SPSH_AUGMENT_MASKS_MAX], frequency[SPSH_AUGMENT_MASKS_MAX];
} spsh_augment_draw;

/** @param utterance_key  the id's hash: the same wherever the utterance is stored. Thread-safe. */
SPSH_API void spsh_augment_draw_make(const spsh_augment_options *options, uint64_t seed,
                                     uint64_t epoch, uint64_t utterance_key,
                                     spsh_augment_draw *ret_draw);

/** Samples after the change of speed: ceil(samples * 100 / speed_percent). Thread-safe. */
SPSH_API uint64_t spsh_augment_sample_count(const spsh_augment_draw *draw, uint64_t sample_count);

/** What is mixed in, at the utterance's rate, one channel; borrowed. */
typedef struct spsh_augment_sounds {
    const int16_t *noise; /* where has_noise; starts at the drawn place and is repeated */
    uint64_t noise_count, noise_start;
    const int16_t *room; /* where has_room: a room response, its strongest sample is time 0 */
    uint64_t room_count;
} spsh_augment_sounds;

/** One thread's tables and room. */
typedef struct spsh_augmenter spsh_augmenter;

/**
 * @param sample_count_max  longest utterance, before the change of speed
 * @param room_count_max    longest room response; 0 without rooms
 * @param allocator         NULL: malloc and free; copied
 * @return SPSH_OK, SPSH_E_NO_MEMORY, SPSH_E_INVALID_ARG
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_augmenter_open(
    const spsh_augment_options *options, uint64_t sample_count_max, uint64_t room_count_max,
    const spsh_allocator *allocator, spsh_augmenter **ret_augmenter, spsh_error *err);
SPSH_API void spsh_augmenter_close(spsh_augmenter *augmenter);

/**
 * Speed, room, noise, gain, in that order, in float; rounded to int16 once, at the end, clipped.
 *
 * @param out  spsh_augment_sample_count values; not the same memory as samples
 * @return SPSH_OK; SPSH_E_INVALID_ARG (a sound that was drawn is not given, longer than at open).
 * No allocation. One thread an augmenter.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_augment_samples(
    spsh_augmenter *augmenter, const spsh_augment_draw *draw, const int16_t *samples,
    uint64_t sample_count, const spsh_augment_sounds *sounds, int16_t *out, spsh_error *err);

/** First frame (bin) and length of a mask in so many frames (bins). Thread-safe. */
SPSH_API void spsh_augment_time_mask(const spsh_augment_draw *draw, uint32_t number,
                                     uint64_t frame_count, uint64_t *ret_first,
                                     uint64_t *ret_count);
SPSH_API void spsh_augment_frequency_mask(const spsh_augment_draw *draw, uint32_t number,
                                          uint32_t dim, uint32_t *ret_first, uint32_t *ret_count);

/** All masks at once: masked values become value. Thread-safe. */
SPSH_API void spsh_augment_mask(const spsh_augment_draw *draw, float *rows, uint64_t frame_count,
                                uint32_t dim, float value);

#ifdef __cplusplus
}
#endif

#endif
