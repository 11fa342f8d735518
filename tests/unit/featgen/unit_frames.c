/* unit_frames.c: the arithmetic of features. Transforms are compared with sums of cosines
 * and with FFTW, logarithms with libm, and whole frames with formulas in double. Also edges, and
 * identical bits from every instruction set. */
#include <math.h>

#ifdef TEST_FFTW
#include <fftw3.h>
#endif

#include "fault_alloc.h"
#include "features/featgen_state.h"
#include "spsh_test.h"

#define PI 3.14159265358979323846

enum { ISA_COUNT = 5, SAMPLES_MAX = 40000 };
static uint32_t stride; /* --fewer: larger steps through sizes and floats */
static const char *const isa_names[ISA_COUNT] = {"scalar", "sse2", "neon", "avx2", "avx512"};

static spsh_feature_options preset(const char *text)
{
    spsh_feature_options features = SPSH_FEATURE_OPTIONS_INIT;
    REQUIRE(spsh_feature_options_parse(text, &features, NULL) == SPSH_OK);
    return features;
}

static spsh_feature_options kaldi_fbank(void)
{
    return preset("kaldi-fbank");
}

static spsh_feature_options kaldi_mfcc(void)
{
    return preset("kaldi-mfcc");
}

static spsh_feature_options whisper(void)
{
    return preset("whisper-logmel,norm=none");
}

static spsh_feature_options deepspeech(void)
{
    return preset("deepspeech,norm=none");
}

/* Only a transform of `size` points: power, without window and logarithm. */
static spsh_feature_options bare_transform(uint32_t size)
{
    return (spsh_feature_options){
        .struct_size = sizeof(spsh_feature_options),
        .kind = SPSH_FEATURE_SPECTRUM,
        .sample_rate_hz = 1000000,
        .window_us = size,
        .hop_us = 1,
        .window = SPSH_WINDOW_RECTANGULAR,
        .full_scale_one = true,
        .log = SPSH_LOG_NONE,
        .log_floor = 1e-10F,
        .mel_count = 1,
        .cepstrum_count = 1,
    };
}

static spsh_featgen *open_features(const spsh_feature_options *features)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_featgen *featgen = NULL;
    if (spsh_featgen_open(features, NULL, &featgen, &err) != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    REQUIRE(featgen != NULL);
    return featgen;
}

/* rows: has capacity for all frames. Return the number of frames. */
static uint64_t compute(spsh_featgen *featgen, const spsh_feature_input *input, float *rows)
{
    spsh_featgen_worker *worker = NULL;
    REQUIRE(spsh_featgen_worker_open(featgen, &worker, NULL) == SPSH_OK);
    REQUIRE(spsh_featgen_compute(worker, input, rows, NULL) == SPSH_OK);
    spsh_featgen_worker_close(worker);
    return spsh_featgen_frame_count(featgen, input->sample_count);
}

static bool same_bits(const void *a, const void *b, size_t float_count)
{
    return memcmp(a, b, float_count * sizeof(float)) == 0;
}

static double uniform(uint64_t *state)
{
    return (double)(test_random(state) >> 11) * 0x1p-53;
}

/* ---- transforms ---- */

/* A random signal and the powers that featgen computes from it. */
typedef struct bare_spectrum {
    uint32_t size;
    uint32_t bins;
    uint32_t prime_max;
    float *x;
    float *powers;
    double norm; /* norm of x */
} bare_spectrum;

static bare_spectrum make_spectrum(const spsh__frames_isa *isa, uint32_t size, uint64_t *state)
{
    const spsh_feature_options features = bare_transform(size);
    spsh_featgen *featgen = open_features(&features);
    bare_spectrum s = {size, size / 2 + 1, featgen->tables.fft.prime_max, NULL, NULL, 0};
    s.x = calloc(size + (size_t)SPSH__WINDOW_SLACK, sizeof(float));
    s.powers = calloc(s.bins, sizeof(float));
    float *rows = calloc((size_t)isa->lanes * s.bins, sizeof(float));
    const size_t scratch_bytes = spsh__frames_scratch_bytes(&featgen->tables, isa->lanes);
    void *scratch = aligned_alloc(64, (scratch_bytes + 63) / 64 * 64);
    REQUIRE(s.x != NULL && s.powers != NULL && rows != NULL && scratch != NULL);
    double energy = 0;
    for (uint32_t i = 0; i < size; i++) {
        s.x[i] = (float)(2 * uniform(state) - 1);
        energy += (double)s.x[i] * (double)s.x[i];
    }
    s.norm = sqrt(energy);
    const float *windows[SPSH__LANES_MAX];
    for (uint32_t lane = 0; lane < SPSH__LANES_MAX; lane++)
        windows[lane] = s.x;
    isa->frames_fn(&featgen->tables, windows, isa->lanes, scratch, rows);
    memcpy(s.powers, rows + (size_t)(isa->lanes - 1) * s.bins, s.bins * sizeof(float));
    free(rows), free(scratch);
    spsh_featgen_close(featgen);
    return s;
}

