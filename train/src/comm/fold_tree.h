/* fold_tree.h: the order in which the leaves of a step are summed, whoever has them.
 *
 *     8 leaves:   0 += 4, 1 += 5, 2 += 6, 3 += 7;   0 += 2, 1 += 3;   0 += 1
 *
 * Of 3, 6, ... leaves alike: what is not there is not added.
 *
 * Fold by fold the upper half is added to the lower one. Leaf l of rank l mod W: with W a power of
 * two that divides the leaves, every fold but the last log2 W adds what one rank has, so a rank
 * sends one sum and no more. For any other W a rank sends several (its *pieces*: the largest
 * subtrees whose leaves are all its own), down to single leaves, and the sum stays the same to the
 * bit.
 *
 * A piece, and every sum, is called by its position: the lowest leaf in it. A rank's leaves arrive
 * one after the other in one buffer (slot 0); steps say what is added or put aside (slots 1, 2,
 * ...) as each arrives. The last one stays in slot 0: a rank with one leaf takes no memory; one
 * with K takes K / 2 slots more where both are powers of two, and never more than K - 1.
 */
#ifndef SPSH_TRAIN_FOLD_TREE_H
#define SPSH_TRAIN_FOLD_TREE_H

#include <stdbool.h>

#include "speechshard/base.h"

typedef struct spsh__fold_add {
    uint32_t to, from; /* to += from */
} spsh__fold_add;

/* After own leaf `own` has arrived. */
typedef struct spsh__fold_step {
    uint32_t own;
    uint32_t to, from; /* slots */
    bool is_copy;      /* to = from, instead of to += from */
} spsh__fold_step;

typedef struct spsh__fold_piece {
    uint32_t position, rank;
    uint32_t slot; /* of this rank's own pieces: where it is in the end */
} spsh__fold_piece;

typedef struct spsh__fold_tree {
    spsh_allocator allocator;
    uint32_t leaf_count, own_count, slot_count; /* slots with slot 0 */
    uint32_t *own;                              /* leaves of this rank, ascending */
    spsh__fold_step *steps;                     /* ascending by own */
    uint32_t step_count;
    spsh__fold_piece *pieces; /* of all ranks, ascending by position */
    uint32_t piece_count;
    spsh__fold_add *joins; /* of pieces, by their number in pieces, in order; the sum ends in 0 */
    uint32_t join_count;
} spsh__fold_tree;

/* owners: a rank for each leaf. */
spsh_status spsh__fold_tree_make(const uint32_t *owners, uint32_t leaf_count, uint32_t rank,
                                 const spsh_allocator *allocator, spsh__fold_tree *ret,
                                 spsh_error *err);
void spsh__fold_tree_free(spsh__fold_tree *tree);

/* Rows of count doubles each are folded into row 0. */
void spsh__fold_rows(double *rows, uint32_t row_count, size_t count);

#endif
