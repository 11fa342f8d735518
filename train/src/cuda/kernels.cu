/* kernels.cu: a kernel for each row of kernels.h, and the function that launches them.
 *
 *     block (threads of device_text.h) --> its grid position, its shared memory --> kernel source
 *
 * The job is passed at launch, as the kernel's argument. A kernel may use up to 48 KiB of shared
 * memory by default; more is requested once per kernel.
 */
#include <cuda_runtime.h>

#include "train_state.h"

enum { SHARED_BYTES_DEFAULT = 48 << 10, BLOCKS_Y_MAX = 65535 };

extern __shared__ __align__(16) unsigned char shared_memory[];

#define SPSH_X(number_, name_, job_)                                                               \
    static_assert(sizeof(job_) <= SPSH__DEVICE_JOB_BYTES, "a job is too large");                   \
    static __global__ void __launch_bounds__(SPSH__DEVICE_THREADS)                                 \
        name_##_kernel(const __grid_constant__ job_ job)                                           \
    {                                                                                              \
        const spsh__kernel_block block = {                                                         \
            blockIdx.x, blockIdx.y, gridDim.x, gridDim.y, shared_memory, 0,                        \
        };                                                                                         \
        spsh__kernel_##name_(&job, &block);                                                        \
    }
SPSH__KERNELS(SPSH_X)
#undef SPSH_X

static const struct kernel_row {
    const void *function;
    const char *name;
    size_t job_bytes;
} kernels[] = {
#define SPSH_X(number_, name_, job_) {(const void *)name_##_kernel, #name_, sizeof(job_)},
    SPSH__KERNELS(SPSH_X)
#undef SPSH_X
};

static spsh_status check_launch(const spsh__train_state *self, const spsh__kernel_launch *l,
                                spsh_error *err)
{
    if (l->kernel >= SPSH__DEVICE_KERNEL_COUNT || l->job_bytes != kernels[l->kernel].job_bytes)
        return spsh__cuda_fail(err, SPSH_E_INVALID_ARG,
                               "kernel %u does not exist, or its job has another size", l->kernel);
    if (l->blocks_y > BLOCKS_Y_MAX || l->shared_bytes > (uint32_t)self->shared_bytes_max)
        return spsh__cuda_fail(err, SPSH_E_LIMIT,
                               "kernel %s: %u rows of blocks, with %u bytes of shared memory; the "
                               "limits are %d and %d",
                               kernels[l->kernel].name, l->blocks_y, l->shared_bytes,
                               (int)BLOCKS_Y_MAX, self->shared_bytes_max);
    return SPSH_OK;
}

static spsh_status launch(spsh__train_state *self, cudaStream_t stream,
                          const spsh__kernel_launch *l, spsh_error *err)
{
    const struct kernel_row *row = &kernels[l->kernel];
    if (l->shared_bytes > SHARED_BYTES_DEFAULT && !self->is_large[l->kernel]) {
        const spsh_status rc = spsh__cuda_check(
            cudaFuncSetAttribute(row->function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 self->shared_bytes_max),
            row->name, err);
        if (rc != SPSH_OK)
            return rc;
        self->is_large[l->kernel] = true;
    }
    void *arguments[] = {const_cast<void *>(l->job)};
    const dim3 grid(l->blocks_x, l->blocks_y);
    return spsh__cuda_check(cudaLaunchKernel(row->function, grid, dim3(SPSH__DEVICE_THREADS),
                                             arguments, l->shared_bytes, stream),
                            row->name, err);
}

spsh_status spsh__train_launch(void *opaque, void *stream, const spsh__kernel_launch *l,
                               spsh_error *err)
{
    spsh__train_state *self = (spsh__train_state *)opaque;
    int before = 0;
    spsh_status rc = check_launch(self, l, err);
    if (rc == SPSH_OK)
        rc = spsh__cuda_enter(self->plan.device, &before, err);
    if (rc != SPSH_OK)
        return rc;
    rc = launch(self, (cudaStream_t)stream, l, err);
    spsh__cuda_leave(before);
    return rc;
}
