/* permutation.h: a keyed bijection of 0 ... count - 1, in constant memory. */
#ifndef SPSH_PERMUTATION_H
#define SPSH_PERMUTATION_H

#include "base/loader_internal.h"

#define SPSH__PERMUTATION_ROUNDS 6

typedef struct spsh__permutation {
    uint64_t count;
    uint32_t left_bits, right_bits;
    uint64_t keys[SPSH__PERMUTATION_ROUNDS];
} spsh__permutation;

/* Mixes 64 bits: a bijection in which every bit depends on every other. */
static inline uint64_t spsh__mix64(uint64_t x)
{
    /* The finaliser of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
     * generators, 2014), with Stafford's variant 13 of the constants. */
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* A draw that depends on nothing but its arguments. */
static inline uint64_t spsh__draw(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t x = spsh__mix64(seed + UINT64_C(0x9e3779b97f4a7c15));
    x = spsh__mix64(x ^ (a + UINT64_C(0x9e3779b97f4a7c15)));
    x = spsh__mix64(x ^ (b + UINT64_C(0x9e3779b97f4a7c15)));
    return spsh__mix64(x ^ (c + UINT64_C(0x9e3779b97f4a7c15)));
}

/* key: draws of different keys are unrelated permutations. */
spsh__permutation spsh__permutation_make(uint64_t count, uint64_t key);

/* index must be below count; the result is. */
uint64_t spsh__permutation_at(const spsh__permutation *permutation, uint64_t index);

#endif
