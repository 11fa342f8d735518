/* exact_groups.c: utterances with equal bytes or samples, and those that view one stored record.
 *
 * Each utterance adds up to five 128-bit records to one sort, so that equal ones become adjacent:
 *
 *     place    2 bits 0 | dataset 31 | shard 24 | record 31 | ordinal 40
 *     payload  2 bits 1 | hash 86                           | ordinal 40
 *     samples  2 bits 2 | hash 86: full, trim, mono         | ordinal 40
 *
 * If adjacent records have equal hashes, the whole digests are compared. Equal utterances are
 * joined in a forest whose links point to lower ordinals. Each kind of equality implies the weaker
 * kinds. So all members of a group equal the first member, and the matches form stars. (86 bits:
 * with 10^9 utterances, one set in 10^8 has a false collision. It could only separate two equal
 * utterances.)
 *
 * Utterances that view one record become adjacent by its place. Equal ranges are one group. For
 * overlapping ranges a sweep keeps the 16 that end last. So even if a million utterances view one
 * record, the number of matches per utterance is bounded.
 */
#include <stdlib.h>
#include <string.h>

#include "common/compare.h"
#include "common/grow.h"
#include "exact_internal.h"
#include "records/hash_map.h"
#include "speechshard/cores.h"
#include "speechshard/inside.h"

enum {
    KIND_PLACE = 0,
    KIND_PAYLOAD = 1,
    KIND_SAMPLES = 2,
    RECORDS_MAX = 5, /* records per utterance */
    ROWS_AT_ONCE = 256,
    ORDINAL_BITS = 40,
    PROGRESS_STEP = 1 << 16,
};

#define ORDINAL_MASK ((UINT64_C(1) << ORDINAL_BITS) - 1)

/* Range of a record, and the utterance that views it. */
typedef struct place_range {
    uint64_t start, end, ordinal;
    spsh_side side;
} place_range;

typedef struct group_finder {
    spsh__exact_search *search;
    spsh__sort128 *sort;
    uint64_t *members; /* ordinals of the utterances at one place */
    size_t member_count, member_capacity;
    spsh__exact_row last; /* row of the previous record; valid for last_ordinal */
    uint64_t last_ordinal;
} group_finder;

/* ---- records ---- */

static spsh__u128 hash_record(unsigned kind, const uint8_t hash[16], uint64_t ordinal)
{
    const spsh__u128 number = spsh__u128_of(hash);
    return (spsh__u128){(uint64_t)kind << 62 | number.high >> 2,
                        number.low >> ORDINAL_BITS << ORDINAL_BITS | ordinal};
}

static spsh__u128 place_record(size_t dataset, const spsh_row *place, uint64_t ordinal)
{
    const uint64_t record = place->payload_record;
    return (spsh__u128){(uint64_t)dataset << 31 | (uint64_t)place->payload_shard << 7 |
                            record >> 24,
                        (record & 0xFFFFFF) << ORDINAL_BITS | ordinal};
}

/* An alias shares the place of its primary, so their place records are adjacent if the primary has
 * a side. */
static bool needs_digests(const spsh__print_set *set, uint64_t alias_of)
{
    return alias_of == SPSH_NONE_U64 || spsh__print_set_side(set, alias_of) == SPSH_SIDE_NONE;
}

static size_t digest_records(const spsh__exact_row *row, spsh__u128 *records)
{
    static const uint8_t none[16];
    const spsh__segment_row *r = &row->row;
    size_t count = 0;
    if ((r->flags & SPSH__ROW_WHOLE) != 0)
        records[count++] = hash_record(KIND_PAYLOAD, r->payload_hash, row->ordinal);
    if ((r->flags & SPSH__ROW_DECODED) == 0)
        return count;
    records[count++] = hash_record(KIND_SAMPLES, r->pcm_full, row->ordinal);
    if (!spsh__exact_is_trim_good(r))
        return count;
    if (memcmp(r->pcm_trim, r->pcm_full, 16) != 0)
        records[count++] = hash_record(KIND_SAMPLES, r->pcm_trim, row->ordinal);
    if (memcmp(r->pcm_mono, none, 16) != 0 && memcmp(r->pcm_mono, r->pcm_trim, 16) != 0)
        records[count++] = hash_record(KIND_SAMPLES, r->pcm_mono, row->ordinal);
    return count;
}

