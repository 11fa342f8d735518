/* decide.c: choose the member of a cluster that is kept, and prove the others.
 *
 *     1. Utterances with matches become nodes. same_recording matches join them (union-find).
 *     2. The best member of each component by the policy is kept. Every other member needs a proof:
 *        a match with the kept member, or a check of the two. Utterances with equal samples
 *        represent each other, as the exact tiers match all members of a group only with the first.
 *     3. Containment is decided among the remaining nodes. If the policy keeps the whole, they are
 *        visited longest first, else shortest first. So each decision rests on earlier ones only. A
 *        node with dropped copies is dropped only if all of them are proven against the new node.
 *     4. A remaining node with a match that never allows a drop gets a tag.
 *
 * All orders are orders of ranks and ordinals, so the result depends only on the matches.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/grow.h"
#include "copy_graph.h"
#include "speechshard/inside.h"

#define PARTS_SHARE_MIN                                                                            \
    0.95 /* share of a whole's active speech that kept parts must cover before
                                the whole is dropped */

static const char *const better_words[] = {
#define SPSH_X(name_, better_, worse_) better_,
    SPSH__CRITERION_MAP(SPSH_X)
#undef SPSH_X
};
static const char *const worse_words[] = {
#define SPSH_X(name_, better_, worse_) worse_,
    SPSH__CRITERION_MAP(SPSH_X)
#undef SPSH_X
};

static bool is_better(const spsh__copy_node *left, const spsh__copy_node *right)
{
    const spsh__criterion c = spsh__copy_first_difference(left, right);
    return left->rank[c] < right->rank[c];
}

/* ---- proofs ---- */

/* Receives the matches of a check. Keeps the first one of the requested class. */
typedef struct found {
    spsh_copy_class kind_max; /* SAME_RECORDING, or CONTAINED, which accepts both classes */
    uint64_t part;            /* ordinal of the part, for CONTAINED */
    bool is_found;
    spsh__match match;
} found;

static spsh_status take_match(void *user, const spsh__match *match, spsh_error *err)
{
    found *f = user;
    (void)err;
    bool is_it = spsh__match_is_same(match);
    if (f->kind_max == SPSH_COPY_CONTAINED && spsh__match_is_contained(match))
        is_it = (match->coverage_a > match->coverage_b ? match->a : match->b) == f->part;
    if (is_it && !f->is_found) {
        f->is_found = true;
        f->match = *match;
    }
    return SPSH_OK;
}

static spsh_status check_pair(spsh__copy_graph *g, size_t part, size_t whole,
                              spsh_copy_class kind_max, uint64_t *ret_match, spsh_error *err)
{
    const uint64_t a = g->nodes[part].quality.ordinal;
    const uint64_t b = g->nodes[whole].quality.ordinal;
    found f = {.kind_max = kind_max, .part = a};
    if (g->check.pair_fn == NULL)
        return SPSH_OK;
    spsh_status rc = g->check.pair_fn(g->check.user, a < b ? a : b, a < b ? b : a,
                                      (spsh__match_sink){take_match, &f}, err);
    if (rc != SPSH_OK || !f.is_found)
        return rc;
    if (!SPSH_GROW(g->checked, g->checked_capacity, g->checked_count + 1))
        return SPSH_NO_MEMORY(err);
    *ret_match = g->match_count + g->checked_count;
    g->checked[g->checked_count++] = f.match;
    return SPSH_OK;
}

/* Prove that a member is the same recording as the kept one. *ret_match is SPSH_NONE_U64 if there
 * is no proof. */
