/* minhash.c: see minhash.h. Grams are hashed by a polynomial that rolls, then mixed: the upper 7
 * bits are the bin, all of it the number.
 */
#include "minhash.h"

#define FACTOR UINT64_C(0x9e3779b97f4a7c15)
#define EMPTY  UINT64_MAX

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

static void densify(spsh__minhash *m)
{
    uint64_t filled[SPSH__MINHASH_VALUES / 64] = {0};
    for (unsigned i = 0; i < SPSH__MINHASH_VALUES; i++)
        filled[i / 64] |= (uint64_t)(m->values[i] != EMPTY) << (i % 64);
    for (unsigned i = 0; i < SPSH__MINHASH_VALUES; i++) {
        if ((filled[i / 64] >> (i % 64) & 1) != 0)
            continue;
        unsigned from = i;
        for (uint64_t attempt = 1; (filled[from / 64] >> (from % 64) & 1) == 0; attempt++)
            from = (unsigned)(mix(i * FACTOR + attempt) >> 57);
        m->values[i] = m->values[from];
    }
}

void spsh__minhash_of(const uint32_t *points, size_t count, spsh__minhash *ret_minhash)
{
    const uint64_t oldest = FACTOR * FACTOR * FACTOR * FACTOR;
    uint64_t rolling = 0;
    for (unsigned i = 0; i < SPSH__MINHASH_VALUES; i++)
        ret_minhash->values[i] = EMPTY;
    for (size_t i = 0; i < count; i++) {
        rolling = rolling * FACTOR + points[i] + 1;
        if (i + 1 < SPSH__MINHASH_GRAM)
            continue;
        uint64_t value = mix(rolling);
        value -= value == EMPTY;
        uint64_t *bin = &ret_minhash->values[value >> 57];
        *bin = value < *bin ? value : *bin;
        rolling -= (points[i + 1 - SPSH__MINHASH_GRAM] + 1) * oldest;
    }
    densify(ret_minhash);
}

void spsh__minhash_bands(const spsh__minhash *minhash, uint64_t ret_keys[SPSH__MINHASH_BANDS])
{
    const unsigned rows = SPSH__MINHASH_VALUES / SPSH__MINHASH_BANDS;
    for (unsigned band = 0; band < SPSH__MINHASH_BANDS; band++) {
        uint64_t key = band + 1;
        for (unsigned i = 0; i < rows; i++)
            key = mix(key * FACTOR + minhash->values[band * rows + i]);
        ret_keys[band] = key;
    }
}

double spsh__minhash_alike(const spsh__minhash *a, const spsh__minhash *b)
{
    unsigned equal = 0;
    for (unsigned i = 0; i < SPSH__MINHASH_VALUES; i++)
        equal += a->values[i] == b->values[i];
    return equal / (double)SPSH__MINHASH_VALUES;
}
