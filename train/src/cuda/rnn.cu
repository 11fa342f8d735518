/* rnn.cu: recurrent layers on the device: the kernels of kernels_rnn.h, and the table of
 * device_rnn.h. cuDNN's layers are in rnn_layers.cu.
 *
 * The blocks of a persistent kernel wait for each other by counters in global memory, which are 0
 * at the launch. The kernel never resets them: a graph zeroes them before each launch. A
 * cooperative launch guarantees that all blocks are on the device at once, or fails.
 */
#include <cuda_runtime.h>
#include <new>

#include "rnn_layers.h"

/* ---- kernels ---- */

extern __shared__ uint4 rnn_memory[];

static __device__ __forceinline__ spsh__kernel_block this_block(void)
{
    return {blockIdx.x, blockIdx.y, gridDim.x, gridDim.y, rnn_memory, 0};
}

/* Publish a block's writes of this phase. All threads of the block must have finished the phase.
 * All threads of all blocks see them after wait. */
static __device__ __forceinline__ void arrive(uint32_t *arrived)
{
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1U);
    }
}

static __device__ __forceinline__ void wait(const spsh__rnn_barrier barrier)
{
    if (threadIdx.x == 0) {
        uint32_t seen = 0;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                         : "=r"(seen)
                         : "l"(barrier.counter)
                         : "memory");
        } while (seen < barrier.count);
        __threadfence();
    }
    __syncthreads();
}

template <uint32_t KIND, bool IS_BACKWARD>
static __device__ __forceinline__ void persistent(const spsh__rnn_grid_job *job)
{
    const spsh__kernel_block grid = this_block();
    const rnn_block block = spsh__rnn_block_of(job, &grid, KIND, IS_BACKWARD);
    const uint32_t steps = spsh__rnn_steps(&block);
    spsh__rnn_open(&block);
    for (uint32_t step = 0; step < steps; step++) {
        wait(spsh__rnn_before(&block, step));
        spsh__rnn_step(&block, step);
        arrive(spsh__rnn_after(&block, step));
        spsh__rnn_ahead(&block, step, threadIdx.x);
    }
}

template <uint32_t KIND>
static __global__ void __launch_bounds__(SPSH__DEVICE_THREADS, 1)
    forward(const __grid_constant__ spsh__rnn_grid_job job)
{
    persistent<KIND, false>(&job);
}

template <uint32_t KIND>
static __global__ void __launch_bounds__(SPSH__DEVICE_THREADS, 1)
    backward(const __grid_constant__ spsh__rnn_grid_job job)
{
    persistent<KIND, true>(&job);
}

#define PLAIN(name_, job_)                                                                         \
    template <uint32_t KIND>                                                                       \
    static __global__ void __launch_bounds__(SPSH__DEVICE_THREADS)                                 \
        name_(const __grid_constant__ job_ job)                                                    \
    {                                                                                              \
        const spsh__kernel_block block = this_block();                                             \
        spsh__kernel_rnn_##name_(&job, &block, KIND);                                              \
    }
PLAIN(forward_step, spsh__rnn_job)
PLAIN(backward_step, spsh__rnn_job)
PLAIN(pack, spsh__rnn_pack_job)

#define KINDS(name_)                                                                               \
    {                                                                                              \
        (const void *)name_<SPSH__DEVICE_F32>, (const void *)name_<SPSH__DEVICE_BF16>,             \
            (const void *)name_<SPSH__DEVICE_FP16>                                                 \
    }
static const void *const kernels[SPSH__RNN_KERNELS][3] = {
    KINDS(forward), KINDS(backward), KINDS(forward_step), KINDS(backward_step), KINDS(pack),
};

static const size_t job_bytes[SPSH__RNN_KERNELS] = {
    sizeof(spsh__rnn_grid_job), sizeof(spsh__rnn_grid_job), sizeof(spsh__rnn_job),
    sizeof(spsh__rnn_job),      sizeof(spsh__rnn_pack_job),
};

/* ---- the state ---- */

typedef struct rnn_state {
    int device;
    int multiprocessors, shared_bytes;
    bool has_cooperative;
    spsh__rnn_layers layers;
} rnn_state;

static void close_state(void *opaque)
{
    rnn_state *self = (rnn_state *)opaque;
    spsh__rnn_layers_close(&self->layers);
    delete self;
}

static spsh_status attribute(const rnn_state *self, cudaDeviceAttr which, int *value,
                             spsh_error *err)
{
    return spsh__cuda_check(cudaDeviceGetAttribute(value, which, self->device),
                            "reading an attribute of a device", err);
}

