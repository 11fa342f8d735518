/* kernels_update.h: a step of the optimizers over the arenas, and sums of squares, by threads of a
 * device. The host computes numbers that are the same for all elements.
 *
 * Updates either get the gradient scale from the host, or read it from the decision that sum_parts
 * has made (step_rule.h). Then the host need not wait for the sum.
 *
 * Sums of squares are taken in double. The count determines the number of parts. A thread adds its
 * elements in order, and then the block is folded in halves.
 */
#ifndef SPSH_TRAIN_KERNELS_UPDATE_H
#define SPSH_TRAIN_KERNELS_UPDATE_H

#include <math.h>

#include "backend/backend.h"
#include "device_values.h"

/* X(NUMBER, name, type of the job) */
#define SPSH__KERNELS_UPDATE(X)                                                                    \
    X(SQUARE_SUM, square_sum, spsh__square_job)                                                    \
    X(SUM_PARTS, sum_parts, spsh__square_job)                                                      \
    X(SGD, sgd, spsh__sgd_job)                                                                     \
    X(ADAMW, adamw, spsh__adamw_job)

#define SPSH__SQUARE_SHARED (SPSH__DEVICE_THREADS * 8U) /* bytes: a double of each thread */

typedef struct spsh__square_job {
    spsh__device_array x;
    uint64_t count;
    uint32_t is_wide, parts; /* blocks of square_sum */
    double *partial;         /* [parts] */
    double *sum;             /* result of sum_parts, which is one block */
    spsh__step_rule rule;
    float *decision; /* also written by sum_parts, see spsh__decide; NULL: not written */
} spsh__square_job;

DEVICE void device_square_part(const spsh__square_job *job, const spsh__kernel_block *block,
                               uint32_t thread)
{
    double sum = 0;
    for (uint64_t first = (uint64_t)block->x * DEVICE_BLOCK_STEP; first < job->count;
         first += (uint64_t)job->parts * DEVICE_BLOCK_STEP) {
        const device_run r =
            device_run_of(first, job->count, thread, SPSH__DEVICE_THREADS, job->is_wide != 0);
        float v[4];
        device_load_run(&job->x, &r, v);
        sum += ((double)v[0] * (double)v[0] + (double)v[1] * (double)v[1]) +
               ((double)v[2] * (double)v[2] + (double)v[3] * (double)v[3]);
    }
    ((double *)block->shared)[thread] = sum;
}

DEVICE void device_square_put(const spsh__kernel_block *block, double *to, uint32_t thread)
{
    if (thread == 0)
        *to = ((const double *)block->shared)[0];
}

DEVICE void spsh__kernel_square_sum(const spsh__square_job *job, const spsh__kernel_block *block)
{
    EACH_THREAD(block, device_square_part(job, block, thread));
    for (uint32_t half = SPSH__DEVICE_THREADS / 2; half > 0; half /= 2)
        EACH_THREAD(block, device_fold((double *)block->shared, half, thread));
    EACH_THREAD(block, device_square_put(block, job->partial + block->x, thread));
}

DEVICE void device_add_squares(const spsh__square_job *job, const spsh__kernel_block *block,
                               uint32_t thread)
{
    double sum = 0;
    for (uint32_t part = thread; part < job->parts; part += SPSH__DEVICE_THREADS)
        sum += job->partial[part];
    ((double *)block->shared)[thread] = sum;
}

DEVICE void device_decide(const spsh__square_job *job, const spsh__kernel_block *block,
                          uint32_t thread)
{
    const double sum = ((const double *)block->shared)[0];
    if (thread != 0)
        return;
    *job->sum = sum;
    if (job->decision == NULL)
        return;
    const spsh__step_scale step = spsh__step_rule_apply(&job->rule, sum);
    job->decision[0] = (float)step.scale;
    job->decision[1] = step.is_finite ? 1 : 0;
}

DEVICE void spsh__kernel_sum_parts(const spsh__square_job *job, const spsh__kernel_block *block)
{
    EACH_THREAD(block, device_add_squares(job, block, thread));
    for (uint32_t half = SPSH__DEVICE_THREADS / 2; half > 0; half /= 2)
        EACH_THREAD(block, device_fold((double *)block->shared, half, thread));
    EACH_THREAD(block, device_decide(job, block, thread));
}

/* ---- optimizers: g = gradient * gradient_scale */

/* Which elements of a slice decay: spsh__update. */
typedef struct spsh__decay_map {
    uint64_t offset;
    uint32_t count, padding; /* toggles; 0: the same decay holds for all elements */
    uint32_t toggles[SPSH__UPDATE_TOGGLES];
} spsh__decay_map;

