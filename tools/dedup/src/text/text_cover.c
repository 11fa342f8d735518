/* text_cover.c: runs of words, and the texts that contain them.
 *
 *     map       hash of a run -> its number
 *     runs      per text: its runs, ascending: runs[firsts[text]] to runs[firsts[text + 1] - 1]
 *     holders   per run: the texts that contain it (the same pairs, ordered by run)
 *     seen      per run: whether any probed text contains it
 *
 * One blank separates normalized words, so a run is a range of bytes.
 */
#include "text_cover.h"

#include <stdlib.h>
#include <string.h>

#include "common/compare.h"
#include "common/grow.h"
#include "records/hash_map.h"
#include "speechshard/inside.h"

/* A growing array of numbers. */
typedef struct numbers {
    uint32_t *at;
    size_t count, capacity;
} numbers;

struct spsh__text_cover {
    spsh__hash_map map;
    numbers runs;
    numbers firsts;  /* per text, with one more element for the end */
    numbers lengths; /* words per run, per text */
    uint32_t *holders;
    uint32_t *holders_at; /* per run, with one more element for the end */
    _Atomic uint8_t *seen;
    numbers words; /* scratch of spsh__text_cover_add */
    bool has_short, has_long;
};

struct spsh__cover_probe {
    spsh__text_cover *cover;
    numbers words, runs, touched;
    uint32_t *counts; /* number of the probe's runs in each text */
    spsh__covered *covered;
    size_t covered_capacity;
};

static bool push(numbers *n, uint32_t value)
{
    if (!SPSH_GROW(n->at, n->capacity, n->count + 1))
        return false;
    n->at[n->count++] = value;
    return true;
}

/* Sort the elements from `first` and remove duplicates. */
static void make_set(numbers *n, size_t first)
{
    if (n->count - first > 1)
        qsort(n->at + first, n->count - first, sizeof(*n->at), spsh__compare_u32);
    size_t to = first;
    for (size_t i = first; i < n->count; i++) {
        if (i == first || n->at[i] != n->at[i - 1])
            n->at[to++] = n->at[i];
    }
    n->count = to;
}

/* List the positions where words begin, followed by the position where the next word would begin.
 */
static bool find_words(numbers *words, spsh_bytes text)
{
    words->count = 0;
    if (text.size_bytes == 0)
        return true;
    bool ok = push(words, 0);
    const uint8_t *blank = text.data;
    while (ok &&
           (blank = memchr(blank, ' ', text.size_bytes - (size_t)(blank - text.data))) != NULL) {
        blank++;
        ok = push(words, (uint32_t)(blank - text.data));
    }
    return ok && push(words, (uint32_t)text.size_bytes + 1);
}

static spsh__u128 run_at(spsh_bytes text, const numbers *words, size_t word, size_t length)
{
    const uint32_t begin = words->at[word];
    return spsh__hash_of((spsh_bytes){text.data + begin, words->at[word + length] - 1 - begin});
}

/* Return the number of words per run for a text of `words` words, or 0 if the text is too short. */
static size_t run_length(size_t words)
{
    if (words >= SPSH__COVER_WORDS_LONG)
        return SPSH__COVER_LONG;
    return words >= SPSH__COVER_SHORT ? SPSH__COVER_SHORT : 0;
}

spsh__text_cover *spsh__text_cover_new(void)
{
    return calloc(1, sizeof(spsh__text_cover));
}

spsh_status spsh__text_cover_add(spsh__text_cover *cover, uint32_t number, spsh_bytes text,
                                 spsh_error *err)
{
    while (cover->firsts.count <= number) {
        if (!push(&cover->firsts, (uint32_t)cover->runs.count) || !push(&cover->lengths, 0))
            return SPSH_NO_MEMORY(err);
    }
    if (!find_words(&cover->words, text))
        return SPSH_NO_MEMORY(err);
    const size_t words = cover->words.count == 0 ? 0 : cover->words.count - 1;
    const size_t length = run_length(words);
    const size_t first = cover->runs.count;
    if (cover->runs.count + words >= UINT32_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "the test texts have more than 2^32 words");
    for (size_t i = 0; length > 0 && i + length <= words; i++) {
        uint32_t run = 0;
        if (!spsh__hash_map_add(&cover->map, run_at(text, &cover->words, i, length),
                                (uint32_t)cover->map.count, &run) ||
            !push(&cover->runs, run))
            return SPSH_NO_MEMORY(err);
    }
    make_set(&cover->runs, first);
    cover->lengths.at[number] = (uint32_t)length;
    cover->has_short |= length == SPSH__COVER_SHORT;
    cover->has_long |= length == SPSH__COVER_LONG;
    return SPSH_OK;
}

