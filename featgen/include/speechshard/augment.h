/* augment.h: what is done to an utterance for one epoch: speed, room, noise, gain, masks.
 *
 *     spsh_augment_options options = SPSH_AUGMENT_OPTIONS_INIT;       // does nothing
 *     spsh_augment_options_parse("speed-perturb,time_masks=2", &options, &err);
 *     spsh_augment_draw_make(&options, seed, epoch, utterance_key, &draw);
 *     ... draw says all that will be done, in numbers; spsh_augment_draw_json writes it ...
 *     spsh_augment_samples(augmenter, &draw, &input, out, &err);
 *     ... features of out ...
 *     spsh_augment_mask(&draw, rows, frame_count, dim, value);
 *
 * A draw is a function of seed, epoch, the utterance's key and the options: of no thread, rank,
 * batch or order. Each kind of augmentation draws from a stream of its own, so that switching one
 * on does not change another. What a draw does to samples is exact to the bit, too, with every
 * instruction set (docs/FEATURES.md).
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

#define SPSH_AUGMENT_SPEEDS_MAX       8
#define SPSH_AUGMENT_MASKS_MAX        16 /* of time; and as many of frequency */
#define SPSH_AUGMENT_TEXT_BYTES_MAX   1024
#define SPSH_AUGMENT_ROOM_SAMPLES_MAX (UINT64_C(1) << 20) /* of a room response */

/** 0 in every field: nothing is done. */
typedef struct spsh_augment_options {
    size_t struct_size;
    uint32_t speed_count;
    uint32_t speeds[SPSH_AUGMENT_SPEEDS_MAX]; /* in percent, 50 ... 200; one is drawn, each as
                                                 likely; text: speeds=0.9:1:1.1 */
    float noise_probability;                  /* 0 ... 1 */
    float noise_snr_db_min, noise_snr_db_max; /* -60 ... 100, uniform */
    float room_probability;                   /* 0 ... 1 */
    float gain_probability;                   /* 0 ... 1 */
    float gain_db_min, gain_db_max;           /* -60 ... 60, uniform */
    uint32_t time_masks;              /* 0 ... SPSH_AUGMENT_MASKS_MAX, any may lie over another */
    uint32_t time_mask_frames_max;    /* each is 0 ... so long, uniform; 0 ... 1,000,000 */
    float time_mask_share_max;        /* a mask is no longer than this share of the frames; 0: 1 */
    uint32_t frequency_masks;         /* 0 ... SPSH_AUGMENT_MASKS_MAX */
    uint32_t frequency_mask_bins_max; /* each is 0 ... so high, uniform; 0 ... 32768 */
} spsh_augment_options;
#define SPSH_AUGMENT_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(spsh_augment_options), 0, {0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                   \
    }

/** The names of presets, by number; NULL behind the last. Thread-safe. */
SPSH_API const char *spsh_augment_preset_name(uint32_t number);

/**
 * From text, as spsh_feature_options_parse: a preset ("none", "specaugment-lb", "specaugment-ld",
 * "speed-perturb", "deepspeech": docs/FEATURES.md has the values), then field=value with commas
 * between. Without a preset it changes "none".
 *
 * @param options  written on success only
 * @return SPSH_OK, SPSH_E_SYNTAX, SPSH_E_NOT_FOUND, SPSH_E_LIMIT (too many speeds),
 * SPSH_E_INVALID_ARG (as _check). Thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_augment_options_parse(const char *text,
                                                               spsh_augment_options *options,
                                                               spsh_error *err);

/** The canonical text, as spsh_feature_options_text; below SPSH_AUGMENT_TEXT_BYTES_MAX.
 * Thread-safe. */
SPSH_API size_t spsh_augment_options_text(const spsh_augment_options *options, char *text,
                                          size_t capacity_bytes);

/** SPSH_OK, or SPSH_E_INVALID_ARG and which field is out of its range. Thread-safe. */
SPSH_API SPSH_NODISCARD spsh_status spsh_augment_options_check(const spsh_augment_options *options,
                                                               spsh_error *err);

/** Part of a whole as a 64-bit fraction: value * whole / 2^64. Independent of what it is a part of.
 */
typedef uint64_t spsh_fraction;

/** fraction * whole / 2^64, rounded down: below whole, 0 of nothing. Thread-safe. */
SPSH_API uint64_t spsh_fraction_of(spsh_fraction fraction, uint64_t whole);

typedef struct spsh_augment_mask_draw {
    spsh_fraction length, place; /* of the longest mask; of what remains beside it */
} spsh_augment_mask_draw;

/** Everything that is done to an utterance in an epoch. What does not happen is 0. */
typedef struct spsh_augment_draw {
    uint32_t speed_percent; /* 100: as it is */
    bool has_room, has_noise, has_gain;
    spsh_fraction room;        /* which response, of all there are */
    spsh_fraction noise;       /* which noise, of all there are */
    spsh_fraction noise_start; /* where in it; it is repeated when it is too short */
    float snr_db, gain_db;
    uint32_t time_masks, frequency_masks;
    uint32_t time_mask_frames_max, frequency_mask_bins_max; /* as the options' */
    float time_mask_share_max;
    spsh_augment_mask_draw time[SPSH_AUGMENT_MASKS_MAX], frequency[SPSH_AUGMENT_MASKS_MAX];
    uint64_t reserved[8]; /* 0; for kinds of augmentation to come */
} spsh_augment_draw;

