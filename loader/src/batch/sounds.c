/* sounds.c: find the sound that a fraction selects, and read a part of it, mixed to one channel and
 * resampled.
 *
 * Let a noise have n samples, of which m are needed, both at the noise's rate. It starts at sample
 * fraction * n and wraps around at its end. If n > m, m samples are read in at most two pieces and
 * then resampled by themselves. Otherwise all n samples are resampled to n' samples, and the noise
 * starts at sample fraction * n'.
 */
#include "sounds.h"

#include <math.h>

#include "render.h"
#include "speechshard/features.h"

#define ULL(value_) ((unsigned long long)(value_))
#define NONE        SPSH_OFFSET_NONE

/* ---- datasets ---- */

static spsh_status check_dataset(spsh__sounds *sounds, const spsh_dataset *dataset, spsh_error *err)
{
    const uint64_t groups = spsh_dataset_group_count(dataset);
    spsh_features_description described = SPSH_FEATURES_DESCRIPTION_INIT;
    if (spsh_features_dataset(dataset, &described, NULL) != SPSH_E_NOT_FOUND)
        return SPSH_FAIL_AT(err, SPSH_E_INVALID_ARG, NONE,
                            "loader options: %.400s holds features, but a %s must be audio",
                            spsh_dataset_path(dataset), sounds->what);
    for (uint64_t n = 0; n < groups; n++) {
        spsh_dataset_group group;
        spsh_status rc = spsh_dataset_group_get(dataset, n, &group, err);
        if (rc != SPSH_OK)
            return rc;
        if (group.sample_rate_hz > sounds->rate_hz_max)
            sounds->rate_hz_max = group.sample_rate_hz;
    }
    sounds->utterance_count += spsh_dataset_info_get(dataset)->utterance_count;
    return SPSH_OK;
}

spsh_status spsh__sounds_open(spsh__sounds *sounds, const char *what,
                              const spsh_dataset *const *datasets, uint32_t dataset_count,
                              const spsh_allocator *allocator, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    *sounds = (spsh__sounds){.what = what, .allocator = allocator};
    if (dataset_count == 0)
        return SPSH_OK;
    if (datasets == NULL || dataset_count > SPSH_PLAN_DATASETS_MAX)
        return SPSH_FAIL_AT(err, SPSH_E_INVALID_ARG, NONE,
                            "loader options: %u datasets of %ss are too many", dataset_count, what);
    sounds->datasets =
        (const spsh_dataset **)spsh__new(allocator, dataset_count, sizeof(spsh_dataset *));
    if (sounds->datasets == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE, "loader: %u datasets", dataset_count);
    for (uint32_t n = 0; n < dataset_count && rc == SPSH_OK; n++) {
        if (datasets[n] == NULL)
            return SPSH_FAIL_AT(err, SPSH_E_INVALID_ARG, NONE,
                                "loader options: %s dataset %u is NULL", what, n);
        sounds->datasets[sounds->dataset_count++] = datasets[n];
        rc = check_dataset(sounds, datasets[n], err);
    }
    if (rc == SPSH_OK && sounds->utterance_count == 0)
        rc = SPSH_FAIL_AT(err, SPSH_E_NOT_FOUND, NONE, "loader options: found no %s in %.400s",
                          what, spsh_dataset_path(datasets[0]));
    return rc;
}

void spsh__sounds_close(spsh__sounds *sounds)
{
    if (sounds->allocator != NULL)
        spsh__free(sounds->allocator, (void *)sounds->datasets);
    *sounds = (spsh__sounds){.what = NULL};
}

uint32_t spsh__sounds_find(const spsh__sounds *sounds, spsh_fraction which,
                           const spsh_dataset **ret_dataset, uint64_t *ret_position)
{
    uint64_t position = spsh_fraction_of(which, sounds->utterance_count);
    uint32_t number = 0;
    for (;; number++) {
        const uint64_t count = spsh_dataset_info_get(sounds->datasets[number])->utterance_count;
        if (position < count || number + 1 == sounds->dataset_count)
            break;
        position -= count;
    }
    *ret_dataset = sounds->datasets[number];
    *ret_position = position;
    return number;
}

/* ---- memory ---- */

