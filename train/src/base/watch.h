/* watch.h: a thread that polls for progress while its owner computes.
 *
 *     spsh__watch_open(look, user, pause_ns, &allocator, &watch, &err);
 *     spsh__watch_enter(watch);           look is not running, and does not begin
 *     ... use data that look shares ...
 *     spsh__watch_leave(watch, true);     the thread polls look until it returns false
 *     ... long computation ...
 *     spsh__watch_enter(watch);
 *     spsh__watch_leave(watch, false);    no polls until the next leave with true
 *
 * One owner. With NULL, all functions do nothing. The thread calls look under the watch's lock, so
 * look must not wait for long.
 */
#ifndef SPSH_TRAIN_WATCH_H
#define SPSH_TRAIN_WATCH_H

#include <stdbool.h>

#include "speechshard/base.h"

typedef struct spsh__watch spsh__watch;

/* poll_fn returns false to stop the polls until the owner resumes them. user is borrowed. The
 * thread sleeps for pause_ns between two polls. SPSH_E_NO_MEMORY; SPSH_E_LIMIT: too many threads.
 */
spsh_status spsh__watch_open(bool (*poll_fn)(void *user), void *user, uint64_t pause_ns,
                             const spsh_allocator *allocator, spsh__watch **ret, spsh_error *err);
/* End the thread. Do not call between enter and leave. */
void spsh__watch_close(spsh__watch *w);

void spsh__watch_enter(spsh__watch *w);
void spsh__watch_leave(spsh__watch *w, bool is_looking);

#endif
