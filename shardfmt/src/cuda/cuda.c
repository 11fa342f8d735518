/* cuda.c: opening the plug-in, and passing calls on to it. */
#include "speechshard/cuda.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "base/base_internal.h"
#include "base/plugin_load.h"
#include "speechshard/cuda_plugin.h"
#include "speechshard/options.h"

struct spsh_cuda {
    void *library;
    const spsh__cuda_plugin *plugin;
    uint32_t device_count;
};

/* ---- what it says ---- */

static spsh_status greet(spsh_cuda *cuda, spsh_error *err)
{
    spsh__cuda_plugin_fn *plugin_fn = NULL;
    void *symbol = dlsym(cuda->library, SPSH__CUDA_PLUGIN_SYMBOL);
    if (symbol == NULL)
        return SPSH_FAIL(err, SPSH_E_VERSION,
                         "the file that was loaded is not a CUDA plug-in: it has no symbol %s",
                         SPSH__CUDA_PLUGIN_SYMBOL);
    memcpy(&plugin_fn, &symbol, sizeof(plugin_fn));
    cuda->plugin = plugin_fn();
    if (cuda->plugin->abi != SPSH__CUDA_ABI)
        return SPSH_FAIL(err, SPSH_E_VERSION,
                         "the CUDA plug-in has interface version %u, but this library has version "
                         "%u; install both from the same build",
                         cuda->plugin->abi, (unsigned)SPSH__CUDA_ABI);
    if (strcmp(cuda->plugin->version, SPSH_VERSION_STRING) != 0)
        return SPSH_FAIL(err, SPSH_E_VERSION,
                         "the CUDA plug-in has version %.40s, but this library has version %s; "
                         "install both from the same build",
                         cuda->plugin->version, SPSH_VERSION_STRING);
    return cuda->plugin->count_fn(&cuda->device_count, err);
}

spsh_status spsh_cuda_open(const char *path, spsh_cuda **ret_cuda, spsh_error *err)
{
    const spsh_allocator *allocator = spsh_allocator_default();
    spsh_cuda *cuda = NULL;
    spsh_status rc;

    if (ret_cuda == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "ret_cuda is NULL");
    cuda = spsh__alloc(allocator, sizeof(*cuda));
    if (cuda == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "cuda: %zu bytes", sizeof(*cuda));
    memset(cuda, 0, sizeof(*cuda));
    rc = spsh__plugin_load(path, SPSH_CUDA_PLUGIN_NAME, "CUDA", &cuda->library, err);
    if (rc != SPSH_OK)
        goto out;
    rc = greet(cuda, err);
    if (rc != SPSH_OK)
        goto out;
    *ret_cuda = cuda;
    cuda = NULL;
out:
    spsh_cuda_close(cuda);
    return rc;
}

void spsh_cuda_close(spsh_cuda *cuda)
{
    if (cuda == NULL)
        return;
    if (cuda->library != NULL)
        (void)dlclose(cuda->library);
    spsh__free(spsh_allocator_default(), cuda);
}

uint32_t spsh_cuda_device_count(const spsh_cuda *cuda)
{
    return cuda->device_count;
}

static spsh_status check_device(const spsh_cuda *cuda, uint32_t number, spsh_error *err)
{
    if (number >= cuda->device_count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "device %u does not exist; devices are numbered 0 to %u", number,
                         cuda->device_count - 1);
    return SPSH_OK;
}

spsh_status spsh_cuda_device_get(const spsh_cuda *cuda, uint32_t number,
                                 spsh_cuda_device *ret_device, spsh_error *err)
{
    spsh_cuda_device device = SPSH_CUDA_DEVICE_INIT;
    spsh_status rc = spsh_result_check(ret_device, sizeof(device), err);
    if (rc == SPSH_OK)
        rc = check_device(cuda, number, err);
    if (rc == SPSH_OK)
        rc = cuda->plugin->device_fn(number, &device, err);
    if (rc == SPSH_OK)
        spsh_result_give(ret_device, &device, sizeof(device));
    return rc;
}

spsh_status spsh_cuda_library_get(const spsh_cuda *cuda, uint32_t number,
                                  spsh_cuda_library *ret_library)
{
    spsh_cuda_library library = SPSH_CUDA_LIBRARY_INIT;
    spsh_status rc = spsh_result_check(ret_library, sizeof(library), NULL);
    if (rc == SPSH_OK)
        rc = cuda->plugin->library_fn(number, &library);
    if (rc == SPSH_OK)
        spsh_result_give(ret_library, &library, sizeof(library));
    return rc;
}

spsh_status spsh_cuda_alloc(const spsh_cuda *cuda, uint32_t device, size_t size_bytes,
                            void **ret_memory, spsh_error *err)
{
    const spsh_status rc = check_device(cuda, device, err);
    if (rc != SPSH_OK)
        return rc;
    if (size_bytes == 0)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "size_bytes is 0");
    return cuda->plugin->alloc_fn(device, size_bytes, ret_memory, err);
}

void spsh_cuda_free(const spsh_cuda *cuda, void *memory)
{
    if (memory != NULL)
        cuda->plugin->free_fn(memory);
}

/* Reject a missing required argument. */
static spsh_status check_given(const void *given, const char *name, spsh_error *err)
{
    return given != NULL ? SPSH_OK : SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s is NULL", name);
}

spsh_status spsh_cuda_copy(const spsh_cuda *cuda, void *to, const void *from, size_t size_bytes,
                           void *stream, spsh_error *err)
{
    if (size_bytes == 0)
        return SPSH_OK;
    spsh_status rc = check_given(to, "to", err);
    if (rc == SPSH_OK)
        rc = check_given(from, "from", err);
    return rc != SPSH_OK ? rc : cuda->plugin->copy_fn(to, from, size_bytes, stream, err);
}

