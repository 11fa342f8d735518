/* strategy.h: how learners keep their models together: a struct of callbacks around the run loop's
 * step.
 *
 *     start
 *     for each step:
 *         before_forward
 *         for each micro-batch of this rank, in the loader's order:
 *             forward, loss, backward -> on_bucket(leaf, bucket) for each bucket
 *             or, if it is empty: skip_leaf
 *         after_backward                 gradients are final, and identical for any world size
 *         square_sum; clip               NaN on one rank is NaN on all ranks: all skip together
 *         for each slice: optimizer      a strategy may update a part of the arena on each rank;
 *                                        after `decide`, it precedes square_sum
 *         after_step
 *     gather, before a checkpoint is taken
 *
 * Strategies with a model per learner (has_own_model): each learner has its own batches, totals,
 * and model. Its serving task (runtime.h) keeps the model close to the models of the others while
 * gradients are computed. The rules below about leaves and the single global sum do not apply to
 * has_own_model strategies. Their models are combined only at a barrier between steps: settle_fn
 * first, then consensus_fn.
 *
 * A step sums virtual_world * accumulate micro-batches, the leaves of its summation tree. Leaf a *
 * virtual_world + n is batch n of the loader's a-th step (LOADER.md, 7). Rank r has the leaves
 * with n mod world_size == r, and spsh__leaf_of numbers them. A leaf without a batch counts as
 * zeros. The tree over leaves is fixed (fold_tree.h), so weights, running statistics, and totals
 * have identical bits for 1, 2, 3, ... processes.
 *
 * The strategy owns the gradients between before_forward and after_backward, and zeroes them. It
 * also owns the running statistics: each leaf starts from their values at the beginning of the
 * step, and the step ends with the mean over all leaves that had a batch.
 */
#ifndef SPSH_TRAIN_STRATEGY_H
#define SPSH_TRAIN_STRATEGY_H

#include "comm/comm.h"
#include "config/config.h"
#include "model/model.h"
#include "runtime/runtime.h"

#define SPSH__SHARED_MAX 512u  /* maximum values that a leaf shares in addition to its gradients */
#define SPSH__LEAVES_MAX 1024u /* maximum leaves of a step */

typedef struct spsh__slice {
    uint64_t offset, count; /* elements of the arena */
} spsh__slice;

/* Options from the configuration. */
typedef struct spsh__strategy_options {
    uint32_t servers;         /* number of learners that are also parameter servers; 0: all */
    uint32_t bound;           /* ps-async: maximum steps that a learner may be ahead of the slowest;
                                 UINT32_MAX: no limit */
    bool scales_by_staleness; /* ps-async: scale a gradient of staleness t by 1 / max(1, t) */
    uint32_t node_size;       /* hierarchical: ranks per node; 0: 1 */
    const char *inner, *outer; /* hierarchical: inner and outer strategy; NULL: allreduce,
                                  adpsgd-random */
    bool overlaps;             /* ps-async: compute a gradient while the last one is in flight */
} spsh__strategy_options;

/* pipeline: data of a learner that has one stage of the model's arenas (pipeline_parallel.h). */
typedef struct spsh__staged {
    spsh__comm *comm;          /* between stages; the learner's own comm contains only itself */
    const spsh__slice *stages; /* slice of the whole arena, per stage */
    const spsh__slice *statistics;
    const spsh__slice *buckets; /* buckets of the whole arena */
    uint32_t bucket_count;
} spsh__staged;

/* Staleness: updates by other learners to a part of the model, from when a learner reads the
 * weights for a gradient until it applies that gradient. counts[t] is the number of part updates
 * with staleness t. The last entry counts all larger values. Under the lock, or only by the
 * computing task. */
#define SPSH__STALENESS_MAX 1024u
typedef struct spsh__staleness {
    uint64_t counts[SPSH__STALENESS_MAX];
} spsh__staleness;

