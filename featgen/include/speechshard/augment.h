/* augment.h: augment an utterance for one epoch: speed, room, noise, gain, masks.
 *
 *     spsh_augment_options options = SPSH_AUGMENT_OPTIONS_INIT;       // no augmentation
 *     spsh_augment_options_parse("speed-perturb,time_masks=2", &options, &err);
 *     spsh_augment_draw_make(&options, seed, epoch, utterance_key, &draw);
 *     ... draw describes all changes in numbers; spsh_augment_draw_json writes it as JSON ...
 *     spsh_augment_samples(augmenter, &draw, &input, out, &err);
 *     ... features of out ...
 *     spsh_augment_mask(&draw, rows, frame_count, dim, value);
 *
 * A draw depends only on the seed, the epoch, the utterance's key, and the options. It does not
 * depend on threads, ranks, batches, or order. Each kind of augmentation has a separate random
 * stream, so enabling one does not change another. The resulting samples are identical to the bit
 * with every instruction set (docs/reference/FEATURES.md).
 *
 * Order: speed, room, noise (relative to the power of the signal so far), gain; then features; then
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
#define SPSH_AUGMENT_MASKS_MAX        16 /* time masks; the same for frequency masks */
#define SPSH_AUGMENT_TEXT_BYTES_MAX   1024
#define SPSH_AUGMENT_ROOM_SAMPLES_MAX (UINT64_C(1) << 20) /* per RIR */

/** 0 in every field: no augmentation. */
typedef struct spsh_augment_options {
    size_t struct_size;
    uint32_t speed_count;
    uint32_t speeds[SPSH_AUGMENT_SPEEDS_MAX]; /* percent, 50 ... 200; drawn with equal probability;
                                                 as text: speeds=0.9:1:1.1 */
    float noise_probability;                  /* 0 ... 1 */
    float noise_snr_db_min, noise_snr_db_max; /* -60 ... 100, uniform */
    float room_probability;                   /* 0 ... 1 */
    float gain_probability;                   /* 0 ... 1 */
    float gain_db_min, gain_db_max;           /* -60 ... 60, uniform */
    uint32_t time_masks;                      /* 0 ... SPSH_AUGMENT_MASKS_MAX; masks may overlap */
    uint32_t time_mask_frames_max;    /* 0 ... 1,000,000; a mask has 0 ... this many, uniform */
    float time_mask_share_max;        /* maximum fraction of the frames per mask; 0: 1 */
    uint32_t frequency_masks;         /* 0 ... SPSH_AUGMENT_MASKS_MAX */
    uint32_t frequency_mask_bins_max; /* 0 ... 32768; a mask has 0 ... this many, uniform */
} spsh_augment_options;
#define SPSH_AUGMENT_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(spsh_augment_options), 0, {0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                   \
    }

/** Name of a preset, by number from 0; NULL after the last. Thread-safe. */
SPSH_API const char *spsh_augment_preset_name(uint32_t number);

/**
 * Parse options like spsh_feature_options_parse: a preset ("none", "specaugment-lb",
 * "specaugment-ld", "speed-perturb", "deepspeech"; docs/reference/FEATURES.md has the values), then
 * field=value, separated by commas. Without a preset, the fields change "none".
 *
 * @param options  written on success only
 * @return SPSH_OK, SPSH_E_SYNTAX, SPSH_E_NOT_FOUND, SPSH_E_LIMIT (too many speeds),
 * SPSH_E_INVALID_ARG (see spsh_augment_options_check). Thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_augment_options_parse(const char *text,
                                                               spsh_augment_options *options,
                                                               spsh_error *err);

/** Write the canonical text, like spsh_feature_options_text; shorter than
 * SPSH_AUGMENT_TEXT_BYTES_MAX. Thread-safe. */
SPSH_API size_t spsh_augment_options_text(const spsh_augment_options *options, char *text,
                                          size_t capacity_bytes);

/** SPSH_OK, or SPSH_E_INVALID_ARG with the field that is out of range. Thread-safe. */
SPSH_API SPSH_NODISCARD spsh_status spsh_augment_options_check(const spsh_augment_options *options,
                                                               spsh_error *err);

/** A 64-bit fraction: value / 2^64. It applies to a whole of any size. */
typedef uint64_t spsh_fraction;

/** fraction * whole / 2^64, rounded down: less than whole; 0 if whole is 0. Thread-safe. */
SPSH_API uint64_t spsh_fraction_of(spsh_fraction fraction, uint64_t whole);

typedef struct spsh_augment_mask_draw {
    spsh_fraction length, place; /* fractions of the maximum length and the remaining positions */
} spsh_augment_mask_draw;

/** All augmentation of an utterance in an epoch. Fields of unused kinds are 0. */
typedef struct spsh_augment_draw {
    uint32_t speed_percent; /* 100: unchanged */
    bool has_room, has_noise, has_gain;
    spsh_fraction room;        /* index of the RIR, as a fraction of their count */
    spsh_fraction noise;       /* index of the noise, as a fraction of their count */
    spsh_fraction noise_start; /* start in the noise, which is repeated if it is too short */
    float snr_db, gain_db;
    uint32_t time_masks, frequency_masks;
    uint32_t time_mask_frames_max, frequency_mask_bins_max; /* from the options */
    float time_mask_share_max;
    spsh_augment_mask_draw time[SPSH_AUGMENT_MASKS_MAX], frequency[SPSH_AUGMENT_MASKS_MAX];
    uint64_t reserved[8]; /* 0; for future kinds of augmentation */
} spsh_augment_draw;

