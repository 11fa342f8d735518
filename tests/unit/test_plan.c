/* test_plan.c: what a plan serves: every utterance once, within the bounds of batches; filters;
 * what is refused. */
#include "fault_alloc.h"
#include "plan_internal.h"
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

/* Goes through the next epoch on one rank. */
static tally go_through(const plan_kit *kit, const spsh_plan_options *opt, spsh_sampler *sampler)
{
    tally t = {(uint32_t *)calloc((size_t)kit->count, sizeof(uint32_t)), 0, 0};
    spsh_planned_batch batch;
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

int main(void)
{
    seed = test_seed(1);
    RUN(test_each_once);
    return TEST_RESULT();
}
