/* bad_records.h: the records that are left out, and how a cursor carries them.
 *
 * A record is found bad when it is read, which may be long before its batch is served, and in any
 * order. So there are two lists. What is *known* is not read again. What is *served* is in the
 * order of batches, hence the same for any number of threads: it is what the limit is about, what a
 * cursor carries and what a caller sees. Guarded by the loader's lock.
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

/* NULL: not known. Valid until the next change. */
const spsh_bad_record *spsh__bad_find(const spsh__bad *bad, uint32_t dataset, uint64_t position);
/* One that is known already stays as it is. */
spsh_status spsh__bad_learn(spsh__bad *bad, const spsh_bad_record *record, spsh_error *err);
/* A batch is served without these. SPSH_E_LIMIT: too many. */
spsh_status spsh__bad_serve(spsh__bad *bad, const spsh_bad_record *records, size_t count,
                            spsh_error *err);

/* Behind the 80 bytes of a cursor; 0 when there are none. */
size_t spsh__bad_extra_bytes(const spsh__bad *bad);
void spsh__bad_encode(const spsh__bad *bad, uint8_t *extra);
/* Into an empty bad; after a failure, too, spsh__bad_free ends it. */
spsh_status spsh__bad_decode(spsh__bad *bad, const uint8_t *extra, size_t size_bytes,
                             uint32_t dataset_count, spsh_error *err);

#endif
