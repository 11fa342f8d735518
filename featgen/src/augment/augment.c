/* augment.c: apply a draw to samples: speed, room, noise, gain.
 *
 *     samples --> float --> speed --> room, as loud as before --> + noise --> * gain --> int16
 *                 spare     work      spare, work                 work
 *
 * Levels are double-precision sums of squares in a fixed order. A level in decibels becomes a
 * factor using only additions and multiplications, as powers from libm differ in their last bits.
 */
#include <math.h>

#include "augmenter.h"
#include "speechshard/featgen.h"
#include "speechshard/inside.h"
#include "speechshard/options.h"

#define SAMPLE_COUNT_MAX (UINT64_C(1) << 36)

enum { SUMS = 8 };

/* ---- levels ---- */

/* 10^(db / 20). 2^f, |f| <= 1/2, is a series to the last bit or two. */
static double amplitude_of_db(double db)
{
    const double octaves = db * 0.16609640474436812; /* log2(10) / 20 */
    const double whole = floor(octaves + 0.5);
    const double x = (octaves - whole) * 0.69314718055994531; /* ln 2 */
    double sum = 1;
    for (int n = 16; n > 0; n--)
        sum = 1 + sum * (x / n);
    return ldexp(sum, (int)whole);
}

static double square_sum(const float *x, uint64_t count)
{
    double sums[SUMS] = {0};
    const uint64_t whole = count / SUMS * SUMS;
    for (uint64_t i = 0; i < whole; i += SUMS)
        for (uint64_t part = 0; part < SUMS; part++)
            sums[part] += (double)x[i + part] * (double)x[i + part];
    for (uint64_t i = whole; i < count; i++)
        sums[i - whole] += (double)x[i] * (double)x[i];
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) +
           ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/* The sum is exact, because it has integers only. */
static uint64_t noise_square_sum(const int16_t *noise, uint64_t count)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        const int32_t value = noise[i];
        sum += (uint32_t)(value * value);
    }
    return sum;
}

/* ---- kinds ---- */

static const spsh__resampler *resampler_of(const spsh_augmenter *augmenter, uint32_t percent)
{
    for (uint32_t i = 0; i < augmenter->resampler_count; i++)
        if (augmenter->resamplers[i].percent == percent)
            return &augmenter->resamplers[i];
    return NULL;
}

/* Change the samples to the drawn speed, into work. Return the number of samples there. */
static uint64_t change_speed(spsh_augmenter *augmenter, const spsh_augment_draw *draw,
                             const spsh_augment_input *input)
{
    const spsh__resampler *resampler = resampler_of(augmenter, draw->speed_percent);
    const uint64_t count = spsh_augment_sample_count(draw, input->sample_count);
    if (resampler == NULL) {
        augmenter->isa->from_i16_fn(input->samples, count, augmenter->work);
        return count;
    }
    float *first = augmenter->spare + resampler->half;
    memset(augmenter->spare, 0, resampler->half * sizeof(float));
    augmenter->isa->from_i16_fn(input->samples, input->sample_count, first);
    memset(first + input->sample_count, 0, resampler->half * sizeof(float));
    augmenter->isa->resample_fn(resampler, first, count, augmenter->work);
    return count;
}

static void enter_room(spsh_augmenter *augmenter, const spsh_augment_input *input, uint64_t count)
{
    const spsh__signal_span dry = {augmenter->work, count};
    const double before = square_sum(augmenter->work, count);
    spsh__room_convolve(&augmenter->room, augmenter->isa, input->room, input->room_count, dry,
                        augmenter->spare);
    const double after = square_sum(augmenter->spare, count);
    if (before == 0 || after == 0)
        return; /* a silent signal or response: unchanged */
    augmenter->isa->scale_fn(augmenter->spare, count, (float)sqrt(before / after), augmenter->work);
}

/* Return the length of the next stretch of noise from *at, at most `count`. *at advances past
 * it. */
static uint64_t next_stretch(const spsh_augment_input *input, uint64_t *at, uint64_t count)
{
    if (*at == input->noise_count)
        *at = 0;
    const uint64_t left = input->noise_count - *at;
    const uint64_t stretch = left < count ? left : count;
    *at += stretch;
    return stretch;
}

