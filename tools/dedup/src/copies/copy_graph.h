/* copy_graph.h: matches as a graph. Nodes are utterances with matches. Links are matches that allow
 * a drop.
 *
 * Utterances with equal samples represent each other, because the exact tiers match each member of
 * a group only with the first member.
 */
#ifndef SPSH_COPY_GRAPH_H
#define SPSH_COPY_GRAPH_H

#include "clusters.h"

#define SPSH__COPY_NONE SIZE_MAX

/* Advantages of one member over another, strongest first. Ranks are compared in this order. */
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
    uint64_t rank[SPSH__CRITERION_COUNT]; /* per criterion; lower is better */
    size_t group;                         /* root of the node's component */
    size_t equal;                         /* root of the nodes with equal samples */
    uint64_t equal_match;                 /* index of the match with the root `equal` */
    size_t kept;                          /* node that this node is attached to; the node itself
                                             while it is kept */
    size_t first_child, next_child;       /* list of the nodes attached to this node */
    uint64_t match;
    spsh_copy_decision decision;
    char reason[64];
} spsh__copy_node;

/* A match between two groups of equal samples. For contained, x and y are part and whole. */
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
    spsh__copy_node *nodes; /* sorted by ordinal */
    size_t node_count;
    size_t *places;                     /* nodes of utterances a and b of match i, at 2 i and 2 i +
                                           1 */
    bool *is_boilerplate;               /* per match */
    spsh__copy_links same;              /* same_recording, in both directions */
    spsh__copy_links by_part, by_whole; /* contained, with x as the part and with x as the whole */
    spsh__match *checked;
    size_t checked_count, checked_capacity;
    spsh__boilerplate *boilerplate;
    size_t boilerplate_count;
} spsh__copy_graph;

/* Build the graph. The caller sets matches, match_count, policy, check, and source. Free the graph
 * with spsh__copy_graph_free, also after a failure. Returns SPSH_E_NO_MEMORY, or the error of
 * source. */
spsh_status spsh__copy_graph_make(spsh__copy_graph *graph, spsh_error *err);
void spsh__copy_graph_free(spsh__copy_graph *graph);

/* Return the first criterion in which two nodes differ. The lower rank is better. */
spsh__criterion spsh__copy_first_difference(const spsh__copy_node *left,
                                            const spsh__copy_node *right);

/* Add a link. Returns false if there is no memory. */
bool spsh__copy_link_add(spsh__copy_links *list, size_t x, size_t y, uint64_t match);
void spsh__copy_links_sort(spsh__copy_links *list);
/* Search a sorted list. spsh__copy_link_lower returns the position of the first link not before (x,
 * y). spsh__copy_link_find returns the first link of x and y, or NULL. */
size_t spsh__copy_link_lower(const spsh__copy_links *list, size_t x, size_t y);
const spsh__copy_link *spsh__copy_link_find(const spsh__copy_links *list, size_t x, size_t y);

/* Whether the match is of class same_recording or contained, and of a tier that allows a drop. */
bool spsh__match_is_same(const spsh__match *match);
bool spsh__match_is_contained(const spsh__match *match);
/* Whether the samples of both utterances are equal, so that a proof for one holds for the other.
 * False for stretches of one record that overlap only in part. */
bool spsh__match_is_equal(const spsh__match *match);

/* Set kept, decision, match, and reason of every node. In decide.c. */
spsh_status spsh__copies_decide(spsh__copy_graph *graph, spsh_error *err);

/* ---- boilerplate.c: stretches that many utterances share. A shared jingle does not make two
 * recordings copies, but a list of jingles is useful. ---- */

/* A partial match. Utterances are numbered as the nodes. */
typedef struct spsh__partial {
    uint64_t match;
    uint64_t a, b;
    uint64_t a_group, b_group; /* components of the two utterances; copies of one recording count
                                  once */
    bool is_boilerplate;       /* result */
} spsh__partial;

/* Set is_boilerplate in the partials whose stretch occurs in at least count_min groups. The caller
 * frees *ret_list with free(). Its ordinals are utterance ordinals, as in the matches. */
spsh_status spsh__boilerplate_find(const spsh__match *matches, spsh__partial *partials,
                                   size_t partial_count, uint64_t count_min,
                                   spsh__boilerplate **ret_list, size_t *ret_count,
                                   spsh_error *err);

#endif
