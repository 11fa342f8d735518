/* fail_malloc.h: malloc and its kin that fail on request, in the whole program: what is not asked
 * of an spsh_allocator (fault_alloc.h) can be made to fail, too.
 *
 *     fail_malloc.calls = 0, fail_malloc.at = n;   -- fails call n (from 0)
 *     ... CHECK_I64(run(), SPSH_E_NO_MEMORY);
 *     fail_malloc.at = UINT64_MAX;
 *
 * A test that links the target fail_malloc gets the sources and the linker's --wrap.
 */
#ifndef FAIL_MALLOC_H
#define FAIL_MALLOC_H

#include <stdbool.h>
#include <stdint.h>

extern struct fail_malloc {
    _Atomic uint64_t calls; /* allocations asked for since it was set to 0 */
    uint64_t at;            /* UINT64_MAX: never */
    bool later_too;         /* the calls after it fail as well */
} fail_malloc;

#endif
