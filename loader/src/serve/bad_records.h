/* bad_records.h: the quarantine of bad records, and its form in a cursor.
 *
 * A bad record is found when it is read, which may be long before its batch is served, and in any
 * order. So there are two lists. Records in `known` are not read again. Records in `served` are
 * bad records of batches that were served, in the order of batches, so this list does not depend on
 * the number of threads. Only `served` counts for the limit, is stored in cursors, and is visible
 * to the caller. The loader's lock guards both.
 */
#ifndef SPSH_BAD_RECORDS_H
#define SPSH_BAD_RECORDS_H

#include "batch/slot.h"

#define SPSH__BAD_ENTRY_BYTES 12 /* u32 dataset, u64 position */

typedef struct spsh__bad_list {
    spsh_bad_record *records;
    size_t count, capacity;
} spsh__bad_list;

typedef struct spsh__bad {
    const spsh_allocator *allocator;
    spsh__bad_list known, served;
    uint64_t limit;
} spsh__bad;

void spsh__bad_free(spsh__bad *bad);

/* Find a known bad record, or NULL. Valid until the next change. */
const spsh_bad_record *spsh__bad_find(const spsh__bad *bad, uint32_t dataset, uint64_t position);
/* Add a record to `known`, unless it is there. */
spsh_status spsh__bad_learn(spsh__bad *bad, const spsh_bad_record *record, spsh_error *err);
/* Add the bad records of a batch to `served`. SPSH_E_LIMIT: more than `limit`. */
spsh_status spsh__bad_serve(spsh__bad *bad, const spsh_bad_record *records, size_t count,
                            spsh_error *err);

/* Size of `served` after the 80 bytes of a cursor; 0 if it is empty. */
size_t spsh__bad_extra_bytes(const spsh__bad *bad);
void spsh__bad_encode(const spsh__bad *bad, uint8_t *extra);
/* Decode into an empty quarantine. Free it with spsh__bad_free, also after a failure. */
spsh_status spsh__bad_decode(spsh__bad *bad, const uint8_t *extra, size_t size_bytes,
                             uint32_t dataset_count, spsh_error *err);

#endif
