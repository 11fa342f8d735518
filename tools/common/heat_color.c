/* heat_color.c: the colour map "magma" of matplotlib, by Nathaniel J. Smith and Stefan van der
 * Walt, given to the public domain (CC0): equal steps of a value look like equal steps of colour,
 * and darkness alone tells the order. Every eighth of its 256 colours; straight between them, which
 * is nowhere more than 3 of 255 from the original.
 */
#include "canvas.h"

enum { ANCHORS = 33 };

static const uint32_t anchors[ANCHORS] = {
    0x000004, 0x030312, 0x0a0822, 0x130d34, 0x1d1147, 0x29115a, 0x36106b, 0x440f76, 0x51127c,
    0x5d177f, 0x6a1c81, 0x762181, 0x832681, 0x902a81, 0x9c2e7f, 0xaa337d, 0xb73779, 0xc43c75,
    0xd0416f, 0xdc4869, 0xe75263, 0xef5d5e, 0xf56b5c, 0xf9795d, 0xfc8961, 0xfd9869, 0xfea772,
    0xfeb67c, 0xfec488, 0xfed395, 0xfde2a3, 0xfcf0b2, 0xfcfdbf,
};

uint32_t spsh__heat_color(uint32_t level)
{
    const uint32_t whole = SPSH__HEAT_LEVELS - 1;
    const uint32_t at = (level < whole ? level : whole) * (ANCHORS - 1);
    const uint32_t first = at / whole;
    const uint32_t next = first + 1 < ANCHORS ? first + 1 : first;
    const uint32_t part = at % whole;
    uint32_t color = 0;
    for (uint32_t shift = 0; shift <= 16; shift += 8) {
        const uint32_t a = anchors[first] >> shift & 0xff;
        const uint32_t b = anchors[next] >> shift & 0xff;
        color |= (a * (whole - part) + b * part + whole / 2) / whole << shift;
    }
    return color;
}
