/* exact_chunks.c: stretches of equal samples at different positions of different recordings.
 *
 *     chunks: hash 56, side, ordinal 39, first sample 32
 *        |  sort: equal hashes become adjacent
 *        v
 *     pairs with an equal chunk: a 39, b 39, offset 34
 *        |  sort: chunks of a pair at one offset become adjacent
 *        v
 *     samples: read from the chunks outward, to the exact borders
 *
 * Only first members of groups take part. A chunk only suggests a stretch: the 56 hash bits find
 * pairs, then whole hashes are compared, and the borders are where the samples differ. If a stretch
 * holds several chunks, only the samples between and outside of them are read. A match must last
 * min_active_s, so one chunk suffices to start a comparison.
 *
 * If many utterances have the same chunk (a jingle), not all pairs are compared. In the order of
 * ordinals, each utterance is paired with the first 16 and the previous 16. So up to 33 utterances
 * are paired completely, and a million give 32 million pairs. Train precedes test. Across sides,
 * each test utterance is paired with the first 16 and the last 16 of train. If an utterance has a
 * chunk at several positions, the first 4 count. A pair keeps the 64 offsets with the most chunks:
 * only repetitive signals have more.
 */
#include <stdlib.h>
#include <string.h>

#include "common/grow.h"
#include "exact_internal.h"
#include "speechshard/cores.h"
#include "speechshard/inside.h"

enum {
    PLACES_MAX = 4,
    OFFSETS_MAX = 64,
    PAIRS_AT_ONCE = 1024,
    PROGRESS_STEP = 1 << 14,
};

#define ORDINAL_MASK ((UINT64_C(1) << SPSH__EXACT_ORDINAL_BITS) - 1)
#define OFFSET_ZERO  (INT64_C(1) << 33) /* value that is stored for offset 0 */
#define B_LOW_BITS   14                 /* bits of b's 39-bit ordinal in the lower word */
#define OFFSET_SHIFT 16
#define OFFSET_BITS  34

/* An utterance that contains a chunk, and the positions of the chunk in it. */
typedef struct chunk_holder {
    uint64_t ordinal;
    bool is_test;
    uint32_t places[PLACES_MAX];
    size_t place_count;
} chunk_holder;

/* Utterances with the current chunk that later utterances are paired with. */
typedef struct chunk_crowd {
    chunk_holder first[SPSH__EXACT_MEETS];
    chunk_holder late[SPSH__EXACT_MEETS]; /* ring buffer of the latest holders */
    size_t count;
} chunk_crowd;

typedef struct chunk_offset {
    int64_t samples; /* position in b minus position in a */
    uint32_t votes;
} chunk_offset;

typedef struct chunk_pair {
    uint64_t a, b;
    chunk_offset offsets[OFFSETS_MAX];
    size_t offset_count;
    spsh__match *matches;
    size_t match_count, match_capacity;
} chunk_pair;

typedef struct chunk_finder {
    spsh__exact_search *search;
    spsh__sort128 *chunks, *pairs;
    chunk_crowd crowd;
    chunk_holder holder;
    spsh__u128 ready[PAIRS_AT_ONCE];
    size_t ready_count;
    spsh__exact_team team;
    chunk_pair batch[SPSH__EXACT_JOBS];
    size_t batch_count;
} chunk_finder;

/* ---- chunks of all utterances ---- */

static spsh__u128 chunk_record(const spsh__chunk *chunk, bool is_test, uint64_t ordinal)
{
    return (spsh__u128){chunk->hash >> 8 << 8 | (uint64_t)is_test << 7 | ordinal >> 32,
                        ordinal << 32 | chunk->first_sample};
}

static spsh_status add_chunks(chunk_finder *finder, spsh__exact_reader *reader, uint64_t ordinal,
                              spsh_error *err)
{
    const spsh__chunk *chunks = NULL;
    spsh__exact_row row;
    spsh_status rc = spsh__exact_row_get(finder->search->set, ordinal, &row, err);
    if (rc != SPSH_OK || (row.row.flags & SPSH__ROW_DECODED) == 0 || row.row.chunk_count == 0)
        return rc;
    const bool is_test = finder->search->has_both && row.side == SPSH_SIDE_TEST;
    rc = spsh__exact_reader_chunks(reader, 0, &row, &chunks, err);
    for (uint64_t i = 0; rc == SPSH_OK && i < row.row.chunk_count; i++) {
        if (chunks[i].first_sample > UINT32_MAX)
            break;
        const spsh__u128 record = chunk_record(&chunks[i], is_test, ordinal);
        rc = spsh__sort128_add(finder->chunks, &record, 1, err);
    }
    return rc;
}

