/* plugin.cu: the plug-in's own part: errors, devices, memory, copies, streams, events, graphs.
 * CUDA's runtime is linked statically. It only needs the driver from the system, which the runtime
 * looks for at its first call.
 *
 * Each thread has its own current device. A function that needs another device sets it and restores
 * it. A CUDA call on a thread without a device selects device 0 and creates a context there. That
 * takes memory, and fails if another process uses that device exclusively. So a thread without a
 * device gets the one that was used last, and keeps it. Only the driver knows whether a thread has
 * a device; the runtime reports 0 in both cases.
 *
 * While a thread captures a graph, CUDA lets it allocate memory only in relaxed capture mode.
 * Memory allocated in that mode is not part of the graph.
 */
#include "speechshard/cuda_plugin.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static spsh_status status_of(cudaError_t code)
{
    switch (code) {
    case cudaErrorMemoryAllocation: return SPSH_E_NO_MEMORY;
    case cudaErrorNotReady: return SPSH_E_TIMEOUT;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidDevice:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorHostMemoryAlreadyRegistered:
    case cudaErrorHostMemoryNotRegistered: return SPSH_E_INVALID_ARG;
    case cudaErrorNoDevice:
    case cudaErrorStubLibrary:
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion: return SPSH_E_UNSUPPORTED;
    default: return SPSH_E_IO;
    }
}

/* Advice for errors of the machine; NULL for other errors. */
static const char *system_advice_of(cudaError_t code)
{
    switch (code) {
    case cudaErrorInitializationError:
        return "the driver cannot be used in this process; one that was forked from a process that "
               "used it must be restarted (exec)";
    case cudaErrorStubLibrary:
        return "the libcuda.so.1 that was found is a stub of the toolkit without a driver; remove "
               "its folder (stubs) from LD_LIBRARY_PATH";
    case cudaErrorSystemNotReady:
        return "the driver's services are not running; on a machine with NVSwitch, start "
               "nvidia-fabricmanager";
    case cudaErrorSystemDriverMismatch:
        return "the driver's kernel module and its library have different versions; restart the "
               "machine, or install both from the same package";
    default: return NULL;
    }
}

/* Advice for the user; NULL if the error's own text suffices. After an error of the first group,
 * every CUDA call of this process fails until the process exits. */
static const char *advice_of(cudaError_t code)
{
    switch (code) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
        return "a kernel failed, and this process can no longer use the device; start the program "
               "again; if it happens again, run it under compute-sanitizer and report the result";
    case cudaErrorLaunchTimeout:
        return "a kernel took longer than this device's display allows, and this process can no "
               "longer use the device; use another device, or end the display";
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
        return "the memory or a link of the device failed; start again from the last checkpoint; "
               "if it happens again, reset or replace the device (nvidia-smi -q shows its errors)";
    case cudaErrorDevicesUnavailable:
    case cudaErrorDeviceUninitialized:
    case cudaErrorContextIsDestroyed:
        return "another process uses the device exclusively, or the device was reset; see "
               "nvidia-smi, then start again";
    case cudaErrorMemoryAllocation:
        return "nvidia-smi shows which processes use the device's memory; end them, or make "
               "batches smaller";
    default: return system_advice_of(code);
    }
}

spsh_status spsh__cuda_check(int code, const char *what, spsh_error *err)
{
    const cudaError_t error = (cudaError_t)code;
    if (error == cudaSuccess)
        return SPSH_OK;
    (void)cudaGetLastError(); /* so that the next call does not see it again */
    const char *advice = advice_of(error);
    if (advice != NULL)
        return spsh__cuda_fail(err, status_of(error), "%s: %s: %s", what, cudaGetErrorName(error),
                               advice);
    return spsh__cuda_fail(err, status_of(error), "%s: %s (%s)", what, cudaGetErrorString(error),
                           cudaGetErrorName(error));
}

/* ---- device and capture mode of the thread: set during a call, then restored ---- */

enum { NOT_CHANGED = -1 };

static int last_device = NOT_CHANGED; /* device that a thread selected last; atomic */

typedef CUresult context_fn(CUcontext *ret_context);

