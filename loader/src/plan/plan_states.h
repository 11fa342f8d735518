/* plan_states.h: what is known of epochs: where each domain stands at the beginning of windows, and
 * how many batches windows have. For the two epochs used last. Thread-safe. */
#ifndef SPSH_PLAN_STATES_H
#define SPSH_PLAN_STATES_H

#include "plan_internal.h"

/* Of one domain, at the beginning of a window. */
typedef struct spsh__domain_state {
    uint64_t index;  /* of the utterance that is next, over all epochs */
    uint64_t served; /* units, in this epoch */
} spsh__domain_state;

spsh_status spsh__states_open(spsh_plan *plan, spsh_error *err);
void spsh__states_close(spsh_plan *plan);

/* The last known window in [low, high]; false: none. ret_states: an entry for each domain. */
bool spsh__states_find(const spsh_plan *plan, uint64_t epoch, uint32_t low, uint32_t high,
                       uint32_t *ret_window, spsh__domain_state *ret_states);
void spsh__states_keep(const spsh_plan *plan, uint64_t epoch, uint32_t window,
                       const spsh__domain_state *states);

/* SPSH_NONE_U32: not known. */
uint32_t spsh__states_batches(const spsh_plan *plan, uint64_t epoch, uint32_t window);
void spsh__states_keep_batches(const spsh_plan *plan, uint64_t epoch, uint32_t window,
                               uint32_t batches);

/* Keep in the cache directory what is not there yet: all of it, or only if it is much. */
void spsh__states_save(const spsh_plan *plan, bool only_much);

#endif
