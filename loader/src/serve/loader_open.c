/* loader_open.c: open and close a loader: options, memory, threads.
 *
 * memory_bytes is divided once, at open:
 *
 *     1/16  budget for tables of utterances, ids, texts, and resampling: allocated as needed, up
 *           to this limit
 *     1/16  decompressed texts of the datasets, see texts.h
 *     1/16  staging of reads. At most 33 MiB, or 6 MiB with the page cache: these stay in the CPU
 *           cache, and an unprivileged process may lock them by default
 *     a chunk per decode thread, and its memory for augmentation and features
 *     rest  slots: the requested number, or as many as fit, each with 64 KiB more for small tables
 *
 * Device memory does not count: each slot has additional memory there.
 */
#include "speechshard/loader.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "batch/render.h"
#include "decode.h"
#include "device_slots.h"
#include "fetch.h"
#include "speechshard/cores.h"
#include "speechshard/options.h"

#define ULL(value_) ((unsigned long long)(value_))
#define NONE        SPSH_OFFSET_NONE

#define STAGING_BYTES_MAX        ((uint64_t)33 << 20) /* 32 reads of 1 MiB, widened */
#define STAGING_BYTES_CACHED_MAX ((uint64_t)6 << 20)
#define STAGING_BYTES_MIN        ((uint64_t)128 << 10)
#define TABLE_BYTES              ((uint64_t)64 << 10)
#define TEXT_BLOCK_BYTES         ((uint64_t)96 << 10) /* 128 rows, compressed and decompressed */

enum {
    SLOTS_DEFAULT = 6,
    SLOW_READ_MS = 5000,
    READ_DEADLINE_MS = 60000,
    QUARANTINE_MIN = 16,
    QUARANTINE_SHARE = 10000, /* default limit: one in this many utterances of the epoch */
    BAD_SOUNDS_LOGGED = 16,
    FLAGS_KNOWN =
        SPSH_LOADER_CACHED | SPSH_LOADER_DIRECT | SPSH_LOADER_NO_TEXT | SPSH_LOADER_SQPOLL,
};

void spsh__log(const spsh_loader *loader, spsh_log_level level, const char *format, ...)
{
    char text[640];
    va_list args;
    if (loader->opt.log_fn == NULL)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    loader->opt.log_fn(loader->opt.log_user, level, text);
}

/* ---- options ---- */

static spsh_status check_options(const spsh_loader_options *opt, spsh_error *err)
{
    const char *bad = NULL;
    if ((unsigned)opt->output > SPSH_OUTPUT_FEATURES)
        bad = "output";
    else if (opt->channel < SPSH_CHANNEL_ALL || opt->channel > (int32_t)SPSH_CHANNELS_MAX)
        bad = "channel";
    else if ((unsigned)opt->engine > SPSH_ENGINE_PREAD)
        bad = "engine";
    else if ((unsigned)opt->on_error > SPSH_ON_ERROR_SUBSTITUTE)
        bad = "on_error";
    else if ((unsigned)opt->decode > SPSH_DECODE_DEVICE)
        bad = "decode";
    else if ((unsigned)opt->undecodable > SPSH_UNDECODABLE_FAIL)
        bad = "undecodable";
    else if (opt->is_asked && (opt->world_size > 1 || opt->plan->virtual_world_size > 1))
        bad = "world_size (with is_asked, it must be 1)";
    else if (opt->decode_threads > SPSH_LOADER_THREADS_MAX)
        bad = "decode_threads";
    else if (opt->slots == 1 || opt->slots > SPSH_LOADER_SLOTS_MAX)
        bad = "slots";
    else if ((opt->flags & ~(uint32_t)FLAGS_KNOWN) != 0 ||
             (opt->flags & SPSH_LOADER_CACHED && opt->flags & SPSH_LOADER_DIRECT))
        bad = "flags";
    else if (opt->arena != NULL && (opt->arena->alloc_fn == NULL || opt->arena->free_fn == NULL))
        bad = "arena";
    if (bad != NULL)
        return SPSH_FAIL_AT(err, SPSH_E_INVALID_ARG, NONE, "loader options: %s is out of range",
                            bad);
    if (opt->world_size == 0 ? opt->rank != 0 : opt->rank >= opt->world_size)
        return SPSH_FAIL_AT(err, SPSH_E_INVALID_ARG, NONE,
                            "loader options: rank is %" PRIu32 ", but world_size is %" PRIu32
                            "; ranks count from 0",
                            opt->rank, opt->world_size == 0 ? 1 : opt->world_size);
    if (opt->decode == SPSH_DECODE_DEVICE && opt->cuda == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_INVALID_ARG, NONE,
                            "loader options: decode is SPSH_DECODE_DEVICE, but cuda is NULL");
    return SPSH_OK;
}

