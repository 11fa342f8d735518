/* augment_options.c: presets of augmentation, and its options as strings. */
#include "options/field_text.h"
#include "speechshard/augment.h"
#include "speechshard/featgen.h"
#include "speechshard/inside.h"
#include "speechshard/options.h"

/* ---- presets ---- */

static const spsh_augment_options none = SPSH_AUGMENT_OPTIONS_INIT;

/* Park et al., SpecAugment, 2019, table 1: LibriSpeech basic, without the time warp. */
static const spsh_augment_options specaugment_lb = {
    .struct_size = sizeof(spsh_augment_options),
    .time_masks = 1,
    .time_mask_frames_max = 100,
    .time_mask_share_max = 1,
    .frequency_masks = 1,
    .frequency_mask_bins_max = 27,
};

/* ... LibriSpeech double. */
static const spsh_augment_options specaugment_ld = {
    .struct_size = sizeof(spsh_augment_options),
    .time_masks = 2,
    .time_mask_frames_max = 100,
    .time_mask_share_max = 1,
    .frequency_masks = 2,
    .frequency_mask_bins_max = 27,
};

/* Ko et al., Audio augmentation for speech recognition, 2015: Kaldi's recipes. */
static const spsh_augment_options speed_perturb = {
    .struct_size = sizeof(spsh_augment_options),
    .speed_count = 3,
    .speeds = {90, 100, 110},
};

/* The defaults of deepspeech.pytorch, as closely as these kinds can express them. */
static const spsh_augment_options deepspeech = {
    .struct_size = sizeof(spsh_augment_options),
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
    .frequency_mask_bins_max = 26,
};

static const spsh__preset presets[] = {
    {"none",           &none          },
    {"specaugment-lb", &specaugment_lb},
    {"specaugment-ld", &specaugment_ld},
    {"speed-perturb",  &speed_perturb },
    {"deepspeech",     &deepspeech    },
};

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

static const spsh__field_table table = {
    .name = "augmentation",
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .presets = presets,
    .preset_count = sizeof presets / sizeof presets[0],
    .options_bytes = sizeof(spsh_augment_options),
};

_Static_assert(offsetof(spsh_augment_options, speeds) ==
                   offsetof(spsh_augment_options, speed_count) + sizeof(uint32_t),
               "percents directly follow their count");

const char *spsh_augment_preset_name(uint32_t number)
{
    return spsh__preset_name(&table, number);
}

spsh_status spsh_augment_options_parse(const char *text, spsh_augment_options *options,
                                       spsh_error *err)
{
    spsh_augment_options parsed = SPSH_AUGMENT_OPTIONS_INIT;
    spsh_status rc = spsh_result_check(options, sizeof(parsed), err);
    if (rc == SPSH_OK)
        rc = spsh__fields_parse(&table, text[0] == '\0' ? "none" : text, &parsed, err);
    if (rc == SPSH_OK)
        rc = spsh_augment_options_check(&parsed, err);
    if (rc == SPSH_OK)
        spsh_result_give(options, &parsed, sizeof(parsed));
    return rc;
}

size_t spsh_augment_options_text(const spsh_augment_options *options, char *text,
                                 size_t capacity_bytes)
{
    spsh_augment_options known = SPSH_AUGMENT_OPTIONS_INIT;
    (void)(spsh_options_take(options, &known, sizeof(known), NULL) == SPSH_OK);
    return spsh__fields_text(&table, &known, text, capacity_bytes);
}

/* ---- checking ---- */

static spsh_status check_range(const char *name, float min, float max, spsh_error *err)
{
    if (min > max)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "augmentation: %s_min is %.9g, but %s_max is %.9g, which is less", name,
                         (double)min, name, (double)max);
    return SPSH_OK;
}

spsh_status spsh_augment_options_check(const spsh_augment_options *options, spsh_error *err)
{
    spsh_augment_options known = SPSH_AUGMENT_OPTIONS_INIT;
    spsh_status rc = spsh_options_take(options, &known, sizeof(known), err);
    if (rc == SPSH_OK)
        rc = spsh__fields_check(&table, &known, err);
    if (rc == SPSH_OK)
        rc = check_range("noise_snr_db", known.noise_snr_db_min, known.noise_snr_db_max, err);
    if (rc == SPSH_OK)
        rc = check_range("gain_db", known.gain_db_min, known.gain_db_max, err);
    return rc;
}