/* Return how far the amplitude of a bin is from the true one, as a share of the norm. */
static double error_of(const bare_spectrum *s, uint32_t bin, double re, double im)
{
    return fabs(sqrt((double)s->powers[bin]) - sqrt(re * re + im * im)) / s->norm;
}

/* Check the largest error, and free the spectrum. The rounding noise of an amplitude grows with the
 * square root of the number of passes. A prime factor p sums p terms. */
static void end_spectrum(bare_spectrum *s, double worst)
{
    const double limit = 0x1p-24 * (12 + 0.25 * s->prime_max);
    CHECK(worst < limit);
    if (worst >= limit)
        fprintf(stderr, "    %u points: off by %g of the norm\n", s->size, worst);
    free(s->x), free(s->powers);
}

/* Compare with a plain sum, whose cosines come from a table. */
static void check_transform(const spsh__frames_isa *isa, uint32_t size, uint64_t *state)
{
    bare_spectrum s = make_spectrum(isa, size, state);
    double *circle = calloc(size, sizeof(double));
    REQUIRE(circle != NULL);
    for (uint32_t i = 0; i < size; i++)
        circle[i] = cos(2 * PI * i / size);
    const uint32_t step = (s.bins > 2000 ? s.bins / 700 : 1) * (s.bins > 100 ? stride : 1);
    double worst = 0;
    for (uint32_t k = 0; k < s.bins; k += step) {
        double re = 0;
        double im = 0;
        for (uint32_t i = 0; i < size; i++) {
            const uint64_t turn = (uint64_t)k * i % size;
            re += (double)s.x[i] * circle[turn];
            im += (double)s.x[i] * sin(2 * PI * (double)turn / size);
        }
        worst = fmax(worst, error_of(&s, k, re, im));
    }
    free(circle);
    end_spectrum(&s, worst);
}

static void test_transforms(void)
{
    uint64_t state = test_seed(61);
    const spsh__frames_isa *best = spsh__frames_isa_best();
    for (uint32_t size = 2; size <= 700; size += size < 64 ? 1 : stride)
        check_transform(best, size, &state);
    static const uint32_t large[] = {1024, 1103, 1200, 2048, 2187, 2206, 3125, 4096, 4410, 32768};
    for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++)
        check_transform(best, large[i], &state);
    check_transform(spsh__frames_isa_named("scalar"), 512, &state);
    check_transform(spsh__frames_isa_named("scalar"), 7 * 9 * 5, &state);
}

/* Compare every bin of every size up to 2048 with FFTW in double precision, and of some larger
 * sizes: of each radix, with large primes, and the largest one. */
#ifdef TEST_FFTW
static void check_by_fftw(uint32_t size, uint64_t *state)
{
    bare_spectrum s = make_spectrum(spsh__frames_isa_best(), size, state);
    double *in = fftw_alloc_real(size);
    fftw_complex *out = fftw_alloc_complex(s.bins);
    REQUIRE(in != NULL && out != NULL);
    fftw_plan plan = fftw_plan_dft_r2c_1d((int)size, in, out, FFTW_ESTIMATE);
    REQUIRE(plan != NULL);
    for (uint32_t i = 0; i < size; i++)
        in[i] = (double)s.x[i];
    fftw_execute(plan);
    double worst = 0;
    for (uint32_t k = 0; k < s.bins; k++)
        worst = fmax(worst, error_of(&s, k, out[k][0], out[k][1]));
    fftw_destroy_plan(plan);
    fftw_free(in);
    fftw_free(out);
    end_spectrum(&s, worst);
}

static void test_transforms_by_fftw(void)
{
    static const uint32_t large[] = {2205, 4000, 4999, 8192, 11025, 16807, 19683, 22050, 32768};
    uint64_t state = test_seed(62);
    for (uint32_t size = 2; size <= 2048; size += stride)
        check_by_fftw(size, &state);
    for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++)
        check_by_fftw(large[i], &state);
}
#endif

/* ---- logarithms ---- */

/* Distance in units in the last place of a float of want's size. */
static double ulps(float got, double want)
{
    int exponent = 0;
    (void)frexp(want, &exponent);
    return fabs((double)got - want) / ldexp(1, exponent - 24);
}

static double worst_log(spsh_feature_log kind, double (*reference_fn)(double), float least,
                        float most)
{
    const spsh__frames_isa *isa = spsh__frames_isa_best();
    spsh__frame_tables tables = {.log_floor = least, .features = {.log = kind}};
    static _Alignas(64) float in[65536];
    static _Alignas(64) float out[65536];
    const uint32_t count = 65536;
    uint32_t first = 0;
    uint32_t last = 0;
    memcpy(&first, &least, sizeof(first));
    memcpy(&last, &most, sizeof(last));
    double worst = 0;
    /* Every 61st (--fewer: 671st) float from least to most, and all within 2^16 of 1. */
    for (uint64_t bits = first; bits < last;) {
        const bool is_near_one = bits > 0x3f800000 - 65536 && bits < 0x3f800000 + 65536;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t at = (uint32_t)bits < last ? (uint32_t)bits : last;
            memcpy(&in[i], &at, sizeof(at));
            bits += is_near_one ? 1 : 61 * stride;
        }
        memcpy(out, in, sizeof(in));
        isa->logs_fn(&tables, out, count / isa->lanes);
        for (uint32_t i = 0; i < count; i += 7) {
            const double off = ulps(out[i], reference_fn((double)in[i]));
            worst = off > worst ? off : worst;
        }
    }
    printf("worst: %.3f units in the last place\n", worst);
    return worst;
}

