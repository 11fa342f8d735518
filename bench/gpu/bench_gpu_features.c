/* bench_gpu_features.c PLUGIN: features on a GPU, in hours of audio per second, compared with the
 * bandwidth of the device's memory.
 *
 *     bench_gpu_features build/release/libspeechshard-cuda.so
 *
 * A batch is UTTERANCES stretches of 12 s of noise at 16 kHz, in the device's memory before the
 * clock starts; rows stay there. PLACES batches take turns, each in separate memory: 246 MB of
 * samples and their rows, so that no cache still has the inputs. BATCHES are enqueued on one stream
 * without waiting; wall time to the end of the last, the median of ROUNDS rounds after one that
 * does not count. `bytes`: the minimum to move, each sample read once and each value written once
 * (a norm reads and writes more). `of_copy`: those bytes per second, relative to a copy of 1 GiB
 * within the device's memory (reads and writes counted). `of_bandwidth`: relative to the bandwidth
 * that clock and bus width give. Before the clock starts, the first batch is compared with the
 * CPU's.
 *
 * Prints one JSON object. Without a device: {"measured": false, "reason": ...}, exit status 0.
 */
#include <math.h>

#include "bench_device.h"
#include "speechshard/featgen_cuda.h"

enum {
    UTTERANCES = 64,
    SAMPLES = 12 * 16000,
    PLACES = 10,
    BATCHES = 50,
    ROUNDS = 5,
    COPIES = 10,
    COPY_BYTES = 1 << 30
};

/* The tolerance that FEATURES.md promises; relative for values as large as 1e8 (a power). */
#define TOLERANCE 1e-4

static const char *const texts[] = {
    "kaldi-fbank", "kaldi-mfcc",  "whisper-logmel", "whisper-logmel,mel_count=128",
    "deepspeech",  "spectrogram",
};

static int16_t *host_samples, *samples;
static uint64_t offsets[UTTERANCES], counts[UTTERANCES];

static void make_samples(void)
{
    uint64_t state = 1;
    const size_t count = (size_t)UTTERANCES * SAMPLES;
    host_samples = calloc(count, sizeof(*host_samples));
    must(host_samples != NULL, "memory");
    for (size_t i = 0; i < count; i++)
        host_samples[i] = (int16_t)((int32_t)(next_random(&state) % 20001) - 10000);
    for (size_t u = 0; u < UTTERANCES; u++) {
        offsets[u] = u * SAMPLES;
        counts[u] = SAMPLES;
    }
    samples = device_memory(PLACES * count * sizeof(*samples));
    for (size_t place = 0; place < PLACES; place++)
        check_ok(spsh_cuda_copy(cuda, samples + place * count, host_samples,
                                count * sizeof(*samples), NULL, &failure));
    check_ok(spsh_cuda_synchronize(cuda, NULL, &failure));
}

/* Bytes per second, reads and writes together. */
static double copy_speed(void)
{
    char *memory = device_memory((size_t)2 * COPY_BYTES);
    double best = 0;
    for (int round = 0; round <= ROUNDS; round++) {
        const double start = now_ms();
        for (int i = 0; i < COPIES; i++)
            check_ok(spsh_cuda_copy(cuda, memory + COPY_BYTES, memory, COPY_BYTES, NULL, &failure));
        check_ok(spsh_cuda_synchronize(cuda, NULL, &failure));
        const double speed = 2.0 * COPIES * COPY_BYTES / ((now_ms() - start) * 1e-3);
        best = speed > best ? speed : best;
    }
    spsh_cuda_free(cuda, memory);
    return best;
}

/* Subject of one line of results. */
typedef struct bench_case {
    spsh_featgen *featgen;
    spsh_cuda_features *features;
    spsh_cuda_feature_batch batches[PLACES];
    float *values; /* float16 rows need less */
    size_t value_count;
} bench_case;

static void open_case(bench_case *one, const char *text, spsh_feature_dtype dtype)
{
    spsh_feature_options options = SPSH_FEATURE_OPTIONS_INIT;
    spsh_cuda_features_options device_options = SPSH_CUDA_FEATURES_OPTIONS_INIT;
    check_ok(spsh_feature_options_parse(text, &options, &failure));
    check_ok(spsh_featgen_open(&options, NULL, &one->featgen, &failure));
    device_options.dtype = dtype;
    check_ok(
        spsh_cuda_features_open(cuda, one->featgen, &device_options, &one->features, &failure));
    one->value_count = UTTERANCES * spsh_featgen_frame_count(one->featgen, SAMPLES) *
                       spsh_featgen_dim(one->featgen);
    one->values = device_memory(PLACES * one->value_count * sizeof(float));
    for (size_t place = 0; place < PLACES; place++)
        one->batches[place] = (spsh_cuda_feature_batch){
            .samples = samples + place * UTTERANCES * SAMPLES,
            .offsets = offsets,
            .sample_counts = counts,
            .count = UTTERANCES,
            .values = one->values + place * one->value_count,
            .capacity = one->value_count,
        };
}

