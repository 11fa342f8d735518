/* decoder_beam.c: prefix beam search.
 *
 * A place of the beam holds a prefix and two ln p: of its paths that end with the blank, and of its
 * paths that end with its last symbol. At each frame a prefix becomes two kinds of candidates: the
 * same prefix (by the blank or its last symbol), and the prefix with one more symbol. If the
 * extended prefix is already in the beam, its paths are added to that prefix. A heap keeps the best
 * candidates, with the worst at its root. Of equal candidates the earlier one wins: unchanged
 * prefixes precede extensions, both in the descending order of the beam. No extension is better
 * than its prefix, so the search ends at the first prefix whose extensions cannot enter the heap.
 *
 * Prefixes are nodes of a tree, found by (parent, symbol) in a hash table. Nodes are not freed
 * within an utterance. A prefix that leaves the beam and returns is the same node, so descendants
 * in the beam still find their parent. A frame makes at most one node per place of the beam.
 */
#include <assert.h>
#include <math.h>

#include "decoder.h"
#include "speechshard/inside.h"

#define NONE    UINT32_MAX
#define NOTHING (-(double)INFINITY)

enum { ROOT = 0 };

typedef struct node {
    uint32_t parent, symbol;
    uint32_t place; /* index in the beam; NONE: not in it */
} node;

typedef struct place {
    uint32_t node;
    double blank, other, total; /* ln p of paths that end: with blank, with last symbol, either */
} place;

typedef struct candidate {
    double blank, other, total;
    uint32_t from;   /* index in the beam */
    uint32_t symbol; /* symbol to append; NONE: prefix stays */
    uint32_t order;
} candidate;

struct spsh__beam {
    spsh_allocator allocator;
    uint32_t width, frames_max;
    node *nodes;
    uint32_t node_count;
    uint32_t *table;    /* hash table of nodes; NONE: empty slot */
    uint32_t mask;      /* mask of the part of the table that this utterance uses */
    place *places;      /* `count`, best first */
    place *next_places; /* prefixes of the next frame */
    uint32_t count;
    candidate *heap; /* `heap_count` up to width; the worst is first */
    uint32_t heap_count, order;
};

/* ------------------------------------------------------------------------------------ memory */

static uint64_t nodes_of(uint32_t width, uint32_t frames)
{
    return 1 + (uint64_t)width * frames;
}

/* A power of two; at least half of the table stays free. */
static uint64_t table_of(uint64_t nodes)
{
    uint64_t size = 2;
    while (size < 2 * nodes)
        size *= 2;
    return size;
}

spsh_status spsh__beam_open(uint32_t beam_width, uint32_t frames_max,
                            const spsh_allocator *allocator, spsh__beam **ret, spsh_error *err)
{
    const uint64_t nodes = nodes_of(beam_width, frames_max);
    spsh__beam *beam = NULL;
    spsh_status rc = SPSH_OK;
    if (beam_width == 0)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "beam_width is 0; expected 1 or more");
    if (nodes > UINT32_MAX / 4)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "a beam of width %u over %u frames", beam_width,
                         frames_max);
    beam = (spsh__beam *)spsh__new(allocator, 1, sizeof(*beam));
    if (beam != NULL) {
        beam->allocator = *allocator;
        beam->width = beam_width;
        beam->frames_max = frames_max;
        beam->nodes = (node *)spsh__new(allocator, nodes, sizeof(node));
        beam->table = (uint32_t *)spsh__new(allocator, table_of(nodes), sizeof(uint32_t));
        beam->places = (place *)spsh__new(allocator, beam_width, sizeof(place));
        beam->next_places = (place *)spsh__new(allocator, beam_width, sizeof(place));
        beam->heap = (candidate *)spsh__new(allocator, beam_width, sizeof(candidate));
    }
    if (beam == NULL || beam->nodes == NULL || beam->table == NULL || beam->places == NULL ||
        beam->next_places == NULL || beam->heap == NULL) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "a beam of width %u over %u frames", beam_width,
                       frames_max);
        goto out;
    }
    *ret = beam;
    beam = NULL;