static spsh_status add_utterance(group_finder *finder, uint64_t ordinal, size_t dataset,
                                 const spsh_row *place, spsh_error *err)
{
    const spsh__print_set *set = finder->search->set;
    spsh__u128 records[RECORDS_MAX];
    size_t count = 0;
    spsh__segment_row brief;
    uint64_t alias_of = SPSH_NONE_U64;
    spsh_status rc = spsh__print_set_row(set, ordinal, &brief, &alias_of, err);
    records[count++] = place_record(dataset, place, ordinal);
    if (rc == SPSH_OK && needs_digests(set, alias_of)) {
        spsh__exact_row row = {.ordinal = ordinal, .row = brief};
        if (alias_of != SPSH_NONE_U64)
            rc = spsh__exact_row_get(set, ordinal, &row, err);
        count += digest_records(&row, records + count);
    }
    return rc == SPSH_OK ? spsh__sort128_add(finder->sort, records, count, err) : rc;
}

static spsh_status add_dataset(group_finder *finder, size_t dataset, spsh_error *err)
{
    const spsh__print_set *set = finder->search->set;
    const spsh_dataset *from = spsh__print_set_dataset(set, dataset);
    const uint64_t first = spsh__print_set_first(set, dataset);
    const uint64_t count = spsh_dataset_info_get(from)->utterance_count;
    spsh_row rows[ROWS_AT_ONCE];
    spsh_status rc = SPSH_OK;
    for (uint64_t at = 0; rc == SPSH_OK && at < count; at += ROWS_AT_ONCE) {
        const uint64_t some = count - at < ROWS_AT_ONCE ? count - at : ROWS_AT_ONCE;
        rc = spsh_dataset_rows(from, at, some, rows, err);
        for (uint64_t i = 0; rc == SPSH_OK && i < some; i++)
            if (spsh__print_set_side(set, first + at + i) != SPSH_SIDE_NONE)
                rc = add_utterance(finder, first + at + i, dataset, &rows[i], err);
        if (rc == SPSH_OK)
            rc = spsh__call_watch_check(finder->search->options->watch, err);
        if ((first + at) % PROGRESS_STEP < ROWS_AT_ONCE)
            spsh__call_watch_report(finder->search->options->watch, "samples", first + at,
                                    finder->search->groups->count);
    }
    return rc;
}

/* ---- the forest ---- */

static uint64_t root_of(spsh__exact_groups *groups, uint64_t ordinal)
{
    uint64_t at = ordinal;
    while (spsh__exact_representative(groups, at) != at) {
        const uint64_t above =
            spsh__exact_representative(groups, spsh__exact_representative(groups, at));
        spsh__exact_put(groups, at, above);
        at = above;
    }
    return at;
}

static void join(spsh__exact_groups *groups, uint64_t a, uint64_t b)
{
    const uint64_t a_root = root_of(groups, a);
    const uint64_t b_root = root_of(groups, b);
    if (a_root < b_root)
        spsh__exact_put(groups, b_root, a_root);
    else
        spsh__exact_put(groups, a_root, b_root);
}

/* ---- one record, many views ---- */

static int compare_ranges(const void *left, const void *right)
{
    const place_range *l = left;
    const place_range *r = right;
    int order = spsh__order_u64(l->start, r->start);
    if (order == 0)
        order = spsh__order_u64(r->end, l->end);
    if (order == 0)
        order = spsh__order_u64((uint64_t)l->side, (uint64_t)r->side);
    return order != 0 ? order : spsh__order_u64(l->ordinal, r->ordinal);
}

static spsh_status match_ranges(const spsh__exact_search *search, const place_range *one,
                                const place_range *other, spsh_error *err)
{
    const place_range *ra = one->ordinal < other->ordinal ? one : other;
    const place_range *rb = ra == one ? other : one;
    const uint64_t begin = ra->start > rb->start ? ra->start : rb->start;
    const uint64_t end = ra->end < rb->end ? ra->end : rb->end;
    spsh__match match = {
        .tier = SPSH_TIER_BYTES,
        .a_first = begin - ra->start,
        .b_first = begin - rb->start,
        .count = end - begin,
    };
    spsh__exact_row a, b;
    bool is_worth = false;
    spsh_status rc = spsh__exact_rows_get(search->set, ra->ordinal, rb->ordinal, &a, &b, err);
    if (rc == SPSH_OK)
        rc = spsh__exact_stretch_match(search, &a, &b, &match, &is_worth, err);
    return rc == SPSH_OK && is_worth ? search->sink.match_fn(search->sink.user, &match, err) : rc;
}

