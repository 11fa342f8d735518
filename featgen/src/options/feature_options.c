/* feature_options.c: presets, and options as strings.
 *
 * A preset is one struct. An options string is a preset and changes to it. check_frames and
 * check_mels check the rules that involve several fields.
 */
#include <float.h>
#include <string.h>

#include "field_text.h"
#include "speechshard/featgen.h"
#include "speechshard/inside.h"
#include "speechshard/options.h"

/* ---- presets ---- */

/* Defaults of Kaldi's programs, but without dither. */
#define KALDI_FRAMES                                                                               \
    .struct_size = sizeof(spsh_feature_options), .sample_rate_hz = 16000, .window_us = 25000,      \
    .hop_us = 10000, .power_of_two = true, .window = SPSH_WINDOW_POVEY, .edges = SPSH_EDGES_SNIP,  \
    .remove_dc = true, .preemphasis = 0.97F, .power = SPSH_POWER, .mel_scale = SPSH_MEL_KALDI,     \
    .low_hz = 20, .log_floor = FLT_EPSILON, .cepstrum_count = 13

/* compute-fbank-feats; 80 bins, as recipes have it. */
static const spsh_feature_options kaldi_fbank = {
    KALDI_FRAMES,          .kind = SPSH_FEATURE_MEL, .mel_count = 80, .log = SPSH_LOG_NATURAL,
    .cepstrum_lifter = 22,
};

/* compute-mfcc-feats. */
static const spsh_feature_options kaldi_mfcc = {
    KALDI_FRAMES,          .kind = SPSH_FEATURE_MFCC, .mel_count = 23, .log = SPSH_LOG_NATURAL,
    .cepstrum_lifter = 22, .energy = SPSH_ENERGY_RAW,
};

static const spsh_feature_options spectrogram = {
    KALDI_FRAMES,
    .kind = SPSH_FEATURE_SPECTRUM,
    .mel_count = 80,
    .log = SPSH_LOG_NONE,
};

/* log_mel_spectrogram of OpenAI's Whisper. */
static const spsh_feature_options whisper_logmel = {
    .struct_size = sizeof(spsh_feature_options),
    .kind = SPSH_FEATURE_MEL,
    .sample_rate_hz = 16000,
    .window_us = 25000,
    .hop_us = 10000,
    .window = SPSH_WINDOW_HANN_PERIODIC,
    .edges = SPSH_EDGES_CENTER_REFLECT,
    .drop_last_frame = true,
    .full_scale_one = true,
    .mel_scale = SPSH_MEL_SLANEY,
    .mel_count = 80,
    .log = SPSH_LOG_10,
    .log_floor = 1e-10F,
    .cepstrum_count = 13,
    .norm = SPSH_NORM_WHISPER,
};

/* The input of deepspeech.pytorch. */
static const spsh_feature_options deepspeech = {
    .struct_size = sizeof(spsh_feature_options),
    .kind = SPSH_FEATURE_SPECTRUM,
    .sample_rate_hz = 16000,
    .window_us = 20000,
    .hop_us = 10000,
    .window = SPSH_WINDOW_HAMMING_PERIODIC,
    .edges = SPSH_EDGES_CENTER_REFLECT,
    .full_scale_one = true,
    .power = SPSH_MAGNITUDE,
    .mel_count = 80,
    .log = SPSH_LOG_1P,
    .log_floor = FLT_EPSILON,
    .cepstrum_count = 13,
    .norm = SPSH_NORM_UTTERANCE,
};

static const spsh__preset presets[] = {
    {"kaldi-fbank",    &kaldi_fbank   },
    {"kaldi-mfcc",     &kaldi_mfcc    },
    {"whisper-logmel", &whisper_logmel},
    {"deepspeech",     &deepspeech    },
    {"spectrogram",    &spectrogram   },
};

/* ---- text ---- */

static const char *const kind_words[] = {"spectrum", "mel", "mfcc", NULL};
static const char *const window_words[] = {
    "povey",    "hann",        "hamming", "hann-periodic", "hamming-periodic",
    "blackman", "rectangular", NULL};
static const char *const edges_words[] = {"snip", "mirror", "center-reflect", "center-zeros", NULL};
static const char *const power_words[] = {"power", "magnitude", NULL};
static const char *const mel_scale_words[] = {"kaldi", "htk", "slaney", NULL};
static const char *const log_words[] = {"natural", "log10", "log1p", "none", NULL};
static const char *const energy_words[] = {"none", "raw", "windowed", NULL};
static const char *const norm_words[] = {"none",          "whisper", "utterance", "mean",
                                         "mean-variance", "speaker", "dataset",   NULL};

#define RATE_MIN_HZ 100
#define RATE_MAX_HZ 1000000
#define TIME_MAX_US 1000000
#define PAD_MAX_US  4000000000.0

#define AT(field_) .name = #field_, .offset = offsetof(spsh_feature_options, field_)
#define WHOLE(field_, a_, b_)                                                                      \
    {                                                                                              \
        AT(field_), .kind = SPSH__FIELD_U32, .min = (a_), .max = (b_)                              \
    }
#define REAL(field_, a_, b_)                                                                       \
    {                                                                                              \
        AT(field_), .kind = SPSH__FIELD_FLOAT, .min = (a_), .max = (b_)                            \
    }
