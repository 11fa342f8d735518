/* plan.c: open a plan: options, filters, scan, shares, windows. An open plan never changes. */
#include <inttypes.h>

#include "batch_window.h"
#include "plan_cache.h"
#include "plan_lengths.h"
#include "plan_options.h"
#include "plan_scan.h"
#include "plan_states.h"
#include "speechshard/cores.h"
#include "speechshard/options.h"

enum { THREADS_MAX = 64 }; /* limit of the default; a caller may request more */

static spsh_status check_datasets(const spsh_dataset *const *datasets, uint32_t dataset_count,
                                  spsh_plan *const *ret_plan, spsh_error *err)
{
    if (datasets == NULL || ret_plan == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "datasets or result is NULL");
    if (dataset_count == 0 || dataset_count > SPSH_PLAN_DATASETS_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%u datasets, must be 1 to %u", dataset_count,
                         SPSH_PLAN_DATASETS_MAX);
    for (uint32_t d = 0; d < dataset_count; d++)
        if (datasets[d] == NULL)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "dataset %u is NULL", d);
    return SPSH_OK;
}

static spsh_status make_plan(const spsh_dataset *const *datasets, uint32_t dataset_count,
                             const spsh_plan_options *options, spsh_plan **ret_plan,
                             spsh_error *err)
{
    const spsh_allocator *allocator = options->allocator;
    spsh_plan *plan = (spsh_plan *)spsh__new(allocator, 1, sizeof(*plan));
    if (plan == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "plan");
    plan->allocator = *allocator;
    plan->options = *options;
    plan->caps = spsh__plan_caps(options);
    plan->datasets =
        (spsh__plan_dataset *)spsh__new(allocator, dataset_count, sizeof(*plan->datasets));
    plan->damage = (spsh__damage *)spsh__new(allocator, 1, sizeof(*plan->damage));
    if (plan->datasets == NULL || plan->damage == NULL) {
        spsh_plan_close(plan);
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "plan");
    }
    plan->dataset_count = dataset_count;
    if (options->cache_dir != NULL) {
        size_t size = strlen(options->cache_dir) + 1;
        plan->cache_dir = (char *)spsh__new(allocator, 1, size);
        if (plan->cache_dir == NULL) {
            spsh_plan_close(plan);
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "plan");
        }
        memcpy(plan->cache_dir, options->cache_dir, size);
    }
    for (uint32_t d = 0; d < dataset_count; d++) {
        plan->datasets[d].dataset = datasets[d];
        plan->datasets[d].count = spsh_dataset_info_get(datasets[d])->utterance_count;
    }
    *ret_plan = plan;
    return SPSH_OK;
}

/* Load the scan from the cache, or scan the indexes. */
static spsh_status find_members(spsh_plan *plan, const spsh__filter *filters, uint32_t threads,
                                spsh_error *err)
{
    spsh__lengths_open(plan);
    /* The lengths file is written after a scan, because a scan checks the whole index. */
    if (plan->lengths_map != NULL && spsh__cache_load_scan(plan, filters, threads))
        return SPSH_OK;
    spsh_status rc = spsh__plan_scan(plan, filters, threads, err);
    if (rc == SPSH_OK && plan->domain_count > 0) {
        spsh__cache_save_scan(plan);
        spsh__lengths_save(plan);
    }
    return rc;
}

static spsh_status check_result(const spsh_plan *plan, spsh_error *err)
{
    const spsh_plan_info *info = &plan->info;
    if (info->utterance_count > 0)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                     "no utterance passes; not served: %" PRIu64 " by skip overlays, %" PRIu64
                     " by split, domain, language or weight, %" PRIu64 " by duration, %" PRIu64
                     " as too long for a batch, %" PRIu64 " as duplicates, %" PRIu64 " by speaker",
                     info->skipped_count, info->filtered_count, info->duration_count,
                     info->too_long_count, info->duplicate_count, info->speaker_count);
}

static spsh_status set_windows(spsh_plan *plan, spsh_error *err)
{
    uint64_t size = plan->options.window_utterances;
    uint64_t windows = (plan->info.utterance_count + size - 1) / size;
    if (windows >= UINT32_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT,
                         "window_utterances is %" PRIu64 ", which makes too many windows: %" PRIu64,
                         size, windows);
    plan->info.window_count = (uint32_t)windows;
    /* Item indexes of a window have 32 bits. */
    if (spsh__window_items_max(plan) > UINT32_C(1) << 30)
        return SPSH_FAIL(err, SPSH_E_LIMIT,
                         "too many parts of utterances in a window: %" PRIu64
                         "; set window_utterances lower, or the seconds of a batch higher",
                         spsh__window_items_max(plan));
    return SPSH_OK;
}

