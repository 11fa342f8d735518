/* prop_plan.c: properties of plans over many sizes and draws. Orders are permutations. Shares are
 * exact within one utterance. Any number of ranks that resumes at any position serves the rest
 * exactly once. A seek reaches the requested position. */
#include "plan/batch_window.h"
#include "plan/permutation.h"
#include "plan/quota.h"
#include "plan_kit.h"

static uint64_t seed;

/* ---- permutation ---- */

static void check_permutation(uint64_t count, uint64_t key, uint8_t *seen)
{
    spsh__permutation p = spsh__permutation_make(count, key);
    memset(seen, 0, (size_t)count);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t value = spsh__permutation_at(&p, i);
        REQUIRE(value < count);
        CHECK_U64(seen[value]++, 0);
    }
}

static void test_permutations_are_bijections(void)
{
    enum { SMALL = 5000, LARGE = 3000000 };
    uint64_t random = seed;
    uint8_t *seen = (uint8_t *)malloc(LARGE);
    REQUIRE(seen != NULL);
    for (uint64_t count = 1; count <= SMALL; count += count < 600 ? 1 : 37)
        check_permutation(count, test_random(&random), seen);
    for (uint32_t i = 0; i < 3; i++)
        check_permutation(1 + test_random(&random) % LARGE, test_random(&random), seen);
    free(seen);
}

/* Adjacent inputs move far apart: their mean distance is that of random positions, a third. */
static void test_neighbours_spread(void)
{
    uint64_t random = seed + 1;
    for (uint64_t count = 1000; count < 1000000; count = count * 7 + 3) {
        spsh__permutation p = spsh__permutation_make(count, test_random(&random));
        double sum = 0;
        uint64_t near = 0;
        for (uint64_t i = 1; i < count; i++) {
            uint64_t a = spsh__permutation_at(&p, i - 1);
            uint64_t b = spsh__permutation_at(&p, i);
            uint64_t distance = a > b ? a - b : b - a;
            sum += (double)distance;
            near += distance < 10;
        }
        double mean = sum / (double)(count - 1) / (double)count;
        CHECK(mean > 0.28 && mean < 0.39);
        CHECK(near < 60);
    }
}

/* ---- quota ---- */

/* After every utterance each domain is within one utterance (of the maximum length) of its share.
 */
static void check_quota(uint32_t count, const uint64_t *weights, uint64_t length_max,
                        uint64_t items, uint64_t random)
{
    spsh__quota quota;
    spsh__u128 weight_sum = 0;
    uint64_t *served = (uint64_t *)calloc(count, sizeof(uint64_t));
    uint64_t *lengths = (uint64_t *)calloc(count, sizeof(uint64_t));
    uint64_t total = 0;
    REQUIRE(served != NULL && lengths != NULL);
    REQUIRE(spsh__quota_open(&quota, count, spsh_allocator_default(), NULL) == SPSH_OK);
    for (uint32_t d = 0; d < count; d++)
        weight_sum += weights[d];
    spsh__quota_clear(&quota, (uint64_t)weight_sum);
    for (uint32_t d = 0; d < count; d++) {
        lengths[d] = 1 + test_random(&random) % length_max;
        spsh__quota_add(&quota, d, weights[d], 0, lengths[d]);
    }
    for (uint64_t i = 0; i < items; i++) {
        uint32_t picked = spsh__quota_pick(&quota);
        REQUIRE(picked < count);
        served[picked] += lengths[picked];
        total += lengths[picked];
        lengths[picked] = 1 + test_random(&random) % length_max;
        spsh__quota_serve(&quota, picked, lengths[picked]);
        for (uint32_t d = i % 64 < 8 ? 0 : picked; d < (i % 64 < 8 ? count : picked + 1); d++) {
            spsh__u128 share = (spsh__u128)weights[d] * total;
            spsh__u128 mine = (spsh__u128)served[d] * weight_sum;
            spsh__u128 off = share > mine ? share - mine : mine - share;
            CHECK(off <= (spsh__u128)length_max * weight_sum);
        }
    }
    spsh__quota_close(&quota, spsh_allocator_default());
    free(served);
    free(lengths);
}

static void test_shares_within_one_utterance(void)
{
    static const uint32_t counts[] = {1, 2, 3, 5, 16, 17, 50, 300, 2000};
    uint64_t random = seed + 2;
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
        for (uint32_t shape = 0; shape < 4; shape++) {
            uint64_t weights[2000];
            for (uint32_t d = 0; d < counts[c]; d++) {
                uint64_t draw = test_random(&random);
                weights[d] = shape == 0   ? 1
                             : shape == 1 ? 1 + draw % 1000
                             : shape == 2 ? (UINT64_C(1) << (draw % 50)) + draw % 7
                                          : (UINT64_C(1) << 50) / (d + 1) + 1;
            }
            check_quota(counts[c], weights, shape == 2 ? 1 : 600000000, 20000,
                        test_random(&random));
        }
}