out:
    spsh__beam_close(beam);
    return rc;
}

void spsh__beam_close(spsh__beam *beam)
{
    if (beam == NULL)
        return;
    const spsh_allocator allocator = beam->allocator;
    spsh__free(&allocator, beam->heap);
    spsh__free(&allocator, beam->next_places);
    spsh__free(&allocator, beam->places);
    spsh__free(&allocator, beam->table);
    spsh__free(&allocator, beam->nodes);
    spsh__free(&allocator, beam);
}

/* -------------------------------------------------------------------------------------- nodes */

/* Return the table slot of the child, or the free slot for it. */
static uint32_t slot_of(const spsh__beam *beam, uint32_t parent, uint32_t symbol)
{
    uint64_t hash = ((uint64_t)parent << 32 | symbol) * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t slot = (uint32_t)(hash >> 32) & beam->mask;
    while (beam->table[slot] != NONE) {
        const node *there = &beam->nodes[beam->table[slot]];
        if (there->parent == parent && there->symbol == symbol)
            break;
        slot = (slot + 1) & beam->mask;
    }
    return slot;
}

static uint32_t child_of(spsh__beam *beam, uint32_t parent, uint32_t symbol)
{
    const uint32_t slot = slot_of(beam, parent, symbol);
    if (beam->table[slot] == NONE) {
        beam->nodes[beam->node_count] = (node){parent, symbol, NONE};
        beam->table[slot] = beam->node_count++;
    }
    return beam->table[slot];
}

static bool child_is_in_beam(const spsh__beam *beam, uint32_t parent, uint32_t symbol)
{
    const uint32_t child = beam->table[slot_of(beam, parent, symbol)];
    return child != NONE && beam->nodes[child].place != NONE;
}

/* --------------------------------------------------------------------------------------- heap */

static bool is_worse(const candidate *a, const candidate *b)
{
    return a->total < b->total || (a->total == b->total && a->order > b->order);
}

/* Move the candidate at index `at` down the heap until no child is worse. */
static void sink(spsh__beam *beam, uint32_t at)
{
    candidate *heap = beam->heap;
    const candidate moved = heap[at];
    for (;;) {
        uint64_t below = 2 * (uint64_t)at + 1;
        if (below >= beam->heap_count)
            break;
        if (below + 1 < beam->heap_count && is_worse(&heap[below + 1], &heap[below]))
            below++;
        if (!is_worse(&heap[below], &moved))
            break;
        heap[at] = heap[below];
        at = (uint32_t)below;
    }
    heap[at] = moved;
}

/* Return the score that a candidate must exceed. */
static double floor_of(const spsh__beam *beam)
{
    return beam->heap_count < beam->width ? NOTHING : beam->heap[0].total;
}

