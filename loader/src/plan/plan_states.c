/* plan_states.c: two tables, each for one epoch, under one mutex.
 *
 * The state of a window takes 16 bytes per domain. If the states of all windows would exceed
 * STATES_BYTES_MAX, only every n-th state is kept, and a seek walks through up to n - 1 windows.
 * With one domain no state is kept, because the number of a window gives its beginning.
 *
 * With a cache directory, a table is loaded from its file there, and written back from time to
 * time.
 */
#include "plan_states.h"

#include <pthread.h>

#include "plan_cache.h"

#define STATES_BYTES_MAX (UINT64_C(32) << 20)

typedef struct epoch_table {
    uint64_t epoch;
    uint64_t used;     /* clock at the last use; 0: empty */
    uint64_t news;     /* number of entries that the cache file lacks */
    uint32_t *batches; /* per window; SPSH_NONE_U32: not known */
    uint8_t *known;    /* per kept window: 1 if states has it */
    spsh__domain_state *states;
} epoch_table;

struct spsh__epoch_tables {
    pthread_mutex_t mutex;
    uint64_t clock;
    uint32_t stride;
    uint32_t kept_count; /* number of kept windows: 0, stride, 2 * stride, ... */
    epoch_table tables[2];
};

static spsh_status open_tables(spsh_plan *plan, spsh__epoch_tables *t, spsh_error *err)
{
    const spsh_allocator *allocator = &plan->allocator;
    uint64_t state_bytes = plan->domain_count * sizeof(spsh__domain_state);
    uint64_t windows = plan->info.window_count;
    uint64_t kept_max = STATES_BYTES_MAX / state_bytes + 1;
    t->stride = (uint32_t)((windows + kept_max - 1) / kept_max);
    t->kept_count = plan->domain_count == 1 ? 0 : (uint32_t)((windows - 1) / t->stride + 1);
    for (size_t i = 0; i < 2; i++) {
        epoch_table *table = &t->tables[i];
        table->batches = (uint32_t *)spsh__new(allocator, (size_t)windows, sizeof(uint32_t));
        table->known = (uint8_t *)spsh__new(allocator, 1, t->kept_count);
        table->states =
            (spsh__domain_state *)spsh__new(allocator, t->kept_count, (size_t)state_bytes);
        if (table->batches == NULL || table->known == NULL || table->states == NULL)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "tables of windows");
    }
    return SPSH_OK;
}

spsh_status spsh__states_open(spsh_plan *plan, spsh_error *err)
{
    spsh__epoch_tables *t =
        (spsh__epoch_tables *)spsh__new(&plan->allocator, 1, sizeof(spsh__epoch_tables));
    if (t == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "tables of windows");
    if (pthread_mutex_init(&t->mutex, NULL) != 0) {
        spsh__free(&plan->allocator, t);
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "mutex");
    }
    plan->tables = t;
    return open_tables(plan, t, err);
}

void spsh__states_close(spsh_plan *plan)
{
    spsh__epoch_tables *t = plan->tables;
    if (t == NULL)
        return;
    for (size_t i = 0; i < 2; i++) {
        spsh__free(&plan->allocator, t->tables[i].batches);
        spsh__free(&plan->allocator, t->tables[i].known);
        spsh__free(&plan->allocator, t->tables[i].states);
    }
    (void)pthread_mutex_destroy(&t->mutex);
    spsh__free(&plan->allocator, t);
    plan->tables = NULL;
}

static spsh__cache_states cached(const spsh_plan *plan, const epoch_table *table)
{
    return (spsh__cache_states){table->epoch,
                                plan->info.window_count,
                                plan->tables->kept_count,
                                table->batches,
                                table->known,
                                table->states};
}

/* Return the table of an epoch. A new one replaces the least recently used. Call with the mutex
 * locked. */