/* ---- ranks ---- */

enum { RANKS_MAX = 8, BATCHES_MAX = 2000 };

/* Batches of the epoch in a world of one rank. */
typedef struct sequence {
    uint64_t hashes[BATCHES_MAX];
    spsh_position places[BATCHES_MAX + 1]; /* before each batch, and after the last */
    uint64_t count;
} sequence;

static void record_sequence(const spsh_plan *plan, uint64_t epoch, sequence *s)
{
    spsh_sampler *sampler = plan_kit_sampler(plan, 0, 1);
    const spsh_position begin = {.epoch = epoch};
    spsh_planned_batch batch = SPSH_PLANNED_BATCH_INIT;
    s->count = 0;
    REQUIRE(spsh_sampler_seek(sampler, &begin, NULL) == SPSH_OK);
    s->places[0] = spsh_sampler_tell(sampler);
    while (spsh_sampler_next(sampler, &batch, NULL) == SPSH_OK) {
        REQUIRE(s->count < BATCHES_MAX);
        s->hashes[s->count++] = plan_kit_hash(&batch);
        s->places[s->count] = batch.next;
        CHECK_U64(batch.next.batches, s->count);
    }
    spsh_sampler_close(sampler);
}

static bool same_place(const spsh_position *a, const spsh_position *b)
{
    return a->epoch == b->epoch && a->batches == b->batches && a->window == b->window &&
           a->window_batch == b->window_batch;
}

/* All ranks make calls from `place` on, at most calls_max each; seen counts batches. Returns the
 * final position, which must be equal on all ranks. */
static spsh_position run_ranks(const spsh_plan *plan, const sequence *want, uint32_t world_size,
                               const spsh_position *place, uint64_t calls_max, uint32_t *seen)
{
    spsh_position ends[RANKS_MAX];
    uint64_t calls[RANKS_MAX] = {0};
    for (uint32_t rank = 0; rank < world_size; rank++) {
        spsh_sampler *sampler = plan_kit_sampler(plan, rank, world_size);
        spsh_planned_batch batch = SPSH_PLANNED_BATCH_INIT;
        spsh_status rc = SPSH_OK;
        REQUIRE(spsh_sampler_seek(sampler, place, NULL) == SPSH_OK);
        while (calls[rank] < calls_max &&
               (rc = spsh_sampler_next(sampler, &batch, NULL)) == SPSH_OK) {
            calls[rank]++;
            CHECK_U64(batch.epoch, place->epoch);
            if ((batch.flags & SPSH_BATCH_EMPTY) != 0) {
                CHECK_U64(batch.item_count, 0);
                continue;
            }
            REQUIRE(batch.number < want->count);
            CHECK_U64(plan_kit_hash(&batch), want->hashes[batch.number]);
            CHECK(same_place(&batch.at, &want->places[batch.number]));
            CHECK(same_place(&batch.next, &want->places[batch.next.batches]));
            seen[batch.number]++;
        }
        ends[rank] = spsh_sampler_tell(sampler);
        if (rc == SPSH_E_END) {
            CHECK_U64(ends[rank].epoch, place->epoch + 1);
            CHECK_U64(ends[rank].batches, 0);
        }
        CHECK(same_place(&ends[rank], &ends[0]));
        CHECK_U64(calls[rank], calls[0]);
        spsh_sampler_close(sampler);
    }
    return ends[0];
}

/* A part of the epoch with one world size, the rest with another: each batch exactly once. */
static void check_handover(const spsh_plan *plan, const sequence *want, uint32_t before,
                           uint32_t after, uint64_t calls)
{
    static uint32_t seen[BATCHES_MAX];
    const spsh_position begin = want->places[0];
    memset(seen, 0, sizeof(seen));
    spsh_position middle = run_ranks(plan, want, before, &begin, calls, seen);
    if (middle.epoch == begin.epoch)
        (void)run_ranks(plan, want, after, &middle, UINT64_MAX, seen);
    for (uint64_t b = 0; b < want->count; b++)
        CHECK_U64(seen[b], 1);
}

