/* fake_cudart.c: the part of CUDA's runtime that shardfmt's and featgen's parts of the plug-in
 * call, without CUDA, so that their host code runs without a GPU. Linked with their objects instead
 * of the runtime.
 *
 *     plugin.cu, features.cu --> cudaX --> twin_table (twin_runtime.c): queues, events, captures
 *
 * A launch runs the kernel source as C, block by block, at its turn. As in CUDA, each thread has a
 * device and a capture mode. The device is 0 at first. Its context is made when the thread first
 * calls a function that needs one, or selects the device.
 *
 * Only the object file has CUDA's names, by means of assembler names.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/device_norm.h"
#include "fake_cudart.h"
#include "twin_internal.h"

/* Numbers of CUDA's headers. */
enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    NO_MEMORY = 2,
    INVALID_DEVICE = 101,
    INVALID_HANDLE = 400,
    NOT_READY = 600,
    LAUNCH_FAILURE = 719,
    NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    ATTRIBUTE_MULTIPROCESSORS = 16,
    ATTRIBUTE_MEMORY_CLOCK = 36,
    ATTRIBUTE_BUS_WIDTH = 37,
    ATTRIBUTE_CAPABILITY_MAJOR = 75,
    ATTRIBUTE_SHARED_OF_MULTIPROCESSOR = 81,
    ATTRIBUTE_COOPERATIVE = 95,
    ATTRIBUTE_SHARED_OF_BLOCK_OPTIN = 97,
    FUNCTION_DYNAMIC_SHARED_BYTES = 8,
    EVENT_DISABLE_TIMING = 2,
    MODE_THREAD_LOCAL = 1,
    MODE_RELAXED = 2,
    STREAM_NON_BLOCKING = 1,
    PRIORITY_LEAST = 0,
    PRIORITY_MOST = -5,
    MEMORY_UNREGISTERED = 0,
    MEMORY_HOST = 1,
    MEMORY_DEVICE = 2,
    HOST_PORTABLE = 1,
};

enum { KERNELS = 3, SHARED_BYTES_DEFAULT = 49152 };

typedef struct extent3 {
    unsigned x, y, z;
} extent3;

typedef enum kernel_kind { KERNEL_FRAMES, KERNEL_STATISTICS, KERNEL_FINISH } kernel_kind;
static const char *const kernel_names[KERNELS] = {"frames_kernel", "statistics_kernel",
                                                  "finish_kernel"};

/* Arguments of a launched kernel. */
typedef struct started {
    kernel_kind kernel;
    extent3 grid;
    size_t shared_bytes;
    spsh__device_job job;
} started;

static const void *kernels[KERNELS];
static size_t shared_bytes_max = SHARED_BYTES_DEFAULT; /* limit that was set for the frames'
                                                          kernel */
static extent3 pushed_grid, pushed_block;
static size_t pushed_shared;
static void *pushed_stream;
static _Thread_local int device;
static _Thread_local bool has_context; /* whether the thread has a context on its device */
static uint32_t contexts;              /* number of contexts in the process; atomic */
static _Thread_local int mode;         /* cudaStreamCaptureModeGlobal */
static _Thread_local int last_error;

static int code_of(spsh_status status)
{
    switch (status) {
    case SPSH_OK: return SUCCESS;
    case SPSH_E_INVALID_ARG: return INVALID_VALUE;
    case SPSH_E_NO_MEMORY: return NO_MEMORY;
    case SPSH_E_TIMEOUT: return NOT_READY;
    default: return twin_state.is_lost ? LAUNCH_FAILURE : CAPTURE_INVALIDATED;
    }
}

/* CUDA keeps the error until it is read. */
static int kept(int code)
{
    last_error = code != SUCCESS ? code : last_error;
    return code;
}

static int kept_status(spsh_status status)
{
    return kept(code_of(status));
}

/* ---- contexts ---- */

static void make_context(void)
{
    has_context = true;
    (void)__atomic_fetch_or(&contexts, UINT32_C(1) << device, __ATOMIC_RELAXED);
}

/* Called first by every function that needs a context. */
static void need_context(void)
{
    if (!has_context)
        make_context();
}

SPSH_API uint32_t fake_contexts(void)
{
    return __atomic_load_n(&contexts, __ATOMIC_RELAXED);
}

