/* plan_scan.c: scan the columns of the dataset indexes, in blocks of 65,536 rows, on all cores.
 *
 *     decide   one bit per row: does it pass?      rules for a single row and its original
 *     settle   copies and speakers                 rules for several rows, if requested
 *     build    sums and member lists by domain     counting sort inside the block
 *
 * If nothing has to be settled, each block is decided and built at once, while its columns are in
 * the cache. Otherwise there are two rounds over the blocks, and settling is between them. Workers
 * take blocks in any order and store results per block or in sums, so that their number and speed
 * do not change the result.
 *
 * Copies: the index gives for each copy the lowest position with the same samples, its original. A
 * copy whose original passes is excluded at once. The other copies are settled by sorting
 * (original, position).
 */
#include "plan_scan_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "permutation.h"
#include "plan_speakers.h"
#include "speechshard/cores.h"
#include "speechshard/limits.h"

enum { BLOCK = SPSH__MEMBERS_BLOCK, ID_SHOWN_BYTES = 120 };

typedef struct columns {
    const uint8_t *samples, *rates, *channels, *domains, *splits, *languages, *speakers,
        *duplicates, *text_bytes;
} columns;

/* ---- columns ---- */

static spsh_status column_of(const spsh_dataset *dataset, spsh_column column, uint64_t first,
                             uint64_t count, const uint8_t **ret_elements, spsh_error *err)
{
    spsh_bytes bytes = {NULL, 0};
    spsh_status rc = spsh_dataset_column(dataset, column, first, count, &bytes, err);
    *ret_elements = bytes.data;
    return rc;
}

static spsh_status columns_of(const spsh__index_scan *s, uint32_t dataset, uint64_t first,
                              uint64_t count, columns *ret_columns, spsh_error *err)
{
    const spsh__filter *f = &s->filters[dataset];
    const spsh_plan_options *opt = &s->plan->options;
    columns *c = ret_columns;
    *c = (columns){.samples = NULL};
    const struct {
        spsh_column column;
        bool wanted;
        const uint8_t **elements;
    } wanted[] = {
        {SPSH_COLUMN_SAMPLES,        true,                                    &c->samples   },
        {SPSH_COLUMN_SAMPLE_RATE_HZ, true,                                    &c->rates     },
        {SPSH_COLUMN_CHANNELS,       true,                                    &c->channels  },
        {SPSH_COLUMN_DOMAIN,         true,                                    &c->domains   },
        {SPSH_COLUMN_SPLIT,          f->splits != NULL,                       &c->splits    },
        {SPSH_COLUMN_LANGUAGE,       f->languages != NULL,                    &c->languages },
        {SPSH_COLUMN_SPEAKER,        opt->speaker_utterances_max != 0,        &c->speakers  },
        {SPSH_COLUMN_DUPLICATE_OF,   opt->duplicates == SPSH_DUPLICATES_ONCE, &c->duplicates},
        {SPSH_COLUMN_TEXT_BYTES,     opt->unit == SPSH_UNIT_TOKENS,           &c->text_bytes},
    };
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]) && rc == SPSH_OK; i++)
        if (wanted[i].wanted)
            rc = column_of(s->plan->datasets[dataset].dataset, wanted[i].column, first, count,
                           wanted[i].elements, err);
    return rc;
}

spsh_status spsh__plan_map(spsh_plan *plan, spsh_error *err)
{
    for (uint32_t i = 0; i < plan->dataset_count; i++) {
        spsh__plan_dataset *d = &plan->datasets[i];
        uint64_t granules = (d->count >> SPSH__GRANULE_SHIFT) + 1;
        spsh_status rc = SPSH_OK;
        d->granules =
            (spsh__granule *)spsh__new(&plan->allocator, (size_t)granules, sizeof(*d->granules));
        if (d->granules == NULL)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "plan of %" PRIu64 " rows", d->count);
        if (d->count == 0)
            continue;
        rc = column_of(d->dataset, SPSH_COLUMN_SAMPLES, 0, 1, &d->samples, err);
        if (rc == SPSH_OK)
            rc = column_of(d->dataset, SPSH_COLUMN_SAMPLE_RATE_HZ, 0, 1, &d->rates, err);
        if (rc == SPSH_OK)
            rc = column_of(d->dataset, SPSH_COLUMN_CHANNELS, 0, 1, &d->channels, err);
        if (rc == SPSH_OK && plan->options.unit == SPSH_UNIT_TOKENS)
            rc = column_of(d->dataset, SPSH_COLUMN_TEXT_BYTES, 0, 1, &d->text_bytes, err);
        if (rc != SPSH_OK)
            return rc;
    }
    return SPSH_OK;
}