/* View of a learner for a strategy: arenas and buckets, but no layers. */
typedef struct spsh__learner {
    spsh__backend *backend;
    spsh__comm *comm;
    spsh__comm *living; /* ranks that are left for barriers after learners were lost; else NULL */
    spsh__backend_buffer weights, gradients;
    spsh__backend_buffer moments[2]; /* moments of the optimizer, in the shape of the arena; data
                                        NULL: not used */
    uint64_t arena_elements;
    spsh__backend_buffer statistics;
    uint64_t statistics_elements;
    const spsh__slice *buckets; /* cover the arena, ascending */
    uint32_t bucket_count;
    uint32_t virtual_world; /* 0: the world size */
    uint32_t accumulate;    /* 0: 1 */
    uint64_t step;          /* step number of the run loop, for messages */
    /* Exchange of a learner on a device. NCCL: on the device. HOST: through comm.h, as for learners
     * on the host (any world, identical bits). AUTO: NCCL if all ranks have it and a separate GPU
     * each. start_fn writes the choice; AUTO then means that nothing is exchanged. */
    spsh__exchange_choice exchange;
    /* Written by start_fn: why AUTO became HOST, or what to set for NCCL; or empty. */
    char exchange_reason[200];
    spsh__precision sent_as; /* gradients between ranks: FP32, BF16, or FP16 */
    /* Buffer that the optimizer changes, written by start_fn: `weights`, or the arena of a learner
     * with its own model. `weights` is then the copy for gradients. data NULL: the learner has only
     * a copy of another learner's model, which that learner changes. */
    spsh__backend_buffer updated;
    /* has_own_model strategies; else NULL */
    spsh__runtime *runtime;
    spsh__backend *arena_backend; /* backend of that arena, used only under the lock; NULL:
                                     backend */
    uint64_t seed;
    float *shared; /* hogwild: arena that all learners share; else NULL */
    /* Sizes for an arena that represents a larger one (simulate_strategy.h). They keep the number
     * of parts and blocks. 0: SPSH__PART_BYTES, SPSH__BLOCK_ELEMENTS. */
    uint64_t part_elements, block_elements;
    spsh__staleness *staleness; /* NULL: not counted */
    uint32_t owners; /* number of ranks, from rank 0, that own parts of the sums; 0: all. Written by
                        start_fn */
    spsh__strategy_options options;
    const spsh__staged *staged; /* pipeline; else NULL */
    /* Update a slice of `updated` with the optimizer, for strategies that update elsewhere.
     * gradients: start at the slice. Under the lock. */
    void (*update_fn)(void *user, const spsh__slice *slice, spsh__backend_buffer gradients,
                      double scale);
    void *update_user;
} spsh__learner;

typedef struct spsh__strategy spsh__strategy;
typedef struct spsh__strategy_ops {
    const char *name;
    bool has_own_model;
    bool goes_in_step;  /* has_own_model: all learners make each step, and wait for each other */
    bool needs_runtime; /* requires learner->runtime */
    bool outlives;      /* continues without learners that its runtime reports as lost */
    /* Allocate all memory, and copy rank 0's weights, moments, and statistics to every rank. The
     * learner must outlive the strategy. */
    spsh_status (*start_fn)(spsh__strategy *s, spsh__learner *l, spsh_error *err);
    spsh_status (*before_forward_fn)(spsh__strategy *s, spsh_error *err);
    /* Called during backward, buckets ascending. Starts all exchanges that can overlap with it. */
    spsh_status (*on_bucket_fn)(spsh__strategy *s, uint32_t leaf, uint32_t bucket, spsh_error *err);
    /* Called instead of backward for a leaf of this rank without a batch. Optional for leaves after
     * the last batch of the step. */
    spsh_status (*skip_leaf_fn)(spsh__strategy *s, uint32_t leaf, spsh_error *err);
    /* rows: [own leaves][count], in leaf order: losses, counts, stop flags; zeros for a leaf
     * without a batch. totals: count values, written: sums over all leaves. */
    spsh_status (*after_backward_fn)(spsh__strategy *s, const double *rows, double *totals,
                                     uint32_t count, spsh_error *err);
    /* Enqueue a decision about the update on the device (decide_fn in backend.h). The caller
     * enqueues the update with *ret, and then calls square_sum_fn. *ret is not written if the
     * device lacks a part of the sum: then the host decides, after square_sum_fn. NULL: never. */
    void (*decide_fn)(spsh__strategy *s, const spsh__step_rule *rule, spsh__backend_buffer *ret);
    /* Compute the sum of squares of all gradients. */
    spsh_status (*square_sum_fn)(spsh__strategy *s, double *ret, spsh_error *err);
    /* Return the slices that this rank updates, by index from 0; false past the last one. A slice
     * may be updated until the next call. */
    bool (*slice_fn)(const spsh__strategy *s, uint32_t number, spsh__slice *ret);
    /* Send the gradients, times scale, to the ranks that update. Replaces updates of slices. NULL:
     * update slices. */
    spsh_status (*push_fn)(spsh__strategy *s, double scale, spsh_error *err);
    spsh_status (*after_step_fn)(spsh__strategy *s, spsh_error *err);
    /* Called outside of steps. Moves the gradients and totals that are still outstanding to the
     * gradients and to totals. *ret_is_due: whether there were any. NULL if gradients are not
     * applied late. */
    spsh_status (*flush_fn)(spsh__strategy *s, double *totals, uint32_t count, bool *ret_is_due,
                            spsh_error *err);
    /* Copy rank 0's values to all ranks on their devices. Only if `exchange` is NCCL. NULL: the
     * strategy has no NCCL. */
    spsh_status (*share_fn)(spsh__strategy *s, spsh__backend_buffer values, uint64_t count,
                            spsh_error *err);
    /* Make the moments complete on all ranks. */
    spsh_status (*gather_fn)(spsh__strategy *s, spsh_error *err);
    /* has_own_model strategies, on all ranks, outside of steps. After settle_fn, no exchange is in
     * flight on any rank. consensus_fn follows: `weights` and statistics of all ranks become the
     * mean model. The learners keep their own models, unless is_taken: all then continue from the
     * mean model, with the mean of their moments. */
    spsh_status (*settle_fn)(spsh__strategy *s, spsh_error *err);
    /* Called when this learner makes no more steps until all learners settle. NULL for strategies
     * that do not wait for slower learners. */
    spsh_status (*retire_fn)(spsh__strategy *s, spsh_error *err);
    spsh_status (*consensus_fn)(spsh__strategy *s, bool is_taken, spsh_error *err);
    void (*close_fn)(spsh__strategy *s);
} spsh__strategy_ops;