SPSH_API int fake_device(void)
{
    return device;
}

/* The driver's cuCtxGetCurrent. */
static int current_context(void **context)
{
    static char some;
    *context = has_context ? &some : NULL;
    return SUCCESS;
}

int fake_driver_function(const char *name, void **function, unsigned version,
                         unsigned long long flags,
                         void *found) __asm__("cudaGetDriverEntryPointByVersion");

int fake_driver_function(const char *name, void **function, unsigned version,
                         unsigned long long flags, void *found)
{
    int (*const current_fn)(void **) = current_context;
    (void)version, (void)flags, (void)found; /* the last may be NULL */
    *function = NULL;
    if (strcmp(name, "cuCtxGetCurrent") == 0)
        memcpy(function, &current_fn, sizeof(*function));
    return SUCCESS;
}

/* ---- kernels ---- */

static void run_frames(const started *one, float *memory)
{
    const spsh__device_job *job = &one->job;
    const uint64_t lanes = UINT64_C(1) << job->lane_shift;
    for (uint32_t y = 0; y < one->grid.y; y++) {
        for (uint64_t x = 0; x < one->grid.x; x++) {
            const spsh__device_utterance *utterance = &job->utterances[y];
            const uint64_t first = x * lanes;
            if (first >= utterance->frame_count)
                continue;
            const uint64_t left = utterance->frame_count - first;
            const spsh__device_block block = {
                .job = job,
                .utterance = utterance,
                .first_frame = first,
                .lane_count = (uint32_t)(left < lanes ? left : lanes),
                .memory = memory,
                .order = twin_order(),
            };
            memset(memory, TWIN_POISON, one->shared_bytes);
            spsh__device_frames(&block);
        }
    }
}

static void run_started(void *arguments)
{
    const started *one = arguments;
    const spsh__device_job *job = &one->job;
    float *memory = twin_shared(one->shared_bytes);
    if (one->kernel == KERNEL_FRAMES)
        run_frames(one, memory);
    for (uint32_t y = 0; y < one->grid.y && one->kernel == KERNEL_STATISTICS; y++) {
        const spsh__device_stats stats = {job, &job->utterances[y], y, memory, twin_order()};
        memset(memory, TWIN_POISON, one->shared_bytes);
        spsh__device_statistics(&stats);
    }
    for (uint32_t y = 0; y < one->grid.y && one->kernel == KERNEL_FINISH; y++)
        for (uint64_t at = 0; at < spsh__device_finish_count(job, y); at++)
            spsh__device_finish(job, y, at);
}

/* ---- memory ---- */

int fake_malloc(void **memory, size_t size_bytes) __asm__("cudaMalloc");
int fake_free(void *memory) __asm__("cudaFree");
int fake_host_alloc(void **memory, size_t size_bytes, unsigned flags) __asm__("cudaHostAlloc");
int fake_free_host(void *memory) __asm__("cudaFreeHost");
int fake_register_host(void *memory, size_t size_bytes, unsigned flags) __asm__("cudaHostRegister");
int fake_unregister_host(void *memory) __asm__("cudaHostUnregister");
int fake_copy(void *to, const void *from, size_t size_bytes, int kind) __asm__("cudaMemcpy");
int fake_copy_async(void *to, const void *from, size_t size_bytes, int kind,
                    void *stream) __asm__("cudaMemcpyAsync");
int fake_fill(void *memory, int byte, size_t size_bytes, void *stream) __asm__("cudaMemsetAsync");
int fake_memory_info(size_t *free_bytes, size_t *all_bytes) __asm__("cudaMemGetInfo");
int fake_pointer(int *attributes, const void *memory) __asm__("cudaPointerGetAttributes");

/* A thread that captures may allocate only in relaxed mode. */
static bool may_allocate(void)
{
    return !twin_is_capturing() || mode == MODE_RELAXED;
}

int fake_malloc(void **memory, size_t size_bytes)
{
    need_context();
    if (!may_allocate())
        return kept(CAPTURE_UNSUPPORTED);
    *memory = NULL;
    if (size_bytes == 0)
        return SUCCESS;
    return kept_status(twin_table.alloc_fn((uint32_t)device, size_bytes, memory, NULL));
}

int fake_free(void *memory)
{
    need_context();
    twin_table.free_fn(memory);
    return SUCCESS;
}

