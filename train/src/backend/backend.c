/* backend.c: open backends by name, and allocate buffers of backends in host memory.
 *
 * A host buffer is a block of the allocator with spare bytes in front. Its data begins at a
 * multiple of 256 bytes, and the word before the data holds the address of the block.
 */
#include "backend.h"

#include "speechshard/inside.h"

#define ALIGNMENT_BYTES 256u

static const struct backend_row {
    const char *name;
    spsh_status (*open_fn)(spsh__backend *backend, spsh_error *err);
} backends[] = {
    {"cpu",       spsh__backend_cpu_open      },
    {"reference", spsh__backend_reference_open},
    {"cuda",      NULL                        },
};

static spsh_status find(const char *name, const struct backend_row **ret_row, spsh_error *err)
{
    for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++) {
        if (strcmp(backends[i].name, name) == 0) {
            *ret_row = &backends[i];
            return SPSH_OK;
        }
    }
    return SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                     "unknown backend '%s'; expected cpu, cuda, or reference", name);
}

static spsh_status check_options(const spsh__backend_options *o, spsh_error *err)
{
    const bool is_cuda = strcmp(o->name, "cuda") == 0;
    if (is_cuda && o->cuda == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "backend cuda: no device is open; pass an open spsh_cuda");
    if (!is_cuda && o->precision != SPSH__FP32)
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED,
                         "backend %s computes only in fp32; tf32, bf16, and fp16 need backend cuda",
                         o->name);
    return SPSH_OK;
}

spsh_status spsh__backend_open_with(const spsh__backend_options *options,
                                    const spsh_allocator *allocator, spsh__backend **ret_backend,
                                    spsh_error *err)
{
    if (allocator == NULL)
        allocator = spsh_allocator_default();
    const struct backend_row *row = NULL;
    spsh_status rc = find(options->name, &row, err);
    if (rc == SPSH_OK)
        rc = check_options(options, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__backend *backend = spsh__new(allocator, 1, sizeof(*backend));
    if (backend == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "backend %s: %zu bytes", options->name,
                         sizeof(*backend));
    backend->allocator = *allocator;
    backend->threads = options->threads;
    backend->precision = options->precision;
    backend->has_half = options->precision == SPSH__BF16 || options->precision == SPSH__FP16;
    backend->is_deterministic = options->is_deterministic;
    backend->cuda = options->cuda;
    backend->device = options->device;
    rc = row->open_fn != NULL ? row->open_fn(backend, err)
                              : spsh__backend_cuda_open(backend, options, err);
    if (rc != SPSH_OK) {
        spsh__free(allocator, backend);
        return rc;
    }
    *ret_backend = backend;
    return SPSH_OK;
}

spsh_status spsh__backend_open(const char *name, uint32_t threads, const spsh_allocator *allocator,
                               spsh__backend **ret_backend, spsh_error *err)
{
    const spsh__backend_options options = {.name = name, .threads = threads};
    return spsh__backend_open_with(&options, allocator, ret_backend, err);
}

void spsh__backend_close(spsh__backend *backend)
{
    if (backend == NULL)
        return;
    backend->ops->close_fn(backend);
    const spsh_allocator allocator = backend->allocator;
    spsh__free(&allocator, backend);
}

spsh_status spsh__host_alloc(spsh__backend *b, size_t count, spsh__backend_buffer *ret,
                             spsh_error *err)
{
    const size_t extra_bytes = ALIGNMENT_BYTES + sizeof(void *);
    size_t size_bytes = 0;
    char *block = NULL;
    if (!__builtin_mul_overflow(count, b->ops->element_bytes, &size_bytes) &&
        size_bytes <= SIZE_MAX - extra_bytes)
        block = spsh__new(&b->allocator, 1, size_bytes + extra_bytes);
    if (block == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "backend %s: %zu elements of %zu bytes",
                         b->ops->name, count, b->ops->element_bytes);
    char *data = block + sizeof(void *);
    data += (ALIGNMENT_BYTES - (uintptr_t)data % ALIGNMENT_BYTES) % ALIGNMENT_BYTES;
    memcpy(data - sizeof(void *), &block, sizeof(void *));
    ret->data = data;
    return SPSH_OK;
}

void spsh__host_free(spsh__backend *b, spsh__backend_buffer buffer)
{
    if (buffer.data == NULL)
        return;
    void *block = NULL;
    memcpy(&block, (char *)buffer.data - sizeof(void *), sizeof(void *));
    spsh__free(&b->allocator, block);
}