spsh_status spsh_cuda_fill(const spsh_cuda *cuda, void *memory, uint8_t byte, size_t size_bytes,
                           void *stream, spsh_error *err)
{
    if (size_bytes == 0)
        return SPSH_OK;
    const spsh_status rc = check_given(memory, "memory", err);
    return rc != SPSH_OK ? rc : cuda->plugin->fill_fn(memory, byte, size_bytes, stream, err);
}

spsh_status spsh_cuda_memory(const spsh_cuda *cuda, uint32_t device, uint64_t *ret_free_bytes,
                             uint64_t *ret_all_bytes, spsh_error *err)
{
    const spsh_status rc = check_device(cuda, device, err);
    return rc != SPSH_OK ? rc : cuda->plugin->memory_fn(device, ret_free_bytes, ret_all_bytes, err);
}

spsh_status spsh_cuda_synchronize(const spsh_cuda *cuda, void *stream, spsh_error *err)
{
    return cuda->plugin->synchronize_fn(stream, err);
}

/* ---- pinned memory ---- */

spsh_status spsh_cuda_host_alloc(const spsh_cuda *cuda, size_t size_bytes, void **ret_memory,
                                 spsh_error *err)
{
    if (size_bytes == 0)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "size_bytes is 0");
    return cuda->plugin->host_alloc_fn(size_bytes, ret_memory, err);
}

void spsh_cuda_host_free(const spsh_cuda *cuda, void *memory)
{
    if (memory != NULL)
        cuda->plugin->host_free_fn(memory);
}

spsh_status spsh_cuda_host_register(const spsh_cuda *cuda, void *memory, size_t size_bytes,
                                    spsh_error *err)
{
    const uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    const spsh_status rc = check_given(memory, "memory", err);
    if (rc != SPSH_OK)
        return rc;
    if (size_bytes == 0 || size_bytes % page_bytes != 0 || (uintptr_t)memory % page_bytes != 0)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "memory to pin must be whole pages of %zu bytes",
                         (size_t)page_bytes);
    return cuda->plugin->host_register_fn(memory, size_bytes, err);
}

void spsh_cuda_host_unregister(const spsh_cuda *cuda, void *memory)
{
    if (memory != NULL)
        cuda->plugin->host_unregister_fn(memory);
}

/* ---- streams and events ---- */

spsh_status spsh_cuda_stream_open(const spsh_cuda *cuda, uint32_t device, uint32_t urgent,
                                  void **ret_stream, spsh_error *err)
{
    const spsh_status rc = check_device(cuda, device, err);
    return rc != SPSH_OK ? rc : cuda->plugin->stream_open_fn(device, urgent, ret_stream, err);
}

void spsh_cuda_stream_close(const spsh_cuda *cuda, void *stream)
{
    if (stream != NULL)
        cuda->plugin->stream_close_fn(stream);
}

spsh_status spsh_cuda_event_open(const spsh_cuda *cuda, uint32_t device, uint32_t timed,
                                 void **ret_event, spsh_error *err)
{
    const spsh_status rc = check_device(cuda, device, err);
    return rc != SPSH_OK ? rc : cuda->plugin->event_open_fn(device, timed, ret_event, err);
}

void spsh_cuda_event_close(const spsh_cuda *cuda, void *event)
{
    if (event != NULL)
        cuda->plugin->event_close_fn(event);
}

spsh_status spsh_cuda_event_record(const spsh_cuda *cuda, void *event, void *stream,
                                   spsh_error *err)
{
    const spsh_status rc = check_given(event, "event", err);
    return rc != SPSH_OK ? rc : cuda->plugin->event_record_fn(event, stream, err);
}

spsh_status spsh_cuda_event_wait(const spsh_cuda *cuda, void *event, void *stream, spsh_error *err)
{
    const spsh_status rc = check_given(event, "event", err);
    return rc != SPSH_OK ? rc : cuda->plugin->event_wait_fn(event, stream, err);
}

spsh_status spsh_cuda_event_query(const spsh_cuda *cuda, void *event, spsh_error *err)
{
    const spsh_status rc = check_given(event, "event", err);
    return rc != SPSH_OK ? rc : cuda->plugin->event_query_fn(event, err);
}

spsh_status spsh_cuda_event_synchronize(const spsh_cuda *cuda, void *event, spsh_error *err)
{
    const spsh_status rc = check_given(event, "event", err);
    return rc != SPSH_OK ? rc : cuda->plugin->event_synchronize_fn(event, err);
}

spsh_status spsh_cuda_event_ms(const spsh_cuda *cuda, void *first, void *last, float *ret_ms,
                               spsh_error *err)
{
    spsh_status rc = check_given(first, "first", err);
    if (rc == SPSH_OK)
        rc = check_given(last, "last", err);
    return rc != SPSH_OK ? rc : cuda->plugin->event_ms_fn(first, last, ret_ms, err);
}

/* ---- the thread's device ---- */

spsh_status spsh_cuda_enter(const spsh_cuda *cuda, uint32_t device, int *ret_before,
                            spsh_error *err)
{
    const spsh_status rc = check_device(cuda, device, err);
    return rc != SPSH_OK ? rc : cuda->plugin->enter_fn(device, ret_before, err);
}

void spsh_cuda_leave(const spsh_cuda *cuda, int before)
{
    cuda->plugin->leave_fn(before);
}

/* ---- for other libraries ---- */

void *spsh_cuda_symbol(const spsh_cuda *cuda, const char *name)
{
    return dlsym(cuda->library, name);
}

const spsh__cuda_plugin *spsh_cuda_plugin_of(const spsh_cuda *cuda)
{
    return cuda->plugin;
}
