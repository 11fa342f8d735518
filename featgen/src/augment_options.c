/* augment_options.c: presets of augmentation, and its options as text. */
#include "featgen_internal.h"
#include "field_text.h"
#include "speechshard/augment.h"

/* ---- presets ---- */

typedef struct preset {
    const char *name;
    spsh_augment_options options;
} preset;

static const preset presets[] = {
    {"none",           SPSH_AUGMENT_OPTIONS_INIT                                              },
 /* Park et al., SpecAugment, 2019, table 1: LibriSpeech basic, without the time warp. */
    {"specaugment-lb",
     {.struct_size = sizeof(spsh_augment_options),
      .time_masks = 1,
      .time_mask_frames_max = 100,
      .time_mask_share_max = 1,
      .frequency_masks = 1,
      .frequency_mask_bins_max = 27}                                                          },
 /* ... LibriSpeech double. */
    {"specaugment-ld",
     {.struct_size = sizeof(spsh_augment_options),
      .time_masks = 2,
      .time_mask_frames_max = 100,
      .time_mask_share_max = 1,
      .frequency_masks = 2,
      .frequency_mask_bins_max = 27}                                                          },
 /* Ko et al., Audio augmentation for speech recognition, 2015: Kaldi's recipes. */
    {"speed-perturb",
     {.struct_size = sizeof(spsh_augment_options), .speed_count = 3, .speeds = {90, 100, 110}}},
 /* The defaults of deepspeech.pytorch, as near as these kinds come to them. */
    {"deepspeech",
     {.struct_size = sizeof(spsh_augment_options),
      .speed_count = 7,
      .speeds = {85, 90, 95, 100, 105, 110, 115},
      .noise_probability = 0.4F,
      .noise_snr_db_min = 6,
      .noise_snr_db_max = 40,
      .gain_probability = 1,
      .gain_db_min = -6,
      .gain_db_max = 8,
      .time_masks = 1,
      .time_mask_frames_max = 69,
      .time_mask_share_max = 1,
      .frequency_masks = 1,
      .frequency_mask_bins_max = 26}                                                          },
};

enum { PRESET_COUNT = sizeof presets / sizeof presets[0] };

const char *spsh_augment_preset_name(uint32_t number)
{
    return number < PRESET_COUNT ? presets[number].name : NULL;
}

static const preset *preset_named(const char *name, size_t size)
{
    for (size_t i = 0; i < PRESET_COUNT; i++)
        if (strlen(presets[i].name) == size && memcmp(presets[i].name, name, size) == 0)
            return &presets[i];
    return NULL;
}

static spsh_status unknown_preset(const char *name, size_t size, spsh_error *err)
{
    const char *names[PRESET_COUNT];
    for (size_t i = 0; i < PRESET_COUNT; i++)
        names[i] = presets[i].name;
    const char *nearest = spsh__nearest_word(name, size, names, PRESET_COUNT);
    return SPSH_FAIL(err, SPSH_E_NOT_FOUND, "unknown preset of augmentation '%.*s'%s%s%s",
                     (int)size, name, nearest == NULL ? "" : "; did you mean '",
                     nearest == NULL ? "" : nearest, nearest == NULL ? "" : "'?");
}

/* ---- text ---- */

#define AT(field_) .name = #field_, .offset = offsetof(spsh_augment_options, field_)
#define WHOLE(field_, b_)                                                                          \
    {                                                                                              \
        AT(field_), .kind = SPSH__FIELD_U32, .min = 0, .max = (b_)                                 \
    }
#define REAL(field_, a_, b_)                                                                       \
    {                                                                                              \
        AT(field_), .kind = SPSH__FIELD_FLOAT, .min = (a_), .max = (b_)                            \
    }

static const spsh__field fields[] = {
    {.name = "speeds",
     .offset = offsetof(spsh_augment_options, speed_count),
     .kind = SPSH__FIELD_PERCENTS,
     .min = 50,
     .max = 200,
     .count_max = SPSH_AUGMENT_SPEEDS_MAX},
    REAL(noise_probability, 0, 1),
    REAL(noise_snr_db_min, -60, 100),
    REAL(noise_snr_db_max, -60, 100),
    REAL(room_probability, 0, 1),
    REAL(gain_probability, 0, 1),
    REAL(gain_db_min, -60, 60),
    REAL(gain_db_max, -60, 60),
    WHOLE(time_masks, SPSH_AUGMENT_MASKS_MAX),
    WHOLE(time_mask_frames_max, 1000000),
    REAL(time_mask_share_max, 0, 1),
    WHOLE(frequency_masks, SPSH_AUGMENT_MASKS_MAX),
    WHOLE(frequency_mask_bins_max, 32768),
};

static const spsh__field_table table = {"augmentation", fields, sizeof fields / sizeof fields[0]};

_Static_assert(offsetof(spsh_augment_options, speeds) ==
                   offsetof(spsh_augment_options, speed_count) + sizeof(uint32_t),
               "percents lie behind their count");

spsh_status spsh_augment_options_parse(const char *text, spsh_augment_options *options,
                                       spsh_error *err)
{
    spsh_augment_options parsed = presets[0].options;
    const size_t first = strcspn(text, ",");
    const char *rest = text;
    if (first > 0 && memchr(text, '=', first) == NULL) {
        const preset *found = preset_named(text, first);
        if (found == NULL)
            return unknown_preset(text, first, err);
        parsed = found->options;
        rest += first + (text[first] == ',' ? 1 : 0);
    }
    spsh_status rc = spsh__fields_parse(&table, rest, &parsed, err);
    if (rc == SPSH_OK)
        rc = spsh_augment_options_check(&parsed, err);
    if (rc == SPSH_OK)
        *options = parsed;
    return rc;
}

size_t spsh_augment_options_text(const spsh_augment_options *options, char *text,
                                 size_t capacity_bytes)
{
    return spsh__fields_text(&table, options, text, capacity_bytes);
}

/* ---- checking ---- */

static spsh_status check_range(const char *name, float min, float max, spsh_error *err)
{
    if (min > max)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "augmentation: %s_min is %.9g, above %s_max, %.9g", name, (double)min,
                         name, (double)max);
    return SPSH_OK;
}

spsh_status spsh_augment_options_check(const spsh_augment_options *options, spsh_error *err)
{
    if (options->struct_size != sizeof *options)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "augmentation: struct_size is %zu, not %zu",
                         options->struct_size, sizeof *options);
    spsh_status rc = spsh__fields_check(&table, options, err);
    if (rc == SPSH_OK)
        rc = check_range("noise_snr_db", options->noise_snr_db_min, options->noise_snr_db_max, err);
    if (rc == SPSH_OK)
        rc = check_range("gain_db", options->gain_db_min, options->gain_db_max, err);
    return rc;
}
