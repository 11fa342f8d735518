/* sort128.h: sort 16-byte records, also if they do not fit into memory.
 *
 *     spsh__sort128_open(&options, &sort, err);
 *     spsh__sort128_add(sort, records, count, err);               // as often as needed
 *     while ((rc = spsh__sort128_next(sort, &records, &count, err)) == SPSH_OK) ...   // SPSH_E_END
 *     spsh__sort128_free(sort);
 *
 * Duplicate detection packs everything that it sorts into 128 bits: keys, hits, and hashes of
 * chunks and texts. So one sort serves all of them. It radix-sorts buffers, spills them as runs
 * with a checksum per block (spill.h), and merges the runs. Equal records are interchangeable, so
 * the result depends only on the set of added records.
 */
#ifndef SPSH_DEDUP_SORT128_H
#define SPSH_DEDUP_SORT128_H

#include <stdbool.h>

#include "speechshard/io.h"

/* Compared by high first, then by low. */
typedef struct spsh__u128 {
    uint64_t high, low;
} spsh__u128;

static inline bool spsh__u128_less(const spsh__u128 *a, const spsh__u128 *b)
{
    return a->high != b->high ? a->high < b->high : a->low < b->low;
}

typedef struct spsh__sort128_options {
    const spsh_io *io; /* NULL: the operating system; borrowed until spsh__sort128_free */
    const char
        *temporary_path;   /* directory of the spill files, which are unlinked as soon as they are
                              open */
    uint64_t memory_bytes; /* at least 1 MiB; limit for all buffers, also while merging */
    uint32_t threads;      /* at least 1 */
} spsh__sort128_options;

typedef struct spsh__sort128 spsh__sort128;

spsh_status spsh__sort128_open(const spsh__sort128_options *options, spsh__sort128 **ret_sort,
                               spsh_error *err);
/* Add records. SPSH_E_NO_SPACE, _IO, _NO_MEMORY; _INVALID_ARG after the first call of next. Call it
 * from one thread. */
spsh_status spsh__sort128_add(spsh__sort128 *sort, const spsh__u128 *records, size_t count,
                              spsh_error *err);
/* Return the next records in order, borrowed until the next call. SPSH_E_END at the end, which does
 * not change err. SPSH_E_CORRUPT, which names the file, if a block differs from the block that was
 * written. */
spsh_status spsh__sort128_next(spsh__sort128 *sort, const spsh__u128 **ret_records,
                               size_t *ret_count, spsh_error *err);

/* Cursor that reads one record of a sort at a time. */
typedef struct spsh__sort128_cursor {
    const spsh__u128 *piece; /* records that spsh__sort128_next returned last */
    size_t at, count;
} spsh__sort128_cursor;

/* Return the next record without consuming it; the caller increments `at` to consume it. Same
 * return codes as spsh__sort128_next. */
static inline spsh_status spsh__sort128_peek(spsh__sort128 *sort, spsh__sort128_cursor *cursor,
                                             const spsh__u128 **ret_record, spsh_error *err)
{
    if (cursor->at == cursor->count) {
        *cursor = (spsh__sort128_cursor){0};
        const spsh_status rc = spsh__sort128_next(sort, &cursor->piece, &cursor->count, err);
        if (rc != SPSH_OK)
            return rc;
    }
    *ret_record = &cursor->piece[cursor->at];
    return SPSH_OK;
}

/* Return the next record and consume it. The record is borrowed until the next call. Same return
 * codes as spsh__sort128_next. */
static inline spsh_status spsh__sort128_take(spsh__sort128 *sort, spsh__sort128_cursor *cursor,
                                             const spsh__u128 **ret_record, spsh_error *err)
{
    const spsh_status rc = spsh__sort128_peek(sort, cursor, ret_record, err);
    cursor->at += rc == SPSH_OK;
    return rc;
}

uint64_t spsh__sort128_count(const spsh__sort128 *sort);
uint64_t spsh__sort128_spilled_bytes(const spsh__sort128 *sort);
/* Start again with an empty sort, and keep its buffers: new memory costs page faults. Returns false,
 * and changes nothing, if the sort spilled or failed. */
bool spsh__sort128_clear(spsh__sort128 *sort);
void spsh__sort128_free(spsh__sort128 *sort);

/* Sort records in memory. scratch has capacity for count records, too. */
spsh_status spsh__radix_sort128(spsh__u128 *records, spsh__u128 *scratch, size_t count,
                                uint32_t threads, spsh_error *err);

#endif