/** Draw the augmentation of one utterance in one epoch. Thread-safe.
 *  @param options        must pass spsh_augment_options_check
 *  @param utterance_key  hash of the id: the same wherever the utterance is stored */
SPSH_API void spsh_augment_draw_make(const spsh_augment_options *options, uint64_t seed,
                                     uint64_t epoch, uint64_t utterance_key,
                                     spsh_augment_draw *ret_draw);

/** Samples after the change of speed: ceil(samples * 100 / speed_percent). Thread-safe. */
SPSH_API uint64_t spsh_augment_sample_count(const spsh_augment_draw *draw, uint64_t sample_count);

/** An utterance and the sounds to mix in; one channel each, at the utterance's rate. Borrowed
 * during the call. */
typedef struct spsh_augment_input {
    const int16_t *samples;
    uint64_t sample_count; /* before the change of speed */
    const int16_t *noise;  /* for has_noise; read from noise_start on and repeated */
    uint64_t noise_count, noise_start;
    const int16_t *room; /* for has_room: an RIR; its strongest sample is time 0 */
    uint64_t room_count;
} spsh_augment_input;

/** Tables and buffers of one thread. */
typedef struct spsh_augmenter spsh_augmenter;

/**
 * Open an augmenter.
 *
 * @param options           the options of the draws; copied
 * @param sample_count_max  longest utterance, before the change of speed. Memory: 4 bytes per
 *                          sample at the slowest speed, twice that with speeds or rooms
 * @param room_count_max    longest RIR, at most SPSH_AUGMENT_ROOM_SAMPLES_MAX; 0 without rooms.
 *                          Memory: 100 to 210 bytes per sample
 * @param allocator         NULL: malloc and free; copied
 * @return SPSH_OK, SPSH_E_NO_MEMORY, SPSH_E_INVALID_ARG
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_augmenter_open(
    const spsh_augment_options *options, uint64_t sample_count_max, uint64_t room_count_max,
    const spsh_allocator *allocator, spsh_augmenter **ret_augmenter, spsh_error *err);
/** NULL is fine. */
SPSH_API void spsh_augmenter_close(spsh_augmenter *augmenter);

/**
 * Apply speed, room, noise, and gain, in that order, in float; round to int16 once at the end and
 * clip. A draw without any of them copies the samples unchanged.
 *
 * @param out  spsh_augment_sample_count values; must not overlap the input
 * @return SPSH_OK; SPSH_E_INVALID_ARG, with out unchanged (a drawn sound is missing or empty, a
 * speed is not in the options, or something is longer than at open). Allocates nothing. One thread
 * per augmenter.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_augment_samples(spsh_augmenter *augmenter,
                                                         const spsh_augment_draw *draw,
                                                         const spsh_augment_input *input,
                                                         int16_t *out, spsh_error *err);

/** Number of samples of the last call that exceeded int16. */
SPSH_API uint64_t spsh_augmenter_clipped_count(const spsh_augmenter *augmenter);

/** First frame (bin) and length of time (frequency) mask `number`, from 0, for an utterance with
 * frame_count frames (dim bins). Thread-safe. */
SPSH_API void spsh_augment_time_mask(const spsh_augment_draw *draw, uint32_t number,
                                     uint64_t frame_count, uint64_t *ret_first,
                                     uint64_t *ret_count);
SPSH_API void spsh_augment_frequency_mask(const spsh_augment_draw *draw, uint32_t number,
                                          uint32_t dim, uint32_t *ret_first, uint32_t *ret_count);

/** Apply all masks: set the masked values of frame_count rows of dim to value. Thread-safe. */
SPSH_API void spsh_augment_mask(const spsh_augment_draw *draw, float *rows, uint64_t frame_count,
                                uint32_t dim, float value);

/** Facts about an utterance that spsh_augment_draw_json adds to a draw. */
typedef struct spsh_augment_subject {
    uint64_t sample_count;          /* before the change of speed */
    uint64_t frame_count;           /* feature frames, after it; 0: write no time masks */
    uint32_t dim;                   /* 0: write no frequency masks */
    const char *noise_id, *room_id; /* ids of the drawn sounds, UTF-8; NULL: not written */
    uint64_t noise_start;
    uint64_t reserved[4]; /* 0 */
} spsh_augment_subject;

/**
 * Write a draw as one line of JSON without a line feed, with only the changes that are applied:
 * {"speed": 0.9, "samples": 17778, "room": {"id": "hall-3"}, "noise": {"id": "cafe-1", "start": 52,
 * "snr_db": 12.5}, "gain_db": -3.25, "time_masks": [[12, 40]], "frequency_masks": [[3, 27]]}.
 * "samples" counts samples after the change of speed. Each mask is [first, count]; empty masks are
 * omitted. Numbers read back to identical bits.
 *
 * @return the length without the NUL. text ends with NUL and is truncated to capacity_bytes.
 * Thread-safe.
 */
SPSH_API size_t spsh_augment_draw_json(const spsh_augment_draw *draw,
                                       const spsh_augment_subject *subject, char *text,
                                       size_t capacity_bytes);

#ifdef __cplusplus
}
#endif

#endif
