/* permutation.h: a keyed bijection of 0 ... count - 1, in constant memory. */
#ifndef SPSH_PERMUTATION_H
#define SPSH_PERMUTATION_H

#include "speechshard/inside.h"

#define SPSH__PERMUTATION_ROUNDS 6

typedef struct spsh__permutation {
    uint64_t count;
    uint32_t left_bits, right_bits;
    uint64_t keys[SPSH__PERMUTATION_ROUNDS];
} spsh__permutation;

/* A random draw: a function of its arguments only. */
static inline uint64_t spsh__draw(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t x = spsh__mix64(seed + UINT64_C(0x9e3779b97f4a7c15));
    x = spsh__mix64(x ^ (a + UINT64_C(0x9e3779b97f4a7c15)));
    x = spsh__mix64(x ^ (b + UINT64_C(0x9e3779b97f4a7c15)));
    return spsh__mix64(x ^ (c + UINT64_C(0x9e3779b97f4a7c15)));
}

/* Different keys give unrelated permutations. */
spsh__permutation spsh__permutation_make(uint64_t count, uint64_t key);

/* index must be below count, and so is the result. */
uint64_t spsh__permutation_at(const spsh__permutation *permutation, uint64_t index);

#endif
