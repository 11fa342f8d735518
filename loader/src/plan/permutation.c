/* permutation.c: an unbalanced Feistel network over the bits of count - 1, with cycle walking.
 *
 *     index = left | right        each round: left ^= F(key, right), then swap left and right
 *
 * A Feistel network is a bijection for any F, so F can be a cheap mixer. Its domain is a power of
 * two below 2 * count (4 * count for counts below 4). A value that is not below count is mapped
 * again until it is, twice on average in the worst case. The result is a bijection of 0 ... count -
 * 1, because these repetitions follow a cycle of the larger bijection (Black, Rogaway: Ciphers with
 * arbitrary finite domains, 2002).
 *
 * Six rounds: with fewer, adjacent indexes keep visible structure below about 2^10 elements.
 */
#include "permutation.h"

spsh__permutation spsh__permutation_make(uint64_t count, uint64_t key)
{
    spsh__permutation p = {.count = count};
    uint32_t bits = 2;
    while (bits < 64 && (count - 1) >> bits != 0 && count > 1)
        bits++;
    p.left_bits = bits / 2;
    p.right_bits = bits - p.left_bits;
    for (uint32_t i = 0; i < SPSH__PERMUTATION_ROUNDS; i++)
        p.keys[i] = spsh__draw(key, i, bits, 0);
    return p;
}

static uint64_t once(const spsh__permutation *p, uint64_t value)
{
    uint32_t low_bits = p->right_bits;
    uint32_t high_bits = p->left_bits;
    uint64_t low = value & ((UINT64_C(1) << low_bits) - 1);
    uint64_t high = value >> low_bits;
    for (uint32_t i = 0; i < SPSH__PERMUTATION_ROUNDS; i++) {
        uint64_t mixed = spsh__mix64(low + p->keys[i]) >> (64 - high_bits);
        uint64_t next_low = high ^ mixed;
        uint32_t bits = high_bits;
        high = low;
        high_bits = low_bits;
        low = next_low;
        low_bits = bits;
    }
    return high << low_bits | low;
}

uint64_t spsh__permutation_at(const spsh__permutation *permutation, uint64_t index)
{
    uint64_t value = index;
    do
        value = once(permutation, value);
    while (value >= permutation->count);
    return value;
}
