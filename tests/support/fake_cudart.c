/* fake_cudart.c: as much of CUDA's runtime as the plug-in calls, without CUDA, so that the
 * plug-in's host code runs where there is no GPU. Linked with the plug-in's own objects in the
 * place of the runtime.
 *
 *     copies, launches, events --> queue --> done when somebody waits, and not before
 *
 * As on a device, what was put onto a stream is done later: what is freed, or written again, too
 * early shows as wrong rows. (All streams are one.) A launch runs the kernels' text as C, block by
 * block. "Device" memory is the host's, full of NaNs.
 *
 * Names are CUDA's in the object file alone, by way of assembler names.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/device_norm.h"
#include "twin_plugin.h"

/* Numbers of CUDA's headers. */
enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    NO_MEMORY = 2,
    NOT_SUPPORTED = 801,
    ATTRIBUTE_SHARED_OF_MULTIPROCESSOR = 81,
    ATTRIBUTE_SHARED_OF_BLOCK_OPTIN = 97,
    FUNCTION_DYNAMIC_SHARED_BYTES = 8,
    HOST_TO_DEVICE = 1,
};

enum { OPS_MAX = 256, PINNED_MAX = 64, KERNELS = 3, POISON = 0xff, SHARED_BYTES_DEFAULT = 49152 };

typedef struct extent3 {
    unsigned x, y, z;
} extent3;

typedef enum kernel_kind { KERNEL_FRAMES, KERNEL_STATISTICS, KERNEL_FINISH } kernel_kind;
static const char *const kernel_names[KERNELS] = {"frames_kernel", "statistics_kernel",
                                                  "finish_kernel"};

typedef struct event {
    bool is_done;
} event;

typedef struct op {
    enum { OP_COPY, OP_LAUNCH, OP_EVENT } kind;
    void *to; /* COPY */
    const void *from;
    void *staged; /* COPY: of host memory that is not pinned */
    size_t size_bytes;
    kernel_kind kernel; /* LAUNCH */
    extent3 grid;
    size_t shared_bytes;
    spsh__device_job job;
    event *marked; /* EVENT */
} op;

static op ops[OPS_MAX];
static size_t op_count;
static const void *kernels[KERNELS];
static size_t shared_bytes_max = SHARED_BYTES_DEFAULT; /* of the frames' kernel, as it was set */
static int device;
static extent3 pushed_grid, pushed_block;
static size_t pushed_shared;
static void *pushed_stream;
static struct {
    char *begin;
    size_t size_bytes;
} pinned[PINNED_MAX];
static twin_controls controls = {.memory_bytes = 101376};

SPSH_API twin_controls *twin_controls_get(void);
SPSH_API twin_controls *twin_controls_get(void)
{
    return &controls;
}

/* ---- the queue ---- */

static void run_frames(const op *one, float *memory)
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
                .order = controls.order,
            };
            memset(memory, POISON, one->shared_bytes);
            spsh__device_frames(&block);
        }
    }
}

static void run_launch(const op *one)
{
    const spsh__device_job *job = &one->job;
    float *memory = malloc(one->shared_bytes + 1);
    if (memory == NULL)
        abort();
    if (one->kernel == KERNEL_FRAMES)
        run_frames(one, memory);
    for (uint32_t y = 0; y < one->grid.y && one->kernel == KERNEL_STATISTICS; y++) {
        const spsh__device_stats stats = {job, &job->utterances[y], y, memory, controls.order};
        memset(memory, POISON, one->shared_bytes);
        spsh__device_statistics(&stats);
    }
    for (uint32_t y = 0; y < one->grid.y && one->kernel == KERNEL_FINISH; y++)
        for (uint64_t at = 0; at < spsh__device_finish_count(job, y); at++)
            spsh__device_finish(job, y, at);
    free(memory);
}