static spsh_status prove_same(spsh__copy_graph *g, size_t member, size_t kept, uint64_t *ret_match,
                              spsh_error *err)
{
    const spsh__copy_node *m = &g->nodes[member];
    const spsh__copy_node *k = &g->nodes[kept];
    *ret_match = SPSH_NONE_U64;
    if (m->equal == k->equal) {
        *ret_match = m->equal_match != SPSH_NONE_U64 ? m->equal_match : k->equal_match;
        return SPSH_OK;
    }
    const spsh__copy_link *l = spsh__copy_link_find(&g->same, m->equal, k->equal);
    if (l != NULL) {
        *ret_match = l->match;
        return SPSH_OK;
    }
    return check_pair(g, member, kept, SPSH_COPY_SAME_RECORDING, ret_match, err);
}

static spsh_status prove_inside(spsh__copy_graph *g, size_t part, size_t whole, uint64_t *ret_match,
                                spsh_error *err)
{
    const size_t x = g->nodes[part].equal;
    const size_t y = g->nodes[whole].equal;
    const spsh__copy_link *l = spsh__copy_link_find(&g->by_part, x, y);
    *ret_match = SPSH_NONE_U64;
    if (l == NULL)
        l = spsh__copy_link_find(&g->same, x, y);
    if (l != NULL) {
        *ret_match = l->match;
        return SPSH_OK;
    }
    return check_pair(g, part, whole, SPSH_COPY_CONTAINED, ret_match, err);
}

/* The node that finally represents `at`: follow `kept` to its end. */
static size_t keeper(const spsh__copy_graph *g, size_t at)
{
    while (g->nodes[at].kept != at)
        at = g->nodes[at].kept;
    return at;
}

static void set_reason(spsh__copy_node *n, const char *reason)
{
    (void)snprintf(n->reason, sizeof(n->reason), "%s", reason);
}

static void attach(spsh__copy_graph *g, size_t child, size_t kept, spsh_copy_decision decision,
                   uint64_t match)
{
    spsh__copy_node *c = &g->nodes[child];
    c->kept = kept;
    c->decision = decision;
    c->match = match;
    c->next_child = g->nodes[kept].first_child;
    g->nodes[kept].first_child = child;
}

/* ---- the same recording ---- */

static int compare_members(const void *left, const void *right)
{
    const spsh__copy_node *const *l = left;
    const spsh__copy_node *const *r = right;
    if ((*l)->group != (*r)->group)
        return (*l)->group < (*r)->group ? -1 : 1;
    return is_better(*l, *r) ? -1 : 1;
}

static spsh_status decide_group(spsh__copy_graph *g, spsh__copy_node *const *members, size_t count,
                                spsh_error *err)
{
    const size_t kept = (size_t)(members[0] - g->nodes);
    set_reason(members[0], better_words[spsh__copy_first_difference(members[0], members[1])]);
    for (size_t i = 1; i < count; i++) {
        uint64_t match = SPSH_NONE_U64;
        spsh_status rc = prove_same(g, (size_t)(members[i] - g->nodes), kept, &match, err);
        if (rc != SPSH_OK)
            return rc;
        spsh_copy_decision decision = SPSH_DECISION_DROP;
        set_reason(members[i], worse_words[spsh__copy_first_difference(members[0], members[i])]);
        if (match == SPSH_NONE_U64) {
            decision = SPSH_DECISION_UNPROVEN;
            set_reason(members[i], "not proven against the kept one");
        } else if (members[i]->quality.is_protected) {
            decision = SPSH_DECISION_PROTECTED;
            set_reason(members[i], "its split is protected");
        }
        attach(g, (size_t)(members[i] - g->nodes), kept, decision, match);
    }
    return SPSH_OK;
}

static spsh_status decide_same(spsh__copy_graph *g, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    spsh__copy_node **order = calloc(g->node_count + 1, sizeof(spsh__copy_node *));
    if (order == NULL)
        return SPSH_NO_MEMORY(err);
    for (size_t i = 0; i < g->node_count; i++)
        order[i] = &g->nodes[i];
    qsort(order, g->node_count, sizeof(spsh__copy_node *), compare_members);
    for (size_t first = 0; first < g->node_count && rc == SPSH_OK;) {
        size_t end = first + 1;
        while (end < g->node_count && order[end]->group == order[first]->group)
            end++;
        if (end - first > 1)
            rc = decide_group(g, order + first, end - first, err);
        first = end;
    }
    free(order);
    return rc;
}