int fake_host_alloc(void **memory, size_t size_bytes, unsigned flags)
{
    need_context();
    (void)flags; /* portable memory makes no difference: featgen uses it on one device */
    if (!may_allocate())
        return kept(CAPTURE_UNSUPPORTED);
    return kept_status(twin_table.host_alloc_fn(size_bytes, memory, NULL));
}

int fake_free_host(void *memory)
{
    need_context();
    twin_table.host_free_fn(memory);
    return SUCCESS;
}

int fake_register_host(void *memory, size_t size_bytes, unsigned flags)
{
    need_context();
    if (flags != HOST_PORTABLE)
        return kept(INVALID_VALUE);
    return kept_status(twin_table.host_register_fn(memory, size_bytes, NULL));
}

int fake_unregister_host(void *memory)
{
    need_context();
    twin_table.host_unregister_fn(memory);
    return SUCCESS;
}

int fake_copy_async(void *to, const void *from, size_t size_bytes, int kind, void *stream)
{
    need_context();
    (void)kind;
    return kept_status(twin_table.copy_fn(to, from, size_bytes, stream, NULL));
}

int fake_copy(void *to, const void *from, size_t size_bytes, int kind)
{
    const int rc = fake_copy_async(to, from, size_bytes, kind, NULL);
    return rc != SUCCESS ? rc : kept_status(twin_table.synchronize_fn(NULL, NULL));
}

/* The memory and the stream must belong to the device of the thread. */
int fake_fill(void *memory, int byte, size_t size_bytes, void *stream)
{
    need_context();
    if (twin_memory_device(memory, size_bytes) != (uint32_t)device)
        return kept(INVALID_VALUE);
    if (stream != NULL && twin_stream_device(stream) != (uint32_t)device)
        return kept(INVALID_HANDLE);
    return kept_status(twin_table.fill_fn(memory, (uint8_t)byte, size_bytes, stream, NULL));
}

int fake_memory_info(size_t *free_bytes, size_t *all_bytes)
{
    need_context();
    uint64_t has_own_model = 0, all = 0;
    const spsh_status rc = twin_table.memory_fn((uint32_t)device, &has_own_model, &all, NULL);
    *free_bytes = has_own_model;
    *all_bytes = all;
    return kept_status(rc);
}

/* Sets the first two members: the kind of memory, and its device. */
int fake_pointer(int *attributes, const void *memory)
{
    need_context();
    const uint32_t number = twin_memory_device(memory, 1);
    attributes[0] = number > TWIN_DEVICES    ? MEMORY_UNREGISTERED
                    : number == TWIN_DEVICES ? MEMORY_HOST
                                             : MEMORY_DEVICE;
    attributes[1] = attributes[0] == MEMORY_DEVICE ? (int)number : -2;
    return SUCCESS;
}

/* ---- devices and errors ---- */

int fake_device_count(int *count) __asm__("cudaGetDeviceCount");
int fake_driver_version(int *version) __asm__("cudaDriverGetVersion");
int fake_get_device(int *number) __asm__("cudaGetDevice");
int fake_set_device(int number) __asm__("cudaSetDevice");
int fake_attribute(int *value, int which, int number) __asm__("cudaDeviceGetAttribute");
int fake_properties(void *properties, int number) __asm__("cudaGetDeviceProperties");
const char *fake_error_name(int code) __asm__("cudaGetErrorName");
const char *fake_error_text(int code) __asm__("cudaGetErrorString");
int fake_last_error(void) __asm__("cudaGetLastError");

int fake_device_count(int *count)
{
    *count = TWIN_DEVICES;
    return SUCCESS;
}

int fake_driver_version(int *version)
{
    *version = 99000;
    return SUCCESS;
}

int fake_get_device(int *number)
{
    *number = device;
    return SUCCESS;
}

int fake_set_device(int number)
{
    if (number < 0 || number >= TWIN_DEVICES)
        return kept(INVALID_DEVICE);
    device = number;
    make_context();
    return SUCCESS;
}

