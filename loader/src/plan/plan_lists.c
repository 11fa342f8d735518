/* plan_lists.c: merge the workers' results into domains and their member lists.
 *
 * Sums are added over the workers. The groups of all blocks are visited in order of position, once
 * to count runs and once to write them. So the result does not depend on which worker took which
 * block.
 */
#include <inttypes.h>

#include "plan_scan_internal.h"

enum { BLOCK = SPSH__MEMBERS_BLOCK };

static spsh_status merge_workers(spsh__index_scan *s, spsh_error *err)
{
    spsh_plan *plan = s->plan;
    spsh__scan_sum *sums = s->workers[0].sums;
    uint64_t part_count_max = 1;
    for (uint32_t i = 0; i < s->worker_count; i++) {
        const spsh__scan_worker *w = &s->workers[i];
        for (uint64_t d = 0; d < s->domain_count && i > 0; d++) {
            sums[d].count += w->sums[d].count;
            sums[d].ticks += w->sums[d].ticks;
            sums[d].units += w->sums[d].units;
            sums[d].extra_items += w->sums[d].extra_items;
        }
        spsh__scan_add(&plan->info.microseconds, w->info.microseconds);
        if (w->info.longest_microseconds > plan->info.longest_microseconds)
            plan->info.longest_microseconds = w->info.longest_microseconds;
        plan->info.skipped_count += w->info.skipped_count;
        plan->info.filtered_count += w->info.filtered_count;
        plan->info.duration_count += w->info.duration_count;
        plan->info.too_long_count += w->info.too_long_count;
        plan->info.duplicate_count += w->info.duplicate_count;
        plan->info.speaker_count += w->info.speaker_count;
        part_count_max = w->part_count_max > part_count_max ? w->part_count_max : part_count_max;
    }
    if (plan->info.longest_microseconds > plan->caps.item_ticks || part_count_max > UINT32_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT,
                         "a batch may have only %" PRIu64
                         " microseconds, so no part of a split utterance fits; raise "
                         "batch_seconds_max or batch_padded_seconds_max",
                         plan->caps.item_ticks);
    plan->part_count_max = (uint32_t)part_count_max;
    return SPSH_OK;
}

static void take_ranges(spsh__index_scan *s)
{
    spsh_plan *plan = s->plan;
    for (uint32_t d = 0; d < plan->dataset_count; d++) {
        spsh__scan_range r = {UINT32_MAX, 0, UINT32_MAX, 0};
        for (uint32_t i = 0; i < s->worker_count; i++) {
            const spsh__scan_range *of = &s->workers[i].ranges[d];
            r.rate_min = of->rate_min < r.rate_min ? of->rate_min : r.rate_min;
            r.rate_max = of->rate_max > r.rate_max ? of->rate_max : r.rate_max;
            r.channels_min = of->channels_min < r.channels_min ? of->channels_min : r.channels_min;
            r.channels_max = of->channels_max > r.channels_max ? of->channels_max : r.channels_max;
        }
        plan->datasets[d].rate_hz = r.rate_min == r.rate_max ? r.rate_min : 0;
        plan->datasets[d].channel_count = r.channels_min == r.channels_max ? r.channels_min : 0;
        if (r.rate_max > plan->info.sample_rate_hz_max)
            plan->info.sample_rate_hz_max = r.rate_max;
        if (r.channels_max > plan->info.channels_max)
            plan->info.channels_max = r.channels_max;
    }
}

