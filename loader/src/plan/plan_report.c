/* plan_report.c: walk through an epoch without audio, and count.
 *
 * Shuffle quality counts the pairs of a batch that are less than NEAR positions apart in a dataset.
 * It compares this count with the expected count of a batch that is drawn from the dataset at
 * random. In a dataset of n rows, the expected fraction of such pairs is
 * (sum over distances t below NEAR of n - t) / (n (n - 1) / 2).
 */
#include <stdlib.h>

#include "batch_window.h"
#include "speechshard/options.h"

enum { NEAR = 64, UNIT_BYTES = 4096 };

typedef struct tally {
    const spsh_plan *plan;
    spsh_epoch_report *report;
    spsh_domain_report *domains; /* may be NULL */
    uint64_t *places;            /* scratch: dataset and position of a batch's items */
    double pairs_found, pairs_expected;
    double record_bytes, unit_bytes;
} tally;

static int compare_places(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Fraction of all pairs of a dataset's rows that are less than NEAR apart. */
static double chance_of(uint64_t rows)
{
    double n = (double)rows;
    double near = 0;
    for (uint64_t distance = 1; distance < NEAR && distance < rows; distance++)
        near += n - (double)distance;
    return rows < 2 ? 1 : near / (n * (n - 1) / 2);
}

static void count_pairs(tally *t, uint32_t count)
{
    uint32_t first_of_dataset = 0;
    if (count > 1)
        qsort(t->places, count, sizeof(*t->places), compare_places);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t dataset = t->places[i] >> 48;
        for (uint32_t j = i; j-- > 0 && t->places[i] - t->places[j] < NEAR;)
            t->pairs_found += t->places[i] != t->places[j]; /* not two parts */
        if (i + 1 < count && t->places[i + 1] >> 48 == dataset)
            continue;
        double members = (double)(i + 1 - first_of_dataset);
        t->pairs_expected +=
            members * (members - 1) / 2 * chance_of(t->plan->datasets[dataset].count);
        first_of_dataset = i + 1;
    }
}

static spsh_status count_read(tally *t, const spsh_item *item, spsh_error *err)
{
    const spsh_dataset *dataset = t->plan->datasets[item->dataset].dataset;
    spsh_bytes offset = {NULL, 0};
    spsh_bytes size = {NULL, 0};
    spsh_status rc =
        spsh_dataset_column(dataset, SPSH_COLUMN_RECORD_OFFSET, item->position, 1, &offset, err);
    if (rc == SPSH_OK)
        rc = spsh_dataset_column(dataset, SPSH_COLUMN_RECORD_BYTES, item->position, 1, &size, err);
    if (rc != SPSH_OK)
        return rc;
    uint64_t bytes = spsh__load_u32le(size.data);
    uint64_t units =
        (spsh__load_u64le(offset.data) % UNIT_BYTES + bytes + UNIT_BYTES - 1) / UNIT_BYTES;
    t->record_bytes += (double)bytes;
    t->unit_bytes += (double)(units * UNIT_BYTES);
    return SPSH_OK;
}

/* Count an utterance once, at its first part. */
static spsh_status count_units(tally *t, const spsh_item *item, spsh_error *err)
{
    const spsh__plan_dataset *d = &t->plan->datasets[item->dataset];
    spsh_domain_report *domain = &t->domains[item->domain];
    domain->item_count++;
    if (item->part != 0)
        return SPSH_OK;
    spsh_status rc = spsh__plan_touch(t->plan, item->dataset, item->position, err);
    if (rc != SPSH_OK)
        return rc;
    uint64_t samples = spsh__load_u64le(d->samples + 8 * item->position);
    uint32_t text_bytes =
        d->text_bytes == NULL ? 0 : spsh__load_u32le(d->text_bytes + 4 * item->position);
    domain->units +=
        spsh__units(t->plan->options.unit, spsh__ticks(samples, item->sample_rate_hz), text_bytes);
    domain->passes += 1 / (double)t->plan->domains[item->domain].count;
    return SPSH_OK;
}

