/* sum_ops.h: the sum of the gradients of all micro-batches of a step, on the host or on a device.
 *
 * gradient_sum.h sums on the host, over comm.h. device_sum.h sums in the memory of a device. Each
 * has one table of the operations below.
 */
#ifndef SPSH_TRAIN_SUM_OPS_H
#define SPSH_TRAIN_SUM_OPS_H

#include "strategy.h"

/* The functions of a strategy (spsh__strategy_ops) specify the operations from begin to squares. */
typedef struct spsh__sum_ops {
    /* Copy rank 0's weights, moments and statistics to all ranks. SPSH_E_MISMATCH on every rank if
     * the models of two ranks differ in size. */
    spsh_status (*align_fn)(void *state, spsh_error *err);
    spsh_status (*begin_fn)(void *state, spsh_error *err); /* before_forward_fn */
    spsh_status (*bucket_fn)(void *state, uint32_t leaf, uint32_t bucket,
                             spsh_error *err);                           /* on_bucket_fn */
    spsh_status (*skip_fn)(void *state, uint32_t leaf, spsh_error *err); /* skip_leaf_fn */
    spsh_status (*end_fn)(void *state, const double *rows, double *totals, uint32_t count,
                          spsh_error *err); /* after_backward_fn */
    /* decide_fn of a strategy. NULL: none. */
    void (*decide_fn)(void *state, const spsh__step_rule *rule, spsh__backend_buffer *ret);
    spsh_status (*squares_fn)(void *state, double *ret, spsh_error *err); /* square_sum_fn */
    /* Copy rank 0's values to all ranks. NULL: on the host. */
    spsh_status (*share_fn)(void *state, spsh__backend_buffer values, uint64_t count,
                            spsh_error *err);
    /* Get the index-th slice that this rank updates. Return false past the last one. */
    bool (*slice_fn)(const void *state, uint32_t index, spsh__slice *ret);
    /* Send the slices of all ranks, from a buffer of the arena's shape, to all ranks. */
    spsh_status (*gather_fn)(void *state, spsh__backend_buffer arena, spsh_error *err);
    void (*close_fn)(void *state); /* NULL is fine */
} spsh__sum_ops;

/* ops and state are NULL if not open. */
typedef struct spsh__sum {
    const spsh__sum_ops *ops;
    void *state;
} spsh__sum;

static inline void spsh__sum_close(spsh__sum *sum)
{
    if (sum->ops != NULL)
        sum->ops->close_fn(sum->state);
    *sum = (spsh__sum){NULL, NULL};
}

#endif
