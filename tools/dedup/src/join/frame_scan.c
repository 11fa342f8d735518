/* frame_scan.c: a table from words to frames of the small set, and lookups of the large set's
 * words.
 *
 *     number     a frame of the small set: first number of its print plus frame index; the numbers
 *                of two prints are further apart than the compared neighbors reach
 *     table      bucket = upper bits of the mixed word -> entries {mixed word, index of its frame}
 *     a run      blocks of 4,096 frames t; each entry of a frame's word is a hit if the neighbors
 *                of both frames agree: every third frame, up to 0.7 s to either side, from the
 *                center outward, until chance explains the agreement
 *     hits       sorted by print and offset; distinct t within 2 offsets are the votes
 *
 * Entries are counted, then stored in the order of the frames, so the table depends only on the
 * added prints. If the table holds the whole small set, its own entry counts tell the frequent
 * words. If it holds a part, the counts over all parts do.
 *
 * Why neighbors and not several equal words: after GSM coding, often only one word per second of a
 * copy is in the table, but all of its frames are closer than frames of other speech.
 */
#include "frame_scan.h"

#include <stdlib.h>
#include <string.h>

#include "common/grow.h"
#include "speechshard/inside.h"

enum {
    BUCKET_BITS_MIN = 10,
    BUCKET_BITS_MAX = 26,
    BLOCK = 4096,     /* frames of the large set per block */
    BESIDE_FIRST = 6, /* first neighbor to compare: closer frames share the sound of the hit */
    BESIDE_STEP = 3,
    BESIDE_LAST = 45,
    BESIDE_MIN = 4,    /* minimum number of compared neighbors */
    BESIDE_WRONG = 25, /* maximum mean of half bits per neighbor: 25 of 64, or 0.39 */
    BESIDE_SLACK = 60, /* half bits beyond 26 per neighbor at which to stop */
    BESIDE_CHANCE = 26,
    NEAR = 2,
    APART = 6,
};
#define NUMBERS_MAX ((uint64_t)UINT32_MAX)
#define BIAS        (UINT64_C(1) << 31) /* offsets are within 2^30 */

/* A frame that was added. */
typedef struct test_frame {
    uint32_t word;
    uint32_t number;
    uint8_t weak[SPSH__WORD_WEAK];
} test_frame;

typedef struct entry {
    uint32_t mixed;
    uint32_t index; /* index of its frame */
} entry;

/* Data kept per frame once the table is complete. */
typedef struct kept_frame {
    uint32_t word;
    uint32_t number;
} kept_frame;

typedef struct test_print {
    uint64_t print;
    uint64_t first; /* number of its frame 0 */
} test_print;

struct spsh__frame_scan {
    test_frame *frames;
    size_t frame_count, frame_capacity;
    uint64_t next_number;
    test_print *prints;
    size_t print_count, print_capacity;
    unsigned bucket_bits;
    uint64_t limit; /* maximum entries of a word that is not frequent */
    const spsh__frequent_words *left_out;
    size_t *starts; /* first entry per bucket, plus the end */
    entry *entries;
    kept_frame *kept; /* frame_count elements */
};

struct spsh__frame_finder {
    const spsh__frame_scan *scan;
    spsh__u128 *hits; /* high: print, offset + BIAS; low: t */
    spsh__u128 *scratch;
    size_t hit_count, hit_capacity;
    spsh__candidate *found;
    size_t found_count, found_capacity;
};

spsh_status spsh__frame_scan_open(spsh__frame_scan **ret_scan, spsh_error *err)
{
    spsh__frame_scan *scan = calloc(1, sizeof(*scan));
    if (scan == NULL)
        return SPSH_NO_MEMORY(err);
    *ret_scan = scan;
    return SPSH_OK;
}

uint64_t spsh__frame_scan_bytes(uint64_t frame_count)
{
    /* Bytes of the list, which grows by doubling, of the entries, and of the buckets: at most one
     * per two entries. */
    return frame_count * (2 * sizeof(test_frame) + sizeof(kept_frame) +
                          SPSH__SCAN_WAYS * sizeof(entry) + SPSH__SCAN_WAYS / 2 * sizeof(size_t));
}

void spsh__frame_scan_free(spsh__frame_scan *scan)
{
    if (scan == NULL)
        return;
    free(scan->frames);
    free(scan->prints);
    free(scan->starts);
    free(scan->entries);
    free(scan->kept);
    free(scan);
}

