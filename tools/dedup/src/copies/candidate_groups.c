/* candidate_groups.c: a union-find over the candidates, joined by their prints. The root of a group
 * is its first candidate. */
#include "candidate_groups.h"

#include <stdlib.h>
#include <string.h>

#include "speechshard/inside.h"

typedef struct place {
    uint64_t print; /* later the root of the candidate's group */
    size_t index;   /* index of the candidate */
} place;

static int compare_places(const void *left, const void *right)
{
    const place *l = left;
    const place *r = right;
    if (l->print != r->print)
        return l->print < r->print ? -1 : 1;
    return (l->index > r->index) - (l->index < r->index);
}

static size_t find_root(size_t *parents, size_t at)
{
    while (parents[at] != at) {
        parents[at] = parents[parents[at]];
        at = parents[at];
    }
    return at;
}

static void join_groups(size_t *parents, size_t one, size_t other)
{
    const size_t l = find_root(parents, one);
    const size_t r = find_root(parents, other);
    if (l < r)
        parents[r] = l;
    else
        parents[l] = r;
}

/* Find the groups, and write one place per candidate, in the new order. `places` has capacity for
 * two per candidate. */
static void order_places(const spsh__candidate *candidates, size_t count, place *places,
                         size_t *parents)
{
    for (size_t i = 0; i < count; i++) {
        parents[i] = i;
        places[2 * i] = (place){candidates[i].a, i};
        places[2 * i + 1] = (place){candidates[i].b, i};
    }
    qsort(places, 2 * count, sizeof(*places), compare_places);
    for (size_t i = 1; i < 2 * count; i++)
        if (places[i].print == places[i - 1].print)
            join_groups(parents, places[i].index, places[i - 1].index);
    for (size_t i = 0; i < count; i++)
        places[i] = (place){find_root(parents, i), i};
    qsort(places, count, sizeof(*places), compare_places);
}

spsh_status spsh__candidate_groups_sort(spsh__candidate *candidates, size_t count, spsh_error *err)
{
    place *places = calloc(2 * count + 1, sizeof(*places));
    size_t *parents = calloc(count + 1, sizeof(*parents));
    spsh__candidate *sorted = calloc(count + 1, sizeof(*sorted));
    spsh_status rc = SPSH_OK;
    if (places == NULL || parents == NULL || sorted == NULL) {
        rc = SPSH_NO_MEMORY(err);
    } else if (count > 0) {
        order_places(candidates, count, places, parents);
        for (size_t i = 0; i < count; i++)
            sorted[i] = candidates[places[i].index];
        memcpy(candidates, sorted, count * sizeof(*sorted));
    }
    free(places);
    free(parents);
    free(sorted);
    return rc;
}
