/* audit.c: leaks as bits, one per kind, for each pair of a test utterance and a train split.
 * Union-find joins utterances with equal samples into groups, by the matches of the exact tiers.
 * The bits and the evidence of all members of a group are then combined and given to every member.
 *
 * Memory: 192 bytes per match across sides, 190 per match of two copies, one byte per pair of test
 * utterance and train split, and 128 for the evidence of each test utterance.
 */
#include "audit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/grow.h"
#include "copies/copy_graph.h"
#include "speechshard/inside.h"

/* Two utterances with equal samples. */
typedef struct equal_pair {
    uint64_t a, b;
} equal_pair;

/* An utterance with a copy of equal samples. */
typedef struct node {
    uint64_t ordinal;
    uint64_t parent; /* index in nodes; after join_groups: the first node of the group */
    uint64_t test;   /* number in the roster; SPSH_NONE_U64: train utterance */
    uint32_t split;  /* train split; SPSH_NONE_U32: test utterance */
    /* Range of the group in members. Set only in the first node of a group. */
    uint64_t first, count;
} node;

struct spsh__audit {
    const spsh__audit_roster *roster;
    spsh__match_list matches;
    equal_pair *links;
    size_t link_count, link_capacity;
    node *nodes; /* sorted by ordinal */
    uint64_t node_count;
    node *members;    /* copies of nodes by group, split, ordinal; one train node per group and
                         split */
    uint8_t *touched; /* test utterance x train split: bits of the kinds */
    uint8_t *masks;
    spsh__leak_evidence *evidence;
    spsh__leak_cell *cells, *totals;
};

/* ---- kinds ---- */

const char *spsh_leak_text(spsh_leak leak)
{
    static const char *const texts[] = {
#define SPSH_X(name_, text_, meaning_) text_,
        SPSH_LEAK_MAP(SPSH_X)
#undef SPSH_X
    };
    return leak < SPSH_LEAK_COUNT ? texts[leak] : "none";
}

const char *spsh__leak_meaning(spsh_leak leak)
{
    static const char *const texts[] = {
#define SPSH_X(name_, text_, meaning_) meaning_,
        SPSH_LEAK_MAP(SPSH_X)
#undef SPSH_X
    };
    return leak < SPSH_LEAK_COUNT ? texts[leak] : "nothing";
}

static double active_seconds(const spsh__match *match)
{
    if (match->active_s > 0 || match->rate_hz == 0)
        return match->active_s;
    return (double)match->count / match->rate_hz;
}

static spsh_leak leak_of_audio(const spsh__match *match)
{
    switch (match->kind) {
    case SPSH_COPY_SAME_RECORDING:
    case SPSH_COPY_CONTAINED:
        return match->tier == SPSH_TIER_SCALED ? SPSH_LEAK_PERFORMANCE : SPSH_LEAK_RECORDING;
    case SPSH_COPY_SHARED_SEGMENT:
        if (active_seconds(match) < SPSH__LEAK_SEGMENT_MIN_S)
            return SPSH_LEAK_COUNT;
        return match->tier == SPSH_TIER_SCALED ? SPSH_LEAK_PERFORMANCE : SPSH_LEAK_SEGMENT;
    case SPSH_COPY_TIME_SCALED:
    case SPSH_COPY_PROBABLE_COPY:
    case SPSH_COPY_SAME_PERFORMANCE: return SPSH_LEAK_PERFORMANCE;
    case SPSH_COPY_NONE:
    case SPSH_COPY_REREAD:
    case SPSH_COPY_CLASS_COUNT: break;
    }
    return SPSH_LEAK_COUNT;
}

spsh_leak spsh__leak_of(const spsh__match *match)
{
    switch (match->tier) {
    case SPSH_TIER_BYTES:
    case SPSH_TIER_PCM:
    case SPSH_TIER_CHUNKS:
    case SPSH_TIER_ACOUSTIC:
    case SPSH_TIER_SCALED: return leak_of_audio(match);
    case SPSH_TIER_TEXT_EXACT: return SPSH_LEAK_SENTENCE;
    case SPSH_TIER_TEXT_NEAR:
    case SPSH_TIER_TEXT_COVERED: return SPSH_LEAK_SENTENCE_NEAR;
    case SPSH_TIER_SPEAKER: return SPSH_LEAK_SPEAKER;
    case SPSH_TIER_DOCUMENT: return SPSH_LEAK_DOCUMENT;
    case SPSH_TIER_SOURCE: return SPSH_LEAK_SOURCE;
    case SPSH_TIER_COUNT: break;
    }
    return SPSH_LEAK_COUNT;
}