static void fill_defaults(spsh_loader_options *opt, spsh_plan_options *plan)
{
    if (opt->world_size == 0)
        opt->world_size = 1;
    if (opt->decode_threads == 0)
        opt->decode_threads = spsh_core_count(UINT32_MAX);
    if (opt->decode_threads > SPSH_LOADER_THREADS_MAX)
        opt->decode_threads = SPSH_LOADER_THREADS_MAX;
    if (opt->slots == 0)
        opt->slots = SLOTS_DEFAULT;
    if (opt->memory_bytes == 0)
        opt->memory_bytes = SPSH_LOADER_MEMORY_DEFAULT;
    if (opt->slow_read_ms == 0)
        opt->slow_read_ms = SLOW_READ_MS;
    if (opt->read_deadline_ms == 0)
        opt->read_deadline_ms = READ_DEADLINE_MS;
    if (plan->batch_utterances_max == 0 && plan->batch_seconds_max == 0 &&
        plan->batch_padded_seconds_max == 0)
        plan->batch_seconds_max = SPSH_BATCH_SECONDS_DEFAULT;
    /* Padding needs memory, too. Without this limit, a batch with one long utterance and many short
     * ones would need a slot for as many long ones. */
    if (opt->output != SPSH_OUTPUT_INT16 && plan->batch_padded_seconds_max == 0 &&
        plan->batch_utterances_max == 0)
        plan->batch_padded_seconds_max = plan->batch_seconds_max;
    if (opt->channel == SPSH_CHANNEL_ALL)
        plan->flags |= SPSH_PLAN_BY_CHANNELS;
}

/* ---- memory ---- */

/* Available memory; 0: unknown. */
static uint64_t available_bytes(void)
{
    static const char name[] = "MemAvailable:";
    char line[128];
    uint64_t kib = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, name, sizeof(name) - 1) == 0)
            kib = strtoull(line + sizeof(name) - 1, NULL, 10);
    if (file != NULL)
        (void)fclose(file);
    return kib << 10;
}

static bool choose_cached(const spsh_loader *loader)
{
    uint64_t shard_bytes = 0;
    if ((loader->opt.flags & (SPSH_LOADER_CACHED | SPSH_LOADER_DIRECT)) != 0)
        return (loader->opt.flags & SPSH_LOADER_CACHED) != 0;
    for (uint32_t n = 0; n < loader->dataset_count; n++)
        shard_bytes += spsh_dataset_info_get(loader->datasets[n])->shard_bytes;
    return shard_bytes <= available_bytes() / 2;
}

static spsh_status divide_memory(spsh_loader *loader, spsh__slot_layout *ret_slot, spsh_error *err)
{
    const spsh_loader_options *opt = &loader->opt;
    const spsh_plan_info *info = spsh_plan_info_get(loader->plan);
    const uint64_t part = opt->memory_bytes / 16 & ~(uint64_t)(SPSH__ARENA_ALIGN - 1);
    const uint64_t most = loader->has_cached ? STAGING_BYTES_CACHED_MAX : STAGING_BYTES_MAX;
    uint64_t staging = part < most ? part : most;
    if (staging < STAGING_BYTES_MIN)
        staging = STAGING_BYTES_MIN;
    const uint64_t chunks = (uint64_t)opt->decode_threads * SPSH__CHUNK_BYTES;
    const uint64_t making = atomic_load(&loader->budget.used_bytes); /* nothing else is taken yet */
    const uint64_t others = staging + 2 * part + chunks + making;
    const uint64_t slots_bytes = opt->memory_bytes > others ? opt->memory_bytes - others : 0;
    spsh__recipe_slot_layout(&loader->recipe, opt, info, ret_slot);
    const uint64_t slot_bytes = ret_slot->host_bytes;
    if (slots_bytes / 2 < TABLE_BYTES || slot_bytes > slots_bytes / 2 - TABLE_BYTES) {
        static const char *const padded[] = {"", ", float32 and padded", ", padded features"};
        const double slot_mb = (double)slot_bytes / 1e6;
        return SPSH_FAIL_AT(
            err, SPSH_E_LIMIT, NONE,
            "memory_bytes is %llu, which leaves %.1f MB for slots; a slot for the largest batch "
            "(the longest utterance has %.1f s, %u Hz%s) needs %.1f MB, and there must be two: set "
            "memory_bytes to %.0f MB, or make batches smaller%s",
            ULL(opt->memory_bytes), (double)slots_bytes / 1e6,
            (double)info->longest_microseconds / 1e6, info->sample_rate_hz_max, padded[opt->output],
            slot_mb, (2 * slot_mb + (double)(chunks + making) / 1e6 + 1) * 16 / 13 + 1,
            opt->plan->batch_seconds_max > 0 || opt->plan->batch_padded_seconds_max > 0
                ? ""
                : " (batch_seconds_max limits them for any length of utterances)");
    }
    const uint64_t fit = slots_bytes / (slot_bytes + TABLE_BYTES);
    loader->slot_count = fit < opt->slots ? (uint32_t)fit : opt->slots;
    loader->staging_bytes = (size_t)staging;
    loader->budget.limit_bytes = part + chunks + making + loader->slot_count * TABLE_BYTES;
    if (loader->slot_count < opt->slots)
        spsh__log(loader, SPSH_LOG_INFO, "only %u slots of %.1f MB fit into memory_bytes, not %u",
                  loader->slot_count, (double)slot_bytes / 1e6, opt->slots);
    return SPSH_OK;
}

