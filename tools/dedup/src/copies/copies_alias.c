/* copies_alias.c: utterances that share the samples of another utterance.
 *
 * An alias has no prints. Its base, the utterance with the same samples, has them. The base may be
 * excluded, because another split was chosen or an overlay skips it. Then the first alias that
 * takes part represents the base: the prints of the base are compared, and the matches are renamed
 * afterwards.
 */
#include <stdlib.h>

#include "common/grow.h"
#include "copies_internal.h"
#include "speechshard/inside.h"

static int compare_stand_ins(const void *left, const void *right)
{
    const spsh__stand_in *l = left;
    const spsh__stand_in *r = right;
    if (l->base != r->base)
        return l->base < r->base ? -1 : 1;
    return (l->alias > r->alias) - (l->alias < r->alias);
}

static spsh_status add_stand_in(spsh__stand_ins *list, spsh__stand_in item, spsh_error *err)
{
    if (!SPSH_GROW(list->items, list->capacity, list->count + 1))
        return SPSH_NO_MEMORY(err);
    list->items[list->count++] = item;
    return SPSH_OK;
}

spsh_status spsh__stand_ins_find(const spsh__print_set *set, spsh__stand_ins *ret_list,
                                 uint64_t *ret_undecoded, spsh_error *err)
{
    const uint64_t total = spsh__print_set_count(set);
    spsh__stand_ins list = {0};
    size_t kept = 0;
    spsh_status rc = SPSH_OK;
    *ret_undecoded = 0;
    for (uint64_t i = 0; i < total && rc == SPSH_OK; i++) {
        spsh__segment_row row;
        uint64_t base = SPSH_NONE_U64;
        if (spsh__print_set_side(set, i) == SPSH_SIDE_NONE)
            continue;
        rc = spsh__print_set_row(set, i, &row, &base, err);
        if (rc != SPSH_OK)
            break;
        *ret_undecoded += (row.flags & SPSH__ROW_DECODED) == 0;
        if (base != SPSH_NONE_U64 && spsh__print_set_side(set, base) == SPSH_SIDE_NONE)
            rc = add_stand_in(&list, (spsh__stand_in){base, i}, err);
    }
    if (rc != SPSH_OK) {
        free(list.items);
        return rc;
    }
    if (list.count > 1)
        qsort(list.items, list.count, sizeof(*list.items), compare_stand_ins);
    for (size_t i = 0; i < list.count; i++) {
        if (kept == 0 || list.items[kept - 1].base != list.items[i].base)
            list.items[kept++] = list.items[i];
    }
    list.count = kept;
    *ret_list = list;
    return SPSH_OK;
}

static uint64_t rename_one(const spsh__stand_ins *list, uint64_t ordinal)
{
    const spsh__stand_in key = {ordinal, 0};
    size_t low = 0;
    size_t high = list->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare_stand_ins(&list->items[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < list->count && list->items[low].base == ordinal ? list->items[low].alias : ordinal;
}

bool spsh__stand_ins_apply(const spsh__stand_ins *list, spsh__match *match)
{
    const uint64_t a = rename_one(list, match->a);
    const uint64_t b = rename_one(list, match->b);
    match->a = a;
    match->b = b;
    if (a > b)
        *match = spsh__match_turned(match);
    return a != b;
}