static context_fn *find_context_fn(void)
{
    void *symbol = NULL;
    context_fn *found = NULL;
    if (cudaGetDriverEntryPointByVersion("cuCtxGetCurrent", &symbol, 12000, cudaEnableDefault,
                                         NULL) != cudaSuccess)
        (void)cudaGetLastError();
    memcpy(&found, &symbol, sizeof(found));
    return found;
}

/* Return whether the program or this plug-in has set a device on this thread. true if the driver
 * cannot be asked. */
static bool has_device(void)
{
    static context_fn *const current_fn = find_context_fn();
    CUcontext context = NULL;
    return current_fn == NULL || (current_fn(&context) == CUDA_SUCCESS && context != NULL);
}

/* Call this before CUDA calls that need a current device, but no particular one. */
static void settle(void)
{
    const int device = __atomic_load_n(&last_device, __ATOMIC_RELAXED);
    if (device != NOT_CHANGED && !has_device() && cudaSetDevice(device) != cudaSuccess)
        (void)cudaGetLastError();
}

spsh_status spsh__cuda_enter(uint32_t device, int *ret_before, spsh_error *err)
{
    int before = NOT_CHANGED;
    spsh_status rc = SPSH_OK;
    if (has_device())
        rc = spsh__cuda_check(cudaGetDevice(&before), "reading the device of the thread", err);
    if (rc == SPSH_OK && before != (int)device)
        rc = spsh__cuda_check(cudaSetDevice((int)device), "choosing a device", err);
    if (rc == SPSH_OK)
        __atomic_store_n(&last_device, (int)device, __ATOMIC_RELAXED);
    *ret_before = before != (int)device ? before : NOT_CHANGED;
    return rc;
}

void spsh__cuda_leave(int before)
{
    if (before != NOT_CHANGED && cudaSetDevice(before) != cudaSuccess)
        (void)cudaGetLastError(); /* or the next check would blame a kernel */
}

typedef struct place {
    int device_before;
    cudaStreamCaptureMode mode_before;
} place;

static spsh_status enter(uint32_t device, place *before, spsh_error *err)
{
    const spsh_status rc = spsh__cuda_enter(device, &before->device_before, err);
    before->mode_before = cudaStreamCaptureModeRelaxed;
    if (rc == SPSH_OK)
        (void)cudaThreadExchangeStreamCaptureMode(&before->mode_before);
    return rc;
}

static void leave(place *before)
{
    (void)cudaThreadExchangeStreamCaptureMode(&before->mode_before);
    spsh__cuda_leave(before->device_before);
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
        return spsh__cuda_fail(err, SPSH_E_UNSUPPORTED,
                               "the NVIDIA driver is too old: it supports CUDA %d.%d, but the "
                               "plug-in was built with %d.%d; install a newer driver",
                               driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                               CUDART_VERSION % 1000 / 10);
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
                            "reading an attribute of a device", err);
}

