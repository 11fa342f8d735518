/* strategy_internal.h: the strategies, and what those share that sum all gradients: their state is
 * a spsh__gradient_sum. */
#ifndef SPSH_TRAIN_STRATEGY_INTERNAL_H
#define SPSH_TRAIN_STRATEGY_INTERNAL_H

#include "gradient_sum.h"
#include "strategy.h"

extern const spsh__strategy_ops spsh__strategy_allreduce;
extern const spsh__strategy_ops spsh__strategy_partitioned;

spsh_status spsh__strategy_sum_start(spsh__strategy *s, spsh__learner *l, bool is_whole,
                                     spsh_error *err);
spsh_status spsh__strategy_sum_before_forward(spsh__strategy *s, spsh_error *err);
spsh_status spsh__strategy_sum_on_bucket(spsh__strategy *s, uint32_t leaf, uint32_t bucket,
                                         spsh_error *err);
spsh_status spsh__strategy_sum_skip_leaf(spsh__strategy *s, uint32_t leaf, spsh_error *err);
spsh_status spsh__strategy_sum_after_backward(spsh__strategy *s, const double *rows, double *totals,
                                              uint32_t count, spsh_error *err);
spsh_status spsh__strategy_sum_square_sum(spsh__strategy *s, double *ret, spsh_error *err);
void spsh__strategy_sum_close(spsh__strategy *s);

#endif
