/* device_mma.h: registers, warps, and products of a warp on tensor cores, in kernel source that C
 * and CUDA share (device_text.h). Not for users.
 *
 * A thread's registers are a struct in an array: one element on the device, one element per thread
 * in C. OWN selects a thread's element, and OWN_LANES the elements of a warp. So registers survive
 * from phase to phase in both.
 *
 *     lane_registers all[SPSH__OWN_THREADS];
 *     EACH_WARP(block, device_product(job, block, warp, OWN_LANES(all, warp)));
 *     EACH_THREAD(block, device_store(job, &all[OWN(thread)], thread));
 *
 * Within a warp, EACH_LANE runs a call for each lane, and spsh__warp_mma multiplies with the
 * operands of all lanes. In C, the warps of a block and the lanes of a warp run one after another,
 * in several orders. The lanes meet at each spsh__warp_mma.
 *
 * spsh__warp_mma is mma.sync.aligned.m16n8k16.row.col of PTX with 16-bit factors and float sums:
 * c += a b, with a of 16 rows and 16 columns, and b of 16 rows and 8 columns. Two elements share a
 * register, the first one in the lower half. PTX defines which lane has which element:
 *
 *     group = lane / 4, pair = lane % 4 * 2
 *     a, register 0   row group      columns pair, pair + 1
 *                 1   row group + 8  columns pair, pair + 1
 *                 2   row group      columns pair + 8, pair + 9
 *                 3   row group + 8  columns pair + 8, pair + 9
 *     b, register 0   rows pair, pair + 1      column group
 *                 1   rows pair + 8, pair + 9  column group
 *     c, 0 and 1      row group      columns pair, pair + 1
 *        2 and 3      row group + 8  columns pair, pair + 1
 */
#ifndef SPSH_DEVICE_MMA_H
#define SPSH_DEVICE_MMA_H

#include "device_half.h"

/* Operands of one lane. */
typedef struct spsh__mma {
    float c[4];
    uint32_t a[4], b[2];
} spsh__mma;

#ifdef __CUDACC__

enum { SPSH__OWN_LANES = 1, SPSH__OWN_THREADS = 1 };

#define OWN(i_)                0U
#define OWN_LANES(all_, warp_) (all_)
#define UNROLL                 _Pragma("unroll")

/* A phase: each warp of the block runs call_ with its number in `warp`, then a barrier. */
#define EACH_WARP(block_, call_)                                                                   \
    do {                                                                                           \
        const uint32_t warp = threadIdx.x / 32;                                                    \
        call_;                                                                                     \
        __syncthreads();                                                                           \
    } while (0)

/* Each lane of the warp runs call_ with its number in `lane`. */
#define EACH_LANE(block_, call_)                                                                   \
    do {                                                                                           \
        const uint32_t lane = threadIdx.x % 32;                                                    \
        (void)lane;                                                                                \
        call_;                                                                                     \
    } while (0)

/* 16 bytes, loaded at once. */
typedef uint4 spsh__words;

/* Load from the block's shared memory. */
DEVICE spsh__words spsh__words_get(const void *from)
{
    return *(const uint4 *)from;
}

/* Load data that another block wrote during this kernel: bypass the multiprocessor's own cache. */
DEVICE spsh__words spsh__words_get_shared(const void *from)
{
    return __ldcg((const uint4 *)from);
}

/* Add two floats to two in the block's shared memory, or replace them. */
DEVICE void spsh__pair_add(float *to, const float *values, bool replaces)
{
    float2 sum = replaces ? make_float2(0, 0) : *(const float2 *)to;
    sum.x += values[0];
    sum.y += values[1];
    *(float2 *)to = sum;
}

