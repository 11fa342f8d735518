/* plugin.cu: the plug-in's own part: errors, devices, memory, copies. CUDA's runtime is linked
 * statically; of the system it needs the driver alone, which the runtime looks for when it is first
 * called. */
#include "speechshard/cuda_plugin.h"

#include <cuda_runtime_api.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

spsh_status spsh__cuda_fail(spsh_error *err, spsh_status status, const char *format, ...)
{
    if (err != NULL) {
        va_list arguments;
        va_start(arguments, format);
        err->status = status;
        err->os_errno = 0;
        err->offset_bytes = SPSH_OFFSET_NONE;
        (void)vsnprintf(err->message, sizeof(err->message), format, arguments);
        va_end(arguments);
    }
    return status;
}

static spsh_status status_of(cudaError_t code)
{
    switch (code) {
    case cudaErrorMemoryAllocation: return SPSH_E_NO_MEMORY;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidDevice:
    case cudaErrorInvalidResourceHandle: return SPSH_E_INVALID_ARG;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion: return SPSH_E_UNSUPPORTED;
    default: return SPSH_E_IO;
    }
}

spsh_status spsh__cuda_check(int code, const char *what, spsh_error *err)
{
    const cudaError_t error = (cudaError_t)code;
    if (error == cudaSuccess)
        return SPSH_OK;
    (void)cudaGetLastError(); /* so that the next call does not see it again */
    return spsh__cuda_fail(err, status_of(error), "%s: %s (%s)", what, cudaGetErrorString(error),
                           cudaGetErrorName(error));
}

static spsh_status count_devices(uint32_t *ret_count, spsh_error *err)
{
    int count = 0;
    int driver = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count > 0) {
        *ret_count = (uint32_t)count;
        return SPSH_OK;
    }
    (void)cudaGetLastError();
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
        return spsh__cuda_fail(
            err, SPSH_E_UNSUPPORTED,
            "there is no NVIDIA driver on this machine (libcuda.so.1 is missing)");
    if (error == cudaErrorInsufficientDriver)
        return spsh__cuda_fail(
            err, SPSH_E_UNSUPPORTED,
            "the NVIDIA driver is too old: it is for CUDA %d.%d, the plug-in was "
            "built with %d.%d",
            driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    if (error == cudaSuccess || error == cudaErrorNoDevice)
        return spsh__cuda_fail(
            err, SPSH_E_UNSUPPORTED,
            "there is no CUDA device (CUDA_VISIBLE_DEVICES hides all of them, or "
            "the machine has none)");
    return spsh__cuda_check(error, "looking for CUDA devices", err);
}

static spsh_status attribute(int *value, cudaDeviceAttr which, int device, spsh_error *err)
{
    return spsh__cuda_check(cudaDeviceGetAttribute(value, which, device),
                            "an attribute of a device", err);
}

static spsh_status get_device(uint32_t number, spsh_cuda_device *ret_device, spsh_error *err)
{
    cudaDeviceProp properties;
    spsh_cuda_device device;
    int clock_khz = 0;
    int bus_bits = 0;
    int driver = 0;
    const int at = (int)number;
    memset(&device, 0, sizeof(device));
    spsh_status rc =
        spsh__cuda_check(cudaGetDeviceProperties(&properties, at), "properties of a device", err);
    if (rc == SPSH_OK)
        rc = attribute(&clock_khz, cudaDevAttrMemoryClockRate, at, err);
    if (rc == SPSH_OK)
        rc = attribute(&bus_bits, cudaDevAttrGlobalMemoryBusWidth, at, err);
    if (rc == SPSH_OK)
        rc = spsh__cuda_check(cudaDriverGetVersion(&driver), "the driver's version", err);
    if (rc != SPSH_OK)
        return rc;
    (void)snprintf(device.name, sizeof(device.name), "%s", properties.name);
    device.capability_major = (uint32_t)properties.major;
    device.capability_minor = (uint32_t)properties.minor;
    device.multiprocessor_count = (uint32_t)properties.multiProcessorCount;
    device.driver_version = (uint32_t)driver;
    device.runtime_version = CUDART_VERSION;
    device.memory_bytes = properties.totalGlobalMem;
    /* Two transfers a clock. */
    device.bandwidth_bytes = (uint64_t)clock_khz * 1000 * 2 * ((uint64_t)bus_bits / 8);
    *ret_device = device;
    return SPSH_OK;
}

static spsh_status alloc_memory(uint32_t device, size_t size_bytes, void **ret_memory,
                                spsh_error *err)
{
    int before = 0;
    void *memory = NULL;
    spsh_status rc = spsh__cuda_check(cudaGetDevice(&before), "the thread's device", err);
    if (rc == SPSH_OK)
        rc = spsh__cuda_check(cudaSetDevice((int)device), "choosing a device", err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh__cuda_check(cudaMalloc(&memory, size_bytes), "memory of a device", err);
    (void)cudaSetDevice(before);
    if (rc == SPSH_OK)
        *ret_memory = memory;
    return rc;
}

static void free_memory(void *memory)
{
    (void)cudaFree(memory);
}

static spsh_status copy(void *to, const void *from, size_t size_bytes, void *stream,
                        spsh_error *err)
{
    return spsh__cuda_check(
        cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDefault, (cudaStream_t)stream),
        "a copy between host and device", err);
}

static spsh_status synchronize(void *stream, spsh_error *err)
{
    return spsh__cuda_check(cudaStreamSynchronize((cudaStream_t)stream), "work on a device", err);
}

extern "C" SPSH_API const spsh__cuda_plugin *spsh_cuda_plugin(void)
{
    static const spsh__cuda_plugin plugin = {
        SPSH__CUDA_ABI, SPSH_VERSION_STRING, count_devices, get_device,
        alloc_memory,   free_memory,         copy,          synchronize,
    };
    return &plugin;
}