static size_t text_count(const spsh__text_cover *cover)
{
    return cover->firsts.count - 1;
}

spsh_status spsh__text_cover_finish(spsh__text_cover *cover, spsh_error *err)
{
    const size_t runs = cover->map.count;
    if (!push(&cover->firsts, (uint32_t)cover->runs.count))
        return SPSH_NO_MEMORY(err);
    cover->holders = malloc((cover->runs.count + 1) * sizeof(*cover->holders));
    cover->holders_at = calloc(runs + 2, sizeof(*cover->holders_at));
    cover->seen = calloc(runs + 1, sizeof(*cover->seen));
    if (cover->holders == NULL || cover->holders_at == NULL || cover->seen == NULL)
        return SPSH_NO_MEMORY(err);
    /* A counting sort. Count the texts of each run, stored two positions after the run. The prefix
     * sum turns counts into starts, stored one position after the run. Placing the texts advances
     * each start to the start of the next run, so every start ends at its own position. */
    for (size_t i = 0; i < cover->runs.count; i++)
        cover->holders_at[cover->runs.at[i] + 2]++;
    for (size_t run = 2; run < runs + 2; run++)
        cover->holders_at[run] += cover->holders_at[run - 1];
    for (size_t text = 0; text < text_count(cover); text++) {
        for (size_t i = cover->firsts.at[text]; i < cover->firsts.at[text + 1]; i++)
            cover->holders[cover->holders_at[cover->runs.at[i] + 1]++] = (uint32_t)text;
    }
    return SPSH_OK;
}

uint64_t spsh__text_cover_bytes(const spsh__text_cover *cover)
{
    const uint64_t numbers_bytes =
        (cover->runs.capacity + cover->firsts.capacity + cover->lengths.capacity) * 4;
    return spsh__hash_map_bytes(&cover->map) + numbers_bytes + cover->runs.count * 4 +
           cover->map.count * 5;
}

void spsh__text_cover_free(spsh__text_cover *cover)
{
    if (cover == NULL)
        return;
    spsh__hash_map_free(&cover->map);
    free(cover->runs.at);
    free(cover->firsts.at);
    free(cover->lengths.at);
    free(cover->words.at);
    free(cover->holders);
    free(cover->holders_at);
    free(cover->seen);
    free(cover);
}

spsh__cover_probe *spsh__cover_probe_new(spsh__text_cover *cover)
{
    spsh__cover_probe *probe = calloc(1, sizeof(*probe));
    if (probe == NULL)
        return NULL;
    probe->cover = cover;
    probe->counts = calloc(text_count(cover) + 1, sizeof(*probe->counts));
    if (probe->counts == NULL) {
        free(probe);
        return NULL;
    }
    return probe;
}

void spsh__cover_probe_free(spsh__cover_probe *probe)
{
    if (probe == NULL)
        return;
    free(probe->words.at);
    free(probe->runs.at);
    free(probe->touched.at);
    free(probe->counts);
    free(probe->covered);
    free(probe);
}

/* Append the known runs of the text. They may repeat. */
static bool find_runs(spsh__cover_probe *probe, spsh_bytes text, size_t words, size_t length)
{
    for (size_t i = 0; i + length <= words; i++) {
        const uint32_t run =
            spsh__hash_map_find(&probe->cover->map, run_at(text, &probe->words, i, length));
        if (run != SPSH__HASH_NONE && !push(&probe->runs, run))
            return false;
    }
    return true;
}

static size_t holder_count(const spsh__text_cover *cover, uint32_t run)
{
    return cover->holders_at[run + 1] - cover->holders_at[run];
}