struct spsh__strategy {
    const spsh__strategy_ops *ops;
    spsh__learner *learner;
    spsh_allocator allocator;
    void *state;
};

/* Return the name of a strategy by index; NULL past the last one. */
const char *spsh__strategy_name(uint32_t number);
/* Open a strategy by its name in docs/reference/strategies. SPSH_E_NOT_FOUND. */
spsh_status spsh__strategy_open(const char *name, const spsh_allocator *allocator,
                                spsh__strategy **ret, spsh_error *err);
void spsh__strategy_close(spsh__strategy *s); /* NULL is fine */

/* Return true if learners make their steps together, so that a learner's share of each step is
 * known in advance. For hierarchical, the outer strategy decides. */
bool spsh__strategy_goes_in_step(const char *name, const spsh__strategy_options *options);

/* spsh__leaf_count: number of leaves of this rank. spsh__leaf_of: leaf of this rank's batch `own`,
 * counted from 0. */
uint32_t spsh__leaf_count(const spsh__learner *l);
uint32_t spsh__leaf_of(const spsh__learner *l, uint32_t own);

/* The arenas that are the same on all ranks: weights, moments, statistics. data NULL: not used. */
#define SPSH__ARENAS 4
typedef struct spsh__arena {
    spsh__backend_buffer buffer;
    uint64_t elements;
} spsh__arena;

/* Return the communicator of the ranks that take part in barriers. */
static inline spsh__comm *spsh__learner_living(const spsh__learner *l)
{
    return l->living != NULL ? l->living : l->comm;
}

/* Return the larger of count_min and the learner's number of parts. */
uint32_t spsh__learner_parts(const spsh__learner *l, uint32_t count_min);
/* Count an update with weights of this staleness. Does nothing if staleness is not counted. */
void spsh__learner_stale(const spsh__learner *l, uint64_t stale);

/* List the buckets of a model, ascending. The caller frees the list with free(). NULL: out of
 * memory. */
spsh__slice *spsh__learner_list_buckets(const spsh__model *m);

void spsh__learner_arenas(const spsh__learner *l, spsh__arena ret[SPSH__ARENAS]);

/* Call before anything large is exchanged. SPSH_E_MISMATCH on every rank if a rank has a different
 * number of weights or statistics. */
spsh_status spsh__learner_check_sizes(const spsh__learner *l, spsh_error *err);

#endif
