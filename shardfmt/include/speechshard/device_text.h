/* device_text.h: kernel source that C and CUDA share. Not for users.
 *
 * The work of a block of threads is written once, in phases. nvcc compiles it to a kernel. Tests
 * compile the same source as C and run the threads of a block one after another, in several orders.
 * This tests the logic without a GPU, and exposes results that depend on the order within a phase
 * (a race).
 *
 *     DEVICE void device_scale(const spsh__scale_job *job, const spsh__kernel_block *block,
 *                              uint32_t thread)
 *     {
 *         for (uint64_t i = spsh__block_first(block, thread); i < job->count;
 *              i += spsh__block_step(block))
 *             ...
 *     }
 *     DEVICE void spsh__kernel_scale(const spsh__scale_job *job, const spsh__kernel_block *block)
 *     {
 *         EACH_THREAD(block, device_scale(job, block, thread));    // a phase, then a barrier
 *     }
 *
 * There are no atomics and no sums in order of arrival: results depend only on inputs and shapes.
 */
#ifndef SPEECHSHARD_DEVICE_TEXT_H
#define SPEECHSHARD_DEVICE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#ifndef SPSH__DEVICE_THREADS /* threads per block; a power of two */
#define SPSH__DEVICE_THREADS 256U
#endif

#ifdef __CUDACC__
#define DEVICE static __device__ __forceinline__
/* A phase: every thread of the block runs call_ with its number in `thread`, then a barrier. */
#define EACH_THREAD(block_, call_)                                                                 \
    do {                                                                                           \
        const uint32_t thread = threadIdx.x;                                                       \
        call_;                                                                                     \
        __syncthreads();                                                                           \
    } while (0)
#else
#define DEVICE static inline
#ifndef EACH_THREAD /* a test may define its own */
#define EACH_THREAD(block_, call_)                                                                 \
    for (uint32_t turn_ = 0; turn_ < SPSH__DEVICE_THREADS; turn_++) {                              \
        const uint32_t thread = spsh__device_turn((block_)->order, turn_);                         \
        call_;                                                                                     \
    }
#endif

/* Thread that runs at a turn. Order 0: ascending; 1: descending; others: permuted. */
static inline uint32_t spsh__device_turn(uint32_t order, uint32_t turn)
{
    if (order == 0)
        return turn;
    if (order == 1)
        return SPSH__DEVICE_THREADS - 1 - turn;
    return (turn * (order | 1U) + order) % SPSH__DEVICE_THREADS;
}
#endif

/* A block of a two-dimensional grid, and its shared memory. */
typedef struct spsh__kernel_block {
    uint32_t x, y;               /* index of the block */
    uint32_t blocks_x, blocks_y; /* size of the grid */
    void *shared;                /* size set by the launch; aligned to 16 bytes; NULL: none */
    uint32_t order;              /* order of threads within a phase; only for the C build */
} spsh__kernel_block;

#ifdef __CUDACC__
#define SPSH__INLINE static __host__ __device__ __forceinline__
#else
#define SPSH__INLINE static inline
#endif

/* Consecutive elements are assigned to consecutive threads, along x. */
SPSH__INLINE uint64_t spsh__block_first(const spsh__kernel_block *block, uint32_t thread)
{
    return (uint64_t)block->x * SPSH__DEVICE_THREADS + thread;
}

SPSH__INLINE uint64_t spsh__block_step(const spsh__kernel_block *block)
{
    return (uint64_t)block->blocks_x * SPSH__DEVICE_THREADS;
}

#endif