static bool has_run(const spsh__text_cover *cover, uint32_t text, uint32_t run)
{
    const size_t first = cover->firsts.at[text];
    return bsearch(&run, cover->runs.at + first, cover->firsts.at[text + 1] - first, sizeof(run),
                   spsh__compare_u32) != NULL;
}

/* Count for each test text how many of the probe's runs it contains. Crowded runs count only for
 * texts that another run has found. */
static bool count_holders(spsh__cover_probe *probe)
{
    const spsh__text_cover *cover = probe->cover;
    probe->touched.count = 0;
    for (size_t i = 0; i < probe->runs.count; i++) {
        const uint32_t run = probe->runs.at[i];
        if (holder_count(cover, run) > SPSH__COVER_CROWD)
            continue;
        for (size_t h = cover->holders_at[run]; h < cover->holders_at[run + 1]; h++) {
            const uint32_t text = cover->holders[h];
            if (probe->counts[text] == 0 && !push(&probe->touched, text))
                return false;
            probe->counts[text]++;
        }
    }
    for (size_t i = 0; i < probe->runs.count; i++) {
        const uint32_t run = probe->runs.at[i];
        for (size_t t = 0; holder_count(cover, run) > SPSH__COVER_CROWD && t < probe->touched.count;
             t++)
            probe->counts[probe->touched.at[t]] += has_run(cover, probe->touched.at[t], run);
    }
    return true;
}

static bool ensure_capacity(spsh__cover_probe *probe, size_t count)
{
    if (!SPSH_GROW(probe->covered, probe->covered_capacity, count))
        return false;
    return true;
}

/* List the texts with a sufficient share, and reset the counts to 0. */
static bool take_covered(spsh__cover_probe *probe, size_t words, double least, size_t *ret_count)
{
    const spsh__text_cover *cover = probe->cover;
    const bool is_ready = ensure_capacity(probe, probe->touched.count);
    size_t count = 0;
    make_set(&probe->touched, 0);
    for (size_t t = 0; t < probe->touched.count; t++) {
        const uint32_t text = probe->touched.at[t];
        const uint32_t found = probe->counts[text];
        const size_t all = cover->firsts.at[text + 1] - cover->firsts.at[text];
        probe->counts[text] = 0;
        if (!is_ready || found < least * (double)all)
            continue;
        const double train = found / (double)(words - cover->lengths.at[text] + 1);
        probe->covered[count++] = (spsh__covered){text, found / (double)all, train > 1 ? 1 : train};
    }
    *ret_count = count;
    return is_ready;
}

spsh_status spsh__cover_probe_text(spsh__cover_probe *probe, spsh_bytes text, double least,
                                   const spsh__covered **ret_covered, size_t *ret_count,
                                   spsh_error *err)
{
    spsh__text_cover *cover = probe->cover;
    *ret_count = 0;
    *ret_covered = probe->covered;
    if (!cover->has_short && !cover->has_long)
        return SPSH_OK;
    if (!find_words(&probe->words, text))
        return SPSH_NO_MEMORY(err);
    const size_t words = probe->words.count == 0 ? 0 : probe->words.count - 1;
    probe->runs.count = 0;
    if ((cover->has_short && !find_runs(probe, text, words, SPSH__COVER_SHORT)) ||
        (cover->has_long && !find_runs(probe, text, words, SPSH__COVER_LONG)))
        return SPSH_NO_MEMORY(err);
    if (probe->runs.count == 0)
        return SPSH_OK;
    make_set(&probe->runs, 0);
    for (size_t i = 0; i < probe->runs.count; i++)
        cover->seen[probe->runs.at[i]] = 1;
    if (!count_holders(probe) || !take_covered(probe, words, least, ret_count))
        return SPSH_NO_MEMORY(err);
    *ret_covered = probe->covered;
    return SPSH_OK;
}

double spsh__text_cover_share(const spsh__text_cover *cover, uint32_t number)
{
    const size_t first = cover->firsts.at[number];
    const size_t end = cover->firsts.at[number + 1];
    size_t seen = 0;
    for (size_t i = first; i < end; i++)
        seen += cover->seen[cover->runs.at[i]];
    return end == first ? 0 : (double)seen / (double)(end - first);
}