static void run_all(void)
{
    for (size_t i = 0; i < op_count; i++) {
        op *one = &ops[i];
        switch (one->kind) {
        case OP_COPY:
            memcpy(one->to, one->staged != NULL ? one->staged : one->from, one->size_bytes);
            free(one->staged);
            break;
        case OP_LAUNCH: run_launch(one); break;
        case OP_EVENT: one->marked->is_done = true; break;
        }
    }
    op_count = 0;
}

static op *add_op(void)
{
    if (op_count == OPS_MAX)
        run_all();
    memset(&ops[op_count], 0, sizeof(ops[op_count]));
    return &ops[op_count++];
}

/* ---- memory ---- */

int fake_malloc(void **memory, size_t size_bytes) __asm__("cudaMalloc");
int fake_free(void *memory) __asm__("cudaFree");
int fake_host_alloc(void **memory, size_t size_bytes, unsigned flags) __asm__("cudaHostAlloc");
int fake_free_host(void *memory) __asm__("cudaFreeHost");
int fake_copy(void *to, const void *from, size_t size_bytes, int kind) __asm__("cudaMemcpy");
int fake_copy_async(void *to, const void *from, size_t size_bytes, int kind,
                    void *stream) __asm__("cudaMemcpyAsync");

int fake_malloc(void **memory, size_t size_bytes)
{
    *memory = size_bytes > 0 ? malloc(size_bytes) : NULL;
    if (*memory == NULL)
        return NO_MEMORY;
    memset(*memory, POISON, size_bytes);
    controls.open_memory++;
    return SUCCESS;
}

int fake_free(void *memory)
{
    run_all();
    if (memory != NULL)
        controls.open_memory--;
    free(memory);
    return SUCCESS;
}

int fake_host_alloc(void **memory, size_t size_bytes, unsigned flags)
{
    (void)flags;
    for (size_t i = 0; i < PINNED_MAX; i++) {
        if (pinned[i].begin != NULL)
            continue;
        const int rc = fake_malloc(memory, size_bytes);
        pinned[i].begin = rc == SUCCESS ? *memory : NULL;
        pinned[i].size_bytes = size_bytes;
        return rc;
    }
    return NO_MEMORY;
}

int fake_free_host(void *memory)
{
    for (size_t i = 0; i < PINNED_MAX; i++)
        if (memory != NULL && pinned[i].begin == memory)
            pinned[i].begin = NULL;
    return fake_free(memory);
}

static bool is_pinned(const char *from)
{
    for (size_t i = 0; i < PINNED_MAX; i++)
        if (pinned[i].begin != NULL && from >= pinned[i].begin &&
            from < pinned[i].begin + pinned[i].size_bytes)
            return true;
    return false;
}

int fake_copy_async(void *to, const void *from, size_t size_bytes, int kind, void *stream)
{
    op *one = add_op();
    (void)stream;
    one->kind = OP_COPY;
    one->to = to;
    one->from = from;
    one->size_bytes = size_bytes;
    /* Other copies are the caller's, of device memory perhaps: that is read when the turn comes. */
    if (kind == HOST_TO_DEVICE && !is_pinned(from)) {
        one->staged = malloc(size_bytes);
        if (one->staged == NULL)
            return NO_MEMORY;
        memcpy(one->staged, from, size_bytes);
    }
    return SUCCESS;
}

int fake_copy(void *to, const void *from, size_t size_bytes, int kind)
{
    const int rc = fake_copy_async(to, from, size_bytes, kind, NULL);
    run_all();
    return rc;
}

/* ---- devices, events, streams ---- */

int fake_device_count(int *count) __asm__("cudaGetDeviceCount");
int fake_driver_version(int *version) __asm__("cudaDriverGetVersion");
int fake_get_device(int *number) __asm__("cudaGetDevice");
int fake_set_device(int number) __asm__("cudaSetDevice");
int fake_attribute(int *value, int which, int number) __asm__("cudaDeviceGetAttribute");
int fake_properties(void *properties, int number) __asm__("cudaGetDeviceProperties");
int fake_event_create(event **created, unsigned flags) __asm__("cudaEventCreateWithFlags");
int fake_event_destroy(event *of) __asm__("cudaEventDestroy");
int fake_event_record(event *of, void *stream) __asm__("cudaEventRecord");
int fake_event_synchronize(event *of) __asm__("cudaEventSynchronize");
int fake_stream_synchronize(void *stream) __asm__("cudaStreamSynchronize");
const char *fake_error_name(int code) __asm__("cudaGetErrorName");
const char *fake_error_text(int code) __asm__("cudaGetErrorString");
int fake_last_error(void) __asm__("cudaGetLastError");

