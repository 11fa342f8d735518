/* bench_train_ctc.c: the cost of the CTC loss with its gradient.
 *
 *     bench_train_ctc FRAMES BATCH SYMBOLS LABELS THREADS [cuda PLUGIN]
 *
 * ctc.py makes the same logits and labels. Reads counts from stdin, one per line. For each count,
 * computes loss and gradient that many times and prints one line: milliseconds of all by the clock
 * and of processors, the sum of losses. So ctc.py can alternate between programs.
 *
 * With `cuda`, logits and gradients are in the device's memory, labels and lengths in the host's.
 * Each time ends when the host has the losses, as in a step of training.
 */
#include <sys/resource.h>

#include "backend/backend.h"
#include "bench_kit.h"

static uint64_t draw(uint64_t sequence, uint64_t i)
{
    return mix64((sequence << 32) + (i + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

static double cpu_ms(void)
{
    struct rusage u;
    must(getrusage(RUSAGE_SELF, &u) == 0, "getrusage");
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-3;
}

static void *take(size_t count, size_t element_bytes)
{
    void *memory = calloc(count, element_bytes);
    must(memory != NULL, "no memory");
    return memory;
}

typedef struct job {
    spsh_cuda *cuda; /* NULL: the host */
    spsh__backend *backend;
    spsh__ctc_shape shape;
    spsh__backend_buffer logits, gradients;
    uint32_t *lengths, *labels, *offsets;
    spsh__ctc_result *results;
} job;

/* plugin: NULL for the host. */
static void open_backend(job *j, uint32_t threads, const char *plugin)
{
    spsh__backend_options options = {.name = "cpu", .threads = threads};
    if (plugin != NULL) {
        check_ok(spsh_cuda_open(plugin, &j->cuda, &failure));
        options.name = "cuda";
        options.cuda = j->cuda;
        options.precision = SPSH__FP32;
    }
    check_ok(spsh__backend_open_with(&options, spsh_allocator_default(), &j->backend, &failure));
}

static void make_batch(job *j, uint32_t label_count)
{
    const spsh__ctc_shape *s = &j->shape;
    const size_t values = (size_t)s->frames * s->batch * s->symbols;
    float *host = (float *)take(values, sizeof(float));
    j->lengths = (uint32_t *)take(s->batch, sizeof(uint32_t));
    j->offsets = (uint32_t *)take(s->batch + 1, sizeof(uint32_t));
    j->labels = (uint32_t *)take((size_t)s->batch * label_count + 1, sizeof(uint32_t));
    j->results = (spsh__ctc_result *)take(s->batch, sizeof(*j->results));
    for (size_t i = 0; i < values; i++)
        host[i] = (float)(draw(1, i) >> 40) / (float)(1 << 23) - 1;
    check_ok(j->backend->ops->alloc_fn(j->backend, values, &j->logits, &failure));
    check_ok(j->backend->ops->alloc_fn(j->backend, values, &j->gradients, &failure));
    j->backend->ops->write_f32_fn(j->backend, j->logits, host, values);
    free(host);
    for (uint32_t u = 0; u < s->batch; u++) {
        j->lengths[u] = s->frames;
        j->offsets[u + 1] = (u + 1) * label_count;
    }
    for (uint32_t i = 0; i < s->batch * label_count; i++)
        j->labels[i] = 1 + (uint32_t)(draw(3, i) % (s->symbols - 1));
}

static void serve(job *j)
{
    const spsh__label_batch labels = {j->labels, j->offsets};
    const spsh__ctc_io io = {j->logits, j->gradients, NULL, j->results};
    char line[32];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        const double begin = now_ms(), begin_cpu = cpu_ms();
        for (unsigned long i = strtoul(line, NULL, 10); i > 0; i--) {
            j->backend->ops->ctc_fn(j->backend, &j->shape, j->lengths, &labels, &io);
            spsh__backend_finish(j->backend);
        }
        const double ms = now_ms() - begin, processor_ms = cpu_ms() - begin_cpu;
        double loss = 0;
        check_ok(j->backend->ops->status_fn(j->backend, &failure));
        for (uint32_t u = 0; u < j->shape.batch; u++)
            loss += j->results[u].loss;
        printf("%.6f %.3f %.9g\n", ms, processor_ms, loss);
        must(fflush(stdout) == 0, "stdout");
    }
}

int main(int argc, char **argv)
{
    must(argc == 6 || (argc == 8 && strcmp(argv[6], "cuda") == 0),
         "usage: FRAMES BATCH SYMBOLS LABELS THREADS [cuda PLUGIN]");
    uint32_t n[5];
    for (int i = 0; i < 5; i++)
        n[i] = (uint32_t)strtoul(argv[i + 1], NULL, 10);
    must((size_t)n[0] * n[1] * n[2] > 0 && n[2] > 1 && n[3] <= n[0], "numbers");
    job j = {
        .shape = {n[0], n[1], n[2], 0, 1}
    };
    open_backend(&j, n[4], argc == 8 ? argv[7] : NULL);
    make_batch(&j, n[3]);
    serve(&j);
    j.backend->ops->free_fn(j.backend, j.logits);
    j.backend->ops->free_fn(j.backend, j.gradients);
    spsh__backend_close(j.backend);
    spsh_cuda_close(j.cuda);
    free(j.lengths);
    free(j.labels);
    free(j.offsets);
    free(j.results);
    return 0;
}
