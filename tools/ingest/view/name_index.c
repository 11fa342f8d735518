/* name_index.c: open addressing with linear probing, at most three quarters full. Slots are never
 * removed, so a search ends at the first free slot. State 0 marks a free slot.
 *
 * With millions of names, each lookup is a cache miss. If the next names are known, their slots are
 * prefetched, so that several misses overlap.
 */
#include "name_index.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define CAPACITY_MIN ((size_t)1024)

static spsh__name_slot hash_name(spsh_bytes name)
{
    const XXH128_hash_t hash = XXH3_128bits(name.data, name.size_bytes);
    return (spsh__name_slot){.hash_high = hash.high64, .hash_low = (uint32_t)hash.low64};
}

/* Return the slot of the name, or the free slot where it belongs. At least one slot is always free.
 */
static spsh__name_slot *probe(const spsh__name_index *index, const spsh__name_slot *wanted)
{
    const size_t mask = index->capacity - 1;
    size_t at = (size_t)wanted->hash_high & mask;
    for (;;) {
        spsh__name_slot *slot = &index->slots[at];
        if (slot->state == 0 ||
            (slot->hash_high == wanted->hash_high && slot->hash_low == wanted->hash_low))
            return slot;
        at = (at + 1) & mask;
    }
}

/* Count of the used slots before the first free slot. Some of these names wrapped around: their
 * probes began at the end of the table. */
static size_t first_run(const spsh__name_index *index)
{
    size_t count = 0;
    while (count < index->capacity && index->slots[count].state != 0)
        count++;
    return count;
}

/* Double the table in place. After the first free slot, each name's new slot is at or before its
 * old one, or in the new half. So a move in slot order never passes a name that still has to move.
 * Only the first run may hold names that wrapped around. It is copied out first and inserted last.
 */
static bool grow(spsh__name_index *index)
{
    const size_t before = index->capacity;
    const size_t capacity = before == 0 ? CAPACITY_MIN : before * 2;
    const size_t run = first_run(index);
    if (before > SIZE_MAX / 2 / sizeof(*index->slots))
        return false;
    spsh__name_slot *waiting = malloc((run + 1) * sizeof(*waiting));
    spsh__name_slot *slots =
        waiting == NULL ? NULL : realloc(index->slots, capacity * sizeof(*slots));
    if (slots == NULL) {
        free(waiting);
        return false;
    }
    if (run > 0)
        memcpy(waiting, slots, run * sizeof(*slots));
    memset(slots, 0, run * sizeof(*slots));
    memset(slots + before, 0, (capacity - before) * sizeof(*slots));
    index->slots = slots;
    index->capacity = capacity;
    for (size_t i = run; i < before + run; i++) {
        const spsh__name_slot slot = i < before ? slots[i] : waiting[i - before];
        if (slot.state == 0)
            continue;
        if (i < before)
            slots[i].state = 0;
        *probe(index, &slot) = slot;
    }
    free(waiting);
    return true;
}

/* Prefetch the slot where the search for a name begins. */
static void fetch(const spsh__name_index *index, const spsh__name_slot *wanted)
{
    if (index->capacity > 0)
        __builtin_prefetch(&index->slots[(size_t)wanted->hash_high & (index->capacity - 1)], 1);
}

spsh__name_slot *spsh__name_index_find(const spsh__name_index *index, spsh_bytes name)
{
    if (index->capacity == 0)
        return NULL;
    const spsh__name_slot wanted = hash_name(name);
    spsh__name_slot *slot = probe(index, &wanted);
    return slot->state != 0 ? slot : NULL;
}

/* Return the slot of the wanted name. A new slot gets its state and value. */
static spsh__name_slot *add(spsh__name_index *index, const spsh__name_slot *wanted)
{
    if (index->count >= index->capacity / 4 * 3 && !grow(index))
        return NULL;
    spsh__name_slot *slot = probe(index, wanted);
    if (slot->state == 0) {
        *slot = *wanted;
        index->count++;
    }
    return slot;
}

spsh__name_slot *spsh__name_index_add(spsh__name_index *index, spsh_bytes name, uint32_t state)
{
    spsh__name_slot wanted = hash_name(name);
    wanted.state = state;
    return add(index, &wanted);
}

static bool do_first_mark(spsh__name_index *index)
{
    const spsh__name_slot mark = index->marks[index->mark_first];
    spsh__name_slot wanted = mark;
    index->mark_first = (index->mark_first + 1) % SPSH__NAME_MARKS;
    index->mark_count--;
    if (mark.value == SPSH__NAME_VALUE_KEPT)
        wanted.value = 0;
    spsh__name_slot *slot = add(index, &wanted);
    if (slot == NULL)
        return false;
    slot->state |= mark.state;
    if (mark.value != SPSH__NAME_VALUE_KEPT)
        slot->value = mark.value;
    return true;
}

bool spsh__name_index_mark(spsh__name_index *index, spsh_bytes name, uint32_t bits, uint64_t value)
{
    if (index->mark_count == SPSH__NAME_MARKS && !do_first_mark(index))
        return false;
    spsh__name_slot *mark =
        &index->marks[(index->mark_first + index->mark_count++) % SPSH__NAME_MARKS];
    *mark = hash_name(name);
    mark->state = bits;
    mark->value = value;
    fetch(index, mark);
    return true;
}

bool spsh__name_index_settle(spsh__name_index *index)
{
    while (index->mark_count > 0) {
        if (!do_first_mark(index))
            return false;
    }
    return true;
}

void spsh__name_index_expect(const spsh__name_index *index, spsh_bytes name)
{
    const spsh__name_slot wanted = hash_name(name);
    fetch(index, &wanted);
}

bool spsh__name_index_any(const spsh__name_index *index, uint32_t with, uint32_t without)
{
    for (size_t i = 0; i < index->capacity; i++) {
        const uint32_t state = index->slots[i].state;
        if (state != 0 && (state & with) == with && (state & without) == 0)
            return true;
    }
    return false;
}

void spsh__name_index_free(spsh__name_index *index)
{
    free(index->slots);
    *index = (spsh__name_index){0};
}
