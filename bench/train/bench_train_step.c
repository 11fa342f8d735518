/* bench_train_step.c: the cost of a step of training, from features to new weights.
 *
 *     bench_train_step MODEL INPUTS OUTPUTS BATCH FRAMES varied|equal THREADS [cuda PRECISION
 * PLUGIN]
 *
 * MODEL is a preset, with BN `compat`. train_steps.py makes the same batch: features uniform in -1
 * ... 1, a label every LABEL_FRAMES frames of an utterance, lengths all FRAMES or down to half of
 * them. Reads counts from stdin, one per line. For each count, makes that many steps of SGD with
 * Nesterov's momentum on the same batch and prints one line: milliseconds of all by the clock and
 * of processors, the peak memory of the process in MiB, the loss before each step. So
 * train_steps.py can alternate between programs.
 *
 * With `cuda`, the batch is in the device's memory. MiB is the decrease of the device's free memory
 * since the program began (its use, if no other program uses the device). The norm of the gradients
 * is computed as in a run, and with fp16 losses are scaled by LOSS_SCALE.
 */
#include <math.h>
#include <sys/resource.h>

#include "bench_kit.h"
#include "model/model.h"

enum { LABEL_FRAMES = 8, STEPS_MAX = 1000, LOSS_SCALE = 1024 };

static const spsh__sgd sgd = {.rate = 2e-5, .momentum = 0.9, .is_nesterov = true};

typedef struct job {
    spsh_cuda *cuda; /* NULL: the host */
    void *device_features;
    uint64_t free_bytes; /* free memory of the device at the start */
    double loss_scale;
    spsh__backend *backend;
    spsh__model *model;
    spsh__model_shape shape;
    spsh__model_batch batch;
    float *features;
    uint32_t *lengths, *out_lengths, *labels, *offsets;
    spsh__ctc_result *results;
    spsh__backend_buffer moment;
} job;

static void *take(size_t count, size_t element_bytes)
{
    void *memory = calloc(count, element_bytes);
    must(memory != NULL, "no memory");
    return memory;
}

/* Number i of a sequence. */
static uint64_t draw(uint64_t sequence, uint64_t i)
{
    return mix64((sequence << 32) + (i + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

static void make_batch(job *j, uint32_t batch, uint32_t frames, bool is_varied)
{
    const size_t values = (size_t)batch * frames * j->shape.inputs;
    j->features = (float *)take(values, sizeof(float));
    j->lengths = (uint32_t *)take(batch, sizeof(uint32_t));
    j->out_lengths = (uint32_t *)take(batch, sizeof(uint32_t));
    j->offsets = (uint32_t *)take(batch + 1, sizeof(uint32_t));
    j->labels = (uint32_t *)take((size_t)batch * frames, sizeof(uint32_t));
    j->results = (spsh__ctc_result *)take(batch, sizeof(spsh__ctc_result));
    for (size_t i = 0; i < values; i++)
        j->features[i] = (float)(draw(1, i) >> 40) / (float)(1 << 23) - 1;
    for (uint32_t n = 0; n < batch; n++) {
        const uint32_t less = is_varied ? (uint32_t)(draw(2, n) % (frames / 2)) : 0;
        j->lengths[n] = frames - less;
        j->offsets[n + 1] = j->offsets[n] + j->lengths[n] / LABEL_FRAMES;
    }
    for (uint32_t i = 0; i < j->offsets[batch]; i++)
        j->labels[i] = 1 + (uint32_t)(draw(3, i) % (j->shape.outputs - 1));
    j->batch = (spsh__model_batch){
        .features = j->features, .lengths = j->lengths, .batch = batch, .frames = frames};
}

/* No element decays, so the whole arena is one slice. */
static void update(job *j)
{
    const spsh__backend_ops *ops = j->backend->ops;
    const size_t count = spsh__model_arena_elements(j->model);
    const spsh__update u = {.weights = spsh__model_weights(j->model),
                            .gradients = spsh__model_gradients(j->model),
                            .moments = {j->moment},
                            .count = count,
                            .gradient_scale = 1 / j->loss_scale};
    if (j->cuda != NULL)
        must(isfinite(ops->square_sum_fn(j->backend, u.gradients, count)), "gradients");
    ops->sgd_fn(j->backend, &sgd, &u);
    spsh__model_weights_changed(j->model);
    ops->zero_fn(j->backend, u.gradients, count);
}

static double step(job *j)
{
    const spsh__backend_ops *ops = j->backend->ops;
    const uint32_t batch = j->batch.batch;
    const spsh__label_batch labels = {j->labels, j->offsets};
    const spsh__ctc_shape shape = {spsh__model_out_frames(j->model, j->batch.frames), batch,
                                   j->shape.outputs, 0, j->loss_scale / batch};
    spsh__ctc_io io = {.dlogits = spsh__model_logit_gradients(j->model), .results = j->results};
    double loss = 0;
    check_ok(spsh__model_forward(j->model, &j->batch, true, &io.logits, j->out_lengths, &failure));
    ops->ctc_fn(j->backend, &shape, spsh__model_out_lengths(j->model), &labels, &io);
    spsh__model_backward(j->model, io.dlogits, NULL, NULL);
    if (ops->finish_fn != NULL)
        ops->finish_fn(j->backend);
    update(j);
    check_ok(ops->status_fn(j->backend, &failure));
    for (uint32_t n = 0; n < batch; n++)
        loss += j->results[n].is_infeasible ? 0 : j->results[n].loss / batch;
    return loss;
}

/* Peak memory in MiB. (Not getrusage: its peak starts with the peak of the parent process.) */
static double peak_mib(void)
{
    char line[128];
    unsigned long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    must(file != NULL, "/proc/self/status");
    while (kib == 0 && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtoul(line + 6, NULL, 10);
    }
    (void)fclose(file);
    return (double)kib / 1024;
}

static double device_mib(const job *j)
{
    uint64_t free_bytes = 0, all_bytes = 0;
    check_ok(spsh_cuda_memory(j->cuda, 0, &free_bytes, &all_bytes, &failure));
    return free_bytes < j->free_bytes ? (double)(j->free_bytes - free_bytes) / (1 << 20) : 0;
}

/* Milliseconds of processor time, and the peak memory in MiB. */
static void usage(const job *j, double *ret_cpu_ms, double *ret_peak_mib)
{
    struct rusage u;
    must(getrusage(RUSAGE_SELF, &u) == 0, "getrusage");
    const struct timeval *user = &u.ru_utime, *system = &u.ru_stime;
    *ret_cpu_ms = (double)(user->tv_sec + system->tv_sec) * 1e3 +
                  (double)(user->tv_usec + system->tv_usec) * 1e-3;
    *ret_peak_mib = j->cuda != NULL ? device_mib(j) : peak_mib();
}

static void serve(job *j)
{
    double cpu_begin = 0, cpu_end = 0, peak = 0;
    char line[32];
    double losses[STEPS_MAX];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        const unsigned long count = strtoul(line, NULL, 10);
        must(count > 0 && count <= STEPS_MAX, "so many steps");
        usage(j, &cpu_begin, &peak);
        const double begin = now_ms();
        for (unsigned long i = 0; i < count; i++)
            losses[i] = step(j);
        const double end = now_ms();
        usage(j, &cpu_end, &peak);
        printf("%.6f %.3f %.1f", end - begin, cpu_end - cpu_begin, peak);
        for (unsigned long i = 0; i < count; i++)
            printf(" %.9g", losses[i]);
        printf("\n");
        must(fflush(stdout) == 0, "stdout");
    }
}

static spsh__precision precision_of(const char *name)
{
    static const char *const names[] = {"fp32", "tf32", "bf16", "fp16"};
    for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0)
            return (spsh__precision)i;
    }
    must(false, "precision: fp32, tf32, bf16 or fp16");
    return SPSH__FP32;
}

