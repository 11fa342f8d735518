/* radix128.c: an in-memory radix sort of 16-byte records, starting at the most significant byte.
 *
 * Each step distributes a range by the first byte in which its records differ, from one array to
 * the other. The 256 parts are sorted in the same way. A part with few records is sorted by
 * insertion. Bytes that are equal in all records cost one pass. After two steps a part fits into
 * the cache. Threads share the parts of the first step.
 */
#include <stdbool.h>
#include <string.h>

#include "sort128.h"
#include "speechshard/cores.h"

enum { FEW = 24, DIGITS = 256, BYTES = 16, PARALLEL_MIN = 1 << 16 };

static void insert_sort(spsh__u128 *records, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        const spsh__u128 taken = records[i];
        size_t place = i;
        for (; place > 0 && spsh__u128_less(&taken, &records[place - 1]); place--)
            records[place] = records[place - 1];
        records[place] = taken;
    }
}

/* Return the most significant byte in which the records differ, counted from 0 for the highest.
 * BYTES if all records are equal. */
static unsigned first_difference(const spsh__u128 *records, size_t count)
{
    spsh__u128 differs = {0, 0};
    for (size_t i = 1; i < count; i++) {
        differs.high |= records[i].high ^ records[0].high;
        differs.low |= records[i].low ^ records[0].low;
    }
    if (differs.high != 0)
        return (unsigned)__builtin_clzll(differs.high) / 8;
    if (differs.low != 0)
        return 8 + (unsigned)__builtin_clzll(differs.low) / 8;
    return BYTES;
}

static unsigned digit(const spsh__u128 *record, unsigned byte)
{
    const uint64_t half = byte < 8 ? record->high : record->low;
    return (unsigned)(half >> (56 - 8 * (byte % 8)) & (DIGITS - 1));
}

/* Distribute records from one array to the other by one byte. starts[d] is the first position of
 * digit d, and starts[DIGITS] is count. */
static void spread(const spsh__u128 *from, spsh__u128 *to, size_t count, unsigned byte,
                   size_t starts[DIGITS + 1])
{
    size_t next[DIGITS] = {0};
    for (size_t i = 0; i < count; i++)
        next[digit(&from[i], byte)]++;
    size_t sum = 0;
    for (unsigned d = 0; d < DIGITS; d++) {
        starts[d] = sum;
        sum += next[d];
        next[d] = starts[d];
    }
    starts[DIGITS] = sum;
    for (size_t i = 0; i < count; i++)
        to[next[digit(&from[i], byte)]++] = from[i];
}

/* Sort the records in `from`. The result is in `to` if is_to, else in `from`. Recursion depth: at
 * most BYTES. */
static void sort_range(spsh__u128 *from, spsh__u128 *to, size_t count, bool is_to)
{
    size_t starts[DIGITS + 1];
    unsigned byte = BYTES;

    if (count <= FEW)
        insert_sort(from, count);
    else
        byte = first_difference(from, count);
    if (byte == BYTES) {
        if (is_to)
            memcpy(to, from, count * sizeof(*to));
        return;
    }
    spread(from, to, count, byte, starts);
    for (unsigned d = 0; d < DIGITS; d++)
        if (starts[d + 1] > starts[d])
            sort_range(to + starts[d], from + starts[d], starts[d + 1] - starts[d], !is_to);
}

typedef struct parts {
    spsh__u128 *records;
    spsh__u128 *scratch; /* holds the records, distributed by one byte */
    size_t starts[DIGITS + 1];
} parts;

static spsh_status sort_part(void *user, uint32_t worker, uint64_t part, spsh_error *err)
{
    const parts *shared = user;
    const size_t start = shared->starts[part];
    (void)worker;
    (void)err;
    sort_range(shared->scratch + start, shared->records + start, shared->starts[part + 1] - start,
               true);
    return SPSH_OK;
}

spsh_status spsh__radix_sort128(spsh__u128 *records, spsh__u128 *scratch, size_t count,
                                uint32_t threads, spsh_error *err)
{
    parts shared = {.records = records, .scratch = scratch};
    const bool is_small = threads < 2 || count < PARALLEL_MIN;
    const unsigned byte = is_small ? BYTES : first_difference(records, count);

    if (byte == BYTES) {
        sort_range(records, scratch, count, false);
        return SPSH_OK;
    }
    spread(records, scratch, count, byte, shared.starts);
    return spsh_cores_run(threads, DIGITS, sort_part, &shared, err);
}
