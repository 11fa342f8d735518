/* bench_featgen.c: how fast features are made of samples in memory, by one thread, for each preset
 * and instruction set. Also the share of the Fourier transform, and FFTW's time if it was found.
 *
 *     bench_featgen FILE-OR-FOLDER... > results/featgen-NAME.json
 *
 * All files that libsndfile opens are decoded to 16 bits first (the first channel of several) and
 * count as 16 kHz. A round measures each case once, so that a disturbance affects all. A figure is
 * the median of the thread's processor time in ROUNDS rounds. `frame_ns`: nanoseconds per frame.
 * `realtime`: seconds of audio per second. `fft_ns`: our real transform to powers, of one frame per
 * lane at once. FFTW's is a real transform to complex numbers, planned with FFTW_PATIENT for 16
 * frames, one after the other (`rows`) or interleaved (`lanes`).
 */
#include <sndfile.h>

#if BENCH_FFTW
#include <fftw3.h>
#endif

#include "bench_files.h"
#include "bench_kit.h"
#include "features/featgen_state.h"

enum { ROUNDS = 7, FILES_MAX = 100000, CASES_MAX = 64, FFT_BLOCKS = 2000, FFTW_FRAMES = 16 };

typedef struct bench_file {
    int16_t *pcm;
    uint64_t count;
} bench_file;

static bench_file files[FILES_MAX];
static size_t file_count;
static uint64_t sample_count;
static uint64_t longest;

static const char *const isa_names[] = {"avx512", "avx2", "sse2", "neon", "scalar"};

/* Case of one line of results. */
typedef struct bench_case {
    const char *preset, *isa;
    spsh_featgen *featgen;
    spsh_featgen_worker *worker;
    uint64_t frames;
    double frame_ns[ROUNDS], fft_ns[ROUNDS];
} bench_case;

static bench_case cases[CASES_MAX];
static size_t case_count;
static float *rows;

static void take(const char *path)
{
    SF_INFO info = {0};
    SNDFILE *sound = sf_open(path, SFM_READ, &info);
    if (sound == NULL)
        return;
    must(file_count < FILES_MAX, "too many files");
    if (info.frames > 0) {
        const size_t channels = (size_t)info.channels;
        bench_file *file = &files[file_count++];
        file->pcm = calloc((size_t)info.frames * channels, sizeof(*file->pcm));
        must(file->pcm != NULL, "memory");
        file->count = (uint64_t)sf_readf_short(sound, file->pcm, info.frames);
        for (uint64_t i = 0; i < file->count; i++)
            file->pcm[i] = file->pcm[i * channels];
        sample_count += file->count;
        longest = file->count > longest ? file->count : longest;
    }
    (void)sf_close(sound);
}

static void add_cases(const char *preset)
{
    for (size_t i = 0; i < sizeof(isa_names) / sizeof(isa_names[0]); i++) {
        const spsh__frames_isa *isa = spsh__frames_isa_named(isa_names[i]);
        if (isa == NULL)
            continue;
        must(case_count < CASES_MAX, "too many cases");
        bench_case *one = &cases[case_count++];
        spsh_feature_options features = SPSH_FEATURE_OPTIONS_INIT;
        one->preset = preset;
        one->isa = isa->name;
        check(spsh_feature_options_preset(preset, &features, &failure), preset);
        check(spsh_featgen_open(&features, NULL, &one->featgen, &failure), preset);
        one->featgen->isa = isa;
        check(spsh_featgen_worker_open(one->featgen, &one->worker, &failure), preset);
        for (size_t file = 0; file < file_count; file++)
            one->frames += spsh_featgen_frame_count(one->featgen, files[file].count);
    }
}

static void allocate_buffers(void)
{
    uint64_t most = 1;
    for (size_t i = 0; i < case_count; i++) {
        const spsh_featgen *featgen = cases[i].featgen;
        const uint64_t values =
            spsh_featgen_frame_count(featgen, longest) * spsh_featgen_dim(featgen);
        most = values > most ? values : most;
    }
    rows = calloc(most, sizeof(*rows));
    must(rows != NULL, "memory");
}

static void run_features(bench_case *one, size_t round)
{
    const double start = cpu_seconds();
    for (size_t i = 0; i < file_count; i++) {
        const spsh_feature_input input = {.i16 = files[i].pcm, .sample_count = files[i].count};
        check(spsh_featgen_compute(one->worker, &input, rows, &failure), one->preset);
    }
    one->frame_ns[round] = (cpu_seconds() - start) * 1e9 / (double)one->frames;
}

/* The transform works in place, so it gets new samples each time. The copy is timed separately and
 * subtracted. */
