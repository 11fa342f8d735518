/* boilerplate.c: stretches that many utterances share.
 *
 * A partial match names one interval in each of two utterances. These two intervals belong to the
 * same stretch. Two intervals of one utterance belong to the same stretch if their intersection
 * covers at least half of their union. Union-find joins the intervals into stretches. Stretches
 * found in enough different recordings are boilerplate.
 *
 * The test uses half of the union, not half of the shorter interval. Otherwise a corpus of
 * overlapping windows would become one long chain.
 */
#include "copy_graph.h"

#include <stdlib.h>

#include "common/compare.h"
#include "speechshard/inside.h"

enum {
    ALIKE_LOOK_BACK = 16
}; /* number of preceding intervals of the utterance that an interval is
                                  compared with */

typedef struct interval {
    uint64_t utterance, group, ordinal;
    double first_s, seconds;
    size_t partial;
    bool is_b;
} interval;

typedef struct share {
    size_t stretch; /* root in the union-find forest */
    uint64_t group;
} share;

static int compare_intervals(const void *left, const void *right)
{
    const interval *l = left;
    const interval *r = right;
    int order = spsh__order_u64(l->utterance, r->utterance);
    if (order == 0)
        order = spsh__order_real(l->first_s, r->first_s);
    if (order == 0)
        order = spsh__order_real(l->seconds, r->seconds);
    if (order == 0)
        order = spsh__order_u64(l->partial, r->partial);
    return order != 0 ? order : l->is_b - r->is_b;
}

static int compare_shares(const void *left, const void *right)
{
    const share *l = left;
    const share *r = right;
    const int order = spsh__order_u64(l->stretch, r->stretch);
    return order != 0 ? order : spsh__order_u64(l->group, r->group);
}

static int compare_boilerplate(const void *left, const void *right)
{
    const spsh__boilerplate *l = left;
    const spsh__boilerplate *r = right;
    int order = spsh__order_u64(r->utterance_count, l->utterance_count);
    if (order == 0)
        order = spsh__order_u64(l->ordinal, r->ordinal);
    return order != 0 ? order : spsh__order_real(l->start_s, r->start_s);
}

static size_t find_root(size_t *parents, size_t at)
{
    while (parents[at] != at) {
        parents[at] = parents[parents[at]];
        at = parents[at];
    }
    return at;
}

/* Join two trees. The lower root wins, so the first interval represents the stretch. */
static void join(size_t *parents, size_t left, size_t right)
{
    left = find_root(parents, left);
    right = find_root(parents, right);
    if (left < right)
        parents[right] = left;
    else
        parents[left] = right;
}

static bool are_alike(const interval *left, const interval *right)
{
    const double left_end = left->first_s + left->seconds;
    const double right_end = right->first_s + right->seconds;
    const double first = left->first_s < right->first_s ? left->first_s : right->first_s;
    const double begin = left->first_s < right->first_s ? right->first_s : left->first_s;
    const double end = left_end < right_end ? left_end : right_end;
    const double last = left_end < right_end ? right_end : left_end;
    return left->utterance == right->utterance && 2 * (end - begin) >= last - first;
}

static void fill_intervals(const spsh__match *matches, const spsh__partial *partials,
                           size_t partial_count, interval *intervals)
{
    for (size_t i = 0; i < partial_count; i++) {
        const spsh__partial *p = &partials[i];
        const spsh__match *m = &matches[p->match];
        const double rate = m->rate_hz == 0 ? 8000 : (double)m->rate_hz;
        const double seconds = (double)m->count / rate;
        intervals[2 * i] =
            (interval){p->a, p->a_group, m->a, (double)m->a_first / rate, seconds, i, false};
        intervals[2 * i + 1] =
            (interval){p->b, p->b_group, m->b, (double)m->b_first / rate, seconds, i, true};
    }
    qsort(intervals, 2 * partial_count, sizeof(*intervals), compare_intervals);
}

static void join_intervals(const interval *intervals, size_t count, size_t *parents, size_t *sides)
{
    for (size_t i = 0; i < count; i++) {
        parents[i] = i;
        sides[2 * intervals[i].partial + intervals[i].is_b] = i;
    }
    for (size_t i = 0; i < count; i++) {
        const size_t first = i > ALIKE_LOOK_BACK ? i - ALIKE_LOOK_BACK : 0;
        for (size_t k = first; k < i; k++) {
            if (are_alike(&intervals[k], &intervals[i]))
                join(parents, k, i);
        }
    }
    for (size_t i = 0; i + 1 < count; i += 2)
        join(parents, sides[i], sides[i + 1]);
}

/* Count the groups of each stretch into counts[root]. Counts below count_min become 0. */
static size_t count_shares(share *shares, size_t count, uint64_t count_min, uint64_t *counts)
{
    size_t found = 0;
    qsort(shares, count, sizeof(*shares), compare_shares);
    for (size_t i = 0; i < count;) {
        const size_t stretch = shares[i].stretch;
        uint64_t groups = 0;
        for (size_t first = i; i < count && shares[i].stretch == stretch; i++)
            groups += i == first || shares[i].group != shares[i - 1].group;
        counts[stretch] = groups >= count_min ? groups : 0;
        found += counts[stretch] != 0;
    }
    return found;
}

static spsh_status list_stretches(const interval *intervals, size_t count, size_t *parents,
                                  const uint64_t *counts, size_t found, spsh__partial *partials,
                                  spsh__boilerplate **ret_list)
{
    spsh__boilerplate *list = calloc(found + 1, sizeof(*list));
    size_t listed = 0;
    if (list == NULL)
        return SPSH_E_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const uint64_t groups = counts[find_root(parents, i)];
        if (groups == 0)
            continue;
        partials[intervals[i].partial].is_boilerplate = true;
        if (find_root(parents, i) == i)
            list[listed++] = (spsh__boilerplate){intervals[i].ordinal, intervals[i].first_s,
                                                 intervals[i].seconds, groups};
    }
    qsort(list, listed, sizeof(*list), compare_boilerplate);
    *ret_list = list;
    return SPSH_OK;
}

spsh_status spsh__boilerplate_find(const spsh__match *matches, spsh__partial *partials,
                                   size_t partial_count, uint64_t count_min,
                                   spsh__boilerplate **ret_list, size_t *ret_count, spsh_error *err)
{
    const size_t count = 2 * partial_count;
    spsh_status rc = SPSH_E_NO_MEMORY;
    interval *intervals = calloc(count + 1, sizeof(*intervals));
    size_t *parents = calloc(count + 1, sizeof(*parents));
    size_t *sides = calloc(count + 1, sizeof(*sides));
    share *shares = calloc(count + 1, sizeof(*shares));
    uint64_t *counts = calloc(count + 1, sizeof(*counts));
    if (intervals == NULL || parents == NULL || sides == NULL || shares == NULL || counts == NULL)
        goto out;
    fill_intervals(matches, partials, partial_count, intervals);
    join_intervals(intervals, count, parents, sides);
    for (size_t i = 0; i < count; i++)
        shares[i] = (share){find_root(parents, i), intervals[i].group};
    *ret_count = count_shares(shares, count, count_min, counts);
    rc = list_stretches(intervals, count, parents, counts, *ret_count, partials, ret_list);
out:
    free(intervals);
    free(parents);
    free(sides);
    free(shares);
    free(counts);
    return rc == SPSH_OK ? SPSH_OK : SPSH_NO_MEMORY(err);
}