static void add_noise(spsh_augmenter *augmenter, const spsh_augment_draw *draw,
                      const spsh_augment_input *input, uint64_t count)
{
    const double speech = square_sum(augmenter->work, count);
    uint64_t noise = 0;
    uint64_t at = input->noise_start;
    for (uint64_t done = 0, stretch = 0; done < count; done += stretch) {
        stretch = next_stretch(input, &at, count - done);
        noise += noise_square_sum(input->noise + at - stretch, stretch);
    }
    if (speech == 0 || noise == 0)
        return; /* there is no ratio */
    const float scale =
        (float)(sqrt(speech / (double)noise) * amplitude_of_db(-(double)draw->snr_db));
    at = input->noise_start;
    for (uint64_t done = 0, stretch = 0; done < count; done += stretch) {
        stretch = next_stretch(input, &at, count - done);
        augmenter->isa->add_fn(input->noise + at - stretch, stretch, scale, augmenter->work + done);
    }
}

/* ---- augmenter ---- */

static spsh_status check_input(const spsh_augmenter *augmenter, const spsh_augment_draw *draw,
                               const spsh_augment_input *input, spsh_error *err)
{
    if (input->sample_count > augmenter->sample_count_max)
        return SPSH_FAIL(
            err, SPSH_E_INVALID_ARG,
            "augmentation: an utterance of %llu samples exceeds the limit set at open, %llu",
            (unsigned long long)input->sample_count,
            (unsigned long long)augmenter->sample_count_max);
    if (draw->speed_percent != 100 && resampler_of(augmenter, draw->speed_percent) == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "augmentation: a speed of %u %% is not one of the options' speeds",
                         draw->speed_percent);
    if (draw->has_noise && (input->noise == NULL || input->noise_start >= input->noise_count))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "augmentation: noise is missing, or has no sample at its start");
    if (draw->has_room && (input->room == NULL || input->room_count == 0 ||
                           input->room_count > augmenter->room_count_max))
        return SPSH_FAIL(
            err, SPSH_E_INVALID_ARG,
            "augmentation: a room impulse response has %llu samples, must have 1 to %llu",
            (unsigned long long)(input->room == NULL ? 0 : input->room_count),
            (unsigned long long)augmenter->room_count_max);
    return SPSH_OK;
}

spsh_status spsh_augment_samples(spsh_augmenter *augmenter, const spsh_augment_draw *draw,
                                 const spsh_augment_input *input, int16_t *out, spsh_error *err)
{
    const spsh_status rc = check_input(augmenter, draw, input, err);
    if (rc != SPSH_OK)
        return rc;
    augmenter->clipped_count = 0;
    if (input->sample_count == 0)
        return SPSH_OK;
    if (draw->speed_percent == 100 && !draw->has_room && !draw->has_noise && !draw->has_gain) {
        memcpy(out, input->samples, input->sample_count * sizeof(*out));
        return SPSH_OK;
    }
    const uint64_t count = change_speed(augmenter, draw, input);
    if (draw->has_room)
        enter_room(augmenter, input, count);
    if (draw->has_noise)
        add_noise(augmenter, draw, input, count);
    const float gain = draw->has_gain ? (float)amplitude_of_db((double)draw->gain_db) : 1;
    augmenter->clipped_count = augmenter->isa->to_i16_fn(augmenter->work, count, gain, out);
    return SPSH_OK;
}

uint64_t spsh_augmenter_clipped_count(const spsh_augmenter *augmenter)
{
    return augmenter->clipped_count;
}

/* Open one resampler for each distinct speed except 100. */
static spsh_status open_resamplers(spsh_augmenter *augmenter, const spsh_augment_options *options,
                                   spsh_error *err)
{
    for (uint32_t i = 0; i < options->speed_count; i++) {
        const uint32_t percent = options->speeds[i];
        if (percent == 100 || resampler_of(augmenter, percent) != NULL)
            continue;
        spsh__resampler *resampler = &augmenter->resamplers[augmenter->resampler_count];
        spsh_status rc = spsh__resampler_open(&augmenter->allocator, percent, resampler, err);
        if (rc != SPSH_OK)
            return rc;
        augmenter->resampler_count++;
        if (resampler->half > augmenter->margin)
            augmenter->margin = resampler->half;
    }
    return SPSH_OK;
}