/* Open ranges of one side: the ranges that end last. */
typedef struct sweep {
    const place_range *open[SPSH__EXACT_MEETS];
    size_t count;
} sweep;

static void sweep_add(sweep *under_way, const place_range *range)
{
    size_t at = under_way->count;
    if (at == SPSH__EXACT_MEETS) {
        at = 0;
        for (size_t i = 1; i < SPSH__EXACT_MEETS; i++)
            if (under_way->open[i]->end < under_way->open[at]->end)
                at = i;
        if (under_way->open[at]->end >= range->end)
            return;
    } else {
        under_way->count++;
    }
    under_way->open[at] = range;
}

static void sweep_close(sweep *under_way, uint64_t start)
{
    size_t kept = 0;
    for (size_t i = 0; i < under_way->count; i++)
        if (under_way->open[i]->end > start)
            under_way->open[kept++] = under_way->open[i];
    under_way->count = kept;
}

static bool is_same_range(const place_range *a, const place_range *b)
{
    return a->start == b->start && a->end == b->end;
}

/* ranges: sorted. The first of equal ranges on one side represents all of them. */
static spsh_status sweep_ranges(const spsh__exact_search *search, const place_range *ranges,
                                size_t count, spsh_error *err)
{
    sweep sides[2] = {{.count = 0}, {.count = 0}};
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; rc == SPSH_OK && i < count; i++) {
        const place_range *range = &ranges[i];
        if (i > 0 && is_same_range(range, range - 1) && range->side == range[-1].side)
            continue;
        const size_t own = range->side == SPSH_SIDE_TEST ? 1 : 0;
        const sweep *others = &sides[search->has_both ? 1 - own : own];
        sweep_close(&sides[0], range->start);
        sweep_close(&sides[1], range->start);
        for (size_t k = 0; rc == SPSH_OK && k < others->count; k++)
            if (!is_same_range(range, others->open[k]))
                rc = match_ranges(search, range, others->open[k], err);
        sweep_add(&sides[own], range);
    }
    return rc;
}

static spsh_status end_place(group_finder *finder, spsh_error *err)
{
    const spsh__exact_search *search = finder->search;
    const size_t count = finder->member_count;
    place_range *ranges = NULL;
    spsh_status rc = SPSH_OK;
    finder->member_count = 0;
    if (count < 2)
        return SPSH_OK;
    ranges = calloc(count, sizeof(*ranges));
    if (ranges == NULL)
        return SPSH_NO_MEMORY(err);
    for (size_t i = 0; rc == SPSH_OK && i < count; i++) {
        spsh_row row;
        rc = spsh__print_set_index_row(search->set, finder->members[i], &row, err);
        if (rc == SPSH_OK)
            ranges[i] =
                (place_range){row.start_sample, row.start_sample + row.samples, finder->members[i],
                              spsh__print_set_side(search->set, finder->members[i])};
    }
    if (rc == SPSH_OK) {
        qsort(ranges, count, sizeof(*ranges), compare_ranges);
        for (size_t i = 1; i < count; i++)
            if (is_same_range(&ranges[i], &ranges[i - 1]))
                join(search->groups, ranges[i].ordinal, ranges[i - 1].ordinal);
        rc = sweep_ranges(search, ranges, count, err);
    }
    free(ranges);
    return rc;
}

/* ---- adjacent sorted records ---- */

static spsh_status join_if_equal(group_finder *finder, uint64_t before, uint64_t ordinal,
                                 spsh_error *err)
{
    const spsh__print_set *set = finder->search->set;
    spsh__exact_row row;
    spsh_status rc = SPSH_OK;
    if (before == ordinal)
        return SPSH_OK;
    if (finder->last_ordinal != before)
        rc = spsh__exact_row_get(set, before, &finder->last, err);
    if (rc == SPSH_OK)
        rc = spsh__exact_row_get(set, ordinal, &row, err);
    if (rc != SPSH_OK)
        return rc;
    if (spsh__exact_is_equal(&finder->last, &row))
        join(finder->search->groups, before, ordinal);
    finder->last = row;
    finder->last_ordinal = ordinal;
    return SPSH_OK;
}

