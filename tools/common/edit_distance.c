/* edit_distance.c: compute the table of distances row by row, but only the diagonals that the limit
 * allows. If no cell of a row is within the limit, no later cell can be.
 *
 *     cell d of row i: distance of a's first i code points and b's first i + d - limit
 */
#include "edit_distance.h"

static spsh__points without_ends(spsh__points *a, spsh__points b)
{
    while (a->count > 0 && b.count > 0 && a->at[0] == b.at[0]) {
        *a = (spsh__points){a->at + 1, a->count - 1};
        b = (spsh__points){b.at + 1, b.count - 1};
    }
    while (a->count > 0 && b.count > 0 && a->at[a->count - 1] == b.at[b.count - 1]) {
        a->count--;
        b.count--;
    }
    return b;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

size_t spsh__edit_distance(spsh__points a, spsh__points b, size_t limit, uint32_t *row)
{
    b = without_ends(&a, b);
    const size_t longer = a.count > b.count ? a.count : b.count;
    const size_t apart = longer - (a.count < b.count ? a.count : b.count);
    if (apart > limit)
        return limit + 1;
    if (a.count == 0 || b.count == 0)
        return longer;
    const uint32_t far = (uint32_t)limit + 1;
    const size_t width = 2 * limit + 1;
    for (size_t d = 0; d <= width; d++)
        row[d] = d < limit || d - limit > b.count || d == width ? far : (uint32_t)(d - limit);
    for (size_t i = 1; i <= a.count; i++) {
        uint32_t best = far;
        uint32_t left = far;
        for (size_t d = i < limit ? limit - i : 0; d < width && i + d <= b.count + limit; d++) {
            const size_t j = i + d - limit;
            uint32_t cell = 0;
            if (j == 0)
                cell = (uint32_t)i;
            else
                cell = least(row[d] + (a.at[i - 1] != b.at[j - 1]), least(left, row[d + 1]) + 1);
            cell = least(cell, far);
            row[d] = left = cell;
            best = least(best, cell);
        }
        if (best == far)
            return limit + 1;
    }
    return row[b.count + limit - a.count];
}