static spsh_status open_buffers(spsh_augmenter *augmenter, spsh_error *err)
{
    spsh_augment_draw slowest = {.speed_percent = 100};
    for (uint32_t i = 0; i < augmenter->resampler_count; i++)
        if (augmenter->resamplers[i].percent < slowest.speed_percent)
            slowest.speed_percent = augmenter->resamplers[i].percent;
    const uint64_t work_count = spsh_augment_sample_count(&slowest, augmenter->sample_count_max);
    uint64_t spare_count = augmenter->resampler_count == 0
                               ? 0
                               : augmenter->sample_count_max + 2 * (uint64_t)augmenter->margin;
    if (augmenter->room_count_max > 0 && work_count > spare_count)
        spare_count = work_count;
    augmenter->work = spsh__new(&augmenter->allocator, work_count, sizeof(float));
    augmenter->spare = spsh__new(&augmenter->allocator, spare_count, sizeof(float));
    if (augmenter->work == NULL || augmenter->spare == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "augmentation: buffers for %llu samples",
                         (unsigned long long)(work_count + spare_count));
    return SPSH_OK;
}

spsh_status spsh_augmenter_open(const spsh_augment_options *options, uint64_t sample_count_max,
                                uint64_t room_count_max, const spsh_allocator *allocator,
                                spsh_augmenter **ret_augmenter, spsh_error *err)
{
    spsh_augmenter *augmenter = NULL;
    spsh_augment_options known = SPSH_AUGMENT_OPTIONS_INIT;
    spsh_status rc = spsh_options_take(options, &known, sizeof(known), err);
    if (rc == SPSH_OK)
        rc = spsh_augment_options_check(&known, err);
    if (rc != SPSH_OK)
        return rc;
    if (sample_count_max > SAMPLE_COUNT_MAX || room_count_max > SPSH_AUGMENT_ROOM_SAMPLES_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "augmentation: utterances of %llu samples and responses of %llu samples "
                         "exceed the limits, %llu and %llu",
                         (unsigned long long)sample_count_max, (unsigned long long)room_count_max,
                         (unsigned long long)SAMPLE_COUNT_MAX,
                         (unsigned long long)SPSH_AUGMENT_ROOM_SAMPLES_MAX);
    if (allocator == NULL)
        allocator = spsh_allocator_default();
    augmenter = spsh__new(allocator, 1, sizeof(*augmenter));
    if (augmenter == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "augmentation: %zu bytes", sizeof(*augmenter));
    augmenter->allocator = *allocator;
    augmenter->isa = spsh__augment_isa_best();
    augmenter->sample_count_max = sample_count_max;
    augmenter->room_count_max = room_count_max;
    rc = open_resamplers(augmenter, &known, err);
    if (rc == SPSH_OK && room_count_max > 0)
        rc = spsh__room_open(&augmenter->allocator, room_count_max, &augmenter->room, err);
    if (rc == SPSH_OK)
        rc = open_buffers(augmenter, err);
    if (rc != SPSH_OK)
        goto out;
    *ret_augmenter = augmenter;
    augmenter = NULL;
out:
    spsh_augmenter_close(augmenter);
    return rc;
}

void spsh_augmenter_close(spsh_augmenter *augmenter)
{
    if (augmenter == NULL)
        return;
    const spsh_allocator allocator = augmenter->allocator;
    for (uint32_t i = 0; i < augmenter->resampler_count; i++)
        spsh__resampler_close(&allocator, &augmenter->resamplers[i]);
    spsh__room_close(&allocator, &augmenter->room);
    spsh__free(&allocator, augmenter->work);
    spsh__free(&allocator, augmenter->spare);
    spsh__free(&allocator, augmenter);
}
