/* word_counts.h: which words a set of frames has all too often, of more frames than fit into
 * memory.
 *
 *     spsh__word_counts_new(&counts, err);
 *     spsh__word_counts_add(counts, words, count);               // of each print
 *     spsh__word_counts_narrow(counts, err);
 *     spsh__word_counts_add(counts, words, count);               // of each print, once more
 *     spsh__word_counts_finish(counts, &frequent, err);
 *     spsh__word_counts_free(counts);
 *
 * A frame counts for its word with its weakest bits turned over in each way: the entries that it
 * has in the table of frame_scan.h. The result depends on what was added, not on its order.
 */
#ifndef SPSH_DEDUP_WORD_COUNTS_H
#define SPSH_DEDUP_WORD_COUNTS_H

#include "fingerprint/fingerprint.h"

enum {
    SPSH__SCAN_WAYS = 110,        /* in which a word's weakest bits are turned over */
    SPSH__FREQUENT_MIN = 512,     /* entries of a word, or */
    SPSH__FREQUENT_SHARE = 16384, /* this part of all: more are frequent */
};

/* How many entries a word may have, of those of so many frames. */
static inline uint64_t spsh__frequent_limit(uint64_t frame_count)
{
    const uint64_t share = frame_count * SPSH__SCAN_WAYS / SPSH__FREQUENT_SHARE;
    return share > SPSH__FREQUENT_MIN ? share : SPSH__FREQUENT_MIN;
}

/* Spread over all 32 bits; a multiplication by an odd number, so different words stay different. */
static inline uint32_t spsh__mix_word(uint32_t word)
{
    return word * UINT32_C(0x9e3779b1);
}

/* Bit r: the r-th weakest, from 0, is turned over. */
extern const uint16_t spsh__scan_ways[SPSH__SCAN_WAYS];

/* The mixed word of one way to turn over a frame's weakest bits. */
static inline uint32_t spsh__mixed_way(uint32_t word, const uint8_t *weak, unsigned way)
{
    for (uint32_t bits = spsh__scan_ways[way]; bits != 0; bits &= bits - 1)
        word ^= UINT32_C(1) << weak[__builtin_ctz(bits)];
    return spsh__mix_word(word);
}

/* Mixed words, ascending; fewer than SPSH__FREQUENT_SHARE. */
typedef struct spsh__frequent_words {
    uint32_t *mixed; /* from malloc */
    size_t count;
} spsh__frequent_words;

bool spsh__frequent_words_has(const spsh__frequent_words *words, uint32_t mixed);

typedef struct spsh__word_counts spsh__word_counts;

/* Memory: 16 MB, and once narrowed at most 64 MB more; mostly a few KB. One thread. */
spsh_status spsh__word_counts_new(spsh__word_counts **ret_counts, spsh_error *err);
void spsh__word_counts_add(spsh__word_counts *counts, const spsh__weak_word *words, size_t count);
/* All was added once. */
spsh_status spsh__word_counts_narrow(spsh__word_counts *counts, spsh_error *err);
/* All was added twice. */
spsh_status spsh__word_counts_finish(const spsh__word_counts *counts,
                                     spsh__frequent_words *ret_words, spsh_error *err);
void spsh__word_counts_free(spsh__word_counts *counts);

#endif