static void check_world_sizes(const plan_kit *kit, const spsh_plan_options *opt, uint64_t epoch)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 7, 8};
    static sequence want;
    spsh_plan *plan = plan_kit_plan(kit, opt);
    record_sequence(plan, epoch, &want);
    for (size_t a = 0; a < 6; a++)
        for (size_t b = 0; b < 6; b++) {
            uint64_t all = (want.count + sizes[a] - 1) / sizes[a];
            const uint64_t calls[] = {0, 1, all / 2, all - 1, all, all + 1};
            for (size_t c = 0; c < 6; c++)
                check_handover(plan, &want, sizes[a], sizes[b], calls[c]);
        }
    spsh_plan_close(plan);
}

static void test_any_world_size_serves_the_rest(void)
{
    plan_kit kit = {.dataset = NULL};
    spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
    plan_kit_fill(&kit, 700, 3, seed);
    plan_kit_open(&kit, 1);
    opt.window_utterances = 60;
    opt.batch_seconds_max = 150;
    check_world_sizes(&kit, &opt, 0);
    opt.virtual_world_size = 6;
    check_world_sizes(&kit, &opt, 2);
    opt.alpha = 0.3;
    opt.virtual_world_size = 0;
    opt.unit = SPSH_UNIT_UTTERANCES;
    check_world_sizes(&kit, &opt, 1);
    plan_kit_close(&kit);
}

/* Serve an epoch to one rank. total: number of batches of the epoch. */
static uint64_t check_steps_of_rank(const spsh_plan *plan, uint32_t rank, uint32_t world_size,
                                    uint32_t step_batches, uint64_t total)
{
    spsh_sampler *sampler = plan_kit_sampler(plan, rank, world_size);
    spsh_planned_batch batch = SPSH_PLANNED_BATCH_INIT;
    uint64_t served = 0;
    while (spsh_sampler_next(sampler, &batch, NULL) == SPSH_OK) {
        bool is_empty = (batch.flags & SPSH_BATCH_EMPTY) != 0;
        bool ends = batch.next.batches % step_batches == 0 || batch.next.batches == total;
        CHECK_U64((batch.flags & SPSH_BATCH_STEP_END) != 0, ends);
        CHECK_U64(batch.step, (batch.next.batches - 1) / step_batches);
        if (!is_empty)
            CHECK_U64(batch.step, batch.number / step_batches);
        served += !is_empty;
    }
    CHECK_U64(spsh_sampler_tell(sampler).epoch, 1);
    spsh_sampler_close(sampler);
    return served;
}

static void check_virtual_steps(const plan_kit *kit, uint32_t step_batches, bool drop)
{
    spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
    uint64_t total = 0;
    opt.window_utterances = 70;
    opt.batch_seconds_max = 100;
    opt.virtual_world_size = step_batches;
    opt.flags = drop ? SPSH_PLAN_DROP_LAST : 0;
    spsh_plan *plan = plan_kit_plan(kit, &opt);
    CHECK(spsh_plan_batch_count(plan, 0, &total, NULL) == SPSH_OK);
    uint64_t want = drop ? total / step_batches * step_batches : total;
    for (uint32_t world_size = 1; world_size <= 8; world_size++) {
        uint64_t served = 0;
        for (uint32_t rank = 0; rank < world_size; rank++)
            served += check_steps_of_rank(plan, rank, world_size, step_batches, total);
        CHECK_U64(served, want);
    }
    spsh_plan_close(plan);
}

/* A virtual step has the same batches for every world size, and ends on the same call on all ranks.
 * With DROP_LAST only full ones are served. */
static void test_virtual_steps(void)
{
    plan_kit kit = {.dataset = NULL};
    plan_kit_fill(&kit, 500, 2, seed + 4);
    plan_kit_open(&kit, 1);
    for (uint32_t step_batches = 1; step_batches < 12; step_batches += 3) {
        check_virtual_steps(&kit, step_batches, false);
        check_virtual_steps(&kit, step_batches, true);
    }
    plan_kit_close(&kit);
}

/* ---- places ---- */

