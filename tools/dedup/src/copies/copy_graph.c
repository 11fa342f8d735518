/* copy_graph.c: see copy_graph.h. */
#include "copy_graph.h"

#include <stdlib.h>

#include "common/compare.h"
#include "common/grow.h"
#include "speechshard/inside.h"

/* ---- nodes ---- */

static size_t find_node(const spsh__copy_graph *g, uint64_t ordinal)
{
    size_t low = 0;
    size_t high = g->node_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (g->nodes[middle].quality.ordinal < ordinal)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void rank_node(const spsh__policy *policy, spsh__copy_node *n)
{
    const spsh__copy_quality *q = &n->quality;
    size_t preferred = 0;
    while (preferred < policy->prefer_count && policy->prefer[preferred] != q->dataset)
        preferred++;
    n->rank[SPSH__CRITERION_PROTECTED] = !q->is_protected;
    n->rank[SPSH__CRITERION_PREFERRED] = preferred;
    if (policy->keep == SPSH_KEEP_LONGEST)
        n->rank[SPSH__CRITERION_LONGEST] = UINT64_MAX - (uint64_t)(q->sound_seconds * 1e6);
    if (policy->keep != SPSH_KEEP_FIRST) {
        /* Ranks are in steps because the measurements are not exact. The bit rate of a lossless
         * codec does not indicate quality. */
        n->rank[SPSH__CRITERION_LOSSLESS] = !q->is_lossless;
        n->rank[SPSH__CRITERION_BANDWIDTH] = UINT64_MAX - q->bandwidth_hz / 500;
        n->rank[SPSH__CRITERION_BIT_RATE] = q->is_lossless ? 0 : UINT64_MAX - q->payload_bps / 1000;
        n->rank[SPSH__CRITERION_LENGTH] = UINT64_MAX - (uint64_t)(q->sound_seconds * 10);
        n->rank[SPSH__CRITERION_TEXT] = !q->has_text;
        n->rank[SPSH__CRITERION_CLIPPED] = q->clipped_count;
    }
    n->rank[SPSH__CRITERION_ORDER] = q->ordinal;
}

spsh__criterion spsh__copy_first_difference(const spsh__copy_node *left,
                                            const spsh__copy_node *right)
{
    size_t i = 0;
    while (i + 1 < SPSH__CRITERION_COUNT && left->rank[i] == right->rank[i])
        i++;
    return (spsh__criterion)i;
}

static spsh_status make_nodes(spsh__copy_graph *g, spsh_error *err)
{
    const size_t end_count = 2 * (size_t)g->match_count;
    uint64_t *ordinals = calloc(end_count + 1, sizeof(*ordinals));
    size_t count = 0;
    spsh_status rc = SPSH_OK;
    if (ordinals == NULL)
        return SPSH_NO_MEMORY(err);
    for (size_t i = 0; i < g->match_count; i++) {
        ordinals[2 * i] = g->matches[i].a;
        ordinals[2 * i + 1] = g->matches[i].b;
    }
    qsort(ordinals, end_count, sizeof(*ordinals), spsh__compare_u64);
    for (size_t i = 0; i < end_count; i++) {
        if (count == 0 || ordinals[count - 1] != ordinals[i])
            ordinals[count++] = ordinals[i];
    }
    g->nodes = calloc(count + 1, sizeof(*g->nodes));
    g->places = calloc(end_count + 1, sizeof(*g->places));
    g->is_boilerplate = calloc((size_t)g->match_count + 1, sizeof(*g->is_boilerplate));
    if (g->nodes == NULL || g->places == NULL || g->is_boilerplate == NULL)
        rc = SPSH_NO_MEMORY(err);
    for (size_t i = 0; i < count && rc == SPSH_OK; i++) {
        spsh__copy_node *n = &g->nodes[i];
        n->group = n->equal = n->kept = i;
        n->first_child = n->next_child = SPSH__COPY_NONE;
        n->match = n->equal_match = SPSH_NONE_U64;
        rc = g->source->quality_fn(g->source->user, ordinals[i], &n->quality, err);
        if (rc == SPSH_OK)
            rank_node(g->policy, n);
    }
    g->node_count = count;
    for (size_t i = 0; i < g->match_count && rc == SPSH_OK; i++) {
        g->places[2 * i] = find_node(g, g->matches[i].a);
        g->places[2 * i + 1] = find_node(g, g->matches[i].b);
    }
    free(ordinals);
    return rc;
}

/* ---- links ---- */

bool spsh__copy_link_add(spsh__copy_links *list, size_t x, size_t y, uint64_t match)
{
    if (!SPSH_GROW(list->items, list->capacity, list->count + 1))
        return false;
    list->items[list->count++] = (spsh__copy_link){x, y, match};
    return true;
}

static int compare_links(const void *left, const void *right)
{
    const spsh__copy_link *l = left;
    const spsh__copy_link *r = right;
    if (l->x != r->x)
        return l->x < r->x ? -1 : 1;
    if (l->y != r->y)
        return l->y < r->y ? -1 : 1;
    return (l->match > r->match) - (l->match < r->match);
}

void spsh__copy_links_sort(spsh__copy_links *list)
{
    if (list->count > 1)
        qsort(list->items, list->count, sizeof(*list->items), compare_links);
}

size_t spsh__copy_link_lower(const spsh__copy_links *list, size_t x, size_t y)
{
    size_t low = 0;
    size_t high = list->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const spsh__copy_link *l = &list->items[middle];
        if (l->x < x || (l->x == x && l->y < y))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const spsh__copy_link *spsh__copy_link_find(const spsh__copy_links *list, size_t x, size_t y)
{
    const size_t at = spsh__copy_link_lower(list, x, y);
    return at < list->count && list->items[at].x == x && list->items[at].y == y ? &list->items[at]
                                                                                : NULL;
}

static size_t group_of(spsh__copy_graph *g, size_t at)
{
    while (g->nodes[at].group != at) {
        g->nodes[at].group = g->nodes[g->nodes[at].group].group;
        at = g->nodes[at].group;
    }
    return at;
}

static void join_groups(spsh__copy_graph *g, size_t left, size_t right)
{
    left = group_of(g, left);
    right = group_of(g, right);
    if (left < right)
        g->nodes[right].group = left;
    else
        g->nodes[left].group = right;
}

bool spsh__match_is_same(const spsh__match *m)
{
    return spsh__tier_may_drop(m->tier) && m->kind == SPSH_COPY_SAME_RECORDING;
}

bool spsh__match_is_contained(const spsh__match *m)
{
    return spsh__tier_may_drop(m->tier) && m->kind == SPSH_COPY_CONTAINED;
}

bool spsh__match_is_equal(const spsh__match *m)
{
    return spsh__match_is_same(m) &&
           (m->tier == SPSH_TIER_PCM ||
            (m->tier == SPSH_TIER_BYTES && m->coverage_a >= 1 && m->coverage_b >= 1));
}

/* Whether a is the part. The part is the side with the higher coverage, or the shorter side if the
 * coverages are equal. */
static bool a_is_part(const spsh__copy_graph *g, size_t match, size_t a, size_t b)
{
    const spsh__match *m = &g->matches[match];
    if (m->coverage_a != m->coverage_b)
        return m->coverage_a > m->coverage_b;
    return g->nodes[a].quality.seconds < g->nodes[b].quality.seconds;
}

static bool link_match(spsh__copy_graph *g, size_t i)
{
    const spsh__match *m = &g->matches[i];
    const size_t a = g->nodes[g->places[2 * i]].equal;
    const size_t b = g->nodes[g->places[2 * i + 1]].equal;
    if (spsh__match_is_same(m))
        return spsh__copy_link_add(&g->same, a, b, i) && spsh__copy_link_add(&g->same, b, a, i);
    if (!spsh__match_is_contained(m) || g->is_boilerplate[i])
        return true;
    const bool a_part = a_is_part(g, i, g->places[2 * i], g->places[2 * i + 1]);
    const size_t part = a_part ? a : b;
    const size_t whole = a_part ? b : a;
    return spsh__copy_link_add(&g->by_part, part, whole, i) &&
           spsh__copy_link_add(&g->by_whole, whole, part, i);
}

static void join_nodes(spsh__copy_graph *g)
{
    for (size_t i = 0; i < g->match_count; i++) {
        const size_t a = g->places[2 * i];
        const size_t b = g->places[2 * i + 1];
        if (!spsh__match_is_same(&g->matches[i]))
            continue;
        join_groups(g, a, b);
        /* The exact tiers match each member of a group with the first member, so one step finds the
         * root. */
        if (spsh__match_is_equal(&g->matches[i]) && g->nodes[b].equal == b) {
            g->nodes[b].equal = g->nodes[a].equal;
            g->nodes[b].equal_match = i;
        }
    }
    for (size_t i = 0; i < g->node_count; i++)
        g->nodes[i].group = group_of(g, i);
}

static spsh_status find_boilerplate(spsh__copy_graph *g, spsh_error *err)
{
    size_t count = 0;
    spsh__partial *partials = calloc((size_t)g->match_count + 1, sizeof(*partials));
    if (partials == NULL)
        return SPSH_NO_MEMORY(err);
    for (size_t i = 0; i < g->match_count; i++) {
        const spsh__match *m = &g->matches[i];
        const size_t a = g->places[2 * i];
        const size_t b = g->places[2 * i + 1];
        if (m->tier <= SPSH_TIER_ACOUSTIC &&
            (m->kind == SPSH_COPY_SHARED_SEGMENT || m->kind == SPSH_COPY_CONTAINED))
            partials[count++] =
                (spsh__partial){i, a, b, g->nodes[a].group, g->nodes[b].group, false};
    }
    const uint64_t count_min = g->policy->boilerplate_min < 2 ? 2 : g->policy->boilerplate_min;
    spsh_status rc = spsh__boilerplate_find(g->matches, partials, count, count_min, &g->boilerplate,
                                            &g->boilerplate_count, err);
    for (size_t i = 0; i < count && rc == SPSH_OK; i++)
        g->is_boilerplate[partials[i].match] = partials[i].is_boilerplate;
    free(partials);
    return rc;
}

static spsh_status make_links(spsh__copy_graph *g, spsh_error *err)
{
    for (size_t i = 0; i < g->match_count; i++) {
        if (!link_match(g, i))
            return SPSH_NO_MEMORY(err);
    }
    spsh__copy_links_sort(&g->same);
    spsh__copy_links_sort(&g->by_part);
    spsh__copy_links_sort(&g->by_whole);
    return SPSH_OK;
}

spsh_status spsh__copy_graph_make(spsh__copy_graph *g, spsh_error *err)
{
    spsh_status rc = make_nodes(g, err);
    if (rc != SPSH_OK)
        return rc;
    join_nodes(g);
    rc = find_boilerplate(g, err);
    return rc == SPSH_OK ? make_links(g, err) : rc;
}

void spsh__copy_graph_free(spsh__copy_graph *g)
{
    free(g->nodes);
    free(g->places);
    free(g->is_boilerplate);
    free(g->same.items);
    free(g->by_part.items);
    free(g->by_whole.items);
    free(g->checked);
    free(g->boilerplate);
}
