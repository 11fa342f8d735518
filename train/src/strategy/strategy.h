/* strategy.h: how learners keep their models together: a struct of callbacks around the run loop's
 * step.
 *
 *     start
 *     for each step:
 *         before_forward
 *         for each micro-batch of this rank, in the loader's order:
 *             forward, loss, backward -> on_bucket(leaf, bucket) for each bucket
 *             or, where it is empty: skip_leaf
 *         after_backward                 gradients are final, and the same for any world size
 *         square_sum; clip               not a number, on one rank, is so on all: all skip together
 *         for each slice: optimiser      a strategy may update a part of the arena on each rank
 *         after_step
 *     gather, before a checkpoint is taken
 *
 * Free strategies (is_free): learners do not step together. Each has batches, totals and a model of
 * its own, which its serving task (runtime.h) keeps close to the others' while gradients are
 * computed; what is below of leaves, and of one sum for all, is not said of them. Together are they
 * in a pause alone: settle, then consensus.
 *
 * Leaves. A step sums virtual_world * accumulate micro-batches, its leaves; leaf a * virtual_world
 * + n is the batch n of the loader's a-th step (docs/LOADER.md, 7). Rank r has those with n mod
 * world_size == r; spsh__leaf_of numbers them. A leaf without a batch is one of zeros. The sum is a
 * fixed tree over leaves (fold_tree.h), so that weights, running statistics and totals have the
 * same bits for 1, 2, 3, ... processes.
 *
 * Gradients are the strategy's between before_forward and after_backward: it zeroes them. Running
 * statistics, too: each leaf starts from those of the step's beginning; the step ends with the mean
 * over leaves that had a batch.
 */
#ifndef SPSH_TRAIN_STRATEGY_H
#define SPSH_TRAIN_STRATEGY_H

#include "comm/comm.h"
#include "config/config.h"
#include "model/model.h"
#include "runtime/runtime.h"

#define SPSH__SHARED_MAX 512u  /* numbers that a leaf has beside its gradients */
#define SPSH__LEAVES_MAX 1024u /* of a step */

typedef struct spsh__slice {
    uint64_t offset, count; /* elements of the arena */
} spsh__slice;

/* Of the configuration. */
typedef struct spsh__strategy_options {
    uint32_t servers;         /* of parameter servers: that many learners serve, too; 0: all */
    uint32_t bound;           /* ps-async: steps that a learner may be ahead of the last one;
                                 UINT32_MAX: any */
    bool scales_by_staleness; /* ps-async: a gradient that t others came before counts 1 / max(1, t)
                               */
    uint32_t node_size;       /* hierarchical: ranks of a node; 0: 1 */
    const char *inner, *outer; /* ... its strategies: NULL: allreduce, adpsgd-random */
    bool overlaps; /* ps-async: a gradient is computed while the last one is on its way */
} spsh__strategy_options;

/* pipeline: a learner that has a part of the model's arenas (pipeline_parallel.h). */
typedef struct spsh__staged {
    spsh__comm *comm;          /* between stages; the learner's own is of itself alone */
    const spsh__slice *stages; /* of each: its slice of the whole arena */
    const spsh__slice *statistics;
    const spsh__slice *buckets; /* of the whole arena */
    uint32_t bucket_count;
} spsh__staged;

/* How many changes of others came to a part of the model between the reading of the weights that a
 * gradient is of and its update: of how many parts' updates each; the last count is of all beyond.
 * Under the lock, or by the computing task alone. */
#define SPSH__STALENESS_MAX 1024u
typedef struct spsh__staleness {
    uint64_t counts[SPSH__STALENESS_MAX];
} spsh__staleness;

/* What a strategy knows of a learner: arenas and buckets; nothing of layers. */
typedef struct spsh__learner {
    spsh__backend *backend;
    spsh__comm *comm;
    spsh__comm *living; /* of pauses, where learners were lost: of the others; else NULL */
    spsh__backend_buffer weights, gradients;
    spsh__backend_buffer moments[2]; /* the optimizer's, arena-shaped; data NULL: not used */
    uint64_t arena_elements;
    spsh__backend_buffer statistics;
    uint64_t statistics_elements;
    const spsh__slice *buckets; /* cover the arena, ascending */
    uint32_t bucket_count;
    uint32_t virtual_world; /* 0: the world size */
    uint32_t accumulate;    /* 0: 1 */
    uint64_t step;          /* the run loop's; for messages */
    /* Of a device: NCCL there, HOST through comm.h as learners on the host (any world, the same
     * bits), AUTO: NCCL where all ranks have it and a GPU each. start_fn writes which one it is;
     * AUTO: nothing is exchanged. */
    spsh__exchange_choice exchange;
    char exchange_reason[200]; /* written: why AUTO became HOST; else empty */
    /* What the optimiser changes: start_fn writes it: `weights`, or the arena of a free strategy,
     * of which `weights` are the copy that a gradient is computed with. data NULL: it has no model
     * of its own, but a copy of another's, who changes it. */
    spsh__backend_buffer updated;
    /* Of free strategies; else NULL. */
    spsh__runtime *runtime;
    spsh__backend *arena_backend; /* for that arena: used under the lock alone; NULL: backend */
    uint64_t seed;
    float *shared; /* hogwild: an arena that all learners see; else NULL */
    /* Of an arena that stands for a larger one (simulate_strategy.h), cut into as many parts and
     * blocks; 0: SPSH__PART_BYTES, SPSH__BLOCK_ELEMENTS. */
    uint64_t part_elements, block_elements;
    spsh__staleness *staleness; /* NULL: is not counted */
    uint32_t owners; /* ranks that have parts of the sums, the first ones; 0: all. start_fn's */
    spsh__strategy_options options;
    const spsh__staged *staged; /* pipeline; else NULL */
    /* The optimiser's, for strategies that update elsewhere: a slice of `updated`, with gradients
     * that begin where the slice does. Under the lock. */
    void (*update_fn)(void *user, const spsh__slice *slice, spsh__backend_buffer gradients,
                      double scale);
    void *update_user;
} spsh__learner;

