/* plan_lengths.c: the file of lengths: the header of cache files (plan_cache.c), then per dataset
 *
 *     u32 samples of each row; UINT32_MAX: more. Padded with zeros to a multiple of 64 rows
 *     u64 XXH3-64 of each group of 64 rows, seeded with the number of the group
 *
 * Open checks only the file's size. Each access compares the hash of its group: that is cheaper
 * than recording which groups have been checked.
 */
#include "plan_lengths.h"

#include <xxhash.h>

#include "plan_cache.h"
#include "speechshard/io.h"

enum { GROUP_ROWS = 64, GROUP_BYTES = 4 * GROUP_ROWS, BUFFER_GROUPS = 2048 };

static spsh__cache_key key_of(const spsh_plan *plan)
{
    return (spsh__cache_key){
        SPSH__CACHE_LENGTHS, {plan->dataset_key, 0, 0, 0, 0}
    };
}

static uint64_t groups_of(const spsh__plan_dataset *d)
{
    return (d->count + GROUP_ROWS - 1) / GROUP_ROWS;
}

static uint64_t file_bytes(const spsh_plan *plan)
{
    uint64_t size = SPSH__CACHE_HEAD_BYTES;
    for (uint32_t d = 0; d < plan->dataset_count; d++)
        size += groups_of(&plan->datasets[d]) * (GROUP_BYTES + 8);
    return size;
}

void spsh__lengths_open(spsh_plan *plan)
{
    const spsh__cache_key key = key_of(plan);
    spsh__cache_mapping m;
    if (plan->cache_dir == NULL || !spsh__cache_map(plan, &key, &m))
        return;
    if (m.size_bytes != file_bytes(plan) || m.body_bytes != m.size_bytes) {
        spsh__cache_unmap(&m);
        return;
    }
    const uint8_t *at = m.data + SPSH__CACHE_HEAD_BYTES;
    for (uint32_t d = 0; d < plan->dataset_count; d++) {
        spsh__plan_dataset *of = &plan->datasets[d];
        of->lengths = at;
        of->length_hashes = at + GROUP_BYTES * groups_of(of);
        at += groups_of(of) * (GROUP_BYTES + 8);
    }
    plan->lengths_map = m.data;
    plan->lengths_map_bytes = m.size_bytes;
}

void spsh__lengths_close(spsh_plan *plan)
{
    const spsh__cache_mapping m = {plan->lengths_map, plan->lengths_map_bytes, 0};
    const spsh__cache_key key = key_of(plan);
    spsh__cache_unmap(&m);
    if (plan->lengths_map != NULL && atomic_load(&plan->damage->is_found))
        spsh__cache_remove(plan, &key);
}

void spsh__lengths_prefetch(const spsh__plan_dataset *dataset, uint64_t position)
{
    uint64_t number = position / GROUP_ROWS;
    for (size_t at = 0; at < GROUP_BYTES; at += 64)
        __builtin_prefetch(dataset->lengths + number * GROUP_BYTES + at);
    __builtin_prefetch(dataset->length_hashes + 8 * number);
}

bool spsh__lengths_get(const spsh_plan *plan, uint32_t dataset, uint64_t position,
                       uint64_t *ret_samples)
{
    const spsh__plan_dataset *d = &plan->datasets[dataset];
    uint64_t number = position / GROUP_ROWS;
    const uint8_t *group = d->lengths + number * GROUP_BYTES;
    if (XXH3_64bits_withSeed(group, GROUP_BYTES, number) !=
        spsh__load_u64le(d->length_hashes + 8 * number)) {
        atomic_store_explicit(&plan->damage->is_found, true, memory_order_relaxed);
        return false;
    }
    uint32_t samples = spsh__load_u32le(group + 4 * (position % GROUP_ROWS));
    *ret_samples = samples;
    return samples != UINT32_MAX;
}

/* ---- writing ---- */

static void fill_group(const spsh__plan_dataset *d, uint64_t number, uint8_t *group)
{
    memset(group, 0, GROUP_BYTES);
    for (uint32_t i = 0; i < GROUP_ROWS && number * GROUP_ROWS + i < d->count; i++) {
        uint64_t samples = spsh__load_u64le(d->samples + 8 * (number * GROUP_ROWS + i));
        spsh__store_u32le(group + (size_t)4 * i,
                          samples < UINT32_MAX ? (uint32_t)samples : UINT32_MAX);
    }
}

static spsh_status write_dataset(spsh_file_writer *file, const spsh__plan_dataset *d,
                                 uint8_t *buffer, uint8_t *hashes)
{
    spsh_status rc = SPSH_OK;
    uint64_t count = groups_of(d);
    for (uint64_t first = 0; first < count && rc == SPSH_OK; first += BUFFER_GROUPS) {
        uint64_t here = count - first < BUFFER_GROUPS ? count - first : BUFFER_GROUPS;
        for (uint64_t i = 0; i < here; i++) {
            fill_group(d, first + i, buffer + i * GROUP_BYTES);
            spsh__store_u64le(
                hashes + 8 * (first + i),
                XXH3_64bits_withSeed(buffer + i * GROUP_BYTES, GROUP_BYTES, first + i));
        }
        rc = spsh_file_writer_write(file, buffer, (size_t)here * GROUP_BYTES, NULL);
    }
    if (rc == SPSH_OK && count > 0)
        rc = spsh_file_writer_write(file, hashes, (size_t)count * 8, NULL);
    return rc;
}

void spsh__lengths_save(const spsh_plan *plan)
{
    const spsh_allocator *allocator = &plan->allocator;
    const spsh__cache_key key = key_of(plan);
    uint8_t head[SPSH__CACHE_HEAD_BYTES];
    spsh_file_writer *file = NULL;
    uint64_t groups_max = 0;
    if (plan->cache_dir == NULL || plan->lengths_map != NULL)
        return;
    for (uint32_t d = 0; d < plan->dataset_count; d++)
        if (groups_of(&plan->datasets[d]) > groups_max)
            groups_max = groups_of(&plan->datasets[d]);
    uint8_t *buffer = (uint8_t *)spsh__new(allocator, 1, (size_t)BUFFER_GROUPS * GROUP_BYTES);
    uint8_t *hashes = (uint8_t *)spsh__new(allocator, (size_t)groups_max, 8);
    spsh__cache_head(&key, file_bytes(plan), head);
    spsh_status rc = buffer == NULL || hashes == NULL ? SPSH_E_NO_MEMORY : SPSH_OK;
    if (rc == SPSH_OK)
        rc = spsh__cache_create(plan, &key, &file);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_write(file, head, sizeof(head), NULL);
    for (uint32_t d = 0; d < plan->dataset_count && rc == SPSH_OK; d++)
        rc = write_dataset(file, &plan->datasets[d], buffer, hashes);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_publish(file, SPSH_PUBLISH_REPLACE, NULL);
    (void)rc; /* without the file, opening is slower, but nothing else changes */
    spsh_file_writer_free(file);
    spsh__free(allocator, buffer);
    spsh__free(allocator, hashes);
}