spsh_status spsh__sound_reader_open(spsh__sound_reader *reader, const spsh__sounds *sounds,
                                    double seconds_max, uint32_t rate_hz_max, spsh__budget *budget,
                                    spsh_error *err)
{
    /* Resampling rounds up, once to the sound's rate and once back. */
    const double stored = ceil(seconds_max * sounds->rate_hz_max) + 2;
    const double pcm = ceil(seconds_max * rate_hz_max) + 2 +
                       2 * (double)rate_hz_max / (double)SPSH_SAMPLE_RATE_HZ_MIN;
    *reader = (spsh__sound_reader){.budget = budget};
    if (sounds->utterance_count == 0)
        return SPSH_OK;
    reader->sounds = sounds;
    reader->stored_max = (uint64_t)stored;
    reader->pcm_max = (uint64_t)pcm;
    reader->readers =
        (spsh_reader **)spsh__new(sounds->allocator, sounds->dataset_count, sizeof(spsh_reader *));
    reader->chunk = (uint8_t *)spsh__budget_take(budget, SPSH__CHUNK_BYTES);
    reader->stored = (int16_t *)spsh__budget_take(budget, reader->stored_max * sizeof(int16_t));
    reader->pcm = (int16_t *)spsh__budget_take(budget, reader->pcm_max * sizeof(int16_t));
    if (reader->readers == NULL || reader->chunk == NULL || reader->stored == NULL ||
        reader->pcm == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE,
                            "loader: memory for a %s of %.1f s in a decode thread", sounds->what,
                            seconds_max);
    return SPSH_OK;
}

void spsh__sound_reader_close(spsh__sound_reader *reader)
{
    const spsh__sounds *sounds = reader->sounds;
    if (sounds == NULL)
        return;
    for (uint32_t n = 0; reader->readers != NULL && n < sounds->dataset_count; n++)
        spsh_reader_close(reader->readers[n]);
    spsh__free(sounds->allocator, (void *)reader->readers);
    spsh__budget_give(reader->budget, reader->chunk, SPSH__CHUNK_BYTES);
    spsh__budget_give(reader->budget, reader->stored, reader->stored_max * sizeof(int16_t));
    spsh__budget_give(reader->budget, reader->pcm, reader->pcm_max * sizeof(int16_t));
    reader->sounds = NULL;
}

/* ---- one sound ---- */

typedef struct found_sound {
    spsh_reader *reader;
    const spsh_dataset *dataset;
    uint64_t position;
    spsh_row row;
} found_sound;

static spsh_status find(spsh__sound_reader *reader, spsh_fraction which, found_sound *ret_found,
                        spsh_error *err)
{
    const spsh__sounds *sounds = reader->sounds;
    const spsh_dataset *dataset = NULL;
    uint64_t position = 0;
    const uint32_t number = spsh__sounds_find(sounds, which, &dataset, &position);
    spsh_status rc = spsh_dataset_rows(dataset, position, 1, &ret_found->row, err);
    if (rc == SPSH_OK &&
        (ret_found->row.sample_rate_hz > sounds->rate_hz_max ||
         ret_found->row.sample_rate_hz < SPSH_SAMPLE_RATE_HZ_MIN || ret_found->row.channels == 0 ||
         ret_found->row.channels > SPSH_CHANNELS_MAX))
        rc = SPSH_FAIL_AT(err, SPSH_E_CORRUPT, NONE,
                          "%.200s: utterance number %llu: the index states %u channels at %u Hz, "
                          "which is impossible",
                          spsh_dataset_path(dataset), ULL(position), ret_found->row.channels,
                          ret_found->row.sample_rate_hz);
    if (rc == SPSH_OK && reader->readers[number] == NULL)
        rc = spsh_reader_open(dataset, &reader->readers[number], err);
    ret_found->reader = reader->readers[number];
    ret_found->dataset = dataset;
    ret_found->position = position;
    return rc;
}

