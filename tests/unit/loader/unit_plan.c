/* unit_plan.c: a plan serves every utterance once and keeps the batch limits. Also filters and
 * rejected options. */
#include <locale.h>
#include <math.h>
#include <pthread.h>

#include "fault_alloc.h"
#include "plan/plan_states.h"
#include "plan_kit.h"

static uint64_t seed;

typedef struct tally {
    uint32_t *served; /* by position */
    uint64_t batches, items;
} tally;

static void check_batch(const plan_kit *kit, const spsh_plan_options *opt,
                        const spsh_planned_batch *b)
{
    uint64_t sum = 0;
    uint64_t longest = 0;
    CHECK(b->item_count > 0);
    for (uint32_t i = 0; i < b->item_count; i++) {
        const spsh_item *item = &b->items[i];
        const index_row *row = &kit->rows[item->position];
        uint64_t rate = row->sample_rate_hz == 0 ? 16000 : row->sample_rate_hz;
        sum += item->microseconds;
        longest = item->microseconds > longest ? item->microseconds : longest;
        CHECK_U64(item->sample_rate_hz, rate);
        CHECK_U64(item->microseconds, (item->samples * 1000000 + rate - 1) / rate);
        CHECK(item->start_sample + item->samples <= row->samples);
        if (opt->sample_rate_hz == 0)
            CHECK_U64(item->sample_rate_hz, b->items[0].sample_rate_hz);
        for (uint32_t j = 0; j < i; j++)
            CHECK(b->items[j].position != item->position || b->items[j].part != item->part);
    }
    CHECK_U64(b->microseconds, sum);
    CHECK_U64(b->padded_microseconds, longest * b->item_count);
    if (opt->batch_utterances_max != 0)
        CHECK(b->item_count <= opt->batch_utterances_max);
    if (opt->batch_seconds_max > 0)
        CHECK((double)sum <= opt->batch_seconds_max * 1e6);
    if (opt->batch_padded_seconds_max > 0)
        CHECK((double)b->padded_microseconds <= opt->batch_padded_seconds_max * 1e6);
}

/* Go through the next epoch on one rank. */
static tally go_through(const plan_kit *kit, const spsh_plan_options *opt, spsh_sampler *sampler)
{
    tally t = {(uint32_t *)calloc((size_t)kit->count, sizeof(uint32_t)), 0, 0};
    spsh_planned_batch batch = SPSH_PLANNED_BATCH_INIT;
    spsh_status rc = SPSH_OK;
    REQUIRE(t.served != NULL);
    while ((rc = spsh_sampler_next(sampler, &batch, NULL)) == SPSH_OK) {
        check_batch(kit, opt, &batch);
        CHECK_U64(batch.number, t.batches);
        t.batches++;
        t.items += batch.item_count;
        for (uint32_t i = 0; i < batch.item_count; i++)
            t.served[batch.items[i].position]++;
    }
    CHECK_I64(rc, SPSH_E_END);
    return t;
}

static void check_once(const plan_kit *kit, const spsh_plan_options *opt, uint32_t epochs)
{
    spsh_plan *plan = plan_kit_plan(kit, opt);
    spsh_sampler *sampler = plan_kit_sampler(plan, 0, 1);
    for (uint32_t epoch = 0; epoch < epochs; epoch++) {
        uint64_t batches = 0;
        CHECK_U64(spsh_sampler_tell(sampler).epoch, epoch);
        tally t = go_through(kit, opt, sampler);
        for (uint64_t p = 0; p < kit->count; p++)
            CHECK_U64(t.served[p], 1);
        CHECK(spsh_plan_batch_count(plan, epoch, &batches, NULL) == SPSH_OK);
        CHECK_U64(batches, t.batches);
        free(t.served);
    }
    CHECK_U64(spsh_plan_info_get(plan)->utterance_count, kit->count);
    spsh_sampler_close(sampler);
    spsh_plan_close(plan);
}

static void test_each_once(void)
{
    for (uint32_t domains = 1; domains <= 7; domains += 3) {
        plan_kit kit = {.dataset = NULL};
        spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
        plan_kit_fill(&kit, 3001, domains, seed);
        plan_kit_open(&kit, 1);
        check_once(&kit, &opt, 3);
        opt.window_utterances = 500;
        opt.batch_padded_seconds_max = 100;
        for (uint32_t unit = 0; unit < 3; unit++) {
            opt.unit = (spsh_unit)unit;
            check_once(&kit, &opt, 2);
        }
        opt.batch_utterances_max = 7;
        opt.shuffle_block_utterances = 32;
        check_once(&kit, &opt, 2);
        opt.flags = SPSH_PLAN_IN_ORDER;
        check_once(&kit, &opt, 2);
        plan_kit_close(&kit);
    }
}

/* ---- filters, compared with a second implementation ---- */

static uint64_t ticks_of(const index_row *row)
{
    uint64_t rate = row->sample_rate_hz == 0 ? 16000 : row->sample_rate_hz;
    return (row->samples * 1000000 + rate - 1) / rate;
}

/* "domain3" is 3; an empty name is 0. */
static bool is_listed(const char *const *names, uint32_t count, uint32_t number)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *digits = names[i] + strcspn(names[i], "0123456789");
        if ((uint32_t)strtoul(digits, NULL, 10) == number)
            return true;
    }
    return count == 0;
}

static bool row_passes(const spsh_plan_options *opt, const index_row *row)
{
    double seconds = (double)ticks_of(row) / 1e6;
    return is_listed(opt->splits, opt->split_count, row->split) &&
           is_listed(opt->domains, opt->domain_count, row->domain) &&
           is_listed(opt->languages, opt->language_count, row->language) &&
           seconds >= opt->utterance_seconds_min &&
           (opt->utterance_seconds_max <= 0 || seconds <= opt->utterance_seconds_max) &&
           (opt->long_utterances != SPSH_LONG_DROP || seconds <= opt->batch_seconds_max);
}

