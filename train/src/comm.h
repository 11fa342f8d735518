/* comm.h: collectives and point-to-point between ranks, as a table: `self`, `mpi`, later `nccl`,
 * `gloo`.
 *
 * Reductions have one order, which the world size decides (fixed tree, fixed chunks), so that a run
 * repeats to the bit. Under a virtual world of V leaves the tree is over leaves, not ranks: 1, 2, 4
 * processes give the same bits (strategy_allreduce.c).
 *
 * Calls that return a handle go on by themselves (a progress thread, or progress_fn); wait_fn has a
 * deadline: SPSH_E_TIMEOUT names rank, operation and how long; then abort. One thread calls.
 */
#ifndef SPSH_TRAIN_COMM_H
#define SPSH_TRAIN_COMM_H

#include "speechshard/base.h"

typedef enum spsh__comm_type {
    SPSH__COMM_F32 = 0,
    SPSH__COMM_F64 = 1,
    SPSH__COMM_U64 = 2
} spsh__comm_type;
typedef enum spsh__comm_op { SPSH__COMM_SUM = 0, SPSH__COMM_MAX = 1 } spsh__comm_op;

typedef struct spsh__comm spsh__comm;
typedef uint64_t spsh__comm_handle; /* 0: done already */

typedef struct spsh__comm_ops {
    const char *name;
    spsh_status (*all_reduce_fn)(spsh__comm *c, spsh__comm_type type, spsh__comm_op op,
                                 void *values, size_t count, spsh__comm_handle *ret_handle,
                                 spsh_error *err);
    /* rank r ends with the sum of part r of world_size equal parts (the last may be shorter), in
     * place */
    spsh_status (*reduce_scatter_fn)(spsh__comm *c, spsh__comm_type type, void *values,
                                     size_t count, spsh__comm_handle *ret_handle, spsh_error *err);
    spsh_status (*all_gather_fn)(spsh__comm *c, spsh__comm_type type, void *values, size_t count,
                                 spsh__comm_handle *ret_handle, spsh_error *err);
    spsh_status (*broadcast_fn)(spsh__comm *c, void *bytes, size_t size_bytes, uint32_t root,
                                spsh_error *err);
    spsh_status (*send_fn)(spsh__comm *c, uint32_t to, uint32_t tag, const void *bytes,
                           size_t size_bytes, spsh__comm_handle *ret_handle, spsh_error *err);
    spsh_status (*receive_fn)(spsh__comm *c, uint32_t from, uint32_t tag, void *bytes,
                              size_t size_bytes, spsh__comm_handle *ret_handle, spsh_error *err);
    spsh_status (*wait_fn)(spsh__comm *c, spsh__comm_handle handle, uint32_t deadline_ms,
                           spsh_error *err);
    void (*progress_fn)(spsh__comm *c);
    void (*abort_fn)(spsh__comm *c); /* of all ranks: nobody waits for this one any more */
    void (*close_fn)(spsh__comm *c);
} spsh__comm_ops;

struct spsh__comm {
    const spsh__comm_ops *ops;
    uint32_t rank, world_size;
    uint32_t local_rank, local_size; /* of a node */
    void *state;
};

spsh_status spsh__comm_self_open(const spsh_allocator *allocator, spsh__comm **ret_comm,
                                 spsh_error *err);
/* SPSH_E_UNSUPPORTED where MPI was not built in. MPI_Init, THREAD_MULTIPLE or SERIALIZED. */
spsh_status spsh__comm_mpi_open(const spsh_allocator *allocator, spsh__comm **ret_comm,
                                spsh_error *err);

#endif