spsh_status spsh__frame_scan_add(spsh__frame_scan *scan, uint64_t print,
                                 const spsh__weak_word *words, size_t count, spsh_error *err)
{
    if (count == 0)
        return SPSH_OK;
    const uint64_t span = words[count - 1].frame + 1;
    if (span > SPSH__JOIN_FRAMES_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "a recording is longer than 198 days");
    if (scan->next_number + span > NUMBERS_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT,
                         "there are more than 2^32 frames to search for at once");
    if (!SPSH_GROW(scan->prints, scan->print_capacity, scan->print_count + 1) ||
        !SPSH_GROW(scan->frames, scan->frame_capacity, scan->frame_count + count))
        return SPSH_NO_MEMORY(err);
    for (size_t i = 0; i < count; i++) {
        test_frame *frame = &scan->frames[scan->frame_count++];
        frame->word = words[i].word;
        frame->number = (uint32_t)(scan->next_number + words[i].frame);
        memcpy(frame->weak, words[i].weak, sizeof(frame->weak));
    }
    scan->prints[scan->print_count++] = (test_print){print, scan->next_number};
    scan->next_number += span + BESIDE_LAST;
    return SPSH_OK;
}

static void fill_table(spsh__frame_scan *scan)
{
    const unsigned shift = 32 - scan->bucket_bits;
    const size_t buckets = (size_t)1 << scan->bucket_bits;
    for (size_t i = 0; i < scan->frame_count; i++) {
        const test_frame *f = &scan->frames[i];
        for (unsigned way = 0; way < SPSH__SCAN_WAYS; way++)
            scan->starts[spsh__mixed_way(f->word, f->weak, way) >> shift]++;
    }
    size_t sum = 0;
    for (size_t b = 0; b <= buckets; b++) {
        const size_t count = scan->starts[b];
        scan->starts[b] = sum;
        sum += count;
    }
    for (size_t i = 0; i < scan->frame_count; i++) {
        for (unsigned way = 0; way < SPSH__SCAN_WAYS; way++) {
            const test_frame *f = &scan->frames[i];
            const uint32_t mixed = spsh__mixed_way(f->word, f->weak, way);
            scan->entries[scan->starts[mixed >> shift]++] = (entry){mixed, (uint32_t)i};
        }
    }
    memmove(scan->starts + 1, scan->starts, buckets * sizeof(*scan->starts));
    scan->starts[0] = 0;
}

spsh_status spsh__frame_scan_ready(spsh__frame_scan *scan, const spsh__frequent_words *left_out,
                                   spsh_error *err)
{
    const size_t entry_count = scan->frame_count * SPSH__SCAN_WAYS;
    scan->bucket_bits = BUCKET_BITS_MIN;
    while (scan->bucket_bits < BUCKET_BITS_MAX && (size_t)4 << scan->bucket_bits <= entry_count)
        scan->bucket_bits++;
    scan->limit = spsh__frequent_limit(scan->frame_count);
    scan->left_out = left_out;
    scan->starts = calloc(((size_t)1 << scan->bucket_bits) + 1, sizeof(*scan->starts));
    scan->entries = malloc((entry_count + 1) * sizeof(*scan->entries));
    scan->kept = malloc((scan->frame_count + 1) * sizeof(*scan->kept));
    if (scan->starts == NULL || scan->entries == NULL || scan->kept == NULL)
        return SPSH_NO_MEMORY(err);
    fill_table(scan);
    for (size_t i = 0; i < scan->frame_count; i++)
        scan->kept[i] = (kept_frame){scan->frames[i].word, scan->frames[i].number};
    free(scan->frames);
    scan->frames = NULL;
    return SPSH_OK;
}

spsh_status spsh__frame_finder_new(const spsh__frame_scan *scan, spsh__frame_finder **ret_finder,
                                   spsh_error *err)
{
    spsh__frame_finder *finder = calloc(1, sizeof(*finder));
    if (finder == NULL)
        return SPSH_NO_MEMORY(err);
    finder->scan = scan;
    *ret_finder = finder;
    return SPSH_OK;
}

void spsh__frame_finder_free(spsh__frame_finder *finder)
{
    if (finder == NULL)
        return;
    free(finder->hits);
    free(finder->scratch);
    free(finder->found);
    free(finder);
}

/* Number of compared neighbors, and half bits: twice the number of their different bits. */
typedef struct agreement {
    uint32_t count;
    uint32_t wrong;
} agreement;

