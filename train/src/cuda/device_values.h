/* device_values.h: how kernels read and write elements of either kind, and how the threads of a
 * block divide elements.
 *
 * A thread takes up to four elements at once, a run. If memory is aligned to four elements (wide),
 * they are adjacent and take one load. Otherwise their distance is the number of threads, so that
 * adjacent threads access adjacent elements, and each thread has four loads in flight.
 */
#ifndef SPSH_DEVICE_VALUES_H
#define SPSH_DEVICE_VALUES_H

#include <assert.h>

#include "device_half.h"

/* Return a value as rounded by a store. */
SPSH__INLINE float spsh__rounded(spsh__device_kind kind, float value)
{
    if (kind == SPSH__DEVICE_F32)
        return value;
    return spsh__f32_of_half(spsh__half_of_f32(value, kind == SPSH__DEVICE_BF16),
                             kind == SPSH__DEVICE_BF16);
}

SPSH__INLINE bool spsh__is_finite(float value)
{
    return (spsh__bits_of_f32(value) & 0x7f800000U) != 0x7f800000U;
}

DEVICE float device_clip(float value, float limit)
{
    value = value < 0 ? 0 : value; /* NaN compares false, and stays */
    return value > limit ? limit : value;
}

/* ---- four adjacent, aligned elements */

SPSH__INLINE bool spsh__is_aligned(const spsh__device_array *x, uint64_t at)
{
    const uintptr_t bytes = x->kind == SPSH__DEVICE_F32 ? 4 : 2;
    return ((uintptr_t)x->data + at * bytes) % (4 * bytes) == 0;
}

DEVICE void device_load_four(const spsh__device_array *x, uint64_t at, float v[4])
{
#ifdef __CUDACC__
    const bool is_bf16 = x->kind == SPSH__DEVICE_BF16;
    if (x->kind == SPSH__DEVICE_F32) {
        const float4 four = *(const float4 *)((const float *)x->data + at);
        v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
    } else {
        const ushort4 four = *(const ushort4 *)((const uint16_t *)x->data + at);
        v[0] = spsh__f32_of_half(four.x, is_bf16), v[1] = spsh__f32_of_half(four.y, is_bf16);
        v[2] = spsh__f32_of_half(four.z, is_bf16), v[3] = spsh__f32_of_half(four.w, is_bf16);
    }
#else
    assert(spsh__is_aligned(x, at));
    for (uint32_t k = 0; k < 4; k++)
        v[k] = spsh__device_get(x, at + k);
#endif
}

DEVICE void device_store_four(const spsh__device_array *x, uint64_t at, const float v[4])
{
#ifdef __CUDACC__
    const bool is_bf16 = x->kind == SPSH__DEVICE_BF16;
    if (x->kind == SPSH__DEVICE_F32)
        *(float4 *)((float *)x->data + at) = make_float4(v[0], v[1], v[2], v[3]);
    else
        *(ushort4 *)((uint16_t *)x->data + at) =
            make_ushort4(spsh__half_of_f32(v[0], is_bf16), spsh__half_of_f32(v[1], is_bf16),
                         spsh__half_of_f32(v[2], is_bf16), spsh__half_of_f32(v[3], is_bf16));
#else
    assert(spsh__is_aligned(x, at));
    for (uint32_t k = 0; k < 4; k++)
        spsh__device_set(x, at + k, v[k]);
#endif
}

/* ---- runs */

#ifdef __CUDACC__
#define DEVICE_UNROLL _Pragma("unroll")
#else
#define DEVICE_UNROLL
#endif

#define DEVICE_LANES      32U /* threads that walk a line together */
#define DEVICE_WARPS      (SPSH__DEVICE_THREADS / DEVICE_LANES) /* groups of lanes per block */
#define DEVICE_LINE_STEP  ((uint64_t)4 * DEVICE_LANES)          /* elements per group at once */
#define DEVICE_BLOCK_STEP ((uint64_t)4 * SPSH__DEVICE_THREADS)

/* Elements at, at + step, ... With is_wide, step is 1 and there are four, aligned. */
typedef struct device_run {
    uint64_t at;
    uint32_t count, step; /* at most 4 */
} device_run;

/* Return the run of one thread. The elements first ... end - 1 are divided among `threads` threads,
 * four per thread, and `thread` is the index of this one. */