/** @param options        as spsh_augment_options_check finds good
 *  @param utterance_key  the id's hash: the same wherever the utterance is stored. Thread-safe. */
SPSH_API void spsh_augment_draw_make(const spsh_augment_options *options, uint64_t seed,
                                     uint64_t epoch, uint64_t utterance_key,
                                     spsh_augment_draw *ret_draw);

/** Samples after the change of speed: ceil(samples * 100 / speed_percent). Thread-safe. */
SPSH_API uint64_t spsh_augment_sample_count(const spsh_augment_draw *draw, uint64_t sample_count);

/** An utterance, and what is mixed in, all at the utterance's rate and of one channel. Borrowed
 * during the call. */
typedef struct spsh_augment_input {
    const int16_t *samples;
    uint64_t sample_count; /* before the change of speed */
    const int16_t *noise;  /* where has_noise; begins at noise_start and is repeated */
    uint64_t noise_count, noise_start;
    const int16_t *room; /* where has_room: a room response, its strongest sample is time 0 */
    uint64_t room_count;
} spsh_augment_input;

/** One thread's tables and room. */
typedef struct spsh_augmenter spsh_augmenter;

/**
 * @param options           those that draws are made with; copied
 * @param sample_count_max  longest utterance, before the change of speed. Memory: 4 bytes a sample,
 *                          of the slowest speed, twice with speeds or rooms
 * @param room_count_max    longest room response, at most SPSH_AUGMENT_ROOM_SAMPLES_MAX; 0 without
 *                          rooms. Memory: 100 to 210 bytes a sample
 * @param allocator         NULL: malloc and free; copied
 * @return SPSH_OK, SPSH_E_NO_MEMORY, SPSH_E_INVALID_ARG
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_augmenter_open(
    const spsh_augment_options *options, uint64_t sample_count_max, uint64_t room_count_max,
    const spsh_allocator *allocator, spsh_augmenter **ret_augmenter, spsh_error *err);
/** NULL is fine. */
SPSH_API void spsh_augmenter_close(spsh_augmenter *augmenter);

/**
 * Speed, room, noise, gain, in that order, in float; rounded to int16 once, at the end, clipped.
 * Nothing to do leaves every sample as it is.
 *
 * @param out  spsh_augment_sample_count values; not the same memory as anything of input
 * @return SPSH_OK; SPSH_E_INVALID_ARG (a sound that was drawn is not given or is empty, a speed is
 * not among the options', something is longer than at open): out is as it was.
 * No allocation. One thread an augmenter.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_augment_samples(spsh_augmenter *augmenter,
                                                         const spsh_augment_draw *draw,
                                                         const spsh_augment_input *input,
                                                         int16_t *out, spsh_error *err);

/** How many samples of the last call were beyond int16. */
SPSH_API uint64_t spsh_augmenter_clipped_count(const spsh_augmenter *augmenter);

/** First frame (bin) and length of mask number 0 ... time_masks - 1 (frequency_masks - 1) in so
 * many frames (bins). Thread-safe. */
SPSH_API void spsh_augment_time_mask(const spsh_augment_draw *draw, uint32_t number,
                                     uint64_t frame_count, uint64_t *ret_first,
                                     uint64_t *ret_count);
SPSH_API void spsh_augment_frequency_mask(const spsh_augment_draw *draw, uint32_t number,
                                          uint32_t dim, uint32_t *ret_first, uint32_t *ret_count);

/** All masks at once: masked values of frame_count rows of dim become value. Thread-safe. */
SPSH_API void spsh_augment_mask(const spsh_augment_draw *draw, float *rows, uint64_t frame_count,
                                uint32_t dim, float value);

/** What a draw is told about an utterance and what was drawn for it. */
typedef struct spsh_augment_subject {
    uint64_t sample_count;          /* before the change of speed */
    uint64_t frame_count;           /* of its features, after it; 0: no time masks are told */
    uint32_t dim;                   /* 0: no frequency masks are told */
    const char *noise_id, *room_id; /* UTF-8; of what was drawn; NULL: not told */
    uint64_t noise_start;
    uint64_t reserved[4]; /* 0 */
} spsh_augment_subject;

/**
 * A draw as one line of JSON, without a line feed, of what is done alone: {"speed": 0.9, "samples":
 * 17778, "room": {"id": "hall-3"}, "noise": {"id": "cafe-1", "start": 52, "snr_db": 12.5},
 * "gain_db": -3.25, "time_masks": [[12, 40]], "frequency_masks": [[3, 27]]}. "samples": after the
 * change of speed. Masks: first and count; those of nothing are left out. Numbers read back to the
 * same bits.
 *
 * @return the length without the NUL; text is NUL-terminated and cut to capacity_bytes.
 * Thread-safe.
 */
SPSH_API size_t spsh_augment_draw_json(const spsh_augment_draw *draw,
                                       const spsh_augment_subject *subject, char *text,
                                       size_t capacity_bytes);

#ifdef __cplusplus
}
#endif

#endif
