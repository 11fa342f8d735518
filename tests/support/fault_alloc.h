/* fault_alloc.h: an allocator that fails on request, so that every allocation can be made to fail.
 *
 *     fault_alloc fault = {.fail_at = n};   -- fails call n (from 0) and all later ones
 *     spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
 *     ... CHECK(fault.live_count == 0);
 *
 * Safe to use from several threads.
 */
#ifndef FAULT_ALLOC_H
#define FAULT_ALLOC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fault_alloc {
    uint64_t fail_at;               /* UINT64_MAX: never */
    bool fails_once;                /* calls after fail_at succeed */
    _Atomic uint64_t call_count;    /* number of allocations so far */
    _Atomic int64_t live_count;     /* blocks that are not freed yet */
    _Atomic int64_t live_bytes;     /* their sum */
    _Atomic int64_t live_bytes_max; /* its highest value */
} fault_alloc;

void *fault_alloc_alloc(void *user, size_t size_bytes);
void fault_alloc_free(void *user, void *memory);

#endif
