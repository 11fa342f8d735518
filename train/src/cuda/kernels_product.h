/* kernels_product.h: operations that the libraries' products and convolutions do not cover.
 *
 *     gemm_keep         c = keep * c, for a product without terms
 *     conv_bias         y[n][c][..] += bias[c]
 *     conv_bias_parts   sums of dy of a channel, cut into parts     grid (parts, channels)
 *     conv_bias_sums    dbias[c] += its parts, in their order
 *     add_halves        floats += float16 or bf16 values: gradients of filters, which have 16 bits
 *
 * Sum of a part: each thread adds its elements, and then the block is folded in halves. The shape
 * determines the order.
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

typedef struct spsh__conv_bias_job {
    spsh__device_array y;
    const float *bias;
    uint64_t planes, plane; /* batch * channels planes, of `plane` elements each */
    uint32_t channels;
    uint32_t is_wide; /* planes begin at a multiple of four elements */
} spsh__conv_bias_job;

typedef struct spsh__conv_bias_parts_job {
    spsh__device_array dy;
    float *parts; /* [channels][parts] */
    uint64_t plane;
    uint32_t batch, channels;
    uint32_t is_wide;
} spsh__conv_bias_parts_job;

typedef struct spsh__conv_bias_sums_job {
    const float *parts;
    float *dbias;
    uint32_t part_count, channels;
} spsh__conv_bias_sums_job;

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

DEVICE void spsh__conv_bias_thread(const spsh__conv_bias_job *job, const spsh__kernel_block *block,
                                   uint32_t thread)
{
    for (uint64_t p = block->y; p < job->planes; p += block->blocks_y) {
        const float bias = job->bias[p % job->channels];
        const uint64_t end = (p + 1) * job->plane;
        for (uint64_t at = p * job->plane + (uint64_t)block->x * DEVICE_BLOCK_STEP; at < end;
             at += (uint64_t)block->blocks_x * DEVICE_BLOCK_STEP) {
            const device_run r =
                device_run_of(at, end, thread, SPSH__DEVICE_THREADS, job->is_wide != 0);
            float v[4];
            device_load_run(&job->y, &r, v);
            for (uint32_t k = 0; k < 4; k++)
                v[k] += bias;
            device_store_run(&job->y, &r, v);
        }
    }
}

DEVICE_KERNEL(conv_bias, spsh__conv_bias_job, spsh__conv_bias_thread)

DEVICE void spsh__conv_bias_part_thread(const spsh__conv_bias_parts_job *job,
                                        const spsh__kernel_block *block, uint32_t thread)
{
    float sum = 0.0f;
    for (uint32_t n = 0; n < job->batch; n++) {
        const uint64_t first = ((uint64_t)n * job->channels + block->y) * job->plane;
        for (uint64_t at = first + (uint64_t)block->x * DEVICE_BLOCK_STEP; at < first + job->plane;
             at += (uint64_t)block->blocks_x * DEVICE_BLOCK_STEP) {
            const device_run r = device_run_of(at, first + job->plane, thread, SPSH__DEVICE_THREADS,
                                               job->is_wide != 0);
            float v[4];
            device_load_run(&job->dy, &r, v);
            sum += (v[0] + v[1]) + (v[2] + v[3]);
        }
    }
    ((float *)block->shared)[thread] = sum;
}

/* Each of the first `width` threads adds its partner's sum. */
DEVICE void spsh__conv_bias_fold_thread(const spsh__kernel_block *block, uint32_t width,
                                        uint32_t thread)
{
    float *sums = (float *)block->shared;
    if (thread < width)
        sums[thread] += sums[thread + width];
}

DEVICE void spsh__conv_bias_write_thread(const spsh__conv_bias_parts_job *job,
                                         const spsh__kernel_block *block, uint32_t thread)
{
    if (thread == 0)
        job->parts[(uint64_t)block->y * block->blocks_x + block->x] =
            ((const float *)block->shared)[0];
}

DEVICE void spsh__kernel_conv_bias_parts(const spsh__conv_bias_parts_job *job,
                                         const spsh__kernel_block *block)
{
    EACH_THREAD(block, spsh__conv_bias_part_thread(job, block, thread));
    for (uint32_t width = SPSH__DEVICE_THREADS / 2; width > 0; width /= 2)
        EACH_THREAD(block, spsh__conv_bias_fold_thread(block, width, thread));
    EACH_THREAD(block, spsh__conv_bias_write_thread(job, block, thread));
}

DEVICE void spsh__conv_bias_sum_thread(const spsh__conv_bias_sums_job *job,
                                       const spsh__kernel_block *block, uint32_t thread)
{
    for (uint64_t c = spsh__block_first(block, thread); c < job->channels;
         c += spsh__block_step(block)) {
        float sum = 0.0f;
        for (uint32_t k = 0; k < job->part_count; k++)
            sum += job->parts[c * job->part_count + k];
        job->dbias[c] += sum;
    }
}

DEVICE_KERNEL(conv_bias_sums, spsh__conv_bias_sums_job, spsh__conv_bias_sum_thread)

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
    X(CONV_BIAS, conv_bias, spsh__conv_bias_job)                                                   \
    X(CONV_BIAS_PARTS, conv_bias_parts, spsh__conv_bias_parts_job)                                 \
    X(CONV_BIAS_SUMS, conv_bias_sums, spsh__conv_bias_sums_job)                                    \
    X(ADD_HALVES, add_halves, spsh__add_halves_job)

#endif