/* want[p]: whether utterance p is served. */
static bool *wanted(const plan_kit *kit, const spsh_plan_options *opt)
{
    bool *want = (bool *)calloc((size_t)kit->count, sizeof(bool));
    bool *taken = (bool *)calloc((size_t)kit->count, sizeof(bool)); /* indexed by original */
    REQUIRE(want != NULL && taken != NULL);
    for (uint64_t p = 0; p < kit->count; p++) {
        uint64_t original = kit->rows[p].copy_of == 0 ? p : kit->rows[p].copy_of - 1;
        want[p] = row_passes(opt, &kit->rows[p]);
        if (opt->duplicates == SPSH_DUPLICATES_ONCE && want[p]) {
            want[p] = !taken[original];
            taken[original] = true;
        }
    }
    free(taken);
    return want;
}

static void check_filters(const plan_kit *kit, const spsh_plan_options *opt)
{
    bool *want = wanted(kit, opt);
    spsh_plan *plan = plan_kit_plan(kit, opt);
    spsh_sampler *sampler = plan_kit_sampler(plan, 0, 1);
    const spsh_plan_info *info = spsh_plan_info_get(plan);
    tally t = go_through(kit, opt, sampler);
    uint64_t count = 0;
    uint64_t microseconds = 0;
    for (uint64_t p = 0; p < kit->count; p++) {
        CHECK_U64(t.served[p], want[p]);
        count += want[p];
        microseconds += want[p] ? ticks_of(&kit->rows[p]) : 0;
    }
    CHECK_U64(info->utterance_count, count);
    CHECK_U64(info->microseconds, microseconds);
    CHECK_U64(count + info->skipped_count + info->filtered_count + info->duration_count +
                  info->duplicate_count + info->too_long_count + info->speaker_count,
              kit->count);
    free(t.served);
    free(want);
    spsh_sampler_close(sampler);
    spsh_plan_close(plan);
}

static void test_filters(void)
{
    static const char *const splits[] = {"split1", "split3"};
    static const char *const domains[] = {"domain2", "domain4", "domain3"};
    static const char *const none[] = {""};
    plan_kit kit = {.dataset = NULL};
    uint64_t random = seed;
    plan_kit_fill(&kit, 4000, 5, seed);
    for (uint64_t p = 1; p < kit.count; p++) {
        uint64_t original = test_random(&random) % p;
        if (p % 3 == 0 && kit.rows[original].copy_of == 0) {
            kit.rows[p].copy_of = original + 1;
            kit.rows[p].samples = kit.rows[original].samples;
        }
    }
    plan_kit_open(&kit, 1);
    for (uint32_t mask = 0; mask < 64; mask++) {
        spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
        opt.batch_seconds_max = 18;
        opt.long_utterances = SPSH_LONG_DROP;
        opt.splits = splits;
        opt.split_count = (mask & 1) != 0 ? 2 : 0;
        opt.domains = domains;
        opt.domain_count = (mask & 2) != 0 ? 3 : 0;
        opt.languages = none;
        opt.language_count = (mask & 4) != 0 ? 1 : 0;
        opt.utterance_seconds_min = (mask & 8) != 0 ? 3.5 : 0;
        opt.utterance_seconds_max = (mask & 16) != 0 ? 15.25 : 0;
        opt.duplicates = (mask & 32) != 0 ? SPSH_DUPLICATES_ONCE : SPSH_DUPLICATES_ALL;
        check_filters(&kit, &opt);
    }
    plan_kit_close(&kit);
}

static void test_speaker_cap(void)
{
    plan_kit kit = {.dataset = NULL};
    plan_kit_fill(&kit, 5000, 3, seed + 1);
    for (uint64_t p = 0; p < kit.count; p += 2)
        kit.rows[p].speaker = 7; /* a speaker with most of the data */
    plan_kit_open(&kit, 1);
    for (uint32_t most = 1; most < 200; most = most * 3 + 1) {
        uint32_t counts[60] = {0};
        uint32_t served[60] = {0};
        uint64_t left_out = 0;
        spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
        opt.speaker_utterances_max = most;
        opt.seed = most;
        spsh_plan *plan = plan_kit_plan(&kit, &opt);
        spsh_sampler *sampler = plan_kit_sampler(plan, 0, 1);
        tally t = go_through(&kit, &opt, sampler);
        for (uint64_t p = 0; p < kit.count; p++) {
            counts[kit.rows[p].speaker]++;
            served[kit.rows[p].speaker] += t.served[p];
            CHECK(t.served[p] <= 1);
        }
        CHECK_U64(served[0], counts[0]); /* utterances without a speaker */
        for (uint32_t s = 1; s < 60; s++) {
            CHECK_U64(served[s], counts[s] < most ? counts[s] : most);
            left_out += counts[s] - served[s];
        }
        CHECK_U64(spsh_plan_info_get(plan)->speaker_count, left_out);
        free(t.served);
        spsh_sampler_close(sampler);
        spsh_plan_close(plan);
    }
    plan_kit_close(&kit);
}

/* ---- lengths ---- */

static void test_rates_do_not_mix(void)
{
    static const uint32_t rates[] = {8000, 16000, 22050, 44100, 48000};
    plan_kit kit = {.dataset = NULL};
    spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
    plan_kit_fill(&kit, 2000, 2, seed + 2);
    for (uint64_t p = 0; p < kit.count; p++) {
        kit.rows[p].sample_rate_hz = rates[p % 5];
        kit.rows[p].channels = p % 7 == 0 ? 2 : 1;
    }
    plan_kit_open(&kit, 1);
    check_once(&kit, &opt, 1);
    opt.flags = SPSH_PLAN_BY_CHANNELS;
    spsh_plan *plan = plan_kit_plan(&kit, &opt);
    spsh_sampler *sampler = plan_kit_sampler(plan, 0, 1);
    spsh_planned_batch batch = SPSH_PLANNED_BATCH_INIT;
    while (spsh_sampler_next(sampler, &batch, NULL) == SPSH_OK)
        for (uint32_t i = 0; i < batch.item_count; i++)
            CHECK_U64(kit.rows[batch.items[i].position].channels,
                      kit.rows[batch.items[0].position].channels);
    CHECK_U64(spsh_plan_info_get(plan)->sample_rate_hz_max, 48000);
    CHECK_U64(spsh_plan_info_get(plan)->channels_max, 2);
    spsh_sampler_close(sampler);
    spsh_plan_close(plan);
    opt.flags = SPSH_PLAN_IN_ORDER;
    check_once(&kit, &opt, 1);
    opt.flags = 0;
    opt.sample_rate_hz = 24000;
    check_once(&kit, &opt, 1);
    plan_kit_close(&kit);
}