static spsh_status get_device(uint32_t number, spsh_cuda_device *ret_device, spsh_error *err)
{
    cudaDeviceProp properties;
    spsh_cuda_device device = SPSH_CUDA_DEVICE_INIT;
    int clock_khz = 0;
    int bus_bits = 0;
    int driver = 0;
    const int at = (int)number;
    memset(&device, 0, sizeof(device));
    spsh_status rc = spsh__cuda_check(cudaGetDeviceProperties(&properties, at),
                                      "reading the properties of a device", err);
    if (rc == SPSH_OK)
        rc = attribute(&clock_khz, cudaDevAttrMemoryClockRate, at, err);
    if (rc == SPSH_OK)
        rc = attribute(&bus_bits, cudaDevAttrGlobalMemoryBusWidth, at, err);
    if (rc == SPSH_OK)
        rc = spsh__cuda_check(cudaDriverGetVersion(&driver), "reading the version of the driver",
                              err);
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

/* ---- libraries that other parts load: found as dlopen finds them, by their major versions ---- */

/* Their versions are majors * 10000 + minors * 100 + patches. */
static long version_by_value(void *symbol)
{
    size_t (*version_fn)(void) = NULL;
    memcpy(&version_fn, &symbol, sizeof(version_fn));
    return (long)version_fn();
}

static long version_by_pointer(void *symbol)
{
    int (*version_fn)(int *version) = NULL;
    int version = 0;
    memcpy(&version_fn, &symbol, sizeof(version_fn));
    return version_fn(&version) == 0 ? version : 0;
}

static const struct {
    const char *name, *used_for, *stem, *symbol;
    int major;
    long (*version_fn)(void *symbol);
} libraries[] = {
    {"cuBLASLt", "training",                 "libcublasLt.so", "cublasLtGetVersion", CUDART_VERSION / 1000,
     version_by_value                                                                                                         },
    {"cuDNN",    "training",                 "libcudnn.so",    "cudnnGetVersion",    9,                     version_by_value  },
    {"NCCL",     "training on several GPUs", "libnccl.so",     "ncclGetVersion",     2,                     version_by_pointer},
};

/* The library stays loaded: its users would load it again. */
static void find_library(uint32_t number, spsh_cuda_library *library)
{
    char file[64];
    (void)snprintf(file, sizeof(file), "%s.%d", libraries[number].stem, libraries[number].major);
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    void *symbol = handle != NULL ? dlsym(handle, libraries[number].symbol) : NULL;
    if (symbol == NULL) {
        const char *text = dlerror();
        (void)snprintf(library->reason, sizeof(library->reason), "%s",
                       text != NULL ? text : "no reason given");
        return;
    }
    const long version = libraries[number].version_fn(symbol);
    (void)snprintf(library->version, sizeof(library->version), "%ld.%ld.%ld", version / 10000,
                   version % 10000 / 100, version % 100);
}

static spsh_status get_library(uint32_t number, spsh_cuda_library *ret_library)
{
    if (number >= sizeof(libraries) / sizeof(libraries[0]))
        return SPSH_E_END;
    memset(ret_library, 0, sizeof(*ret_library));
    ret_library->name = libraries[number].name;
    ret_library->used_for = libraries[number].used_for;
    find_library(number, ret_library);
    return SPSH_OK;
}

/* ---- memory ---- */

static spsh_status alloc_memory(uint32_t device, size_t size_bytes, void **ret_memory,
                                spsh_error *err)
{
    place before;
    void *memory = NULL;
    char what[64];
    spsh_status rc = enter(device, &before, err);
    if (rc != SPSH_OK)
        return rc;
    (void)snprintf(what, sizeof(what), "%zu bytes of memory of device %u", size_bytes, device);
    rc = spsh__cuda_check(cudaMalloc(&memory, size_bytes), what, err);
    leave(&before);
    if (rc == SPSH_OK)
        *ret_memory = memory;
    return rc;
}

static void free_memory(void *memory)
{
    settle();
    (void)cudaFree(memory);
    (void)cudaGetLastError();
}

static spsh_status copy(void *to, const void *from, size_t size_bytes, void *stream,
                        spsh_error *err)
{
    settle();
    return spsh__cuda_check(
        cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDefault, (cudaStream_t)stream),
        "copying between host and device", err);
}

/* The device of a piece of its memory. */
static spsh_status device_of(const void *memory, uint32_t *ret_device, spsh_error *err)
{
    cudaPointerAttributes attributes;
    settle();
    const spsh_status rc = spsh__cuda_check(cudaPointerGetAttributes(&attributes, memory),
                                            "finding the device of a memory block", err);
    if (rc != SPSH_OK)
        return rc;
    if (attributes.type != cudaMemoryTypeDevice)
        return spsh__cuda_fail(err, SPSH_E_INVALID_ARG, "a fill of memory that is not of a device");
    *ret_device = (uint32_t)attributes.device;
    return SPSH_OK;
}

/* A kernel fills the memory. It runs on the device of the memory, and the stream must belong to
 * that device. */
