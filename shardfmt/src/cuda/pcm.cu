/* pcm.cu: the kernel of device_pcm_text.h. */
#include <cuda_runtime.h>

#include "device_pcm_text.h"

extern __shared__ spsh__pcm_near shared_memory[];

static_assert(SPSH__PCM_SHARED_BYTES <= 48u << 10,
              "a block may have no more without asking for it");

static __global__ void __launch_bounds__(SPSH__DEVICE_THREADS)
    pcm_kernel(const __grid_constant__ spsh__pcm_job job)
{
    const spsh__kernel_block block = {blockIdx.x, 0, gridDim.x, 1, shared_memory, 0};
    spsh__kernel_pcm(&job, &block);
}

static spsh_status decode(uint32_t device, void *stream, const spsh__pcm_job *job,
                          const spsh__device_use *uses, size_t use_count, spsh_error *err)
{
    int before = 0;
    (void)uses, (void)use_count;
    spsh_status rc = spsh__cuda_enter(device, &before, err);
    if (rc != SPSH_OK)
        return rc;
    const unsigned blocks = (unsigned)((job->count + PCM_TEAMS - 1) / PCM_TEAMS);
    pcm_kernel<<<blocks, SPSH__DEVICE_THREADS, SPSH__PCM_SHARED_BYTES, (cudaStream_t)stream>>>(
        *job);
    rc = spsh__cuda_check(cudaGetLastError(), "starting the pcm decoding kernel", err);
    spsh__cuda_leave(before);
    return rc;
}

extern "C" SPSH_API const spsh__device_pcm_entry *spsh_cuda_pcm_entry(void);

extern "C" SPSH_API const spsh__device_pcm_entry *spsh_cuda_pcm_entry(void)
{
    static const spsh__device_pcm_entry entry = {sizeof(spsh__pcm_job), sizeof(spsh__pcm_entry),
                                                 decode};
    return &entry;
}
