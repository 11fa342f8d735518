/* word_counts.c: count entries by the upper bits of their mixed words, then count whole words in
 * the buckets with many entries.
 *
 *     first pass    bucket = upper 22 bits -> entries
 *     narrowed      buckets with more than the limit -> a row of counts, one per value of the
 *                   lower 10 bits
 *     second pass   only entries of those buckets are counted
 *
 * The bucket of a frequent word has many entries, so no frequent word is missed, and its final
 * count is exact. The limit is at least 1/16,384 of all entries, so fewer than 16,384 buckets
 * exceed it. That bounds the memory for any number of frames.
 *
 * The variants flip those sets of weak bits whose ranks in the order of weakness, counted from 1,
 * sum to at most 14. In copies through GSM, Opus at 10 kbit/s, and reverb, the odds against a wrong
 * bit grow by the same factor from one rank to the next, and are near even at the first. So sets
 * with a lower sum are more likely to be the wrong bits. The same number of combinations of only
 * the weakest bits finds fewer copies.
 */
#include "word_counts.h"

#include <stdlib.h>

#include "common/compare.h"
#include "speechshard/inside.h"

enum {
    REST_BITS = 10,
    RESTS = 1 << REST_BITS,
    BUCKETS = 1 << (32 - REST_BITS),
};

const uint16_t spsh__scan_ways[SPSH__SCAN_WAYS] = {
    0x0000, 0x0001, 0x0002, 0x0003, 0x0004, 0x0005, 0x0006, 0x0007, 0x0008, 0x0009, 0x000a,
    0x000b, 0x000c, 0x000d, 0x000e, 0x000f, 0x0010, 0x0011, 0x0012, 0x0013, 0x0014, 0x0015,
    0x0016, 0x0017, 0x0018, 0x0019, 0x001a, 0x001b, 0x001c, 0x001d, 0x001e, 0x0020, 0x0021,
    0x0022, 0x0023, 0x0024, 0x0025, 0x0026, 0x0027, 0x0028, 0x0029, 0x002a, 0x002b, 0x002c,
    0x002d, 0x0030, 0x0031, 0x0032, 0x0033, 0x0034, 0x0040, 0x0041, 0x0042, 0x0043, 0x0044,
    0x0045, 0x0046, 0x0047, 0x0048, 0x0049, 0x004a, 0x004b, 0x004c, 0x0050, 0x0051, 0x0052,
    0x0060, 0x0061, 0x0080, 0x0081, 0x0082, 0x0083, 0x0084, 0x0085, 0x0086, 0x0087, 0x0088,
    0x0089, 0x008a, 0x0090, 0x0091, 0x00a0, 0x0100, 0x0101, 0x0102, 0x0103, 0x0104, 0x0105,
    0x0106, 0x0108, 0x0109, 0x0110, 0x0200, 0x0201, 0x0202, 0x0203, 0x0204, 0x0205, 0x0208,
    0x0400, 0x0401, 0x0402, 0x0403, 0x0404, 0x0800, 0x0801, 0x0802, 0x1000, 0x1001, 0x2000,
};

struct spsh__word_counts {
    uint64_t frame_count; /* frames of the first pass */
    uint32_t *buckets;    /* entries; if narrowed: number of the bucket's row, from 1, or 0 */
    uint32_t *rows;       /* RESTS counts per row; NULL: not narrowed */
};

spsh_status spsh__word_counts_new(spsh__word_counts **ret_counts, spsh_error *err)
{
    spsh__word_counts *counts = calloc(1, sizeof(*counts));
    if (counts == NULL)
        return SPSH_NO_MEMORY(err);
    counts->buckets = calloc(BUCKETS, sizeof(*counts->buckets));
    if (counts->buckets == NULL) {
        free(counts);
        return SPSH_NO_MEMORY(err);
    }
    *ret_counts = counts;
    return SPSH_OK;
}

void spsh__word_counts_free(spsh__word_counts *counts)
{
    if (counts == NULL)
        return;
    free(counts->buckets);
    free(counts->rows);
    free(counts);
}

/* Count, but saturate above any limit. */
static void count_up(uint32_t *count)
{
    *count += *count != UINT32_MAX;
}

static void count_entry(spsh__word_counts *counts, uint32_t mixed)
{
    uint32_t *bucket = &counts->buckets[mixed >> REST_BITS];
    if (counts->rows == NULL)
        count_up(bucket);
    else if (*bucket != 0)
        count_up(&counts->rows[(size_t)(*bucket - 1) * RESTS + mixed % RESTS]);
}

void spsh__word_counts_add(spsh__word_counts *counts, const spsh__weak_word *words, size_t count)
{
    if (counts->rows == NULL)
        counts->frame_count += count;
    for (size_t i = 0; i < count; i++)
        for (unsigned way = 0; way < SPSH__SCAN_WAYS; way++)
            count_entry(counts, spsh__mixed_way(words[i].word, words[i].weak, way));
}

spsh_status spsh__word_counts_narrow(spsh__word_counts *counts, spsh_error *err)
{
    const uint64_t limit = spsh__frequent_limit(counts->frame_count);
    uint32_t row_count = 0;
    for (size_t b = 0; b < BUCKETS; b++)
        counts->buckets[b] = counts->buckets[b] > limit ? ++row_count : 0;
    counts->rows = calloc((size_t)row_count + 1, RESTS * sizeof(*counts->rows));
    return counts->rows == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

/* Count the frequent words, and write them to `mixed` unless it is NULL. */
static size_t list_frequent(const spsh__word_counts *counts, uint32_t *mixed)
{
    const uint64_t limit = spsh__frequent_limit(counts->frame_count);
    size_t found = 0;
    for (uint32_t b = 0; b < BUCKETS; b++) {
        if (counts->buckets[b] == 0)
            continue;
        const uint32_t *row = counts->rows + (size_t)(counts->buckets[b] - 1) * RESTS;
        for (uint32_t rest = 0; rest < RESTS; rest++) {
            if (row[rest] <= limit)
                continue;
            if (mixed != NULL)
                mixed[found] = b << REST_BITS | rest;
            found++;
        }
    }
    return found;
}

spsh_status spsh__word_counts_finish(const spsh__word_counts *counts,
                                     spsh__frequent_words *ret_words, spsh_error *err)
{
    const size_t count = list_frequent(counts, NULL);
    uint32_t *mixed = malloc((count + 1) * sizeof(*mixed));
    if (mixed == NULL)
        return SPSH_NO_MEMORY(err);
    (void)list_frequent(counts, mixed);
    *ret_words = (spsh__frequent_words){mixed, count};
    return SPSH_OK;
}

bool spsh__frequent_words_has(const spsh__frequent_words *words, uint32_t mixed)
{
    return bsearch(&mixed, words->mixed, words->count, sizeof(mixed), spsh__compare_u32) != NULL;
}