static spsh_status fill(void *memory, uint8_t byte, size_t size_bytes, void *stream,
                        spsh_error *err)
{
    place before;
    uint32_t device = 0;
    spsh_status rc = device_of(memory, &device, err);
    if (rc == SPSH_OK)
        rc = enter(device, &before, err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh__cuda_check(cudaMemsetAsync(memory, byte, size_bytes, (cudaStream_t)stream),
                          "filling memory of a device", err);
    leave(&before);
    return rc;
}

static spsh_status get_memory(uint32_t device, uint64_t *ret_free_bytes, uint64_t *ret_all_bytes,
                              spsh_error *err)
{
    place before;
    size_t free_bytes = 0;
    size_t all_bytes = 0;
    spsh_status rc = enter(device, &before, err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh__cuda_check(cudaMemGetInfo(&free_bytes, &all_bytes),
                          "reading the free memory of a device", err);
    leave(&before);
    if (rc == SPSH_OK) {
        *ret_free_bytes = free_bytes;
        *ret_all_bytes = all_bytes;
    }
    return rc;
}

/* ---- pinned memory: for all devices, whichever is current ---- */

static spsh_status pinned_check(cudaError_t code, const char *what, size_t size_bytes,
                                spsh_error *err)
{
    if (code != cudaErrorMemoryAllocation)
        return spsh__cuda_check(code, what, err);
    (void)cudaGetLastError();
    return spsh__cuda_fail(err, SPSH_E_NO_MEMORY,
                           "%s: the system cannot pin %zu bytes more; check ulimit -l, and the "
                           "memory of the machine or container",
                           what, size_bytes);
}

static spsh_status host_alloc(size_t size_bytes, void **ret_memory, spsh_error *err)
{
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    void *memory = NULL;
    settle();
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    const spsh_status rc = pinned_check(cudaHostAlloc(&memory, size_bytes, cudaHostAllocPortable),
                                        "allocating pinned memory", size_bytes, err);
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    if (rc == SPSH_OK)
        *ret_memory = memory;
    return rc;
}

static void host_free(void *memory)
{
    settle();
    (void)cudaFreeHost(memory);
    (void)cudaGetLastError();
}

static spsh_status host_register(void *memory, size_t size_bytes, spsh_error *err)
{
    settle();
    return pinned_check(cudaHostRegister(memory, size_bytes, cudaHostRegisterPortable),
                        "pinning memory", size_bytes, err);
}

static void host_unregister(void *memory)
{
    settle();
    (void)cudaHostUnregister(memory);
    (void)cudaGetLastError();
}

/* ---- streams ---- */

static spsh_status stream_open(uint32_t device, uint32_t urgent, void **ret_stream, spsh_error *err)
{
    place before;
    cudaStream_t stream = NULL;
    int least = 0;
    int most = 0;
    spsh_status rc = enter(device, &before, err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh__cuda_check(cudaDeviceGetStreamPriorityRange(&least, &most),
                          "reading the priorities of streams", err);
    if (rc == SPSH_OK)
        rc = spsh__cuda_check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                                           urgent != 0 ? most : least),
                              "creating a stream", err);
    leave(&before);
    if (rc == SPSH_OK)
        *ret_stream = stream;
    return rc;
}

static void stream_close(void *stream)
{
    settle();
    (void)cudaStreamSynchronize((cudaStream_t)stream);
    (void)cudaStreamDestroy((cudaStream_t)stream);
    (void)cudaGetLastError();
}

static spsh_status synchronize(void *stream, spsh_error *err)
{
    settle();
    return spsh__cuda_check(cudaStreamSynchronize((cudaStream_t)stream),
                            "waiting for work on a device", err);
}

/* ---- events ---- */

static spsh_status event_open(uint32_t device, uint32_t timed, void **ret_event, spsh_error *err)
{
    place before;
    cudaEvent_t event = NULL;
    spsh_status rc = enter(device, &before, err);
    if (rc != SPSH_OK)
        return rc;
    /* A wait for an event without timing sleeps. Otherwise CUDA would keep a core busy during the
     * wait, and the loader waits for whole steps. */
    const unsigned flags =
        timed != 0 ? cudaEventDefault : cudaEventDisableTiming | cudaEventBlockingSync;
    rc = spsh__cuda_check(cudaEventCreateWithFlags(&event, flags), "creating an event", err);
    leave(&before);
    if (rc == SPSH_OK)
        *ret_event = event;
    return rc;
}

static void event_close(void *event)
{
    settle();
    (void)cudaEventDestroy((cudaEvent_t)event);
    (void)cudaGetLastError();
}

static spsh_status event_record(void *event, void *stream, spsh_error *err)
{
    settle();
    return spsh__cuda_check(cudaEventRecord((cudaEvent_t)event, (cudaStream_t)stream),
                            "recording an event", err);
}

static spsh_status event_wait(void *event, void *stream, spsh_error *err)
{
    settle();
    return spsh__cuda_check(
        cudaStreamWaitEvent((cudaStream_t)stream, (cudaEvent_t)event, cudaEventWaitDefault),
        "making a stream wait", err);
}

static spsh_status event_query(void *event, spsh_error *err)
{
    settle();
    return spsh__cuda_check(cudaEventQuery((cudaEvent_t)event), "waiting for work on a device",
                            err);
}

static spsh_status event_synchronize(void *event, spsh_error *err)
{
    settle();
    return spsh__cuda_check(cudaEventSynchronize((cudaEvent_t)event),
                            "waiting for work on a device", err);
}

static spsh_status event_ms(void *first, void *last, float *ret_ms, spsh_error *err)
{
    float ms = 0;
    settle();
    const cudaError_t error = cudaEventElapsedTime(&ms, (cudaEvent_t)first, (cudaEvent_t)last);
    if (error == cudaErrorNotReady) {
        (void)cudaGetLastError();
        return spsh__cuda_fail(err, SPSH_E_INVALID_ARG,
                               "the time between events that the device has not reached");
    }
    const spsh_status rc = spsh__cuda_check(error, "reading the time between events", err);
    if (rc == SPSH_OK)
        *ret_ms = ms;
    return rc;
}

/* ---- graphs ---- */

static spsh_status graph_begin(void *stream, spsh_error *err)
{
    settle();
    return spsh__cuda_check(
        cudaStreamBeginCapture((cudaStream_t)stream, cudaStreamCaptureModeThreadLocal),
        "beginning a graph", err);
}

static spsh_status graph_end(void *stream, void **ret_graph, spsh_error *err)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t made = NULL;
    settle();
    spsh_status rc =
        spsh__cuda_check(cudaStreamEndCapture((cudaStream_t)stream, &graph), "ending a graph", err);
    if (rc == SPSH_OK)
        rc = spsh__cuda_check(cudaGraphInstantiate(&made, graph, 0), "making a graph", err);
    if (graph != NULL)
        (void)cudaGraphDestroy(graph);
    if (rc == SPSH_OK)
        *ret_graph = made;
    return rc;
}

