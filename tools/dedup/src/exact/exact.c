/* exact.c: run the exact tiers one after another.
 *
 *     groups    equal bytes, equal samples, one record     -> matches, first members
 *     chunks    of first members: equal stretches          -> matches
 *
 * The array of groups is the only memory that grows with the set. The sorts use the rest of the
 * limit.
 */
#include "exact.h"

#include <stdlib.h>

#include "exact_internal.h"
#include "speechshard/inside.h"

spsh_status spsh__exact_groups_new(uint64_t count, spsh__exact_groups **ret_groups, spsh_error *err)
{
    spsh__exact_groups *groups = calloc(1, sizeof(*groups));
    if (groups == NULL)
        return SPSH_NO_MEMORY(err);
    groups->count = count;
    if (count <= UINT32_MAX)
        groups->narrow = calloc((size_t)count + 1, sizeof(*groups->narrow));
    else
        groups->wide = calloc((size_t)count + 1, sizeof(*groups->wide));
    if (groups->narrow == NULL && groups->wide == NULL) {
        free(groups);
        return SPSH_NO_MEMORY(err);
    }
    for (uint64_t i = 0; i < count; i++)
        spsh__exact_put(groups, i, i);
    *ret_groups = groups;
    return SPSH_OK;
}

uint64_t spsh__exact_representative(const spsh__exact_groups *groups, uint64_t ordinal)
{
    return groups->narrow != NULL ? groups->narrow[ordinal] : groups->wide[ordinal];
}

void spsh__exact_put(spsh__exact_groups *groups, uint64_t ordinal, uint64_t value)
{
    if (groups->narrow != NULL)
        groups->narrow[ordinal] = (uint32_t)value;
    else
        groups->wide[ordinal] = value;
}

spsh_status spsh__exact_sort_open(const spsh__exact_search *search, uint64_t parts,
                                  spsh__sort128 **ret_sort, spsh_error *err)
{
    const spsh__exact_options *options = search->options;
    const spsh__exact_groups *groups = search->groups;
    const uint64_t held = groups->count * (groups->narrow != NULL ? 4 : 8);
    const spsh__sort128_options sort = {
        .io = options->io,
        .temporary_path = options->temporary_path,
        .memory_bytes = options->memory_bytes > held + parts * SPSH__EXACT_MEMORY_MIN
                            ? (options->memory_bytes - held) / parts
                            : SPSH__EXACT_MEMORY_MIN,
        .threads = options->threads > 0 ? options->threads : 1,
    };
    return spsh__sort128_open(&sort, ret_sort, err);
}

spsh_status spsh__exact_find(const spsh__print_set *set, const spsh__exact_options *options,
                             spsh__match_sink sink, spsh__exact_groups **ret_groups,
                             spsh_error *err)
{
    const uint64_t count = spsh__print_set_count(set);
    spsh__exact_search search = {
        .set = set,
        .options = options,
        .sink = sink,
        .has_both = spsh__print_set_side_count(set, SPSH_SIDE_TRAIN) > 0 &&
                    spsh__print_set_side_count(set, SPSH_SIDE_TEST) > 0,
    };
    if (count >> SPSH__EXACT_ORDINAL_BITS != 0)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "there are more than 2^%d utterances",
                         SPSH__EXACT_ORDINAL_BITS);
    spsh_status rc = spsh__exact_groups_new(count, &search.groups, err);
    if (rc == SPSH_OK)
        rc = spsh__exact_find_groups(&search, err);
    if (rc == SPSH_OK && !options->groups_only)
        rc = spsh__exact_find_chunks(&search, err);
    if (rc != SPSH_OK) {
        spsh__exact_groups_free(search.groups);
        return rc;
    }
    *ret_groups = search.groups;
    return SPSH_OK;
}

void spsh__exact_groups_free(spsh__exact_groups *groups)
{
    if (groups == NULL)
        return;
    free(groups->narrow);
    free(groups->wide);
    free(groups);
}