int fake_attribute(int *value, int which, int number)
{
    if (which == ATTRIBUTE_SHARED_OF_BLOCK_OPTIN)
        *value = (int)twin_state.memory_bytes;
    else if (which == ATTRIBUTE_SHARED_OF_MULTIPROCESSOR)
        *value = (int)(4 * (twin_state.memory_bytes + 1024));
    else if (which == ATTRIBUTE_MEMORY_CLOCK || which == ATTRIBUTE_BUS_WIDTH)
        *value = 0;
    else if (which == ATTRIBUTE_CAPABILITY_MAJOR)
        *value = (int)twin_state.capability / 10;
    else if (which == ATTRIBUTE_COOPERATIVE || which == ATTRIBUTE_MULTIPROCESSORS)
        *value = 1 + number;
    else
        return NOT_SUPPORTED;
    return SUCCESS;
}

/* fake_libraries.c replaces this function; it knows CUDA's struct. */
__attribute__((weak)) int fake_properties(void *properties, int number)
{
    (void)properties, (void)number;
    return NOT_SUPPORTED;
}

const char *fake_error_name(int code)
{
    switch (code) {
    case INVALID_VALUE: return "cudaErrorInvalidValue";
    case NO_MEMORY: return "cudaErrorMemoryAllocation";
    case LAUNCH_FAILURE: return "cudaErrorLaunchFailure";
    case CAPTURE_INVALIDATED: return "cudaErrorStreamCaptureInvalidated";
    default: return "cudaError";
    }
}

const char *fake_error_text(int code)
{
    return code == INVALID_VALUE ? "invalid argument" : "an error";
}

int fake_last_error(void)
{
    const int error = last_error;
    last_error = SUCCESS;
    return error;
}

/* ---- streams and events ---- */

int fake_priorities(int *least, int *most) __asm__("cudaDeviceGetStreamPriorityRange");
int fake_stream_create(void **created, unsigned flags,
                       int priority) __asm__("cudaStreamCreateWithPriority");
int fake_stream_destroy(void *stream) __asm__("cudaStreamDestroy");
int fake_stream_synchronize(void *stream) __asm__("cudaStreamSynchronize");
int fake_stream_wait(void *stream, void *event, unsigned flags) __asm__("cudaStreamWaitEvent");
int fake_event_create(void **created, unsigned flags) __asm__("cudaEventCreateWithFlags");
int fake_event_destroy(void *event) __asm__("cudaEventDestroy");
int fake_event_record(void *event, void *stream) __asm__("cudaEventRecord");
int fake_event_query(void *event) __asm__("cudaEventQuery");
int fake_event_synchronize(void *event) __asm__("cudaEventSynchronize");
int fake_event_time(float *ms, void *first, void *last) __asm__("cudaEventElapsedTime");

int fake_priorities(int *least, int *most)
{
    need_context();
    *least = PRIORITY_LEAST;
    *most = PRIORITY_MOST;
    return SUCCESS;
}

int fake_stream_create(void **created, unsigned flags, int priority)
{
    need_context();
    if (flags != STREAM_NON_BLOCKING || (priority != PRIORITY_LEAST && priority != PRIORITY_MOST))
        return kept(INVALID_VALUE);
    return kept_status(
        twin_table.stream_open_fn((uint32_t)device, priority == PRIORITY_MOST, created, NULL));
}

int fake_stream_destroy(void *stream)
{
    need_context();
    twin_table.stream_close_fn(stream);
    return SUCCESS;
}

int fake_stream_synchronize(void *stream)
{
    need_context();
    return kept_status(twin_table.synchronize_fn(stream, NULL));
}

int fake_stream_wait(void *stream, void *event, unsigned flags)
{
    need_context();
    if (flags != 0)
        return kept(INVALID_VALUE);
    return kept_status(twin_table.event_wait_fn(event, stream, NULL));
}

int fake_event_create(void **created, unsigned flags)
{
    need_context();
    const uint32_t timed = (flags & EVENT_DISABLE_TIMING) == 0;
    return kept_status(twin_table.event_open_fn((uint32_t)device, timed, created, NULL));
}

int fake_event_destroy(void *event)
{
    need_context();
    twin_table.event_close_fn(event);
    return SUCCESS;
}

int fake_event_record(void *event, void *stream)
{
    need_context();
    return kept_status(twin_table.event_record_fn(event, stream, NULL));
}

int fake_event_query(void *event)
{
    need_context();
    return kept_status(twin_table.event_query_fn(event, NULL));
}