static void test_logarithms(void)
{
    CHECK(worst_log(SPSH_LOG_NATURAL, log, 0x1p-126F, 0x1.fffffep127F) < 1.0);
    CHECK(worst_log(SPSH_LOG_10, log10, 0x1p-126F, 0x1.fffffep127F) < 2.0);
    CHECK(worst_log(SPSH_LOG_1P, log1p, 0x1p-126F, 0x1p126F) < 1.5);
}

/* ---- whole frames in double ---- */

static double mel_of(spsh_mel_scale scale, double hz)
{
    if (scale != SPSH_MEL_SLANEY)
        return 1127 * log(1 + hz / 700);
    return hz < 1000 ? hz * 3 / 200 : 15 + 27 * log(hz / 1000) / log(6.4);
}

static double hz_of(spsh_mel_scale scale, double mel)
{
    if (scale != SPSH_MEL_SLANEY)
        return 700 * (exp(mel / 1127) - 1);
    return mel < 15 ? mel * 200 / 3 : 1000 * exp((mel - 15) * log(6.4) / 27);
}

static double mel_weight(const spsh_feature_options *f, uint32_t row, double hz)
{
    const double high =
        f->high_hz > 0 ? (double)f->high_hz : f->sample_rate_hz / 2.0 + (double)f->high_hz;
    const double low_mel = mel_of(f->mel_scale, (double)f->low_hz);
    const double step = (mel_of(f->mel_scale, high) - low_mel) / (f->mel_count + 1);
    double edges[3];
    for (uint32_t i = 0; i < 3; i++)
        edges[i] = low_mel + (row + i) * step;
    if (f->mel_scale != SPSH_MEL_KALDI)
        for (uint32_t i = 0; i < 3; i++)
            edges[i] = hz_of(f->mel_scale, edges[i]);
    const double at = f->mel_scale == SPSH_MEL_KALDI ? mel_of(f->mel_scale, hz) : hz;
    const double up = (at - edges[0]) / (edges[1] - edges[0]);
    const double down = (edges[2] - at) / (edges[2] - edges[1]);
    const double weight = fmax(0, fmin(up, down));
    return f->mel_scale == SPSH_MEL_SLANEY ? weight * 2 / (edges[2] - edges[0]) : weight;
}

static double window_at(spsh_feature_window window, uint32_t i, uint32_t count)
{
    const double symmetric = cos(2 * PI * i / (count - 1.0));
    const double periodic = cos(2 * PI * i / count);
    switch (window) {
    case SPSH_WINDOW_POVEY: return pow(0.5 - 0.5 * symmetric, 0.85);
    case SPSH_WINDOW_HANN: return 0.5 - 0.5 * symmetric;
    case SPSH_WINDOW_HAMMING: return 0.54 - 0.46 * symmetric;
    case SPSH_WINDOW_HANN_PERIODIC: return 0.5 - 0.5 * periodic;
    case SPSH_WINDOW_HAMMING_PERIODIC: return 0.54 - 0.46 * periodic;
    case SPSH_WINDOW_BLACKMAN:
        return 0.42 - 0.5 * symmetric + 0.08 * cos(4 * PI * i / (count - 1.0));
    case SPSH_WINDOW_RECTANGULAR: break;
    }
    return 1;
}

static double sum_squares(const double *x, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sum;
}

static double log_of(const spsh_feature_options *f, double value)
{
    switch (f->log) {
    case SPSH_LOG_NATURAL: return log(fmax(value, (double)f->log_floor));
    case SPSH_LOG_10: return log10(fmax(value, (double)f->log_floor));
    case SPSH_LOG_1P: return log1p(value);
    case SPSH_LOG_NONE: break;
    }
    return value;
}

/* Prepare the window x in place. Return the energy of the kind that the options request. */
static double condition(const spsh_feature_options *f, double *x, uint32_t count)
{
    double mean = 0;
    for (uint32_t i = 0; i < count; i++)
        mean += x[i] / count;
    for (uint32_t i = 0; i < count && f->remove_dc; i++)
        x[i] -= mean;
    const double raw = sum_squares(x, count);
    for (uint32_t i = count - 1; i > 0; i--)
        x[i] -= (double)f->preemphasis * x[i - 1];
    x[0] -= (double)f->preemphasis * x[0];
    for (uint32_t i = 0; i < count; i++)
        x[i] *= window_at(f->window, i, count);
    return f->energy == SPSH_ENERGY_RAW ? raw : sum_squares(x, count);
}

