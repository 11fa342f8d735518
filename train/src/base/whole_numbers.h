/* whole_numbers.h: arithmetic of counts and sizes. Results must fit into 64 bits. */
#ifndef SPSH_TRAIN_WHOLE_NUMBERS_H
#define SPSH_TRAIN_WHOLE_NUMBERS_H

#include <stdint.h>

static inline uint64_t spsh__least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t spsh__divide_up(uint64_t count, uint64_t size)
{
    return count / size + (count % size != 0);
}

static inline uint64_t spsh__round_up(uint64_t value, uint64_t multiple)
{
    return spsh__divide_up(value, multiple) * multiple;
}

#endif
