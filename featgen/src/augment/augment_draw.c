/* augment_draw.c: draw the augmentation of an utterance in an epoch, and the positions of masks.
 *
 * Every number is draw(seed, epoch, utterance's key, kind * 65536 + number) of LOADER.md,
 * section 2, so the numbers are independent of each other. FEATURES.md lists kinds and
 * numbers. The loader draws the order of utterances only with numbers of kind 0.
 */
#include <math.h>

#include "speechshard/augment.h"
#include "speechshard/featgen.h"
#include "speechshard/inside.h"
#include "speechshard/options.h"

typedef enum draw_kind {
    DRAW_SPEED = 1, /* 0: which */
    DRAW_NOISE = 2, /* 0: whether, 1: which, 2: where, 3: how loud */
    DRAW_ROOM = 3,  /* 0: whether, 1: which */
    DRAW_GAIN = 4,  /* 0: whether, 1: how much */
    DRAW_TIME = 5,  /* 2 i: length of mask i, 2 i + 1: its place */
    DRAW_FREQUENCY = 6,
} draw_kind;

/* Key of the random numbers of an utterance in an epoch. */
typedef struct draw_key {
    uint64_t seed, epoch, utterance;
} draw_key;

static uint64_t draw_number(const draw_key *key, draw_kind kind, uint32_t number)
{
    const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = spsh__mix64(key->seed + golden);
    x = spsh__mix64(x ^ (key->epoch + golden));
    x = spsh__mix64(x ^ (key->utterance + golden));
    return spsh__mix64(x ^ (((uint64_t)kind << 16 | number) + golden));
}

/* 0 <= u < 1, of 53 bits. */
static double draw_unit(const draw_key *key, draw_kind kind, uint32_t number)
{
    return (double)(draw_number(key, kind, number) >> 11) * 0x1p-53;
}

static bool draw_chance(const draw_key *key, draw_kind kind, float probability)
{
    return draw_unit(key, kind, 0) < (double)probability;
}

/* In double, rounded once: never out of the range. */
static float draw_between(const draw_key *key, draw_kind kind, uint32_t number, float min,
                          float max)
{
    const double width = (double)max - (double)min;
    return (float)((double)min + width * draw_unit(key, kind, number));
}

static void draw_masks(const draw_key *key, draw_kind kind, uint32_t count,
                       spsh_augment_mask_draw *masks)
{
    for (uint32_t i = 0; i < count; i++) {
        masks[i].length = draw_number(key, kind, 2 * i);
        masks[i].place = draw_number(key, kind, 2 * i + 1);
    }
}

uint64_t spsh_fraction_of(spsh_fraction fraction, uint64_t whole)
{
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)(((wide)fraction * whole) >> 64);
}

void spsh_augment_draw_make(const spsh_augment_options *options, uint64_t seed, uint64_t epoch,
                            uint64_t utterance_key, spsh_augment_draw *ret_draw)
{
    spsh_augment_options o = SPSH_AUGMENT_OPTIONS_INIT;
    (void)(spsh_options_take(options, &o, sizeof(o), NULL) == SPSH_OK);
    const draw_key key = {seed, epoch, utterance_key};
    spsh_augment_draw draw = {
        .speed_percent = 100,
        .has_room = draw_chance(&key, DRAW_ROOM, o.room_probability),
        .has_noise = draw_chance(&key, DRAW_NOISE, o.noise_probability),
        .has_gain = draw_chance(&key, DRAW_GAIN, o.gain_probability),
        .time_masks = o.time_masks,
        .frequency_masks = o.frequency_masks,
        .time_mask_frames_max = o.time_mask_frames_max,
        .frequency_mask_bins_max = o.frequency_mask_bins_max,
        .time_mask_share_max = o.time_mask_share_max,
    };
    if (o.speed_count > 0) {
        const uint64_t number = draw_number(&key, DRAW_SPEED, 0);
        draw.speed_percent = o.speeds[spsh_fraction_of(number, o.speed_count)];
    }
    if (draw.has_room)
        draw.room = draw_number(&key, DRAW_ROOM, 1);
    if (draw.has_noise) {
        draw.noise = draw_number(&key, DRAW_NOISE, 1);
        draw.noise_start = draw_number(&key, DRAW_NOISE, 2);
        draw.snr_db = draw_between(&key, DRAW_NOISE, 3, o.noise_snr_db_min, o.noise_snr_db_max);
    }
    if (draw.has_gain)
        draw.gain_db = draw_between(&key, DRAW_GAIN, 1, o.gain_db_min, o.gain_db_max);
    draw_masks(&key, DRAW_TIME, draw.time_masks, draw.time);
    draw_masks(&key, DRAW_FREQUENCY, draw.frequency_masks, draw.frequency);
    *ret_draw = draw;
}

uint64_t spsh_augment_sample_count(const spsh_augment_draw *draw, uint64_t sample_count)
{
    const uint64_t percent = draw->speed_percent;
    const uint64_t whole = sample_count / percent;
    return whole * 100 + (sample_count % percent * 100 + percent - 1) / percent;
}

/* ---- masks ---- */

void spsh_augment_time_mask(const spsh_augment_draw *draw, uint32_t number, uint64_t frame_count,
                            uint64_t *ret_first, uint64_t *ret_count)
{
    const spsh_augment_mask_draw *mask = &draw->time[number];
    const float share = draw->time_mask_share_max > 0 ? draw->time_mask_share_max : 1;
    const float most = floorf((float)frame_count * share);
    uint64_t longest = draw->time_mask_frames_max;
    if (most < (float)longest)
        longest = (uint64_t)most;
    if (frame_count < longest)
        longest = frame_count;
    *ret_count = spsh_fraction_of(mask->length, longest + 1);
    *ret_first = spsh_fraction_of(mask->place, frame_count - *ret_count + 1);
}

void spsh_augment_frequency_mask(const spsh_augment_draw *draw, uint32_t number, uint32_t dim,
                                 uint32_t *ret_first, uint32_t *ret_count)
{
    const spsh_augment_mask_draw *mask = &draw->frequency[number];
    const uint64_t highest =
        dim < draw->frequency_mask_bins_max ? dim : draw->frequency_mask_bins_max;
    *ret_count = (uint32_t)spsh_fraction_of(mask->length, highest + 1);
    *ret_first = (uint32_t)spsh_fraction_of(mask->place, (uint64_t)dim - *ret_count + 1);
}

void spsh_augment_mask(const spsh_augment_draw *draw, float *rows, uint64_t frame_count,
                       uint32_t dim, float value)
{
    for (uint32_t i = 0; i < draw->time_masks; i++) {
        uint64_t first = 0;
        uint64_t count = 0;
        spsh_augment_time_mask(draw, i, frame_count, &first, &count);
        for (uint64_t at = first * dim; at < (first + count) * dim; at++)
            rows[at] = value;
    }
    for (uint32_t i = 0; i < draw->frequency_masks; i++) {
        uint32_t first = 0;
        uint32_t count = 0;
        spsh_augment_frequency_mask(draw, i, dim, &first, &count);
        for (uint64_t frame = 0; frame < frame_count; frame++)
            for (uint32_t bin = first; bin < first + count; bin++)
                rows[frame * dim + bin] = value;
    }
}
