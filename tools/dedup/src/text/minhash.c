/* minhash.c: see minhash.h. A gram's hash is a mixed rolling polynomial. Each round permutes it by
 * multiplying with an odd number. The upper bits of the product select the bin, and the whole
 * product is the value.
 */
#include "minhash.h"

#define FACTOR UINT64_C(0x9e3779b97f4a7c15)
#define EMPTY  UINT64_MAX

enum { ROUNDS = 4, BIN_BITS = 5, BINS = 1 << BIN_BITS };
_Static_assert(ROUNDS *BINS == SPSH__MINHASH_VALUES, "bins");

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

/* Fill each empty bin of a round with the value of another bin, chosen by the index of the empty
 * one. */
static void densify(uint64_t bins[BINS])
{
    uint64_t full[BINS];
    for (unsigned i = 0; i < BINS; i++)
        full[i] = bins[i];
    for (unsigned i = 0; i < BINS; i++) {
        for (uint64_t attempt = 1; bins[i] == EMPTY; attempt++)
            bins[i] = full[mix(i * FACTOR + attempt) >> (64 - BIN_BITS)];
    }
}

void spsh__minhash_of(const uint32_t *points, size_t count, spsh__minhash *ret_minhash)
{
    const uint64_t oldest = FACTOR * FACTOR * FACTOR * FACTOR;
    uint64_t *values = ret_minhash->values;
    uint64_t factors[ROUNDS];
    uint64_t rolling = 0;
    for (unsigned i = 0; i < SPSH__MINHASH_VALUES; i++)
        values[i] = EMPTY;
    for (unsigned round = 0; round < ROUNDS; round++)
        factors[round] = mix((round + 1) * FACTOR) | 1;
    for (size_t i = 0; i < count; i++) {
        rolling = rolling * FACTOR + points[i] + 1;
        if (i + 1 < SPSH__MINHASH_GRAM)
            continue;
        const uint64_t hash = mix(rolling);
        for (unsigned round = 0; round < ROUNDS; round++) {
            const uint64_t value = hash * factors[round];
            uint64_t *bin = &values[(size_t)round * BINS + (value >> (64 - BIN_BITS))];
            *bin = value < *bin ? value : *bin;
        }
        rolling -= (points[i + 1 - SPSH__MINHASH_GRAM] + 1) * oldest;
    }
    for (unsigned round = 0; round < ROUNDS; round++)
        densify(values + (size_t)round * BINS);
}

/* The values of a band are 32 apart, so each comes from a different round. */
void spsh__minhash_bands(const spsh__minhash *minhash, uint64_t ret_keys[SPSH__MINHASH_BANDS])
{
    for (unsigned band = 0; band < SPSH__MINHASH_BANDS; band++) {
        uint64_t key = band + 1;
        for (unsigned i = band; i < SPSH__MINHASH_VALUES; i += SPSH__MINHASH_BANDS)
            key = mix(key * FACTOR + minhash->values[i]);
        ret_keys[band] = key;
    }
}
