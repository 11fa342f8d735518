/* edit_distance.h: Levenshtein distance of code points, up to a limit. */
#ifndef SPSH_EDIT_DISTANCE_H
#define SPSH_EDIT_DISTANCE_H

#include <stddef.h>
#include <stdint.h>

typedef struct spsh__points {
    const uint32_t *at;
    size_t count;
} spsh__points;

/* Return the distance, or limit + 1 if it is above limit. row needs 2 * limit + 3 elements. The
 * time is at most proportional to (2 * limit + 1) times the shorter text, and less if the texts
 * differ much. */
size_t spsh__edit_distance(spsh__points a, spsh__points b, size_t limit, uint32_t *row);

#endif
