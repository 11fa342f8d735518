/* py_device.c: batches in device memory, and the order of work on streams:
 *
 *     loader's stream     copy, decode, features | ready
 *     a consumer's stream                          wait | work on the tensors ...
 *     the lease's gate                                                 event | wait ... event
 *
 * __dlpack__(stream=s) makes s wait for `ready`. Once the last view of a batch is freed, no
 * consumer can enqueue more work on it. Then an event is recorded on each stream that received the
 * batch. The gate, a stream without other work, waits for these events. The slot is reused after an
 * event recorded on the gate. No host thread waits, and no consumer waits for another.
 *
 * A default stream means a stream of the batch's device, whatever device is current on the thread
 * that requests a view or frees the last one.
 */
#include "py_binding.h"

static void close_device(spsh__py_lease *lease)
{
    spsh_cuda_event_close(lease->cuda, lease->event);
    spsh_cuda_stream_close(lease->cuda, lease->gate);
    spsh_cuda_close(lease->cuda);
    lease->event = lease->gate = NULL;
    lease->cuda = NULL;
}

int spsh__py_device_open(spsh__py_lease *lease, uint32_t number)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    PyObject *path = spsh__py_environment_path("SPEECHSHARD_CUDA_PLUGIN");
    if (path == NULL)
        return -1;
    const char *plugin = path == Py_None ? NULL : PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS;
    rc = spsh_cuda_open(plugin, &lease->cuda, &err);
    if (rc == SPSH_OK && number >= spsh_cuda_device_count(lease->cuda)) {
        rc = SPSH_E_INVALID_ARG;
        spsh_error_set(&err, rc, 0, SPSH_OFFSET_NONE,
                       "device \"cuda:%u\" does not exist: devices are numbered 0 to %u", number,
                       spsh_cuda_device_count(lease->cuda) - 1);
    }
    if (rc == SPSH_OK)
        rc = spsh_cuda_stream_open(lease->cuda, number, 0, &lease->gate, &err);
    if (rc == SPSH_OK)
        rc = spsh_cuda_event_open(lease->cuda, number, 0, &lease->event, &err);
    Py_END_ALLOW_THREADS;
    Py_DECREF(path);
    lease->device = number;
    if (rc == SPSH_OK)
        return 0;
    spsh__py_raise(&err);
    spsh__py_device_close(lease);
    return -1;
}

void spsh__py_device_close(spsh__py_lease *lease)
{
    if (lease->cuda == NULL)
        return;
    Py_BEGIN_ALLOW_THREADS;
    close_device(lease);
    Py_END_ALLOW_THREADS;
}

int spsh__py_device_wait(const spsh__py_lease *lease, const spsh_batch *batch, void *stream)
{
    spsh_error err = SPSH_ERROR_INIT;
    int before = 0;
    spsh_status rc = spsh_cuda_enter(lease->cuda, lease->device, &before, &err);
    if (rc == SPSH_OK) {
        rc = spsh_cuda_event_wait(lease->cuda, batch->ready, stream, &err);
        spsh_cuda_leave(lease->cuda, before);
    }
    return rc == SPSH_OK ? 0 : SPSH_PY_RAISE(&err);
}

/* Record the lease's event after the present work of all streams. */
static spsh_status gather(const spsh__py_lease *lease, void *const *streams, int count,
                          spsh_error *err)
{
    int before = 0;
    spsh_status rc = spsh_cuda_enter(lease->cuda, lease->device, &before, err);
    if (rc != SPSH_OK)
        return rc;
    for (int i = 0; i < count && rc == SPSH_OK; i++) {
        rc = spsh_cuda_event_record(lease->cuda, lease->event, streams[i], err);
        if (rc == SPSH_OK)
            rc = spsh_cuda_event_wait(lease->cuda, lease->event, lease->gate, err);
    }
    spsh_cuda_leave(lease->cuda, before);
    return rc == SPSH_OK ? spsh_cuda_event_record(lease->cuda, lease->event, lease->gate, err) : rc;
}

void spsh__py_device_release(const spsh__py_lease *lease, const spsh_batch *batch,
                             void *const *streams, int count)
{
    spsh_error err = SPSH_ERROR_INIT;
    const spsh_status rc = count > 0 ? gather(lease, streams, count, &err) : SPSH_OK;
    if (rc != SPSH_OK) /* a stream was destroyed: its work cannot be waited for */
        spsh__py_log_put(lease->log, SPSH_LOG_WARNING, err.message);
    spsh_loader_release_after(lease->loader, batch,
                              rc == SPSH_OK && count > 0 ? lease->event : NULL);
}

/* ---- copies ---- */

int spsh__py_device_read(const spsh__py_lease *lease, const spsh_batch *batch, const void *from,
                         void *to, size_t size_bytes)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    Py_BEGIN_ALLOW_THREADS;
    rc = spsh_cuda_event_synchronize(lease->cuda, batch->ready, &err);
    if (rc == SPSH_OK)
        rc = spsh_cuda_copy(lease->cuda, to, from, size_bytes, batch->stream, &err);
    if (rc == SPSH_OK)
        rc = spsh_cuda_synchronize(lease->cuda, batch->stream, &err);
    Py_END_ALLOW_THREADS;
    return rc == SPSH_OK ? 0 : SPSH_PY_RAISE(&err);
}

spsh_status spsh__py_device_copy(const spsh__py_lease *lease, const spsh_batch *batch,
                                 const void *from, size_t size_bytes, spsh__py_device_memory *to,
                                 spsh_error *err)
{
    const spsh_cuda *cuda = lease->cuda;
    spsh_status rc = spsh_cuda_event_open(cuda, lease->device, 0, &to->ready, err);
    if (rc == SPSH_OK && size_bytes > 0)
        rc = spsh_cuda_alloc(cuda, lease->device, size_bytes, &to->data, err);
    if (rc == SPSH_OK && size_bytes > 0)
        rc = spsh_cuda_copy(cuda, to->data, from, size_bytes, batch->stream, err);
    if (rc == SPSH_OK)
        rc = spsh_cuda_event_record(cuda, to->ready, batch->stream, err);
    return rc;
}

void spsh__py_device_memory_free(const spsh__py_lease *lease, spsh__py_device_memory *memory)
{
    spsh_cuda_event_close(lease->cuda, memory->ready);
    spsh_cuda_free(lease->cuda, memory->data);
    *memory = (spsh__py_device_memory){NULL, NULL};
}
