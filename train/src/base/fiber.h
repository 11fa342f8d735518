/* fiber.h: functions that run one at a time, each on a separate stack, in the order in which one
 * caller resumes them.
 *
 *     spsh__fiber_open(allocator, 0, body_fn, user, &fiber, &err);
 *     while (spsh__fiber_resume(fiber))      // until the body yields (true) or returns (false)
 *         ...
 *     spsh__fiber_close(fiber);
 *
 * Data shared between fibers needs no lock. A switch takes some hundred nanoseconds. Under
 * sanitizers and without glibc, fibers are threads that pass a baton, and a switch takes some
 * microseconds.
 */
#ifndef SPSH_TRAIN_FIBER_H
#define SPSH_TRAIN_FIBER_H

#include <stdbool.h>

#include "speechshard/base.h"

typedef struct spsh__fiber spsh__fiber;

enum { SPSH__FIBER_RUN_BYTES = 8 << 20 }; /* stack size of a fiber that executes a whole run */

/* Does not run the body yet. stack_bytes 0: 1 MiB. Untouched stack pages take no memory.
 * SPSH_E_NO_MEMORY, _LIMIT (too many threads). */
spsh_status spsh__fiber_open(const spsh_allocator *allocator, size_t stack_bytes,
                             void (*body_fn)(void *user), void *user, spsh__fiber **ret_fiber,
                             spsh_error *err);
/* Run the body until it yields or ends. false: it has ended. One caller at a time. */
bool spsh__fiber_resume(spsh__fiber *fiber);
/* Called by the body. */
void spsh__fiber_yield(spsh__fiber *fiber);
/* A fiber that was resumed must have ended. NULL is fine. */
void spsh__fiber_close(spsh__fiber *fiber);

#endif