DEVICE device_run device_run_of(uint64_t first, uint64_t end, uint32_t thread, uint32_t threads,
                                bool is_wide)
{
    device_run r;
    if (is_wide && end >= first + 4ULL * threads) {
        r.at = first + 4ULL * thread;
        r.count = 4;
        r.step = 1;
        return r;
    }
    r.at = first + thread;
    r.step = threads;
    const uint64_t there = r.at < end ? (end - r.at + threads - 1) / threads : 0;
    r.count = there < 4 ? (uint32_t)there : 4;
    return r;
}

DEVICE void device_load_run(const spsh__device_array *x, const device_run *r, float v[4])
{
    if (r->step == 1)
        device_load_four(x, r->at, v);
    else {
        for (uint32_t k = 0; k < 4; k++)
            v[k] = k < r->count ? spsh__device_get(x, r->at + (uint64_t)k * r->step) : 0;
    }
}

DEVICE void device_store_run(const spsh__device_array *x, const device_run *r, const float v[4])
{
    if (r->step == 1)
        device_store_four(x, r->at, v);
    else {
        for (uint32_t k = 0; k < 4; k++) {
            if (k < r->count)
                spsh__device_set(x, r->at + (uint64_t)k * r->step, v[k]);
        }
    }
}

/* Return the run of the same elements in another array. */
DEVICE device_run device_run_at(const device_run *r, uint64_t at)
{
    device_run other = *r;
    other.at = at;
    return other;
}

/* A kernel of one phase, or of two. */
#define DEVICE_KERNEL(name_, job_, phase_)                                                         \
    DEVICE void spsh__kernel_##name_(const job_ *job, const spsh__kernel_block *block)             \
    {                                                                                              \
        EACH_THREAD(block, phase_(job, block, thread));                                            \
    }
#define DEVICE_KERNEL_OF_TWO(name_, job_, first_, second_)                                         \
    DEVICE void spsh__kernel_##name_(const job_ *job, const spsh__kernel_block *block)             \
    {                                                                                              \
        EACH_THREAD(block, first_(job, block, thread));                                            \
        EACH_THREAD(block, second_(job, block, thread));                                           \
    }

/* Expand call_ for each run r, so that a block covers all elements. */
#define EACH_RUN(job_, block_, thread_, call_)                                                     \
    for (uint64_t first_ = (uint64_t)(block_)->x * DEVICE_BLOCK_STEP; first_ < (job_)->count;      \
         first_ += (uint64_t)(block_)->blocks_x * DEVICE_BLOCK_STEP) {                             \
        const device_run r = device_run_of(first_, (job_)->count, thread_, SPSH__DEVICE_THREADS,   \
                                           (job_)->is_wide != 0);                                  \
        call_;                                                                                     \
    }

/* A kernel that calls run_ with each run of all elements. */
#define DEVICE_ELEMENTS_KERNEL(name_, job_, run_)                                                  \
    DEVICE void device_##name_(const job_ *job, const spsh__kernel_block *block, uint32_t thread)  \
    {                                                                                              \
        EACH_RUN(job, block, thread, run_(job, &r));                                               \
    }                                                                                              \
    DEVICE_KERNEL(name_, job_, device_##name_)

/* ---- sums over the threads of a block or of its groups, in the order of thread indices */

/* Sum the lane's number over DEVICE_WARPS groups of DEVICE_LANES numbers, in order. */
DEVICE double device_lane_sum(const double *numbers, uint32_t lane)
{
    double sum = 0;
    for (uint32_t g = 0; g < DEVICE_WARPS; g++)
        sum += numbers[g * DEVICE_LANES + lane];
    return sum;
}

/* Sum every eighth part. Parts are `stride` apart. */
DEVICE double device_parts_sum(const double *partial, uint32_t parts, uint64_t stride,
                               uint32_t first)
{
    double sum = 0;
    for (uint32_t part = first; part < parts; part += DEVICE_WARPS)
        sum += partial[part * stride];
    return sum;
}

/* One step of a block's sum. Call it log2(SPSH__DEVICE_THREADS) times, with `half` falling to 1. */
DEVICE void device_fold(double *numbers, uint32_t half, uint32_t thread)
{
    if (thread < half)
        numbers[thread] += numbers[thread + half];
}

#endif
