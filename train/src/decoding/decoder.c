/* decoder.c: greedy decoding. */
#include "decoder.h"

static uint32_t greatest_at(const float *row, uint32_t width)
{
    uint32_t at = 0;
    for (uint32_t k = 1; k < width; k++)
        if (row[k] > row[at])
            at = k;
    return at;
}

uint32_t spsh__decode_greedy(const spsh__score_rows *rows, uint32_t *labels, uint32_t capacity)
{
    uint32_t count = 0;
    uint32_t before = rows->blank;
    for (uint32_t t = 0; t < rows->frames && count < capacity; t++) {
        const uint32_t symbol = greatest_at(rows->values + t * rows->stride, rows->width);
        if (symbol != rows->blank && symbol != before)
            labels[count++] = symbol;
        before = symbol;
    }
    return count;
}