spsh_status spsh__plan_check_granule(const spsh_plan *plan, uint32_t dataset, uint64_t position,
                                     spsh_error *err)
{
    const spsh__plan_dataset *d = &plan->datasets[dataset];
    uint64_t granule = position >> SPSH__GRANULE_SHIFT;
    uint64_t first = granule << SPSH__GRANULE_SHIFT;
    uint64_t count = d->count - first < UINT64_C(1) << SPSH__GRANULE_SHIFT
                         ? d->count - first
                         : UINT64_C(1) << SPSH__GRANULE_SHIFT;
    const uint8_t *elements = NULL;
    spsh_status rc = column_of(d->dataset, SPSH_COLUMN_SAMPLES, first, count, &elements, err);
    if (rc == SPSH_OK && d->rate_hz == 0)
        rc = column_of(d->dataset, SPSH_COLUMN_SAMPLE_RATE_HZ, first, count, &elements, err);
    if (rc == SPSH_OK && d->channel_count == 0)
        rc = column_of(d->dataset, SPSH_COLUMN_CHANNELS, first, count, &elements, err);
    if (rc == SPSH_OK && d->text_bytes != NULL)
        rc = column_of(d->dataset, SPSH_COLUMN_TEXT_BYTES, first, count, &elements, err);
    if (rc == SPSH_OK)
        atomic_store_explicit(&d->granules[granule].state, SPSH__GRANULE_CHECKED,
                              memory_order_release);
    return rc;
}

/* ---- deciding ---- */

typedef enum verdict {
    PASSES,
    SKIPPED,
    FILTERED,
    DURATION,
    TOO_LONG,
    DUPLICATE,
    BAD_VALUE,
} verdict;

