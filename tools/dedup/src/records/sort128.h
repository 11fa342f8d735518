/* sort128.h: sort records of 16 bytes, more than fit into memory.
 *
 *     spsh__sort128_open(&options, &sort, err);
 *     spsh__sort128_add(sort, records, count, err);               // as often as needed
 *     while ((rc = spsh__sort128_next(sort, &records, &count, err)) == SPSH_OK) ...   // SPSH_E_END
 *     spsh__sort128_free(sort);
 *
 * Everything that detection has to bring together (keys, hits, hashes of chunks and texts) is
 * packed into 128 bits, so one sort serves all: buffers are radix-sorted, spilled as runs with a
 * checksum a block (spill.h), and merged. Equal records are interchangeable, so the result is a
 * pure function of what was added.
 */
#ifndef SPSH_DEDUP_SORT128_H
#define SPSH_DEDUP_SORT128_H

#include <stdbool.h>

#include "speechshard/io.h"

/* Ordered by high, then low. */
typedef struct spsh__u128 {
    uint64_t high, low;
} spsh__u128;

static inline bool spsh__u128_less(const spsh__u128 *a, const spsh__u128 *b)
{
    return a->high != b->high ? a->high < b->high : a->low < b->low;
}

typedef struct spsh__sort128_options {
    const spsh_io *io; /* NULL: the operating system; borrowed until free */
    const char
        *temporary_path;   /* a directory for runs, which are unlinked as soon as they are open */
    uint64_t memory_bytes; /* at least 1 MiB; all of it counts, also while merging */
    uint32_t threads;      /* at least 1 */
} spsh__sort128_options;

typedef struct spsh__sort128 spsh__sort128;

spsh_status spsh__sort128_open(const spsh__sort128_options *options, spsh__sort128 **ret_sort,
                               spsh_error *err);
/* SPSH_E_NO_SPACE, _IO, _NO_MEMORY; _INVALID_ARG after next. One thread. */
spsh_status spsh__sort128_add(spsh__sort128 *sort, const spsh__u128 *records, size_t count,
                              spsh_error *err);
/* The next records in order, borrowed until the next call. SPSH_E_END, which leaves err alone.
 * SPSH_E_CORRUPT, which names the file, for a block that came back other than it was written. */
spsh_status spsh__sort128_next(spsh__sort128 *sort, const spsh__u128 **ret_records,
                               size_t *ret_count, spsh_error *err);

/* What is read of a sort one record at a time. */
typedef struct spsh__sort128_cursor {
    const spsh__u128 *piece; /* what next returned last */
    size_t at, count;
} spsh__sort128_cursor;

/* The next record, which stays until at is moved on. As next. */
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

/* The next record, borrowed until the next call. As next. */
static inline spsh_status spsh__sort128_take(spsh__sort128 *sort, spsh__sort128_cursor *cursor,
                                             const spsh__u128 **ret_record, spsh_error *err)
{
    const spsh_status rc = spsh__sort128_peek(sort, cursor, ret_record, err);
    cursor->at += rc == SPSH_OK;
    return rc;
}

uint64_t spsh__sort128_count(const spsh__sort128 *sort);
uint64_t spsh__sort128_spilled_bytes(const spsh__sort128 *sort);
void spsh__sort128_free(spsh__sort128 *sort);

/* In memory; scratch has room for count as well. */
spsh_status spsh__radix_sort128(spsh__u128 *records, spsh__u128 *scratch, size_t count,
                                uint32_t threads, spsh_error *err);

#endif