void spsh__leak_interval(uint64_t part, uint64_t whole, double *ret_low, double *ret_high)
{
    const double z = 1.959963984540054;
    *ret_low = 0;
    *ret_high = 1;
    if (whole == 0)
        return;
    const double n = (double)whole;
    const double p = (double)part / n;
    const double middle = (p + z * z / (2 * n)) / (1 + z * z / n);
    const double half = z / (1 + z * z / n) * sqrt(p * (1 - p) / n + z * z / (4 * n * n));
    /* At both ends of the interval, the two terms cancel out except for rounding errors. */
    *ret_low = part == 0 ? 0 : middle - half;
    *ret_high = part == whole ? 1 : middle + half;
}

int spsh__leak_compare(const spsh__match *left, const spsh__match *right)
{
    const double lefts[] = {left->ncc, left->similarity, left->coverage_a + left->coverage_b,
                            left->active_s};
    const double rights[] = {right->ncc, right->similarity, right->coverage_a + right->coverage_b,
                             right->active_s};
    if (left->tier != right->tier)
        return left->tier < right->tier ? -1 : 1;
    if (left->kind != right->kind)
        return left->kind < right->kind ? -1 : 1;
    for (size_t i = 0; i < sizeof(lefts) / sizeof(lefts[0]); i++) {
        const double difference = fabs(lefts[i]) - fabs(rights[i]);
        if (difference < 0 || difference > 0)
            return difference > 0 ? -1 : 1;
    }
    return spsh__match_compare(left, right);
}

/* ---- taking matches ---- */

uint64_t spsh__audit_test_number(const spsh__audit_roster *roster, uint64_t ordinal)
{
    uint64_t low = 0;
    uint64_t high = roster->test_utterance_count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (roster->test_ordinals[middle] < ordinal)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < roster->test_utterance_count && roster->test_ordinals[low] == ordinal;
    return found ? low : SPSH_NONE_U64;
}

static spsh_status take(void *user, const spsh__match *match, spsh_error *err)
{
    spsh__audit *audit = user;
    bool a_is_test = spsh__audit_test_number(audit->roster, match->a) != SPSH_NONE_U64;
    bool b_is_test = spsh__audit_test_number(audit->roster, match->b) != SPSH_NONE_U64;
    if (spsh__match_is_equal(match)) {
        if (!SPSH_GROW(audit->links, audit->link_capacity, audit->link_count + 1))
            return SPSH_NO_MEMORY(err);
        audit->links[audit->link_count++] = (equal_pair){match->a, match->b};
    }
    if (a_is_test == b_is_test)
        return SPSH_OK;
    return spsh__match_list_add(&audit->matches, match, err);
}

spsh__match_sink spsh__audit_sink(spsh__audit *audit)
{
    return (spsh__match_sink){take, audit};
}

static void sort_matches(spsh__audit *audit)
{
    spsh__match *matches = audit->matches.items;
    size_t count = 0;
    if (audit->matches.count == 0)
        return;
    qsort(matches, audit->matches.count, sizeof(*matches), spsh__match_compare);
    for (size_t i = 0; i < audit->matches.count; i++) {
        if (count == 0 || spsh__match_compare(&matches[count - 1], &matches[i]) != 0)
            matches[count++] = matches[i];
    }
    audit->matches.count = count;
}

/* ---- groups of equal samples ---- */

static int compare_nodes(const void *left, const void *right)
{
    const node *l = left;
    const node *r = right;
    return (l->ordinal > r->ordinal) - (l->ordinal < r->ordinal);
}

static node *find_node(const spsh__audit *audit, uint64_t ordinal)
{
    const node key = {.ordinal = ordinal};
    if (audit->node_count == 0)
        return NULL;
    return bsearch(&key, audit->nodes, (size_t)audit->node_count, sizeof(key), compare_nodes);
}