static bool is_skipped(const spsh__filter *f, uint64_t position)
{
    uint64_t low = 0;
    uint64_t high = f->skipped_count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (f->skipped[middle] < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low < f->skipped_count && f->skipped[low] == position;
}

/* Does row i pass the table of names? */
static bool name_passes(const uint8_t *table, const uint8_t *column, uint64_t i, uint32_t names)
{
    return table == NULL || table[spsh__name_slot(spsh__load_u32le(column + 4 * i), names)] != 0;
}

static bool is_name(const uint8_t *column, uint64_t i, uint32_t names)
{
    uint32_t number = column == NULL ? SPSH_NONE_U32 : spsh__load_u32le(column + 4 * i);
    return number < names || number == SPSH_NONE_U32;
}

/* Apply the filters that depend only on the row. */
static verdict judge(const spsh__index_scan *s, const spsh__filter *f, const columns *c, uint64_t i,
                     uint64_t position)
{
    uint64_t samples = spsh__load_u64le(c->samples + 8 * i);
    uint32_t rate = spsh__load_u32le(c->rates + 4 * i);
    uint32_t channels = spsh__get_u16le(c->channels + 2 * i);
    if (samples > SPSH__SAMPLES_MAX || rate < SPSH_SAMPLE_RATE_HZ_MIN ||
        rate > SPSH_SAMPLE_RATE_HZ_MAX || channels - 1 >= SPSH_CHANNELS_MAX ||
        !is_name(c->domains, i, f->domain_names) || !is_name(c->splits, i, f->split_names) ||
        !is_name(c->languages, i, f->language_names) || !is_name(c->speakers, i, f->speaker_names))
        return BAD_VALUE;
    if (f->skipped_count > 0 && is_skipped(f, position))
        return SKIPPED;
    if (!name_passes(f->splits, c->splits, i, f->split_names) ||
        !name_passes(f->domains, c->domains, i, f->domain_names) ||
        !name_passes(f->languages, c->languages, i, f->language_names))
        return FILTERED;
    if (f->weights != NULL &&
        !(f->weights[spsh__name_slot(spsh__load_u32le(c->domains + 4 * i), f->domain_names)] > 0))
        return FILTERED;
    uint64_t ticks = spsh__ticks(samples, rate);
    if (ticks < s->ticks_min || ticks > s->ticks_max)
        return DURATION;
    return ticks > s->plan->caps.item_ticks ? TOO_LONG : PASSES;
}

static spsh_status keep_copy(const spsh__index_scan *s, spsh__scan_worker *w,
                             const spsh__scan_copy *kept, spsh_error *err)
{
    if (w->copy_count == w->copy_capacity) {
        uint64_t capacity = w->copy_capacity == 0 ? 1024 : 2 * w->copy_capacity;
        spsh__scan_copy *copies =
            (spsh__scan_copy *)spsh__new(&s->plan->allocator, (size_t)capacity, sizeof(*copies));
        if (copies == NULL)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%" PRIu64 " copies", capacity);
        if (w->copy_count > 0)
            memcpy(copies, w->copies, (size_t)w->copy_count * sizeof(*copies));
        spsh__free(&s->plan->allocator, w->copies);
        w->copies = copies;
        w->copy_capacity = capacity;
    }
    w->copies[w->copy_count++] = *kept;
    return SPSH_OK;
}

/* Judge a copy that passes by itself: its original decides, or later settle_copies. */
static spsh_status judge_copy(const spsh__index_scan *s, spsh__scan_worker *w,
                              const spsh__scan_copy *judged, verdict *ret_verdict, spsh_error *err)
{
    columns c;
    uint32_t dataset = judged->dataset;
    if (judged->original >= judged->position) {
        *ret_verdict = BAD_VALUE;
        return SPSH_OK;
    }
    spsh_status rc = columns_of(s, dataset, judged->original, 1, &c, err);
    if (rc != SPSH_OK)
        return rc;
    verdict of_original = judge(s, &s->filters[dataset], &c, 0, judged->original);
    bool is_split = s->plan->options.long_utterances == SPSH_LONG_SPLIT;
    if (of_original == PASSES || (of_original == TOO_LONG && is_split)) {
        *ret_verdict = DUPLICATE;
        return SPSH_OK;
    }
    return keep_copy(s, w, judged, err);
}

static void count_verdict(spsh__scan_worker *w, verdict v)
{
    switch (v) {
    case SKIPPED: w->info.skipped_count++; break;
    case FILTERED: w->info.filtered_count++; break;
    case DURATION: w->info.duration_count++; break;
    case TOO_LONG: w->info.too_long_count++; break;
    case DUPLICATE: w->info.duplicate_count++; break;
    case PASSES:
    case BAD_VALUE: break;
    }
}

/* Judge a row that is too long for a batch by the option long_utterances. row: its number over all
 * datasets. */
static verdict judge_long(const spsh__index_scan *s, spsh__scan_worker *w, const columns *c,
                          uint64_t i, uint64_t row)
{
    spsh_long_utterances rule = s->plan->options.long_utterances;
    if (rule == SPSH_LONG_SPLIT)
        return PASSES;
    if (rule == SPSH_LONG_ERROR && row < w->long_row) {
        w->long_row = row;
        w->long_ticks =
            spsh__ticks(spsh__load_u64le(c->samples + 8 * i), spsh__load_u32le(c->rates + 4 * i));
    }
    return TOO_LONG;
}

/* The rows of a block. */
typedef struct block_place {
    uint64_t block; /* number over all datasets */
    uint32_t dataset;
    uint32_t count;
    uint64_t first; /* position of its first row */
} block_place;

static spsh_status decide_block(const spsh__index_scan *s, spsh__scan_worker *w,
                                const block_place *at, const columns *c, uint64_t *passes,
                                spsh_error *err)
{
    const spsh__filter *f = &s->filters[at->dataset];
    memset(passes, 0, SPSH__SCAN_WORDS * sizeof(*passes));
    for (uint32_t i = 0; i < at->count; i++) {
        uint64_t position = at->first + i;
        verdict v = judge(s, f, c, i, position);
        if (v == TOO_LONG)
            v = judge_long(s, w, c, i, at->block * BLOCK + i);
        if (v == PASSES && c->duplicates != NULL) {
            const spsh__scan_copy judged = {spsh__load_u64le(c->duplicates + (size_t)8 * i),
                                            position, at->dataset};
            spsh_status rc = SPSH_OK;
            if (judged.original != SPSH_NONE_U64)
                rc = judge_copy(s, w, &judged, &v, err);
            if (rc != SPSH_OK)
                return rc;
        }
        if (v == BAD_VALUE)
            return SPSH_FAIL(err, SPSH_E_CORRUPT,
                             "%s: index: utterance %" PRIu64 " has a value out of range",
                             spsh_dataset_path(s->plan->datasets[at->dataset].dataset), position);
        count_verdict(w, v);
        passes[i / 64] |= (uint64_t)(v == PASSES) << (i % 64);
    }
    return SPSH_OK;
}

/* ---- building ---- */

static bool passes_row(const uint64_t *passes, uint32_t i)
{
    return (passes[i / 64] >> (i % 64) & 1) != 0;
}

/* Add the rows to the sums of their domains, and count the rows per domain in w->counts. Returns
 * the number of domains in the block. */
static uint32_t sum_block(const spsh__index_scan *s, spsh__scan_worker *w, const block_place *at,
                          const columns *c, const uint64_t *passes)
{
    const spsh_plan *plan = s->plan;
    spsh__scan_sum *sums = w->sums + s->datasets[at->dataset].first_domain;
    spsh__scan_range *range = &w->ranges[at->dataset];
    uint32_t names = s->filters[at->dataset].domain_names;
    uint32_t touched = 0;
    for (uint32_t i = 0; i < at->count; i++) {
        if (!passes_row(passes, i))
            continue;
        uint64_t samples = spsh__load_u64le(c->samples + (size_t)8 * i);
        uint32_t rate = spsh__load_u32le(c->rates + (size_t)4 * i);
        uint32_t channels = spsh__get_u16le(c->channels + (size_t)2 * i);
        uint32_t domain = spsh__name_slot(spsh__load_u32le(c->domains + (size_t)4 * i), names);
        uint64_t ticks = spsh__ticks(samples, rate);
        uint64_t item_ticks = ticks;
        spsh__scan_sum *sum = &sums[domain];
        if (w->counts[domain]++ == 0)
            w->touched[touched++] = domain;
        if (ticks > plan->caps.item_ticks) {
            uint64_t parts = spsh__part_count(samples, rate, plan->caps.item_ticks);
            item_ticks = parts == 0 ? UINT64_MAX : spsh__ticks((samples - 1) / parts + 1, rate);
            sum->extra_items += parts - 1;
            w->part_count_max = parts > w->part_count_max ? parts : w->part_count_max;
        }
        sum->count++;
        sum->ticks += ticks;
        sum->units += spsh__units(
            plan->options.unit, ticks,
            c->text_bytes == NULL ? 0 : spsh__load_u32le(c->text_bytes + (size_t)4 * i));
        spsh__scan_add(&w->info.microseconds, ticks);
        if (item_ticks > w->info.longest_microseconds)
            w->info.longest_microseconds = item_ticks;
        range->rate_min = rate < range->rate_min ? rate : range->rate_min;
        range->rate_max = rate > range->rate_max ? rate : range->rate_max;
        range->channels_min = channels < range->channels_min ? channels : range->channels_min;
        range->channels_max = channels > range->channels_max ? channels : range->channels_max;
    }
    return touched;
}

/* Write the offsets of the block's rows, grouped by domain. w->counts is the next index of each
 * domain. */
static void scatter(const spsh__index_scan *s, spsh__scan_worker *w, const block_place *at,
                    const columns *c, const uint64_t *passes, uint16_t *offsets)
{
    uint32_t names = s->filters[at->dataset].domain_names;
    for (uint32_t i = 0; i < at->count; i++)
        if (passes_row(passes, i)) {
            uint32_t domain = spsh__name_slot(spsh__load_u32le(c->domains + (size_t)4 * i), names);
            offsets[w->counts[domain]++] = (uint16_t)i;
        }
}

static spsh_status build_block(const spsh__index_scan *s, spsh__scan_worker *w,
                               const block_place *at, const columns *c, const uint64_t *passes,
                               spsh_error *err)
{
    const spsh_allocator *allocator = &s->plan->allocator;
    spsh__scan_block *result = &s->blocks[at->block];
    uint32_t touched = sum_block(s, w, at, c, passes);
    uint32_t total = 0;
    bool all_consecutive = true;
    if (touched == 0)
        return SPSH_OK;
    result->groups = (spsh__scan_group *)spsh__new(allocator, touched, sizeof(spsh__scan_group));
    result->group_count = touched;
    for (uint32_t g = 0; g < touched && result->groups != NULL; g++) {
        uint32_t domain = w->touched[g];
        result->groups[g] = (spsh__scan_group){domain, w->counts[domain], total, false};
        total += w->counts[domain];
        w->counts[domain] = result->groups[g].first;
    }
    result->offsets = (uint16_t *)spsh__new(allocator, total, sizeof(uint16_t));
    if (result->groups == NULL || result->offsets == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "member lists");
    scatter(s, w, at, c, passes, result->offsets);
    for (uint32_t g = 0; g < touched; g++) {
        spsh__scan_group *made = &result->groups[g];
        uint32_t first = result->offsets[made->first];
        uint32_t last = result->offsets[made->first + made->count - 1];
        made->is_consecutive = last - first + 1 == made->count;
        all_consecutive = all_consecutive && made->is_consecutive;
        made->first = made->is_consecutive ? first : made->first;
        w->counts[made->domain] = 0;
    }
    if (all_consecutive) {
        spsh__free(allocator, result->offsets);
        result->offsets = NULL;
    }
    return SPSH_OK;
}

static spsh_status report(const spsh__index_scan *s, const char *stage, uint64_t done,
                          uint64_t total, spsh_error *err)
{
    const spsh_plan_options *o = &s->plan->options;
    if (o->progress_fn == NULL || o->progress_fn(o->progress_user, stage, done, total) == 0)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_CANCELED, "the plan was canceled");
}

