/* bench_ctc.c: what does the CTC loss with its gradient cost?
 *
 *     bench_train_ctc FRAMES BATCH SYMBOLS LABELS THREADS
 *
 * Logits and labels are numbers that ctc.py makes too. Reads counts from stdin, one a line; for
 * each computes loss and gradient so often and prints one line: milliseconds of all by the clock
 * and of processors, the sum of losses. So ctc.py can have turns.
 */
#include <sys/resource.h>

#include "backend.h"
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

int main(int argc, char **argv)
{
    must(argc == 6, "usage: FRAMES BATCH SYMBOLS LABELS THREADS");
    uint32_t n[5];
    for (int i = 0; i < 5; i++)
        n[i] = (uint32_t)strtoul(argv[i + 1], NULL, 10);
    const spsh__ctc_shape shape = {n[0], n[1], n[2], 0, 1};
    const uint32_t label_count = n[3];
    const size_t values = (size_t)n[0] * n[1] * n[2];
    must(values > 0 && n[2] > 1 && label_count <= n[0], "numbers");

    spsh__backend *b = NULL;
    spsh__buffer logits = {NULL}, gradients = {NULL};
    check_ok(spsh__backend_open("cpu", n[4], NULL, &b, &err));
    check_ok(b->ops->alloc_fn(b, values, &logits, &err));
    check_ok(b->ops->alloc_fn(b, values, &gradients, &err));
    float *host = (float *)take(values, sizeof(float));
    uint32_t *lengths = (uint32_t *)take(shape.batch, sizeof(uint32_t));
    uint32_t *offsets = (uint32_t *)take(shape.batch + 1, sizeof(uint32_t));
    uint32_t *labels = (uint32_t *)take((size_t)shape.batch * label_count + 1, sizeof(uint32_t));
    spsh__ctc_result *results = (spsh__ctc_result *)take(shape.batch, sizeof(*results));
    for (size_t i = 0; i < values; i++)
        host[i] = (float)(draw(1, i) >> 40) / (float)(1 << 23) - 1;
    b->ops->write_f32_fn(b, logits, host, values);
    for (uint32_t u = 0; u < shape.batch; u++) {
        lengths[u] = shape.frames;
        offsets[u + 1] = (u + 1) * label_count;
    }
    for (uint32_t i = 0; i < shape.batch * label_count; i++)
        labels[i] = 1 + (uint32_t)(draw(3, i) % (shape.symbols - 1));
    const spsh__label_batch batch = {labels, offsets};
    const spsh__ctc_io io = {logits, gradients, NULL, results};

    char line[32];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        const double begin = now_ms(), begin_cpu = cpu_ms();
        for (unsigned long i = strtoul(line, NULL, 10); i > 0; i--)
            b->ops->ctc_fn(b, &shape, lengths, &batch, &io);
        double loss = 0;
        for (uint32_t u = 0; u < shape.batch; u++)
            loss += results[u].loss;
        printf("%.6f %.3f %.9g\n", now_ms() - begin, cpu_ms() - begin_cpu, loss);
        must(fflush(stdout) == 0, "stdout");
    }
    check_ok(b->ops->status_fn(b, &err));
    b->ops->free_fn(b, logits);
    b->ops->free_fn(b, gradients);
    spsh__backend_close(b);
    free(host);
    free(lengths);
    free(offsets);
    free(labels);
    free(results);
    return 0;
}