static void check_places(const plan_kit *kit, const spsh_plan_options *opt, uint64_t epoch)
{
    static sequence want;
    uint64_t random = seed + epoch;
    spsh_plan *plan = plan_kit_plan(kit, opt);
    record_sequence(plan, epoch, &want);
    REQUIRE(want.count > 0);
    for (uint32_t i = 0; i < 12; i++) {
        /* Use a new plan, which computes the states of positions by skimming. */
        spsh_plan *fresh = plan_kit_plan(kit, opt);
        spsh_sampler *sampler = plan_kit_sampler(fresh, 0, 1);
        for (uint32_t j = 0; j < 4; j++) {
            uint64_t at = test_random(&random) % want.count;
            spsh_planned_batch batch = SPSH_PLANNED_BATCH_INIT;
            spsh_position found = {.epoch = 0};
            REQUIRE(spsh_sampler_seek(sampler, &want.places[at], NULL) == SPSH_OK);
            REQUIRE(spsh_sampler_next(sampler, &batch, NULL) == SPSH_OK);
            CHECK_U64(plan_kit_hash(&batch), want.hashes[at]);
            CHECK(same_place(&batch.next, &want.places[at + 1]));
            if (j == 3)
                CHECK(spsh_plan_find(fresh, epoch, at, &found, NULL) == SPSH_OK &&
                      same_place(&found, &want.places[at]));
        }
        spsh_sampler_close(sampler);
        spsh_plan_close(fresh);
    }
    /* After the last batch the end of the epoch comes first. */
    spsh_sampler *sampler = plan_kit_sampler(plan, 0, 1);
    spsh_planned_batch batch = SPSH_PLANNED_BATCH_INIT;
    CHECK(spsh_sampler_seek(sampler, &want.places[want.count], NULL) == SPSH_OK);
    CHECK_I64(spsh_sampler_next(sampler, &batch, NULL), SPSH_E_END);
    CHECK(spsh_sampler_next(sampler, &batch, NULL) == SPSH_OK && batch.epoch == epoch + 1);
    spsh_position wrong = want.places[0];
    wrong.window = spsh_plan_info_get(plan)->window_count + 1;
    CHECK_I64(spsh_sampler_seek(sampler, &wrong, NULL), SPSH_E_INVALID_ARG);
    wrong.window = 0;
    wrong.window_batch = 100000;
    CHECK_I64(spsh_sampler_seek(sampler, &wrong, NULL), SPSH_E_INVALID_ARG);
    wrong.epoch = UINT64_MAX;
    CHECK_I64(spsh_sampler_seek(sampler, &wrong, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_plan_find(plan, epoch, want.count + 1, &wrong, NULL), SPSH_E_INVALID_ARG);
    spsh_sampler_close(sampler);
    spsh_plan_close(plan);
}

static void test_seeking_is_coming_to(void)
{
    for (uint32_t domains = 1; domains <= 20; domains += 6) {
        plan_kit kit = {.dataset = NULL};
        spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
        plan_kit_fill(&kit, 3000, domains, seed + 5);
        plan_kit_open(&kit, 1);
        opt.window_utterances = 111;
        opt.batch_seconds_max = 100;
        for (uint32_t unit = 0; unit < 3; unit++) {
            opt.unit = (spsh_unit)unit;
            opt.alpha = 1;
            check_places(&kit, &opt, 0);
            opt.alpha = 0.5;
            check_places(&kit, &opt, 3);
        }
        plan_kit_close(&kit);
    }
}

/* Achieved shares of an epoch, in every unit and for several alphas. */
static void test_shares_of_plans(void)
{
    plan_kit kit = {.dataset = NULL};
    plan_kit_fill(&kit, 4000, 6, seed + 6);
    plan_kit_open(&kit, 1);
    for (uint32_t unit = 0; unit < 3; unit++)
        for (uint32_t tenths = 0; tenths <= 20; tenths += 5) {
            spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
            spsh_domain_report domains[6];
            spsh_epoch_report report = SPSH_EPOCH_REPORT_INIT;
            double units = 0;
            opt.unit = (spsh_unit)unit;
            opt.alpha = tenths / 10.0;
            opt.window_utterances = 1000;
            spsh_plan *plan = plan_kit_plan(&kit, &opt);
            REQUIRE(spsh_plan_report(plan, 1, 0, &report, domains, NULL) == SPSH_OK);
            REQUIRE(spsh_plan_info_get(plan)->domain_count == 6);
            for (uint32_t d = 0; d < 6; d++)
                units += (double)domains[d].units;
            for (uint32_t d = 0; d < 6; d++) {
                spsh_plan_domain domain = SPSH_PLAN_DOMAIN_INIT;
                REQUIRE(spsh_plan_domain_get(plan, d, &domain, NULL) == SPSH_OK);
                double off = (double)domains[d].units - units * domain.share;
                double longest = unit == 0 ? 20e6 : unit == 1 ? 2 : 200;
                CHECK(off <= longest && off >= -longest);
                if (tenths == 10)
                    CHECK_U64(domains[d].units, domain.units);
            }
            spsh_plan_close(plan);
        }
    plan_kit_close(&kit);
}

TEST_MAIN(prop_plan)
{
    seed = test_seed(1);
    RUN(test_permutations_are_bijections);
    RUN(test_neighbours_spread);
    RUN(test_shares_within_one_utterance);
    RUN(test_any_world_size_serves_the_rest);
    RUN(test_virtual_steps);
    RUN(test_seeking_is_coming_to);
    RUN(test_shares_of_plans);
    return TEST_RESULT();
}
