/* strategy_internal.h: the strategies, and functions shared by the strategies that sum all
 * gradients: over comm.h (gradient_sum.h), or on devices (device_sum.h). */
#ifndef SPSH_TRAIN_STRATEGY_INTERNAL_H
#define SPSH_TRAIN_STRATEGY_INTERNAL_H

#include "device_sum.h"
#include "gradient_sum.h"
#include "parts.h"
#include "strategy.h"

extern const spsh__strategy_ops spsh__strategy_adpsgd_fixed;
extern const spsh__strategy_ops spsh__strategy_adpsgd_random;
extern const spsh__strategy_ops spsh__strategy_allreduce;
extern const spsh__strategy_ops spsh__strategy_d1_grad;
extern const spsh__strategy_ops spsh__strategy_d1_model;
extern const spsh__strategy_ops spsh__strategy_dpsgd_ring;
extern const spsh__strategy_ops spsh__strategy_hierarchical;
extern const spsh__strategy_ops spsh__strategy_hogwild;
extern const spsh__strategy_ops spsh__strategy_partitioned;
extern const spsh__strategy_ops spsh__strategy_pipeline;
extern const spsh__strategy_ops spsh__strategy_ps_async;
extern const spsh__strategy_ops spsh__strategy_ps_sync;

#define SPSH__OUTER_DEFAULT "adpsgd-random" /* default outer strategy of hierarchical */

/* Marks of the computing task (runtime.h). */
enum { SPSH__MARK_READ = 1, SPSH__MARK_UPDATE, SPSH__MARK_BEGIN, SPSH__MARK_MIX, SPSH__MARK_WAIT };

/* Kinds of messages between learners. */
enum {
    SPSH__MESSAGE_ASK = 1, /* a snapshot; its receiver mixes it in and answers with its own
                              snapshot */
    SPSH__MESSAGE_ANSWER,
    SPSH__MESSAGE_SNAPSHOT, /* a snapshot for one round of all learners */
    SPSH__MESSAGE_MEAN,
    SPSH__MESSAGE_TOTALS,  /* totals of the sender's step */
    SPSH__MESSAGE_PUSH,    /* gradients for a server, which answers with ... */
    SPSH__MESSAGE_WEIGHTS, /* ... weights that include them */
    SPSH__MESSAGE_DONE,    /* the sender pauses its pushes */
};

/* Functions of strategies that sum all gradients. Their state is a spsh__sum. */
spsh_status spsh__strategy_sum_start(spsh__strategy *s, spsh__learner *l, bool is_whole,
                                     spsh_error *err);
spsh_status spsh__strategy_sum_before_forward(spsh__strategy *s, spsh_error *err);
spsh_status spsh__strategy_sum_on_bucket(spsh__strategy *s, uint32_t leaf, uint32_t bucket,
                                         spsh_error *err);
spsh_status spsh__strategy_sum_skip_leaf(spsh__strategy *s, uint32_t leaf, spsh_error *err);
spsh_status spsh__strategy_sum_after_backward(spsh__strategy *s, const double *rows, double *totals,
                                              uint32_t count, spsh_error *err);
void spsh__strategy_sum_decide(spsh__strategy *s, const spsh__step_rule *rule,
                               spsh__backend_buffer *ret);
spsh_status spsh__strategy_sum_square_sum(spsh__strategy *s, double *ret, spsh_error *err);
spsh_status spsh__strategy_sum_share(spsh__strategy *s, spsh__backend_buffer values, uint64_t count,
                                     spsh_error *err);
bool spsh__strategy_sum_part(const spsh__strategy *s, uint32_t number, spsh__slice *ret);
/* Send the weights of all parts, the sums of gradients, or the moments, to all ranks, if each rank
 * updates its part. */
spsh_status spsh__strategy_sum_share_weights(spsh__strategy *s, spsh_error *err);
spsh_status spsh__strategy_sum_share_gradients(spsh__strategy *s, spsh_error *err);
spsh_status spsh__strategy_sum_gather_moments(spsh__strategy *s, spsh_error *err);
void spsh__strategy_sum_close(spsh__strategy *s);