static void run_transform(bench_case *one, size_t round)
{
    const spsh__frame_tables *tables = &one->featgen->tables;
    const spsh__frames_isa *isa = one->featgen->isa;
    const size_t bytes = (spsh__frames_scratch_bytes(tables, isa->lanes) + 63) / 64 * 64;
    const size_t float_count = (size_t)tables->fft_size * isa->lanes;
    float *scratch = aligned_alloc(64, bytes);
    float *samples = aligned_alloc(64, float_count * sizeof(float));
    must(scratch != NULL && samples != NULL, "memory");
    memset(scratch, 0, bytes);
    for (size_t i = 0; i < float_count; i++)
        samples[i] = (float)files[0].pcm[i % files[0].count];
    double seconds[2];
    for (int part = 0; part < 2; part++) {
        const double start = cpu_seconds();
        for (int block = 0; block < FFT_BLOCKS; block++) {
            memcpy(scratch, samples, float_count * sizeof(float));
            __asm__ volatile("" ::: "memory");
            if (part == 1)
                isa->transform_fn(tables, scratch);
        }
        seconds[part] = cpu_seconds() - start;
    }
    one->fft_ns[round] = (seconds[1] - seconds[0]) * 1e9 / FFT_BLOCKS / isa->lanes;
    free(scratch), free(samples);
}

#if BENCH_FFTW
typedef struct fftw_case {
    uint32_t size;
    bool is_lanes;
    fftwf_plan plan;
    float *in;
    double fft_ns[ROUNDS];
} fftw_case;

static fftw_case fftw_cases[CASES_MAX];
static size_t fftw_count;

static void add_fftw(uint32_t size)
{
    for (size_t i = 0; i < fftw_count; i++)
        if (fftw_cases[i].size == size)
            return;
    for (int is_lanes = 0; is_lanes < 2; is_lanes++) {
        const int n = (int)size;
        const int bins = n / 2 + 1;
        fftw_case *one = &fftw_cases[fftw_count++];
        one->size = size;
        one->is_lanes = is_lanes != 0;
        one->in = fftwf_malloc(sizeof(float) * size * FFTW_FRAMES);
        fftwf_complex *out = fftwf_malloc(sizeof(fftwf_complex) * (size_t)bins * FFTW_FRAMES);
        must(one->in != NULL && out != NULL, "memory");
        const int stride = is_lanes ? FFTW_FRAMES : 1;
        one->plan =
            fftwf_plan_many_dft_r2c(1, &n, FFTW_FRAMES, one->in, NULL, stride, is_lanes ? 1 : n,
                                    out, NULL, stride, is_lanes ? 1 : bins, FFTW_PATIENT);
        for (size_t i = 0; i < (size_t)size * FFTW_FRAMES; i++)
            one->in[i] = (float)files[0].pcm[i % files[0].count];
    }
}

static void run_fftw(size_t round)
{
    for (size_t i = 0; i < fftw_count; i++) {
        const double start = cpu_seconds();
        for (int block = 0; block < FFT_BLOCKS; block++)
            fftwf_execute(fftw_cases[i].plan);
        fftw_cases[i].fft_ns[round] = (cpu_seconds() - start) * 1e9 / FFT_BLOCKS / FFTW_FRAMES;
    }
}

static void print_fftw(void)
{
    printf("  \"fftw\": [\n");
    for (size_t i = 0; i < fftw_count; i++) {
        const figure f = figure_of(fftw_cases[i].fft_ns, ROUNDS);
        printf("    {\"size\": %u, \"layout\": \"%s\", \"fft_ns\": %.1f, \"spread_percent\": "
               "%.1f}%s\n",
               fftw_cases[i].size, fftw_cases[i].is_lanes ? "lanes" : "rows", f.median,
               f.spread_percent, i + 1 < fftw_count ? "," : "");
    }
    printf("  ],\n");
}
#endif

static void print_cases(void)
{
    printf("  \"features\": [\n");
    for (size_t i = 0; i < case_count; i++) {
        bench_case *one = &cases[i];
        const figure frame = figure_of(one->frame_ns, ROUNDS);
        const figure fft = figure_of(one->fft_ns, ROUNDS);
        const double seconds = frame.median * (double)one->frames / 1e9;
        printf("    {\"preset\": \"%s\", \"isa\": \"%s\", \"frame_ns\": %.1f, "
               "\"spread_percent\": %.1f, \"frames_per_s\": %.0f, \"realtime\": %.0f, "
               "\"fft_ns\": %.1f, \"fft_fraction\": %.2f}%s\n",
               one->preset, one->isa, frame.median, frame.spread_percent, 1e9 / frame.median,
               (double)sample_count / 16000 / seconds, fft.median, fft.median / frame.median,
               i + 1 < case_count ? "," : "");
    }
    printf("  ]\n}\n");
}

int main(int argc, char **argv)
{
    must(argc >= 2, "usage: bench_featgen FILE-OR-FOLDER...");
    for (int i = 1; i < argc; i++)
        bench_walk(argv[i], take);
    must(file_count > 0, "no audio");
    for (uint32_t i = 0; spsh_feature_preset_name(i) != NULL; i++)
        add_cases(spsh_feature_preset_name(i));
    allocate_buffers();
#if BENCH_FFTW
    for (size_t i = 0; i < case_count; i++)
        add_fftw(cases[i].featgen->tables.fft_size);
#endif
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < case_count; i++) {
            run_features(&cases[i], round);
            run_transform(&cases[i], round);
        }
#if BENCH_FFTW
        run_fftw(round);
#endif
    }
    printf("{\n  \"files\": %zu, \"audio_s\": %.1f, \"rounds\": %d,\n", file_count,
           (double)sample_count / 16000, ROUNDS);
#if BENCH_FFTW
    print_fftw();
#endif
    print_cases();
    return 0;
}