static spsh_status add_all(chunk_finder *finder, spsh_error *err)
{
    const spsh__exact_search *search = finder->search;
    const uint64_t count = search->groups->count;
    spsh__exact_reader *reader = NULL;
    spsh_status rc = spsh__exact_reader_open(search->set, &reader, err);
    for (uint64_t i = 0; rc == SPSH_OK && i < count; i++) {
        if (spsh__print_set_side(search->set, i) != SPSH_SIDE_NONE &&
            spsh__exact_representative(search->groups, i) == i)
            rc = add_chunks(finder, reader, i, err);
        if (i % PROGRESS_STEP == 0 && rc == SPSH_OK) {
            spsh__call_watch_report(search->options->watch, "chunks", i, count);
            rc = spsh__call_watch_check(search->options->watch, err);
        }
    }
    spsh__exact_reader_free(reader);
    return rc;
}

/* ---- equal hashes ---- */

static spsh_status add_ready(chunk_finder *finder, spsh_error *err)
{
    const size_t count = finder->ready_count;
    finder->ready_count = 0;
    return spsh__sort128_add(finder->pairs, finder->ready, count, err);
}

static spsh_status meet(chunk_finder *finder, const chunk_holder *one, const chunk_holder *other,
                        spsh_error *err)
{
    const chunk_holder *a = one->ordinal < other->ordinal ? one : other;
    const chunk_holder *b = a == one ? other : one;
    for (size_t i = 0; i < a->place_count; i++)
        for (size_t k = 0; k < b->place_count; k++) {
            const int64_t offset = (int64_t)b->places[k] - (int64_t)a->places[i];
            if (finder->ready_count == PAIRS_AT_ONCE) {
                spsh_status rc = add_ready(finder, err);
                if (rc != SPSH_OK)
                    return rc;
            }
            finder->ready[finder->ready_count++] = (spsh__u128){
                a->ordinal << (64 - SPSH__EXACT_ORDINAL_BITS) | b->ordinal >> B_LOW_BITS,
                b->ordinal << (64 - B_LOW_BITS) | (uint64_t)(offset + OFFSET_ZERO) << OFFSET_SHIFT};
        }
    return SPSH_OK;
}

static spsh_status end_holder(chunk_finder *finder, spsh_error *err)
{
    chunk_crowd *crowd = &finder->crowd;
    const chunk_holder *holder = &finder->holder;
    const size_t later = crowd->count > SPSH__EXACT_MEETS ? crowd->count - SPSH__EXACT_MEETS : 0;
    const size_t late = later < SPSH__EXACT_MEETS ? later : SPSH__EXACT_MEETS;
    const size_t early = crowd->count < SPSH__EXACT_MEETS ? crowd->count : SPSH__EXACT_MEETS;
    spsh_status rc = SPSH_OK;
    if (holder->place_count == 0)
        return SPSH_OK;
    if (!finder->search->has_both || holder->is_test) {
        for (size_t i = 0; rc == SPSH_OK && i < early; i++)
            rc = meet(finder, holder, &crowd->first[i], err);
        for (size_t i = 0; rc == SPSH_OK && i < late; i++)
            rc = meet(finder, holder, &crowd->late[i], err);
    }
    if (!holder->is_test) {
        if (crowd->count < SPSH__EXACT_MEETS)
            crowd->first[crowd->count] = *holder;
        else
            crowd->late[crowd->count % SPSH__EXACT_MEETS] = *holder;
        crowd->count++;
    }
    finder->holder.place_count = 0;
    return rc;
}

static spsh_status take_chunk(chunk_finder *finder, spsh__u128 record, spsh_error *err)
{
    const uint64_t ordinal = (record.high & 0x7F) << 32 | record.low >> 32;
    const bool is_test = (record.high >> 7 & 1) != 0;
    chunk_holder *holder = &finder->holder;
    if (holder->place_count > 0 && holder->ordinal != ordinal) {
        spsh_status rc = end_holder(finder, err);
        if (rc != SPSH_OK)
            return rc;
    }
    holder->ordinal = ordinal;
    holder->is_test = is_test;
    if (holder->place_count < PLACES_MAX)
        holder->places[holder->place_count++] = (uint32_t)record.low;
    return SPSH_OK;
}