/* The parts of an utterance follow each other and cover it. */
static void test_split(void)
{
    plan_kit kit = {.dataset = NULL};
    spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
    plan_kit_fill(&kit, 1500, 3, seed + 3);
    kit.rows[77].samples = 16000 * 3600;
    kit.rows[78].samples = 0;
    kit.rows[79].samples = 1;
    plan_kit_open(&kit, 1);
    opt.batch_seconds_max = 3.3333;
    opt.batch_utterances_max = 2;
    opt.long_utterances = SPSH_LONG_SPLIT;
    opt.window_utterances = 400;
    for (uint32_t order = 0; order < 2; order++) {
        uint64_t *samples = (uint64_t *)calloc((size_t)kit.count, sizeof(uint64_t));
        uint32_t *parts = (uint32_t *)calloc((size_t)kit.count, sizeof(uint32_t));
        spsh_planned_batch batch = SPSH_PLANNED_BATCH_INIT;
        opt.flags = order == 0 ? 0 : SPSH_PLAN_IN_ORDER;
        spsh_plan *plan = plan_kit_plan(&kit, &opt);
        spsh_sampler *sampler = plan_kit_sampler(plan, 0, 1);
        while (spsh_sampler_next(sampler, &batch, NULL) == SPSH_OK) {
            check_batch(&kit, &opt, &batch);
            for (uint32_t i = 0; i < batch.item_count; i++) {
                const spsh_item *item = &batch.items[i];
                CHECK(item->part < item->part_count);
                CHECK(item->microseconds <= spsh_plan_info_get(plan)->longest_microseconds);
                samples[item->position] += item->samples;
                parts[item->position]++;
                CHECK_U64(item->start_sample,
                          kit.rows[item->position].samples * item->part / item->part_count);
            }
        }
        for (uint64_t p = 0; p < kit.count; p++) {
            CHECK_U64(samples[p], kit.rows[p].samples);
            CHECK_U64(parts[p], p == 78 ? 1 : (ticks_of(&kit.rows[p]) + 3333299) / 3333300);
        }
        CHECK(spsh_plan_info_get(plan)->longest_microseconds <= 3333300);
        free(samples);
        free(parts);
        spsh_sampler_close(sampler);
        spsh_plan_close(plan);
    }
    plan_kit_close(&kit);
}

/* ---- shares ---- */

/* A domain of one utterance gets half of the seconds, and is never twice in a batch. */
static void test_domain_of_one(void)
{
    for (uint32_t unit = 0; unit < 3; unit++) {
        plan_kit kit = {.dataset = NULL};
        spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
        spsh_domain_report domains[2];
        spsh_epoch_report report = SPSH_EPOCH_REPORT_INIT;
        plan_kit_fill(&kit, 2000, 1, seed + 4);
        kit.rows[5] = (index_row){.samples = 100000, .domain = 2, .text_bytes = 50};
        plan_kit_open(&kit, 1);
        opt.alpha = 0;
        opt.unit = (spsh_unit)unit;
        opt.window_utterances = 300;
        for (uint32_t order = 0; order < 2; order++) {
            uint64_t items[2] = {0, 0};
            opt.flags = order == 0 ? 0 : SPSH_PLAN_IN_ORDER;
            spsh_plan *plan = plan_kit_plan(&kit, &opt);
            spsh_sampler *sampler = plan_kit_sampler(plan, 0, 1);
            for (uint32_t epoch = 0; epoch < 2; epoch++) {
                tally t = go_through(&kit, &opt, sampler);
                CHECK_U64(t.items, kit.count);
                items[1] += t.served[5];
                items[0] += t.items - t.served[5];
                free(t.served);
            }
            CHECK(spsh_plan_report(plan, 1, 0, &report, domains, NULL) == SPSH_OK);
            CHECK_U64(report.item_count, kit.count);
            CHECK_U64(domains[0].item_count + domains[1].item_count, kit.count);
            CHECK(domains[1].passes > 100);
            /* Within one utterance of 20 s or 200 bytes, because the epoch ends at an utterance. */
            uint64_t off = domains[0].units > domains[1].units
                               ? domains[0].units - domains[1].units
                               : domains[1].units - domains[0].units;
            CHECK(off <= (unit == 0 ? 40000000 : unit == 1 ? 0 : 400));
            if (unit == 1)
                CHECK_U64(items[0], items[1]);
            spsh_sampler_close(sampler);
            spsh_plan_close(plan);
        }
        plan_kit_close(&kit);
    }
}

/* With counted epochs, a domain's passes follow each other without a gap. The number of times that
 * two utterances of a domain have been served never differs by more than one. */