bool spsh__strategy_whole_slice(const spsh__strategy *s, uint32_t number, spsh__slice *ret);

/* For start_fn: allocate s->state, zeroed, and store the learner. Its updates go to `weights`. */
spsh_status spsh__strategy_begin(spsh__strategy *s, spsh__learner *l, size_t state_bytes,
                                 spsh_error *err);
/* Call after it, on all ranks: copy rank 0's arenas to all ranks, and then cut `arena` into at
 * least count_min parts. */
spsh_status spsh__strategy_open_parts(const spsh__strategy *s, spsh__backend_buffer arena,
                                      uint32_t count_min, spsh__parts *ret, spsh_error *err);

/* Shared functions of has_own_model strategies. Gradients and totals belong to the one learner. */
spsh_status spsh__strategy_own_zero(spsh__strategy *s, spsh_error *err);
spsh_status spsh__strategy_own_bucket(spsh__strategy *s, uint32_t leaf, uint32_t bucket,
                                      spsh_error *err);
spsh_status spsh__strategy_own_leaf(spsh__strategy *s, uint32_t leaf, spsh_error *err);
spsh_status spsh__strategy_own_totals(spsh__strategy *s, const double *rows, double *totals,
                                      uint32_t count, spsh_error *err);
spsh_status spsh__strategy_own_square_sum(spsh__strategy *s, double *ret, spsh_error *err);
spsh_status spsh__strategy_own_nothing(spsh__strategy *s, spsh_error *err);
/* Copy rank 0's weights, moments, and statistics to all ranks. All ranks call together. */
spsh_status spsh__strategy_align(const spsh__learner *l, spsh_error *err);
/* Set the weights of all ranks to the mean of `models`. Statistics, and moments if has_moments,
 * become their means. All ranks call together. */
spsh_status spsh__strategy_mean(const spsh__learner *l, spsh__backend_buffer models,
                                bool has_moments, spsh_error *err);
/* Do the same for `weights` in parts. Each learner's own weights are saved to `aside`, unless
 * is_taken. */
spsh_status spsh__strategy_mean_aside(const spsh__learner *l, spsh__parts *weights, float *aside,
                                      bool *is_aside, bool is_taken, spsh_error *err);
/* Set the running statistics of all ranks to their mean. All ranks call together. */
spsh_status spsh__strategy_mean_statistics(const spsh__learner *l, spsh_error *err);
/* Report SPSH_E_MISMATCH for a message that no learner of this strategy sends. */
spsh_status spsh__strategy_unknown(const spsh__message *message, spsh_error *err);
/* Table entries: all gradients are summed ... */
#define SPSH__STRATEGY_SUMS                                                                        \
    .before_forward_fn = spsh__strategy_sum_before_forward,                                        \
    .on_bucket_fn = spsh__strategy_sum_on_bucket, .skip_leaf_fn = spsh__strategy_sum_skip_leaf,    \
    .after_backward_fn = spsh__strategy_sum_after_backward,                                        \
    .decide_fn = spsh__strategy_sum_decide, .square_sum_fn = spsh__strategy_sum_square_sum,        \
    .share_fn = spsh__strategy_sum_share, .close_fn = spsh__strategy_sum_close
/* ... or each learner uses its own gradients ... */
#define SPSH__STRATEGY_OWN                                                                         \
    .on_bucket_fn = spsh__strategy_own_bucket, .skip_leaf_fn = spsh__strategy_own_leaf,            \
    .square_sum_fn = spsh__strategy_own_square_sum, .gather_fn = spsh__strategy_own_nothing
/* ... and also updates all of `weights` at once, without later work. */
#define SPSH__STRATEGY_OWN_AT_ONCE                                                                 \
    SPSH__STRATEGY_OWN, .slice_fn = spsh__strategy_whole_slice,                                    \
                        .after_step_fn = spsh__strategy_own_nothing

/* Barrier of all live ranks. */
spsh_status spsh__strategy_meet(spsh__strategy *s, spsh_error *err);

#endif
