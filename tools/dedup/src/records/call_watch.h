/* call_watch.h: how far a long call has come, and whether its caller has canceled it.
 *
 *     spsh__call_watch watch = {.progress_fn = options.progress_fn, .user = options.user};
 *     spsh__call_watch_tell(&watch, "listen", done, total);
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
    atomic_bool is_canceled; /* progress_fn has returned another value than 0 */
} spsh__call_watch;

/* Reports progress. One thread at a time. watch may be NULL, also below. */
void spsh__call_watch_tell(spsh__call_watch *watch, const char *stage, uint64_t done,
                           uint64_t total);

/* SPSH_OK or SPSH_E_CANCELED. Any thread. */
SPSH_NODISCARD spsh_status spsh__call_watch_check(const spsh__call_watch *watch, spsh_error *err);

#endif