static void offer(spsh__beam *beam, candidate c)
{
    candidate *heap = beam->heap;
    c.order = beam->order++;
    if (beam->heap_count == beam->width) {
        heap[0] = c;
        sink(beam, 0);
        return;
    }
    uint32_t at = beam->heap_count++;
    while (at > 0 && is_worse(&c, &heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = c;
}

/* ------------------------------------------------------------------------------------- frames */

static double log_add(double a, double b)
{
    const double greatest = a > b ? a : b;
    const double least = a > b ? b : a;
    return least == NOTHING ? greatest : greatest + log1p(exp(least - greatest));
}

/* Return ln p of the paths of a prefix that `symbol` may extend. A repeat of the last symbol needs
 * a blank in between. */
static double before_symbol(const spsh__beam *beam, const place *p, uint32_t symbol)
{
    const bool repeats = p->node != ROOT && beam->nodes[p->node].symbol == symbol;
    return repeats ? p->blank : p->total;
}

/* Offer each prefix unchanged, together with the paths from its parent in the beam that reach it.
 */
static void offer_stays(spsh__beam *beam, const float *row, uint32_t blank)
{
    for (uint32_t i = 0; i < beam->count; i++) {
        const place *p = &beam->places[i];
        const node *n = &beam->nodes[p->node];
        candidate c = {
            .blank = p->total + (double)row[blank], .other = NOTHING, .from = i, .symbol = NONE};
        if (p->node != ROOT) {
            const uint32_t parent = beam->nodes[n->parent].place;
            c.other = p->other + (double)row[n->symbol];
            if (parent != NONE)
                c.other = log_add(c.other, before_symbol(beam, &beam->places[parent], n->symbol) +
                                               (double)row[n->symbol]);
        }
        c.total = log_add(c.blank, c.other);
        offer(beam, c);
    }
}

static void offer_extensions(spsh__beam *beam, const spsh__score_rows *rows, const float *row)
{
    float greatest = -INFINITY;
    for (uint32_t k = 0; k < rows->width; k++)
        if (k != rows->blank && row[k] > greatest)
            greatest = row[k];
    for (uint32_t i = 0; i < beam->count; i++) {
        const place *p = &beam->places[i];
        if (!(p->total + (double)greatest > floor_of(beam)))
            break;
        for (uint32_t k = 0; k < rows->width; k++) {
            const double total = before_symbol(beam, p, k) + (double)row[k];
            if (k == rows->blank || !(total > floor_of(beam)) || child_is_in_beam(beam, p->node, k))
                continue;
            offer(beam,
                  (candidate){
                      .blank = NOTHING, .other = total, .total = total, .from = i, .symbol = k});
        }
    }
}

/* Move the heap's candidates to the beam, the best first. */
static void take_places(spsh__beam *beam)
{
    place *next = beam->next_places;
    const uint32_t count = beam->heap_count;
    while (beam->heap_count > 0) {
        const candidate c = beam->heap[0];
        const uint32_t from = beam->places[c.from].node;
        const uint32_t to = c.symbol == NONE ? from : child_of(beam, from, c.symbol);
        beam->heap[0] = beam->heap[--beam->heap_count];
        if (beam->heap_count > 0)
            sink(beam, 0);
        next[beam->heap_count] = (place){to, c.blank, c.other, c.total};
    }
    for (uint32_t i = 0; i < beam->count; i++)
        beam->nodes[beam->places[i].node].place = NONE;
    for (uint32_t i = 0; i < count; i++)
        beam->nodes[next[i].node].place = i;
    beam->next_places = beam->places;
    beam->places = next;
    beam->count = count;
}

static uint32_t write_labels(const spsh__beam *beam, uint32_t *labels, uint32_t capacity)
{
    uint32_t length = 0;
    for (uint32_t n = beam->places[0].node; n != ROOT; n = beam->nodes[n].parent)
        length++;
    uint32_t at = length;
    for (uint32_t n = beam->places[0].node; n != ROOT; n = beam->nodes[n].parent)
        if (--at < capacity)
            labels[at] = beam->nodes[n].symbol;
    return length < capacity ? length : capacity;
}

uint32_t spsh__decode_beam(spsh__beam *beam, const spsh__score_rows *rows, uint32_t *labels,
                           uint32_t capacity, double *ret_score)
{
    assert(rows->frames <= beam->frames_max);
    const uint64_t slots = table_of(nodes_of(beam->width, rows->frames));
    beam->mask = (uint32_t)(slots - 1);
    memset(beam->table, 0xff, slots * sizeof(*beam->table));
    beam->nodes[ROOT] = (node){NONE, NONE, 0};
    beam->node_count = 1;
    beam->places[0] = (place){ROOT, 0, NOTHING, 0};
    beam->count = 1;
    for (uint32_t t = 0; t < rows->frames; t++) {
        const float *row = rows->values + t * rows->stride;
        beam->order = 0;
        offer_stays(beam, row, rows->blank);
        offer_extensions(beam, rows, row);
        take_places(beam);
    }
    *ret_score = beam->places[0].total;
    return write_labels(beam, labels, capacity);
}
