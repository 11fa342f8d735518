/* utf8.c: eight ASCII bytes at a time; else one character after another by the table of Unicode's
 * well-formed byte sequences: only the second byte's range depends on the first byte. */
#include "utf8.h"

#include <stdint.h>
#include <string.h>

/* Bytes of the character that starts at p, or 0. */
static size_t character_bytes(const uint8_t *p, size_t left)
{
    uint8_t low = 0x80;
    uint8_t high = 0xBF;
    size_t size = 0;
    if (p[0] < 0x80)
        return 1;
    if (p[0] >= 0xC2 && p[0] <= 0xDF)
        size = 2;
    else if (p[0] >= 0xE0 && p[0] <= 0xEF)
        size = 3;
    else if (p[0] >= 0xF0 && p[0] <= 0xF4)
        size = 4;
    if (size == 0 || left < size)
        return 0;
    switch (p[0]) {
    case 0xE0: low = 0xA0; break;  /* below: overlong */
    case 0xED: high = 0x9F; break; /* above: surrogates */
    case 0xF0: low = 0x90; break;  /* below: overlong */
    case 0xF4: high = 0x8F; break; /* above: more than U+10FFFF */
    default: break;
    }
    if (p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < size; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    return size;
}

bool spsh__utf8_valid(const void *data, size_t size_bytes)
{
    const uint8_t *p = (const uint8_t *)data;
    size_t at = 0;
    while (at < size_bytes) {
        uint64_t word = UINT64_MAX;
        if (size_bytes - at >= 8)
            memcpy(&word, p + at, 8);
        if ((word & UINT64_C(0x8080808080808080)) == 0) {
            at += 8;
            continue;
        }
        size_t size = character_bytes(p + at, size_bytes - at);
        if (size == 0)
            return false;
        at += size;
    }
    return true;
}
