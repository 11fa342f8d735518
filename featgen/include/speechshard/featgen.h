/* featgen.h: compute features for speech recognition from samples: log-mel, MFCC, spectrograms.
 *
 *     spsh_feature_options features = SPSH_FEATURE_OPTIONS_INIT;
 *     spsh_feature_options_parse("kaldi-fbank,mel_count=40", &features, &err);
 *     spsh_featgen_open(&features, NULL, &featgen, &err);
 *     spsh_featgen_worker_open(featgen, &worker, &err);               // one per thread
 *     frames = spsh_featgen_frame_count(featgen, samples);
 *     float *rows = malloc(frames * spsh_featgen_dim(featgen) * sizeof *rows);
 *     spsh_featgen_compute(worker, &(spsh_feature_input){.i16 = pcm, .sample_count = samples},
 * rows, &err);
 *
 * Equal samples produce identical bits on every machine, with every instruction set and any number
 * of threads: each operation is rounded separately, in an order that only the options decide
 * (docs/reference/FEATURES.md). There is no dither.
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
    SPSH_WINDOW_HANN = 1,          /* symmetric: denominator N - 1, as in Kaldi */
    SPSH_WINDOW_HAMMING = 2,       /* 0.54 - 0.46 cos, symmetric */
    SPSH_WINDOW_HANN_PERIODIC = 3, /* denominator N, as in torch and librosa */
    SPSH_WINDOW_HAMMING_PERIODIC = 4,
    SPSH_WINDOW_BLACKMAN = 5, /* 0.42 - 0.5 cos + 0.08 cos, symmetric */
    SPSH_WINDOW_RECTANGULAR = 6,
} spsh_feature_window;

/* Position of the windows, and values outside the samples. n: samples, h: hop_samples. */
typedef enum spsh_feature_edges {
    SPSH_EDGES_SNIP = 0,   /* whole windows only: 1 + (n - N) / h; 0 if n < N */
    SPSH_EDGES_MIRROR = 1, /* (n + h / 2) / h; window k is centered on k h + h / 2; mirrored with
                              the edge sample repeated: snip-edges=false of Kaldi */
    SPSH_EDGES_CENTER_REFLECT = 2, /* 1 + n / h; window k is centered on k h; reflected without
                                     repeating the edge sample: center=True of torch and librosa */
    SPSH_EDGES_CENTER_ZEROS = 3,   /* the same, with zeros outside */
} spsh_feature_edges;

typedef enum spsh_feature_power {
    SPSH_POWER = 0, /* squares of magnitudes */
    SPSH_MAGNITUDE = 1,
} spsh_feature_power;

typedef enum spsh_mel_scale {
    SPSH_MEL_KALDI = 0,  /* 1127 ln(1 + f / 700); triangles linear in mel, peak 1 */
    SPSH_MEL_HTK = 1,    /* the same scale; triangles linear in hertz, peak 1 */
    SPSH_MEL_SLANEY = 2, /* linear below 1 kHz, then logarithmic; linear in hertz, area 1 */
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
    SPSH_ENERGY_WINDOWED = 2, /* ln of the sum of squares after them. In MFCC the energy replaces
                                 coefficient 0; otherwise it is an additional first value */
} spsh_feature_energy;

typedef enum spsh_feature_norm {
    SPSH_NORM_NONE = 0,
    SPSH_NORM_WHISPER = 1,   /* max(x, maximum of the utterance - 8), (x + 4) / 4 */
    SPSH_NORM_UTTERANCE = 2, /* one mean and one deviation (n - 1) over all values: DeepSpeech */
    SPSH_NORM_MEAN = 3,      /* subtract each dimension's mean over the utterance */
    SPSH_NORM_MEAN_VARIANCE = 4, /* and divide by its deviation (denominator n) */
    SPSH_NORM_SPEAKER = 5, /* (x - mean[d]) * scale[d], with the speaker's values from the input */
    SPSH_NORM_DATASET = 6, /* the same with the dataset's values: spsh_feature_sums_norm */
} spsh_feature_norm;

/**
 * Definition of a feature. Fill it with spsh_feature_options_preset or _parse, then change fields.
 * INIT sets only the size; its zeros are out of range.
 */
