/* plan_states.h: results about windows, for the two most recently used epochs: the state of each
 * domain at the beginning of a window, and the batch count of a window. Thread-safe. */
#ifndef SPSH_PLAN_STATES_H
#define SPSH_PLAN_STATES_H

#include "plan_internal.h"

/* State of one domain at the beginning of a window. */
typedef struct spsh__domain_state {
    uint64_t index;  /* index of the next utterance in the domain's stream, over all epochs */
    uint64_t served; /* units served in this epoch */
} spsh__domain_state;

spsh_status spsh__states_open(spsh_plan *plan, spsh_error *err);
void spsh__states_close(spsh_plan *plan);

/* Find the last known window in [low, high]; false: no window is known. ret_states: one per
 * domain. */
bool spsh__states_find(const spsh_plan *plan, uint64_t epoch, uint32_t low, uint32_t high,
                       uint32_t *ret_window, spsh__domain_state *ret_states);
void spsh__states_keep(const spsh_plan *plan, uint64_t epoch, uint32_t window,
                       const spsh__domain_state *states);

/* Batch count of a window; SPSH_NONE_U32: not known. */
uint32_t spsh__states_batches(const spsh_plan *plan, uint64_t epoch, uint32_t window);
void spsh__states_keep_batches(const spsh_plan *plan, uint64_t epoch, uint32_t window,
                               uint32_t batches);

/* Save results that the cache directory lacks. only_much: save only tables with many new results.
 */
void spsh__states_save(const spsh_plan *plan, bool only_much);

#endif