static spsh_status work_on_block(void *user, uint32_t number, uint64_t block, spsh_error *err)
{
    spsh__index_scan *s = (spsh__index_scan *)user;
    spsh__scan_worker *w = &s->workers[number];
    block_place at = {.block = block};
    columns c;
    while (block >= s->datasets[at.dataset].first_block + s->datasets[at.dataset].block_count)
        at.dataset++;
    const spsh__scan_dataset *d = &s->datasets[at.dataset];
    uint64_t count = s->plan->datasets[at.dataset].count;
    at.first = (block - d->first_block) * BLOCK;
    at.count = count - at.first < BLOCK ? (uint32_t)(count - at.first) : BLOCK;
    uint64_t *passes = d->passes == NULL ? w->passes : d->passes + at.first / 64;
    const char *stage = s->phase == SPSH__SCAN_BUILD ? "lists" : "scan";
    /* Only the calling thread reports, so that the caller's function needs no lock. */
    spsh_status rc = number == 0 ? report(s, stage, block, s->block_count, err) : SPSH_OK;
    if (rc == SPSH_OK)
        rc = columns_of(s, at.dataset, at.first, at.count, &c, err);
    if (rc == SPSH_OK && s->phase != SPSH__SCAN_BUILD)
        rc = decide_block(s, w, &at, &c, passes, err);
    if (rc == SPSH_OK && s->phase != SPSH__SCAN_DECIDE)
        rc = build_block(s, w, &at, &c, passes, err);
    return rc;
}