int fake_event_synchronize(void *event)
{
    need_context();
    return kept_status(twin_table.event_synchronize_fn(event, NULL));
}

int fake_event_time(float *ms, void *first, void *last)
{
    need_context();
    return kept_status(twin_table.event_ms_fn(first, last, ms, NULL));
}

/* ---- graphs: the emulation has one object for a graph and its executable instance ---- */

int fake_capture_begin(void *stream, int how) __asm__("cudaStreamBeginCapture");
int fake_capture_end(void *stream, void **graph) __asm__("cudaStreamEndCapture");
int fake_capture_mode(int *how) __asm__("cudaThreadExchangeStreamCaptureMode");
int fake_is_capturing(void *stream, int *status) __asm__("cudaStreamIsCapturing");
int fake_graph_make(void **made, void *graph,
                    unsigned long long flags) __asm__("cudaGraphInstantiate");
int fake_graph_destroy(void *graph) __asm__("cudaGraphDestroy");
int fake_graph_drop(void *made) __asm__("cudaGraphExecDestroy");
int fake_graph_launch(void *made, void *stream) __asm__("cudaGraphLaunch");

/* The newest captured graph. Instantiating it transfers the ownership to the executable graph. */
static _Thread_local void *captured_graph;

int fake_capture_begin(void *stream, int how)
{
    need_context();
    return how != MODE_THREAD_LOCAL ? kept(INVALID_VALUE)
                                    : kept_status(twin_table.graph_begin_fn(stream, NULL));
}

int fake_capture_end(void *stream, void **graph)
{
    need_context();
    *graph = NULL;
    const int code = kept_status(twin_table.graph_end_fn(stream, graph, NULL));
    captured_graph = *graph;
    return code;
}

int fake_capture_mode(int *how)
{
    const int before = mode;
    mode = *how;
    *how = before;
    return SUCCESS;
}

int fake_is_capturing(void *stream, int *status)
{
    need_context();
    *status = twin_is_captured(stream) ? 1 : 0;
    return SUCCESS;
}

int fake_graph_make(void **made, void *graph, unsigned long long flags)
{
    need_context();
    *made = flags == 0 ? graph : NULL;
    if (graph == captured_graph && flags == 0)
        captured_graph = NULL;
    return kept(flags == 0 ? SUCCESS : INVALID_VALUE);
}

int fake_graph_destroy(void *graph)
{
    need_context();
    if (graph != NULL && graph == captured_graph) {
        twin_table.graph_close_fn(graph);
        captured_graph = NULL;
    }
    return graph != NULL ? SUCCESS : kept(INVALID_VALUE);
}

int fake_graph_drop(void *made)
{
    need_context();
    twin_table.graph_close_fn(made);
    return SUCCESS;
}

int fake_graph_launch(void *made, void *stream)
{
    need_context();
    return kept_status(twin_table.graph_launch_fn(made, stream, NULL));
}

/* ---- launches: the calls that nvcc generates for <<<>>> ---- */

void **fake_register_binary(const void *binary) __asm__("__cudaRegisterFatBinary");
void fake_register_end(void **handle) __asm__("__cudaRegisterFatBinaryEnd");
void fake_unregister(void **handle) __asm__("__cudaUnregisterFatBinary");
void fake_register(void **handle, const void *host, const char *text,
                   const char *name) __asm__("__cudaRegisterFunction");
unsigned fake_push(extent3 grid, extent3 block, size_t shared_bytes,
                   void *stream) __asm__("__cudaPushCallConfiguration");
int fake_pop(extent3 *grid, extent3 *block, size_t *shared_bytes,
             void **stream) __asm__("__cudaPopCallConfiguration");
int fake_get_kernel(const void **kernel, const void *host) __asm__("__cudaGetKernel");
int fake_launch(const void *kernel, extent3 grid, extent3 block, void **arguments,
                size_t shared_bytes, void *stream) __asm__("__cudaLaunchKernel");
int fake_function_attribute(const void *host, int which, int value) __asm__("cudaFuncSetAttribute");

void **fake_register_binary(const void *binary)
{
    static void *handle;
    (void)binary;
    return &handle;
}

void fake_register_end(void **handle)
{
    (void)handle;
}

void fake_unregister(void **handle)
{
    (void)handle;
}