/* Compare frame `index` of the small set if it is within reach of frame `hit`, which corresponds to
 * frame `at` of the stretch. */
static void compare_beside(const spsh__frame_scan *scan, const spsh__frame_stretch *stretch,
                           size_t hit, size_t at, size_t index, agreement *sum)
{
    if (index >= scan->frame_count) /* or wrapped below 0 */
        return;
    const int64_t apart = (int64_t)scan->kept[index].number - scan->kept[hit].number;
    const int64_t t = (int64_t)at + apart;
    if (apart > BESIDE_LAST || apart < -BESIDE_LAST || t < 0 || t >= (int64_t)stretch->count ||
        !stretch->frames[t].is_active)
        return;
    sum->count++;
    sum->wrong +=
        2 * (uint32_t)__builtin_popcount(stretch->frames[t].word ^ scan->kept[index].word);
}

static bool is_likely(const spsh__frame_scan *scan, const spsh__frame_stretch *stretch, size_t hit,
                      size_t at)
{
    agreement sum = {0, 0};
    for (size_t beside = BESIDE_FIRST; beside <= BESIDE_LAST; beside += BESIDE_STEP) {
        compare_beside(scan, stretch, hit, at, hit + beside, &sum);
        compare_beside(scan, stretch, hit, at, hit - beside, &sum);
        if (sum.wrong > BESIDE_CHANCE * sum.count + BESIDE_SLACK)
            return false;
    }
    return sum.count >= BESIDE_MIN && sum.wrong <= BESIDE_WRONG * sum.count;
}

/* Return the print that a frame number belongs to. */
static size_t print_of(const spsh__frame_scan *scan, uint64_t number)
{
    size_t low = 0;
    size_t high = scan->print_count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (scan->prints[middle].first <= number)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static spsh_status add_hit(spsh__frame_finder *finder, size_t index, uint64_t t, spsh_error *err)
{
    const spsh__frame_scan *scan = finder->scan;
    if (!SPSH_GROW(finder->hits, finder->hit_capacity, finder->hit_count + 1))
        return SPSH_NO_MEMORY(err);
    const uint64_t number = scan->kept[index].number;
    const size_t print = print_of(scan, number);
    const uint64_t offset = number - scan->prints[print].first + BIAS - t;
    finder->hits[finder->hit_count++] = (spsh__u128){(uint64_t)print << 32 | offset, t};
    return SPSH_OK;
}

/* Return whether a word is frequent, given that it has an entry `number`, counted from 0. */
static bool is_frequent(const spsh__frame_scan *scan, uint32_t mixed, uint64_t number)
{
    if (scan->left_out == NULL)
        return number == scan->limit;
    return number == 0 && spsh__frequent_words_has(scan->left_out, mixed);
}

/* Add a hit for each matching table entry of the word of frame `at` of the stretch. */
static spsh_status add_hits(spsh__frame_finder *finder, const spsh__frame_stretch *stretch,
                            size_t at, spsh_error *err)
{
    const spsh__frame_scan *scan = finder->scan;
    const uint32_t mixed = spsh__mix_word(stretch->frames[at].word);
    const size_t bucket = mixed >> (32 - scan->bucket_bits);
    const size_t before = finder->hit_count;
    uint64_t equal = 0;
    spsh_status rc = SPSH_OK;

    for (size_t i = scan->starts[bucket]; rc == SPSH_OK && i < scan->starts[bucket + 1]; i++) {
        if (scan->entries[i].mixed != mixed)
            continue;
        if (is_frequent(scan, mixed, equal++)) {
            finder->hit_count = before;
            return SPSH_OK;
        }
        if (is_likely(scan, stretch, scan->entries[i].index, at))
            rc = add_hit(finder, scan->entries[i].index, stretch->first + at, err);
    }
    return rc;
}

/* Count distinct t at offsets near `offset`. All hits belong to one print. */
static uint32_t count_votes(const spsh__u128 *hits, size_t count, uint64_t offset, uint64_t first_t)
{
    uint64_t seen[BLOCK / 64] = {0};
    uint32_t votes = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t t = hits[i].low - first_t;
        const uint64_t bit = UINT64_C(1) << t % 64;
        if (hits[i].high + NEAR < offset || hits[i].high > offset + NEAR ||
            (seen[t / 64] & bit) != 0)
            continue;
        seen[t / 64] |= bit;
        votes++;
    }
    return votes;
}

/* Emit candidates for the hits of one print at adjacent offsets: the offset with most votes, then
 * repeat with the hits that are away from it. */