/* ---- settling ---- */

static int compare_copies(const void *a, const void *b)
{
    const spsh__scan_copy *x = (const spsh__scan_copy *)a;
    const spsh__scan_copy *y = (const spsh__scan_copy *)b;
    if (x->dataset != y->dataset)
        return x->dataset < y->dataset ? -1 : 1;
    if (x->original != y->original)
        return x->original < y->original ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

/* If an original does not pass, keep the first of its copies. */
static spsh_status settle_copies(spsh__index_scan *s, spsh_error *err)
{
    spsh__scan_worker *all = &s->workers[0];
    for (uint32_t i = 1; i < s->worker_count; i++)
        for (uint64_t n = 0; n < s->workers[i].copy_count; n++) {
            spsh_status rc = keep_copy(s, all, &s->workers[i].copies[n], err);
            if (rc != SPSH_OK)
                return rc;
        }
    if (all->copy_count > 1)
        qsort(all->copies, (size_t)all->copy_count, sizeof(spsh__scan_copy), compare_copies);
    for (uint64_t n = 1; n < all->copy_count; n++) {
        const spsh__scan_copy *c = &all->copies[n];
        if (c->dataset != c[-1].dataset || c->original != c[-1].original)
            continue;
        s->datasets[c->dataset].passes[c->position / 64] &= ~(UINT64_C(1) << (c->position % 64));
        all->info.duplicate_count++;
    }
    return SPSH_OK;
}

static spsh_status settle(spsh__index_scan *s, spsh_error *err)
{
    spsh_status rc = settle_copies(s, err);
    if (s->plan->options.speaker_utterances_max == 0)
        return rc;
    for (uint32_t d = 0; d < s->plan->dataset_count && rc == SPSH_OK; d++) {
        uint64_t left_out = 0;
        rc = report(s, "settle", d, s->plan->dataset_count, err);
        if (rc != SPSH_OK)
            break;
        rc = spsh__plan_cap_speakers(s->plan, d, s->filters[d].speaker_names, s->datasets[d].passes,
                                     &left_out, err);
        s->workers[0].info.speaker_count += left_out;
    }
    return rc;
}

/* ---- the scan ---- */

static spsh_status open_worker(const spsh__index_scan *s, spsh__scan_worker *w, spsh_error *err)
{
    const spsh_allocator *allocator = &s->plan->allocator;
    uint32_t names_max = 0;
    for (uint32_t d = 0; d < s->plan->dataset_count; d++)
        if (s->filters[d].domain_names > names_max)
            names_max = s->filters[d].domain_names;
    w->long_row = UINT64_MAX;
    w->sums = (spsh__scan_sum *)spsh__new(allocator, (size_t)s->domain_count, sizeof(*w->sums));
    w->ranges =
        (spsh__scan_range *)spsh__new(allocator, s->plan->dataset_count, sizeof(*w->ranges));
    w->counts = (uint32_t *)spsh__new(allocator, (size_t)names_max + 1, sizeof(uint32_t));
    w->touched = (uint32_t *)spsh__new(allocator, (size_t)names_max + 1, sizeof(uint32_t));
    if (w->sums == NULL || w->ranges == NULL || w->counts == NULL || w->touched == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "scan of %" PRIu64 " domains", s->domain_count);
    for (uint32_t d = 0; d < s->plan->dataset_count; d++)
        w->ranges[d] = (spsh__scan_range){UINT32_MAX, 0, UINT32_MAX, 0};
    return SPSH_OK;
}

static spsh_status open_scan(spsh__index_scan *s, spsh_error *err)
{
    const spsh_plan *plan = s->plan;
    const spsh_allocator *allocator = &plan->allocator;
    bool settles = plan->options.duplicates == SPSH_DUPLICATES_ONCE ||
                   plan->options.speaker_utterances_max != 0;
    s->phase = settles ? SPSH__SCAN_DECIDE : SPSH__SCAN_BOTH;
    s->datasets =
        (spsh__scan_dataset *)spsh__new(allocator, plan->dataset_count, sizeof(*s->datasets));
    s->workers = (spsh__scan_worker *)spsh__new(allocator, s->worker_count, sizeof(*s->workers));
    if (s->datasets == NULL || s->workers == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "scan");
    for (uint32_t d = 0; d < plan->dataset_count; d++) {
        spsh__scan_dataset *of = &s->datasets[d];
        of->first_block = s->block_count;
        of->first_domain = s->domain_count;
        of->block_count = (plan->datasets[d].count + BLOCK - 1) / BLOCK;
        s->block_count += of->block_count;
        s->domain_count += s->filters[d].domain_names + UINT64_C(1);
        if (!settles)
            continue;
        of->passes = (uint64_t *)spsh__new(allocator, (size_t)of->block_count,
                                           SPSH__SCAN_WORDS * sizeof(uint64_t));
        if (of->passes == NULL)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "scan");
    }
    s->blocks =
        (spsh__scan_block *)spsh__new(allocator, (size_t)s->block_count, sizeof(*s->blocks));
    if (s->blocks == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "scan");
    for (uint32_t i = 0; i < s->worker_count; i++) {
        spsh_status rc = open_worker(s, &s->workers[i], err);
        if (rc != SPSH_OK)
            return rc;
    }
    return SPSH_OK;
}

