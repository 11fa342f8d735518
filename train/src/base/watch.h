/* watch.h: a thread that looks again and again whether something goes on, while its owner computes.
 *
 *     spsh__watch_open(look, user, &allocator, &watch, &err);
 *     spsh__watch_enter(watch);           look is not running, and does not begin
 *     ... what look uses, too ...
 *     spsh__watch_leave(watch, true);     look is called every so often, until it returns false
 *     ... something long ...
 *     spsh__watch_enter(watch);
 *     spsh__watch_leave(watch, false);    it is not, until the next one
 *
 * One owner. Of NULL all of them do nothing. What look needs is under the watch's lock: of it alone
 * is it called, so it must not wait for long.
 */
#ifndef SPSH_TRAIN_WATCH_H
#define SPSH_TRAIN_WATCH_H

#include <stdbool.h>

#include "speechshard/base.h"

typedef struct spsh__watch spsh__watch;

/* look_fn: false: there is nothing to look for until the owner says so. user is borrowed.
 * SPSH_E_NO_MEMORY; SPSH_E_LIMIT: there are too many threads. */
spsh_status spsh__watch_open(bool (*look_fn)(void *user), void *user,
                             const spsh_allocator *allocator, spsh__watch **ret, spsh_error *err);
/* Ends the thread; not between enter and leave. */
void spsh__watch_close(spsh__watch *w);

void spsh__watch_enter(spsh__watch *w);
void spsh__watch_leave(spsh__watch *w, bool is_looking);

#endif
