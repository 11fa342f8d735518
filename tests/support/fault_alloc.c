/* fault_alloc.c: each block carries its size in front. New memory is filled with 0x5a, so that code
 * that relies on zeroed memory fails at once: its integers are positive, like descriptors and
 * counts. Freed memory is filled with 0xa5. */
#include "fault_alloc.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD_BYTES = 64 }; /* keeps the alignment that malloc gives, and more */

void *fault_alloc_alloc(void *user, size_t size_bytes)
{
    fault_alloc *fault = (fault_alloc *)user;
    const uint64_t call = atomic_fetch_add(&fault->call_count, 1);
    if (call == fault->fail_at || (call > fault->fail_at && !fault->fails_once))
        return NULL;
    if (size_bytes > SIZE_MAX - HEAD_BYTES)
        return NULL;
    unsigned char *head = (unsigned char *)malloc(HEAD_BYTES + size_bytes);
    if (head == NULL)
        return NULL;
    memcpy(head, &size_bytes, sizeof(size_bytes));
    memset(head + HEAD_BYTES, 0x5a, size_bytes);
    atomic_fetch_add(&fault->live_count, 1);
    int64_t live_bytes =
        atomic_fetch_add(&fault->live_bytes, (int64_t)size_bytes) + (int64_t)size_bytes;
    int64_t highest = atomic_load(&fault->live_bytes_max);
    while (live_bytes > highest &&
           !atomic_compare_exchange_weak(&fault->live_bytes_max, &highest, live_bytes)) {
    }
    return head + HEAD_BYTES;
}

void fault_alloc_free(void *user, void *memory)
{
    fault_alloc *fault = (fault_alloc *)user;
    if (memory == NULL)
        return;
    unsigned char *head = (unsigned char *)memory - HEAD_BYTES;
    size_t size_bytes = 0;
    memcpy(&size_bytes, head, sizeof(size_bytes));
    memset(memory, 0xa5, size_bytes);
    atomic_fetch_sub(&fault->live_count, 1);
    atomic_fetch_sub(&fault->live_bytes, (int64_t)size_bytes);
    free(head);
}