DEVICE bool device_decays(const spsh__decay_map *map, uint64_t at)
{
    const uint64_t block = (map->offset + at) / SPSH__UPDATE_BLOCK;
    uint32_t low = 0, high = map->count; /* toggles before low are at most block */
    if (map->count == 0)
        return true;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (map->toggles[middle] <= block)
            low = middle + 1;
        else
            high = middle;
    }
    return low % 2 != 0;
}

/* A run of four adjacent elements begins at a multiple of four, so it is in one block. */
DEVICE void device_run_decays(const spsh__decay_map *map, const device_run *r, bool decays[4])
{
    const bool first = device_decays(map, r->at);
    for (uint32_t k = 0; k < 4; k++)
        decays[k] = r->step == 1 || map->count == 0
                        ? first
                        : device_decays(map, r->at + (uint64_t)k * r->step);
}

/* A kernel that calls run_ with each run of all elements, and with the gradient scale. */
#define DEVICE_UPDATE_KERNEL(name_, job_, run_)                                                    \
    DEVICE void device_##name_(const job_ *job, const spsh__kernel_block *block, uint32_t thread)  \
    {                                                                                              \
        const float scale = job->decision == NULL ? job->gradient_scale : job->decision[0];        \
        if (job->decision != NULL && job->decision[1] == 0)                                        \
            return;                                                                                \
        EACH_RUN(job, block, thread, run_(job, scale, &r));                                        \
    }                                                                                              \
    DEVICE_KERNEL(name_, job_, device_##name_)

typedef struct spsh__sgd_job {
    spsh__device_array weights, gradients, moment; /* moment: NULL without momentum */
    const float *decision;                         /* NULL: none */
    uint64_t count;
    float rate, momentum, decay, gradient_scale;
    uint32_t is_nesterov, is_wide;
    spsh__decay_map map;
} spsh__sgd_job;

DEVICE void device_sgd_run(const spsh__sgd_job *job, float scale, const device_run *r)
{
    float w[4], g[4], m[4];
    bool decays[4];
    device_run_decays(&job->map, r, decays);
    device_load_run(&job->weights, r, w);
    device_load_run(&job->gradients, r, g);
    if (job->moment.data != NULL)
        device_load_run(&job->moment, r, m);
    for (uint32_t k = 0; k < 4; k++) {
        g[k] = g[k] * scale + (decays[k] ? job->decay : 0) * w[k];
        if (job->moment.data != NULL) {
            m[k] = job->momentum * m[k] + g[k];
            g[k] = job->is_nesterov != 0 ? g[k] + job->momentum * m[k] : m[k];
        }
        w[k] -= job->rate * g[k];
    }
    device_store_run(&job->weights, r, w);
    if (job->moment.data != NULL)
        device_store_run(&job->moment, r, m);
}

DEVICE_UPDATE_KERNEL(sgd, spsh__sgd_job, device_sgd_run)

typedef struct spsh__adamw_job {
    spsh__device_array weights, gradients, moments[2];
    const float *decision; /* NULL: none */
    uint64_t count;
    float keep;                       /* 1 - rate * weight_decay */
    float beta1, beta2, gain1, gain2; /* gains: 1 - beta */
    float epsilon, gradient_scale;
    float step; /* rate / (1 - beta1^t) */
    float root; /* 1 / sqrt(1 - beta2^t) */
    uint32_t is_wide;
    spsh__decay_map map;
} spsh__adamw_job;

DEVICE void device_adamw_run(const spsh__adamw_job *job, float scale, const device_run *r)
{
    float w[4], g[4], m[4], v[4];
    bool decays[4];
    device_run_decays(&job->map, r, decays);
    device_load_run(&job->weights, r, w);
    device_load_run(&job->gradients, r, g);
    device_load_run(&job->moments[0], r, m);
    device_load_run(&job->moments[1], r, v);
    for (uint32_t k = 0; k < 4; k++) {
        g[k] *= scale;
        m[k] = job->beta1 * m[k] + job->gain1 * g[k];
        v[k] = job->beta2 * v[k] + job->gain2 * g[k] * g[k];
        w[k] = w[k] * (decays[k] ? job->keep : 1) -
               job->step * (m[k] / (sqrtf(v[k]) * job->root + job->epsilon));
    }
    device_store_run(&job->weights, r, w);
    device_store_run(&job->moments[0], r, m);
    device_store_run(&job->moments[1], r, v);
}

DEVICE_UPDATE_KERNEL(adamw, spsh__adamw_job, device_adamw_run)

#endif