/* Create the domains that have members. Sets numbers[slot] to the number of each domain. */
static spsh_status make_domains(spsh__index_scan *s, uint32_t *numbers, spsh_error *err)
{
    spsh_plan *plan = s->plan;
    const spsh__scan_sum *sums = s->workers[0].sums;
    uint32_t used = 0;
    for (uint64_t i = 0; i < s->domain_count; i++)
        used += sums[i].count > 0;
    plan->domains = (spsh__plan_domain *)spsh__new(&plan->allocator, used, sizeof(*plan->domains));
    if (plan->domains == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%u domains", used);
    for (uint32_t d = 0; d < plan->dataset_count; d++) {
        uint32_t names = s->filters[d].domain_names;
        for (uint32_t i = 0; i <= names; i++) {
            uint64_t slot = s->datasets[d].first_domain + i;
            const spsh__scan_sum *sum = &sums[slot];
            if (sum->count == 0)
                continue;
            numbers[slot] = plan->domain_count;
            plan->domains[plan->domain_count++] =
                (spsh__plan_domain){.dataset = d,
                                    .name = i == names ? SPSH_NONE_U32 : i,
                                    .count = sum->count,
                                    .ticks = sum->ticks,
                                    .units = sum->units,
                                    .extra_items = sum->extra_items};
            plan->info.utterance_count += sum->count;
        }
    }
    plan->info.domain_count = plan->domain_count;
    return SPSH_OK;
}

/* True if a group continues its domain's last run. */
static bool continues(const spsh__member_run *last, uint64_t members, const spsh__scan_group *g,
                      uint64_t position)
{
    return last != NULL && last->offsets == NULL && g->is_consecutive &&
           last->base + (members - last->first) == position;
}

/* Visit each group of each block, in order, and count the runs, or, with `write`, write them.
 * members[d]: number of members of domain d so far. */
static void add_groups(const spsh__index_scan *s, const uint32_t *numbers, uint64_t *members,
                       spsh__member_run **lasts, spsh__member_run *scratch, bool write)
{
    spsh_plan *plan = s->plan;
    uint32_t dataset = 0;
    for (uint64_t b = 0; b < s->block_count; b++) {
        while (b >= s->datasets[dataset].first_block + s->datasets[dataset].block_count)
            dataset++;
        const spsh__scan_dataset *d = &s->datasets[dataset];
        for (uint32_t i = 0; i < s->blocks[b].group_count; i++) {
            const spsh__scan_group *g = &s->blocks[b].groups[i];
            uint32_t domain = numbers[d->first_domain + g->domain];
            uint64_t base = (b - d->first_block) * BLOCK;
            uint64_t position = base + (g->is_consecutive ? g->first : 0);
            if (!continues(lasts[domain], members[domain], g, position)) {
                spsh__member_run *run = write ? lasts[domain] : &scratch[domain];
                run = write ? (run == NULL ? plan->runs + scratch[domain].base : run + 1) : run;
                *run =
                    (spsh__member_run){members[domain], position,
                                       g->is_consecutive ? NULL : s->blocks[b].offsets + g->first};
                lasts[domain] = run;
                plan->domains[domain].run_count += !write;
            }
            members[domain] += g->count;
        }
    }
}

static spsh_status make_runs(spsh__index_scan *s, const uint32_t *numbers, spsh_error *err)
{
    spsh_plan *plan = s->plan;
    const spsh_allocator *allocator = &plan->allocator;
    uint32_t count = plan->domain_count;
    uint64_t *members = (uint64_t *)spsh__new(allocator, count, sizeof(*members));
    spsh__member_run **lasts =
        (spsh__member_run **)spsh__new(allocator, count, sizeof(spsh__member_run *));
    spsh__member_run *scratch = (spsh__member_run *)spsh__new(allocator, count, sizeof(*scratch));
    spsh_status rc = SPSH_OK;
    if (members == NULL || lasts == NULL || scratch == NULL) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "runs of %u domains", count);
        goto out;
    }
    add_groups(s, numbers, members, lasts, scratch, false);
    for (uint32_t d = 0; d < count; d++) {
        scratch[d].base = plan->run_count;
        plan->run_count += plan->domains[d].run_count + UINT64_C(1);
    }
    plan->runs =
        (spsh__member_run *)spsh__new(allocator, (size_t)plan->run_count, sizeof(*plan->runs));
    if (plan->runs == NULL) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%" PRIu64 " runs", plan->run_count);
        goto out;
    }
    memset(members, 0, count * sizeof(*members));
    memset(lasts, 0, count * sizeof(spsh__member_run *));
    add_groups(s, numbers, members, lasts, scratch, true);
    for (uint32_t d = 0; d < count; d++) {
        plan->domains[d].runs = plan->runs + scratch[d].base;
        plan->runs[scratch[d].base + plan->domains[d].run_count].first = plan->domains[d].count;
    }
    plan->chunks = (uint16_t **)spsh__new(allocator, (size_t)s->block_count, sizeof(uint16_t *));
    if (plan->chunks == NULL) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%" PRIu64 " blocks", s->block_count);
        goto out;
    }
    for (uint64_t b = 0; b < s->block_count; b++) {
        plan->chunks[plan->chunk_count++] = s->blocks[b].offsets;
        s->blocks[b].offsets = NULL;
    }
out:
    spsh__free(allocator, members);
    spsh__free(allocator, lasts);
    spsh__free(allocator, scratch);
    return rc;
}

spsh_status spsh__scan_results(spsh__index_scan *s, spsh_error *err)
{
    uint32_t *numbers =
        (uint32_t *)spsh__new(&s->plan->allocator, (size_t)s->domain_count, sizeof(*numbers));
    spsh_status rc = SPSH_OK;
    if (numbers == NULL)
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%" PRIu64 " domains", s->domain_count);
    if (rc == SPSH_OK)
        rc = merge_workers(s, err);
    if (rc == SPSH_OK) {
        take_ranges(s);
        rc = make_domains(s, numbers, err);
    }
    if (rc == SPSH_OK)
        rc = make_runs(s, numbers, err);
    spsh__free(&s->plan->allocator, numbers);
    return rc;
}