typedef struct spsh_feature_options {
    size_t struct_size;
    spsh_feature_kind kind;
    uint32_t sample_rate_hz;    /* rate of the samples */
    uint32_t window_us, hop_us; /* microseconds; samples = rate * us / 1,000,000, rounded down */
    bool power_of_two;          /* true: the transform length is the next power of two; false: it is
                                   the window's */
    spsh_feature_window window;
    spsh_feature_edges edges;
    bool drop_last_frame; /* omit the last frame, if any, as Whisper does */
    uint32_t pad_us;      /* cut the samples, or pad them with zeros, to this length; 0: do not */
    bool full_scale_one;  /* true: samples are -1 ... 1; false: -32768 ... 32767, as in Kaldi */
    bool remove_dc;       /* subtract the window's mean first */
    float preemphasis;    /* x[i] - p x[i - 1], and x[0] - p x[0]; 0: none */
    spsh_feature_power power;
    spsh_mel_scale mel_scale;
    uint32_t mel_count;
    float low_hz, high_hz; /* range of the mel bins; high_hz <= 0: relative to half the rate */
    spsh_feature_log log;
    float log_floor;
    uint32_t cepstrum_count; /* MFCC */
    float cepstrum_lifter;   /* 0: none */
    spsh_feature_energy energy;
    float energy_floor; /* minimum energy; 0: only log_floor applies */
    spsh_feature_norm norm;
} spsh_feature_options;
/* clang-format off */
#define SPSH_FEATURE_OPTIONS_INIT {sizeof(spsh_feature_options), SPSH_FEATURE_SPECTRUM, 0, 0, 0, \
    false, SPSH_WINDOW_POVEY, SPSH_EDGES_SNIP, false, 0, false, false, 0, SPSH_POWER, \
    SPSH_MEL_KALDI, 0, 0, 0, SPSH_LOG_NATURAL, 0, 0, 0, SPSH_ENERGY_NONE, 0, SPSH_NORM_NONE}
/* clang-format on */

/**
 * Fill options with a preset: "kaldi-fbank" (80 mels), "kaldi-mfcc",
 * "whisper-logmel" (80 mels, any length), "deepspeech", "spectrogram" (power, Kaldi's frames).
 * docs/reference/FEATURES.md has the values.
 *
 * @return SPSH_OK, SPSH_E_NOT_FOUND (the message suggests the closest name). Thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_feature_options_preset(const char *name,
                                                                spsh_feature_options *options,
                                                                spsh_error *err);

/** Name of a preset, by number from 0; NULL after the last. Thread-safe. */
SPSH_API const char *spsh_feature_preset_name(uint32_t number);

/**
 * Parse a preset and then field=value, separated by commas: "whisper-logmel,mel_count=128,
 * pad_us=30000000". Enumerators are in lower case with hyphens ("edges=center-zeros"); booleans are
 * "on" and "off". An unknown name is an error that suggests the closest one.
 *
 * @param options  written on success only
 * @return SPSH_OK, SPSH_E_SYNTAX, SPSH_E_NOT_FOUND, SPSH_E_INVALID_ARG (see
 * spsh_feature_options_check). Thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_feature_options_parse(const char *text,
                                                               spsh_feature_options *options,
                                                               spsh_error *err);

/** Write the canonical text: every field, in the order above, with values that read back to
 * identical bits. Options are equal if their texts are equal. The text ends with NUL and is
 * truncated to capacity_bytes. Returns the full length without the NUL, which is less than
 * SPSH_FEATURE_TEXT_BYTES_MAX. Thread-safe. */
SPSH_API size_t spsh_feature_options_text(const spsh_feature_options *options, char *text,
                                          size_t capacity_bytes);

/** SPSH_OK, or SPSH_E_INVALID_ARG with the field that is out of range. Thread-safe. */
SPSH_API SPSH_NODISCARD spsh_status spsh_feature_options_check(const spsh_feature_options *options,
                                                               spsh_error *err);

/** Resources. These options do not change the features. */
typedef struct spsh_featgen_options {
    size_t struct_size;
    const spsh_allocator *allocator; /* NULL: malloc and free; copied */
    uint32_t threads;                /* for spsh_featgen_batch; 0: one per core */
} spsh_featgen_options;
#define SPSH_FEATGEN_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(spsh_featgen_options), NULL, 0                                                      \
    }

/** Immutable tables: windows, twiddle factors, mel bins. Any thread may use it. A forked child may
 * use and close it; there spsh_featgen_batch computes on the calling thread only. */
typedef struct spsh_featgen spsh_featgen;

/** Buffers of one thread for a block of frames. */
typedef struct spsh_featgen_worker spsh_featgen_worker;

/**
 * Build the tables for a feature.
 *
 * @param features  copied
 * @param options   NULL for defaults; copied
 * @return SPSH_OK, SPSH_E_INVALID_ARG (see spsh_feature_options_check), SPSH_E_NO_MEMORY
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_featgen_open(const spsh_feature_options *features,
                                                      const spsh_featgen_options *options,
                                                      spsh_featgen **ret_featgen, spsh_error *err);

/** Close all workers first. NULL is fine. */
SPSH_API void spsh_featgen_close(spsh_featgen *featgen);

