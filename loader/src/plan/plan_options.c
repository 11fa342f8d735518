/* plan_options.c: check options, compute shares and keys.
 *
 * Shares are computed once in floating point and converted to integers that sum to about 2^61.
 * After that, all arithmetic is exact. The key of the options covers these integers. So if pow()
 * rounds differently on another machine, a cursor is rejected instead of continuing in another
 * order.
 *
 * With proportional shares, an epoch serves each utterance once. Shares that count utterances are
 * rounded to integers per epoch (largest remainders, at least one), so that an epoch ends exactly
 * where the next one begins. Otherwise, draws from a domain with mean length m and share w are
 * expected in proportion to w / m. That is item_weight, which gives the beginning of each epoch.
 */
#include "plan_options.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <xxhash.h>

#include "speechshard/limits.h"
#include "speechshard/options.h"

#define SECONDS_MAX   1e9
#define ALPHA_MAX     16.0
#define SHARE_SCALE   2305843009213693952.0 /* 2^61 */
#define SUM_BITS      62
#define WORLD_MAX     (UINT32_C(1) << 24)
#define KNOWN_FLAGS   (SPSH_PLAN_IN_ORDER | SPSH_PLAN_DROP_LAST | SPSH_PLAN_BY_CHANNELS)
#define ORDER_FLAGS   (SPSH_PLAN_IN_ORDER | SPSH_PLAN_BY_CHANNELS)
#define PLAN_REVISION 1 /* version of the order; a new one invalidates older cursors and caches */

/* ---- checks ---- */

static spsh_status check_lists(const spsh_plan_options *o, spsh_error *err)
{
    const char *missing = o->weight_count > 0 && o->weights == NULL       ? "weights"
                          : o->split_count > 0 && o->splits == NULL       ? "splits"
                          : o->domain_count > 0 && o->domains == NULL     ? "domains"
                          : o->language_count > 0 && o->languages == NULL ? "languages"
                                                                          : NULL;
    if (missing != NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s is NULL, but its count is not 0", missing);
    return SPSH_OK;
}

static spsh_status check_seconds(const spsh_plan_options *o, spsh_error *err)
{
    const struct {
        const char *name;
        double value;
        bool is_bound;
    } fields[] = {
        {"utterance_seconds_min",    o->utterance_seconds_min,    false},
        {"utterance_seconds_max",    o->utterance_seconds_max,    true },
        {"batch_seconds_max",        o->batch_seconds_max,        true },
        {"batch_padded_seconds_max", o->batch_padded_seconds_max, true },
    };
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        double value = fields[i].value;
        /* Negated, so that not-a-number fails, too. */
        if (!(value >= 0 && value <= SECONDS_MAX))
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s is %g, must be 0 to %g seconds",
                             fields[i].name, value, SECONDS_MAX);
        if (fields[i].is_bound && value > 0 && spsh__ticks_of_seconds(value) == 0)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                             "%s is %g, must be 0 or at least a microsecond", fields[i].name,
                             value);
    }
    if (o->utterance_seconds_max > 0 && o->utterance_seconds_min > o->utterance_seconds_max)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "utterance_seconds_min is %g, more than utterance_seconds_max, %g",
                         o->utterance_seconds_min, o->utterance_seconds_max);
    return SPSH_OK;
}

static spsh_status check_choices(const spsh_plan_options *o, spsh_error *err)
{
    const struct {
        const char *name;
        uint64_t value, most;
    } fields[] = {
        {"unit",               (uint64_t)o->unit,            SPSH_UNIT_TOKENS    },
        {"duplicates",         (uint64_t)o->duplicates,      SPSH_DUPLICATES_ONCE},
        {"long_utterances",    (uint64_t)o->long_utterances, SPSH_LONG_SPLIT     },
        {"window_utterances",  o->window_utterances,         SPSH_PLAN_WINDOW_MAX},
        {"virtual_world_size", o->virtual_world_size,        WORLD_MAX           },
    };
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (fields[i].value > fields[i].most)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s is %" PRIu64 ", must be at most %" PRIu64,
                             fields[i].name, fields[i].value, fields[i].most);
    if ((o->flags & ~KNOWN_FLAGS) != 0)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "flags are %#x, but only %#x are known", o->flags,
                         KNOWN_FLAGS);
    if (!(o->alpha >= 0 && o->alpha <= ALPHA_MAX))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "alpha is %g, must be 0 to %g", o->alpha,
                         ALPHA_MAX);
    if (o->sample_rate_hz != 0 && (o->sample_rate_hz < SPSH_SAMPLE_RATE_HZ_MIN ||
                                   o->sample_rate_hz > SPSH_SAMPLE_RATE_HZ_MAX))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "sample_rate_hz is %u, must be %u to %u",
                         o->sample_rate_hz, SPSH_SAMPLE_RATE_HZ_MIN, SPSH_SAMPLE_RATE_HZ_MAX);
    return SPSH_OK;
}