/* The policy for a noise or RIR that cannot be read. Under FAIL the utterance fails, else the noise
 * or RIR is omitted. Any thread. */
static bool may_omit(void *opaque, const spsh_error *why)
{
    spsh_loader *loader = (spsh_loader *)opaque;
    if (loader->opt.on_error == SPSH_ON_ERROR_FAIL)
        return false;
    if (atomic_fetch_add(&loader->counters.bad_sounds, 1) < BAD_SOUNDS_LOGGED)
        spsh__log(loader, SPSH_LOG_WARNING, "a noise or room impulse response is omitted: %s",
                  why->message);
    return true;
}

/* If memory ran out because of the budget, explain it. */
static spsh_status explain_lack(const spsh_loader *loader, spsh_status rc, spsh_error *err)
{
    if (rc != SPSH_E_NO_MEMORY || !atomic_load(&loader->budget.has_refused))
        return rc;
    return SPSH_FAIL_AT(
        err, SPSH_E_LIMIT, NONE,
        "memory_bytes is %llu, which is too little for augmentation and features on %u decode "
        "threads: increase it, use fewer threads, or exclude long utterances",
        ULL(loader->opt.memory_bytes), loader->opt.decode_threads);
}

/* Open one maker per decode thread, with all the memory that it will need. The slots get the
 * remaining memory. */
static spsh_status open_makers(spsh_loader *loader, spsh_error *err)
{
    const spsh_plan_info *info = spsh_plan_info_get(loader->plan);
    const uint32_t count = loader->opt.decode_threads;
    spsh_status rc = SPSH_OK;
    loader->makers = (spsh__maker *)spsh__new(&loader->allocator, count, sizeof(*loader->makers));
    if (loader->makers == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE, "loader: %u decode threads", count);
    for (uint32_t n = 0; n < count && rc == SPSH_OK; n++) {
        loader->makers[n].policy = (spsh__sound_policy){may_omit, loader};
        rc = spsh__maker_open(&loader->makers[n], &loader->recipe, info, &loader->budget, err);
    }
    return explain_lack(loader, rc, err);
}

static spsh_status open_slots(spsh_loader *loader, spsh_error *err)
{
    const spsh_allocator *allocator = &loader->allocator;
    spsh__slot_layout layout;
    spsh_status rc = divide_memory(loader, &layout, err);
    if (rc != SPSH_OK)
        return rc;
    const size_t arena_bytes = loader->staging_bytes + loader->slot_count * layout.host_bytes;
    rc = spsh__memory_open(loader->opt.arena, arena_bytes, &loader->memory, err);
    loader->opt.arena = NULL; /* the memory has a copy; the caller may free the arena */
    if (rc != SPSH_OK)
        return rc;
    loader->line_capacity = 2 * loader->slot_count + 2;
    loader->line =
        (spsh__line_place *)spsh__new(allocator, loader->line_capacity, sizeof(*loader->line));
    loader->slots = (spsh__slot *)spsh__new(allocator, loader->slot_count, sizeof(*loader->slots));
    loader->asks = (spsh__ask *)spsh__new(allocator, loader->slot_count, sizeof(*loader->asks));
    if (loader->line == NULL || loader->slots == NULL || loader->asks == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE, "loader: slots");
    spsh__memory_keep(&loader->memory, loader->staging_bytes);
    uint8_t *audio = loader->memory.data + loader->staging_bytes;
    for (uint32_t n = 0; n < loader->slot_count && rc == SPSH_OK; n++)
        rc = spsh__slot_open(&loader->slots[n], &loader->budget, audio + n * layout.host_bytes,
                             &layout, err);
    return rc == SPSH_OK ? spsh__device_start(loader, err) : rc;
}

