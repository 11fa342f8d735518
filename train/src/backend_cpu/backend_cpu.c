/* backend_cpu.c: the backend `cpu`: floats, threads, and vectors, in host memory. cpu.h lists the
 * file of each operator. */
#include "cpu.h"
#include "speechshard/cores.h"
#include "speechshard/inside.h"

enum { THREADS_MAX = 1024 };

static float *grow(spsh__backend *b, spsh__cpu_buffer *buffer, size_t floats)
{
    spsh__cpu *cpu = spsh__cpu_of(b);
    if (floats <= buffer->floats && buffer->data.data != NULL)
        return spsh__f32(buffer->data);
    spsh__host_free(b, buffer->data);
    *buffer = (spsh__cpu_buffer){.floats = 0};
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh__host_alloc(b, floats, &buffer->data, &err) != SPSH_OK) {
        if (cpu->failure.status == SPSH_OK)
            cpu->failure = err;
        return NULL;
    }
    buffer->floats = floats;
    return spsh__f32(buffer->data);
}

float *spsh__cpu_scratch(spsh__backend *b, size_t floats)
{
    return grow(b, &spsh__cpu_of(b)->scratch, floats);
}

float *spsh__cpu_gemm_scratch(spsh__backend *b, size_t floats)
{
    return grow(b, &spsh__cpu_of(b)->gemm_scratch, floats);
}

static void close_cpu(spsh__backend *b)
{
    spsh__cpu *cpu = spsh__cpu_of(b);
    if (cpu == NULL)
        return;
    spsh__cpu_pool_close(cpu->pool);
    spsh__host_free(b, cpu->scratch.data);
    spsh__host_free(b, cpu->gemm_scratch.data);
    spsh__free(&b->allocator, cpu);
    b->state = NULL;
}

static spsh_status status(spsh__backend *b, spsh_error *err)
{
    const spsh_error *failure = &spsh__cpu_of(b)->failure;
    return spsh__fail_again(failure->status, failure, err);
}

void spsh__cpu_write_f32(spsh__backend *b, spsh__backend_buffer to, const float *from, size_t count)
{
    (void)b;
    if (count > 0)
        memcpy(to.data, from, count * sizeof(*from));
}

void spsh__cpu_read_f32(spsh__backend *b, float *to, spsh__backend_buffer from, size_t count)
{
    (void)b;
    if (count > 0)
        memcpy(to, from.data, count * sizeof(*to));
}

void spsh__cpu_zero(spsh__backend *b, spsh__backend_buffer to, size_t count)
{
    (void)b;
    if (count > 0)
        memset(to.data, 0, count * sizeof(float));
}

void spsh__cpu_copy(spsh__backend *b, spsh__backend_buffer to, spsh__backend_buffer from,
                    size_t count)
{
    spsh__cpu_write_f32(b, to, spsh__f32(from), count);
}

#define SPSH_X(name_) , .name_##_fn = spsh__cpu_##name_
static const spsh__backend_ops cpu_ops = {
    .name = "cpu",
    .element_bytes = sizeof(float),
    .close_fn = close_cpu,
    .status_fn = status,
    .alloc_fn = spsh__host_alloc,
    .free_fn = spsh__host_free SPSH__OPERATORS(SPSH_X),
};
#undef SPSH_X

spsh_status spsh__backend_cpu_open(spsh__backend *backend, spsh_error *err)
{
    spsh__cpu *cpu = spsh__new(&backend->allocator, 1, sizeof(*cpu));
    if (cpu == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "backend cpu: %zu bytes", sizeof(*cpu));
    backend->ops = &cpu_ops;
    backend->state = cpu;
    if (backend->threads == 0)
        backend->threads = spsh_core_count(THREADS_MAX);
    if (backend->threads > THREADS_MAX)
        backend->threads = THREADS_MAX;
    cpu->kernels = spsh__cpu_kernels_best();
    spsh_status rc = spsh__cpu_pool_open(&backend->allocator, backend->threads, &cpu->pool, err);
    if (rc != SPSH_OK)
        close_cpu(backend);
    return rc;
}
