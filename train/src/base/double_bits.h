/* double_bits.h: doubles as the 64 bits that files and messages carry. */
#ifndef SPSH_TRAIN_DOUBLE_BITS_H
#define SPSH_TRAIN_DOUBLE_BITS_H

#include <stdint.h>
#include <string.h>

static inline uint64_t spsh__bits_of_double(double value)
{
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline double spsh__double_of_bits(uint64_t bits)
{
    double value = 0;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

#endif
