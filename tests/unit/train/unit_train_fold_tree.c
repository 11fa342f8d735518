/* unit_train_fold_tree.c: the sum over micro-batches. Its order is the same for any assignment to
 * ranks. Also the pieces that a rank keeps and sends. */
#include <stdlib.h>

#include "comm/fold_tree.h"
#include "spsh_test.h"

#define LEAVES_MAX 40

/* A sum is a number that identifies the order of its addends. */
static uint64_t mixed(uint64_t a, uint64_t b)
{
    /* Commutative, like the addition of two floats, but not associative. */
    return (a ^ b) * UINT64_C(0x9e3779b97f4a7c15) + (a + b);
}

static uint64_t leaf_value(uint32_t leaf)
{
    uint64_t state = leaf + 1;
    return test_random(&state);
}

static uint64_t subtree(uint32_t leaf, uint32_t fold, uint32_t count)
{
    if (fold >= count || leaf + fold >= count)
        return leaf_value(leaf);
    return mixed(subtree(leaf, 2 * fold, count), subtree(leaf + fold, 2 * fold, count));
}

static void make(uint32_t leaves, uint32_t virtual_world, uint32_t world, uint32_t rank,
                 spsh__fold_tree *tree)
{
    uint32_t owners[LEAVES_MAX];
    for (uint32_t l = 0; l < leaves; l++)
        owners[l] = l % virtual_world % world;
    REQUIRE(spsh__fold_tree_make(owners, leaves, rank, spsh_allocator_default(), tree, NULL) ==
            SPSH_OK);
}

/* Run the steps of a rank, and store its pieces in sums. Return the number of pieces that it owns.
 */
static uint32_t play(const spsh__fold_tree *tree, uint32_t rank, uint64_t *sums)
{
    uint64_t slots[LEAVES_MAX] = {0};
    uint32_t step = 0;
    uint32_t own_pieces = 0;
    for (uint32_t own = 0; own < tree->own_count; own++) {
        slots[0] = leaf_value(tree->own[own]);
        for (; step < tree->step_count && tree->steps[step].own == own; step++) {
            const spsh__fold_step *s = &tree->steps[step];
            CHECK(s->to < tree->slot_count && s->from < tree->slot_count && s->to != s->from);
            slots[s->to] = s->is_copy ? slots[s->from] : mixed(slots[s->to], slots[s->from]);
        }
    }
    CHECK_U64(step, tree->step_count);
    for (uint32_t i = 0; i < tree->piece_count; i++)
        if (tree->pieces[i].rank == rank) {
            sums[i] = slots[tree->pieces[i].slot];
            own_pieces++;
        }
    return own_pieces;
}

static void check_world(uint32_t leaves, uint32_t virtual_world, uint32_t world)
{
    uint64_t sums[LEAVES_MAX] = {0};
    uint32_t piece_count = 0;
    uint32_t own_pieces = 0;
    for (uint32_t rank = 0; rank < world; rank++) {
        spsh__fold_tree tree;
        make(leaves, virtual_world, world, rank, &tree);
        CHECK(rank == 0 || piece_count == tree.piece_count);
        CHECK(tree.slot_count <= (tree.own_count == 0 ? 1 : tree.own_count));
        piece_count = tree.piece_count;
        own_pieces += play(&tree, rank, sums);
        spsh__fold_tree_free(&tree);
    }
    CHECK_U64(own_pieces, piece_count);

    spsh__fold_tree tree;
    make(leaves, virtual_world, world, 0, &tree);
    CHECK_U64(tree.join_count, piece_count - 1);
    for (uint32_t i = 0; i < tree.join_count; i++)
        sums[tree.joins[i].to] = mixed(sums[tree.joins[i].to], sums[tree.joins[i].from]);
    CHECK_U64(sums[0], subtree(0, 1, leaves));
    spsh__fold_tree_free(&tree);
}

static void test_every_world_sums_alike(void)
{
    for (uint32_t virtual_world = 1; virtual_world <= 20; virtual_world++)
        for (uint32_t accumulate = 1; accumulate <= 2; accumulate++)
            for (uint32_t world = 1; world <= 9; world++)
                check_world(virtual_world * accumulate, virtual_world, world);
}

static void test_a_power_of_two_sends_one_piece(void)
{
    for (uint32_t world = 1; world <= 8; world *= 2) {
        spsh__fold_tree tree;
        make(16, 16, world, 0, &tree);
        CHECK_U64(tree.piece_count, world);
        CHECK_U64(tree.slot_count, world == 8 ? 2 : 1 + 8 / world);
        CHECK_U64(tree.pieces[0].slot, 0);
        spsh__fold_tree_free(&tree);
    }
}

static void test_one_leaf_takes_no_slot(void)
{
    spsh__fold_tree tree;
    make(4, 4, 4, 2, &tree);
    CHECK_U64(tree.slot_count, 1);
    CHECK_U64(tree.step_count, 0);
    CHECK_U64(tree.piece_count, 4);
    spsh__fold_tree_free(&tree);
}

static void test_more_ranks_than_leaves(void)
{
    spsh__fold_tree tree;
    make(2, 2, 5, 4, &tree);
    CHECK_U64(tree.own_count, 0);
    CHECK_U64(tree.piece_count, 2);
    CHECK_U64(tree.join_count, 1);
    spsh__fold_tree_free(&tree);
    CHECK(spsh__fold_tree_make(NULL, 0, 0, spsh_allocator_default(), &tree, NULL) ==
          SPSH_E_INVALID_ARG);
}

static void test_rows_fold_in_the_same_order(void)
{
    double rows[7][2];
    for (int l = 0; l < 7; l++) {
        rows[l][0] = 1.0 / (3 + l);
        rows[l][1] = l;
    }
    double want = ((rows[0][0] + rows[4][0]) + (rows[2][0] + rows[6][0])) +
                  ((rows[1][0] + rows[5][0]) + rows[3][0]);
    spsh__fold_rows(&rows[0][0], 7, 2);
    CHECK(rows[0][0] == want);
    CHECK(rows[0][1] == 21);
}

TEST_MAIN(unit_train_fold_tree)
{
    RUN(test_every_world_sums_alike);
    RUN(test_a_power_of_two_sends_one_piece);
    RUN(test_one_leaf_takes_no_slot);
    RUN(test_more_ranks_than_leaves);
    RUN(test_rows_fold_in_the_same_order);
    return TEST_RESULT();
}