static void close_scan(spsh__index_scan *s)
{
    const spsh_allocator *allocator = &s->plan->allocator;
    for (uint32_t i = 0; i < s->worker_count && s->workers != NULL; i++) {
        spsh__free(allocator, s->workers[i].sums);
        spsh__free(allocator, s->workers[i].ranges);
        spsh__free(allocator, s->workers[i].counts);
        spsh__free(allocator, s->workers[i].touched);
        spsh__free(allocator, s->workers[i].copies);
    }
    for (uint64_t b = 0; b < s->block_count && s->blocks != NULL; b++) {
        spsh__free(allocator, s->blocks[b].groups);
        spsh__free(allocator, s->blocks[b].offsets);
    }
    for (uint32_t d = 0; d < s->plan->dataset_count && s->datasets != NULL; d++)
        spsh__free(allocator, s->datasets[d].passes);
    spsh__free(allocator, s->blocks);
    spsh__free(allocator, s->datasets);
    spsh__free(allocator, s->workers);
}

/* Format the id of an utterance for a message. The index has no ids, so read it from the shard. If
 * the shard is damaged, use the position. */
static void name_utterance(const spsh_dataset *dataset, uint64_t position, char *dst,
                           size_t capacity_bytes)
{
    spsh_reader *reader = NULL;
    spsh_utterance u;
    if (spsh_reader_open(dataset, &reader, NULL) == SPSH_OK &&
        spsh_reader_metadata(reader, position, &u, NULL) == SPSH_OK)
        (void)snprintf(dst, capacity_bytes, "'%.*s'", (int)u.id.size_bytes,
                       (const char *)u.id.data);
    else
        (void)snprintf(dst, capacity_bytes, "number %" PRIu64, position);
    spsh_reader_close(reader);
}