static spsh_status take_record(group_finder *finder, const spsh__u128 *before,
                               const spsh__u128 *record, spsh_error *err)
{
    const uint64_t ordinal = record->low & ORDINAL_MASK;
    const bool is_same =
        record->high == before->high && record->low >> ORDINAL_BITS == before->low >> ORDINAL_BITS;
    const spsh_status rc = is_same ? SPSH_OK : end_place(finder, err);
    if (rc != SPSH_OK)
        return rc;
    if (record->high >> 62 != KIND_PLACE)
        return is_same ? join_if_equal(finder, before->low & ORDINAL_MASK, ordinal, err) : SPSH_OK;
    if (!SPSH_GROW(finder->members, finder->member_capacity, finder->member_count + 1))
        return SPSH_NO_MEMORY(err);
    finder->members[finder->member_count++] = ordinal;
    return SPSH_OK;
}

static spsh_status take_records(group_finder *finder, spsh_error *err)
{
    spsh__sort128_cursor at = {0};
    const spsh__u128 *record = NULL;
    spsh__u128 before = {UINT64_MAX, UINT64_MAX}; /* matches no kind of record */
    spsh_status rc = SPSH_OK;
    while ((rc = spsh__sort128_take(finder->sort, &at, &record, err)) == SPSH_OK) {
        rc = spsh__call_watch_check(finder->search->options->watch, err);
        if (rc == SPSH_OK)
            rc = take_record(finder, &before, record, err);
        if (rc != SPSH_OK)
            return rc;
        before = *record;
    }
    return rc == SPSH_E_END ? end_place(finder, err) : rc;
}

/* ---- matches of groups ---- */

typedef struct star_pair {
    spsh__match match;
    uint64_t follower; /* separated from its group if the samples differ; SPSH_NONE_U64: none */
    bool is_good;
} star_pair;

typedef struct star_batch {
    const spsh__exact_search *search;
    spsh__exact_team team; /* open only with confirm */
    star_pair pairs[SPSH__EXACT_JOBS];
    size_t count;
} star_batch;