static void close_case(bench_case *one)
{
    spsh_cuda_features_close(one->features);
    spsh_featgen_close(one->featgen);
    spsh_cuda_free(cuda, one->values);
}

/* Compare only float values: float16 values are the same values, rounded. */
static void compare(const bench_case *one, const char *text)
{
    const size_t count = one->value_count / UTTERANCES;
    float *got = calloc(2 * count, sizeof(*got));
    float *want = got + count;
    spsh_featgen_worker *worker = NULL;
    const spsh_feature_input input = {.i16 = host_samples, .sample_count = SAMPLES};
    must(got != NULL, "memory");
    check_ok(spsh_featgen_worker_open(one->featgen, &worker, &failure));
    check_ok(spsh_featgen_compute(worker, &input, want, &failure));
    check_ok(spsh_cuda_features_compute(one->features, NULL, &one->batches[0], NULL, &failure));
    check_ok(spsh_cuda_copy(cuda, got, one->values, count * sizeof(*got), NULL, &failure));
    check_ok(spsh_cuda_synchronize(cuda, NULL, &failure));
    for (size_t i = 0; i < count; i++)
        must(fabs((double)got[i] - (double)want[i]) <= TOLERANCE * fmax(1, fabs((double)want[i])),
             text);
    spsh_featgen_worker_close(worker);
    free(got);
}

/* Seconds per batch. */
static double batch_seconds(const bench_case *one)
{
    double seconds[ROUNDS + 1];
    for (int round = 0; round <= ROUNDS; round++) {
        const double start = now_ms();
        for (int i = 0; i < BATCHES; i++)
            check_ok(spsh_cuda_features_compute(one->features, NULL, &one->batches[i % PLACES],
                                                NULL, &failure));
        check_ok(spsh_cuda_synchronize(cuda, NULL, &failure));
        seconds[round] = (now_ms() - start) * 1e-3 / BATCHES;
    }
    return figure_of(seconds + 1, ROUNDS).median;
}

static void run_case(const char *text, spsh_feature_dtype dtype, double copy, double bandwidth)
{
    bench_case one = {0};
    open_case(&one, text, dtype);
    if (dtype == SPSH_FLOAT32)
        compare(&one, text);
    const double seconds = batch_seconds(&one);
    const double value_bytes = dtype == SPSH_FLOAT16 ? 2 : 4;
    const double bytes =
        (double)UTTERANCES * SAMPLES * sizeof(int16_t) + (double)one.value_count * value_bytes;
    printf("%s\n    {\"features\": \"%s\", \"dtype\": \"float%d\", \"hours_per_s\": %.1f, "
           "\"bytes_per_batch\": %.0f, \"gb_per_s\": %.1f, \"of_copy\": %.3f, "
           "\"of_bandwidth\": %.3f}",
           text == texts[0] && dtype == SPSH_FLOAT32 ? "" : ",", text,
           dtype == SPSH_FLOAT16 ? 16 : 32, (double)UTTERANCES * SAMPLES / 16000 / 3600 / seconds,
           bytes, bytes / seconds * 1e-9, bytes / seconds / copy,
           bandwidth > 0 ? bytes / seconds / bandwidth : 0);
    close_case(&one);
}

int main(int argc, char **argv)
{
    spsh_cuda_device device = SPSH_CUDA_DEVICE_INIT;
    must(argc == 2, "usage: bench_gpu_features PLUGIN");
    open_device(argv[1], &device);
    make_samples();
    const double copy = copy_speed();
    const double bandwidth = (double)device.bandwidth_bytes;
    printf("{\n  \"measured\": true, \"device\": \"%s\", \"bandwidth_gb_per_s\": %.0f, "
           "\"copy_gb_per_s\": %.0f,\n  \"batch\": \"%d utterances of %d s\",\n  \"results\": [",
           device.name, bandwidth * 1e-9, copy * 1e-9, UTTERANCES, SAMPLES / 16000);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        run_case(texts[i], SPSH_FLOAT32, copy, bandwidth);
        run_case(texts[i], SPSH_FLOAT16, copy, bandwidth);
    }
    printf("\n  ]\n}\n");
    spsh_cuda_free(cuda, samples);
    free(host_samples);
    spsh_cuda_close(cuda);
    return 0;
}
