/* runtime_replay.h: replay a recorded run in one process, mark by mark: its learners produce
 * identical bits.
 *
 *     spsh__replay_open(&options, learners, &replay, &err);     // the records of all of them
 *     spsh__replay_run(replay, learner_fn, user, &err);         // like spsh__sim_run
 *     spsh__replay_close(replay);
 *
 * The learners post their messages again. A learner continues as long as the next mark of its
 * record is possible: the message has arrived and is served, or the computing task is at the same
 * mark and passes it. Neither a clock nor any order except the recorded one has an influence.
 */
#ifndef SPSH_RUNTIME_REPLAY_H
#define SPSH_RUNTIME_REPLAY_H

#include "runtime_record.h"
#include "runtime_sim.h"

typedef struct spsh__replay spsh__replay;

/* Returns the codes of spsh__record_read; SPSH_E_LIMIT (threads), SPSH_E_NO_MEMORY. */
spsh_status spsh__replay_open(const spsh__record_options *options, uint32_t learners,
                              spsh__replay **ret_replay, spsh_error *err);
void spsh__replay_close(spsh__replay *replay); /* NULL is fine */
spsh__runtime *spsh__replay_runtime(spsh__replay *replay, uint32_t learner);
spsh__comm *spsh__replay_comm(spsh__replay *replay, uint32_t learner);

/* Return true if the record has the end mark, which a learner writes unless it is killed. */
bool spsh__replay_is_whole(const spsh__replay *replay, uint32_t learner);

/* Run the replay, once. A learner whose record ends because it was killed is stopped there: it gets
 * SPSH_E_CANCELED, which is not a failure. SPSH_E_MISMATCH: a learner deviates from its record. */
spsh_status spsh__replay_run(spsh__replay *replay, spsh__sim_body_fn body_fn, void *user,
                             spsh_error *err);
#endif