static spsh_status confirm_pair(void *user, uint32_t worker, uint64_t number, spsh_error *err)
{
    star_batch *batch = user;
    star_pair *pair = &batch->pairs[number];
    const spsh__match *m = &pair->match;
    spsh__exact_row a, b;
    uint64_t equal = 0;
    spsh_error local = SPSH_ERROR_INIT;
    spsh_status rc = spsh__exact_rows_get(batch->search->set, m->a, m->b, &a, &b, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh__exact_span span = {&a, &b, m->a_first, m->b_first, m->count};
    rc = spsh__exact_equal(batch->team.readers[worker], &span, false, &equal, &local);
    pair->is_good = rc == SPSH_OK && equal == m->count;
    if (rc == SPSH_OK || rc == SPSH_E_AUDIO) /* audio that cannot be decoded is not confirmed */
        return SPSH_OK;
    return spsh__fail_again(rc, &local, err);
}

static spsh_status star_flush(star_batch *batch, spsh_error *err)
{
    const spsh__exact_search *search = batch->search;
    spsh_status rc = spsh__call_watch_check(search->options->watch, err);
    if (rc == SPSH_OK && batch->team.count > 0)
        rc = spsh_cores_run(batch->team.count, batch->count, confirm_pair, batch, err);
    for (size_t i = 0; rc == SPSH_OK && i < batch->count; i++) {
        const star_pair *pair = &batch->pairs[i];
        if (pair->is_good)
            rc = search->sink.match_fn(search->sink.user, &pair->match, err);
        else if (pair->follower != SPSH_NONE_U64)
            spsh__exact_put(search->groups, pair->follower, pair->follower);
    }
    batch->count = 0;
    return rc;
}

static spsh_status star_add(star_batch *batch, uint64_t one, uint64_t other, uint64_t follower,
                            spsh_error *err)
{
    spsh__exact_row a, b;
    spsh_status rc = spsh__exact_rows_get(batch->search->set, one, other, &a, &b, err);
    if (rc != SPSH_OK)
        return rc;
    batch->pairs[batch->count++] = (star_pair){spsh__exact_whole_match(&a, &b), follower, true};
    return batch->count == SPSH__EXACT_JOBS ? star_flush(batch, err) : SPSH_OK;
}

/* Find for each root the first member on the other side. The entry is the root itself if the other
 * side has no member. */
static spsh_status find_others(spsh__exact_search *search, spsh__exact_groups **ret_others,
                               spsh_error *err)
{
    const spsh__print_set *set = search->set;
    spsh__exact_groups *others = NULL;
    spsh_status rc = spsh__exact_groups_new(search->groups->count, &others, err);
    if (rc != SPSH_OK)
        return rc;
    /* others[root] == root means that the group has no member on the other side. */
    for (uint64_t i = 0; i < search->groups->count; i++) {
        const uint64_t root = spsh__exact_representative(search->groups, i);
        if (spsh__print_set_side(set, i) != spsh__print_set_side(set, root) &&
            spsh__exact_representative(others, root) == root)
            spsh__exact_put(others, root, i);
    }
    *ret_others = others;
    return SPSH_OK;
}

/* Return the first member of the group on `side`, or SPSH_NONE_U64. */
static uint64_t first_of_side(const spsh__exact_search *search, const spsh__exact_groups *others,
                              uint64_t root, spsh_side side)
{
    if (spsh__print_set_side(search->set, root) == side)
        return root;
    const uint64_t other = others == NULL ? root : spsh__exact_representative(others, root);
    return other == root ? SPSH_NONE_U64 : other;
}

static spsh_status star_matches(spsh__exact_search *search, const spsh__exact_groups *others,
                                star_batch *batch, spsh_error *err)
{
    const spsh__print_set *set = search->set;
    spsh_status rc = SPSH_OK;
    for (uint64_t i = 0; rc == SPSH_OK && i < search->groups->count; i++) {
        const spsh_side side = spsh__print_set_side(set, i);
        const uint64_t root = spsh__exact_representative(search->groups, i);
        if (side == SPSH_SIDE_NONE)
            continue;
        const uint64_t first = first_of_side(search, others, root, side);
        const uint64_t train = search->has_both && side == SPSH_SIDE_TEST
                                   ? first_of_side(search, others, root, SPSH_SIDE_TRAIN)
                                   : SPSH_NONE_U64;
        /* A root whose first member is itself stays a root. */
        spsh__exact_put(search->groups, i, first);
        if (first != i)
            rc = star_add(batch, first, i, i, err);
        if (rc == SPSH_OK && train != SPSH_NONE_U64)
            rc = star_add(batch, train, i, SPSH_NONE_U64, err);
    }
    return rc == SPSH_OK ? star_flush(batch, err) : rc;
}

static spsh_status make_stars(spsh__exact_search *search, spsh_error *err)
{
    spsh__exact_groups *others = NULL;
    star_batch *batch = calloc(1, sizeof(*batch));
    spsh_status rc = SPSH_OK;
    if (batch == NULL)
        return SPSH_NO_MEMORY(err);
    batch->search = search;
    for (uint64_t i = 0; i < search->groups->count; i++) /* lower links are already flat */
        spsh__exact_put(search->groups, i,
                        spsh__exact_representative(search->groups,
                                                   spsh__exact_representative(search->groups, i)));
    if (search->has_both)
        rc = find_others(search, &others, err);
    if (rc == SPSH_OK && search->options->confirm)
        rc = spsh__exact_team_open(search->set, search->options->threads, &batch->team, err);
    if (rc == SPSH_OK)
        rc = star_matches(search, others, batch, err);
    spsh__exact_team_close(&batch->team);
    spsh__exact_groups_free(others);
    free(batch);
    return rc;
}

spsh_status spsh__exact_find_groups(spsh__exact_search *search, spsh_error *err)
{
    group_finder finder = {.search = search, .last_ordinal = SPSH_NONE_U64};
    spsh_status rc = spsh__exact_sort_open(search, 1, &finder.sort, err);
    for (size_t d = 0; rc == SPSH_OK && d < spsh__print_set_dataset_count(search->set); d++)
        rc = add_dataset(&finder, d, err);
    if (rc == SPSH_OK)
        rc = take_records(&finder, err);
    spsh__sort128_free(finder.sort);
    free(finder.members);
    return rc == SPSH_OK ? make_stars(search, err) : rc;
}