static spsh_status look(rnn_state *self, spsh_error *err)
{
    int major = 0, cooperative = 0;
    const spsh__cuda_scope scope((uint32_t)self->device, err);
    spsh_status rc = scope.status;
    if (rc == SPSH_OK)
        rc = attribute(self, cudaDevAttrComputeCapabilityMajor, &major, err);
    if (rc == SPSH_OK)
        rc = attribute(self, cudaDevAttrCooperativeLaunch, &cooperative, err);
    if (rc == SPSH_OK)
        rc = attribute(self, cudaDevAttrMultiProcessorCount, &self->multiprocessors, err);
    if (rc == SPSH_OK)
        rc = attribute(self, cudaDevAttrMaxSharedMemoryPerBlockOptin, &self->shared_bytes, err);
    self->has_cooperative = cooperative != 0 && major >= 8;
    for (int kernel = SPSH__RNN_FORWARD; kernel <= SPSH__RNN_BACKWARD; kernel++)
        for (int kind = 0; rc == SPSH_OK && kind < 3; kind++)
            rc = spsh__cuda_check(cudaFuncSetAttribute(kernels[kernel][kind],
                                                       cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                       self->shared_bytes),
                                  "setting the shared memory of a kernel", err);
    return rc;
}

static spsh_status open_state(const spsh__device_train_plan *plan, void **ret_state,
                              spsh_error *err)
{
    rnn_state *self = new (std::nothrow) rnn_state();
    if (self == NULL)
        return spsh__cuda_fail(err, SPSH_E_NO_MEMORY, "out of memory");
    self->device = (int)plan->device;
    self->layers.device = self->device;
    self->layers.precision = plan->precision;
    const spsh_status rc = look(self, err);
    if (rc != SPSH_OK) {
        close_state(self);
        return rc;
    }
    *ret_state = self;
    return SPSH_OK;
}

/* One block on each multiprocessor. */
static spsh__rnn_limits limits(void *opaque)
{
    const rnn_state *self = (const rnn_state *)opaque;
    if (!self->has_cooperative)
        return {0, 0};
    return {(uint32_t)self->multiprocessors, (uint32_t)self->shared_bytes};
}

static uint32_t resident(void *opaque, spsh__rnn_kernel kernel, spsh__device_kind kind,
                         uint32_t shared_bytes)
{
    const rnn_state *self = (const rnn_state *)opaque;
    int count = 0;
    const spsh__cuda_scope scope((uint32_t)self->device, NULL);
    if (!self->has_cooperative || shared_bytes > (uint32_t)self->shared_bytes ||
        scope.status != SPSH_OK ||
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, kernels[kernel][kind],
                                                      (int)SPSH__DEVICE_THREADS,
                                                      shared_bytes) != cudaSuccess) {
        (void)cudaGetLastError();
        return 0;
    }
    return count > 0 ? (uint32_t)self->multiprocessors : 0;
}

static spsh_status launch(void *opaque, void *stream, const spsh__rnn_launch *l, spsh_error *err)
{
    const rnn_state *self = (const rnn_state *)opaque;
    const dim3 grid(l->blocks_x, l->blocks_y), threads(SPSH__DEVICE_THREADS);
    void *arguments[1] = {const_cast<void *>(l->job)};
    const void *kernel = kernels[l->kernel][l->kind];
    if (l->job_bytes != job_bytes[l->kernel])
        return spsh__cuda_fail(err, SPSH_E_INVALID_ARG,
                               "the job of a recurrent kernel has the wrong size");
    const spsh__cuda_scope scope((uint32_t)self->device, err);
    if (scope.status != SPSH_OK)
        return scope.status;
    if (l->kernel == SPSH__RNN_FORWARD || l->kernel == SPSH__RNN_BACKWARD)
        return spsh__cuda_check(cudaLaunchCooperativeKernel(kernel, grid, threads, arguments,
                                                            l->shared_bytes, (cudaStream_t)stream),
                                "launching a persistent recurrent kernel", err);
    return spsh__cuda_check(
        cudaLaunchKernel(kernel, grid, threads, arguments, l->shared_bytes, (cudaStream_t)stream),
        "launching a kernel of a recurrent layer", err);
}

static spsh_status layer_open(void *opaque, const spsh__cudnn_plan *plan, void **ret_layer,
                              spsh__cudnn_sizes *ret_sizes, spsh_error *err)
{
    rnn_state *self = (rnn_state *)opaque;
    return spsh__rnn_layer_open(&self->layers, plan, ret_layer, ret_sizes, err);
}

extern "C" SPSH_API const spsh__device_rnn_entry *spsh_cuda_rnn_entry(void)
{
    static const spsh__device_rnn_entry entry = {
        SPSH__RNN_JOBS_BYTES,
        open_state,
        close_state,
        limits,
        resident,
        launch,
        layer_open,
        spsh__rnn_layer_close,
        spsh__rnn_layer_call,
    };
    return &entry;
}
