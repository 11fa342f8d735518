/* patch.h: a fuzzer's input as changes to a good file.
 *
 * The first byte has flags. Bit 0: correct the checksums afterwards. Bit 1: the rest of the input
 * is the file itself. Without bit 1, the rest is a list of changes: operation, u16 position,
 * operands. Positions count only nonzero parts of the base and a little around them, so that a
 * mutation seldom falls into padding.
 */
#ifndef PATCH_H
#define PATCH_H

#include <stddef.h>
#include <stdint.h>

typedef struct patch_base {
    uint8_t *data;
    size_t size_bytes;
    uint32_t *places; /* offsets in data */
    size_t place_count;
} patch_base;

/* Takes ownership of data, which came from malloc. Never freed: a program has one. */
void patch_base_init(patch_base *base, uint8_t *data, size_t size_bytes);

/* The changed file in a block of its exact size, from malloc. */
uint8_t *patch_apply(const patch_base *base, const uint8_t *input, size_t input_bytes,
                     size_t *ret_bytes);

#endif
