/* twin_kernels.c: the trainer's kernels as C: each row of kernels.h, block by block, over
 * twin_runtime.h. */
#include "twin_kernels.h"

#include <string.h>

#include "cuda/kernels.h"
#include "twin_runtime.h"

#define SPSH_X(number_, name_, job_) TWIN_##number_,
enum { SPSH__KERNELS(SPSH_X) TWIN_KERNELS };
#undef SPSH_X

static const struct kernel_row {
    const char *name;
    size_t job_bytes;
} kernels[] = {
#define SPSH_X(number_, name_, job_) {#name_, sizeof(job_)},
    SPSH__KERNELS(SPSH_X)
#undef SPSH_X
};

static void run_block(uint32_t kernel, const void *job, const spsh__kernel_block *block)
{
    switch (kernel) {
#define SPSH_X(number_, name_, job_)                                                               \
    case TWIN_##number_: spsh__kernel_##name_(job, block); break;
        SPSH__KERNELS(SPSH_X)
#undef SPSH_X
    default: break; /* twin_launch rejects other kernels */
    }
}

typedef struct kernel_work {
    _Alignas(16) unsigned char job[SPSH__DEVICE_JOB_BYTES];
    spsh__kernel_launch launch;
} kernel_work;

/* The order of blocks varies, too: no block may need the results of another. */
static void run_kernel(void *arguments)
{
    const kernel_work *w = arguments;
    const spsh__kernel_launch *l = &w->launch;
    const uint64_t count = (uint64_t)l->blocks_x * l->blocks_y;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t at = twin_order() % 2 == 0 ? i : count - 1 - i;
        const spsh__kernel_block block = {
            .x = (uint32_t)(at % l->blocks_x),
            .y = (uint32_t)(at / l->blocks_x),
            .blocks_x = l->blocks_x,
            .blocks_y = l->blocks_y,
            .shared = l->shared_bytes == 0 ? NULL : twin_shared(l->shared_bytes),
            .order = twin_order(),
        };
        run_block(l->kernel, w->job, &block);
    }
}

spsh_status twin_launch(void *stream, const spsh__kernel_launch *l, spsh_error *err)
{
    kernel_work w;
    if (l->kernel >= TWIN_KERNELS || l->job_bytes != kernels[l->kernel].job_bytes ||
        l->job_bytes > sizeof(w.job) || l->blocks_y > 65535 || l->blocks_x == 0 || l->blocks_y == 0)
        return spsh__cuda_fail(err, SPSH_E_INVALID_ARG, "twin: no such kernel, job or grid");
    memset(&w, 0, sizeof(w));
    memcpy(w.job, l->job, l->job_bytes);
    w.launch = *l;
    const twin_work work = {
        .name = kernels[l->kernel].name,
        .run_fn = run_kernel,
        .arguments = &w,
        .argument_bytes = sizeof(w),
        .uses = l->uses,
        .use_count = l->use_count,
    };
    return twin_enqueue(stream, &work, err);
}