static epoch_table *table_of(const spsh_plan *plan, uint64_t epoch)
{
    spsh__epoch_tables *t = plan->tables;
    epoch_table *found = NULL;
    for (size_t i = 0; i < 2; i++)
        if (t->tables[i].used != 0 && t->tables[i].epoch == epoch)
            found = &t->tables[i];
    if (found == NULL) {
        found = t->tables[0].used <= t->tables[1].used ? &t->tables[0] : &t->tables[1];
        found->epoch = epoch;
        memset(found->known, 0, t->kept_count);
        memset(found->batches, 0xff, plan->info.window_count * sizeof(uint32_t));
        found->news = 0;
        const spsh__cache_states states = cached(plan, found);
        if (plan->cache_dir != NULL)
            (void)spsh__cache_load_states(plan, &states);
    }
    found->used = ++t->clock;
    return found;
}

bool spsh__states_find(const spsh_plan *plan, uint64_t epoch, uint32_t low, uint32_t high,
                       uint32_t *ret_window, spsh__domain_state *ret_states)
{
    spsh__epoch_tables *t = plan->tables;
    bool found = false;
    (void)pthread_mutex_lock(&t->mutex);
    const epoch_table *table = table_of(plan, epoch);
    if (t->kept_count > 0) {
        uint32_t kept = high / t->stride;
        kept = kept < t->kept_count ? kept : t->kept_count - 1;
        while (kept > 0 && !table->known[kept])
            kept--;
        found = table->known[kept] && kept * t->stride >= low;
        if (found) {
            *ret_window = kept * t->stride;
            memcpy(ret_states, table->states + (size_t)kept * plan->domain_count,
                   plan->domain_count * sizeof(*ret_states));
        }
    }
    (void)pthread_mutex_unlock(&t->mutex);
    return found;
}

void spsh__states_keep(const spsh_plan *plan, uint64_t epoch, uint32_t window,
                       const spsh__domain_state *states)
{
    spsh__epoch_tables *t = plan->tables;
    if (window % t->stride != 0 || window / t->stride >= t->kept_count)
        return;
    (void)pthread_mutex_lock(&t->mutex);
    epoch_table *table = table_of(plan, epoch);
    uint32_t kept = window / t->stride;
    if (!table->known[kept]) {
        memcpy(table->states + (size_t)kept * plan->domain_count, states,
               plan->domain_count * sizeof(*states));
        table->known[kept] = 1;
        table->news++;
    }
    (void)pthread_mutex_unlock(&t->mutex);
}

uint32_t spsh__states_batches(const spsh_plan *plan, uint64_t epoch, uint32_t window)
{
    spsh__epoch_tables *t = plan->tables;
    (void)pthread_mutex_lock(&t->mutex);
    uint32_t batches = table_of(plan, epoch)->batches[window];
    (void)pthread_mutex_unlock(&t->mutex);
    return batches;
}

void spsh__states_keep_batches(const spsh_plan *plan, uint64_t epoch, uint32_t window,
                               uint32_t batches)
{
    spsh__epoch_tables *t = plan->tables;
    (void)pthread_mutex_lock(&t->mutex);
    epoch_table *table = table_of(plan, epoch);
    table->news += table->batches[window] != batches;
    table->batches[window] = batches;
    (void)pthread_mutex_unlock(&t->mutex);
}

void spsh__states_save(const spsh_plan *plan, bool only_much)
{
    spsh__epoch_tables *t = plan->tables;
    uint64_t much = plan->info.window_count / 8 + 64;
    if (plan->cache_dir == NULL)
        return;
    (void)pthread_mutex_lock(&t->mutex);
    for (size_t i = 0; i < 2; i++) {
        epoch_table *table = &t->tables[i];
        if (table->used == 0 || table->news < (only_much ? much : 1))
            continue;
        const spsh__cache_states states = cached(plan, table);
        spsh__cache_save_states(plan, &states);
        table->news = 0;
    }
    (void)pthread_mutex_unlock(&t->mutex);
}
