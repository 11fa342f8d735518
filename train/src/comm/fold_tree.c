/* fold_tree.c: see fold_tree.h. The steps of a rank are found by playing a step through once. */
#include "fold_tree.h"

#include "speechshard/inside.h"

#define NOBODY   UINT32_MAX
#define NOT_HERE UINT32_MAX

/* Addition of two sums that this rank owns. It can run once both sums are complete: their leaf has
 * arrived, and to_adds or from_adds additions were made to them. */
typedef struct local_add {
    uint32_t to, from;
    uint32_t to_adds, from_adds;
    bool is_done;
} local_add;

typedef struct play {
    uint32_t *holders; /* per position: rank that owns the whole sum; NOBODY: joined from pieces */
    uint32_t *numbers; /* per position: index of its piece */
    uint32_t *adds;    /* per position: number of additions so far */
    uint32_t *slots;   /* per position: slot of its sum */
    bool *is_used;     /* per slot: true if it holds a sum */
    local_add *locals;
    uint32_t local_count;
} play;

/* The widest fold: the greatest power of two below count. */
static uint32_t first_fold(uint32_t count)
{
    uint32_t fold = 1;
    while (fold < count - fold)
        fold *= 2;
    return fold;
}

static void add_piece(spsh__fold_tree *tree, play *p, uint32_t position)
{
    if (p->holders[position] == NOBODY)
        return;
    tree->pieces[tree->piece_count++] =
        (spsh__fold_piece){.position = position, .rank = p->holders[position]};
    p->holders[position] = NOBODY;
}

/* Visit all additions in order. Additions within one rank stay there. All others join pieces. */
static void divide(spsh__fold_tree *tree, play *p, uint32_t rank)
{
    uint32_t count = tree->leaf_count;
    for (uint32_t fold = first_fold(count); fold > 0; fold /= 2) {
        for (uint32_t to = 0; to < fold && to < count - fold; to++) {
            uint32_t from = to + fold;
            bool is_whole = p->holders[to] != NOBODY && p->holders[to] == p->holders[from];
            if (is_whole && p->holders[to] == rank)
                p->locals[p->local_count++] =
                    (local_add){to, from, p->adds[to], p->adds[from], false};
            if (!is_whole) {
                add_piece(tree, p, to);
                add_piece(tree, p, from);
                tree->joins[tree->join_count++] = (spsh__fold_add){to, from};
            }
            p->adds[to]++;
        }
    }
    if (tree->join_count == 0)
        add_piece(tree, p, 0);
}

/* Sort the pieces by position, and convert joins from positions to piece indices. */
static void number_pieces(spsh__fold_tree *tree, play *p)
{
    for (uint32_t i = 1; i < tree->piece_count; i++) {
        spsh__fold_piece piece = tree->pieces[i];
        uint32_t at = i;
        for (; at > 0 && tree->pieces[at - 1].position > piece.position; at--)
            tree->pieces[at] = tree->pieces[at - 1];
        tree->pieces[at] = piece;
    }
    for (uint32_t i = 0; i < tree->piece_count; i++)
        p->numbers[tree->pieces[i].position] = i;
    for (uint32_t i = 0; i < tree->join_count; i++) {
        spsh__fold_add *join = &tree->joins[i];
        *join = (spsh__fold_add){p->numbers[join->to], p->numbers[join->from]};
    }
}

static void add_step(spsh__fold_tree *tree, uint32_t own, bool is_copy, uint32_t to, uint32_t from)
{
    tree->steps[tree->step_count++] = (spsh__fold_step){own, to, from, is_copy};
}

/* Play one addition. Keep the sum in the slot that is not slot 0, because the next leaf needs slot
 * 0. The last leaf leaves everything in slot 0. */
static void play_add(spsh__fold_tree *tree, play *p, uint32_t own, local_add *add)
{
    uint32_t keep = p->slots[add->to];
    uint32_t drop = p->slots[add->from];
    bool is_last = own + 1 == tree->own_count;
    if ((keep == 0 && !is_last) || (drop == 0 && is_last)) {
        keep = p->slots[add->from];
        drop = p->slots[add->to];
    }
    add_step(tree, own, false, keep, drop);
    p->is_used[drop] = false;
    p->slots[add->to] = keep;
    p->slots[add->from] = NOT_HERE;
    p->adds[add->to]++;
    add->is_done = true;
}

static bool play_next(spsh__fold_tree *tree, play *p, uint32_t own)
{
    for (uint32_t i = 0; i < p->local_count; i++) {
        local_add *add = &p->locals[i];
        if (add->is_done || p->slots[add->to] == NOT_HERE || p->slots[add->from] == NOT_HERE)
            continue;
        if (p->adds[add->to] != add->to_adds || p->adds[add->from] != add->from_adds)
            continue;
        play_add(tree, p, own, add);
        return true;
    }
    return false;
}