static int launch_error;

int fake_device_count(int *count)
{
    *count = 2;
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
    device = number;
    return SUCCESS;
}

int fake_attribute(int *value, int which, int number)
{
    (void)number;
    if (which == ATTRIBUTE_SHARED_OF_BLOCK_OPTIN)
        *value = (int)controls.memory_bytes;
    else if (which == ATTRIBUTE_SHARED_OF_MULTIPROCESSOR)
        *value = (int)(4 * (controls.memory_bytes + 1024));
    else
        return NOT_SUPPORTED;
    return SUCCESS;
}

int fake_properties(void *properties, int number)
{
    (void)properties, (void)number;
    return NOT_SUPPORTED;
}

int fake_event_create(event **created, unsigned flags)
{
    (void)flags;
    *created = calloc(1, sizeof(**created));
    return *created != NULL ? SUCCESS : NO_MEMORY;
}

int fake_event_destroy(event *of)
{
    run_all();
    free(of);
    return SUCCESS;
}

int fake_event_record(event *of, void *stream)
{
    op *one = add_op();
    (void)stream;
    one->kind = OP_EVENT;
    one->marked = of;
    of->is_done = false;
    return SUCCESS;
}

int fake_event_synchronize(event *of)
{
    if (!of->is_done)
        run_all();
    return SUCCESS;
}

int fake_stream_synchronize(void *stream)
{
    (void)stream;
    run_all();
    return SUCCESS;
}

const char *fake_error_name(int code)
{
    return code == INVALID_VALUE ? "cudaErrorInvalidValue" : "cudaError";
}

const char *fake_error_text(int code)
{
    return code == INVALID_VALUE ? "invalid argument" : "an error";
}

int fake_last_error(void)
{
    const int error = launch_error;
    launch_error = SUCCESS;
    return error;
}

/* ---- launches: what nvcc makes of <<<>>> ---- */

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

/* The limits that a device has. */
static bool is_possible(kernel_kind kernel, extent3 grid, extent3 block, size_t shared_bytes)
{
    const size_t most = kernel == KERNEL_FRAMES ? shared_bytes_max : SHARED_BYTES_DEFAULT;
    return grid.x > 0 && grid.x <= INT32_MAX && grid.y > 0 && grid.y <= 65535 && grid.z == 1 &&
           block.x == SPSH__DEVICE_THREADS && block.y == 1 && block.z == 1 && shared_bytes <= most;
}

int fake_launch(const void *kernel, extent3 grid, extent3 block, void **arguments,
                size_t shared_bytes, void *stream)
{
    (void)stream;
    for (size_t i = 0; i < KERNELS; i++) {
        if (kernels[i] != kernel)
            continue;
        if (!is_possible((kernel_kind)i, grid, block, shared_bytes))
            break;
        op *one = add_op();
        one->kind = OP_LAUNCH;
        one->kernel = (kernel_kind)i;
        one->grid = grid;
        one->shared_bytes = shared_bytes;
        memcpy(&one->job, arguments[0], sizeof(one->job));
        return SUCCESS;
    }
    launch_error = INVALID_VALUE;
    return INVALID_VALUE;
}

int fake_function_attribute(const void *host, int which, int value)
{
    if (host != kernels[KERNEL_FRAMES] || which != FUNCTION_DYNAMIC_SHARED_BYTES ||
        value > (int)controls.memory_bytes)
        return INVALID_VALUE;
    shared_bytes_max = (size_t)value;
    return SUCCESS;
}