static spsh_status check_long(const spsh__index_scan *s, spsh_error *err)
{
    char name[ID_SHOWN_BYTES];
    const spsh_plan_options *o = &s->plan->options;
    uint64_t row = UINT64_MAX;
    uint64_t ticks = 0;
    uint32_t dataset = 0;
    for (uint32_t i = 0; i < s->worker_count; i++)
        if (s->workers[i].long_row < row) {
            row = s->workers[i].long_row;
            ticks = s->workers[i].long_ticks;
        }
    if (row == UINT64_MAX)
        return SPSH_OK;
    while (row / BLOCK >= s->datasets[dataset].first_block + s->datasets[dataset].block_count)
        dataset++;
    const uint64_t position = row - s->datasets[dataset].first_block * BLOCK;
    const bool is_sum = o->batch_seconds_max > 0 &&
                        spsh__ticks_of_seconds(o->batch_seconds_max) == s->plan->caps.item_ticks;
    const char *limit = is_sum ? "batch_seconds_max" : "batch_padded_seconds_max";
    name_utterance(s->plan->datasets[dataset].dataset, position, name, sizeof(name));
    return SPSH_FAIL(err, SPSH_E_LIMIT,
                     "%.150s: utterance %s lasts %.3f s, but %s is %.3f s; set long_utterances to "
                     "drop or split, raise %s, or exclude the utterance with utterance_seconds_max",
                     spsh_dataset_path(s->plan->datasets[dataset].dataset), name,
                     (double)ticks / 1e6, limit, (double)s->plan->caps.item_ticks / 1e6, limit);
}

static void mark_checked(spsh_plan *plan)
{
    for (uint32_t d = 0; d < plan->dataset_count; d++)
        for (uint64_t g = 0; g <= plan->datasets[d].count >> SPSH__GRANULE_SHIFT; g++)
            atomic_store_explicit(&plan->datasets[d].granules[g].state, SPSH__GRANULE_CHECKED,
                                  memory_order_relaxed);
}

spsh_status spsh__plan_scan(spsh_plan *plan, const spsh__filter *filters, uint32_t threads,
                            spsh_error *err)
{
    spsh__index_scan s = {.plan = plan, .filters = filters, .worker_count = threads};
    const spsh_plan_options *opt = &plan->options;
    s.ticks_min = spsh__ticks_of_seconds(opt->utterance_seconds_min);
    s.ticks_max = opt->utterance_seconds_max > 0
                      ? spsh__ticks_of_seconds(opt->utterance_seconds_max)
                      : UINT64_MAX;
    spsh_status rc = open_scan(&s, err);
    if (rc == SPSH_OK)
        rc = spsh_cores_run(threads, s.block_count, work_on_block, &s, err);
    if (rc == SPSH_OK)
        rc = check_long(&s, err);
    if (rc == SPSH_OK && s.phase == SPSH__SCAN_DECIDE) {
        rc = settle(&s, err);
        s.phase = SPSH__SCAN_BUILD;
        if (rc == SPSH_OK)
            rc = spsh_cores_run(threads, s.block_count, work_on_block, &s, err);
    }
    if (rc == SPSH_OK)
        rc = spsh__scan_results(&s, err);
    if (rc == SPSH_OK)
        mark_checked(plan);
    close_scan(&s);
    return rc;
}
