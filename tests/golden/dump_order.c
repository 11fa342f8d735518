/* dump_order.c: prints datasets, options, and the loader's order for them, as text.
 *
 *     dump_order > text      spsh_order.py (from docs/reference/LOADER.md) must print the same
 *
 * A line of JSON is the input. Then, for three epochs, one line per rank and call has epoch, call,
 * rank, flags, step, the cursor after it, and the items; one line per window has some substitutes.
 */
#include "index_dataset.h"
#include "speechshard/sampler.h"
#include "spsh_test.h"

enum { DATASETS = 2, ROWS_MAX = 700, EPOCHS = 3, WORLD_MAX = 5, ATTEMPTS = 3 };

static spsh_error err = SPSH_ERROR_INIT;

static void must(spsh_status rc)
{
    if (rc != SPSH_OK)
        test_stop(__FILE__, __LINE__, err.message);
}

typedef struct setting {
    uint32_t world_size;
    spsh_plan_options plan;
} setting;

/* Lists take names from the front of this array. */
static const char *const splits[] = {"split1", "split3"};
static const char *const domains[] = {"domain1", "domain2", ""};
static const char *const languages[] = {"language1"};
static const spsh_weight weights[] = {
    {"domain1", SPSH_NONE_U32, 0.5},
    {"domain2", 0,             3.0},
    {"domain4", 1,             1.0},
    {"",        SPSH_NONE_U32, 0.1},
};

/* Version 14 of clang-format crashes on this. */
/* clang-format off */
#define PLAN(alpha_, ...) {sizeof(spsh_plan_options), .alpha = (alpha_), __VA_ARGS__}

static const setting settings[] = {
    {1, PLAN(1, .seed = 1)},
    {3, PLAN(1, .seed = 2, .batch_seconds_max = 60, .window_utterances = 100)},
    {2, PLAN(1, .seed = 3, .batch_padded_seconds_max = 40, .window_utterances = 64,
             .sample_rate_hz = 8000)},
    {5, PLAN(1, .batch_utterances_max = 7, .window_utterances = 90, .shuffle_block_utterances = 8)},
    {2, PLAN(0.5, .seed = UINT64_MAX, .batch_seconds_max = 50, .window_utterances = 77)},
    {3, PLAN(0, .seed = 5, .batch_seconds_max = 45, .window_utterances = 120,
             .unit = SPSH_UNIT_UTTERANCES)},
    {1, PLAN(0.25, .seed = 6, .batch_utterances_max = 11, .unit = SPSH_UNIT_TOKENS)},
    {4, PLAN(1, .seed = 7, .batch_seconds_max = 31, .window_utterances = 50, .weights = weights,
             .weight_count = 4)},
    {3, PLAN(1, .seed = 8, .batch_seconds_max = 31, .weights = weights, .weight_count = 2,
             .unit = SPSH_UNIT_UTTERANCES, .shuffle_block_utterances = 16)},
    {3, PLAN(1, .seed = 9, .batch_seconds_max = 60, .virtual_world_size = 8,
             .window_utterances = 200,
             .sample_rate_hz = 16000)},
    {2, PLAN(1, .seed = 10, .batch_seconds_max = 60, .virtual_world_size = 3,
             .flags = SPSH_PLAN_DROP_LAST)},
    {5, PLAN(1, .seed = 11, .batch_seconds_max = 60,
             .flags = SPSH_PLAN_DROP_LAST | SPSH_PLAN_BY_CHANNELS)},
    {2, PLAN(1, .seed = 12, .batch_seconds_max = 3, .long_utterances = SPSH_LONG_SPLIT,
             .window_utterances = 60)},
    {2, PLAN(0, .seed = 13, .batch_padded_seconds_max = 5, .long_utterances = SPSH_LONG_SPLIT,
             .window_utterances = 60, .unit = SPSH_UNIT_UTTERANCES)},
    {1, PLAN(1, .seed = 14, .batch_seconds_max = 9, .long_utterances = SPSH_LONG_DROP)},
    {2, PLAN(1, .seed = 15, .flags = SPSH_PLAN_IN_ORDER, .batch_seconds_max = 50,
             .window_utterances = 130)},
    {2, PLAN(0, .seed = 16, .flags = SPSH_PLAN_IN_ORDER, .batch_utterances_max = 40,
             .sample_rate_hz = 8000)},
    {2, PLAN(1, .seed = 17, .splits = splits, .split_count = 2, .languages = languages,
             .language_count = 1,
             .batch_seconds_max = 60)},
    {2, PLAN(1, .seed = 18, .domains = domains, .domain_count = 3, .utterance_seconds_min = 2.5,
             .utterance_seconds_max = 12, .batch_seconds_max = 40)},
    {2, PLAN(1, .seed = 19, .duplicates = SPSH_DUPLICATES_ONCE, .languages = languages,
             .language_count = 1,
             .batch_seconds_max = 60)},
    {2, PLAN(1, .seed = 20, .speaker_utterances_max = 9, .batch_seconds_max = 60)},
    {2, PLAN(2, .seed = 21, .speaker_utterances_max = 30, .duplicates = SPSH_DUPLICATES_ONCE,
             .batch_seconds_max = 32, .batch_utterances_max = 4, .window_utterances = 333)},
};
/* clang-format on */
enum { SETTINGS = sizeof(settings) / sizeof(settings[0]) };

