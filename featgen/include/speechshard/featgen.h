/* featgen.h: features for speech recognition from samples: log-mel, MFCC, spectrograms.
 *
 *     spsh_feature_options features = SPSH_FEATURE_OPTIONS_INIT;
 *     spsh_feature_options_parse("kaldi-fbank,mel_count=40", &features, &err);
 *     spsh_featgen_open(&features, NULL, &featgen, &err);
 *     spsh_featgen_worker_open(featgen, &worker, &err);               // one a thread
 *     frames = spsh_featgen_frame_count(featgen, samples);
 *     float *rows = malloc(frames * spsh_featgen_dim(featgen) * sizeof *rows);
 *     spsh_featgen_compute(worker, &(spsh_feature_input){.i16 = pcm, .sample_count = samples},
 * rows, &err);
 *
 * The same samples give the same bits on every machine, with every instruction set and any number
 * of threads: each operation is rounded by itself, in an order that the options alone decide
 * (docs/FEATURES.md). No dither: a feature is a function of the samples.
 */
#ifndef SPEECHSHARD_FEATGEN_H
#define SPEECHSHARD_FEATGEN_H

#include <stdbool.h>

#include "speechshard/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPSH_FEATURE_WINDOW_SAMPLES_MAX UINT32_C(32768)
#define SPSH_FEATURE_FFT_SIZE_MAX       UINT32_C(32768)
#define SPSH_FEATURE_MEL_COUNT_MAX      UINT32_C(1024)
#define SPSH_FEATURE_TEXT_BYTES_MAX     1024
#define SPSH_FEATGEN_THREADS_MAX        UINT32_C(256)

typedef enum spsh_feature_kind {
    SPSH_FEATURE_SPECTRUM = 0, /* fft_size / 2 + 1 bins */
    SPSH_FEATURE_MEL = 1,      /* mel_count bins */
    SPSH_FEATURE_MFCC = 2,     /* cepstrum_count coefficients of the mel bins */
} spsh_feature_kind;

/* N: window_samples; i = 0 ... N - 1. */
typedef enum spsh_feature_window {
    SPSH_WINDOW_POVEY = 0,         /* (0.5 - 0.5 cos(2 pi i / (N - 1))) ^ 0.85 */
    SPSH_WINDOW_HANN = 1,          /* symmetric: N - 1 in the denominator, as Kaldi's */
    SPSH_WINDOW_HAMMING = 2,       /* 0.54 - 0.46 cos, symmetric */
    SPSH_WINDOW_HANN_PERIODIC = 3, /* N in the denominator, as torch's and librosa's */
    SPSH_WINDOW_HAMMING_PERIODIC = 4,
    SPSH_WINDOW_BLACKMAN = 5, /* 0.42 - 0.5 cos + 0.08 cos, symmetric */
    SPSH_WINDOW_RECTANGULAR = 6,
} spsh_feature_window;

/* Which windows there are, and what lies outside the samples. n: samples, h: hop_samples. */
typedef enum spsh_feature_edges {
    SPSH_EDGES_SNIP = 0,   /* whole windows alone: 1 + (n - N) / h, 0 when n < N */
    SPSH_EDGES_MIRROR = 1, /* (n + h / 2) / h; window k is centred on k h + h / 2; mirrored with
                              the edge sample twice: Kaldi's snip-edges=false */
    SPSH_EDGES_CENTER_REFLECT = 2, /* 1 + n / h; window k is centred on k h; reflected without the
                                     edge sample: torch's and librosa's center=True */
    SPSH_EDGES_CENTER_ZEROS = 3,   /* the same with zeros outside */
} spsh_feature_edges;

typedef enum spsh_feature_power {
    SPSH_POWER = 0, /* squares of magnitudes */
    SPSH_MAGNITUDE = 1,
} spsh_feature_power;

typedef enum spsh_mel_scale {
    SPSH_MEL_KALDI = 0,  /* 1127 ln(1 + f / 700); triangles straight in mel, peak 1 */
    SPSH_MEL_HTK = 1,    /* the same scale; triangles straight in hertz, peak 1 */
    SPSH_MEL_SLANEY = 2, /* linear below 1 kHz, then logarithmic; straight in hertz, area 1 */
} spsh_mel_scale;

typedef enum spsh_feature_log {
    SPSH_LOG_NATURAL = 0, /* ln(max(x, floor)) */
    SPSH_LOG_10 = 1,      /* log10(max(x, floor)) */
    SPSH_LOG_1P = 2,      /* ln(1 + x) */
    SPSH_LOG_NONE = 3,
} spsh_feature_log;

typedef enum spsh_feature_energy {
    SPSH_ENERGY_NONE = 0,
    SPSH_ENERGY_RAW = 1,      /* ln of the sum of squares before pre-emphasis and window */
    SPSH_ENERGY_WINDOWED = 2, /* ... after them. MFCC: in the place of coefficient 0; else one more
                                 value in front */
} spsh_feature_energy;