/* Compute the values of one window. */
static void reference(const spsh_feature_options *f, double *x, uint32_t count, double *values)
{
    static double spectrum[SPSH_FEATURE_FFT_SIZE_MAX];
    static double mels[SPSH_FEATURE_MEL_COUNT_MAX];
    uint32_t size = count;
    if (f->power_of_two)
        for (size = 1; size < count;)
            size *= 2;
    const double energy = condition(f, x, count);
    for (uint32_t k = 0; k <= size / 2; k++) {
        double re = 0;
        double im = 0;
        for (uint32_t i = 0; i < count; i++) {
            re += x[i] * cos(2 * PI * (double)((uint64_t)i * k % size) / size);
            im += x[i] * sin(2 * PI * (double)((uint64_t)i * k % size) / size);
        }
        spectrum[k] = re * re + im * im;
        if (f->power == SPSH_MAGNITUDE)
            spectrum[k] = sqrt(spectrum[k]);
    }
    const bool is_mfcc = f->kind == SPSH_FEATURE_MFCC;
    double *out = values + (f->energy != SPSH_ENERGY_NONE && !is_mfcc);
    const uint32_t rows = f->kind == SPSH_FEATURE_SPECTRUM ? size / 2 + 1 : f->mel_count;
    for (uint32_t row = 0; row < rows; row++) {
        double sum = f->kind == SPSH_FEATURE_SPECTRUM ? spectrum[row] : 0;
        for (uint32_t k = 0; k <= size / 2 && f->kind != SPSH_FEATURE_SPECTRUM; k++)
            sum += spectrum[k] * mel_weight(f, row, (double)k * f->sample_rate_hz / size);
        (is_mfcc ? mels : out)[row] = log_of(f, sum);
    }
    for (uint32_t c = 0; is_mfcc && c < f->cepstrum_count; c++) {
        double sum = 0;
        for (uint32_t row = 0; row < f->mel_count; row++)
            sum += mels[row] * cos(PI / f->mel_count * (row + 0.5) * c);
        const double lifter = (double)f->cepstrum_lifter;
        out[c] = sum * sqrt((c == 0 ? 1.0 : 2.0) / f->mel_count) *
                 (lifter > 0 ? 1 + lifter / 2 * sin(PI * c / lifter) : 1);
    }
    if (f->energy != SPSH_ENERGY_NONE)
        values[0] = log(fmax(energy, fmax((double)f->log_floor, (double)f->energy_floor)));
}

/* Vowels of a kind: harmonics with formants, and a little noise, so that no mel bin is empty. */
static void fill_speech(int16_t *pcm, size_t count, uint64_t *state)
{
    for (size_t i = 0; i < count; i++) {
        double value = 200 * (uniform(state) - 0.5) + 30;
        for (int h = 1; h < 30; h++)
            value += 2500.0 / h *
                     sin(2 * PI * h * (120 + 20 * sin((double)i / 9000)) * (double)i / 16000);
        pcm[i] = (int16_t)lrint(fmax(-32768, fmin(32767, value)));
    }
}

/* The sample at any position. Outside, it is 0 or reflected, step by step. */
static double sample_at(const spsh_feature_options *f, const int16_t *pcm, int64_t count,
                        int64_t at)
{
    const int64_t twice = f->edges == SPSH_EDGES_MIRROR;
    if (f->edges == SPSH_EDGES_CENTER_ZEROS && (at < 0 || at >= count))
        return 0;
    while (count > 1 && (at < 0 || at >= count))
        at = at < 0 ? -at - twice : 2 * (count - 1) - at + twice;
    const double value = pcm[count == 1 ? 0 : at];
    return f->full_scale_one ? value / 32768 : value;
}

static void check_against_double(const spsh_feature_options *f, const int16_t *pcm,
                                 uint64_t sample_count, double tolerance)
{
    spsh_featgen *featgen = open_features(f);
    const uint32_t dim = spsh_featgen_dim(featgen);
    const uint64_t frames = spsh_featgen_frame_count(featgen, sample_count);
    float *rows = calloc(frames * dim + 1, sizeof(float));
    REQUIRE(rows != NULL);
    (void)compute(featgen, &(spsh_feature_input){.i16 = pcm, .sample_count = sample_count}, rows);
    const uint32_t size = featgen->tables.window_samples;
    const int64_t hop = featgen->tables.hop_samples;
    double worst = 0;
    for (uint64_t frame = 0; frame < frames; frame++) {
        static double x[SPSH_FEATURE_WINDOW_SAMPLES_MAX];
        static double want[SPSH_FEATURE_FFT_SIZE_MAX];
        int64_t start = (int64_t)frame * hop;
        if (f->edges == SPSH_EDGES_MIRROR)
            start += hop / 2 - size / 2;
        else if (f->edges != SPSH_EDGES_SNIP)
            start -= size / 2;
        for (uint32_t i = 0; i < size; i++)
            x[i] = sample_at(f, pcm, (int64_t)sample_count, start + i);
        reference(f, x, size, want);
        for (uint32_t d = 0; d < dim; d++)
            worst = fmax(worst, fabs((double)rows[frame * dim + d] - want[d]));
    }
    CHECK(worst < tolerance);
    printf("worst: %g in %" PRIu64 " frames\n", worst, frames);
    free(rows);
    spsh_featgen_close(featgen);
}