/* ---- input ---- */

static uint64_t make_rows(index_row *rows, uint64_t count, uint64_t *random)
{
    for (uint64_t p = 0; p < count; p++) {
        const uint64_t draw = test_random(random);
        const uint64_t original = test_random(random) % (p + 1);
        uint32_t domain = 0; /* sizes that halve; the first: no name */
        while (domain < 4 && (draw >> domain & 1) != 0)
            domain++;
        rows[p] = (index_row){.samples = 1600 + test_random(random) % 240000,
                              .sample_rate_hz = (draw >> 8) % 4 == 0 ? 8000 : 16000,
                              .channels = (draw >> 12) % 5 == 0 ? 2 : 1,
                              .domain = domain,
                              .split = (uint32_t)(draw >> 16) % 4,
                              .speaker = (uint32_t)(draw >> 20) % 12,
                              .language = (uint32_t)(draw >> 24) % 3,
                              .text_bytes = (uint32_t)(draw >> 28) % 150};
        if (original < p && (draw >> 40) % 8 == 0 && rows[original].copy_of == 0) {
            rows[p].samples = rows[original].samples;
            rows[p].sample_rate_hz = rows[original].sample_rate_hz;
            rows[p].channels = rows[original].channels;
            rows[p].copy_of = original + 1;
        }
    }
    /* Use every name at least once, independent of the draws. */
    for (uint32_t i = 0; i < 12; i++) {
        rows[i].domain = i % 5;
        rows[i].split = i % 4;
        rows[i].speaker = i;
        rows[i].language = i % 3;
    }
    return count;
}

static void print_rows(const index_row *rows, uint64_t count)
{
    putchar('[');
    for (uint64_t p = 0; p < count; p++)
        printf("%s[%" PRIu64 ",%u,%u,%u,%u,%u,%u,%u,%" PRIu64 "]", p == 0 ? "" : ",",
               rows[p].samples, rows[p].sample_rate_hz, rows[p].channels, rows[p].domain,
               rows[p].split, rows[p].speaker, rows[p].language, rows[p].text_bytes,
               rows[p].copy_of);
    putchar(']');
}

static void print_names(const char *key, const char *const *names, uint32_t count)
{
    printf(", \"%s\": [", key);
    for (uint32_t i = 0; i < count; i++)
        printf("%s\"%s\"", i == 0 ? "" : ", ", names[i]);
    putchar(']');
}

static void print_setting(const setting *s)
{
    const spsh_plan_options *o = &s->plan;
    printf("{\"world_size\": %u, \"seed\": %" PRIu64 ", \"unit\": %d, \"alpha\": %.17g",
           s->world_size, o->seed, (int)o->unit, o->alpha);
    printf(", \"min\": %.17g, \"max\": %.17g, \"speaker\": %u, \"once\": %d, \"long\": %d",
           o->utterance_seconds_min, o->utterance_seconds_max, o->speaker_utterances_max,
           (int)o->duplicates, (int)o->long_utterances);
    printf(", \"utterances\": %u, \"seconds\": %.17g, \"padded\": %.17g, \"window\": %u",
           o->batch_utterances_max, o->batch_seconds_max, o->batch_padded_seconds_max,
           o->window_utterances);
    printf(", \"run\": %u, \"virtual\": %u, \"rate\": %u, \"flags\": %u",
           o->shuffle_block_utterances, o->virtual_world_size, o->sample_rate_hz, o->flags);
    print_names("splits", o->splits, o->split_count);
    print_names("domains", o->domains, o->domain_count);
    print_names("languages", o->languages, o->language_count);
    printf(", \"weights\": [");
    for (uint32_t i = 0; i < o->weight_count; i++)
        printf("%s[\"%s\", %" PRId64 ", %.17g]", i == 0 ? "" : ", ", o->weights[i].domain,
               o->weights[i].dataset == SPSH_NONE_U32 ? -1 : (int64_t)o->weights[i].dataset,
               o->weights[i].weight);
    putchar(']');
}

