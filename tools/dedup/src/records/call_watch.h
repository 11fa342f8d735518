/* call_watch.h: progress reports of a long call, and its cancellation by the caller.
 *
 *     spsh__call_watch watch = {.progress_fn = options.progress_fn, .user = options.user};
 *     spsh__call_watch_report(&watch, "listen", done, total);
 *     rc = spsh__call_watch_check(&watch, err);
 */
#ifndef SPSH_CALL_WATCH_H
#define SPSH_CALL_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "speechshard/base.h"

typedef struct spsh__call_watch {
    spsh_progress_fn progress_fn; /* may be NULL */
    void *user;
    atomic_bool is_canceled; /* true after progress_fn returned a value other than 0 */
} spsh__call_watch;

/* Report progress to progress_fn. Call it from one thread at a time. watch may be NULL in both
 * functions. */
void spsh__call_watch_report(spsh__call_watch *watch, const char *stage, uint64_t done,
                             uint64_t total);

/* Return SPSH_E_CANCELED after a cancellation, else SPSH_OK. Any thread may call it. */
SPSH_NODISCARD spsh_status spsh__call_watch_check(const spsh__call_watch *watch, spsh_error *err);

#endif