static void set_defaults(spsh_plan_options *o)
{
    if (o->allocator == NULL)
        o->allocator = spsh_allocator_default();
    if (o->batch_utterances_max == 0 && !(o->batch_seconds_max > 0) &&
        !(o->batch_padded_seconds_max > 0))
        o->batch_seconds_max = SPSH_BATCH_SECONDS_DEFAULT;
    if (o->window_utterances == 0)
        o->window_utterances = SPSH_PLAN_WINDOW_DEFAULT;
}

spsh_status spsh__plan_take_options(const spsh_plan_options *options,
                                    spsh_plan_options *ret_options, spsh_error *err)
{
    spsh_plan_options o = SPSH_PLAN_OPTIONS_INIT;
    spsh_status rc = spsh_options_take(options, &o, sizeof(o), err);
    if (rc == SPSH_OK)
        rc = check_lists(&o, err);
    if (rc == SPSH_OK)
        rc = check_seconds(&o, err);
    if (rc == SPSH_OK)
        rc = check_choices(&o, err);
    if (rc != SPSH_OK)
        return rc;
    set_defaults(&o);
    *ret_options = o;
    return SPSH_OK;
}

spsh__caps spsh__plan_caps(const spsh_plan_options *options)
{
    spsh__caps caps = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    if (options->batch_utterances_max != 0)
        caps.utterances = options->batch_utterances_max;
    if (options->batch_seconds_max > 0)
        caps.ticks = spsh__ticks_of_seconds(options->batch_seconds_max);
    if (options->batch_padded_seconds_max > 0)
        caps.padded_ticks = spsh__ticks_of_seconds(options->batch_padded_seconds_max);
    caps.item_ticks = caps.ticks < caps.padded_ticks ? caps.ticks : caps.padded_ticks;
    return caps;
}

/* ---- keys ---- */

typedef struct hash {
    uint64_t value;
} hash;

/* Hash the data with a seed from the previous value: for small inputs, without allocated state. */
static void mix(hash *h, const void *data, size_t size_bytes)
{
    h->value = XXH3_64bits_withSeed(data, size_bytes, h->value + size_bytes);
}

static void mix_u64(hash *h, uint64_t value)
{
    uint8_t bytes[8];
    spsh__store_u64le(bytes, value);
    mix(h, bytes, sizeof(bytes));
}

static void mix_table(hash *h, const uint8_t *table, uint32_t names)
{
    mix_u64(h, table != NULL);
    if (table != NULL)
        mix(h, table, (size_t)names + 1);
}

void spsh__plan_scan_keys(spsh_plan *plan, const spsh__filter *filters)
{
    const spsh_plan_options *o = &plan->options;
    hash datasets = {1};
    hash skips = {2};
    hash options = {3};
    for (uint32_t d = 0; d < plan->dataset_count; d++) {
        const spsh__filter *f = &filters[d];
        const spsh_dataset_info *info = spsh_dataset_info_get(plan->datasets[d].dataset);
        mix(&datasets, info->index_hash, sizeof(info->index_hash));
        mix_u64(&datasets, info->utterance_count);
        mix_u64(&skips, f->skipped_count);
        for (uint64_t i = 0; i < f->skipped_count; i++)
            mix_u64(&skips, f->skipped[i]);
        mix_table(&options, f->domains, f->domain_names);
        mix_table(&options, f->splits, f->split_names);
        mix_table(&options, f->languages, f->language_names);
        for (uint32_t i = 0; f->weights != NULL && i <= f->domain_names; i++)
            mix_u64(&options, f->weights[i] > 0);
    }
    const uint64_t values[] = {PLAN_REVISION,
                               (uint64_t)o->unit,
                               spsh__ticks_of_seconds(o->utterance_seconds_min),
                               spsh__ticks_of_seconds(o->utterance_seconds_max),
                               o->speaker_utterances_max,
                               o->speaker_utterances_max == 0 ? 0 : o->seed,
                               (uint64_t)o->duplicates,
                               (uint64_t)o->long_utterances,
                               plan->caps.item_ticks};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        mix_u64(&options, values[i]);
    plan->dataset_key = datasets.value;
    plan->skips_key = skips.value;
    plan->scan_key = options.value;
}

