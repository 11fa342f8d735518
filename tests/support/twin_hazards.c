/* twin_hazards.c: find conflicting uses of memory that no event orders.
 *
 * A use is kept until no later use can conflict with it. This is the case once the host has waited
 * for it, because all work that is enqueued later follows. It is also the case once a later use
 * replaces it. The later use must certainly follow, cover all of its bytes, and be a write unless
 * both are reads. Every use that follows the later use also follows the replaced one, and all other
 * conflicts are found with the later use.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "twin_internal.h"

void twin_clock_join(twin_clock *into, const twin_clock *from)
{
    for (size_t i = 0; i < TWIN_STREAMS; i++)
        if (into->at[i] < from->at[i])
            into->at[i] = from->at[i];
}

static void report(const twin_access *first, const twin_access *second)
{
    const uintptr_t begin = first->begin > second->begin ? first->begin : second->begin;
    const uintptr_t end = first->end < second->end ? first->end : second->end;
    if (twin_state.counts_hazards) {
        twin_state.hazards++;
        return;
    }
    twin_stop("hazard: %s (%s, stream %" PRIu32 ", work %" PRIu64 ") and %s (%s, stream %" PRIu32
              ", work %" PRIu64 ") are both at %zu bytes, %zu bytes into what the second uses, and "
              "nothing orders them",
              first->name, first->is_write ? "writes" : "reads", first->stream, first->time,
              second->name, second->is_write ? "writes" : "reads", second->stream, second->time,
              (size_t)(end - begin), (size_t)(begin - second->begin));
}

/* False: `old` need not be kept. */
static bool meets(const twin_access *old, const twin_access *one, const twin_clock *now,
                  const twin_clock *host)
{
    const bool overlaps = old->begin < one->end && one->begin < old->end;
    const bool is_before = now->at[old->stream] >= old->time;
    if (host->at[old->stream] >= old->time)
        return false;
    if (!overlaps)
        return true;
    if (!is_before && (old->is_write || one->is_write))
        report(old, one);
    return !(is_before && one->begin <= old->begin && old->end <= one->end &&
             (one->is_write || !old->is_write));
}

void twin_accesses_add(twin_accesses *all, const twin_access *one, const twin_clock *now,
                       const twin_clock *host)
{
    size_t kept = 0;
    for (size_t i = 0; i < all->count; i++) {
        const twin_access old = all->list[i];
        /* Uses of one piece of work do not order each other. */
        const bool is_same = old.stream == one->stream && old.time == one->time;
        if (is_same || meets(&old, one, now, host))
            all->list[kept++] = old;
    }
    all->count = kept;
    if (all->count == all->capacity) {
        all->capacity = all->capacity == 0 ? 8 : 2 * all->capacity;
        all->list = realloc(all->list, all->capacity * sizeof(*all->list));
        if (all->list == NULL)
            twin_stop("no memory");
    }
    all->list[all->count++] = *one;
}

void twin_accesses_free(twin_accesses *all)
{
    free(all->list);
    *all = (twin_accesses){NULL, 0, 0};
}