static void print_cursor(const spsh_plan *plan, const spsh_position *position, size_t from,
                         size_t to)
{
    uint8_t cursor[SPSH_CURSOR_BYTES];
    spsh_cursor_encode(plan, position, 0, cursor);
    for (size_t i = from; i < to; i++)
        printf("%02x", cursor[i]);
}

/* ---- the order ---- */

static void print_item(const spsh_item *item)
{
    printf(" %u/%" PRIu64 "/%" PRIu64 "/%" PRIu64 "/%" PRIu64, item->dataset, item->position,
           item->start_sample, item->samples, item->pass);
}

static void print_substitutes(spsh_sampler *sampler, const spsh_planned_batch *batch)
{
    printf("substitutes of%s:", batch->item_count == 0 ? " none" : "");
    for (uint32_t attempt = 0; attempt < ATTEMPTS && batch->item_count > 0; attempt++) {
        const spsh_item wanted = batch->items[0]; /* the call may move the batch */
        spsh_item item;
        spsh_status rc =
            spsh_sampler_substitute(sampler, &batch->at, &wanted, attempt, &item, &err);
        if (rc == SPSH_E_NOT_FOUND)
            break;
        must(rc);
        print_item(&item);
    }
    putchar('\n');
}

/* Prints one line per rank; false at the end of the epoch. */
static bool print_call(const spsh_plan *plan, spsh_sampler *const *samplers, uint32_t world_size,
                       uint64_t call)
{
    bool more = true;
    for (uint32_t rank = 0; rank < world_size; rank++) {
        spsh_planned_batch batch = SPSH_PLANNED_BATCH_INIT;
        spsh_status rc = spsh_sampler_next(samplers[rank], &batch, &err);
        REQUIRE(rank == 0 || more == (rc == SPSH_OK));
        more = rc == SPSH_OK;
        if (rc == SPSH_E_END)
            continue;
        must(rc);
        printf("epoch %" PRIu64 " call %" PRIu64 " rank %u flags %u step %" PRIu64 " ", batch.epoch,
               call, rank, batch.flags, batch.step);
        print_cursor(plan, &batch.next, 40, SPSH_CURSOR_BYTES);
        for (uint32_t i = 0; i < batch.item_count; i++)
            print_item(&batch.items[i]);
        putchar('\n');
        if (batch.at.window_batch == 0 && (batch.flags & SPSH_BATCH_EMPTY) == 0)
            print_substitutes(samplers[rank], &batch);
    }
    return more;
}

static void print_order(const spsh_plan *plan, uint32_t world_size)
{
    spsh_sampler *samplers[WORLD_MAX] = {NULL};
    for (uint32_t rank = 0; rank < world_size; rank++)
        must(spsh_sampler_open(plan, rank, world_size, &samplers[rank], &err));
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        uint64_t call = 0;
        while (print_call(plan, samplers, world_size, call))
            call++;
    }
    for (uint32_t rank = 0; rank < world_size; rank++)
        spsh_sampler_close(samplers[rank]);
}

int main(void)
{
    static index_row rows[DATASETS][ROWS_MAX];
    const uint64_t sizes[DATASETS] = {ROWS_MAX, 150};
    char folder[512], paths[DATASETS][600];
    spsh_dataset *datasets[DATASETS] = {NULL};
    uint64_t random = test_seed(20);
    test_temp_dir(folder, sizeof(folder));
    for (uint32_t d = 0; d < DATASETS; d++) {
        make_rows(rows[d], sizes[d], &random);
        (void)snprintf(paths[d], sizeof(paths[d]), "%s/d%u", folder, d);
        index_dataset_write(paths[d], rows[d], sizes[d], (uint8_t)d);
        must(spsh_dataset_open(paths[d], NULL, &datasets[d], &err));
    }
    for (size_t i = 0; i < SETTINGS; i++) {
        const uint32_t count = i % 5 == 3 ? 1 : DATASETS; /* not all with several */
        const spsh_position begin = {.epoch = 0};
        spsh_plan *plan = NULL;
        must(spsh_plan_open((const spsh_dataset *const *)datasets, count, &settings[i].plan, &plan,
                            &err));
        print_setting(&settings[i]);
        printf(", \"keys\": \"");
        print_cursor(plan, &begin, 16, 40);
        printf("\", \"rows\": [");
        for (uint32_t d = 0; d < count; d++) {
            printf("%s", d == 0 ? "" : ", ");
            print_rows(rows[d], sizes[d]);
        }
        printf("]}\n");
        print_order(plan, settings[i].world_size);
        spsh_plan_close(plan);
    }
    for (uint32_t d = 0; d < DATASETS; d++)
        spsh_dataset_close(datasets[d]);
    test_remove_tree(folder);
    return TEST_RESULT();
}