static void test_against_double(void)
{
    static int16_t pcm[6000];
    uint64_t state = test_seed(62);
    fill_speech(pcm, 6000, &state);
    spsh_feature_options f = kaldi_fbank();
    check_against_double(&f, pcm, 6000, 1e-4);
    f.edges = SPSH_EDGES_MIRROR;
    f.energy = SPSH_ENERGY_WINDOWED;
    check_against_double(&f, pcm, 3000, 1e-4);
    f.mel_scale = SPSH_MEL_HTK;
    f.high_hz = -400;
    f.window = SPSH_WINDOW_BLACKMAN;
    f.energy = SPSH_ENERGY_RAW;
    f.energy_floor = 1e12F;
    check_against_double(&f, pcm, 3000, 1e-4);
    f = kaldi_mfcc();
    check_against_double(&f, pcm, 3000, 1e-3);
    f = whisper();
    check_against_double(&f, pcm, 3000, 1e-4);
    f.edges = SPSH_EDGES_CENTER_ZEROS;
    f.drop_last_frame = false;
    check_against_double(&f, pcm, 3000, 1e-4);
    f = deepspeech();
    check_against_double(&f, pcm, 3000, 1e-4);
    f.sample_rate_hz = 11025; /* 220 samples, 110 points: 2 * 5 * 11 */
    check_against_double(&f, pcm, 3000, 1e-4);
    f.window_us = 30023; /* 331, a prime */
    check_against_double(&f, pcm, 3000, 1e-4);
}

/* ---- edges ---- */

static void test_frame_counts(void)
{
    spsh_feature_options f = kaldi_fbank();
    spsh_featgen *snip = open_features(&f);
    f.edges = SPSH_EDGES_MIRROR;
    spsh_featgen *mirror = open_features(&f);
    f.edges = SPSH_EDGES_CENTER_ZEROS;
    spsh_featgen *center = open_features(&f);
    f.drop_last_frame = true;
    spsh_featgen *dropped = open_features(&f);
    f.pad_us = 30000000;
    spsh_featgen *padded = open_features(&f);
    static const struct {
        uint64_t samples, snip, mirror, center, dropped;
    } counts[] = {
        {0,                 0,                                                                 0, 0,                             0},
        {1,                 0,                                                                 0, 1,                             0},
        {79,                0,                                                                 0, 1,                             0},
        {80,                0,                                                                 1, 1,                             0},
        {159,               0,                                                                 1, 1,                             0},
        {160,               0,                                                                 1, 2,                             1},
        {399,               0,                                                                 2, 3,                             2},
        {400,               1,                                                                 3, 3,                             2},
        {559,               1,                                                                 3, 4,                             3},
        {560,               2,                                                                 4, 4,                             3},
        {UINT64_C(1) << 40, 6871947671 + 1 + (((UINT64_C(1) << 40) - 400) / 160 - 6871947671),
         ((UINT64_C(1) << 40) + 80) / 160,                                                        1 + (UINT64_C(1) << 40) / 160,
         (UINT64_C(1) << 40) / 160                                                                                                },
    };
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        CHECK_U64(spsh_featgen_frame_count(snip, counts[i].samples), counts[i].snip);
        CHECK_U64(spsh_featgen_frame_count(mirror, counts[i].samples), counts[i].mirror);
        CHECK_U64(spsh_featgen_frame_count(center, counts[i].samples), counts[i].center);
        CHECK_U64(spsh_featgen_frame_count(dropped, counts[i].samples), counts[i].dropped);
        CHECK_U64(spsh_featgen_frame_count(padded, counts[i].samples), 3000);
    }
    spsh_featgen_close(snip), spsh_featgen_close(mirror), spsh_featgen_close(center);
    spsh_featgen_close(dropped), spsh_featgen_close(padded);
}

/* Inputs shorter than a window, down to one sample, are reflected repeatedly. */
static void test_short_inputs(void)
{
    static int16_t pcm[500];
    uint64_t state = test_seed(63);
    fill_speech(pcm, 500, &state);
    for (uint64_t count = 1; count < 12; count++) {
        spsh_feature_options f = whisper();
        f.drop_last_frame = false;
        f.log_floor = 1e-6F;
        check_against_double(&f, pcm + 100, count, 1e-2);
        f.edges = SPSH_EDGES_CENTER_ZEROS;
        check_against_double(&f, pcm + 100, count, 1e-3);
        f = kaldi_fbank();
        f.edges = SPSH_EDGES_MIRROR;
        f.hop_us = 100;
        f.log_floor = 1;
        check_against_double(&f, pcm + 100, count, 1e-2);
    }
}

