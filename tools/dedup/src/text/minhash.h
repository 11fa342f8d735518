/* minhash.h: 128 numbers that two texts have in common about as often as their character 5-grams.
 *
 * One-permutation hashing, four times over: a gram's hash says which of 32 bins it is in, the
 * smallest of a bin is its number. A bin without grams borrows from another one, drawn by its own
 * number, so equal sets borrow alike (Shrivastava's optimal densification). Four times 32 bins have
 * fewer empty ones than once 128, which makes it the faster way for sentences.
 */
#ifndef SPSH_DEDUP_MINHASH_H
#define SPSH_DEDUP_MINHASH_H

#include <stddef.h>
#include <stdint.h>

enum {
    SPSH__MINHASH_VALUES = 128,
    SPSH__MINHASH_BANDS = 32, /* of four numbers */
    SPSH__MINHASH_GRAM = 5,   /* code points */
};

typedef struct spsh__minhash {
    uint64_t values[SPSH__MINHASH_VALUES];
} spsh__minhash;

/* count is at least SPSH__MINHASH_GRAM. */
void spsh__minhash_of(const uint32_t *points, size_t count, spsh__minhash *ret_minhash);

/* Texts with a key in common in any band are candidates: 0.80 of those with a Jaccard index of
 * 0.47 are, and 0.99 of those of 0.6. */
void spsh__minhash_bands(const spsh__minhash *minhash, uint64_t ret_keys[SPSH__MINHASH_BANDS]);

#endif
