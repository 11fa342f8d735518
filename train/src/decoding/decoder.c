/* decoder.c: greedy decoding. */
#include "decoder.h"

uint32_t spsh__decode_greedy(const spsh__best_symbols *best, uint32_t *labels, uint32_t capacity)
{
    uint32_t count = 0;
    uint32_t before = best->blank;
    for (uint32_t t = 0; t < best->frames && count < capacity; t++) {
        const uint32_t symbol = best->symbols[t * best->stride];
        if (symbol != best->blank && symbol != before)
            labels[count++] = symbol;
        before = symbol;
    }
    return count;
}