static uint64_t find_root(node *nodes, uint64_t at)
{
    while (nodes[at].parent != at) {
        nodes[at].parent = nodes[nodes[at].parent].parent;
        at = nodes[at].parent;
    }
    return at;
}

static spsh_status train_split(const spsh__audit *audit, uint64_t ordinal, uint32_t *ret_split,
                               spsh_error *err)
{
    spsh_status rc = audit->roster->train_split_fn(audit->roster->user, ordinal, ret_split, err);
    if (rc == SPSH_OK && *ret_split >= audit->roster->train_count)
        return SPSH_FAIL(err, SPSH_E_CORRUPT, "a match has an utterance that is on neither side");
    return rc;
}

/* Make one node for each utterance in a link, and find its split or test number. */
static spsh_status make_nodes(spsh__audit *audit, spsh_error *err)
{
    uint64_t count = 0;
    if (audit->link_count == 0)
        return SPSH_OK;
    if (audit->link_count > SIZE_MAX / 2 / sizeof(*audit->nodes))
        return SPSH_NO_MEMORY(err);
    node *nodes = calloc(audit->link_count * 2, sizeof(*nodes));
    if (nodes == NULL)
        return SPSH_NO_MEMORY(err);
    audit->nodes = nodes;
    for (uint64_t i = 0; i < audit->link_count; i++) {
        nodes[2 * i].ordinal = audit->links[i].a;
        nodes[2 * i + 1].ordinal = audit->links[i].b;
    }
    qsort(nodes, audit->link_count * 2, sizeof(*nodes), compare_nodes);
    for (uint64_t i = 0; i < 2 * audit->link_count; i++) {
        if (count == 0 || nodes[count - 1].ordinal != nodes[i].ordinal)
            nodes[count++].ordinal = nodes[i].ordinal;
    }
    audit->node_count = count;
    for (uint64_t i = 0; i < count; i++) {
        nodes[i].parent = i;
        nodes[i].split = SPSH_NONE_U32;
        nodes[i].test = spsh__audit_test_number(audit->roster, nodes[i].ordinal);
        spsh_status rc = nodes[i].test == SPSH_NONE_U64
                             ? train_split(audit, nodes[i].ordinal, &nodes[i].split, err)
                             : SPSH_OK;
        if (rc != SPSH_OK)
            return rc;
    }
    return SPSH_OK;
}

/* Set every node's parent to the smallest index of its group. */
static void join_groups(spsh__audit *audit)
{
    node *nodes = audit->nodes;
    for (uint64_t i = 0; i < audit->link_count; i++) {
        uint64_t a = find_root(nodes, (uint64_t)(find_node(audit, audit->links[i].a) - nodes));
        uint64_t b = find_root(nodes, (uint64_t)(find_node(audit, audit->links[i].b) - nodes));
        nodes[a > b ? a : b].parent = a > b ? b : a;
    }
    for (uint64_t i = 0; i < audit->node_count; i++)
        nodes[i].parent = find_root(nodes, i);
}

static int compare_members(const void *left, const void *right)
{
    const node *l = left;
    const node *r = right;
    if (l->parent != r->parent)
        return l->parent > r->parent ? 1 : -1;
    if (l->split != r->split)
        return l->split > r->split ? 1 : -1;
    return compare_nodes(left, right);
}

static spsh_status list_members(spsh__audit *audit, spsh_error *err)
{
    uint64_t count = 0;
    if (audit->node_count == 0)
        return SPSH_OK;
    node *members = malloc((size_t)audit->node_count * sizeof(*members));
    if (members == NULL)
        return SPSH_NO_MEMORY(err);
    audit->members = members;
    memcpy(members, audit->nodes, (size_t)audit->node_count * sizeof(*members));
    qsort(members, (size_t)audit->node_count, sizeof(*members), compare_members);
    for (uint64_t i = 0; i < audit->node_count; i++) {
        const bool is_reported = count > 0 && members[i].split != SPSH_NONE_U32 &&
                                 members[count - 1].parent == members[i].parent &&
                                 members[count - 1].split == members[i].split;
        node *root = &audit->nodes[members[i].parent];
        if (is_reported)
            continue;
        if (root->count == 0)
            root->first = count;
        root->count++;
        members[count++] = members[i];
    }
    return SPSH_OK;
}

