/* word_counts.c: entries are counted by the upper bits of their mixed words, and then, where those
 * are many, by the whole word.
 *
 *     first time    bucket = upper 22 bits -> entries
 *     narrowed      buckets with more than the limit -> a row of counts, one for each lower 10 bits
 *     second time   only entries of those buckets are counted
 *
 * A frequent word makes its bucket one with many entries, so no word is missed, and what is counted
 * of it in the end is exact. The limit is at least a 16,384th of all entries, so fewer than 16,384
 * buckets can have more: memory has a bound that does not depend on the frames.
 */
#include "word_counts.h"

#include <stdlib.h>

#include "fail.h"

enum {
    REST_BITS = 10,
    RESTS = 1 << REST_BITS,
    BUCKETS = 1 << (32 - REST_BITS),
};

struct spsh__word_counts {
    uint64_t frame_count; /* of the first time */
    uint32_t *buckets;    /* entries; when narrowed: the number of its row from 1, or 0 */
    uint32_t *rows;       /* RESTS each; NULL: not narrowed */
};

spsh_status spsh__word_counts_new(spsh__word_counts **ret_counts, spsh_error *err)
{
    spsh__word_counts *counts = calloc(1, sizeof(*counts));
    if (counts == NULL)
        return SPSH_DEDUP_NO_MEMORY(err);
    counts->buckets = calloc(BUCKETS, sizeof(*counts->buckets));
    if (counts->buckets == NULL) {
        free(counts);
        return SPSH_DEDUP_NO_MEMORY(err);
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

/* Up to a number that is above any limit. */
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
    return counts->rows == NULL ? SPSH_DEDUP_NO_MEMORY(err) : SPSH_OK;
}

/* How many words are frequent; to `mixed`, unless that is NULL. */
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
        return SPSH_DEDUP_NO_MEMORY(err);
    (void)list_frequent(counts, mixed);
    *ret_words = (spsh__frequent_words){mixed, count};
    return SPSH_OK;
}

static int compare_words(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left;
    const uint32_t b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

bool spsh__frequent_words_has(const spsh__frequent_words *words, uint32_t mixed)
{
    return bsearch(&mixed, words->mixed, words->count, sizeof(mixed), compare_words) != NULL;
}