/* The batch goes to the device. */
static void bring(job *j)
{
    const size_t bytes =
        (size_t)j->batch.batch * j->batch.frames * j->shape.inputs * sizeof(*j->features);
    check_ok(spsh_cuda_alloc(j->cuda, 0, bytes, &j->device_features, &failure));
    check_ok(spsh_cuda_copy(j->cuda, j->device_features, j->features, bytes, NULL, &failure));
    check_ok(spsh_cuda_synchronize(j->cuda, NULL, &failure));
    j->batch.features = NULL;
    j->batch.device_features = j->device_features;
}

static void open_backend(job *j, int argc, char **argv)
{
    spsh__backend_options options = {.name = "cpu",
                                     .threads = (uint32_t)strtoul(argv[7], NULL, 10)};
    j->loss_scale = 1;
    if (argc == 11) {
        uint64_t all_bytes = 0;
        must(strcmp(argv[8], "cuda") == 0, "cuda");
        check_ok(spsh_cuda_open(argv[10], &j->cuda, &failure));
        check_ok(spsh_cuda_memory(j->cuda, 0, &j->free_bytes, &all_bytes, &failure));
        options.name = "cuda";
        options.cuda = j->cuda;
        options.precision = precision_of(argv[9]);
        options.has_graphs = true;
        if (options.precision == SPSH__FP16)
            j->loss_scale = LOSS_SCALE;
        bring(j);
    }
    check_ok(spsh__backend_open_with(&options, spsh_allocator_default(), &j->backend, &failure));
}

int main(int argc, char **argv)
{
    must(argc == 8 || argc == 11,
         "usage: MODEL INPUTS OUTPUTS BATCH FRAMES varied|equal THREADS [cuda PRECISION PLUGIN]");
    job j = {
        .shape = {.inputs = (uint32_t)strtoul(argv[2], NULL, 10),
                  .outputs = (uint32_t)strtoul(argv[3], NULL, 10)}
    };
    const uint32_t batch = (uint32_t)strtoul(argv[4], NULL, 10);
    const uint32_t frames = (uint32_t)strtoul(argv[5], NULL, 10);
    must(j.shape.inputs > 0 && j.shape.outputs > 1 && batch > 0 && frames > 1, "numbers");
    check_ok(spsh__model_preset(argv[1], &j.shape, &failure));
    j.shape.counts_padding = true; /* so the model adds no padding on a device */
    make_batch(&j, batch, frames, strcmp(argv[6], "varied") == 0);
    open_backend(&j, argc, argv);
    const spsh__model_limits limits = {batch, frames, (uint64_t)batch * frames};
    check_ok(spsh__model_open(j.backend, &j.shape, &limits, &j.model, &failure));
    check_ok(j.backend->ops->alloc_fn(j.backend, spsh__model_arena_elements(j.model), &j.moment,
                                      &failure));
    spsh__model_init(j.model, 1);
    serve(&j);
    j.backend->ops->free_fn(j.backend, j.moment);
    spsh__model_close(j.model);
    spsh__backend_close(j.backend);
    if (j.cuda != NULL)
        spsh_cuda_free(j.cuda, j.device_features);
    spsh_cuda_close(j.cuda);
    free(j.features);
    free(j.lengths);
    free(j.out_lengths);
    free(j.offsets);
    free(j.labels);
    free(j.results);
    return 0;
}