#define TRUTH(field_)                                                                              \
    {                                                                                              \
        AT(field_), .kind = SPSH__FIELD_BOOL                                                       \
    }
#define WORD(field_)                                                                               \
    {                                                                                              \
        AT(field_), .kind = SPSH__FIELD_ENUM, .words = field_##_words                              \
    }

static const spsh__field fields[] = {
    WORD(kind),
    WHOLE(sample_rate_hz, RATE_MIN_HZ, RATE_MAX_HZ),
    WHOLE(window_us, 1, TIME_MAX_US),
    WHOLE(hop_us, 1, TIME_MAX_US),
    TRUTH(power_of_two),
    WORD(window),
    WORD(edges),
    TRUTH(drop_last_frame),
    WHOLE(pad_us, 0, PAD_MAX_US),
    TRUTH(full_scale_one),
    TRUTH(remove_dc),
    REAL(preemphasis, 0, 1),
    WORD(power),
    WORD(mel_scale),
    WHOLE(mel_count, 1, SPSH_FEATURE_MEL_COUNT_MAX),
    REAL(low_hz, 0, RATE_MAX_HZ),
    REAL(high_hz, -RATE_MAX_HZ, RATE_MAX_HZ),
    WORD(log),
    REAL(log_floor, 1e-30, 1e30),
    WHOLE(cepstrum_count, 1, SPSH_FEATURE_MEL_COUNT_MAX),
    REAL(cepstrum_lifter, 0, 10000),
    WORD(energy),
    REAL(energy_floor, 0, 1e30),
    WORD(norm),
};

static const spsh__field_table table = {
    .name = "features",
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .presets = presets,
    .preset_count = sizeof presets / sizeof presets[0],
    .options_bytes = sizeof(spsh_feature_options),
};

const char *spsh_feature_preset_name(uint32_t number)
{
    return spsh__preset_name(&table, number);
}

spsh_status spsh_feature_options_preset(const char *name, spsh_feature_options *options,
                                        spsh_error *err)
{
    spsh_feature_options preset = SPSH_FEATURE_OPTIONS_INIT;
    spsh_status rc = spsh_result_check(options, sizeof(preset), err);
    if (rc == SPSH_OK)
        rc = spsh__preset_get(&table, name, &preset, err);
    if (rc == SPSH_OK)
        spsh_result_give(options, &preset, sizeof(preset));
    return rc;
}

spsh_status spsh_feature_options_parse(const char *text, spsh_feature_options *options,
                                       spsh_error *err)
{
    spsh_feature_options parsed = SPSH_FEATURE_OPTIONS_INIT;
    spsh_status rc = spsh_result_check(options, sizeof(parsed), err);
    if (rc == SPSH_OK)
        rc = spsh__fields_parse(&table, text, &parsed, err);
    if (rc == SPSH_OK)
        rc = spsh_feature_options_check(&parsed, err);
    if (rc == SPSH_OK)
        spsh_result_give(options, &parsed, sizeof(parsed));
    return rc;
}

size_t spsh_feature_options_text(const spsh_feature_options *options, char *text,
                                 size_t capacity_bytes)
{
    spsh_feature_options known = SPSH_FEATURE_OPTIONS_INIT;
    (void)(spsh_options_take(options, &known, sizeof(known), NULL) == SPSH_OK);
    return spsh__fields_text(&table, &known, text, capacity_bytes);
}

/* ---- checking ---- */

static spsh_status check_frames(const spsh_feature_options *o, spsh_error *err)
{
    const uint64_t window = (uint64_t)o->sample_rate_hz * o->window_us / 1000000;
    const uint64_t hop = (uint64_t)o->sample_rate_hz * o->hop_us / 1000000;
    if (window < 2 || window > SPSH_FEATURE_WINDOW_SAMPLES_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "features: a window of %u us at %u Hz has %llu samples, must have 2 to %u",
                         o->window_us, o->sample_rate_hz, (unsigned long long)window,
                         SPSH_FEATURE_WINDOW_SAMPLES_MAX);
    if (hop < 1)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "features: a hop of %u us is less than a sample at %u Hz", o->hop_us,
                         o->sample_rate_hz);
    return SPSH_OK;
}

static spsh_status check_mels(const spsh_feature_options *o, spsh_error *err)
{
    const double half = o->sample_rate_hz / 2.0;
    const double high = o->high_hz > 0 ? (double)o->high_hz : half + (double)o->high_hz;
    if (!((double)o->low_hz < high && high <= half))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "features: mel bins from %.9g to %.9g Hz do not fit below %.9g Hz",
                         (double)o->low_hz, high, half);
    if (o->kind == SPSH_FEATURE_MFCC && o->cepstrum_count > o->mel_count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "features: cepstrum_count %u is more than mel_count %u", o->cepstrum_count,
                         o->mel_count);
    return SPSH_OK;
}

spsh_status spsh_feature_options_check(const spsh_feature_options *options, spsh_error *err)
{
    spsh_feature_options known = SPSH_FEATURE_OPTIONS_INIT;
    spsh_status rc = spsh_options_take(options, &known, sizeof(known), err);
    if (rc == SPSH_OK)
        rc = spsh__fields_check(&table, &known, err);
    if (rc == SPSH_OK)
        rc = check_frames(&known, err);
    if (rc == SPSH_OK && known.kind != SPSH_FEATURE_SPECTRUM)
        rc = check_mels(&known, err);
    return rc;
}