/* All blocks produce the rows of single frames: 1 to 33 frames, whole and in parts. */
static void test_block_boundaries(void)
{
    static int16_t pcm[33 * 160 + 400];
    static float all[33 * 80];
    static float some[33 * 80];
    uint64_t state = test_seed(64);
    fill_speech(pcm, sizeof(pcm) / sizeof(pcm[0]), &state);
    const spsh_feature_options f = kaldi_fbank();
    spsh_featgen *featgen = open_features(&f);
    const spsh_feature_input input = {.i16 = pcm, .sample_count = 32 * 160 + 400};
    CHECK_U64(compute(featgen, &input, all), 33);
    for (uint64_t frames = 1; frames <= 33; frames++) {
        const uint64_t samples = (frames - 1) * 160 + 400 + frames;
        memset(some, 0xff, sizeof(some));
        (void)compute(featgen, &(spsh_feature_input){.i16 = pcm, .sample_count = samples}, some);
        CHECK(same_bits(some, all, frames * 80));
        uint32_t behind = 0;
        if (frames < 33)
            memcpy(&behind, &some[frames * 80], sizeof(behind));
        CHECK(frames == 33 || behind == UINT32_MAX);
    }
    for (uint64_t frame = 0; frame < 33; frame++) {
        const spsh_feature_input one = {.i16 = pcm + frame * 160, .sample_count = 400};
        (void)compute(featgen, &one, some);
        CHECK(same_bits(some, all + frame * 80, 80));
    }
    spsh_featgen_close(featgen);
}

/* Hops longer than windows, and windows of odd lengths. */
static void test_hops_and_windows(void)
{
    static int16_t pcm[20000];
    uint64_t state = test_seed(65);
    fill_speech(pcm, 20000, &state);
    spsh_feature_options f = kaldi_fbank();
    f.hop_us = 40000;
    check_against_double(&f, pcm, 20000, 1e-4);
    for (uint32_t window = 2; window <= 9; window++) {
        f = bare_transform(window);
        f.hop_us = 3;
        f.energy = SPSH_ENERGY_WINDOWED;
        f.preemphasis = 0.5F;
        check_against_double(&f, pcm, 60, 1e-4);
    }
}

/* ---- inputs ---- */

static void test_silence_is_the_floor(void)
{
    static int16_t zeros[1600];
    static float rows[2 + 8 * 81];
    spsh_feature_options f = kaldi_fbank();
    f.energy = SPSH_ENERGY_RAW;
    spsh_featgen *featgen = open_features(&f);
    const uint64_t frames =
        compute(featgen, &(spsh_feature_input){.i16 = zeros, .sample_count = 1600}, rows);
    CHECK_U64(frames, 8);
    for (size_t i = 0; i < 8 * 81; i++)
        CHECK(fabsf(rows[i] - -15.942385F) < 1e-6F);
    spsh_featgen_close(featgen);
}

static void test_floats_are_cleaned(void)
{
    static float wild[1000];
    static float tame[1000];
    static float rows[2][4 * 80];
    uint64_t state = test_seed(66);
    for (size_t i = 0; i < 1000; i++)
        wild[i] = tame[i] = (float)(uniform(&state) - 0.5);
    wild[0] = NAN, tame[0] = 0;
    wild[13] = INFINITY, tame[13] = 0;
    wild[500] = -INFINITY, tame[500] = 0;
    wild[601] = 1e30F, tame[601] = 1024;
    wild[999] = -1025, tame[999] = -1024;
    wild[998] = -NAN, tame[998] = 0;
    spsh_feature_options f = kaldi_fbank();
    f.edges = SPSH_EDGES_MIRROR;
    spsh_featgen *featgen = open_features(&f);
    (void)compute(featgen, &(spsh_feature_input){.f32 = wild, .sample_count = 600}, rows[0]);
    (void)compute(featgen, &(spsh_feature_input){.f32 = tame, .sample_count = 600}, rows[1]);
    CHECK(same_bits(rows[0], rows[1], sizeof(rows[0]) / sizeof(float)));
    (void)compute(featgen, &(spsh_feature_input){.f32 = wild + 400, .sample_count = 600}, rows[0]);
    (void)compute(featgen, &(spsh_feature_input){.f32 = tame + 400, .sample_count = 600}, rows[1]);
    CHECK(same_bits(rows[0], rows[1], sizeof(rows[0]) / sizeof(float)));
    for (size_t i = 0; i < 4 * 80; i++)
        CHECK(isfinite(rows[0][i]));
    spsh_featgen_close(featgen);
}

/* A float input is the integer divided by 32768, for any scale of the features. */
static void test_floats_are_like_integers(void)
{
    static int16_t pcm[3000];
    static float values[3000];
    static float rows[2][19 * 80];
    uint64_t state = test_seed(67);
    fill_speech(pcm, 3000, &state);
    for (size_t i = 0; i < 3000; i++)
        values[i] = (float)pcm[i] / 32768.0F;
    for (int round = 0; round < 2; round++) {
        const spsh_feature_options f = round == 0 ? kaldi_fbank() : whisper();
        spsh_featgen *featgen = open_features(&f);
        const spsh_feature_input integers = {.i16 = pcm, .sample_count = 3000};
        const spsh_feature_input floats = {.f32 = values, .sample_count = 3000};
        const uint64_t frames = compute(featgen, &integers, rows[0]);
        (void)compute(featgen, &floats, rows[1]);
        CHECK(same_bits(rows[0], rows[1], frames * 80));
        spsh_featgen_close(featgen);
    }
}