typedef enum spsh_feature_norm {
    SPSH_NORM_NONE = 0,
    SPSH_NORM_WHISPER = 1,       /* max(x, maximum of the utterance - 8), (x + 4) / 4 */
    SPSH_NORM_UTTERANCE = 2,     /* one mean and one deviation (n - 1) of all values: DeepSpeech */
    SPSH_NORM_MEAN = 3,          /* each dimension's mean over the utterance is subtracted */
    SPSH_NORM_MEAN_VARIANCE = 4, /* and divided by its deviation (n in the denominator) */
    SPSH_NORM_SPEAKER =
        5, /* (x - mean[d]) * scale[d]: those of the input, which are the speaker's */
    SPSH_NORM_DATASET = 6, /* ... or the dataset's: spsh_feature_sums_norm */
} spsh_feature_norm;

/**
 * What a feature is. Filled by spsh_feature_options_preset or _parse, then changed field by field:
 * INIT sets the size only, and its zeros are out of range.
 */
typedef struct spsh_feature_options {
    size_t struct_size;
    spsh_feature_kind kind;
    uint32_t sample_rate_hz;    /* of the samples */
    uint32_t window_us, hop_us; /* microseconds; samples = rate * us / 1,000,000, rounded down */
    bool power_of_two;          /* the transform is as long as the next power of two; else as the
                                   window */
    spsh_feature_window window;
    spsh_feature_edges edges;
    bool drop_last_frame; /* one frame less where there is one: Whisper's */
    uint32_t pad_us;      /* samples are cut or padded with zeros to this length; 0: as they are */
    bool full_scale_one;  /* samples count as -1 ... 1; else as -32768 ... 32767, as Kaldi's */
    bool remove_dc;       /* the window's mean is subtracted first */
    float preemphasis;    /* x[i] - p x[i - 1], and x[0] - p x[0]; 0: none */
    spsh_feature_power power;
    spsh_mel_scale mel_scale;
    uint32_t mel_count;
    float low_hz, high_hz; /* of the mel bins; high_hz <= 0: so much below half the rate */
    spsh_feature_log log;
    float log_floor;
    uint32_t cepstrum_count; /* MFCC */
    float cepstrum_lifter;   /* 0: none */
    spsh_feature_energy energy;
    float energy_floor; /* energies below count as this; 0: log_floor alone */
    spsh_feature_norm norm;
} spsh_feature_options;
/* clang-format off */
#define SPSH_FEATURE_OPTIONS_INIT {sizeof(spsh_feature_options), SPSH_FEATURE_SPECTRUM, 0, 0, 0, \
    false, SPSH_WINDOW_POVEY, SPSH_EDGES_SNIP, false, 0, false, false, 0, SPSH_POWER, \
    SPSH_MEL_KALDI, 0, 0, 0, SPSH_LOG_NATURAL, 0, 0, 0, SPSH_ENERGY_NONE, 0, SPSH_NORM_NONE}
/* clang-format on */

/**
 * Fill options with a preset: "kaldi-fbank" (80 mels), "kaldi-mfcc",
 * "whisper-logmel" (80 mels, free length), "deepspeech", "spectrogram" (power, kaldi's frames).
 * docs/FEATURES.md has the values.
 *
 * @return SPSH_OK, SPSH_E_NOT_FOUND (the message names the nearest). Thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_feature_options_preset(const char *name,
                                                                spsh_feature_options *options,
                                                                spsh_error *err);

/** The names of presets, by number; NULL behind the last. Thread-safe. */
SPSH_API const char *spsh_feature_preset_name(uint32_t number);

/**
 * From text: a preset, then field=value with commas between: "whisper-logmel,mel_count=128,
 * pad_us=30000000". Enumerators are written in lower case with minus signs ("edges=center-zeros"),
 * truth as on and off. Unknown names are refused, the message names the nearest.
 *
 * @param options  written on success only
 * @return SPSH_OK, SPSH_E_SYNTAX, SPSH_E_NOT_FOUND, SPSH_E_INVALID_ARG (as _check). Thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_feature_options_parse(const char *text,
                                                               spsh_feature_options *options,
                                                               spsh_error *err);

/** The canonical text: every field, in the order above, values that read back to the same bits. Two
 * options are the same if their texts are. NUL-terminated, cut to capacity; returns the full length
 * without the NUL, below SPSH_FEATURE_TEXT_BYTES_MAX. Thread-safe. */
SPSH_API size_t spsh_feature_options_text(const spsh_feature_options *options, char *text,
                                          size_t capacity_bytes);

/** SPSH_OK, or SPSH_E_INVALID_ARG and which field is out of its range. Thread-safe. */
SPSH_API SPSH_NODISCARD spsh_status spsh_feature_options_check(const spsh_feature_options *options,
                                                               spsh_error *err);

/** How, not what: nothing here changes a feature. */
typedef struct spsh_featgen_options {
    size_t struct_size;
    const spsh_allocator *allocator; /* NULL: malloc and free; copied */
    uint32_t threads;                /* of spsh_featgen_batch; 0: as many as there are cores */
} spsh_featgen_options;
#define SPSH_FEATGEN_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(spsh_featgen_options), NULL, 0                                                      \
    }

