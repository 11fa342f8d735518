/* cmd_bench_load.c: measure the loader with a consumer that returns every batch at once.
 *
 * The clock starts after as many batches as there are slots. So the rate excludes the opening and
 * the batches decoded before the first call.
 */
#include <string.h>

#include "cmd_bench_parts.h"

/* Get one batch. Continues after the end of an epoch. */
static spsh_status take_batch(spsh_loader *loader, spsh_error *err)
{
    const spsh_batch *batch = NULL;
    spsh_status rc = spsh_loader_next(loader, &batch, err);
    if (rc == SPSH_OK)
        spsh_loader_release(loader, batch);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

/* Replace each counter in end by its increase since begin. */
static void subtract(spsh_loader_stats *end, const spsh_loader_stats *begin)
{
    end->batches -= begin->batches;
    end->empty_batches -= begin->empty_batches;
    end->utterances -= begin->utterances;
    end->microseconds -= begin->microseconds;
    end->padded_microseconds -= begin->padded_microseconds;
    end->copied_bytes -= begin->copied_bytes;
    end->reads -= begin->reads;
    end->read_bytes -= begin->read_bytes;
    end->needed_bytes -= begin->needed_bytes;
    end->coalesced_reads -= begin->coalesced_reads;
    end->range_reads -= begin->range_reads;
    end->slow_reads -= begin->slow_reads;
    end->retries -= begin->retries;
    end->bad_records -= begin->bad_records;
    end->bad_sounds -= begin->bad_sounds;
    end->decode_cpu_ns -= begin->decode_cpu_ns;
    end->feature_cpu_ns -= begin->feature_cpu_ns;
    end->io_cpu_ns -= begin->io_cpu_ns;
    end->wait_ns -= begin->wait_ns;
    end->stalls -= begin->stalls;
}

static spsh_status measure(spsh_loader *loader, double opened_wall, double seconds,
                           spsh__bench_loaded *loaded, spsh_error *err)
{
    spsh_loader_stats before = SPSH_LOADER_STATS_INIT;
    spsh_status rc = take_batch(loader, err);
    loaded->first_batch_seconds = spsh__cli_now_s() - opened_wall;
    spsh_loader_stats_get(loader, &before);
    const double warm_wall = spsh__cli_now_s() + seconds / 2;
    for (uint32_t i = 1; rc == SPSH_OK && i < before.slots && spsh__cli_now_s() < warm_wall; i++)
        rc = take_batch(loader, err);
    spsh_loader_stats_get(loader, &before);
    const spsh__bench_clock begin = spsh__bench_now();
    while (rc == SPSH_OK && spsh__cli_now_s() < begin.wall + seconds)
        rc = take_batch(loader, err);
    const spsh__bench_clock end = spsh__bench_now();
    loaded->stats = (spsh_loader_stats)SPSH_LOADER_STATS_INIT;
    spsh_loader_stats_get(loader, &loaded->stats);
    subtract(&loaded->stats, &before);
    loaded->seconds = end.wall - begin.wall;
    loaded->cpu_seconds = end.cpu - begin.cpu;
    return rc;
}

int spsh__bench_load(const spsh__datasets *datasets, const spsh_loader_options *options,
                     double seconds, spsh__bench_loaded *ret_loaded)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_loader *loader = NULL;
    spsh__bench_loaded loaded = {.seconds = 0};
    const double opened_wall = spsh__cli_now_s();
    if (spsh_loader_open((const spsh_dataset *const *)datasets->items, datasets->count, options,
                         &loader, &err) != SPSH_OK)
        return spsh__plan_fail("bench", &err);
    spsh_status rc = measure(loader, opened_wall, seconds, &loaded, &err);
    spsh_loader_close(loader);
    if (rc != SPSH_OK)
        return spsh__plan_fail("bench", &err);
    *ret_loaded = loaded;
    return SPSH_EXIT_DONE;
}
