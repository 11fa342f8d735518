/* copy_graph.h: matches as a graph: utterances with matches are nodes, what may drop one of them
 * are links.
 *
 * Utterances with equal samples stand for each other, because the exact tiers match all members of
 * a group with its first one only.
 */
#ifndef SPSH_COPY_GRAPH_H
#define SPSH_COPY_GRAPH_H

#include "clusters.h"

#define SPSH__COPY_NONE SIZE_MAX

/* What one member has over another, strongest first; a rank is compared in this order. */
#define SPSH__CRITERION_MAP(X)                                                                     \
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

typedef enum spsh__criterion {
#define SPSH_X(name_, better_, worse_) SPSH__CRITERION_##name_,
    SPSH__CRITERION_MAP(SPSH_X)
#undef SPSH_X
        SPSH__CRITERION_COUNT
} spsh__criterion;

typedef struct spsh__copy_node {
    spsh__copy_quality quality;
    uint64_t rank[SPSH__CRITERION_COUNT]; /* lower is better */
    size_t group;                         /* root of its component */
    size_t equal;                         /* root of those with equal samples */
    uint64_t equal_match;                 /* with that root */
    size_t kept;                          /* what it belongs to; itself while it stays */
    size_t first_child, next_child;       /* those that belong to it */
    uint64_t match;
    spsh_copy_decision decision;
    char reason[64];
} spsh__copy_node;

/* Two groups of equal samples and a match between them; for contained: part, then whole. */
typedef struct spsh__copy_link {
    size_t x, y;
    uint64_t match;
} spsh__copy_link;

typedef struct spsh__copy_links {
    spsh__copy_link *items;
    size_t count, capacity;
} spsh__copy_links;

typedef struct spsh__copy_graph {
    const spsh__match *matches;
    uint64_t match_count;
    const spsh__policy *policy;
    spsh__pair_check check;
    const spsh__quality_source *source;
    spsh__copy_node *nodes; /* by ordinal */
    size_t node_count;
    size_t *places;                     /* nodes of match i's a and b, at 2 i and 2 i + 1 */
    bool *is_boilerplate;               /* a match */
    spsh__copy_links same;              /* both ways */
    spsh__copy_links by_part, by_whole; /* contained; the latter with x the whole */
    spsh__match *checked;
    size_t checked_count, checked_capacity;
    spsh__boilerplate *boilerplate;
    size_t boilerplate_count;
} spsh__copy_graph;

/* Fill a graph of which matches, match_count, policy, check and source are set. Free with
 * spsh__copy_graph_free, after a failure, too. SPSH_E_NO_MEMORY, or what source returned. */
spsh_status spsh__copy_graph_make(spsh__copy_graph *graph, spsh_error *err);
void spsh__copy_graph_free(spsh__copy_graph *graph);

/* The first criterion by which two nodes differ: the lower rank is better. */
spsh__criterion spsh__copy_first_difference(const spsh__copy_node *left,
                                            const spsh__copy_node *right);

/* false: no memory. */
bool spsh__copy_link_add(spsh__copy_links *list, size_t x, size_t y, uint64_t match);
void spsh__copy_links_sort(spsh__copy_links *list);
/* Of a sorted list: the place of the first link that is not before (x, y), and the link of x and y
 * or NULL. */
size_t spsh__copy_link_lower(const spsh__copy_links *list, size_t x, size_t y);
const spsh__copy_link *spsh__copy_link_find(const spsh__copy_links *list, size_t x, size_t y);

/* What a match says: the same recording, or one inside the other, of a tier that may drop. */
bool spsh__match_is_same(const spsh__match *match);
bool spsh__match_is_contained(const spsh__match *match);
/* Equal samples, so that whatever is proven of one holds for the other: not for stretches of a
 * record that overlap for the most part. */
bool spsh__match_is_equal(const spsh__match *match);

/* decide.c: sets kept, decision, match and reason of every node. */
spsh_status spsh__copies_decide(spsh__copy_graph *graph, spsh_error *err);

#endif
