/* device_text.h: how text that C and CUDA share becomes a kernel. Not for users.
 *
 * What a block of threads does is written once, in phases. nvcc makes a kernel of it; tests compile
 * the same text as C and run the threads of a block one after the other, in several orders, so that
 * the logic is tested where there is no GPU, and so that a result that depends on the order within
 * a phase (a race) shows.
 *
 *     DEVICE void device_scale(const spsh__scale_job *job, const spsh__kernel_block *block,
 * uint32_t thread)
 *     {
 *         for (uint64_t i = spsh__block_first(block, thread); i < job->count;
 *              i += spsh__block_step(block))
 *             ...
 *     }
 *     DEVICE void spsh__kernel_scale(const spsh__scale_job *job, const spsh__kernel_block *block)
 *     {
 *         EACH_THREAD(block, device_scale(job, block, thread));    // a phase: then all wait
 *     }
 *
 * No atomics, and no sum whose order depends on who comes first: a result follows from the shape.
 */
#ifndef SPEECHSHARD_DEVICE_TEXT_H
#define SPEECHSHARD_DEVICE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#ifndef SPSH__DEVICE_THREADS /* of a block; a power of two */
#define SPSH__DEVICE_THREADS 256U
#endif

#ifdef __CUDACC__
#define DEVICE static __device__ __forceinline__
/* A phase: every thread of the block does call_, with its number in `thread`; then all wait. */
#define EACH_THREAD(block_, call_)                                                                 \
    do {                                                                                           \
        const uint32_t thread = threadIdx.x;                                                       \
        call_;                                                                                     \
        __syncthreads();                                                                           \
    } while (0)
#else
#define DEVICE static inline
#ifndef EACH_THREAD /* a test may have threads of its own */
#define EACH_THREAD(block_, call_)                                                                 \
    for (uint32_t turn_ = 0; turn_ < SPSH__DEVICE_THREADS; turn_++) {                              \
        const uint32_t thread = spsh__device_turn((block_)->order, turn_);                         \
        call_;                                                                                     \
    }
#endif

/* Orders 0, 1: upwards, downwards; others: any odd number, all threads mixed. */
static inline uint32_t spsh__device_turn(uint32_t order, uint32_t turn)
{
    if (order == 0)
        return turn;
    if (order == 1)
        return SPSH__DEVICE_THREADS - 1 - turn;
    return (turn * (order | 1U) + order) % SPSH__DEVICE_THREADS;
}
#endif

/* A block of a grid of two dimensions, and the memory that its threads share. */
typedef struct spsh__kernel_block {
    uint32_t x, y;               /* its place */
    uint32_t blocks_x, blocks_y; /* of the grid */
    void *shared;                /* as many bytes as the launch says, aligned to 16; NULL: none */
    uint32_t order;              /* of threads within a phase; the C twin alone looks at it */
} spsh__kernel_block;

#ifdef __CUDACC__
#define SPSH__INLINE static __host__ __device__ __forceinline__
#else
#define SPSH__INLINE static inline
#endif

/* Elements one after the other go to threads one after the other, along x. */
SPSH__INLINE uint64_t spsh__block_first(const spsh__kernel_block *block, uint32_t thread)
{
    return (uint64_t)block->x * SPSH__DEVICE_THREADS + thread;
}

SPSH__INLINE uint64_t spsh__block_step(const spsh__kernel_block *block)
{
    return (uint64_t)block->blocks_x * SPSH__DEVICE_THREADS;
}

#endif