spsh_status spsh__plan_open(const spsh_dataset *const *datasets, uint32_t dataset_count,
                            const spsh_plan_options *options, uint32_t threads,
                            spsh_plan **ret_plan, spsh_error *err)
{
    spsh_plan_options opt;
    spsh_plan *plan = NULL;
    spsh__filter *filters = NULL;
    spsh_status rc = check_datasets(datasets, dataset_count, ret_plan, err);
    if (rc == SPSH_OK)
        rc = spsh__plan_take_options(options, &opt, err);
    if (rc == SPSH_OK)
        rc = make_plan(datasets, dataset_count, &opt, &plan, err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh__filters_open(datasets, dataset_count, &opt, &plan->allocator, &filters, err);
    if (rc != SPSH_OK)
        goto out;
    spsh__plan_scan_keys(plan, filters);
    rc = spsh__plan_map(plan, err);
    if (rc == SPSH_OK)
        rc =
            find_members(plan, filters, threads == 0 ? spsh_core_count(THREADS_MAX) : threads, err);
    if (rc == SPSH_OK)
        rc = check_result(plan, err);
    /* The scan and the cache have the stored rate. */
    if (rc == SPSH_OK && opt.sample_rate_hz != 0)
        plan->info.sample_rate_hz_max = opt.sample_rate_hz;
    if (rc == SPSH_OK)
        rc = spsh__plan_shares(plan, filters, err);
    if (rc == SPSH_OK)
        rc = set_windows(plan, err);
    if (rc == SPSH_OK)
        rc = spsh__states_open(plan, err);
    if (rc != SPSH_OK)
        goto out;
    /* Clear the pointers to the caller's memory. */
    plan->options.allocator = NULL;
    plan->options.weights = NULL;
    plan->options.splits = NULL;
    plan->options.domains = NULL;
    plan->options.languages = NULL;
    plan->options.cache_dir = NULL;
    plan->options.progress_fn = NULL;
    *ret_plan = plan;
    plan = NULL;
out:
    if (filters != NULL)
        spsh__filters_close(filters, dataset_count, opt.allocator);
    spsh_plan_close(plan);
    return rc;
}

spsh_status spsh_plan_open(const spsh_dataset *const *datasets, uint32_t dataset_count,
                           const spsh_plan_options *options, spsh_plan **ret_plan, spsh_error *err)
{
    return spsh__plan_open(datasets, dataset_count, options, 0, ret_plan, err);
}

void spsh_plan_close(spsh_plan *plan)
{
    if (plan == NULL)
        return;
    const spsh_allocator allocator = plan->allocator;
    spsh__states_close(plan);
    for (uint64_t i = 0; i < plan->chunk_count; i++)
        spsh__free(&allocator, plan->chunks[i]);
    for (uint32_t d = 0; d < plan->dataset_count; d++)
        spsh__free(&allocator, plan->datasets[d].granules);
    spsh__cache_close(plan);
    spsh__lengths_close(plan);
    spsh__free(&allocator, plan->damage);
    spsh__free(&allocator, plan->cache_dir);
    spsh__free(&allocator, plan->chunks);
    spsh__free(&allocator, plan->runs);
    spsh__free(&allocator, plan->domains);
    spsh__free(&allocator, plan->datasets);
    spsh__free(&allocator, plan);
}

const spsh_plan_info *spsh_plan_info_get(const spsh_plan *plan)
{
    return &plan->info;
}

spsh_status spsh_plan_domain_get(const spsh_plan *plan, uint32_t domain,
                                 spsh_plan_domain *ret_domain, spsh_error *err)
{
    spsh_bytes name = {NULL, 0};
    if (domain >= plan->domain_count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "domain %u does not exist: there are %u domains",
                         domain, plan->domain_count);
    const spsh__plan_domain *d = &plan->domains[domain];
    spsh_status rc = spsh_result_check(ret_domain, sizeof(*ret_domain), err);
    if (rc == SPSH_OK)
        rc = spsh_dataset_name(plan->datasets[d->dataset].dataset, SPSH_NAME_DOMAIN, d->name, &name,
                               err);
    if (rc != SPSH_OK)
        return rc;
    double items =
        (double)plan->info.utterance_count * (double)d->item_weight / (double)plan->item_weight_sum;
    const spsh_plan_domain found = {
        .dataset = d->dataset,
        .name = name,
        .utterance_count = d->count,
        .microseconds = d->ticks,
        .units = d->units,
        .share = (double)d->weight / (double)plan->weight_sum,
        .passes = items / (double)d->count,
    };
    spsh_result_give(ret_domain, &found, sizeof(found));
    return SPSH_OK;
}

spsh_status spsh__plan_contradicted(const spsh_plan *plan, const char *what, spsh_error *err)
{
    if (plan->cache_dir != NULL)
        return SPSH_FAIL(err, SPSH_E_CORRUPT,
                         "%s; the cache directory %.200s does not fit the dataset: remove it", what,
                         plan->cache_dir);
    return SPSH_FAIL(err, SPSH_E_CORRUPT,
                     "%s; the index of a dataset has changed since it was opened, or this is a bug "
                     "of speechshard: open the dataset again, and report the bug if it recurs",
                     what);
}