static void graph_abandon(void *stream)
{
    cudaGraph_t graph = NULL;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    settle();
    if (cudaStreamIsCapturing((cudaStream_t)stream, &status) != cudaSuccess ||
        status != cudaStreamCaptureStatusNone)
        (void)cudaStreamEndCapture((cudaStream_t)stream, &graph);
    if (graph != NULL)
        (void)cudaGraphDestroy(graph);
    (void)cudaGetLastError();
}

static spsh_status graph_launch(void *graph, void *stream, spsh_error *err)
{
    settle();
    return spsh__cuda_check(cudaGraphLaunch((cudaGraphExec_t)graph, (cudaStream_t)stream),
                            "launching a graph", err);
}

static void graph_close(void *graph)
{
    settle();
    if (graph != NULL)
        (void)cudaGraphExecDestroy((cudaGraphExec_t)graph);
    (void)cudaGetLastError();
}

extern "C" SPSH_API const spsh__cuda_plugin *spsh_cuda_plugin(void)
{
    static const spsh__cuda_plugin plugin = {
        SPSH__CUDA_ABI,
        SPSH_VERSION_STRING,
        count_devices,
        get_device,
        alloc_memory,
        free_memory,
        copy,
        synchronize,
        fill,
        get_memory,
        host_alloc,
        host_free,
        host_register,
        host_unregister,
        stream_open,
        stream_close,
        event_open,
        event_close,
        event_record,
        event_wait,
        event_query,
        event_synchronize,
        event_ms,
        graph_begin,
        graph_end,
        graph_abandon,
        graph_launch,
        graph_close,
        get_library,
        spsh__cuda_enter,
        spsh__cuda_leave,
    };
    return &plugin;
}