void fake_register(void **handle, const void *host, const char *text, const char *name)
{
    (void)handle, (void)text;
    for (size_t i = 0; i < KERNELS; i++)
        if (strstr(name, kernel_names[i]) != NULL)
            kernels[i] = host;
}

unsigned fake_push(extent3 grid, extent3 block, size_t shared_bytes, void *stream)
{
    pushed_grid = grid;
    pushed_block = block;
    pushed_shared = shared_bytes;
    pushed_stream = stream;
    return 0;
}

int fake_pop(extent3 *grid, extent3 *block, size_t *shared_bytes, void **stream)
{
    *grid = pushed_grid;
    *block = pushed_block;
    *shared_bytes = pushed_shared;
    *stream = pushed_stream;
    return SUCCESS;
}

int fake_get_kernel(const void **kernel, const void *host)
{
    *kernel = host;
    return SUCCESS;
}

/* Whether a launch is within the limits of a device. */
static bool is_possible(kernel_kind kernel, extent3 grid, extent3 block, size_t shared_bytes)
{
    const size_t most = kernel == KERNEL_FRAMES ? shared_bytes_max : SHARED_BYTES_DEFAULT;
    return grid.x > 0 && grid.x <= INT32_MAX && grid.y > 0 && grid.y <= 65535 && grid.z == 1 &&
           block.x == SPSH__DEVICE_THREADS && block.y == 1 && block.z == 1 && shared_bytes <= most;
}

/* stream: must belong to the device of the thread. */
int fake_launch(const void *kernel, extent3 grid, extent3 block, void **arguments,
                size_t shared_bytes, void *stream)
{
    need_context();
    if (stream != NULL && twin_stream_device(stream) != (uint32_t)device)
        return kept(INVALID_HANDLE);
    for (size_t i = 0; i < KERNELS; i++) {
        if (kernels[i] != kernel)
            continue;
        if (!is_possible((kernel_kind)i, grid, block, shared_bytes))
            break;
        started one = {.kernel = (kernel_kind)i, .grid = grid, .shared_bytes = shared_bytes};
        memcpy(&one.job, arguments[0], sizeof(one.job));
        const twin_work work = {
            .name = kernel_names[i],
            .run_fn = run_started,
            .arguments = &one,
            .argument_bytes = sizeof(one),
        };
        return kept_status(twin_enqueue(stream, &work, NULL));
    }
    return kept(INVALID_VALUE);
}

int fake_function_attribute(const void *host, int which, int value)
{
    need_context();
    if (which != FUNCTION_DYNAMIC_SHARED_BYTES || value > (int)twin_state.memory_bytes)
        return INVALID_VALUE;
    if (host == kernels[KERNEL_FRAMES])
        shared_bytes_max = (size_t)value;
    return SUCCESS;
}

/* Other kernels, launched by address: only the device is checked. twin_rnn.c runs them. */
int fake_launch_plain(const void *kernel, extent3 grid, extent3 block, void **arguments,
                      size_t shared_bytes, void *stream) __asm__("cudaLaunchKernel");
int fake_launch_cooperative(const void *kernel, extent3 grid, extent3 block, void **arguments,
                            size_t shared_bytes,
                            void *stream) __asm__("cudaLaunchCooperativeKernel");
int fake_occupancy(int *count, const void *kernel, int threads,
                   size_t shared_bytes) __asm__("cudaOccupancyMaxActiveBlocksPerMultiprocessor");

int fake_launch_plain(const void *kernel, extent3 grid, extent3 block, void **arguments,
                      size_t shared_bytes, void *stream)
{
    need_context();
    (void)kernel, (void)grid, (void)block, (void)arguments, (void)shared_bytes;
    return twin_stream_device(stream) == (uint32_t)device ? SUCCESS : kept(INVALID_HANDLE);
}

int fake_launch_cooperative(const void *kernel, extent3 grid, extent3 block, void **arguments,
                            size_t shared_bytes, void *stream)
{
    return fake_launch_plain(kernel, grid, block, arguments, shared_bytes, stream);
}

int fake_occupancy(int *count, const void *kernel, int threads, size_t shared_bytes)
{
    need_context();
    (void)kernel, (void)threads, (void)shared_bytes;
    *count = 1;
    return SUCCESS;
}