/* ---- bits and evidence ---- */

static void take_evidence(const spsh__audit *audit, spsh__leak_evidence *held,
                          const spsh__leak_evidence *offered)
{
    if (offered->match == SPSH_NONE_U64)
        return;
    if (held->match == SPSH_NONE_U64 || spsh__leak_compare(&audit->matches.items[offered->match],
                                                           &audit->matches.items[held->match]) < 0)
        *held = *offered;
}

static uint8_t *touched_of(const spsh__audit *audit, uint64_t test)
{
    return audit->touched + test * audit->roster->train_count;
}

static spsh_status mark_match(spsh__audit *audit, uint64_t number, spsh_error *err)
{
    const spsh__match *match = &audit->matches.items[number];
    const spsh_leak leak = spsh__leak_of(match);
    uint64_t test = spsh__audit_test_number(audit->roster, match->a);
    uint64_t train_ordinal = match->b;
    uint32_t split = 0;
    if (leak == SPSH_LEAK_COUNT)
        return SPSH_OK;
    if (test == SPSH_NONE_U64) {
        test = spsh__audit_test_number(audit->roster, match->b);
        train_ordinal = match->a;
    }
    spsh_status rc = train_split(audit, train_ordinal, &split, err);
    if (rc != SPSH_OK)
        return rc;
    uint8_t *touched = touched_of(audit, test);
    const uint8_t bit = (uint8_t)(1U << leak);
    touched[split] |= bit;
    const node *copy = leak <= SPSH_LEAK_PERFORMANCE ? find_node(audit, train_ordinal) : NULL;
    if (copy != NULL) {
        const node *root = &audit->nodes[copy->parent];
        for (uint64_t i = root->first; i < root->first + root->count; i++) {
            if (audit->members[i].split != SPSH_NONE_U32)
                touched[audit->members[i].split] |= bit;
        }
    }
    const spsh__leak_evidence offered = {number, audit->roster->test_ordinals[test]};
    take_evidence(audit, &audit->evidence[test * SPSH_LEAK_COUNT + leak], &offered);
    return SPSH_OK;
}

/* Combine the audio leaks of all members of a group, and give them to each test member. A train
 * member adds a leak of kind recording. */
static void spread(spsh__audit *audit, const node *root, uint8_t *bits)
{
    const size_t train_count = audit->roster->train_count;
    const uint8_t audio = (uint8_t)((2U << SPSH_LEAK_PERFORMANCE) - 1U);
    spsh__leak_evidence best[SPSH_LEAK_PERFORMANCE + 1];
    memset(bits, 0, train_count);
    memset(best, 0xff, sizeof(best)); /* SPSH_NONE_U64 */
    for (uint64_t i = root->first; i < root->first + root->count; i++) {
        const node *member = &audit->members[i];
        if (member->test == SPSH_NONE_U64) {
            bits[member->split] |= 1U << SPSH_LEAK_RECORDING;
            continue;
        }
        for (size_t k = 0; k < train_count; k++)
            bits[k] |= touched_of(audit, member->test)[k] & audio;
        for (size_t k = 0; k <= SPSH_LEAK_PERFORMANCE; k++)
            take_evidence(audit, &best[k], &audit->evidence[member->test * SPSH_LEAK_COUNT + k]);
    }
    for (uint64_t i = root->first; i < root->first + root->count; i++) {
        const node *member = &audit->members[i];
        if (member->test == SPSH_NONE_U64)
            continue;
        for (size_t k = 0; k < train_count; k++)
            touched_of(audit, member->test)[k] |= bits[k];
        for (size_t k = 0; k <= SPSH_LEAK_PERFORMANCE; k++) {
            spsh__leak_evidence *held = &audit->evidence[member->test * SPSH_LEAK_COUNT + k];
            if (held->match == SPSH_NONE_U64)
                *held = best[k];
        }
    }
}

