/* patch.c: the operation's low 3 bits select the change at the position.
 *
 *     0 ... 3   store a value of 1, 2, 4 or 8 bytes
 *     4         add a signed byte to the u64 there
 *     5         copy 64 bytes from another position
 *     6         flip a bit
 *     7         change the file's size by a number of pages, and update both footers
 */
#include "patch.h"

#include <stdlib.h>
#include <string.h>

#include "reseal.h"

#define CELL ((size_t)16)

enum { PAGE = 4096, SIZE_MAX_BYTES = 1 << 20 };

static int is_zero(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (data[i] != 0)
            return 0;
    return 1;
}

void patch_base_init(patch_base *base, uint8_t *data, size_t size_bytes)
{
    base->data = data;
    base->size_bytes = size_bytes;
    base->place_count = 0;
    base->places = (uint32_t *)malloc(size_bytes * sizeof(*base->places));
    if (base->places == NULL)
        abort();
    for (size_t cell = 0; cell < size_bytes; cell += CELL) {
        const size_t begin = cell < CELL ? 0 : cell - CELL; /* one cell before and one after */
        size_t end = cell + 2 * CELL < size_bytes ? cell + 2 * CELL : size_bytes;
        if (is_zero(data + begin, end - begin))
            continue;
        for (size_t at = cell; at < cell + CELL && at < size_bytes; at++)
            base->places[base->place_count++] = (uint32_t)at;
    }
}

typedef struct reader {
    const uint8_t *at;
    size_t left;
} reader;

static uint64_t take(reader *r, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size && r->left > 0; i++, r->at++, r->left--)
        value |= (uint64_t)*r->at << (8 * i);
    return value;
}

static void store(uint8_t *to, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t load(const uint8_t *from)
{
    uint64_t value = 0;
    for (size_t i = 0; i < 8; i++)
        value |= (uint64_t)from[i] << (8 * i);
    return value;
}

/* Capacity after the last byte allows operations to write up to 64 bytes. */
static void apply(const patch_base *base, uint8_t *data, size_t *size, reader *r)
{
    unsigned operation = (unsigned)take(r, 1) & 7;
    uint8_t *to = data + base->places[take(r, 2) % base->place_count];
    switch (operation) {
    case 0:
    case 1:
    case 2:
    case 3: store(to, take(r, (size_t)1 << operation), (size_t)1 << operation); break;
    case 4: store(to, load(to) + (uint64_t)(int64_t)(int8_t)take(r, 1), 8); break;
    case 5: memmove(to, data + base->places[take(r, 2) % base->place_count], 64); break;
    case 6: *to ^= (uint8_t)(1u << (take(r, 1) & 7)); break;
    default:
        *size = (size_t)(take(r, 1) % 16) * PAGE;
        if (*size > base->size_bytes)
            *size = base->size_bytes;
        for (size_t copy = 1; copy <= 2 && copy * PAGE <= *size; copy++)
            store(data + *size - copy * PAGE + 24, *size, 8);
        break;
    }
}

uint8_t *patch_apply(const patch_base *base, const uint8_t *input, size_t input_bytes,
                     size_t *ret_bytes)
{
    static uint8_t work[SIZE_MAX_BYTES + 64];
    reader r = {input, input_bytes};
    unsigned mode = (unsigned)take(&r, 1);
    size_t size = base->size_bytes;
    if ((mode & 2) != 0) {
        size = r.left < SIZE_MAX_BYTES ? r.left : SIZE_MAX_BYTES;
        if (size > 0)
            memcpy(work, r.at, size);
    } else {
        memcpy(work, base->data, size);
        while (r.left > 0)
            apply(base, work, &size, &r);
    }
    uint8_t *result = (uint8_t *)malloc(size == 0 ? 1 : size);
    if (result == NULL)
        abort();
    memcpy(result, work, size);
    if ((mode & 1) != 0)
        reseal(result, size);
    *ret_bytes = size;
    return result;
}