static void test_passes_have_no_seams(void)
{
    static const spsh_weight weights[] = {
        {"domain1", SPSH_NONE_U32, 3  },
        {"domain2", SPSH_NONE_U32, 0.5},
        {"domain3", 0,             5  }
    };
    plan_kit kit = {.dataset = NULL};
    spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
    plan_kit_fill(&kit, 1111, 4, seed + 5);
    plan_kit_open(&kit, 1);
    opt.unit = SPSH_UNIT_UTTERANCES;
    opt.weights = weights;
    opt.weight_count = 3;
    opt.window_utterances = 100;
    spsh_plan *plan = plan_kit_plan(&kit, &opt);
    spsh_sampler *sampler = plan_kit_sampler(plan, 0, 1);
    uint32_t *served = (uint32_t *)calloc((size_t)kit.count, sizeof(uint32_t));
    uint64_t by_domain[5] = {0};
    uint64_t first[5] = {0};
    for (uint32_t epoch = 0; epoch < 20; epoch++) {
        uint32_t least[5] = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
        uint32_t most[5] = {0};
        tally t = go_through(&kit, &opt, sampler);
        for (uint64_t p = 0; p < kit.count; p++) {
            uint32_t domain = kit.rows[p].domain;
            served[p] += t.served[p];
            by_domain[domain] += t.served[p];
            least[domain] = served[p] < least[domain] ? served[p] : least[domain];
            most[domain] = served[p] > most[domain] ? served[p] : most[domain];
        }
        for (uint32_t d = 1; d <= 4; d++)
            CHECK(most[d] - least[d] <= 1);
        CHECK_U64(by_domain[4], 0);
        if (epoch == 0)
            memcpy(first, by_domain, sizeof(first));
        for (uint32_t d = 1; d <= 3; d++)
            CHECK_U64(by_domain[d], first[d] * (epoch + 1));
        free(t.served);
    }
    for (uint32_t d = 0; d < 3; d++) {
        spsh_plan_domain domain = SPSH_PLAN_DOMAIN_INIT;
        double quota = (double)spsh_plan_info_get(plan)->utterance_count * weights[d].weight / 8.5;
        CHECK((double)first[d + 1] > quota - 1 && (double)first[d + 1] < quota + 1);
        CHECK(spsh_plan_domain_get(plan, d, &domain, NULL) == SPSH_OK);
        CHECK(domain.share > weights[d].weight / 8.5 - 1e-3 &&
              domain.share < weights[d].weight / 8.5 + 1e-3);
        CHECK(memcmp(domain.name.data, weights[d].domain, domain.name.size_bytes) == 0);
    }
    free(served);
    spsh_sampler_close(sampler);
    spsh_plan_close(plan);
    plan_kit_close(&kit);
}

/* ---- independence ---- */

static uint64_t hash_of_epoch(const spsh_plan *plan)
{
    spsh_sampler *sampler = plan_kit_sampler(plan, 0, 1);
    spsh_planned_batch batch = SPSH_PLANNED_BATCH_INIT;
    uint64_t hash = 0;
    while (spsh_sampler_next(sampler, &batch, NULL) == SPSH_OK) {
        uint64_t state = hash ^ plan_kit_hash(&batch);
        hash = test_random(&state);
    }
    spsh_sampler_close(sampler);
    return hash;
}

static void test_threads_change_nothing(void)
{
    plan_kit kit = {.dataset = NULL};
    spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
    uint64_t want = 0;
    plan_kit_fill(&kit, 300000, 6, seed + 6);
    for (uint64_t p = 1; p < kit.count; p += 5)
        kit.rows[p].copy_of = kit.rows[p / 2].copy_of == 0 ? p / 2 + 1 : 0;
    for (uint64_t p = 0; p < 140000; p++)
        kit.rows[p].domain = p < 70000 ? 1 : 2; /* runs of consecutive positions */
    plan_kit_open(&kit, 1);
    opt.duplicates = SPSH_DUPLICATES_ONCE;
    opt.speaker_utterances_max = 5000;
    opt.utterance_seconds_min = 2;
    for (uint32_t threads = 1; threads <= 8; threads *= 2) {
        const spsh_dataset *const list[] = {kit.dataset};
        spsh_plan *plan = NULL;
        REQUIRE(spsh__plan_open(list, 1, &opt, threads, &plan, NULL) == SPSH_OK);
        uint64_t hash = hash_of_epoch(plan);
        CHECK_U64(threads == 1 ? hash : want, hash);
        want = hash;
        spsh_plan_close(plan);
    }
    plan_kit_close(&kit);
}

/* ---- threads that share a plan ---- */

enum { RANKS = 4 };

typedef struct rank_thread {
    const spsh_plan *plan;
    uint32_t rank;
    uint64_t items;
    pthread_t id;
} rank_thread;

static void *run_rank(void *argument)
{
    rank_thread *self = (rank_thread *)argument;
    spsh_sampler *sampler = plan_kit_sampler(self->plan, self->rank, RANKS);
    spsh_planned_batch batch = SPSH_PLANNED_BATCH_INIT;
    spsh_position place;
    spsh_epoch_report report = SPSH_EPOCH_REPORT_INIT;
    while (spsh_sampler_next(sampler, &batch, NULL) == SPSH_OK)
        self->items += batch.item_count;
    if (spsh_plan_find(self->plan, self->rank % 3, 5, &place, NULL) != SPSH_OK ||
        spsh_plan_report(self->plan, 1, 3, &report, NULL, NULL) != SPSH_OK)
        self->items = 0;
    spsh_sampler_close(sampler);
    return NULL;
}

static void test_ranks_in_threads(void)
{
    plan_kit kit = {.dataset = NULL};
    spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
    rank_thread threads[RANKS];
    uint64_t items = 0;
    char cache[700];
    plan_kit_fill(&kit, 20000, 4, seed + 11);
    plan_kit_open(&kit, 1);
    (void)snprintf(cache, sizeof(cache), "%s/cache", kit.folder);
    opt.window_utterances = 1000;
    opt.cache_dir = cache;
    spsh_plan *plan = plan_kit_plan(&kit, &opt);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        threads[rank] = (rank_thread){.plan = plan, .rank = rank};
        REQUIRE(pthread_create(&threads[rank].id, NULL, run_rank, &threads[rank]) == 0);
    }
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        REQUIRE(pthread_join(threads[rank].id, NULL) == 0);
        CHECK(threads[rank].items > 0);
        items += threads[rank].items;
    }
    CHECK_U64(items, kit.count);
    spsh_plan_close(plan);
    plan_kit_close(&kit);
}