/* Padding appends zeros; cutting drops samples. */
static void test_padding(void)
{
    static int16_t pcm[3200];
    static float rows[2][20 * 80];
    uint64_t state = test_seed(68);
    fill_speech(pcm, 1600, &state);
    spsh_feature_options f = whisper();
    spsh_featgen *free_length = open_features(&f);
    f.pad_us = 200000;
    spsh_featgen *padded = open_features(&f);
    CHECK_U64(
        compute(free_length, &(spsh_feature_input){.i16 = pcm, .sample_count = 3200}, rows[0]), 20);
    CHECK_U64(compute(padded, &(spsh_feature_input){.i16 = pcm, .sample_count = 1600}, rows[1]),
              20);
    CHECK(same_bits(rows[0], rows[1], sizeof(rows[0]) / sizeof(float)));
    CHECK_U64(compute(padded, &(spsh_feature_input){.sample_count = 0}, rows[0]), 20);
    CHECK(fabsf(rows[0][0] + 10) < 1e-5F);
    spsh_featgen_close(free_length);
    f.pad_us = 50000;
    spsh_featgen *cut = open_features(&f);
    CHECK_U64(compute(cut, &(spsh_feature_input){.i16 = pcm, .sample_count = 1600}, rows[0]), 5);
    CHECK_U64(compute(cut, &(spsh_feature_input){.i16 = pcm, .sample_count = 800}, rows[1]), 5);
    CHECK(same_bits(rows[0], rows[1], (size_t)5 * 80));
    spsh_featgen_close(padded);
    spsh_featgen_close(cut);
}

static void test_refused_inputs(void)
{
    static const int16_t pcm[400];
    static const float values[400];
    static float rows[80];
    spsh_feature_options f = kaldi_fbank();
    spsh_featgen *featgen = open_features(&f);
    spsh_featgen_worker *worker = NULL;
    REQUIRE(spsh_featgen_worker_open(featgen, &worker, NULL) == SPSH_OK);
    spsh_feature_input input = {.sample_count = 400};
    CHECK_I64(spsh_featgen_compute(worker, &input, rows, NULL), SPSH_E_INVALID_ARG);
    input.i16 = pcm;
    CHECK_I64(spsh_featgen_compute(worker, &input, rows, NULL), SPSH_OK);
    input.f32 = values;
    CHECK_I64(spsh_featgen_compute(worker, &input, rows, NULL), SPSH_E_INVALID_ARG);
    spsh_featgen_worker_close(worker);
    spsh_featgen_close(featgen);
    f.norm = SPSH_NORM_DATASET;
    featgen = open_features(&f);
    REQUIRE(spsh_featgen_worker_open(featgen, &worker, NULL) == SPSH_OK);
    input = (spsh_feature_input){.i16 = pcm, .sample_count = 400, .mean = values};
    CHECK_I64(spsh_featgen_compute(worker, &input, rows, NULL), SPSH_E_INVALID_ARG);
    input.scale = values;
    CHECK_I64(spsh_featgen_compute(worker, &input, rows, NULL), SPSH_OK);
    spsh_featgen_worker_close(worker);
    spsh_featgen_close(featgen);

    spsh_featgen_options options = SPSH_FEATGEN_OPTIONS_INIT;
    options.threads = SPSH_FEATGEN_THREADS_MAX + 1;
    f.norm = SPSH_NORM_NONE;
    CHECK_I64(spsh_featgen_open(&f, &options, &featgen, NULL), SPSH_E_INVALID_ARG);
    options.struct_size = 1;
    CHECK_I64(spsh_featgen_open(&f, &options, &featgen, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_featgen_open(NULL, NULL, &featgen, NULL), SPSH_E_INVALID_ARG);
}

/* MFCC uses all kinds of tables. */
static spsh_status open_and_compute(fault_alloc *fault, const spsh_feature_options *features)
{
    static const int16_t pcm[400];
    static float row[13];
    const spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, fault};
    spsh_featgen_options options = SPSH_FEATGEN_OPTIONS_INIT;
    spsh_featgen *featgen = NULL;
    spsh_featgen_worker *worker = NULL;
    options.allocator = &allocator;
    spsh_status rc = spsh_featgen_open(features, &options, &featgen, NULL);
    if (rc == SPSH_OK)
        rc = spsh_featgen_worker_open(featgen, &worker, NULL);
    if (rc == SPSH_OK) {
        const uint64_t calls = fault->call_count;
        const spsh_feature_input input = {.i16 = pcm, .sample_count = 400};
        rc = spsh_featgen_compute(worker, &input, row, NULL);
        CHECK_U64(fault->call_count, calls);
    }
    spsh_featgen_worker_close(worker);
    spsh_featgen_close(featgen);
    return rc;
}