static spsh_status meet_all(chunk_finder *finder, spsh_error *err)
{
    spsh__sort128_cursor at = {0};
    const spsh__u128 *record = NULL;
    uint64_t hash = 0;
    spsh_status rc = SPSH_OK;
    while ((rc = spsh__sort128_take(finder->chunks, &at, &record, err)) == SPSH_OK) {
        rc = spsh__call_watch_check(finder->search->options->watch, err);
        if (rc == SPSH_OK && record->high >> 8 != hash) {
            rc = end_holder(finder, err);
            finder->crowd.count = 0;
            hash = record->high >> 8;
        }
        if (rc == SPSH_OK)
            rc = take_chunk(finder, *record, err);
        if (rc != SPSH_OK)
            return rc;
    }
    if (rc == SPSH_E_END)
        rc = end_holder(finder, err);
    return rc == SPSH_OK ? add_ready(finder, err) : rc;
}

/* ---- samples of a pair ---- */

/* A chunk that both utterances contain at one offset, as a range of a's samples. */
typedef struct chunk_hit {
    uint64_t first, end;
} chunk_hit;

typedef struct pair_reading {
    const spsh__exact_search *search;
    spsh__exact_reader *reader;
    spsh__exact_row a, b;
    const spsh__chunk *a_chunks, *b_chunks;
    int64_t offset;
    uint64_t at;    /* index in a_chunks of the next chunk to compare */
    uint64_t limit; /* end of the shorter utterance, in a's samples */
} pair_reading;

static uint64_t in_b(const pair_reading *r, uint64_t sample)
{
    return (uint64_t)((int64_t)sample + r->offset);
}

static const spsh__chunk *find_chunk(const spsh__chunk *chunks, uint64_t count, uint64_t first)
{
    uint64_t low = 0;
    uint64_t high = count;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (chunks[middle].first_sample < first)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && chunks[low].first_sample == first ? &chunks[low] : NULL;
}

static bool next_hit(pair_reading *r, chunk_hit *ret_hit)
{
    while (r->at < r->a.row.chunk_count) {
        const spsh__chunk *chunk = &r->a_chunks[r->at++];
        if ((int64_t)chunk->first_sample + r->offset < 0)
            continue;
        const spsh__chunk *other =
            find_chunk(r->b_chunks, r->b.row.chunk_count, in_b(r, chunk->first_sample));
        if (other != NULL && other->hash == chunk->hash && other->samples == chunk->samples) {
            *ret_hit = (chunk_hit){chunk->first_sample, chunk->first_sample + chunk->samples};
            return true;
        }
    }
    return false;
}

/* Extend a stretch from a hit over the next hits, as long as the samples between them are equal. If
 * *has_hit is set then, *hit is the first hit after the stretch. */
static spsh_status go_forwards(pair_reading *r, chunk_hit *hit, bool *has_hit, uint64_t *ret_end,
                               uint32_t *ret_votes, spsh_error *err)
{
    uint64_t end = hit->end;
    *ret_votes = 1;
    for (;;) {
        uint64_t equal = 0;
        *has_hit = next_hit(r, hit);
        const uint64_t stop = *has_hit && hit->first < r->limit ? hit->first : r->limit;
        const uint64_t gap = stop > end ? stop - end : 0;
        const spsh__exact_span span = {&r->a, &r->b, end, in_b(r, end), gap};
        spsh_status rc = spsh__exact_equal(r->reader, &span, false, &equal, err);
        if (rc != SPSH_OK)
            return rc;
        *ret_end = end + equal;
        if (equal < gap || !*has_hit)
            return SPSH_OK;
        end = hit->end;
        (*ret_votes)++;
    }
}

/* Compare all samples of the stretch, including those inside its chunks. */
static spsh_status confirm(pair_reading *r, const spsh__match *match, bool *ret_is_equal,
                           spsh_error *err)
{
    uint64_t equal = 0;
    const spsh__exact_span span = {&r->a, &r->b, match->a_first, match->b_first, match->count};
    spsh_status rc = spsh__exact_equal(r->reader, &span, false, &equal, err);
    *ret_is_equal = equal == match->count;
    return rc;
}