static void test_seed_and_epoch_change_the_order(void)
{
    plan_kit kit = {.dataset = NULL};
    uint64_t hashes[4];
    plan_kit_fill(&kit, 1000, 3, seed + 7);
    plan_kit_open(&kit, 1);
    for (uint64_t s = 0; s < 4; s++) {
        spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
        opt.seed = s;
        spsh_plan *plan = plan_kit_plan(&kit, &opt);
        hashes[s] = hash_of_epoch(plan);
        CHECK_U64(hash_of_epoch(plan), hashes[s]);
        for (uint64_t other = 0; other < s; other++)
            CHECK(hashes[other] != hashes[s]);
        spsh_plan_close(plan);
    }
    plan_kit_close(&kit);
}

/* All utterances are in one window: sorting only by length would form the same batches in each
 * epoch. */
static void test_company_changes(void)
{
    plan_kit kit = {.dataset = NULL};
    spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
    spsh_planned_batch batch = SPSH_PLANNED_BATCH_INIT;
    uint64_t *numbers[2] = {NULL, NULL};
    uint64_t pairs = 0;
    uint64_t again = 0;
    plan_kit_fill(&kit, 1000, 1, seed + 8);
    plan_kit_open(&kit, 1);
    opt.batch_seconds_max = 100;
    spsh_plan *plan = plan_kit_plan(&kit, &opt);
    spsh_sampler *sampler = plan_kit_sampler(plan, 0, 1);
    for (uint32_t epoch = 0; epoch < 2; epoch++) {
        numbers[epoch] = (uint64_t *)calloc((size_t)kit.count, sizeof(uint64_t));
        REQUIRE(numbers[epoch] != NULL);
        while (spsh_sampler_next(sampler, &batch, NULL) == SPSH_OK)
            for (uint32_t i = 0; i < batch.item_count; i++)
                numbers[epoch][batch.items[i].position] = batch.number;
    }
    for (uint64_t p = 0; p < kit.count; p++)
        for (uint64_t q = 0; q < p; q++) {
            pairs += numbers[0][p] == numbers[0][q];
            again += numbers[0][p] == numbers[0][q] && numbers[1][p] == numbers[1][q];
        }
    CHECK(pairs > 0);
    CHECK(again * 4 < pairs * 3);
    free(numbers[0]);
    free(numbers[1]);
    spsh_sampler_close(sampler);
    spsh_plan_close(plan);
    plan_kit_close(&kit);
}

/* Positions as in the dataset, with interleaved domains. With one domain they ascend. */
static void test_in_order(void)
{
    plan_kit kit = {.dataset = NULL};
    spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
    spsh_planned_batch batch = SPSH_PLANNED_BATCH_INIT;
    uint64_t next = 0;
    plan_kit_fill(&kit, 3000, 1, seed + 8);
    plan_kit_open(&kit, 1);
    opt.flags = SPSH_PLAN_IN_ORDER;
    opt.window_utterances = 700;
    spsh_plan *plan = plan_kit_plan(&kit, &opt);
    spsh_sampler *sampler = plan_kit_sampler(plan, 0, 1);
    for (uint32_t epoch = 0; epoch < 2; epoch++) {
        next = 0;
        while (spsh_sampler_next(sampler, &batch, NULL) == SPSH_OK)
            for (uint32_t i = 0; i < batch.item_count; i++)
                CHECK_U64(batch.items[i].position, next++);
        CHECK_U64(next, kit.count);
    }
    spsh_sampler_close(sampler);
    spsh_plan_close(plan);
    plan_kit_close(&kit);
}

/* Adjacent utterances stay in one window. */
static void test_shuffle_blocks(void)
{
    enum { RUN_LENGTH = 64, COUNT = 64 * 100 + 17 };
    plan_kit kit = {.dataset = NULL};
    spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
    spsh_planned_batch batch = SPSH_PLANNED_BATCH_INIT;
    uint32_t windows[COUNT] = {0};
    uint32_t broken = 0;
    uint32_t moved = 0;
    plan_kit_fill(&kit, COUNT, 1, seed + 9);
    plan_kit_open(&kit, 1);
    opt.shuffle_block_utterances = RUN_LENGTH;
    opt.window_utterances = 640;
    spsh_plan *plan = plan_kit_plan(&kit, &opt);
    spsh_sampler *sampler = plan_kit_sampler(plan, 0, 1);
    while (spsh_sampler_next(sampler, &batch, NULL) == SPSH_OK)
        for (uint32_t i = 0; i < batch.item_count; i++)
            windows[batch.items[i].position] = batch.at.window;
    for (uint32_t p = 1; p < COUNT; p++) {
        broken += p % RUN_LENGTH != 0 && windows[p] != windows[p - 1];
        moved += p % RUN_LENGTH == 0 && windows[p] != windows[p - 1];
    }
    CHECK(broken <= spsh_plan_info_get(plan)->window_count); /* one where two windows join */
    CHECK(moved > 70);
    spsh_sampler_close(sampler);
    spsh_plan_close(plan);
    plan_kit_close(&kit);
}

/* ---- several datasets ---- */

