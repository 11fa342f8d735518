/* fold_tree.h: the order in which the leaves of a step are summed. It does not depend on which rank
 * holds a leaf.
 *
 *     8 leaves:   0 += 4, 1 += 5, 2 += 6, 3 += 7;   0 += 2, 1 += 3;   0 += 1
 *
 * If the leaf count is not a power of two, additions of missing leaves are omitted.
 *
 * Each fold adds the upper half to the lower half. Let rank l mod W own leaf l. If W is a power of
 * two that divides the leaf count, only the last log2 W folds cross ranks, so a rank sends one sum.
 * For any other W a rank sends several sums. They are its *pieces*: the largest subtrees whose
 * leaves it owns, down to single leaves. The result has identical bits for every W.
 *
 * The position of a piece, or of any sum, is its lowest leaf. The leaves of a rank arrive one after
 * the other in one buffer (slot 0). After each arrival, the steps add a sum, or save it in another
 * slot (1, 2, ...). The last sum stays in slot 0. A rank with one leaf needs no other slot. A rank
 * with K leaves needs K / 2 more if both are powers of two, and never more than K - 1.
 */
#ifndef SPSH_TRAIN_FOLD_TREE_H
#define SPSH_TRAIN_FOLD_TREE_H

#include <stdbool.h>

#include "speechshard/base.h"

typedef struct spsh__fold_add {
    uint32_t to, from; /* to += from */
} spsh__fold_add;

/* Run this step after leaf own[`own`] of this rank has arrived. */
typedef struct spsh__fold_step {
    uint32_t own;
    uint32_t to, from; /* slots */
    bool is_copy;      /* to = from, instead of to += from */
} spsh__fold_step;

typedef struct spsh__fold_piece {
    uint32_t position, rank;
    uint32_t slot; /* for a piece of this rank: its slot after all steps */
} spsh__fold_piece;

typedef struct spsh__fold_tree {
    spsh_allocator allocator;
    uint32_t leaf_count, own_count, slot_count; /* slot_count includes slot 0 */
    uint32_t *own;                              /* leaves of this rank, ascending */
    spsh__fold_step *steps;                     /* in ascending order of `own` */
    uint32_t step_count;
    spsh__fold_piece *pieces; /* pieces of all ranks, in ascending order of position */
    uint32_t piece_count;
    spsh__fold_add *joins; /* additions of pieces, by index in `pieces`, in order; the sum ends in
                              piece 0 */
    uint32_t join_count;
} spsh__fold_tree;

/* owners: the rank of each leaf. */
spsh_status spsh__fold_tree_make(const uint32_t *owners, uint32_t leaf_count, uint32_t rank,
                                 const spsh_allocator *allocator, spsh__fold_tree *ret,
                                 spsh_error *err);
void spsh__fold_tree_free(spsh__fold_tree *tree);

/* Fold row_count rows of count doubles each into row 0. */
void spsh__fold_rows(double *rows, uint32_t row_count, size_t count);

#endif