static spsh_status end_cluster(spsh__frame_finder *finder, uint64_t print, spsh__u128 *hits,
                               size_t count, uint64_t first_t, spsh_error *err)
{
    while (count > 0) {
        uint64_t best = 0;
        uint32_t best_votes = 0;
        for (size_t i = 0; i < count; i++) {
            if (i > 0 && hits[i].high == hits[i - 1].high)
                continue;
            const uint32_t votes = count_votes(hits, count, hits[i].high, first_t);
            if (votes > best_votes) {
                best_votes = votes;
                best = hits[i].high;
            }
        }
        if (!SPSH_GROW(finder->found, finder->found_capacity, finder->found_count + 1))
            return SPSH_NO_MEMORY(err);
        finder->found[finder->found_count++] =
            (spsh__candidate){print, finder->scan->prints[best >> 32].print,
                              (int64_t)(best & UINT32_MAX) - (int64_t)BIAS, best_votes};
        size_t left = 0;
        for (size_t i = 0; i < count; i++)
            if (hits[i].high + APART < best || hits[i].high > best + APART)
                hits[left++] = hits[i];
        count = left;
    }
    return SPSH_OK;
}

/* Convert the hits of a block to candidates. */
static spsh_status end_block(spsh__frame_finder *finder, uint64_t print, uint64_t first_t,
                             spsh_error *err)
{
    if (finder->hit_count == 0)
        return SPSH_OK;
    spsh__u128 *scratch = realloc(finder->scratch, finder->hit_count * sizeof(*scratch));
    if (scratch == NULL)
        return SPSH_NO_MEMORY(err);
    finder->scratch = scratch;
    spsh_status rc = spsh__radix_sort128(finder->hits, scratch, finder->hit_count, 1, err);
    size_t first = 0;
    for (size_t i = 1; rc == SPSH_OK && i <= finder->hit_count; i++) {
        const bool goes_on = i < finder->hit_count &&
                             finder->hits[i].high >> 32 == finder->hits[first].high >> 32 &&
                             finder->hits[i].high - finder->hits[i - 1].high <= NEAR;
        if (goes_on)
            continue;
        rc = end_cluster(finder, print, finder->hits + first, i - first, first_t, err);
        first = i;
    }
    return rc;
}

static int compare_found(const void *left, const void *right)
{
    const spsh__candidate *a = left;
    const spsh__candidate *b = right;
    if (a->b != b->b)
        return a->b < b->b ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

/* Sort the candidates, and merge those that two blocks have found. */
static void unite_found(spsh__frame_finder *finder)
{
    size_t kept = 0;
    if (finder->found_count > 1)
        qsort(finder->found, finder->found_count, sizeof(*finder->found), compare_found);
    for (size_t i = 0; i < finder->found_count; i++) {
        const spsh__candidate *next = &finder->found[i];
        spsh__candidate *last = kept > 0 ? &finder->found[kept - 1] : NULL;
        if (last == NULL || last->b != next->b || next->offset - last->offset > APART)
            finder->found[kept++] = *next;
        else if (next->votes > last->votes)
            *last = *next;
    }
    finder->found_count = kept;
}

spsh_status spsh__frame_finder_run(spsh__frame_finder *finder, const spsh__frame_stretch *stretch,
                                   const spsh__candidate **ret_candidates, size_t *ret_count,
                                   spsh_error *err)
{
    const uint64_t stretch_end = stretch->first + stretch->count;
    spsh_status rc = SPSH_OK;

    finder->found_count = 0;
    if (stretch_end > SPSH__JOIN_FRAMES_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "a recording is longer than 198 days");
    for (uint64_t first = stretch->first; rc == SPSH_OK && first < stretch_end;
         first += BLOCK - SPSH__SCAN_OVERLAP) {
        const uint64_t end = stretch_end - first < BLOCK ? stretch_end : first + BLOCK;
        finder->hit_count = 0;
        for (uint64_t t = first; rc == SPSH_OK && t < end; t++) {
            const size_t at = (size_t)(t - stretch->first);
            if (stretch->frames[at].is_active)
                rc = add_hits(finder, stretch, at, err);
        }
        if (rc == SPSH_OK)
            rc = end_block(finder, stretch->print, first, err);
        if (end == stretch_end)
            break;
    }
    if (rc != SPSH_OK)
        return rc;
    unite_found(finder);
    *ret_candidates = finder->found;
    *ret_count = finder->found_count;
    return SPSH_OK;
}