/* The domains of a dataset share its weight in proportion to their utterances. */
static void test_weights_of_datasets(void)
{
    static const spsh_weight weights[] = {
        {NULL, 0, 3},
        {NULL, 1, 1}
    };
    static const spsh_weight wrong[][2] = {
        {{NULL, 0, 3},                  {"domain1", 0, 1}       },
        {{"domain1", SPSH_NONE_U32, 1}, {NULL, 1, 1}            },
        {{NULL, 0, 3},                  {NULL, 2, 1}            },
        {{NULL, 0, 3},                  {NULL, SPSH_NONE_U32, 1}},
        {{NULL, 0, 3},                  {NULL, 1, -1}           },
    };
    plan_kit a = {.dataset = NULL};
    plan_kit b = {.dataset = NULL};
    plan_kit_fill(&a, 1000, 2, seed);
    plan_kit_fill(&b, 500, 3, seed + 1);
    plan_kit_open(&a, 1);
    plan_kit_open(&b, 2);
    const spsh_dataset *const list[] = {a.dataset, b.dataset};
    spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
    spsh_plan *plan = NULL;
    opt.weights = weights;
    opt.weight_count = 2;
    REQUIRE(spsh_plan_open(list, 2, &opt, &plan, NULL) == SPSH_OK);
    CHECK_U64(spsh_plan_info_get(plan)->domain_count, 5);
    double shares[2] = {0, 0};
    double passes[2] = {0, 0};
    for (uint32_t d = 0; d < 5; d++) {
        spsh_plan_domain domain = SPSH_PLAN_DOMAIN_INIT;
        REQUIRE(spsh_plan_domain_get(plan, d, &domain, NULL) == SPSH_OK);
        const double pass = domain.share / (double)domain.units;
        shares[domain.dataset] += domain.share;
        CHECK(passes[domain.dataset] <= 0 || fabs(pass / passes[domain.dataset] - 1) < 1e-9);
        passes[domain.dataset] = pass;
    }
    CHECK(fabs(shares[0] - 0.75) < 1e-9 && fabs(shares[1] - 0.25) < 1e-9);
    spsh_plan_close(plan);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        plan = NULL;
        opt.weights = wrong[i];
        CHECK_I64(spsh_plan_open(list, 2, &opt, &plan, NULL), SPSH_E_INVALID_ARG);
        CHECK(plan == NULL);
    }
    plan_kit_close(&a);
    plan_kit_close(&b);
}

static void test_two_datasets(void)
{
    plan_kit a = {.dataset = NULL};
    plan_kit b = {.dataset = NULL};
    static const spsh_weight weights[] = {
        {"domain1", 0, 1},
        {"domain1", 1, 1}
    };
    plan_kit_fill(&a, 1000, 2, seed);
    plan_kit_fill(&b, 500, 3, seed + 1);
    plan_kit_open(&a, 1);
    plan_kit_open(&b, 2);
    const spsh_dataset *const list[] = {a.dataset, b.dataset};
    for (uint32_t weighted = 0; weighted < 2; weighted++) {
        spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
        spsh_plan *plan = NULL;
        spsh_planned_batch batch = SPSH_PLANNED_BATCH_INIT;
        uint64_t counts[2] = {0, 0};
        opt.weights = weights;
        opt.weight_count = weighted == 0 ? 0 : 2;
        opt.unit = SPSH_UNIT_UTTERANCES;
        REQUIRE(spsh_plan_open(list, 2, &opt, &plan, NULL) == SPSH_OK);
        CHECK_U64(spsh_plan_info_get(plan)->domain_count, weighted == 0 ? 5 : 2);
        spsh_sampler *sampler = plan_kit_sampler(plan, 0, 1);
        while (spsh_sampler_next(sampler, &batch, NULL) == SPSH_OK)
            for (uint32_t i = 0; i < batch.item_count; i++)
                counts[batch.items[i].dataset]++;
        CHECK_U64(counts[0] + counts[1], spsh_plan_info_get(plan)->utterance_count);
        if (weighted == 0)
            CHECK_U64(counts[0], 1000);
        else
            CHECK(counts[0] - counts[1] + 1 <= 2);
        spsh_sampler_close(sampler);
        spsh_plan_close(plan);
    }
    plan_kit_close(&a);
    plan_kit_close(&b);
}

/* ---- progress ---- */

typedef struct canceler {
    uint64_t calls, cancel_at;
    char phases[64];
} canceler;

static int cancel_at_call(void *user, const char *phase, uint64_t done, uint64_t total)
{
    canceler *c = (canceler *)user;
    const size_t used = strlen(c->phases);
    CHECK(done < total);
    (void)snprintf(c->phases + used, sizeof(c->phases) - used, "%s ", phase);
    return c->calls++ == c->cancel_at;
}

static void test_canceling_at_every_call(void)
{
    plan_kit kit;
    char cache[700];
    spsh_status rc = SPSH_E_CANCELED;
    plan_kit_fill(&kit, 300, 2, 5);
    plan_kit_open(&kit, 9);
    (void)snprintf(cache, sizeof(cache), "%s/cache", kit.folder);
    for (uint64_t n = 0; rc == SPSH_E_CANCELED; n++) {
        canceler c = {.cancel_at = n};
        spsh_plan_options o = SPSH_PLAN_OPTIONS_INIT;
        spsh_plan *plan = NULL;
        spsh_error err = SPSH_ERROR_INIT;
        o.cache_dir = cache;
        o.speaker_utterances_max = 4;
        o.progress_fn = cancel_at_call;
        o.progress_user = &c;
        rc = spsh_plan_open((const spsh_dataset *const *)&kit.dataset, 1, &o, &plan, &err);
        REQUIRE(rc == SPSH_OK || rc == SPSH_E_CANCELED);
        CHECK((rc == SPSH_OK) == (plan != NULL));
        CHECK_U64(c.calls, rc == SPSH_OK ? n : n + 1);
        if (rc == SPSH_OK)
            CHECK_STR(c.phases, "scan settle lists ");
        else
            CHECK(rmdir(cache) == 0 || errno == ENOENT); /* the folder is empty */
        spsh_plan_close(plan);
    }
    plan_kit_close(&kit);
}

/* ---- rejected options ---- */

static void check_refused(const plan_kit *kit, const spsh_plan_options *opt, spsh_status want,
                          const char *text)
{
    const spsh_dataset *const list[] = {kit->dataset};
    spsh_error err = SPSH_ERROR_INIT;
    spsh_plan *plan = NULL;
    (void)setlocale(LC_NUMERIC, "C"); /* messages depend on the locale of the host program */
    CHECK_I64(spsh_plan_open(list, 1, opt, &plan, &err), want);
    CHECK(plan == NULL);
    if (strstr(err.message, text) == NULL)
        CHECK_STR(err.message, text);
}

