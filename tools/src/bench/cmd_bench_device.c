/* cmd_bench_device.c: measure plain copies to a device: pinned memory of the size of a batch is
 * copied repeatedly on one stream. This rate is the upper limit of any loader. */
#include "cmd_bench_parts.h"

#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum { COPIES_AT_ONCE = 8 };

#define COPY_BYTES_MIN ((uint64_t)1 << 20)
#define COPY_BYTES_MAX ((uint64_t)64 << 20)

int spsh__bench_device_open(uint64_t number, spsh__bench_device *ret_device)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh__bench_device device = {.is = SPSH_CUDA_DEVICE_INIT, .number = (uint32_t)number};
    spsh_status rc = spsh_cuda_open(getenv("SPEECHSHARD_CUDA_PLUGIN"), &device.cuda, &err);
    if (rc == SPSH_OK)
        rc = spsh_cuda_device_get(device.cuda, device.number, &device.is, &err);
    if (rc == SPSH_OK) {
        *ret_device = device;
        return SPSH_EXIT_DONE;
    }
    spsh_cuda_close(device.cuda);
    return spsh__cli_fail("--device", &err);
}

/* Enqueue some copies and wait until they are complete. */
static spsh_status copy_some(const spsh__bench_device *device, void *to, const void *from,
                             void *stream, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (int n = 0; n < COPIES_AT_ONCE && rc == SPSH_OK; n++)
        rc = spsh_cuda_copy(device->cuda, to, from, (size_t)device->copy_bytes, stream, err);
    return rc == SPSH_OK ? spsh_cuda_synchronize(device->cuda, stream, err) : rc;
}

static spsh_status measure(spsh__bench_device *device, double seconds, void *to, const void *from,
                           void *stream, spsh_error *err)
{
    spsh_status rc = copy_some(device, to, from, stream, err); /* the first ones are slower */
    const double begin = spsh__cli_now_s();
    while (rc == SPSH_OK && device->seconds < seconds) {
        rc = copy_some(device, to, from, stream, err);
        device->bytes += COPIES_AT_ONCE * device->copy_bytes;
        device->seconds = spsh__cli_now_s() - begin;
    }
    return rc;
}

int spsh__bench_device_copy(uint64_t batch_bytes, double seconds, spsh__bench_device *device)
{
    const spsh_cuda *cuda = device->cuda;
    spsh_error err = SPSH_ERROR_INIT;
    void *from = NULL;
    void *to = NULL;
    void *stream = NULL;
    device->copy_bytes = batch_bytes < COPY_BYTES_MIN   ? COPY_BYTES_MIN
                         : batch_bytes > COPY_BYTES_MAX ? COPY_BYTES_MAX
                                                        : batch_bytes;
    const size_t size_bytes = (size_t)device->copy_bytes;
    spsh_status rc = spsh_cuda_host_alloc(cuda, size_bytes, &from, &err);
    if (rc == SPSH_OK)
        rc = spsh_cuda_alloc(cuda, device->number, size_bytes, &to, &err);
    if (rc == SPSH_OK)
        rc = spsh_cuda_stream_open(cuda, device->number, 0, &stream, &err);
    if (rc == SPSH_OK) {
        memset(from, 0, size_bytes);
        rc = measure(device, seconds, to, from, stream, &err);
    }
    spsh_cuda_stream_close(cuda, stream);
    spsh_cuda_free(cuda, to);
    spsh_cuda_host_free(cuda, from);
    return rc == SPSH_OK ? SPSH_EXIT_DONE : spsh__cli_fail("a copy to the device", &err);
}

void spsh__bench_device_close(spsh__bench_device *device)
{
    spsh_cuda_close(device->cuda);
    device->cuda = NULL;
}
