/* fiber.h: functions that run one at a time, each on a stack of its own, in the order in which one
 * caller lets them.
 *
 *     spsh__fiber_open(allocator, 0, body_fn, user, &fiber, &err);
 *     while (spsh__fiber_resume(fiber))      // until the body yields (true) or returns (false)
 *         ...
 *     spsh__fiber_close(fiber);
 *
 * What they share needs no lock. A hand-over takes some hundred nanoseconds; under sanitizers, and
 * where there is no glibc, they are threads that hand on a baton, and it takes some microseconds.
 */
#ifndef SPSH_TRAIN_FIBER_H
#define SPSH_TRAIN_FIBER_H

#include <stdbool.h>

#include "speechshard/base.h"

typedef struct spsh__fiber spsh__fiber;

enum { SPSH__FIBER_RUN_BYTES = 8 << 20 }; /* a stack of one in which a whole run goes on */

/* Does not run yet. stack_bytes 0: 1 MiB; what of it is not touched takes no memory.
 * SPSH_E_NO_MEMORY, _LIMIT (no more threads). */
spsh_status spsh__fiber_open(const spsh_allocator *allocator, size_t stack_bytes,
                             void (*body_fn)(void *user), void *user, spsh__fiber **ret_fiber,
                             spsh_error *err);
/* Lets it go on until it yields or ends. false: it has ended. One caller at a time. */
bool spsh__fiber_resume(spsh__fiber *fiber);
/* By the body itself. */
void spsh__fiber_yield(spsh__fiber *fiber);
/* One that has begun must have ended. NULL is fine. */
void spsh__fiber_close(spsh__fiber *fiber);

#endif