static void test_refusals(void)
{
    static const char *const unknown[] = {"split1", "splitt2"};
    static const spsh_weight twice[] = {
        {"domain1", SPSH_NONE_U32, 1},
        {"domain1", 0,             2}
    };
    static const spsh_weight nothing[] = {
        {"domain1", SPSH_NONE_U32, 0}
    };
    const spsh_plan_options init = SPSH_PLAN_OPTIONS_INIT;
    plan_kit kit = {.dataset = NULL};
    spsh_plan_options o = init;
    plan_kit_fill(&kit, 500, 2, seed);
    kit.rows[123].samples = 16000 * 700;
    plan_kit_open(&kit, 1);
    check_refused(&kit, &o, SPSH_E_LIMIT, "utterance number 123 lasts 700.000 s, but batch_sec");
    o.splits = unknown;
    o.split_count = 2;
    check_refused(&kit, &o, SPSH_E_UNKNOWN_NAME,
                  "split \"splitt2\"; existing names: split1, split2, split3");
    o = init;
    o.utterance_seconds_min = 800;
    check_refused(&kit, &o, SPSH_E_NOT_FOUND, "500 by duration");
    o = init;
    o.weights = twice;
    o.weight_count = 2;
    check_refused(&kit, &o, SPSH_E_INVALID_ARG, "two weights");
    o.weights = nothing;
    o.weight_count = 1;
    check_refused(&kit, &o, SPSH_E_INVALID_ARG, "must be above 0");
    o.weights = NULL;
    check_refused(&kit, &o, SPSH_E_INVALID_ARG, "weights is NULL");
    o = init;
    o.batch_seconds_max = -1;
    check_refused(&kit, &o, SPSH_E_INVALID_ARG, "batch_seconds_max is -1");
    o.batch_seconds_max = (double)strtod("nan", NULL);
    check_refused(&kit, &o, SPSH_E_INVALID_ARG, "batch_seconds_max is");
    o = init;
    o.utterance_seconds_max = 1e-7; /* rounds to zero, which would mean no limit */
    check_refused(&kit, &o, SPSH_E_INVALID_ARG, "utterance_seconds_max is 1e-07, must be 0 or");
    o = init;
    o.flags = 8;
    check_refused(&kit, &o, SPSH_E_INVALID_ARG, "flags are 0x8");
    o = init;
    o.alpha = -0.5;
    check_refused(&kit, &o, SPSH_E_INVALID_ARG, "alpha is -0.5");
    o = init;
    o.window_utterances = SPSH_PLAN_WINDOW_MAX + 1;
    check_refused(&kit, &o, SPSH_E_INVALID_ARG, "window_utterances");
    o = init;
    o.sample_rate_hz = 999;
    check_refused(&kit, &o, SPSH_E_INVALID_ARG, "sample_rate_hz is 999");
    o = init;
    o.unit = (spsh_unit)3;
    check_refused(&kit, &o, SPSH_E_INVALID_ARG, "unit is 3");
    o = init;
    o.struct_size = 4;
    check_refused(&kit, &o, SPSH_E_INVALID_ARG, "struct_size is 4");
    o = init;
    o.batch_seconds_max = 0.00001; /* less than a sample */
    o.long_utterances = SPSH_LONG_SPLIT;
    check_refused(&kit, &o, SPSH_E_LIMIT, "no part of a split");
    o = init;
    o.long_utterances = SPSH_LONG_DROP;
    spsh_plan *plan = plan_kit_plan(&kit, &o);
    spsh_sampler *sampler = NULL;
    CHECK_I64(spsh_sampler_open(plan, 0, 0, &sampler, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_sampler_open(plan, 3, 3, &sampler, NULL), SPSH_E_INVALID_ARG);
    spsh_plan_close(plan);
    plan_kit_close(&kit);
}

/* Overflowing sums, and values that packers never write. */
static void test_numbers_out_of_range(void)
{
    plan_kit kit = {.dataset = NULL};
    spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
    plan_kit_fill(&kit, 300000, 1, seed);
    for (uint64_t p = 0; p < kit.count; p++) {
        kit.rows[p].samples = UINT64_C(1) << 36;
        kit.rows[p].sample_rate_hz = 1000;
    }
    plan_kit_open(&kit, 1);
    opt.batch_utterances_max = 4;
    check_refused(&kit, &opt, SPSH_E_LIMIT, "exceed the limits of a plan");
    plan_kit_close(&kit);

    for (uint32_t i = 0; i < 4; i++) {
        kit = (plan_kit){.dataset = NULL};
        plan_kit_fill(&kit, 300, 1, seed);
        index_row *row = &kit.rows[123];
        row->samples = i == 0 ? (UINT64_C(1) << 36) + 1 : row->samples;
        row->sample_rate_hz = i == 1 ? 999 : 16000;
        row->channels = i == 2 ? 65 : 1;
        row->copy_of = i == 3 ? 125 : 0;
        opt.duplicates = SPSH_DUPLICATES_ONCE;
        plan_kit_open(&kit, 1);
        check_refused(&kit, &opt, SPSH_E_CORRUPT, "utterance 123 has a value out of range");
        plan_kit_close(&kit);
    }
}

/* ---- substitutes ---- */

static void test_substitutes(void)
{
    plan_kit kit = {.dataset = NULL};
    spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
    spsh_planned_batch batch = SPSH_PLANNED_BATCH_INIT;
    plan_kit_fill(&kit, 1000, 2, seed + 10);
    plan_kit_open(&kit, 1);
    opt.batch_seconds_max = 60;
    opt.window_utterances = 200;
    spsh_plan *plan = plan_kit_plan(&kit, &opt);
    spsh_sampler *sampler = plan_kit_sampler(plan, 0, 1);
    spsh_sampler *other = plan_kit_sampler(plan, 2, 5);
    while (spsh_sampler_next(sampler, &batch, NULL) == SPSH_OK) {
        const spsh_item item = batch.items[batch.item_count / 2];
        uint64_t found[4];
        uint32_t count = 0;
        for (uint32_t attempt = 0; attempt < 4; attempt++) {
            spsh_item a = {.position = 0};
            spsh_item b = {.position = 0};
            spsh_status rc = spsh_sampler_substitute(sampler, &batch.at, &item, attempt, &a, NULL);
            CHECK_I64(spsh_sampler_substitute(other, &batch.at, &item, attempt, &b, NULL), rc);
            if (rc != SPSH_OK) {
                CHECK_I64(rc, SPSH_E_NOT_FOUND);
                continue;
            }
            CHECK_U64(a.position, b.position);
            CHECK_U64(a.domain, item.domain);
            CHECK(a.microseconds <= item.microseconds && a.position != item.position);
            for (uint32_t i = 0; i < count; i++)
                CHECK(found[i] != a.position);
            for (uint32_t i = 0; i < batch.item_count; i++)
                CHECK(batch.items[i].position != a.position);
            found[count++] = a.position;
        }
    }
    spsh_sampler_close(sampler);
    spsh_sampler_close(other);
    spsh_plan_close(plan);
    plan_kit_close(&kit);
}

/* ---- contradictions ---- */

/* A wrong batch count of a window: the message names the cache directory only if there is one. */
static void check_contradiction(const plan_kit *kit, const char *cache_dir, const char *want)
{
    spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
    spsh_planned_batch batch = SPSH_PLANNED_BATCH_INIT;
    const spsh_position place = {0, 3, 0, 3};
    spsh_error err = SPSH_ERROR_INIT;
    opt.batch_seconds_max = 60;
    opt.window_utterances = 200;
    opt.cache_dir = cache_dir;
    for (uint32_t wrong = 1; wrong <= 1000; wrong += 999) {
        spsh_plan *plan = plan_kit_plan(kit, &opt);
        spsh_sampler *sampler = plan_kit_sampler(plan, 0, 1);
        CHECK_I64(spsh_sampler_seek(sampler, &place, &err), SPSH_OK);
        spsh__states_keep_batches(plan, 0, 0, wrong);
        spsh_status rc = SPSH_OK;
        while (rc == SPSH_OK)
            rc = spsh_sampler_next(sampler, &batch, &err);
        CHECK_I64(rc, SPSH_E_CORRUPT);
        CHECK(strstr(err.message, "epoch 0, window 0: batch ") != NULL);
        CHECK(strstr(err.message, want) != NULL);
        spsh_sampler_close(sampler);
        spsh_plan_close(plan);
    }
}

static void test_contradictions(void)
{
    plan_kit kit = {.dataset = NULL};
    plan_kit_fill(&kit, 1000, 2, seed + 10);
    plan_kit_open(&kit, 1);
    check_contradiction(&kit, NULL, "or this is a bug of speechshard");
    check_contradiction(&kit, "/dev/null/no-cache", "the cache directory /dev/null/no-cache does");
    plan_kit_close(&kit);
}

/* ---- memory ---- */

static spsh_status use_everything(const plan_kit *kit, const spsh_allocator *allocator)
{
    const spsh_dataset *const list[] = {kit->dataset};
    static const char *const splits[] = {"split1", "split2"};
    static const spsh_weight weights[] = {
        {"domain1", 0, 1},
        {"domain2", 0, 1}
    };
    spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
    spsh_plan *plan = NULL;
    spsh_sampler *sampler = NULL;
    spsh_planned_batch batch = SPSH_PLANNED_BATCH_INIT;
    spsh_epoch_report report = SPSH_EPOCH_REPORT_INIT;
    spsh_domain_report domains[2];
    spsh_position place;
    opt.allocator = allocator;
    opt.splits = splits;
    opt.split_count = 2;
    opt.weights = weights;
    opt.weight_count = 2;
    opt.duplicates = SPSH_DUPLICATES_ONCE;
    opt.speaker_utterances_max = 20;
    opt.window_utterances = 100;
    spsh_status rc = spsh_plan_open(list, 1, &opt, &plan, NULL);
    CHECK((rc == SPSH_OK) == (plan != NULL));
    if (rc == SPSH_OK)
        rc = spsh_sampler_open(plan, 0, 1, &sampler, NULL);
    CHECK((rc == SPSH_OK) == (sampler != NULL));
    if (rc == SPSH_OK)
        rc = spsh_sampler_next(sampler, &batch, NULL);
    if (rc == SPSH_OK)
        rc = spsh_plan_report(plan, 0, 0, &report, domains, NULL);
    if (rc == SPSH_OK)
        rc = spsh_plan_find(plan, 1, 3, &place, NULL);
    spsh_sampler_close(sampler);
    spsh_plan_close(plan);
    return rc;
}

static void test_every_allocation_failure(void)
{
    plan_kit kit = {.dataset = NULL};
    spsh_status rc = SPSH_E_NO_MEMORY;
    plan_kit_fill(&kit, 2000, 2, seed);
    for (uint64_t p = 0; p < kit.count; p += 4)
        kit.rows[p].copy_of = p > 0 ? p : 0;
    plan_kit_open(&kit, 1);
    for (uint64_t fail_at = 0; rc != SPSH_OK; fail_at++) {
        fault_alloc fault = {.fail_at = fail_at};
        const spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
        REQUIRE(fail_at < 300);
        rc = use_everything(&kit, &allocator);
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
        CHECK_I64(fault.live_count, 0);
    }
    plan_kit_close(&kit);
}

TEST_MAIN(unit_plan)
{
    seed = test_seed(1);
    RUN(test_each_once);
    RUN(test_filters);
    RUN(test_speaker_cap);
    RUN(test_rates_do_not_mix);
    RUN(test_split);
    RUN(test_domain_of_one);
    RUN(test_passes_have_no_seams);
    RUN(test_threads_change_nothing);
    RUN(test_ranks_in_threads);
    RUN(test_seed_and_epoch_change_the_order);
    RUN(test_company_changes);
    RUN(test_in_order);
    RUN(test_shuffle_blocks);
    RUN(test_two_datasets);
    RUN(test_weights_of_datasets);
    RUN(test_refusals);
    RUN(test_canceling_at_every_call);
    RUN(test_numbers_out_of_range);
    RUN(test_substitutes);
    RUN(test_contradictions);
    RUN(test_every_allocation_failure);
    return TEST_RESULT();
}
