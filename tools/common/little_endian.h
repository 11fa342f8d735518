/* little_endian.h: numbers of 1 to 8 bytes in files, lowest byte first. */
#ifndef SPSH_DEDUP_LITTLE_ENDIAN_H
#define SPSH_DEDUP_LITTLE_ENDIAN_H

#include <stddef.h>
#include <stdint.h>

static inline void spsh__store_le(uint8_t *bytes, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
}

static inline uint64_t spsh__load_le(const uint8_t *bytes, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

#endif