/* ---- opening and closing ---- */

static spsh_status open_plan(spsh_loader *loader, const spsh_dataset *const *datasets,
                             spsh_error *err)
{
    spsh_plan_options *opt = &loader->plan_opt;
    spsh_status rc = spsh_plan_open(datasets, loader->dataset_count, opt, &loader->plan, err);
    if (rc != SPSH_OK)
        return rc;
    /* Clear the pointers that were borrowed only during the call. */
    opt->weights = NULL;
    opt->splits = NULL;
    opt->domains = NULL;
    opt->languages = NULL;
    opt->cache_dir = NULL;
    opt->progress_fn = NULL;
    opt->allocator = &loader->allocator;
    const spsh_plan_info *info = spsh_plan_info_get(loader->plan);
    const uint64_t share = info->utterance_count / QUARANTINE_SHARE;
    loader->bad.allocator = &loader->allocator;
    loader->bad.limit = loader->opt.quarantine_max;
    if (loader->bad.limit == 0)
        loader->bad.limit = share > QUARANTINE_MIN ? share : QUARANTINE_MIN;
    loader->domain_units = (uint64_t *)spsh__new(&loader->allocator, info->domain_count,
                                                 sizeof(*loader->domain_units));
    if (loader->domain_units == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE, "loader: %u domains", info->domain_count);
    return SPSH_OK;
}

static spsh_status open_texts(spsh_loader *loader, spsh_error *err)
{
    const uint64_t part = loader->opt.memory_bytes / 16;
    uint64_t count = part / TEXT_BLOCK_BYTES;
    if ((loader->opt.flags & SPSH_LOADER_NO_TEXT) != 0)
        return SPSH_OK;
    if (count <= loader->opt.decode_threads)
        count = loader->opt.decode_threads + 1;
    return spsh__texts_open(&loader->allocator, loader->datasets, (uint32_t)count, &loader->texts,
                            err);
}

static spsh_status open_locks(spsh_loader *loader, spsh_error *err)
{
    pthread_condattr_t steady;
    if (pthread_mutex_init(&loader->lock, NULL) != 0)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE, "loader: mutex");
    (void)pthread_condattr_init(&steady);
    (void)pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&loader->ready, &steady);
    (void)pthread_cond_init(&loader->wake, NULL);
    (void)pthread_cond_init(&loader->calm, NULL);
    (void)pthread_condattr_destroy(&steady);
    return SPSH_OK;
}

static spsh_status open_parts(spsh_loader *loader, const spsh_dataset *const *datasets,
                              spsh_error *err)
{
    loader->datasets = (const spsh_dataset **)spsh__new(&loader->allocator, loader->dataset_count,
                                                        sizeof(spsh_dataset *));
    if (loader->datasets == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE, "loader: %u datasets",
                            loader->dataset_count);
    memcpy((void *)loader->datasets, (const void *)datasets,
           loader->dataset_count * sizeof(spsh_dataset *));
    loader->has_cached = choose_cached(loader);
    loader->budget.allocator = loader->allocator;
    loader->budget.limit_bytes = loader->opt.memory_bytes;
    loader->budget_allocator = spsh__budget_allocator(&loader->budget);
    spsh_status rc = spsh__recipe_open(&loader->recipe, &loader->opt, datasets,
                                       loader->dataset_count, &loader->budget_allocator, err);
    if (rc == SPSH_OK && loader->recipe.featgen != NULL)
        loader->plan_opt.sample_rate_hz =
            spsh_featgen_features(loader->recipe.featgen)->sample_rate_hz;
    if (rc == SPSH_OK)
        rc = open_plan(loader, datasets, err);
    if (rc == SPSH_OK)
        rc = spsh__device_open(loader, err);
    if (rc == SPSH_OK)
        rc = open_makers(loader, err);
    if (rc == SPSH_OK)
        rc = open_slots(loader, err);
    if (rc == SPSH_OK)
        rc = open_texts(loader, err);
    if (rc == SPSH_OK)
        rc = spsh__fetch_open(loader, err);
    if (rc == SPSH_OK)
        rc = spsh__decode_start(loader, err);
    if (rc == SPSH_OK)
        rc = spsh__fetch_start(loader, err);
    return rc;
}

