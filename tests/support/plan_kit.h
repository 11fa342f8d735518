/* plan_kit.h: helpers for tests of plans: an artificial dataset, opening, and serving an epoch. */
#ifndef PLAN_KIT_H
#define PLAN_KIT_H

#include "index_dataset.h"
#include "speechshard/sampler.h"
#include "spsh_test.h"

typedef struct plan_kit {
    char folder[512];
    char path[600];
    index_row *rows;
    uint64_t count;
    spsh_dataset *dataset;
} plan_kit;

/* Writes kit->rows and opens the dataset. */
static inline void plan_kit_open(plan_kit *kit, uint8_t tag)
{
    spsh_error err = SPSH_ERROR_INIT;
    test_temp_dir(kit->folder, sizeof(kit->folder));
    (void)snprintf(kit->path, sizeof(kit->path), "%s/dataset", kit->folder);
    index_dataset_write(kit->path, kit->rows, kit->count, tag);
    if (spsh_dataset_open(kit->path, NULL, &kit->dataset, &err) != SPSH_OK)
        test_stop(__FILE__, __LINE__, err.message);
}

static inline void plan_kit_close(plan_kit *kit)
{
    spsh_dataset_close(kit->dataset);
    test_remove_tree(kit->folder);
    free(kit->rows);
}

/* Make `count` random rows of 0.5 to 20 s. Each domain is half as large as the one before. */
static inline void plan_kit_fill(plan_kit *kit, uint64_t count, uint32_t domains, uint64_t random)
{
    kit->count = count;
    kit->rows = (index_row *)calloc((size_t)count, sizeof(index_row));
    REQUIRE(kit->rows != NULL);
    for (uint64_t p = 0; p < count; p++) {
        uint64_t draw = test_random(&random);
        uint32_t domain = 1;
        while (domain < domains && (draw >> domain & 1) != 0)
            domain++;
        kit->rows[p] = (index_row){.samples = 8000 + test_random(&random) % 312000,
                                   .domain = domain,
                                   .split = (uint32_t)(p % 3) + 1,
                                   .speaker = (uint32_t)(test_random(&random) % 50),
                                   .language = (uint32_t)(p % 2),
                                   .text_bytes = (uint32_t)(test_random(&random) % 200)};
    }
}

static inline spsh_plan *plan_kit_plan(const plan_kit *kit, const spsh_plan_options *options)
{
    const spsh_dataset *const list[] = {kit->dataset};
    spsh_error err = SPSH_ERROR_INIT;
    spsh_plan *plan = NULL;
    if (spsh_plan_open(list, 1, options, &plan, &err) != SPSH_OK)
        test_stop(__FILE__, __LINE__, err.message);
    return plan;
}

static inline spsh_sampler *plan_kit_sampler(const spsh_plan *plan, uint32_t rank,
                                             uint32_t world_size)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_sampler *sampler = NULL;
    if (spsh_sampler_open(plan, rank, world_size, &sampler, &err) != SPSH_OK)
        test_stop(__FILE__, __LINE__, err.message);
    return sampler;
}

/* A hash that is equal for two batches only if they have the same items in the same order. */
static inline uint64_t plan_kit_hash(const spsh_planned_batch *batch)
{
    uint64_t hash = batch->item_count;
    for (uint32_t i = 0; i < batch->item_count; i++) {
        const spsh_item *item = &batch->items[i];
        const uint64_t values[] = {item->dataset, item->position, item->start_sample, item->samples,
                                   item->pass,    item->domain,   item->microseconds};
        for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
            uint64_t state = hash ^ values[v];
            hash = test_random(&state) + v;
        }
    }
    return hash;
}

#endif