/* ---- one inside the other ---- */

static int compare_longest(const void *left, const void *right)
{
    const spsh__copy_node *const *l = left;
    const spsh__copy_node *const *r = right;
    if ((*l)->quality.seconds != (*r)->quality.seconds)
        return (*l)->quality.seconds > (*r)->quality.seconds ? -1 : 1;
    return (*l)->quality.ordinal < (*r)->quality.ordinal ? -1 : 1;
}

/* Set the reason of a kept node, unless its component has set one. */
static void set_kept_reason(spsh__copy_node *n, const char *reason)
{
    if (n->reason[0] == '\0')
        set_reason(n, reason);
}

/* Drop a node: attach it and all its children to another node. */
static void move_family(spsh__copy_graph *g, size_t from, size_t to, uint64_t match,
                        const char *reason)
{
    spsh__copy_node *n = &g->nodes[from];
    size_t child = n->first_child;
    n->first_child = SPSH__COPY_NONE;
    while (child != SPSH__COPY_NONE) {
        const size_t next = g->nodes[child].next_child;
        attach(g, child, to, g->nodes[child].decision, g->nodes[child].match);
        child = next;
    }
    attach(g, from, to, SPSH_DECISION_DROP, match);
    set_reason(n, reason);
}

/* Attach the part to the whole if every dropped copy of the part is inside the whole, too. */
static spsh_status try_whole(spsh__copy_graph *g, size_t part, size_t whole, bool *ret_done,
                             spsh_error *err)
{
    uint64_t match = SPSH_NONE_U64;
    *ret_done = false;
    spsh_status rc = prove_inside(g, part, whole, &match, err);
    if (rc != SPSH_OK || match == SPSH_NONE_U64)
        return rc;
    if (g->nodes[part].quality.is_protected) {
        if (g->nodes[part].first_child != SPSH__COPY_NONE)
            return SPSH_OK;
        attach(g, part, whole, SPSH_DECISION_PROTECTED, match);
        set_reason(&g->nodes[part], "its split is protected");
        set_kept_reason(&g->nodes[whole], "longer");
        *ret_done = true;
        return SPSH_OK;
    }
    for (size_t c = g->nodes[part].first_child; c != SPSH__COPY_NONE; c = g->nodes[c].next_child) {
        uint64_t proof = SPSH_NONE_U64;
        if (g->nodes[c].decision != SPSH_DECISION_DROP)
            continue;
        rc = prove_inside(g, c, whole, &proof, err);
        if (rc != SPSH_OK || proof == SPSH_NONE_U64)
            return rc;
        g->nodes[c].match = proof;
    }
    move_family(g, part, whole, match, "lies inside it");
    set_kept_reason(&g->nodes[whole], "longer");
    *ret_done = true;
    return SPSH_OK;
}