/* Move the sum in slot 0 to the first free slot. */
static void put_aside(spsh__fold_tree *tree, play *p, uint32_t own)
{
    uint32_t slot = 1;
    while (p->is_used[slot])
        slot++;
    p->is_used[slot] = true;
    p->is_used[0] = false;
    p->slots[tree->own[own]] = slot;
    if (slot >= tree->slot_count)
        tree->slot_count = slot + 1;
    add_step(tree, own, true, slot, 0);
}

static void play_leaves(spsh__fold_tree *tree, play *p)
{
    memset(p->adds, 0, tree->leaf_count * sizeof(*p->adds));
    for (uint32_t l = 0; l < tree->leaf_count; l++)
        p->slots[l] = NOT_HERE;
    tree->slot_count = 1;
    for (uint32_t own = 0; own < tree->own_count; own++) {
        p->slots[tree->own[own]] = 0;
        p->is_used[0] = true;
        while (play_next(tree, p, own))
            continue;
        if (p->is_used[0] && own + 1 < tree->own_count)
            put_aside(tree, p, own);
    }
}

static bool take_memory(const spsh_allocator *a, uint32_t count, spsh__fold_tree *tree, play *p)
{
    tree->own = spsh__new(a, count, sizeof(*tree->own));
    tree->steps = spsh__new(a, 2 * (size_t)count, sizeof(*tree->steps));
    tree->pieces = spsh__new(a, count, sizeof(*tree->pieces));
    tree->joins = spsh__new(a, count, sizeof(*tree->joins));
    p->holders = spsh__new(a, count, sizeof(*p->holders));
    p->numbers = spsh__new(a, count, sizeof(*p->numbers));
    p->adds = spsh__new(a, count, sizeof(*p->adds));
    p->slots = spsh__new(a, count, sizeof(*p->slots));
    p->is_used = spsh__new(a, (size_t)count + 2, sizeof(*p->is_used));
    p->locals = spsh__new(a, count, sizeof(*p->locals));
    return tree->own != NULL && tree->steps != NULL && tree->pieces != NULL &&
           tree->joins != NULL && p->holders != NULL && p->numbers != NULL && p->adds != NULL &&
           p->slots != NULL && p->is_used != NULL && p->locals != NULL;
}

spsh_status spsh__fold_tree_make(const uint32_t *owners, uint32_t leaf_count, uint32_t rank,
                                 const spsh_allocator *allocator, spsh__fold_tree *ret,
                                 spsh_error *err)
{
    spsh__fold_tree tree = {.allocator = *allocator, .leaf_count = leaf_count};
    play p = {0};
    spsh_status rc = SPSH_OK;

    if (leaf_count == 0)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "a step has no micro-batches");
    if (!take_memory(allocator, leaf_count, &tree, &p)) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "sum over %u micro-batches", leaf_count);
        goto out;
    }
    memcpy(p.holders, owners, leaf_count * sizeof(*owners));
    for (uint32_t l = 0; l < leaf_count; l++)
        if (owners[l] == rank)
            tree.own[tree.own_count++] = l;
    divide(&tree, &p, rank);
    number_pieces(&tree, &p);
    play_leaves(&tree, &p);
    for (uint32_t i = 0; i < tree.piece_count; i++)
        if (tree.pieces[i].rank == rank)
            tree.pieces[i].slot = p.slots[tree.pieces[i].position];

    *ret = tree;
    tree = (spsh__fold_tree){.allocator = *allocator};
out:
    spsh__fold_tree_free(&tree);
    spsh__free(allocator, p.holders);
    spsh__free(allocator, p.numbers);
    spsh__free(allocator, p.adds);
    spsh__free(allocator, p.slots);
    spsh__free(allocator, p.is_used);
    spsh__free(allocator, p.locals);
    return rc;
}

void spsh__fold_tree_free(spsh__fold_tree *tree)
{
    if (tree->allocator.free_fn == NULL)
        return;
    spsh__free(&tree->allocator, tree->own);
    spsh__free(&tree->allocator, tree->steps);
    spsh__free(&tree->allocator, tree->pieces);
    spsh__free(&tree->allocator, tree->joins);
    *tree = (spsh__fold_tree){0};
}

void spsh__fold_rows(double *rows, uint32_t row_count, size_t count)
{
    if (row_count < 2)
        return;
    for (uint32_t fold = first_fold(row_count); fold > 0; fold /= 2)
        for (uint32_t to = 0; to < fold && to < row_count - fold; to++)
            for (size_t i = 0; i < count; i++)
                rows[to * count + i] += rows[(to + fold) * count + i];
}