DEVICE void spsh__warp_mma(uint32_t kind, spsh__mma *m)
{
    if (kind == SPSH__DEVICE_BF16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                     "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(m->c[0]), "+f"(m->c[1]), "+f"(m->c[2]), "+f"(m->c[3])
                     : "r"(m->a[0]), "r"(m->a[1]), "r"(m->a[2]), "r"(m->a[3]), "r"(m->b[0]),
                       "r"(m->b[1]));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
                     "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(m->c[0]), "+f"(m->c[1]), "+f"(m->c[2]), "+f"(m->c[3])
                     : "r"(m->a[0]), "r"(m->a[1]), "r"(m->a[2]), "r"(m->a[3]), "r"(m->b[0]),
                       "r"(m->b[1]));
}

#else

enum { SPSH__OWN_LANES = 32, SPSH__OWN_THREADS = SPSH__DEVICE_THREADS };

#define OWN(i_)                (i_)
#define OWN_LANES(all_, warp_) ((all_) + (size_t)(warp_)*32)
#define UNROLL

/* Number i of `count` in an order: ascending, descending, or permuted. count: a power of two. */
static inline uint32_t spsh__own_turn(uint32_t order, uint32_t i, uint32_t count)
{
    if (order % 3 == 0)
        return i;
    return order % 3 == 1 ? count - 1 - i : (i * (order | 1U) + order / 3) % count;
}

#define EACH_WARP(block_, call_)                                                                   \
    for (uint32_t turn_ = 0; turn_ < SPSH__DEVICE_THREADS / 32; turn_++) {                         \
        const uint32_t warp = spsh__own_turn((block_)->order, turn_, SPSH__DEVICE_THREADS / 32);   \
        call_;                                                                                     \
    }

#define EACH_LANE(block_, call_)                                                                   \
    for (uint32_t lane_ = 0; lane_ < 32; lane_++) {                                                \
        const uint32_t lane = spsh__own_turn((block_)->order, lane_, 32);                          \
        call_;                                                                                     \
    }

typedef struct spsh__words {
    uint32_t x, y, z, w;
} spsh__words;

/* The device faults at such an address. */
static inline void spsh__check_aligned(const void *at, uintptr_t alignment)
{
    if ((uintptr_t)at % alignment != 0)
        __builtin_trap();
}

DEVICE spsh__words spsh__words_get(const void *from)
{
    spsh__words words;
    spsh__check_aligned(from, sizeof(words));
    memcpy(&words, from, sizeof(words));
    return words;
}

DEVICE spsh__words spsh__words_get_shared(const void *from)
{
    return spsh__words_get(from);
}

DEVICE void spsh__pair_add(float *to, const float *values, bool replaces)
{
    spsh__check_aligned(to, 2 * sizeof(*to));
    for (uint32_t i = 0; i < 2; i++)
        to[i] = (replaces ? 0 : to[i]) + values[i];
}

/* Element i of registers of two elements each. */
static inline float spsh__mma_element(uint32_t kind, const uint32_t *registers, uint32_t i)
{
    const uint16_t bits = (uint16_t)(registers[i / 2] >> i % 2 * 16);
    return spsh__f32_of_half(bits, kind == SPSH__DEVICE_BF16);
}

/* kind: SPSH__DEVICE_BF16 or _FP16. m: the operands of 32 lanes. Products are exact. The device adds
 * them in an order that PTX does not define. */
static inline void spsh__warp_mma(uint32_t kind, spsh__mma *m)
{
    float a[16][16], b[8][16]; /* b by columns */
    for (uint32_t lane = 0; lane < 32; lane++) {
        const uint32_t group = lane / 4, pair = lane % 4 * 2;
        for (uint32_t i = 0; i < 8; i++)
            a[group + i / 2 % 2 * 8][pair + i % 2 + i / 4 * 8] =
                spsh__mma_element(kind, m[lane].a, i);
        for (uint32_t i = 0; i < 4; i++)
            b[group][pair + i % 2 + i / 2 * 8] = spsh__mma_element(kind, m[lane].b, i);
    }
    for (uint32_t lane = 0; lane < 32; lane++) {
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t at = lane / 4 + i / 2 * 8, of = lane % 4 * 2 + i % 2;
            const float *row = a[at], *column = b[of];
            for (uint32_t k = 0; k < 16; k++)
                m[lane].c[i] += row[k] * column[k];
        }
    }
}

#endif

#endif