/** Tables: windows, twiddles, mel bins. Immutable, so that any thread may use it. In a child that
 * was forked it can be used and closed; spsh_featgen_batch then computes on the calling thread
 * only.
 */
typedef struct spsh_featgen spsh_featgen;

/** One thread's room for a block of frames. */
typedef struct spsh_featgen_worker spsh_featgen_worker;

/**
 * @param features  copied
 * @param options   NULL for defaults; copied
 * @return SPSH_OK, SPSH_E_INVALID_ARG (as spsh_feature_options_check), SPSH_E_NO_MEMORY
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_featgen_open(const spsh_feature_options *features,
                                                      const spsh_featgen_options *options,
                                                      spsh_featgen **ret_featgen, spsh_error *err);

/** NULL is fine. Workers must be closed before. */
SPSH_API void spsh_featgen_close(spsh_featgen *featgen);

/** As opened. Thread-safe, as the three below. */
SPSH_API const spsh_feature_options *spsh_featgen_features(const spsh_featgen *featgen);
/** Values in a frame. */
SPSH_API uint32_t spsh_featgen_dim(const spsh_featgen *featgen);
/** Frames that so many samples give; 0 for none. */
SPSH_API uint64_t spsh_featgen_frame_count(const spsh_featgen *featgen, uint64_t sample_count);
/** "avx512", "avx2", "sse2", "neon", "scalar": what computes. */
SPSH_API const char *spsh_featgen_isa(const spsh_featgen *featgen);

/** @return SPSH_OK, SPSH_E_NO_MEMORY. Thread-safe. */
SPSH_API SPSH_NODISCARD spsh_status spsh_featgen_worker_open(const spsh_featgen *featgen,
                                                             spsh_featgen_worker **ret_worker,
                                                             spsh_error *err);
/** NULL is fine. */
SPSH_API void spsh_featgen_worker_close(spsh_featgen_worker *worker);

/** An utterance's samples, one channel. Borrowed during the call. */
typedef struct spsh_feature_input {
    const int16_t *i16; /* one of the two; the other is NULL */
    const float *f32;   /* full scale is 1. What is not finite counts as 0, what is beyond +-1024 as
                           that */
    uint64_t sample_count;
    const float *mean, *scale; /* dim values each, for SPSH_NORM_SPEAKER and _DATASET */
} spsh_feature_input;

/**
 * The features of an utterance: spsh_featgen_frame_count rows of dim values, without gaps.
 *
 * @return SPSH_OK; SPSH_E_INVALID_ARG (no samples where there must be, means missing).
 * One thread a worker. No allocation. Defined for every input, and finite.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_featgen_compute(spsh_featgen_worker *worker,
                                                         const spsh_feature_input *input,
                                                         float *rows, spsh_error *err);

/** Half precision (IEEE 754 binary16), rounded to nearest even; what is beyond its range becomes
 * the largest finite value. Thread-safe. */
SPSH_API void spsh_half_from_float(uint16_t *halves, const float *values, size_t count);
SPSH_API void spsh_float_from_half(float *values, const uint16_t *halves, size_t count);

typedef enum spsh_feature_dtype { SPSH_FLOAT32 = 0, SPSH_FLOAT16 = 1 } spsh_feature_dtype;

/** Where a batch goes. */
typedef struct spsh_feature_batch {
    void *values;
    size_t capacity; /* values that fit */
    spsh_feature_dtype dtype;
    uint64_t padded_frames; /* utterance u begins at u * padded_frames * dim, padding_value behind
                               its last frame; 0: ragged, one right after the other */
    float padding_value;
} spsh_feature_batch;

/**
 * The features of several utterances, on the threads of featgen.
 *
 * @param frame_counts  written: count numbers; may be NULL
 * @return SPSH_OK; SPSH_E_LIMIT (an utterance is longer than padded_frames, or capacity is too
 * small: nothing was written); SPSH_E_INVALID_ARG. One call at a time. No allocation.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_featgen_batch(spsh_featgen *featgen,
                                                       const spsh_feature_input *inputs,
                                                       size_t count, const spsh_feature_batch *out,
                                                       uint64_t *frame_counts, spsh_error *err);

/**
 * Sums for means and variances: begins with zeros, add is exact enough for 10^12 frames (double).
 * The result depends on the order of adding in its last bits; datasets are summed in their order.
 */
typedef struct spsh_feature_sums {
    uint64_t frame_count;
    uint32_t dim;
    double *sum, *square_sum; /* dim values each; the caller's */
} spsh_feature_sums;
SPSH_API void spsh_feature_sums_add(spsh_feature_sums *sums, const float *rows,
                                    uint64_t frame_count);
/** mean and scale (1 / deviation, n in the denominator, of variances below 1e-10 that of 1e-10) for
 * SPSH_NORM_SPEAKER and _DATASET; with with_variance false scale is 1. */
SPSH_API void spsh_feature_sums_norm(const spsh_feature_sums *sums, bool with_variance, float *mean,
                                     float *scale);

#ifdef __cplusplus
}
#endif

#endif