/** The options that it was opened with. Thread-safe, like the three functions below. */
SPSH_API const spsh_feature_options *spsh_featgen_features(const spsh_featgen *featgen);
/** Number of values per frame. */
SPSH_API uint32_t spsh_featgen_dim(const spsh_featgen *featgen);
/** Number of frames for sample_count samples; may be 0. */
SPSH_API uint64_t spsh_featgen_frame_count(const spsh_featgen *featgen, uint64_t sample_count);
/** Instruction set in use: "avx512", "avx2", "sse2", "neon", "scalar". */
SPSH_API const char *spsh_featgen_isa(const spsh_featgen *featgen);

/** Open the buffers of one thread. @return SPSH_OK, SPSH_E_NO_MEMORY. Thread-safe. */
SPSH_API SPSH_NODISCARD spsh_status spsh_featgen_worker_open(const spsh_featgen *featgen,
                                                             spsh_featgen_worker **ret_worker,
                                                             spsh_error *err);
/** NULL is fine. */
SPSH_API void spsh_featgen_worker_close(spsh_featgen_worker *worker);

/** An utterance's samples, one channel. Borrowed during the call. */
typedef struct spsh_feature_input {
    const int16_t *i16; /* exactly one of i16 and f32 is set; the other is NULL */
    const float *f32; /* full scale is 1. Values that are not finite count as 0; others are clamped
                           to +-1024 */
    uint64_t sample_count;
    const float *mean, *scale; /* dim values each, for SPSH_NORM_SPEAKER and _DATASET */
} spsh_feature_input;

/**
 * Compute the features of one utterance: spsh_featgen_frame_count contiguous rows of dim values.
 * The values are finite for every input.
 *
 * @return SPSH_OK; SPSH_E_INVALID_ARG (samples or means are missing). One thread per worker.
 * Allocates nothing.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_featgen_compute(spsh_featgen_worker *worker,
                                                         const spsh_feature_input *input,
                                                         float *rows, spsh_error *err);

/** Convert to half precision (IEEE 754 binary16), rounded to nearest even, and back. Values out of
 * range become the largest finite value. Thread-safe. */
SPSH_API void spsh_half_from_float(uint16_t *halves, const float *values, size_t count);
SPSH_API void spsh_float_from_half(float *values, const uint16_t *halves, size_t count);

typedef enum spsh_feature_dtype { SPSH_FLOAT32 = 0, SPSH_FLOAT16 = 1 } spsh_feature_dtype;

/** Destination of a batch. */
typedef struct spsh_feature_batch {
    void *values;
    size_t capacity; /* number of values that fit */
    spsh_feature_dtype dtype;
    uint64_t padded_frames; /* utterance u begins at u * padded_frames * dim; padding_value fills
                               the frames after its last one. 0: ragged, one after another */
    float padding_value;
} spsh_feature_batch;

/**
 * Compute the features of several utterances on featgen's threads.
 *
 * @param frame_counts  [count], written; may be NULL
 * @return SPSH_OK; SPSH_E_LIMIT, with nothing written (an utterance is longer than padded_frames,
 * or capacity is too small); SPSH_E_INVALID_ARG. One call at a time. Allocates nothing.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_featgen_batch(spsh_featgen *featgen,
                                                       const spsh_feature_input *inputs,
                                                       size_t count, const spsh_feature_batch *out,
                                                       uint64_t *frame_counts, spsh_error *err);

/**
 * Sums for means and variances, in double: accurate enough for 10^12 frames. Start with zeros. The
 * last bits depend on the order of additions; datasets are summed in dataset order.
 */
typedef struct spsh_feature_sums {
    uint64_t frame_count;
    uint32_t dim;
    double *sum, *square_sum; /* [dim] each; owned by the caller */
} spsh_feature_sums;
SPSH_API void spsh_feature_sums_add(spsh_feature_sums *sums, const float *rows,
                                    uint64_t frame_count);
/** Compute mean and scale for SPSH_NORM_SPEAKER and _DATASET. scale is 1 / deviation (denominator
 * n; variances below 1e-10 count as 1e-10), or 1 if with_variance is false. */
SPSH_API void spsh_feature_sums_norm(const spsh_feature_sums *sums, bool with_variance, float *mean,
                                     float *scale);

#ifdef __cplusplus
}
#endif

#endif
