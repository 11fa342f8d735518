/* clusters.c: which member of a cluster stays, and what is proven of the others.
 *
 *     1. Utterances with matches become nodes; same_recording matches join them (union-find).
 *     2. Of each component the best by the policy stays. Every other member needs a proof: a match
 *        with the one that stays, or a check of the two. Utterances with equal samples stand for
 *        each other, as the exact tiers match all members of a group with its first one only.
 *     3. What lies inside another recording is decided among those that are left: longest first
 *        where the long one is kept, shortest first where the parts are, so that what a decision
 *        rests on has been decided before. A node with copies of its own goes only if all of them
 *        are proven against the new one.
 *     4. What is left over and linked by something that never drops gets a tag.
 *
 * Every order used here is that of ranks and ordinals, so the result depends on the matches alone.
 */
#include "clusters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boilerplate.h"
#include "common/grow.h"
#include "common/tools_fail.h"

#define NONE            SIZE_MAX
#define PARTS_SHARE_MIN 0.95 /* of a recording's active speech in parts, for it to go */

/* What one member has over another, strongest first; a rank is compared in this order. */
#define CRITERION_MAP(X)                                                                           \
    X(PROTECTED, "its split is protected", "of a split that may lose copies")                      \
    X(PREFERRED, "of a preferred dataset", "of a less preferred dataset")                          \
    X(LONGEST, "longest", "shorter")                                                               \
    X(LOSSLESS, "lossless", "lossy")                                                               \
    X(BANDWIDTH, "higher bandwidth", "lower bandwidth")                                            \
    X(BIT_RATE, "higher bit rate", "lower bit rate")                                               \
    X(LENGTH, "longer", "shorter")                                                                 \
    X(TEXT, "has a transcript", "no transcript")                                                   \
    X(CLIPPED, "fewer clipped samples", "more clipped samples")                                    \
    X(ORDER, "first of equals", "later of equals")

typedef enum criterion {
#define SPSH_X(name_, better_, worse_) CRITERION_##name_,
    CRITERION_MAP(SPSH_X)
#undef SPSH_X
        CRITERION_COUNT
} criterion;

static const char *const better_words[] = {
#define SPSH_X(name_, better_, worse_) better_,
    CRITERION_MAP(SPSH_X)
#undef SPSH_X
};
static const char *const worse_words[] = {
#define SPSH_X(name_, better_, worse_) worse_,
    CRITERION_MAP(SPSH_X)
#undef SPSH_X
};

typedef struct node {
    spsh__copy_quality quality;
    uint64_t rank[CRITERION_COUNT]; /* lower is better */
    size_t group;                   /* root of its component */
    size_t equal;                   /* root of those with equal samples */
    uint64_t equal_match;           /* with that root */
    size_t kept;                    /* what it belongs to; itself while it stays */
    size_t first_child, next_child; /* those that belong to it */
    uint64_t match;
    spsh__decision decision;
    char reason[64];
} node;

/* Two groups of equal samples and a match between them; for contained: part, then whole. */
typedef struct link {
    size_t x, y;
    uint64_t match;
} link;

typedef struct links {
    link *items;
    size_t count, capacity;
} links;

typedef struct work {
    const spsh__match *matches;
    uint64_t match_count;
    const spsh__policy *policy;
    spsh__pair_check check;
    const spsh__quality_source *source;
    node *nodes; /* by ordinal */
    size_t node_count;
    size_t *places;          /* nodes of match i's a and b, at 2 i and 2 i + 1 */
    bool *is_boilerplate;    /* a match */
    links same;              /* both ways */
    links by_part, by_whole; /* contained; the latter with x the whole */
    spsh__match *checked;
    size_t checked_count, checked_capacity;
    spsh__boilerplate *boilerplate;
    size_t boilerplate_count;
} work;

const char *spsh__decision_text(spsh__decision decision)
{
    static const char *const texts[SPSH__DECISION_COUNT] = {"keep", "drop", "tag", "protected",
                                                            "unproven"};
    return decision < SPSH__DECISION_COUNT ? texts[decision] : "unknown";
}

/* ---- nodes ---- */

static int compare_u64(const void *left, const void *right)
{
    uint64_t l = 0;
    uint64_t r = 0;
    memcpy(&l, left, sizeof(l));
    memcpy(&r, right, sizeof(r));
    return (l > r) - (l < r);
}