static void test_every_allocation_failure(void)
{
    const spsh_feature_options features = kaldi_mfcc();
    spsh_status rc = SPSH_E_NO_MEMORY;
    uint64_t fail_at = 0;
    for (; rc != SPSH_OK && fail_at < 100; fail_at++) {
        fault_alloc fault = {.fail_at = fail_at};
        rc = open_and_compute(&fault, &features);
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
        CHECK_I64(fault.live_count, 0);
    }
    CHECK_I64(rc, SPSH_OK);
    CHECK(fail_at > 8);
}

/* ---- the same bits ---- */

static void test_isas_agree_on_presets(void)
{
    static int16_t pcm[SAMPLES_MAX];
    uint64_t state = test_seed(69);
    fill_speech(pcm, 20000, &state);
    for (size_t i = 20000; i < SAMPLES_MAX; i++) /* clipped noise, then loud and quiet */
        pcm[i] = (int16_t)(test_random(&state) >> (48 + i / 3000 % 12));
    const spsh_feature_options all[] = {kaldi_fbank(), kaldi_mfcc(), whisper(), deepspeech()};
    for (size_t preset = 0; preset < sizeof(all) / sizeof(all[0]); preset++) {
        spsh_featgen *featgen = open_features(&all[preset]);
        const uint64_t count =
            spsh_featgen_frame_count(featgen, SAMPLES_MAX) * spsh_featgen_dim(featgen);
        float *want = calloc(count, sizeof(float));
        float *got = calloc(count, sizeof(float));
        REQUIRE(want != NULL && got != NULL);
        const spsh_feature_input input = {.i16 = pcm, .sample_count = SAMPLES_MAX};
        featgen->isa = spsh__frames_isa_named("scalar");
        (void)compute(featgen, &input, want);
        for (size_t i = 1; i < ISA_COUNT; i++) {
            const spsh__frames_isa *isa = spsh__frames_isa_named(isa_names[i]);
            if (isa == NULL)
                continue;
            featgen->isa = isa;
            (void)compute(featgen, &input, got);
            CHECK(same_bits(got, want, count));
            CHECK_STR(spsh_featgen_isa(featgen), isa_names[i]);
        }
        free(want), free(got);
        spsh_featgen_close(featgen);
    }
    CHECK(spsh__frames_isa_named("mmx") == NULL);
}

/* FNV-1a of the values' bits. */
static uint64_t hash_of(const float *values, uint64_t count)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint64_t i = 0; i < count; i++) {
        uint32_t bits = 0;
        memcpy(&bits, &values[i], sizeof(bits));
        for (int byte = 0; byte < 4; byte++)
            hash = (hash ^ (bits >> (8 * byte) & 0xff)) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* All compilers and processors give the bits of gcc and clang on x86-64, and of gcc on aarch64. */
static void test_bits_are_pinned(void)
{
    static int16_t pcm[10000];
    static float rows[80 * 257];
    uint64_t state = 1; /* a fixed seed, because the hashes below depend on it */
    for (size_t i = 0; i < 10000; i++)
        pcm[i] = (int16_t)((int64_t)(test_random(&state) >> 50) - 8192);
    const struct {
        spsh_feature_options features;
        uint64_t hash;
    } pinned[] = {
        {kaldi_fbank(), UINT64_C(0x99ed67f4c5b0d68a)},
        {kaldi_mfcc(),  UINT64_C(0x5cdb65036ca365ea)},
        {whisper(),     UINT64_C(0x81017e6970d70b96)},
        {deepspeech(),  UINT64_C(0xb889a2b29b40d5c8)},
    };
    for (size_t i = 0; i < sizeof(pinned) / sizeof(pinned[0]); i++) {
        spsh_featgen *featgen = open_features(&pinned[i].features);
        const spsh_feature_input input = {.i16 = pcm, .sample_count = 10000};
        const uint64_t frames = compute(featgen, &input, rows);
        CHECK_U64(hash_of(rows, frames * spsh_featgen_dim(featgen)), pinned[i].hash);
        spsh_featgen_close(featgen);
    }
}

TEST_MAIN(unit_frames)
{
    stride = (uint32_t)test_stride(argc, argv, 11);
    RUN(test_transforms);
#ifdef TEST_FFTW
    RUN(test_transforms_by_fftw);
#endif
    RUN(test_logarithms);
    RUN(test_against_double);
    RUN(test_frame_counts);
    RUN(test_short_inputs);
    RUN(test_block_boundaries);
    RUN(test_hops_and_windows);
    RUN(test_silence_is_the_floor);
    RUN(test_floats_are_cleaned);
    RUN(test_floats_are_like_integers);
    RUN(test_padding);
    RUN(test_refused_inputs);
    RUN(test_every_allocation_failure);
    RUN(test_isas_agree_on_presets);
    RUN(test_bits_are_pinned);
    return TEST_RESULT();
}