typedef struct spsh__strategy spsh__strategy;
typedef struct spsh__strategy_ops {
    const char *name;
    bool is_free;
    bool goes_in_step;  /* of free ones: all learners make each step, and wait for each other */
    bool needs_runtime; /* the learner's */
    bool outlives;      /* goes on without learners that its runtime says are lost */
    /* Takes all memory; gives every rank the weights, moments and statistics of rank 0. The learner
     * must outlive the strategy. */
    spsh_status (*start_fn)(spsh__strategy *s, spsh__learner *l, spsh_error *err);
    spsh_status (*before_forward_fn)(spsh__strategy *s, spsh_error *err);
    /* Called during backward, buckets ascending: starts what can be overlapped. */
    spsh_status (*on_bucket_fn)(spsh__strategy *s, uint32_t leaf, uint32_t bucket, spsh_error *err);
    /* Instead of backward, for an own leaf without a batch; of those behind the step's last batch
     * nothing has to be said. */
    spsh_status (*skip_leaf_fn)(spsh__strategy *s, uint32_t leaf, spsh_error *err);
    /* rows: [own leaves][count], in their order: losses, counts, stop flags; zeros for a leaf
     * without a batch. totals: count, written: sums over all leaves. */
    spsh_status (*after_backward_fn)(spsh__strategy *s, const double *rows, double *totals,
                                     uint32_t count, spsh_error *err);
    /* Of all gradients. */
    spsh_status (*square_sum_fn)(spsh__strategy *s, double *ret, spsh_error *err);
    /* The slices that this rank updates, from 0 on; false behind the last. A slice is for the
     * update until the next one is asked for. */
    bool (*slice_fn)(const spsh__strategy *s, uint32_t number, spsh__slice *ret);
    /* Instead of updates of slices, where it is not NULL: gradients, times scale, are sent to those
     * who update. */
    spsh_status (*push_fn)(spsh__strategy *s, double scale, spsh_error *err);
    spsh_status (*after_step_fn)(spsh__strategy *s, spsh_error *err);
    /* Of strategies that apply gradients late; NULL: they do not. Outside of steps: what is due
     * still becomes the gradients, and totals theirs; *ret_is_due false: nothing is. */
    spsh_status (*flush_fn)(spsh__strategy *s, double *totals, uint32_t count, bool *ret_is_due,
                            spsh_error *err);
    /* Makes the moments whole on all ranks. */
    spsh_status (*gather_fn)(spsh__strategy *s, spsh_error *err);
    /* Free strategies; all ranks, outside of steps. settle_fn: no exchange is under way behind it,
     * anywhere. consensus_fn, behind settle_fn: `weights` and statistics of all ranks become the
     * mean model; the learners' own stay, but where is_taken: then all go on from it, with the mean
     * of their moments. */
    spsh_status (*settle_fn)(spsh__strategy *s, spsh_error *err);
    /* Of those that wait for slower learners; NULL: they do not. This learner makes no step until
     * all have settled. */
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

/* In their order; NULL behind the last. */
const char *spsh__strategy_name(uint32_t number);
/* As docs/strategies calls them. SPSH_E_NOT_FOUND. */
spsh_status spsh__strategy_open(const char *name, const spsh_allocator *allocator,
                                spsh__strategy **ret, spsh_error *err);
void spsh__strategy_close(spsh__strategy *s); /* NULL is fine */

/* Learners of it make their steps together: what is the loader's share of one is known before. Of
 * hierarchical ones it is the outer strategy that says so. */
bool spsh__strategy_goes_in_step(const char *name, const spsh__strategy_options *options);

/* True if a serving task changes the weights while a gradient is computed. On a GPU the two tasks
 * have a stream each, and no event orders their accesses: such a strategy runs on the host only. */
bool spsh__strategy_needs_host(const char *name, const spsh__strategy_options *options);

/* Leaves that this rank has, and the leaf of its batch number own, from 0 on. */
uint32_t spsh__leaf_count(const spsh__learner *l);
uint32_t spsh__leaf_of(const spsh__learner *l, uint32_t own);

/* What all ranks have alike: weights, moments, statistics; data NULL: there is none of it. */
#define SPSH__ARENAS 4
typedef struct spsh__arena {
    spsh__backend_buffer buffer;
    uint64_t elements;
} spsh__arena;

/* Who is in a pause. */
static inline spsh__comm *spsh__learner_living(const spsh__learner *l)
{
    return l->living != NULL ? l->living : l->comm;
}

/* At least so many parts, or as many as the learner says. */
uint32_t spsh__learner_parts(const spsh__learner *l, uint32_t count_min);
/* An update of weights that were `stale` changes old; nothing where it is not counted. */
void spsh__learner_stale(const spsh__learner *l, uint64_t stale);

/* A model's buckets, ascending. malloc'd; NULL: no memory. */
spsh__slice *spsh__learner_list_buckets(const spsh__model *m);

void spsh__learner_arenas(const spsh__learner *l, spsh__arena ret[SPSH__ARENAS]);

/* Before anything large is exchanged. SPSH_E_MISMATCH on every rank where one has another number
 * of weights or statistics. */
spsh_status spsh__learner_check_sizes(const spsh__learner *l, spsh_error *err);

#endif