static void close_parts(spsh_loader *loader)
{
    const spsh_allocator allocator = loader->allocator;
    spsh__fetch_stop(loader);
    spsh__decode_stop(loader);
    spsh__fetch_close(loader);
    spsh__texts_close(loader->texts);
    spsh__device_close(loader);
    for (uint32_t n = 0; loader->slots != NULL && n < loader->slot_count; n++)
        spsh__slot_close(&loader->slots[n]);
    for (uint32_t n = 0; loader->makers != NULL && n < loader->opt.decode_threads; n++)
        spsh__maker_close(&loader->makers[n]);
    spsh__free(&allocator, loader->makers);
    spsh__recipe_close(&loader->recipe);
    spsh__free(&allocator, loader->slots);
    spsh__free(&allocator, loader->line);
    spsh__free(&allocator, loader->asks);
    spsh__memory_close(&loader->memory, false);
    spsh__bad_free(&loader->bad);
    spsh__free(&allocator, loader->domain_units);
    spsh_plan_close(loader->plan);
    spsh__free(&allocator, (void *)loader->datasets);
    spsh__queue_free(&loader->queue);
    (void)pthread_cond_destroy(&loader->calm);
    (void)pthread_cond_destroy(&loader->wake);
    (void)pthread_cond_destroy(&loader->ready);
    (void)pthread_mutex_destroy(&loader->lock);
    spsh__free(&allocator, loader);
}

/* Close in a forked child. At the fork, the parent's threads may have been anywhere, with any mutex
 * held. So free only mappings, descriptors, and memory whose pointer is fixed after open. Tables
 * that grow, readers, decoders, and everything of CUDA remain until the child exits. */
static void close_inherited(spsh_loader *loader)
{
    const spsh_allocator allocator = loader->allocator;
    spsh__fetch_close_inherited(loader);
    spsh__memory_close(&loader->memory, true);
    spsh__free(&allocator, loader->line);
    spsh__free(&allocator, loader->asks);
    spsh__free(&allocator, loader->domain_units);
    spsh_plan_close(loader->plan);
    spsh__free(&allocator, (void *)loader->datasets);
    spsh__free(&allocator, loader);
}

spsh_status spsh_loader_open(const spsh_dataset *const *datasets, uint32_t dataset_count,
                             const spsh_loader_options *options, spsh_loader **ret_loader,
                             spsh_error *err)
{
    spsh_loader_options opt;
    spsh_plan_options plan;
    spsh_status rc = spsh__recipe_take_options(options, &opt, &plan, err);
    if (rc == SPSH_OK)
        rc = check_options(&opt, err);
    if (rc != SPSH_OK)
        return rc;
    if (datasets == NULL || dataset_count == 0 || dataset_count > SPSH_PLAN_DATASETS_MAX ||
        ret_loader == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_INVALID_ARG, NONE, "loader: %u datasets", dataset_count);
    for (uint32_t n = 0; n < dataset_count; n++)
        if (datasets[n] == NULL)
            return SPSH_FAIL_AT(err, SPSH_E_INVALID_ARG, NONE, "loader: dataset %u is NULL", n);
    const spsh_allocator *allocator =
        plan.allocator != NULL ? plan.allocator : spsh_allocator_default();
    spsh_loader *loader = (spsh_loader *)spsh__new(allocator, 1, sizeof(*loader));
    if (loader == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE, "loader: %zu bytes", sizeof(*loader));
    loader->allocator = *allocator;
    loader->pid = getpid();
    loader->own_lock = &loader->lock;
    loader->opt = opt;
    loader->plan_opt = plan;
    loader->opt.plan = &loader->plan_opt;
    loader->dataset_count = dataset_count;
    fill_defaults(&loader->opt, &loader->plan_opt);
    rc = open_locks(loader, err);
    if (rc != SPSH_OK) {
        spsh__free(allocator, loader);
        return rc;
    }
    rc = spsh__queue_open(&loader->queue, err);
    if (rc == SPSH_OK)
        rc = open_parts(loader, datasets, err);
    if (rc != SPSH_OK) {
        close_parts(loader);
        return rc;
    }
    *ret_loader = loader;
    return SPSH_OK;
}

void spsh_loader_close(spsh_loader *loader)
{
    if (loader == NULL)
        return;
    if (loader->pid != getpid()) {
        close_inherited(loader);
        return;
    }
    (void)pthread_mutex_lock(&loader->lock);
    loader->closing = true;
    (void)pthread_cond_broadcast(&loader->ready);
    while (loader->is_entered)
        (void)pthread_cond_wait(&loader->calm, &loader->lock);
    (void)pthread_mutex_unlock(&loader->lock);
    close_parts(loader);
}