static spsh_status read_offset(pair_reading *r, chunk_pair *pair, spsh_error *err)
{
    uint64_t covered = r->offset < 0 ? (uint64_t)-r->offset : 0;
    chunk_hit hit = {0};
    spsh_status rc = SPSH_OK;
    const int64_t b_end = (int64_t)r->b.row.samples - r->offset;
    r->limit =
        b_end < (int64_t)r->a.row.samples ? (uint64_t)(b_end < 0 ? 0 : b_end) : r->a.row.samples;
    r->at = 0;
    bool has_hit = next_hit(r, &hit);
    while (rc == SPSH_OK && has_hit) {
        uint64_t before = 0;
        uint64_t end = 0;
        bool is_worth = false;
        spsh__match match = {.tier = SPSH_TIER_CHUNKS};
        const uint64_t first = hit.first;
        const uint64_t gap = first > covered ? first - covered : 0;
        const spsh__exact_span span = {&r->a, &r->b, first, in_b(r, first), gap};
        rc = spsh__exact_equal(r->reader, &span, true, &before, err);
        if (rc == SPSH_OK)
            rc = go_forwards(r, &hit, &has_hit, &end, &match.votes, err);
        if (rc != SPSH_OK)
            return rc;
        match.a_first = first - before;
        match.b_first = in_b(r, match.a_first);
        match.count = end - match.a_first;
        covered = end;
        rc = spsh__exact_stretch_match(r->search, &r->a, &r->b, &match, &is_worth, err);
        if (rc == SPSH_OK && is_worth && r->search->options->confirm)
            rc = confirm(r, &match, &is_worth, err);
        if (rc != SPSH_OK || !is_worth)
            continue;
        if (!SPSH_GROW(pair->matches, pair->match_capacity, pair->match_count + 1))
            return SPSH_NO_MEMORY(err);
        pair->matches[pair->match_count++] = match;
    }
    return rc;
}

/* True if both utterances view one record and overlap at this offset: the tier BYTES matched it. */
static bool is_reported(const spsh__exact_row *a, const spsh__exact_row *b, int64_t offset)
{
    return spsh__exact_is_one_place(a, b) &&
           offset == (int64_t)a->start_sample - (int64_t)b->start_sample;
}

static spsh_status read_pair(void *user, uint32_t worker, uint64_t number, spsh_error *err)
{
    chunk_finder *finder = user;
    chunk_pair *pair = &finder->batch[number];
    spsh__exact_reader *reader = finder->team.readers[worker];
    pair_reading r = {.search = finder->search, .reader = reader};
    spsh_status rc = spsh__exact_rows_get(r.search->set, pair->a, pair->b, &r.a, &r.b, err);
    if (rc != SPSH_OK || r.a.row.sample_rate_hz != r.b.row.sample_rate_hz ||
        r.a.row.channels != r.b.row.channels || spsh__exact_is_equal(&r.a, &r.b))
        return rc;
    rc = spsh__exact_reader_chunks(reader, 0, &r.a, &r.a_chunks, err);
    if (rc == SPSH_OK)
        rc = spsh__exact_reader_chunks(reader, 1, &r.b, &r.b_chunks, err);
    for (size_t i = 0; rc == SPSH_OK && i < pair->offset_count; i++) {
        r.offset = pair->offsets[i].samples;
        if (!is_reported(&r.a, &r.b, r.offset))
            rc = read_offset(&r, pair, err);
    }
    return rc;
}

/* ---- pairs at one offset ---- */

static spsh_status flush_pairs(chunk_finder *finder, spsh_error *err)
{
    const spsh__match_sink *sink = &finder->search->sink;
    spsh_status rc = spsh__call_watch_check(finder->search->options->watch, err);
    if (rc == SPSH_OK)
        rc = spsh_cores_run(finder->team.count, finder->batch_count, read_pair, finder, err);
    for (size_t i = 0; i < finder->batch_count; i++) {
        chunk_pair *pair = &finder->batch[i];
        for (size_t k = 0; rc == SPSH_OK && k < pair->match_count; k++)
            rc = sink->match_fn(sink->user, &pair->matches[k], err);
        pair->match_count = 0; /* keep the memory for the next batch */
        pair->offset_count = 0;
    }
    finder->batch_count = 0;
    return rc;
}

