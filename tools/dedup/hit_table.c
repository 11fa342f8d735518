/* hit_table.c: a row of `keep` hits a thing, sorted; one lock for every 64th thing. */
#include "hit_table.h"

#include <pthread.h>
#include <stdlib.h>

#include "fail.h"

enum { LOCKS = 64 };

struct spsh__hit_table {
    spsh__hit *hits; /* keep of each thing */
    uint64_t *counts;
    uint32_t keep;
    pthread_mutex_t locks[LOCKS];
};

spsh_status spsh__hit_table_open(uint64_t count, uint32_t keep, spsh__hit_table **ret_table,
                                 spsh_error *err)
{
    if (count > SIZE_MAX / sizeof(spsh__hit) / keep)
        return SPSH_DEDUP_NO_MEMORY(err);
    spsh__hit_table *table = calloc(1, sizeof(*table));
    if (table == NULL)
        return SPSH_DEDUP_NO_MEMORY(err);
    for (unsigned i = 0; i < LOCKS; i++)
        (void)pthread_mutex_init(&table->locks[i], NULL);
    table->keep = keep;
    /* From calloc, so that things without hits cost no memory that is used. */
    table->hits = calloc((size_t)count + 1, keep * sizeof(*table->hits));
    table->counts = calloc((size_t)count + 1, sizeof(*table->counts));
    if (table->hits == NULL || table->counts == NULL) {
        spsh__hit_table_free(table);
        return SPSH_DEDUP_NO_MEMORY(err);
    }
    *ret_table = table;
    return SPSH_OK;
}

void spsh__hit_table_add(spsh__hit_table *table, uint64_t thing, const spsh__hit *hit)
{
    pthread_mutex_t *lock = &table->locks[thing % LOCKS];
    spsh__hit *hits = table->hits + thing * table->keep;
    (void)pthread_mutex_lock(lock);
    const uint64_t count = table->counts[thing]++;
    uint32_t at = count < table->keep ? (uint32_t)count : table->keep;
    if (at < table->keep || hit->ordinal < hits[at - 1].ordinal) {
        if (at == table->keep)
            at--;
        while (at > 0 && hits[at - 1].ordinal > hit->ordinal) {
            hits[at] = hits[at - 1];
            at--;
        }
        hits[at] = *hit;
    }
    (void)pthread_mutex_unlock(lock);
}

uint64_t spsh__hit_table_get(const spsh__hit_table *table, uint64_t thing,
                             const spsh__hit **ret_hits, uint32_t *ret_kept)
{
    const uint64_t count = table->counts[thing];
    *ret_hits = table->hits + thing * table->keep;
    *ret_kept = count < table->keep ? (uint32_t)count : table->keep;
    return count;
}

uint64_t spsh__hit_table_bytes(uint64_t count, uint32_t keep)
{
    return count * (sizeof(uint64_t) + keep * sizeof(spsh__hit));
}

void spsh__hit_table_free(spsh__hit_table *table)
{
    if (table == NULL)
        return;
    for (unsigned i = 0; i < LOCKS; i++)
        (void)pthread_mutex_destroy(&table->locks[i]);
    free(table->hits);
    free(table->counts);
    free(table);
}
