/* kernels_product.h: operations that the libraries' products and convolutions do not cover.
 *
 *     gemm_keep    c = keep * c, for a product without terms
 *     add_halves   floats += float16 or bf16 values: gradients of filters, which have 16 bits
 */
#ifndef SPSH_TRAIN_KERNELS_PRODUCT_H
#define SPSH_TRAIN_KERNELS_PRODUCT_H

#include "device_values.h"

typedef struct spsh__gemm_keep_job {
    spsh__device_array c;
    uint64_t rows, stride;
    uint32_t width;
    float keep;
} spsh__gemm_keep_job;

typedef struct spsh__add_halves_job {
    float *to;
    spsh__device_array from;
    uint64_t count;
} spsh__add_halves_job;

DEVICE void spsh__gemm_keep_thread(const spsh__gemm_keep_job *job, const spsh__kernel_block *block,
                                   uint32_t thread)
{
    const uint64_t count = job->rows * job->width;
    for (uint64_t i = spsh__block_first(block, thread); i < count; i += spsh__block_step(block)) {
        const uint64_t at = i / job->width * job->stride + i % job->width;
        const float value = job->keep == 0.0f ? 0.0f : job->keep * spsh__device_get(&job->c, at);
        spsh__device_set(&job->c, at, value);
    }
}

DEVICE_KERNEL(gemm_keep, spsh__gemm_keep_job, spsh__gemm_keep_thread)

DEVICE void spsh__add_halves_thread(const spsh__add_halves_job *job,
                                    const spsh__kernel_block *block, uint32_t thread)
{
    for (uint64_t i = spsh__block_first(block, thread); i < job->count;
         i += spsh__block_step(block))
        job->to[i] += spsh__device_get(&job->from, i);
}

DEVICE_KERNEL(add_halves, spsh__add_halves_job, spsh__add_halves_thread)

/* X(NUMBER, name, type of the job) */
#define SPSH__KERNELS_PRODUCT(X)                                                                   \
    X(GEMM_KEEP, gemm_keep, spsh__gemm_keep_job)                                                   \
    X(ADD_HALVES, add_halves, spsh__add_halves_job)

#endif
