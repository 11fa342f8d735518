/* fail_malloc.h: malloc and its kin fail on request in the whole program, for allocations that do
 * not use an spsh_allocator (fault_alloc.h).
 *
 *     fail_malloc.calls = 0, fail_malloc.at = n;   -- fails call n (from 0)
 *     ... CHECK_I64(run(), SPSH_E_NO_MEMORY);
 *     fail_malloc.at = UINT64_MAX;
 *
 * Or all of them, each in a child that is forked at the allocation, so that earlier work runs once:
 *
 *     fail_malloc.calls = 0, fail_malloc.forks = true;
 *     const spsh_status rc = run();
 *     if (!fail_malloc.forks) -- a child: an allocation has failed
 *         CHECK_I64(rc, SPSH_E_NO_MEMORY), exit(TEST_RESULT());
 *     fail_malloc.forks = false;
 *     CHECK_U64(fail_malloc.bad_children, 0);
 *
 * Forking is for a run of one thread without effects outside the process.
 *
 * A test that links the target fail_malloc gets the sources and the linker's --wrap.
 */
#ifndef FAIL_MALLOC_H
#define FAIL_MALLOC_H

#include <stdbool.h>
#include <stdint.h>

extern struct fail_malloc {
    _Atomic uint64_t calls; /* number of allocations since it was set to 0 */
    uint64_t at;            /* UINT64_MAX: never */
    bool later_too;         /* the calls after it fail as well */
    bool forks; /* fork two children at each call: only this call fails, or all later ones, too */
    uint64_t children, bad_children; /* bad_children: those that did not exit with 0 */
} fail_malloc;

#endif