static spsh_status decide_part(spsh__copy_graph *g, size_t part, spsh_error *err)
{
    const size_t x = g->nodes[part].equal;
    bool done = false;
    spsh_status rc = SPSH_OK;
    for (size_t at = spsh__copy_link_lower(&g->by_part, x, 0);
         rc == SPSH_OK && !done && at < g->by_part.count && g->by_part.items[at].x == x; at++) {
        const size_t whole = keeper(g, g->by_part.items[at].y);
        if (g->nodes[whole].group != g->nodes[part].group)
            rc = try_whole(g, part, whole, &done, err);
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

/* The longest kept part, which replaces a whole. */
typedef struct best_part {
    size_t part;
    uint64_t match;
    double seconds;
} best_part;

static spsh__copy_stretch stretch_in(const spsh__copy_graph *g, uint64_t match, size_t whole)
{
    const spsh__match *m =
        match < g->match_count ? &g->matches[match] : &g->checked[match - g->match_count];
    const double rate = m->rate_hz == 0 ? 8000 : (double)m->rate_hz;
    /* The match may name an utterance with equal samples instead of the whole. Then the whole is
     * the side with the lower coverage. */
    const uint64_t ordinal = g->nodes[whole].quality.ordinal;
    const bool is_a = m->a == ordinal || (m->b != ordinal && m->coverage_a < m->coverage_b);
    return (spsh__copy_stretch){(double)(is_a ? m->a_first : m->b_first) / rate,
                                (double)m->count / rate};
}

/* Whether kept parts cover the active speech of the whole (PARTS_SHARE_MIN). *ret_best is the
 * longest part. */
static spsh_status cover_whole(spsh__copy_graph *g, size_t whole, bool *ret_covered,
                               best_part *ret_best, spsh_error *err)
{
    const size_t x = g->nodes[whole].equal;
    const size_t first = spsh__copy_link_lower(&g->by_whole, x, 0);
    size_t end = first;
    size_t count = 0;
    double share = 0;
    spsh_status rc = SPSH_OK;
    while (end < g->by_whole.count && g->by_whole.items[end].x == x)
        end++;
    *ret_covered = false;
    *ret_best = (best_part){SPSH__COPY_NONE, SPSH_NONE_U64, 0};
    spsh__copy_stretch *stretches = calloc(end - first + 1, sizeof(*stretches));
    if (stretches == NULL)
        return SPSH_NO_MEMORY(err);
    for (size_t at = first; at < end && rc == SPSH_OK; at++) {
        const size_t part = keeper(g, g->by_whole.items[at].y);
        uint64_t match = g->by_whole.items[at].match;
        if (g->nodes[part].group == g->nodes[whole].group)
            continue;
        if (g->nodes[part].equal != g->by_whole.items[at].y)
            rc = prove_inside(g, part, whole, &match, err);
        if (rc != SPSH_OK || match == SPSH_NONE_U64)
            continue;
        stretches[count] = stretch_in(g, match, whole);
        if (stretches[count].seconds > ret_best->seconds)
            *ret_best = (best_part){part, match, stretches[count].seconds};
        count++;
    }
    if (rc == SPSH_OK && ret_best->part != SPSH__COPY_NONE) {
        qsort(stretches, count, sizeof(*stretches), compare_stretches);
        rc = g->source->covered_fn(g->source->user, g->nodes[whole].quality.ordinal, stretches,
                                   count, &share, err);
        *ret_covered = share >= PARTS_SHARE_MIN;
    }
    free(stretches);
    return rc;
}

static spsh_status decide_whole(spsh__copy_graph *g, size_t whole, spsh_error *err)
{
    best_part best;
    bool covered = false;
    if (g->nodes[whole].quality.is_protected)
        return SPSH_OK;
    spsh_status rc = cover_whole(g, whole, &covered, &best, err);
    if (rc != SPSH_OK || !covered)
        return rc;
    for (size_t c = g->nodes[whole].first_child; c != SPSH__COPY_NONE; c = g->nodes[c].next_child) {
        best_part other;
        if (g->nodes[c].decision != SPSH_DECISION_DROP)
            continue;
        rc = cover_whole(g, c, &covered, &other, err);
        if (rc != SPSH_OK || !covered)
            return rc;
        g->nodes[c].match = other.match;
    }
    move_family(g, whole, best.part, best.match, "all of its speech is in parts that stay");
    set_kept_reason(&g->nodes[best.part], "the longest part of it");
    return SPSH_OK;
}

static spsh_status decide_contained(spsh__copy_graph *g, spsh__copy_node *const *longest_first,
                                    spsh_error *err)
{
    const bool keep_long = g->policy->contained == SPSH_CONTAINED_KEEP_LONG;
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < g->node_count && rc == SPSH_OK; i++) {
        const spsh__copy_node *n = longest_first[keep_long ? i : g->node_count - 1 - i];
        const size_t at = (size_t)(n - g->nodes);
        if (n->kept != at)
            continue;
        rc = keep_long ? decide_part(g, at, err) : decide_whole(g, at, err);
    }
    return rc;
}

/* ---- tags ---- */

static const char *tag_word(const spsh__match *m)
{
    switch (m->kind) {
    case SPSH_COPY_CONTAINED: return "lies inside it";
    case SPSH_COPY_TIME_SCALED: return "the same at another speed";
    case SPSH_COPY_PROBABLE_COPY: return "probably a copy: for people to judge";
    case SPSH_COPY_SAME_PERFORMANCE: return "the same performance, another microphone";
    default: return NULL;
    }
}

static spsh_status list_tags(spsh__copy_graph *g, spsh__copy_links *tags, spsh_error *err)
{
    for (size_t i = 0; i < g->match_count; i++) {
        const size_t a = g->places[2 * i];
        const size_t b = g->places[2 * i + 1];
        if (g->matches[i].tier > SPSH_TIER_SCALED || tag_word(&g->matches[i]) == NULL ||
            g->is_boilerplate[i] || g->nodes[a].group == g->nodes[b].group)
            continue;
        if (!spsh__copy_link_add(tags, a, b, i) || !spsh__copy_link_add(tags, b, a, i))
            return SPSH_NO_MEMORY(err);
    }
    spsh__copy_links_sort(tags);
    return SPSH_OK;
}

/* Visit nodes longest first. A node is tagged for an earlier node that has no tag itself. */
static spsh_status decide_tags(spsh__copy_graph *g, spsh__copy_node *const *longest_first,
                               spsh_error *err)
{
    spsh__copy_links tags = {NULL, 0, 0};
    bool *is_seen = calloc(g->node_count + 1, sizeof(*is_seen));
    spsh_status rc = is_seen == NULL ? SPSH_NO_MEMORY(err) : list_tags(g, &tags, err);
    for (size_t i = 0; i < g->node_count && rc == SPSH_OK; i++) {
        const size_t at = (size_t)(longest_first[i] - g->nodes);
        spsh__copy_node *n = &g->nodes[at];
        is_seen[at] = true;
        if (n->kept != at || n->first_child != SPSH__COPY_NONE)
            continue;
        const spsh__copy_link *best = NULL;
        for (size_t k = spsh__copy_link_lower(&tags, at, 0);
             k < tags.count && tags.items[k].x == at; k++) {
            const spsh__copy_link *l = &tags.items[k];
            if (!is_seen[l->y] || g->nodes[l->y].kept != l->y)
                continue;
            if (best == NULL || g->matches[l->match].kind < g->matches[best->match].kind)
                best = l;
        }
        if (best != NULL) {
            attach(g, at, best->y, SPSH_DECISION_TAG, best->match);
            set_reason(n, tag_word(&g->matches[best->match]));
            set_kept_reason(&g->nodes[best->y], "longer");
        }
    }
    free(is_seen);
    free(tags.items);
    return rc;
}

spsh_status spsh__copies_decide(spsh__copy_graph *g, spsh_error *err)
{
    spsh_status rc = decide_same(g, err);
    spsh__copy_node **longest_first = calloc(g->node_count + 1, sizeof(spsh__copy_node *));
    if (longest_first == NULL)
        return SPSH_NO_MEMORY(err);
    for (size_t i = 0; i < g->node_count; i++)
        longest_first[i] = &g->nodes[i];
    qsort(longest_first, g->node_count, sizeof(spsh__copy_node *), compare_longest);
    if (rc == SPSH_OK && g->policy->contained != SPSH_CONTAINED_TAG)
        rc = decide_contained(g, longest_first, err);
    if (rc == SPSH_OK)
        rc = decide_tags(g, longest_first, err);
    free(longest_first);
    return rc;
}