static spsh_status mark(spsh__audit *audit, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    uint8_t *bits = malloc(audit->roster->train_count + 1);
    if (bits == NULL)
        return SPSH_NO_MEMORY(err);
    for (uint64_t i = 0; i < audit->matches.count && rc == SPSH_OK; i++)
        rc = mark_match(audit, i, err);
    for (uint64_t i = 0; i < audit->node_count && rc == SPSH_OK; i++) {
        if (audit->nodes[i].parent == i)
            spread(audit, &audit->nodes[i], bits);
    }
    free(bits);
    return rc;
}

/* ---- counts ---- */

static void add_bits(spsh__leak_cell *cell, uint8_t bits, double seconds)
{
    for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++) {
        if ((bits & 1U << k) != 0) {
            cell->utterances[k]++;
            cell->seconds[k] += seconds;
        }
    }
}

static void count_bits(spsh__audit *audit)
{
    const spsh__audit_roster *roster = audit->roster;
    for (uint64_t i = 0; i < roster->test_utterance_count; i++) {
        const uint8_t *touched = touched_of(audit, i);
        const uint32_t column = roster->test_splits[i];
        const double seconds = roster->test_seconds[i];
        for (size_t k = 0; k < roster->train_count; k++) {
            audit->masks[i] |= touched[k];
            add_bits(&audit->cells[k * roster->test_count + column], touched[k], seconds);
        }
        add_bits(&audit->totals[column], audit->masks[i], seconds);
    }
}

/* ---- the audit ---- */

/* Allocate zeroed memory. The result is not NULL for an array without items. */
static void *array_of(uint64_t count, uint64_t each, size_t item_bytes)
{
    if (each != 0 && count > (SIZE_MAX - 1) / item_bytes / each)
        return NULL;
    return calloc((size_t)(count * each) + 1, item_bytes);
}

spsh_status spsh__audit_open(const spsh__audit_roster *roster, spsh__audit **ret_audit,
                             spsh_error *err)
{
    const uint64_t tests = roster->test_utterance_count;
    spsh__audit *audit = calloc(1, sizeof(*audit));
    if (audit == NULL)
        return SPSH_NO_MEMORY(err);
    audit->roster = roster;
    audit->touched = array_of(tests, roster->train_count, 1);
    audit->masks = array_of(tests, 1, 1);
    audit->evidence = array_of(tests, SPSH_LEAK_COUNT, sizeof(*audit->evidence));
    audit->cells = array_of(roster->train_count, roster->test_count, sizeof(*audit->cells));
    audit->totals = array_of(roster->test_count, 1, sizeof(*audit->totals));
    if (audit->touched == NULL || audit->masks == NULL || audit->evidence == NULL ||
        audit->cells == NULL || audit->totals == NULL) {
        spsh__audit_close(audit);
        return SPSH_NO_MEMORY(err);
    }
    memset(audit->evidence, 0xff, (size_t)tests * SPSH_LEAK_COUNT * sizeof(*audit->evidence));
    *ret_audit = audit;
    return SPSH_OK;
}

spsh_status spsh__audit_count(spsh__audit *audit, spsh__leaks *ret_leaks, spsh_error *err)
{
    sort_matches(audit);
    spsh_status rc = make_nodes(audit, err);
    if (rc != SPSH_OK)
        return rc;
    join_groups(audit);
    rc = list_members(audit, err);
    if (rc == SPSH_OK)
        rc = mark(audit, err);
    if (rc != SPSH_OK)
        return rc;
    count_bits(audit);
    *ret_leaks = (spsh__leaks){
        .matches = audit->matches.items,
        .match_count = audit->matches.count,
        .masks = audit->masks,
        .evidence = audit->evidence,
        .cells = audit->cells,
        .totals = audit->totals,
    };
    return SPSH_OK;
}

void spsh__audit_close(spsh__audit *audit)
{
    if (audit == NULL)
        return;
    free(audit->matches.items);
    free(audit->links);
    free(audit->nodes);
    free(audit->members);
    free(audit->touched);
    free(audit->masks);
    free(audit->evidence);
    free(audit->cells);
    free(audit->totals);
    free(audit);
}
