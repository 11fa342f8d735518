/* word_counts.h: find the words that are too frequent in a set of frames that may exceed the
 * memory.
 *
 *     spsh__word_counts_new(&counts, err);
 *     spsh__word_counts_add(counts, words, count);               // of each print
 *     spsh__word_counts_narrow(counts, err);
 *     spsh__word_counts_add(counts, words, count);               // of each print, once more
 *     spsh__word_counts_finish(counts, &frequent, err);
 *     spsh__word_counts_free(counts);
 *
 * A frame counts once for each variant of its word with flipped weak bits, as in the table of
 * frame_scan.h. The result depends on the added words, not on their order.
 */
#ifndef SPSH_DEDUP_WORD_COUNTS_H
#define SPSH_DEDUP_WORD_COUNTS_H

#include "fingerprint/fingerprint.h"

enum {
    SPSH__SCAN_WAYS = 110,        /* variants per word with flipped weak bits */
    SPSH__FREQUENT_MIN = 512,     /* a word is frequent if it has more entries than this */
    SPSH__FREQUENT_SHARE = 16384, /* and more than 1 / SPSH__FREQUENT_SHARE of all entries */
};

/* Maximum number of entries of a word that is not frequent, in a table of frame_count frames. */
static inline uint64_t spsh__frequent_limit(uint64_t frame_count)
{
    const uint64_t share = frame_count * SPSH__SCAN_WAYS / SPSH__FREQUENT_SHARE;
    return share > SPSH__FREQUENT_MIN ? share : SPSH__FREQUENT_MIN;
}

/* Spread a word over all 32 bits. Multiplication by an odd number keeps different words different.
 */
static inline uint32_t spsh__mix_word(uint32_t word)
{
    return word * UINT32_C(0x9e3779b1);
}

/* Bit r set: flip the r-th weakest bit, from 0. */
extern const uint16_t spsh__scan_ways[SPSH__SCAN_WAYS];

/* Return the mixed word of one variant of a frame. */
static inline uint32_t spsh__mixed_way(uint32_t word, const uint8_t *weak, unsigned way)
{
    for (uint32_t bits = spsh__scan_ways[way]; bits != 0; bits &= bits - 1)
        word ^= UINT32_C(1) << weak[__builtin_ctz(bits)];
    return spsh__mix_word(word);
}

/* Mixed words in ascending order; fewer than SPSH__FREQUENT_SHARE. */
typedef struct spsh__frequent_words {
    uint32_t *mixed; /* from malloc */
    size_t count;
} spsh__frequent_words;

bool spsh__frequent_words_has(const spsh__frequent_words *words, uint32_t mixed);

typedef struct spsh__word_counts spsh__word_counts;

/* Memory: 16 MB, plus at most 64 MB after spsh__word_counts_narrow, usually a few KB. Use it from
 * one thread. */
spsh_status spsh__word_counts_new(spsh__word_counts **ret_counts, spsh_error *err);
void spsh__word_counts_add(spsh__word_counts *counts, const spsh__weak_word *words, size_t count);
/* Call it after all words were added once. */
spsh_status spsh__word_counts_narrow(spsh__word_counts *counts, spsh_error *err);
/* Call it after all words were added twice. */
spsh_status spsh__word_counts_finish(const spsh__word_counts *counts,
                                     spsh__frequent_words *ret_words, spsh_error *err);
void spsh__word_counts_free(spsh__word_counts *counts);

#endif