static spsh_status count_batch(tally *t, const spsh_item *items, uint32_t count, spsh_error *err)
{
    spsh_epoch_report *r = t->report;
    uint64_t sum = 0;
    uint64_t longest = 0;
    spsh_status rc = SPSH_OK;
    for (uint32_t i = 0; i < count && rc == SPSH_OK; i++) {
        const spsh_item *item = &items[i];
        sum += item->microseconds;
        longest = item->microseconds > longest ? item->microseconds : longest;
        t->places[i] = (uint64_t)item->dataset << 48 | item->position;
        rc = count_read(t, item, err);
        if (rc == SPSH_OK && t->domains != NULL)
            rc = count_units(t, item, err);
    }
    count_pairs(t, count);
    r->batch_count++;
    r->item_count += count;
    r->microseconds += sum;
    r->padded_microseconds += longest * count;
    if (sum > r->batch_microseconds_max)
        r->batch_microseconds_max = sum;
    if (longest * count > r->batch_padded_microseconds_max)
        r->batch_padded_microseconds_max = longest * count;
    if (count > r->batch_items_max)
        r->batch_items_max = count;
    return rc;
}

static spsh_status count_windows(tally *t, spsh__windows *windows, uint64_t epoch, spsh_error *err)
{
    for (uint32_t k = 0; k < t->report->window_count; k++) {
        const spsh__window *w = NULL;
        spsh_status rc = spsh__windows_get(windows, epoch, k, &w, err);
        for (uint32_t b = 0; rc == SPSH_OK && b < w->batch_count; b++)
            rc = count_batch(t, w->items + w->batches[b].first, w->batches[b].count, err);
        if (rc != SPSH_OK)
            return rc;
    }
    return SPSH_OK;
}

spsh_status spsh_plan_report(const spsh_plan *plan, uint64_t epoch, uint32_t windows_max,
                             spsh_epoch_report *ret_report, spsh_domain_report *ret_domains,
                             spsh_error *err)
{
    const spsh_allocator *allocator = &plan->allocator;
    uint32_t windows_total = plan->info.window_count;
    spsh_epoch_report report = {.windows_total = windows_total};
    tally t = {.plan = plan, .report = &report};
    spsh__windows windows = {.plan = NULL};
    report.window_count =
        windows_max == 0 || windows_max > windows_total ? windows_total : windows_max;
    if (epoch >= plan->epoch_max)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "the epoch is out of range");
    spsh_status rc = spsh_result_check(ret_report, sizeof(report), err);
    if (rc != SPSH_OK)
        return rc;
    t.places =
        (uint64_t *)spsh__new(allocator, (size_t)spsh__window_items_max(plan), sizeof(*t.places));
    if (ret_domains != NULL)
        t.domains =
            (spsh_domain_report *)spsh__new(allocator, plan->domain_count, sizeof(*t.domains));
    if (t.places == NULL || (ret_domains != NULL && t.domains == NULL))
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "report");
    if (rc == SPSH_OK)
        rc = spsh__windows_open(&windows, plan, 1, err);
    if (rc == SPSH_OK)
        rc = count_windows(&t, &windows, epoch, err);
    if (rc == SPSH_OK) {
        bool is_as_chance = t.pairs_found <= t.pairs_expected;
        report.shuffle_quality = is_as_chance ? 1 : t.pairs_expected / t.pairs_found;
        report.read_amplification = t.record_bytes > 0 ? t.unit_bytes / t.record_bytes : 1;
        spsh_result_give(ret_report, &report, sizeof(report));
        if (ret_domains != NULL)
            memcpy(ret_domains, t.domains, plan->domain_count * sizeof(*t.domains));
    }
    spsh__windows_close(&windows);
    spsh__free(allocator, t.places);
    spsh__free(allocator, t.domains);
    return rc;
}