/* Read samples [first, first + count), averaged over the channels. */
static spsh_status pull(const spsh__sound_reader *reader, const found_sound *found, uint64_t first,
                        uint64_t count, int16_t *dst, spsh_error *err)
{
    const uint32_t channels = found->row.channels;
    const uint64_t fit = SPSH__CHUNK_BYTES / (sizeof(int16_t) * channels);
    int16_t *chunk = (int16_t *)(void *)reader->chunk;
    spsh_status rc = SPSH_OK;
    for (uint64_t done = 0; done < count && rc == SPSH_OK;) {
        const uint64_t left = count - done;
        const bool is_mono = channels == 1;
        uint64_t got = 0;
        rc = spsh_reader_read_i16(found->reader, found->position, first + done,
                                  is_mono ? dst + done : chunk, is_mono || left < fit ? left : fit,
                                  &got, err);
        if (rc == SPSH_OK && got == 0)
            rc = SPSH_FAIL_AT(err, SPSH_E_AUDIO, NONE,
                              "%.200s: utterance number %llu: %llu samples are missing",
                              spsh_dataset_path(found->dataset), ULL(found->position), ULL(left));
        if (rc == SPSH_OK && !is_mono)
            spsh_mix_i16(chunk, got, channels, dst + done);
        done += got;
    }
    return rc;
}

/* Resample `count` stored samples to rate_hz. */
static spsh_status resample(const spsh__sound_reader *reader, const found_sound *found,
                            uint64_t count, uint32_t rate_hz, spsh__sound *ret_sound,
                            spsh_error *err)
{
    *ret_sound = (spsh__sound){.pcm = reader->stored, .sample_count = count};
    if (count == 0 || found->row.sample_rate_hz == rate_hz)
        return SPSH_OK;
    ret_sound->pcm = reader->pcm;
    return spsh_resample_i16(reader->stored, count, 1, found->row.sample_rate_hz, rate_hz,
                             reader->pcm, reader->pcm_max, &ret_sound->sample_count, err);
}

spsh_status spsh__sound_read_noise(spsh__sound_reader *reader, const spsh_augment_draw *draw,
                                   uint32_t rate_hz, uint64_t sample_count, spsh__sound *ret_sound,
                                   spsh_error *err)
{
    found_sound found;
    spsh_status rc = find(reader, draw->noise, &found, err);
    if (rc != SPSH_OK)
        return rc;
    const uint64_t length = found.row.samples;
    const uint64_t wanted =
        (sample_count * found.row.sample_rate_hz + rate_hz - 1) / rate_hz; /* cannot overflow */
    const bool is_part = length > wanted;
    const uint64_t count = is_part ? wanted : length;
    const uint64_t first = is_part ? spsh_fraction_of(draw->noise_start, length) : 0;
    const uint64_t to_end = length - first < count ? length - first : count;
    if (count > reader->stored_max)
        return SPSH_FAIL_AT(err, SPSH_E_LIMIT, NONE,
                            "%llu samples of noise are needed, but at most %llu fit", ULL(count),
                            ULL(reader->stored_max));
    rc = pull(reader, &found, first, to_end, reader->stored, err);
    if (rc == SPSH_OK)
        rc = pull(reader, &found, 0, count - to_end, reader->stored + to_end, err);
    if (rc == SPSH_OK)
        rc = resample(reader, &found, count, rate_hz, ret_sound, err);
    if (rc == SPSH_OK && !is_part)
        ret_sound->start = spsh_fraction_of(draw->noise_start, ret_sound->sample_count);
    return rc;
}

uint64_t spsh__room_samples_max(uint32_t rate_hz)
{
    const uint64_t count = (uint64_t)SPSH_LOADER_ROOM_SECONDS * rate_hz;
    return count < SPSH_AUGMENT_ROOM_SAMPLES_MAX ? count : SPSH_AUGMENT_ROOM_SAMPLES_MAX;
}

spsh_status spsh__sound_read_room(spsh__sound_reader *reader, const spsh_augment_draw *draw,
                                  uint32_t rate_hz, spsh__sound *ret_sound, spsh_error *err)
{
    found_sound found;
    spsh_status rc = find(reader, draw->room, &found, err);
    if (rc != SPSH_OK)
        return rc;
    const uint64_t most = (uint64_t)SPSH_LOADER_ROOM_SECONDS * found.row.sample_rate_hz;
    const uint64_t count = found.row.samples < most ? found.row.samples : most;
    rc = pull(reader, &found, 0, count, reader->stored, err);
    if (rc == SPSH_OK)
        rc = resample(reader, &found, count, rate_hz, ret_sound, err);
    if (rc == SPSH_OK && ret_sound->sample_count > spsh__room_samples_max(rate_hz))
        ret_sound->sample_count = spsh__room_samples_max(rate_hz);
    return rc;
}