static size_t find_node(const work *w, uint64_t ordinal)
{
    size_t low = 0;
    size_t high = w->node_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (w->nodes[middle].quality.ordinal < ordinal)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void rank_node(const spsh__policy *policy, node *n)
{
    const spsh__copy_quality *q = &n->quality;
    size_t preferred = 0;
    while (preferred < policy->prefer_count && policy->prefer[preferred] != q->dataset)
        preferred++;
    n->rank[CRITERION_PROTECTED] = !q->is_protected;
    n->rank[CRITERION_PREFERRED] = preferred;
    if (policy->keep == SPSH__KEEP_LONGEST)
        n->rank[CRITERION_LONGEST] = UINT64_MAX - (uint64_t)(q->sound_seconds * 1e6);
    if (policy->keep != SPSH__KEEP_FIRST) {
        /* In steps, since what was measured is not exact; bit rates of lossless codecs say nothing
         * of quality. */
        n->rank[CRITERION_LOSSLESS] = !q->is_lossless;
        n->rank[CRITERION_BANDWIDTH] = UINT64_MAX - q->bandwidth_hz / 500;
        n->rank[CRITERION_BIT_RATE] = q->is_lossless ? 0 : UINT64_MAX - q->payload_bps / 1000;
        n->rank[CRITERION_LENGTH] = UINT64_MAX - (uint64_t)(q->sound_seconds * 10);
        n->rank[CRITERION_TEXT] = !q->has_text;
        n->rank[CRITERION_CLIPPED] = q->clipped_count;
    }
    n->rank[CRITERION_ORDER] = q->ordinal;
}

static criterion first_difference(const node *left, const node *right)
{
    size_t i = 0;
    while (i + 1 < CRITERION_COUNT && left->rank[i] == right->rank[i])
        i++;
    return (criterion)i;
}

static bool is_better(const node *left, const node *right)
{
    const criterion c = first_difference(left, right);
    return left->rank[c] < right->rank[c];
}

static spsh_status make_nodes(work *w, spsh_error *err)
{
    const size_t end_count = 2 * (size_t)w->match_count;
    uint64_t *ordinals = calloc(end_count + 1, sizeof(*ordinals));
    size_t count = 0;
    spsh_status rc = SPSH_OK;
    if (ordinals == NULL)
        return SPSH_TOOLS_NO_MEMORY(err);
    for (size_t i = 0; i < w->match_count; i++) {
        ordinals[2 * i] = w->matches[i].a;
        ordinals[2 * i + 1] = w->matches[i].b;
    }
    qsort(ordinals, end_count, sizeof(*ordinals), compare_u64);
    for (size_t i = 0; i < end_count; i++) {
        if (count == 0 || ordinals[count - 1] != ordinals[i])
            ordinals[count++] = ordinals[i];
    }
    w->nodes = calloc(count + 1, sizeof(*w->nodes));
    w->places = calloc(end_count + 1, sizeof(*w->places));
    w->is_boilerplate = calloc((size_t)w->match_count + 1, sizeof(*w->is_boilerplate));
    if (w->nodes == NULL || w->places == NULL || w->is_boilerplate == NULL)
        rc = SPSH_TOOLS_NO_MEMORY(err);
    for (size_t i = 0; i < count && rc == SPSH_OK; i++) {
        node *n = &w->nodes[i];
        n->group = n->equal = n->kept = i;
        n->first_child = n->next_child = NONE;
        n->match = n->equal_match = SPSH_NONE_U64;
        rc = w->source->quality_fn(w->source->user, ordinals[i], &n->quality, err);
        if (rc == SPSH_OK)
            rank_node(w->policy, n);
    }
    w->node_count = count;
    for (size_t i = 0; i < w->match_count && rc == SPSH_OK; i++) {
        w->places[2 * i] = find_node(w, w->matches[i].a);
        w->places[2 * i + 1] = find_node(w, w->matches[i].b);
    }
    free(ordinals);
    return rc;
}

/* ---- links ---- */

static bool add_link(links *list, size_t x, size_t y, uint64_t match)
{
    link *items = spsh__grow(list->items, &list->capacity, list->count + 1, sizeof(*items));
    if (items == NULL)
        return false;
    list->items = items;
    list->items[list->count++] = (link){x, y, match};
    return true;
}

static int compare_links(const void *left, const void *right)
{
    const link *l = left;
    const link *r = right;
    if (l->x != r->x)
        return l->x < r->x ? -1 : 1;
    if (l->y != r->y)
        return l->y < r->y ? -1 : 1;
    return (l->match > r->match) - (l->match < r->match);
}

static void sort_links(links *list)
{
    if (list->count > 1)
        qsort(list->items, list->count, sizeof(*list->items), compare_links);
}

/* The first link that is not before (x, y). */
static size_t lower_link(const links *list, size_t x, size_t y)
{
    size_t low = 0;
    size_t high = list->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const link *l = &list->items[middle];
        if (l->x < x || (l->x == x && l->y < y))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const link *find_link(const links *list, size_t x, size_t y)
{
    const size_t at = lower_link(list, x, y);
    return at < list->count && list->items[at].x == x && list->items[at].y == y ? &list->items[at]
                                                                                : NULL;
}

static size_t group_of(work *w, size_t at)
{
    while (w->nodes[at].group != at) {
        w->nodes[at].group = w->nodes[w->nodes[at].group].group;
        at = w->nodes[at].group;
    }
    return at;
}

static void join_groups(work *w, size_t left, size_t right)
{
    left = group_of(w, left);
    right = group_of(w, right);
    if (left < right)
        w->nodes[right].group = left;
    else
        w->nodes[left].group = right;
}

static bool is_same(const spsh__match *m)
{
    return spsh__tier_may_drop(m->tier) && m->kind == SPSH__ALIGN_SAME_RECORDING;
}

static bool is_contained(const spsh__match *m)
{
    return spsh__tier_may_drop(m->tier) && m->kind == SPSH__ALIGN_CONTAINED;
}

/* Equal samples, so that whatever is proven of one holds for the other. */
static bool is_equal(const spsh__match *m)
{
    return is_same(m) && (m->tier == SPSH__TIER_PCM || (m->tier == SPSH__TIER_BYTES &&
                                                        m->coverage_a >= 1 && m->coverage_b >= 1));
}

/* Is a the part? The one of which more is covered; of two alike the shorter. */
static bool a_is_part(const work *w, size_t match, size_t a, size_t b)
{
    const spsh__match *m = &w->matches[match];
    if (m->coverage_a != m->coverage_b)
        return m->coverage_a > m->coverage_b;
    return w->nodes[a].quality.seconds < w->nodes[b].quality.seconds;
}

static bool link_match(work *w, size_t i)
{
    const spsh__match *m = &w->matches[i];
    const size_t a = w->nodes[w->places[2 * i]].equal;
    const size_t b = w->nodes[w->places[2 * i + 1]].equal;
    if (is_same(m))
        return add_link(&w->same, a, b, i) && add_link(&w->same, b, a, i);
    if (!is_contained(m) || w->is_boilerplate[i])
        return true;
    const bool a_part = a_is_part(w, i, w->places[2 * i], w->places[2 * i + 1]);
    const size_t part = a_part ? a : b;
    const size_t whole = a_part ? b : a;
    return add_link(&w->by_part, part, whole, i) && add_link(&w->by_whole, whole, part, i);
}

static void join_nodes(work *w)
{
    for (size_t i = 0; i < w->match_count; i++) {
        const size_t a = w->places[2 * i];
        const size_t b = w->places[2 * i + 1];
        if (!is_same(&w->matches[i]))
            continue;
        join_groups(w, a, b);
        /* Members of an exact group are matched with its first one: one step is enough. */
        if (is_equal(&w->matches[i]) && w->nodes[b].equal == b) {
            w->nodes[b].equal = w->nodes[a].equal;
            w->nodes[b].equal_match = i;
        }
    }
    for (size_t i = 0; i < w->node_count; i++)
        w->nodes[i].group = group_of(w, i);
}

static spsh_status find_boilerplate(work *w, spsh_error *err)
{
    size_t count = 0;
    spsh__partial *partials = calloc((size_t)w->match_count + 1, sizeof(*partials));
    if (partials == NULL)
        return SPSH_TOOLS_NO_MEMORY(err);
    for (size_t i = 0; i < w->match_count; i++) {
        const spsh__match *m = &w->matches[i];
        const size_t a = w->places[2 * i];
        const size_t b = w->places[2 * i + 1];
        if (m->tier <= SPSH__TIER_ACOUSTIC &&
            (m->kind == SPSH__ALIGN_SHARED_SEGMENT || m->kind == SPSH__ALIGN_CONTAINED))
            partials[count++] =
                (spsh__partial){i, a, b, w->nodes[a].group, w->nodes[b].group, false};
    }
    const uint64_t count_min = w->policy->boilerplate_min < 2 ? 2 : w->policy->boilerplate_min;
    spsh_status rc = spsh__boilerplate_find(w->matches, partials, count, count_min, &w->boilerplate,
                                            &w->boilerplate_count, err);
    for (size_t i = 0; i < count && rc == SPSH_OK; i++)
        w->is_boilerplate[partials[i].match] = partials[i].is_boilerplate;
    free(partials);
    return rc;
}

static spsh_status make_links(work *w, spsh_error *err)
{
    for (size_t i = 0; i < w->match_count; i++) {
        if (!link_match(w, i))
            return SPSH_TOOLS_NO_MEMORY(err);
    }
    sort_links(&w->same);
    sort_links(&w->by_part);
    sort_links(&w->by_whole);
    return SPSH_OK;
}

/* ---- proofs ---- */

/* Takes what a check finds if it says what was asked for. */
typedef struct found {
    spsh__align_class kind_max; /* SAME_RECORDING, or CONTAINED: then either will do */
    uint64_t part;              /* ordinal; of CONTAINED */
    bool is_found;
    spsh__match match;
} found;

static spsh_status take_match(void *user, const spsh__match *match, spsh_error *err)
{
    found *f = user;
    (void)err;
    bool is_it = is_same(match);
    if (f->kind_max == SPSH__ALIGN_CONTAINED && is_contained(match))
        is_it = (match->coverage_a > match->coverage_b ? match->a : match->b) == f->part;
    if (is_it && !f->is_found) {
        f->is_found = true;
        f->match = *match;
    }
    return SPSH_OK;
}

static spsh_status check_pair(work *w, size_t part, size_t whole, spsh__align_class kind_max,
                              uint64_t *ret_match, spsh_error *err)
{
    const uint64_t a = w->nodes[part].quality.ordinal;
    const uint64_t b = w->nodes[whole].quality.ordinal;
    found f = {.kind_max = kind_max, .part = a};
    if (w->check.pair_fn == NULL)
        return SPSH_OK;
    spsh_status rc = w->check.pair_fn(w->check.user, a < b ? a : b, a < b ? b : a,
                                      (spsh__match_sink){take_match, &f}, err);
    if (rc != SPSH_OK || !f.is_found)
        return rc;
    spsh__match *checked =
        spsh__grow(w->checked, &w->checked_capacity, w->checked_count + 1, sizeof(*checked));
    if (checked == NULL)
        return SPSH_TOOLS_NO_MEMORY(err);
    w->checked = checked;
    *ret_match = w->match_count + w->checked_count;
    w->checked[w->checked_count++] = f.match;
    return SPSH_OK;
}

/* *ret_match: SPSH_NONE_U64 when it is not proven. */
static spsh_status prove_same(work *w, size_t member, size_t kept, uint64_t *ret_match,
                              spsh_error *err)
{
    const node *m = &w->nodes[member];
    const node *k = &w->nodes[kept];
    *ret_match = SPSH_NONE_U64;
    if (m->equal == k->equal) {
        *ret_match = m->equal_match != SPSH_NONE_U64 ? m->equal_match : k->equal_match;
        return SPSH_OK;
    }
    const link *l = find_link(&w->same, m->equal, k->equal);
    if (l != NULL) {
        *ret_match = l->match;
        return SPSH_OK;
    }
    return check_pair(w, member, kept, SPSH__ALIGN_SAME_RECORDING, ret_match, err);
}

static spsh_status prove_inside(work *w, size_t part, size_t whole, uint64_t *ret_match,
                                spsh_error *err)
{
    const size_t x = w->nodes[part].equal;
    const size_t y = w->nodes[whole].equal;
    const link *l = find_link(&w->by_part, x, y);
    *ret_match = SPSH_NONE_U64;
    if (l == NULL)
        l = find_link(&w->same, x, y);
    if (l != NULL) {
        *ret_match = l->match;
        return SPSH_OK;
    }
    return check_pair(w, part, whole, SPSH__ALIGN_CONTAINED, ret_match, err);
}

/* What it belongs to in the end. */
static size_t keeper(const work *w, size_t at)
{
    while (w->nodes[at].kept != at)
        at = w->nodes[at].kept;
    return at;
}

static void set_reason(node *n, const char *reason)
{
    (void)snprintf(n->reason, sizeof(n->reason), "%s", reason);
}

static void attach(work *w, size_t child, size_t kept, spsh__decision decision, uint64_t match)
{
    node *c = &w->nodes[child];
    c->kept = kept;
    c->decision = decision;
    c->match = match;
    c->next_child = w->nodes[kept].first_child;
    w->nodes[kept].first_child = child;
}

/* ---- the same recording ---- */

static int compare_members(const void *left, const void *right)
{
    const node *const *l = left;
    const node *const *r = right;
    if ((*l)->group != (*r)->group)
        return (*l)->group < (*r)->group ? -1 : 1;
    return is_better(*l, *r) ? -1 : 1;
}

static spsh_status decide_group(work *w, node *const *members, size_t count, spsh_error *err)
{
    const size_t kept = (size_t)(members[0] - w->nodes);
    set_reason(members[0], better_words[first_difference(members[0], members[1])]);
    for (size_t i = 1; i < count; i++) {
        uint64_t match = SPSH_NONE_U64;
        spsh_status rc = prove_same(w, (size_t)(members[i] - w->nodes), kept, &match, err);
        if (rc != SPSH_OK)
            return rc;
        spsh__decision decision = SPSH__DECISION_DROP;
        set_reason(members[i], worse_words[first_difference(members[0], members[i])]);
        if (match == SPSH_NONE_U64) {
            decision = SPSH__DECISION_UNPROVEN;
            set_reason(members[i], "not proven against the kept one");
        } else if (members[i]->quality.is_protected) {
            decision = SPSH__DECISION_PROTECTED;
            set_reason(members[i], "its split is protected");
        }
        attach(w, (size_t)(members[i] - w->nodes), kept, decision, match);
    }
    return SPSH_OK;
}

static spsh_status decide_same(work *w, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    node **order = calloc(w->node_count + 1, sizeof(node *));
    if (order == NULL)
        return SPSH_TOOLS_NO_MEMORY(err);
    for (size_t i = 0; i < w->node_count; i++)
        order[i] = &w->nodes[i];
    qsort(order, w->node_count, sizeof(node *), compare_members);
    for (size_t first = 0; first < w->node_count && rc == SPSH_OK;) {
        size_t end = first + 1;
        while (end < w->node_count && order[end]->group == order[first]->group)
            end++;
        if (end - first > 1)
            rc = decide_group(w, order + first, end - first, err);
        first = end;
    }
    free(order);
    return rc;
}

/* ---- one inside the other ---- */

static int compare_longest(const void *left, const void *right)
{
    const node *const *l = left;
    const node *const *r = right;
    if ((*l)->quality.seconds != (*r)->quality.seconds)
        return (*l)->quality.seconds > (*r)->quality.seconds ? -1 : 1;
    return (*l)->quality.ordinal < (*r)->quality.ordinal ? -1 : 1;
}

/* Why one stays that no group has chosen. */
static void set_kept_reason(node *n, const char *reason)
{
    if (n->reason[0] == '\0')
        set_reason(n, reason);
}

/* Moves a node that goes, and all that belongs to it, to another one. */
static void move_family(work *w, size_t from, size_t to, uint64_t match, const char *reason)
{
    node *n = &w->nodes[from];
    size_t child = n->first_child;
    n->first_child = NONE;
    while (child != NONE) {
        const size_t next = w->nodes[child].next_child;
        attach(w, child, to, w->nodes[child].decision, w->nodes[child].match);
        child = next;
    }
    attach(w, from, to, SPSH__DECISION_DROP, match);
    set_reason(n, reason);
}

/* Puts the part into the whole, if each of its dropped copies is inside it as well. */
static spsh_status try_whole(work *w, size_t part, size_t whole, bool *ret_done, spsh_error *err)
{
    uint64_t match = SPSH_NONE_U64;
    *ret_done = false;
    spsh_status rc = prove_inside(w, part, whole, &match, err);
    if (rc != SPSH_OK || match == SPSH_NONE_U64)
        return rc;
    if (w->nodes[part].quality.is_protected) {
        if (w->nodes[part].first_child != NONE)
            return SPSH_OK;
        attach(w, part, whole, SPSH__DECISION_PROTECTED, match);
        set_reason(&w->nodes[part], "its split is protected");
        set_kept_reason(&w->nodes[whole], "longer");
        *ret_done = true;
        return SPSH_OK;
    }
    for (size_t c = w->nodes[part].first_child; c != NONE; c = w->nodes[c].next_child) {
        uint64_t proof = SPSH_NONE_U64;
        if (w->nodes[c].decision != SPSH__DECISION_DROP)
            continue;
        rc = prove_inside(w, c, whole, &proof, err);
        if (rc != SPSH_OK || proof == SPSH_NONE_U64)
            return rc;
        w->nodes[c].match = proof;
    }
    move_family(w, part, whole, match, "lies inside it");
    set_kept_reason(&w->nodes[whole], "longer");
    *ret_done = true;
    return SPSH_OK;
}

static spsh_status decide_part(work *w, size_t part, spsh_error *err)
{
    const size_t x = w->nodes[part].equal;
    bool done = false;
    spsh_status rc = SPSH_OK;
    for (size_t at = lower_link(&w->by_part, x, 0);
         rc == SPSH_OK && !done && at < w->by_part.count && w->by_part.items[at].x == x; at++) {
        const size_t whole = keeper(w, w->by_part.items[at].y);
        if (w->nodes[whole].group != w->nodes[part].group)
            rc = try_whole(w, part, whole, &done, err);
    }
    return rc;
}

static int compare_stretches(const void *left, const void *right)
{
    const spsh__copy_stretch *l = left;
    const spsh__copy_stretch *r = right;
    if (l->first_s != r->first_s)
        return l->first_s < r->first_s ? -1 : 1;
    return (l->seconds > r->seconds) - (l->seconds < r->seconds);
}

/* The part that is kept in place of a whole: the longest. */
typedef struct best_part {
    size_t part;
    uint64_t match;
    double seconds;
} best_part;

static spsh__copy_stretch stretch_in(const work *w, uint64_t match, size_t whole)
{
    const spsh__match *m =
        match < w->match_count ? &w->matches[match] : &w->checked[match - w->match_count];
    const double rate = m->rate_hz == 0 ? 8000 : (double)m->rate_hz;
    /* The whole may stand for its equal: then it is the side of which less is covered. */
    const uint64_t ordinal = w->nodes[whole].quality.ordinal;
    const bool is_a = m->a == ordinal || (m->b != ordinal && m->coverage_a < m->coverage_b);
    return (spsh__copy_stretch){(double)(is_a ? m->a_first : m->b_first) / rate,
                                (double)m->count / rate};
}

/* Is all active speech of the whole in parts that stay? Their longest in *ret_best. */
static spsh_status cover_whole(work *w, size_t whole, bool *ret_covered, best_part *ret_best,
                               spsh_error *err)
{
    const size_t x = w->nodes[whole].equal;
    const size_t first = lower_link(&w->by_whole, x, 0);
    size_t end = first;
    size_t count = 0;
    double share = 0;
    spsh_status rc = SPSH_OK;
    while (end < w->by_whole.count && w->by_whole.items[end].x == x)
        end++;
    *ret_covered = false;
    *ret_best = (best_part){NONE, SPSH_NONE_U64, 0};
    spsh__copy_stretch *stretches = calloc(end - first + 1, sizeof(*stretches));
    if (stretches == NULL)
        return SPSH_TOOLS_NO_MEMORY(err);
    for (size_t at = first; at < end && rc == SPSH_OK; at++) {
        const size_t part = keeper(w, w->by_whole.items[at].y);
        uint64_t match = w->by_whole.items[at].match;
        if (w->nodes[part].group == w->nodes[whole].group)
            continue;
        if (w->nodes[part].equal != w->by_whole.items[at].y)
            rc = prove_inside(w, part, whole, &match, err);
        if (rc != SPSH_OK || match == SPSH_NONE_U64)
            continue;
        stretches[count] = stretch_in(w, match, whole);
        if (stretches[count].seconds > ret_best->seconds)
            *ret_best = (best_part){part, match, stretches[count].seconds};
        count++;
    }
    if (rc == SPSH_OK && ret_best->part != NONE) {
        qsort(stretches, count, sizeof(*stretches), compare_stretches);
        rc = w->source->covered_fn(w->source->user, w->nodes[whole].quality.ordinal, stretches,
                                   count, &share, err);
        *ret_covered = share >= PARTS_SHARE_MIN;
    }
    free(stretches);
    return rc;
}

static spsh_status decide_whole(work *w, size_t whole, spsh_error *err)
{
    best_part best;
    bool covered = false;
    if (w->nodes[whole].quality.is_protected)
        return SPSH_OK;
    spsh_status rc = cover_whole(w, whole, &covered, &best, err);
    if (rc != SPSH_OK || !covered)
        return rc;
    for (size_t c = w->nodes[whole].first_child; c != NONE; c = w->nodes[c].next_child) {
        best_part other;
        if (w->nodes[c].decision != SPSH__DECISION_DROP)
            continue;
        rc = cover_whole(w, c, &covered, &other, err);
        if (rc != SPSH_OK || !covered)
            return rc;
        w->nodes[c].match = other.match;
    }
    move_family(w, whole, best.part, best.match, "all of its speech is in parts that stay");
    set_kept_reason(&w->nodes[best.part], "the longest part of it");
    return SPSH_OK;
}

static spsh_status decide_contained(work *w, node *const *longest_first, spsh_error *err)
{
    const bool keep_long = w->policy->contained == SPSH__CONTAINED_KEEP_LONG;
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < w->node_count && rc == SPSH_OK; i++) {
        const node *n = longest_first[keep_long ? i : w->node_count - 1 - i];
        const size_t at = (size_t)(n - w->nodes);
        if (n->kept != at)
            continue;
        rc = keep_long ? decide_part(w, at, err) : decide_whole(w, at, err);
    }
    return rc;
}

/* ---- tags ---- */

static const char *tag_word(const spsh__match *m)
{
    switch (m->kind) {
    case SPSH__ALIGN_CONTAINED: return "lies inside it";
    case SPSH__ALIGN_TIME_SCALED: return "the same at another speed";
    case SPSH__ALIGN_PROBABLE_COPY: return "probably a copy: for people to judge";
    case SPSH__ALIGN_SAME_PERFORMANCE: return "the same performance, another microphone";
    default: return NULL;
    }
}

static spsh_status list_tags(work *w, links *tags, spsh_error *err)
{
    for (size_t i = 0; i < w->match_count; i++) {
        const size_t a = w->places[2 * i];
        const size_t b = w->places[2 * i + 1];
        if (w->matches[i].tier > SPSH__TIER_SCALED || tag_word(&w->matches[i]) == NULL ||
            w->is_boilerplate[i] || w->nodes[a].group == w->nodes[b].group)
            continue;
        if (!add_link(tags, a, b, i) || !add_link(tags, b, a, i))
            return SPSH_TOOLS_NO_MEMORY(err);
    }
    sort_links(tags);
    return SPSH_OK;
}

/* Longest first: a node is tagged for one that comes before it and has no tag itself. */
static spsh_status decide_tags(work *w, node *const *longest_first, spsh_error *err)
{
    links tags = {NULL, 0, 0};
    bool *is_seen = calloc(w->node_count + 1, sizeof(*is_seen));
    spsh_status rc = is_seen == NULL ? SPSH_TOOLS_NO_MEMORY(err) : list_tags(w, &tags, err);
    for (size_t i = 0; i < w->node_count && rc == SPSH_OK; i++) {
        const size_t at = (size_t)(longest_first[i] - w->nodes);
        node *n = &w->nodes[at];
        is_seen[at] = true;
        if (n->kept != at || n->first_child != NONE)
            continue;
        const link *best = NULL;
        for (size_t k = lower_link(&tags, at, 0); k < tags.count && tags.items[k].x == at; k++) {
            const link *l = &tags.items[k];
            if (!is_seen[l->y] || w->nodes[l->y].kept != l->y)
                continue;
            if (best == NULL || w->matches[l->match].kind < w->matches[best->match].kind)
                best = l;
        }
        if (best != NULL) {
            attach(w, at, best->y, SPSH__DECISION_TAG, best->match);
            set_reason(n, tag_word(&w->matches[best->match]));
            set_kept_reason(&w->nodes[best->y], "longer");
        }
    }
    free(is_seen);
    free(tags.items);
    return rc;
}

/* ---- the result ---- */

static int compare_ordinals(const void *left, const void *right)
{
    const spsh__member *l = left;
    const spsh__member *r = right;
    return (l->ordinal > r->ordinal) - (l->ordinal < r->ordinal);
}

static void add_member(const work *w, size_t at, spsh__clusters *result)
{
    const node *n = &w->nodes[at];
    spsh__member *m = &result->members[result->member_count++];
    *m = (spsh__member){n->quality.ordinal, n->decision, n->match, {0}};
    memcpy(m->reason, n->reason, sizeof(m->reason));
}

static void add_cluster(const work *w, size_t kept, spsh__clusters *result)
{
    const node *k = &w->nodes[kept];
    spsh__copy_cluster *cluster = &result->clusters[result->cluster_count++];
    const uint64_t first = result->member_count;
    uint64_t text = k->quality.text_hash;
    *cluster = (spsh__copy_cluster){.first_member = first};
    add_member(w, kept, result);
    for (size_t c = k->first_child; c != NONE; c = w->nodes[c].next_child) {
        const node *n = &w->nodes[c];
        add_member(w, c, result);
        if (n->decision == SPSH__DECISION_DROP) {
            cluster->saved_seconds += n->quality.seconds;
            cluster->saved_bytes += n->quality.bytes;
        }
        if (n->quality.text_hash == 0 || n->group != k->group)
            continue;
        cluster->texts_differ =
            cluster->texts_differ || (text != 0 && text != n->quality.text_hash);
        text = n->quality.text_hash;
    }
    cluster->member_count = result->member_count - first;
    qsort(result->members + first + 1, (size_t)cluster->member_count - 1, sizeof(spsh__member),
          compare_ordinals);
}

static spsh_status make_result(work *w, spsh__clusters *ret_clusters, spsh_error *err)
{
    spsh__clusters result = {0};
    result.clusters = calloc(w->node_count + 1, sizeof(*result.clusters));
    result.members = calloc(w->node_count + 1, sizeof(*result.members));
    if (result.clusters == NULL || result.members == NULL) {
        spsh__clusters_free(&result);
        return SPSH_TOOLS_NO_MEMORY(err);
    }
    for (size_t i = 0; i < w->node_count; i++) {
        if (w->nodes[i].kept == i && w->nodes[i].first_child != NONE)
            add_cluster(w, i, &result);
    }
    result.checked = w->checked;
    result.checked_count = w->checked_count;
    result.boilerplate = w->boilerplate;
    result.boilerplate_count = w->boilerplate_count;
    w->checked = NULL;
    w->boilerplate = NULL;
    *ret_clusters = result;
    return SPSH_OK;
}

static spsh_status decide(work *w, spsh_error *err)
{
    node **longest_first = NULL;
    spsh_status rc = make_nodes(w, err);
    if (rc != SPSH_OK)
        return rc;
    join_nodes(w);
    rc = find_boilerplate(w, err);
    if (rc == SPSH_OK)
        rc = make_links(w, err);
    if (rc == SPSH_OK)
        rc = decide_same(w, err);
    longest_first = calloc(w->node_count + 1, sizeof(node *));
    if (longest_first == NULL)
        return SPSH_TOOLS_NO_MEMORY(err);
    for (size_t i = 0; i < w->node_count; i++)
        longest_first[i] = &w->nodes[i];
    qsort(longest_first, w->node_count, sizeof(node *), compare_longest);
    if (rc == SPSH_OK && w->policy->contained != SPSH__CONTAINED_TAG)
        rc = decide_contained(w, longest_first, err);
    if (rc == SPSH_OK)
        rc = decide_tags(w, longest_first, err);
    free(longest_first);
    return rc;
}

spsh_status spsh__clusters_of(const spsh__quality_source *source, const spsh__match *matches,
                              uint64_t match_count, const spsh__policy *policy,
                              spsh__pair_check check, spsh__clusters *ret_clusters, spsh_error *err)
{
    work w = {.matches = matches,
              .match_count = match_count,
              .policy = policy,
              .check = check,
              .source = source};
    spsh_status rc = decide(&w, err);
    if (rc == SPSH_OK)
        rc = make_result(&w, ret_clusters, err);
    free(w.nodes);
    free(w.places);
    free(w.is_boilerplate);
    free(w.same.items);
    free(w.by_part.items);
    free(w.by_whole.items);
    free(w.checked);
    free(w.boilerplate);
    return rc;
}

void spsh__clusters_free(spsh__clusters *clusters)
{
    free(clusters->clusters);
    free(clusters->members);
    free(clusters->checked);
    free(clusters->boilerplate);
    *clusters = (spsh__clusters){0};
}