/* Return the offset to replace first: the one with the fewest votes, or the last of several. */
static chunk_offset *weakest(chunk_pair *pair)
{
    chunk_offset *least = &pair->offsets[0];
    for (size_t i = 1; i < pair->offset_count; i++)
        if (pair->offsets[i].votes <= least->votes)
            least = &pair->offsets[i];
    return least;
}

static void add_offset(chunk_pair *pair, chunk_offset offset)
{
    if (pair->offset_count < OFFSETS_MAX) {
        pair->offsets[pair->offset_count++] = offset;
        return;
    }
    chunk_offset *least = weakest(pair);
    if (offset.votes > least->votes)
        *least = offset;
}

static bool is_last_pair(const chunk_finder *finder, uint64_t a, uint64_t b)
{
    return finder->batch_count > 0 && finder->batch[finder->batch_count - 1].a == a &&
           finder->batch[finder->batch_count - 1].b == b;
}

/* Take a run of equal records: one pair at one offset, with one vote per chunk. */
static spsh_status take_offset(chunk_finder *finder, spsh__u128 record, uint32_t votes,
                               spsh_error *err)
{
    const uint64_t a = record.high >> (64 - SPSH__EXACT_ORDINAL_BITS);
    const uint64_t b = (record.high << B_LOW_BITS | record.low >> (64 - B_LOW_BITS)) & ORDINAL_MASK;
    const uint64_t stored = record.low >> OFFSET_SHIFT & ((UINT64_C(1) << OFFSET_BITS) - 1);
    if (!is_last_pair(finder, a, b)) {
        if (finder->batch_count == SPSH__EXACT_JOBS) {
            spsh_status rc = flush_pairs(finder, err);
            if (rc != SPSH_OK)
                return rc;
        }
        finder->batch[finder->batch_count].a = a;
        finder->batch[finder->batch_count].b = b;
        finder->batch_count++;
    }
    add_offset(&finder->batch[finder->batch_count - 1],
               (chunk_offset){(int64_t)stored - OFFSET_ZERO, votes});
    return SPSH_OK;
}

static spsh_status read_all(chunk_finder *finder, spsh_error *err)
{
    const uint64_t total = spsh__sort128_count(finder->pairs);
    spsh__sort128_cursor at = {0};
    const spsh__u128 *record = NULL;
    spsh__u128 last = {0};
    uint64_t done = 0;
    uint32_t votes = 0;
    spsh_status rc = SPSH_OK;
    while ((rc = spsh__sort128_take(finder->pairs, &at, &record, err)) == SPSH_OK) {
        if (votes > 0 && (record->high != last.high || record->low != last.low)) {
            rc = take_offset(finder, last, votes, err);
            if (rc != SPSH_OK)
                return rc;
            votes = 0;
        }
        last = *record;
        votes += votes < UINT32_MAX;
        done++;
        if (at.at == at.count)
            spsh__call_watch_report(finder->search->options->watch, "stretches", done, total);
    }
    if (rc == SPSH_E_END)
        rc = votes > 0 ? take_offset(finder, last, votes, err) : SPSH_OK;
    return rc == SPSH_OK ? flush_pairs(finder, err) : rc;
}

spsh_status spsh__exact_find_chunks(spsh__exact_search *search, spsh_error *err)
{
    chunk_finder *finder = calloc(1, sizeof(*finder));
    if (finder == NULL)
        return SPSH_NO_MEMORY(err);
    finder->search = search;
    spsh_status rc = spsh__exact_sort_open(search, 2, &finder->chunks, err);
    if (rc == SPSH_OK)
        rc = spsh__exact_sort_open(search, 2, &finder->pairs, err);
    if (rc == SPSH_OK)
        rc = spsh__exact_team_open(search->set, search->options->threads, &finder->team, err);
    if (rc == SPSH_OK)
        rc = add_all(finder, err);
    if (rc == SPSH_OK)
        rc = meet_all(finder, err);
    if (rc == SPSH_OK)
        rc = read_all(finder, err);
    for (size_t i = 0; i < SPSH__EXACT_JOBS; i++)
        free(finder->batch[i].matches);
    spsh__exact_team_close(&finder->team);
    spsh__sort128_free(finder->chunks);
    spsh__sort128_free(finder->pairs);
    free(finder);
    return rc;
}