static void make_options_key(spsh_plan *plan)
{
    const spsh_plan_options *o = &plan->options;
    hash options = {plan->scan_key};
    const uint64_t values[] = {(uint64_t)plan->epoch_rule,  plan->domain_count,
                               plan->caps.utterances,       plan->caps.ticks,
                               plan->caps.padded_ticks,     o->window_utterances,
                               o->shuffle_block_utterances, o->sample_rate_hz,
                               o->flags & ORDER_FLAGS};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        mix_u64(&options, values[i]);
    for (uint32_t d = 0; d < plan->domain_count; d++) {
        mix_u64(&options, plan->domains[d].weight);
        mix_u64(&options, plan->domains[d].item_weight);
    }
    plan->options_key = options.value;
}

/* ---- shares ---- */

static double share_of(const spsh_plan *plan, const spsh__filter *filters, uint32_t domain,
                       uint64_t units_max)
{
    const spsh__plan_domain *d = &plan->domains[domain];
    const spsh__filter *f = &filters[d->dataset];
    if (f->has_whole_weight)
        return f->weights[0] * (double)d->units / (double)plan->datasets[d->dataset].units;
    if (f->weights != NULL)
        return f->weights[spsh__name_slot(d->name, f->domain_names)];
    return pow((double)d->units / (double)units_max, plan->options.alpha);
}

static void set_weights(spsh_plan *plan, const spsh__filter *filters)
{
    uint64_t units_max = 0;
    double largest = 0;
    double sum = 0;
    for (uint32_t d = 0; d < plan->domain_count; d++) {
        plan->datasets[plan->domains[d].dataset].units += plan->domains[d].units;
        if (plan->domains[d].units > units_max)
            units_max = plan->domains[d].units;
    }
    for (uint32_t d = 0; d < plan->domain_count; d++) {
        double share = share_of(plan, filters, d, units_max);
        largest = share > largest ? share : largest;
    }
    for (uint32_t d = 0; d < plan->domain_count; d++)
        sum += share_of(plan, filters, d, units_max) / largest;
    for (uint32_t d = 0; d < plan->domain_count; d++) {
        double share = share_of(plan, filters, d, units_max) / largest / sum;
        uint64_t weight = (uint64_t)(share * SHARE_SCALE);
        plan->domains[d].weight = weight == 0 ? 1 : weight;
    }
}

/* Set item_weight to weight * count / units of each domain, scaled to a sum below 2^62. */
static void set_item_weights(spsh_plan *plan)
{
    spsh__u128 sum = 0;
    unsigned down = 0;
    for (uint32_t d = 0; d < plan->domain_count; d++) {
        const spsh__plan_domain *of = &plan->domains[d];
        sum += ((spsh__u128)of->weight * of->count << 20) / of->units + 1;
    }
    while (sum >> down >= (spsh__u128)1 << (SUM_BITS - 1))
        down++;
    for (uint32_t d = 0; d < plan->domain_count; d++) {
        spsh__plan_domain *of = &plan->domains[d];
        uint64_t weight =
            (uint64_t)(((spsh__u128)of->weight * of->count << 20) / of->units >> down);
        of->item_weight = weight == 0 ? 1 : weight;
    }
}

typedef struct rest_share {
    spsh__u128 rest;
    uint32_t domain;
} rest_share;

