/* pipeline_schedule.h: the order of forward and backward passes in each stage of a pipeline: one
 * forward, one backward (PipeDream with a flush after each step, Narayanan and others 2021).
 *
 *     3 stages, 4 micro-batches; 0 ... 3 forward, a ... d backward
 *
 *     stage 0   0 1 2 . . . . a 3 . b . . c . . d        (drawn with equal times; backward takes
 *     stage 1   . 0 1 . . a 2 . b 3 . c . . d            about twice as long)
 *     stage 2   . . 0 a 1 b . 2 c 3 d
 *
 * A stage runs forward passes until its window is full: as many micro-batches in flight as there
 * are stages from it to the last one, both included. Then it runs one backward pass before each
 * forward pass. A stage keeps the activations of S - stage micro-batches. Filling and then draining
 * (GPipe, Huang and others 2019) keeps all M activations. The idle time is the same, (S - 1) / (M +
 * S - 1) of the step, and so are the sums: gradients are added in the order of micro-batches.
 */
#ifndef SPSH_TRAIN_PIPELINE_SCHEDULE_H
#define SPSH_TRAIN_PIPELINE_SCHEDULE_H

#include <stdbool.h>

#include "speechshard/base.h"

typedef enum spsh__stages_operation {
    SPSH__STAGES_FORWARD = 0, /* forward pass of the next micro-batch */
    SPSH__STAGES_BACKWARD,    /* backward pass of the oldest micro-batch in flight */
    SPSH__STAGES_DONE,
} spsh__stages_operation;

/* Maximum number of micro-batches that a stage has in flight. */
static inline uint32_t spsh__stages_window(uint32_t stage, uint32_t stages)
{
    return stages - stage;
}

/* Return the next operation. forwards, backwards: passes done so far. has_more: another micro-batch
 * follows. */
spsh__stages_operation spsh__stages_next(uint32_t window, uint32_t forwards, uint32_t backwards,
                                         bool has_more);

/* Divide the blocks into contiguous stages so that the most expensive stage is as cheap as
 * possible. works: cost of each of block_count blocks. firsts: written, first block of each stage;
 * firsts[0] is 0. SPSH_E_INVALID_ARG: more stages than blocks, as each stage needs a block;
 * SPSH_E_NO_MEMORY. */
spsh_status spsh__stages_balance(const double *works, uint32_t block_count, uint32_t stages,
                                 uint32_t *firsts, spsh_error *err);
/* Check the first blocks of stages 1, 2, ... from a configuration. SPSH_E_INVALID_ARG. */
spsh_status spsh__stages_check_cuts(const uint32_t *cuts, uint32_t cut_count, uint32_t stages,
                                    uint32_t block_count, spsh_error *err);

#endif
