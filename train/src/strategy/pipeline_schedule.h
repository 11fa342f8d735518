/* pipeline_schedule.h: what each stage of a pipeline does when: forward and backward of
 * micro-batches in turns (PipeDream's order with a flush behind each step, Narayanan and others
 * 2021).
 *
 *     3 stages, 4 micro-batches; 0 ... 3 forward, a ... d backward
 *
 *     stage 0   0 1 2 . . . . a 3 . b . . c . . d        (backward takes twice as long, really)
 *     stage 1   . 0 1 . . a 2 . b 3 . c . . d
 *     stage 2   . . 0 a 1 b . 2 c 3 d
 *
 * A stage goes forward until as many micro-batches are on their way as there are stages from it to
 * the last one; from there on it takes one back before each new one. So it keeps activations of S -
 * stage micro-batches, not of all, as filling and then draining (GPipe, Huang and others 2019)
 * would: with the same idle time, (S - 1) / (M + S - 1) of all, and the same sums: gradients are
 * added in the order of micro-batches.
 */
#ifndef SPSH_TRAIN_PIPELINE_SCHEDULE_H
#define SPSH_TRAIN_PIPELINE_SCHEDULE_H

#include <stdbool.h>

#include "speechshard/base.h"

typedef enum spsh__stages_operation {
    SPSH__STAGES_FORWARD = 0, /* of the next micro-batch */
    SPSH__STAGES_BACKWARD,    /* of the first one that has not been taken back */
    SPSH__STAGES_DONE,
} spsh__stages_operation;

/* Micro-batches of a stage that are on their way at once, at most. */
static inline uint32_t spsh__stages_window(uint32_t stage, uint32_t stages)
{
    return stages - stage;
}

/* forwards, backwards: done so far; has_more: there is another micro-batch. */
spsh__stages_operation spsh__stages_next(uint32_t window, uint32_t forwards, uint32_t backwards,
                                         bool has_more);

/* Blocks in a row for each stage, so that the dearest stage is as cheap as can be. works: of
 * block_count blocks; firsts: written, stages of them, firsts[0] is 0. Each stage has a block:
 * SPSH_E_INVALID_ARG: there are more stages than blocks. _NO_MEMORY. */
spsh_status spsh__stages_balance(const double *works, uint32_t block_count, uint32_t stages,
                                 uint32_t *firsts, spsh_error *err);
/* The blocks that stages 1, 2, ... begin with, as somebody wrote them. SPSH_E_INVALID_ARG. */
spsh_status spsh__stages_check_cuts(const uint32_t *cuts, uint32_t cut_count, uint32_t stages,
                                    uint32_t block_count, spsh_error *err);

#endif
