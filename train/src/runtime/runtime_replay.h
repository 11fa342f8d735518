/* runtime_replay.h: a recorded run again, in one process, mark for mark: its learners come to the
 * same bits.
 *
 *     spsh__replay_open(&options, learners, &replay, &err);     // the records of all of them
 *     spsh__replay_run(replay, learner_fn, user, &err);         // as spsh__sim_run
 *     spsh__replay_close(replay);
 *
 * Messages are made again by those who post them. A learner goes on as far as its record's next
 * mark is possible: a message that is there is served, a computing task that stands before the same
 * mark goes through it. So no clock has a part in it, and no order but the recorded one.
 */
#ifndef SPSH_RUNTIME_REPLAY_H
#define SPSH_RUNTIME_REPLAY_H

#include "runtime_record.h"
#include "runtime_sim.h"

typedef struct spsh__replay spsh__replay;

/* What spsh__record_read says; SPSH_E_LIMIT (threads), _NO_MEMORY. */
spsh_status spsh__replay_open(const spsh__record_options *options, uint32_t learners,
                              spsh__replay **ret_replay, spsh_error *err);
void spsh__replay_close(spsh__replay *replay); /* NULL is fine */
spsh__runtime *spsh__replay_runtime(spsh__replay *replay, uint32_t learner);
spsh__comm *spsh__replay_comm(spsh__replay *replay, uint32_t learner);

/* It has the end that a learner writes that was not killed. */
bool spsh__replay_is_whole(const spsh__replay *replay, uint32_t learner);

/* Once. A learner whose record ends (it was killed) is stopped there: SPSH_E_CANCELED is what it
 * sees, and no failure. SPSH_E_MISMATCH: a learner does something else than its record says. */
spsh_status spsh__replay_run(spsh__replay *replay, spsh__sim_body_fn body_fn, void *user,
                             spsh_error *err);
#endif
