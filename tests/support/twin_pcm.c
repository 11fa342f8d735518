/* twin_pcm.c: the host emulation's decoder of the codec `pcm`: the kernel source, block by block,
 * over twin_runtime.h. */
#include "cuda/device_pcm_text.h"
#include "twin_runtime.h"

SPSH_API const spsh__device_pcm_entry *spsh_cuda_pcm_entry(void);

static void run(void *arguments)
{
    const spsh__pcm_job *job = arguments;
    const uint64_t blocks = (job->count + PCM_TEAMS - 1) / PCM_TEAMS;
    for (uint64_t i = 0; i < blocks; i++) {
        const spsh__kernel_block block = {
            .x = (uint32_t)(twin_order() % 2 == 0 ? i : blocks - 1 - i),
            .blocks_x = (uint32_t)blocks,
            .blocks_y = 1,
            .shared = twin_shared(SPSH__PCM_SHARED_BYTES),
            .order = twin_order(),
        };
        spsh__kernel_pcm(job, &block);
    }
}

static spsh_status decode(uint32_t device, void *stream, const spsh__pcm_job *job,
                          const spsh__device_use *uses, size_t use_count, spsh_error *err)
{
    const twin_work work = {
        .name = "pcm",
        .run_fn = run,
        .arguments = job,
        .argument_bytes = sizeof(*job),
        .uses = uses,
        .use_count = use_count,
    };
    (void)device;
    return twin_enqueue(stream, &work, err);
}

SPSH_API const spsh__device_pcm_entry *spsh_cuda_pcm_entry(void)
{
    static const spsh__device_pcm_entry entry = {sizeof(spsh__pcm_job), sizeof(spsh__pcm_entry),
                                                 decode};
    return &entry;
}