static int compare_remainders(const void *a, const void *b)
{
    const rest_share *x = (const rest_share *)a;
    const rest_share *y = (const rest_share *)b;
    if (x->rest != y->rest)
        return x->rest > y->rest ? -1 : 1;
    return x->domain < y->domain ? -1 : 1;
}

/* Give one utterance to each domain whose share of *left is less than one. Updates *left and
 * *weights to the utterances and weights of the other domains. */
static void give_ones(spsh_plan *plan, uint64_t *left, spsh__u128 *weights)
{
    bool again = true;
    while (again) {
        again = false;
        for (uint32_t d = 0; d < plan->domain_count; d++) {
            spsh__plan_domain *of = &plan->domains[d];
            if (of->item_weight != 0 || (spsh__u128)of->weight * *left >= *weights)
                continue;
            of->item_weight = 1;
            *left -= 1;
            *weights -= of->weight;
            again = true;
        }
    }
}

/* Convert weights to numbers of utterances per epoch. */
static spsh_status count_epoch(spsh_plan *plan, spsh_error *err)
{
    uint64_t left = plan->info.utterance_count;
    spsh__u128 weights = 0;
    uint32_t others = 0;
    rest_share *rests =
        (rest_share *)spsh__new(&plan->allocator, plan->domain_count, sizeof(*rests));
    if (rests == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "shares of %u domains", plan->domain_count);
    for (uint32_t d = 0; d < plan->domain_count; d++)
        weights += plan->domains[d].weight;
    give_ones(plan, &left, &weights);
    uint64_t undealt = left;
    for (uint32_t d = 0; d < plan->domain_count; d++) {
        spsh__plan_domain *of = &plan->domains[d];
        if (of->item_weight != 0)
            continue;
        of->item_weight = (uint64_t)((spsh__u128)of->weight * left / weights);
        undealt -= of->item_weight;
        rests[others++] = (rest_share){(spsh__u128)of->weight * left % weights, d};
    }
    qsort(rests, others, sizeof(*rests), compare_remainders);
    for (uint64_t i = 0; i < undealt; i++)
        plan->domains[rests[i].domain].item_weight++;
    for (uint32_t d = 0; d < plan->domain_count; d++)
        plan->domains[d].weight = plan->domains[d].item_weight;
    spsh__free(&plan->allocator, rests);
    return SPSH_OK;
}

spsh_status spsh__plan_shares(spsh_plan *plan, const spsh__filter *filters, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    bool is_proportional =
        plan->domain_count == 1 ||
        (plan->options.weight_count == 0 && !(plan->options.alpha < 1 || plan->options.alpha > 1));
    if (is_proportional) {
        plan->epoch_rule = SPSH__EPOCH_ALL;
        for (uint32_t d = 0; d < plan->domain_count; d++) {
            plan->domains[d].weight = plan->domains[d].units;
            plan->domains[d].item_weight = plan->domains[d].count;
        }
    } else {
        plan->epoch_rule =
            plan->options.unit == SPSH_UNIT_UTTERANCES ? SPSH__EPOCH_COUNTED : SPSH__EPOCH_OPEN;
        set_weights(plan, filters);
        if (plan->epoch_rule == SPSH__EPOCH_OPEN)
            set_item_weights(plan);
        else
            rc = count_epoch(plan, err);
    }
    if (rc != SPSH_OK)
        return rc;
    for (uint32_t d = 0; d < plan->domain_count; d++) {
        plan->weight_sum += plan->domains[d].weight;
        plan->item_weight_sum += plan->domains[d].item_weight;
    }
    /* Products of a sum of weights and a sum of units must fit into 128 bits. */
    if (plan->info.microseconds >> SUM_BITS != 0 || plan->info.utterance_count >> 36 != 0)
        return SPSH_FAIL(err, SPSH_E_LIMIT,
                         "%" PRIu64 " utterances with %" PRIu64
                         " microseconds exceed the limits of a plan",
                         plan->info.utterance_count, plan->info.microseconds);
    plan->epoch_max = (UINT64_C(1) << (SUM_BITS - 1)) / plan->info.utterance_count - 1;
    make_options_key(plan);
    return SPSH_OK;
}
