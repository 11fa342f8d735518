/* loader.c: the public functions of loader.h: opening, next, release, cursors.
 *
 * memory_bytes is divided once, at open:
 *
 *     1/16  tables of utterances, ids and texts, what is resampled: taken as needed, refused beyond
 *     1/16  decompressed texts of the datasets, see texts.h
 *     1/16  where reads land (at most 33 MiB; from the page cache 6 MiB, which stay in the
 *           processor's, and which an unprivileged process may lock by default)
 *     a chunk for each decode thread
 *     rest  slots, as many as are wanted and fit, each with 64 KiB more for small tables
 */
#include "speechshard/loader.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "decode.h"
#include "fetch.h"
#include "layout.h"
#include "render.h"

#define ULL(value_) ((unsigned long long)(value_))
#define NONE        SPSH_OFFSET_NONE

#define STAGING_BYTES_MAX        ((uint64_t)33 << 20) /* 32 reads of 1 MiB, widened */
#define STAGING_BYTES_CACHED_MAX ((uint64_t)6 << 20)
#define STAGING_BYTES_MIN        ((uint64_t)128 << 10)
#define TABLE_BYTES              ((uint64_t)64 << 10)
#define TEXT_BLOCK_BYTES         ((uint64_t)96 << 10) /* of 128 rows, compressed and not */

enum {
    SLOTS_DEFAULT = 6,
    SLOW_READ_MS = 5000,
    READ_DEADLINE_MS = 60000,
    QUARANTINE_MIN = 16,
    QUARANTINE_SHARE = 10000, /* of the epoch: one in */
    WATCH_MS = 250,           /* how often a waiting next looks after the others */
    STALL_NS = 1000000,
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

/* A smaller struct is an older caller; a larger one may only have zeros in what is not known. */
static spsh_status take_options(const spsh_loader_options *options, spsh_loader_options *ret_opt,
                                spsh_error *err)
{
    static const spsh_loader_options defaults = SPSH_LOADER_OPTIONS_INIT;
    *ret_opt = defaults;
    if (options == NULL)
        return SPSH_OK;
    const size_t size = options->struct_size;
    const uint8_t *bytes = (const uint8_t *)options;
    if (size < sizeof(size))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, NONE, "options: struct_size is %zu, want %zu",
                         size, sizeof(*ret_opt));
    for (size_t n = sizeof(*ret_opt); n < size; n++)
        if (bytes[n] != 0)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, NONE,
                             "options: byte %zu is set, this library knows %zu", n,
                             sizeof(*ret_opt));
    memcpy(ret_opt, options, size < sizeof(*ret_opt) ? size : sizeof(*ret_opt));
    return SPSH_OK;
}

static spsh_status check_options(const spsh_loader_options *opt, spsh_error *err)
{
    const char *bad = NULL;
    if (opt->output != SPSH_OUTPUT_INT16 && opt->output != SPSH_OUTPUT_FLOAT32)
        bad = "output";
    else if (opt->channel < SPSH_CHANNEL_ALL || opt->channel > (int32_t)SPSH_CHANNELS_MAX)
        bad = "channel";
    else if ((unsigned)opt->engine > SPSH_ENGINE_PREAD)
        bad = "engine";
    else if ((unsigned)opt->on_error > SPSH_ON_ERROR_SUBSTITUTE)
        bad = "on_error";
    else if (opt->decode_threads > SPSH_LOADER_THREADS_MAX)
        bad = "decode_threads";
    else if (opt->slots == 1 || opt->slots > SPSH_LOADER_SLOTS_MAX)
        bad = "slots";
    else if ((opt->flags & ~(uint32_t)FLAGS_KNOWN) != 0 ||
             (opt->flags & SPSH_LOADER_CACHED && opt->flags & SPSH_LOADER_DIRECT))
        bad = "flags";
    else if (opt->world_size == 0 ? opt->rank != 0 : opt->rank >= opt->world_size)
        bad = "rank";
    else if (opt->arena != NULL && (opt->arena->alloc_fn == NULL || opt->arena->free_fn == NULL))
        bad = "arena";
    if (bad != NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, NONE, "loader options: %s is out of range", bad);
    return SPSH_OK;
}

static uint32_t core_count(void)
{
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof(cores), &cores) != 0)
        return 1;
    const int count = CPU_COUNT(&cores);
    return count < 1 ? 1 : (uint32_t)count;
}

static void fill_defaults(spsh_loader_options *opt)
{
    if (opt->world_size == 0)
        opt->world_size = 1;
    if (opt->decode_threads == 0)
        opt->decode_threads = core_count();
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
    spsh_plan_options *plan = &opt->plan;
    if (plan->batch_utterances_max == 0 && plan->batch_seconds_max <= 0 &&
        plan->batch_padded_seconds_max <= 0)
        plan->batch_seconds_max = SPSH_BATCH_SECONDS_DEFAULT;
    /* Padding is memory too: without a bound of it, one long utterance among short ones would need
     * a slot for as many long ones. */
    if (opt->output == SPSH_OUTPUT_FLOAT32 && plan->batch_padded_seconds_max <= 0 &&
        plan->batch_utterances_max == 0)
        plan->batch_padded_seconds_max = plan->batch_seconds_max;
    if (opt->channel == SPSH_CHANNEL_ALL)
        plan->flags |= SPSH_PLAN_BY_CHANNELS;
}

/* ---- memory ---- */

/* 0 when it is not known. */
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

static spsh_status divide_memory(spsh_loader *loader, spsh__slot_size *ret_size, spsh_error *err)
{
    const spsh_loader_options *opt = &loader->opt;
    const spsh_plan_info *info = spsh_plan_info_get(loader->plan);
    const uint64_t part = opt->memory_bytes / 16 & ~(uint64_t)(SPSH__ARENA_ALIGN - 1);
    const uint64_t most = loader->has_cached ? STAGING_BYTES_CACHED_MAX : STAGING_BYTES_MAX;
    uint64_t staging = part < most ? part : most;
    if (staging < STAGING_BYTES_MIN)
        staging = STAGING_BYTES_MIN;
    const uint64_t chunks = (uint64_t)opt->decode_threads * SPSH__CHUNK_BYTES;
    const uint64_t others = staging + 2 * part + chunks;
    const uint64_t room = opt->memory_bytes > others ? opt->memory_bytes - others : 0;
    if (!spsh__slot_size_find(opt, info, ret_size) || room / 2 < TABLE_BYTES ||
        ret_size->bytes > room / 2 - TABLE_BYTES) {
        const double slot_mb = (double)ret_size->bytes / 1e6;
        return SPSH_FAIL(
            err, SPSH_E_LIMIT, NONE,
            "memory_bytes is %llu, which leaves %.1f MB for slots; a slot for the largest batch "
            "(the longest utterance has %.1f s, %u Hz%s) needs %.1f MB, and there must be two: "
            "%.0f MB in all would do, or smaller batches%s",
            ULL(opt->memory_bytes), (double)room / 1e6, (double)info->longest_microseconds / 1e6,
            info->sample_rate_hz_max,
            opt->output == SPSH_OUTPUT_FLOAT32 ? ", float32 and padded" : "", slot_mb,
            (2 * slot_mb + (double)chunks / 1e6 + 1) * 16 / 13 + 1,
            opt->plan.batch_seconds_max > 0 || opt->plan.batch_padded_seconds_max > 0
                ? ""
                : " (batch_seconds_max bounds them however long an utterance is)");
    }
    if (ret_size->bytes == 0)
        ret_size->bytes = SPSH__ARENA_ALIGN;
    const uint64_t fit = room / (ret_size->bytes + TABLE_BYTES);
    loader->slot_count = fit < opt->slots ? (uint32_t)fit : opt->slots;
    loader->staging_bytes = (size_t)staging;
    loader->budget.allocator = loader->allocator;
    loader->budget.limit_bytes = part + chunks + loader->slot_count * TABLE_BYTES;
    if (loader->slot_count < opt->slots)
        spsh__log(loader, SPSH_LOG_INFO, "%u slots of %.1f MB fit into memory_bytes, not %u",
                  loader->slot_count, (double)ret_size->bytes / 1e6, opt->slots);
    return SPSH_OK;
}

static spsh_status open_slots(spsh_loader *loader, spsh_error *err)
{
    const spsh_allocator *allocator = &loader->allocator;
    spsh__slot_size size = {0, 0};
    spsh_status rc = divide_memory(loader, &size, err);
    if (rc != SPSH_OK)
        return rc;
    const uint64_t arena_bytes = loader->staging_bytes + loader->slot_count * size.bytes;
    rc = spsh__memory_open(loader->opt.arena, (size_t)arena_bytes, &loader->memory, err);
    if (rc != SPSH_OK)
        return rc;
    loader->line_capacity = 2 * loader->slot_count + 2;
    loader->line =
        (spsh__place *)spsh__new_array(allocator, loader->line_capacity, sizeof(*loader->line));
    loader->slots =
        (spsh__slot *)spsh__new_array(allocator, loader->slot_count, sizeof(*loader->slots));
    if (loader->line == NULL || loader->slots == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, NONE, "loader: slots");
    uint8_t *audio = loader->memory.data + loader->staging_bytes;
    for (uint32_t n = 0; n < loader->slot_count && rc == SPSH_OK; n++)
        rc = spsh__slot_open(&loader->slots[n], &loader->budget, audio + n * size.bytes,
                             (size_t)size.bytes, err);
    return rc;
}

/* ---- opening and closing ---- */

static spsh_status open_plan(spsh_loader *loader, const spsh_dataset *const *datasets,
                             spsh_error *err)
{
    spsh_loader_options *opt = &loader->opt;
    spsh_status rc =
        spsh_plan_open(datasets, loader->dataset_count, &opt->plan, &loader->plan, err);
    if (rc != SPSH_OK)
        return rc;
    /* What the plan borrowed during the call is not ours any more. */
    opt->plan.weights = NULL;
    opt->plan.splits = NULL;
    opt->plan.domains = NULL;
    opt->plan.languages = NULL;
    opt->plan.cache_dir = NULL;
    opt->plan.allocator = &loader->allocator;
    const spsh_plan_info *info = spsh_plan_info_get(loader->plan);
    const uint64_t share = info->utterance_count / QUARANTINE_SHARE;
    loader->bad.allocator = &loader->allocator;
    loader->bad.limit = opt->quarantine_max;
    if (loader->bad.limit == 0)
        loader->bad.limit = share > QUARANTINE_MIN ? share : QUARANTINE_MIN;
    loader->domain_units = (uint64_t *)spsh__new_array(&loader->allocator, info->domain_count,
                                                       sizeof(*loader->domain_units));
    if (loader->domain_units == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, NONE, "loader: %u domains", info->domain_count);
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
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, NONE, "loader: mutex");
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
    loader->datasets = (const spsh_dataset **)spsh__new_array(
        &loader->allocator, loader->dataset_count, sizeof(spsh_dataset *));
    if (loader->datasets == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, NONE, "loader: %u datasets", loader->dataset_count);
    memcpy((void *)loader->datasets, (const void *)datasets,
           loader->dataset_count * sizeof(spsh_dataset *));
    loader->has_cached = choose_cached(loader);
    spsh_status rc = open_plan(loader, datasets, err);
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
    for (uint32_t n = 0; loader->slots != NULL && n < loader->slot_count; n++)
        spsh__slot_close(&loader->slots[n]);
    spsh__delete(&allocator, loader->slots);
    spsh__delete(&allocator, loader->line);
    spsh__memory_close(&loader->memory);
    spsh__bad_free(&loader->bad);
    spsh__delete(&allocator, loader->domain_units);
    spsh_plan_close(loader->plan);
    spsh__delete(&allocator, (void *)loader->datasets);
    spsh__queue_free(&loader->queue);
    (void)pthread_cond_destroy(&loader->calm);
    (void)pthread_cond_destroy(&loader->wake);
    (void)pthread_cond_destroy(&loader->ready);
    (void)pthread_mutex_destroy(&loader->lock);
    spsh__delete(&allocator, loader);
}

spsh_status spsh_loader_open(const spsh_dataset *const *datasets, uint32_t dataset_count,
                             const spsh_loader_options *options, spsh_loader **ret_loader,
                             spsh_error *err)
{
    spsh_loader_options opt;
    spsh_status rc = take_options(options, &opt, err);
    if (rc == SPSH_OK)
        rc = check_options(&opt, err);
    if (rc != SPSH_OK)
        return rc;
    if (datasets == NULL || dataset_count == 0 || dataset_count > SPSH_PLAN_DATASETS_MAX ||
        ret_loader == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, NONE, "loader: %u datasets", dataset_count);
    for (uint32_t n = 0; n < dataset_count; n++)
        if (datasets[n] == NULL)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, NONE, "loader: dataset %u is NULL", n);
    const spsh_allocator *allocator =
        opt.plan.allocator != NULL ? opt.plan.allocator : spsh_allocator_default();
    spsh_loader *loader = (spsh_loader *)spsh__new(allocator, sizeof(*loader));
    if (loader == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, NONE, "loader: %zu bytes", sizeof(*loader));
    loader->allocator = *allocator;
    loader->own_lock = &loader->lock;
    loader->opt = opt;
    loader->dataset_count = dataset_count;
    fill_defaults(&loader->opt);
    if (opt.arena != NULL) {
        loader->arena_hook = *opt.arena;
        loader->opt.arena = &loader->arena_hook;
    }
    rc = open_locks(loader, err);
    if (rc != SPSH_OK) {
        spsh__delete(allocator, loader);
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
    (void)pthread_mutex_lock(&loader->lock);
    loader->closing = true;
    (void)pthread_cond_broadcast(&loader->ready);
    while (loader->is_entered)
        (void)pthread_cond_wait(&loader->calm, &loader->lock);
    (void)pthread_mutex_unlock(&loader->lock);
    close_parts(loader);
}

const spsh_plan *spsh_loader_plan(const spsh_loader *loader)
{
    return loader->plan;
}

/* ---- next ---- */

/* Units of what an utterance is, as the plan counts them; the parts of one add up to it. */
static uint64_t units_of(const spsh_loader *loader, const spsh__job *job)
{
    const spsh_item *item = &job->item;
    switch (loader->opt.plan.unit) {
    case SPSH_UNIT_UTTERANCES: return item->part == 0;
    case SPSH_UNIT_TOKENS: break;
    case SPSH_UNIT_SECONDS: return item->microseconds == 0 ? 1 : item->microseconds;
    }
    const uint64_t tokens = job->row.text_bytes == 0 ? 1 : job->row.text_bytes;
    const uint32_t parts = item->part_count == 0 ? 1 : item->part_count;
    return tokens * (item->part + 1) / parts - tokens * item->part / parts;
}

/* What the batch adds to the counters. */
static void count_batch(spsh_loader *loader, const spsh__slot *slot)
{
    uint64_t longest = 0;
    uint64_t served = 0;
    for (uint32_t n = 0; n < slot->job_count; n++) {
        const spsh__job *job = &slot->jobs[n];
        if (job->left_out)
            continue;
        served++;
        longest = job->item.microseconds > longest ? job->item.microseconds : longest;
        loader->microseconds += job->item.microseconds;
        loader->domain_units[job->item.domain] += units_of(loader, job);
    }
    loader->batches++;
    loader->empty_batches += (slot->batch.flags & SPSH_BATCH_EMPTY) != 0;
    loader->utterances += served;
    loader->padded_microseconds += longest * served;
    loader->bad_records += slot->bad_count;
}

static bool head_is_ready(const spsh_loader *loader)
{
    const spsh__place *head = &loader->line[loader->line_first];
    return loader->line_count > 0 &&
           (head->kind != SPSH__PLACE_BATCH || head->slot->state == SPSH__SLOT_READY);
}

static bool wait_until(spsh_loader *loader, uint64_t until_ns)
{
    struct timespec until = {.tv_sec = (time_t)(until_ns / UINT64_C(1000000000)),
                             .tv_nsec = (long)(until_ns % UINT64_C(1000000000))};
    return pthread_cond_timedwait(&loader->ready, &loader->lock, &until) == ETIMEDOUT;
}

/* Until the head of the line is ready, or there is no point in waiting. */
static spsh_status wait_for_head(spsh_loader *loader, uint64_t deadline_ns, spsh_error *err)
{
    while (!loader->closing && !head_is_ready(loader)) {
        const uint64_t now = spsh__now_ns();
        const uint64_t watch = now + (uint64_t)WATCH_MS * 1000000;
        if (loader->failure != SPSH_OK) {
            if (err != NULL)
                *err = loader->failure_error;
            return loader->failure;
        }
        if (loader->line_count == 0 && loader->lent_count == loader->slot_count)
            return SPSH_FAIL(err, SPSH_E_LIMIT, NONE, "all %u batches are lent: release one first",
                             loader->slot_count);
        if (now >= deadline_ns)
            return SPSH_FAIL(err, SPSH_E_TIMEOUT, NONE, "the next batch is not ready yet");
        if (wait_until(loader, watch < deadline_ns ? watch : deadline_ns)) {
            spsh_status rc = spsh__decode_watch(loader, err);
            if (rc == SPSH_OK)
                rc = spsh__fetch_watch(loader, err);
            if (rc != SPSH_OK)
                return rc;
        }
    }
    if (loader->closing)
        return SPSH_FAIL(err, SPSH_E_CANCELED, NONE, "the loader is being closed");
    return SPSH_OK;
}

static void leave_line(spsh_loader *loader)
{
    loader->line_first = (loader->line_first + 1) % loader->line_capacity;
    loader->line_count--;
    spsh__fetch_poke(loader);
}

/* The head is ready: hand it out, or say why not. */
static spsh_status take_head(spsh_loader *loader, const spsh_batch **ret_batch, spsh_error *err)
{
    const spsh__place *head = &loader->line[loader->line_first];
    spsh__slot *slot = head->slot;
    if (head->kind == SPSH__PLACE_END) {
        loader->cursor = head->next;
        leave_line(loader);
        return SPSH_FAIL(err, SPSH_E_END, NONE, "the epoch has ended");
    }
    const spsh_error *failure = head->kind == SPSH__PLACE_FAILURE ? &head->error : &slot->error;
    const spsh_status rc = head->kind == SPSH__PLACE_FAILURE ? failure->status : slot->status;
    if (rc != SPSH_OK) {
        if (err != NULL)
            *err = *failure;
        return rc;
    }
    spsh_error why = SPSH_ERROR_INIT;
    slot->status = spsh__bad_serve(&loader->bad, slot->bads, slot->bad_count, &why);
    if (slot->status != SPSH_OK) { /* again on each call */
        slot->error = why;
        if (err != NULL)
            *err = why;
        return slot->status;
    }
    count_batch(loader, slot);
    loader->cursor = slot->next;
    slot->state = SPSH__SLOT_LENT;
    loader->lent_count++;
    leave_line(loader);
    *ret_batch = &slot->batch;
    return SPSH_OK;
}

static void count_wait(spsh_loader *loader, spsh_status rc, uint64_t begin_ns)
{
    const uint64_t end_ns = spsh__now_ns();
    const uint64_t waited = end_ns - begin_ns;
    loader->wait_ns += waited;
    if (rc != SPSH_OK)
        return;
    loader->stalls += waited > STALL_NS;
    if (loader->last_next_ns != 0)
        spsh__gaps_add(&loader->gaps, end_ns - loader->last_next_ns);
    loader->last_next_ns = end_ns;
}

/* Calls that change what comes next: close waits for them. Leaves with the lock taken. */
static void enter(spsh_loader *loader)
{
    (void)pthread_mutex_lock(&loader->lock);
    loader->is_entered = true;
}

static void leave(spsh_loader *loader)
{
    loader->is_entered = false;
    if (loader->closing)
        (void)pthread_cond_broadcast(&loader->calm);
    (void)pthread_mutex_unlock(&loader->lock);
}

static spsh_status next_until(spsh_loader *loader, uint64_t begin_ns, uint64_t deadline_ns,
                              const spsh_batch **ret_batch, spsh_error *err)
{
    enter(loader);
    spsh_status rc = wait_for_head(loader, deadline_ns, err);
    if (rc == SPSH_OK)
        rc = take_head(loader, ret_batch, err);
    count_wait(loader, rc, begin_ns);
    leave(loader);
    return rc;
}

spsh_status spsh_loader_next(spsh_loader *loader, const spsh_batch **ret_batch, spsh_error *err)
{
    return next_until(loader, spsh__now_ns(), UINT64_MAX, ret_batch, err);
}

spsh_status spsh_loader_next_for(spsh_loader *loader, uint32_t timeout_ms,
                                 const spsh_batch **ret_batch, spsh_error *err)
{
    const uint64_t now = spsh__now_ns();
    return next_until(loader, now, now + (uint64_t)timeout_ms * 1000000, ret_batch, err);
}

void spsh_loader_release(spsh_loader *loader, const spsh_batch *batch)
{
    (void)pthread_mutex_lock(&loader->lock);
    for (uint32_t n = 0; n < loader->slot_count; n++) {
        spsh__slot *slot = &loader->slots[n];
        if (&slot->batch != batch || slot->state != SPSH__SLOT_LENT)
            continue;
        slot->state = SPSH__SLOT_FREE;
        loader->lent_count--;
        spsh__fetch_poke(loader);
    }
    (void)pthread_mutex_unlock(&loader->lock);
}

uint32_t spsh_loader_slots_free(const spsh_loader *loader)
{
    (void)pthread_mutex_lock(loader->own_lock);
    const uint32_t count = loader->slot_count - loader->lent_count;
    (void)pthread_mutex_unlock(loader->own_lock);
    return count;
}

/* ---- cursors ---- */

spsh_status spsh_loader_cursor_save(const spsh_loader *loader, void *cursor, size_t capacity_bytes,
                                    size_t *ret_size, spsh_error *err)
{
    uint8_t *bytes = (uint8_t *)cursor;
    (void)pthread_mutex_lock(loader->own_lock);
    const size_t extra_bytes = spsh__bad_extra_bytes(&loader->bad);
    *ret_size = SPSH_CURSOR_BYTES + extra_bytes;
    const bool fits = cursor != NULL && capacity_bytes >= *ret_size;
    if (fits) {
        spsh_cursor_encode(loader->plan, &loader->cursor, (uint32_t)extra_bytes, bytes);
        spsh__bad_encode(&loader->bad, bytes + SPSH_CURSOR_BYTES);
    }
    (void)pthread_mutex_unlock(loader->own_lock);
    if (!fits)
        return SPSH_FAIL(err, SPSH_E_LIMIT, NONE, "cursor: %zu bytes, there is room for %zu",
                         *ret_size, capacity_bytes);
    return SPSH_OK;
}

/* With everything dropped: go there, or stay where next was. */
static spsh_status reposition(spsh_loader *loader, const spsh_position *position, spsh__bad *bad,
                              spsh_error *err)
{
    spsh_sampler *sampler = spsh__fetch_park(loader);
    const spsh_position back = loader->cursor;
    spsh_error why = SPSH_ERROR_INIT;
    spsh_status rc = spsh_sampler_seek(sampler, position, err);
    const spsh_status again = rc == SPSH_OK ? SPSH_OK : spsh_sampler_seek(sampler, &back, &why);
    (void)pthread_mutex_lock(&loader->lock);
    if (rc == SPSH_OK)
        loader->cursor = *position;
    if (rc == SPSH_OK && bad != NULL) {
        const spsh__bad before = loader->bad;
        loader->bad = *bad;
        *bad = before;
        atomic_store(&loader->known_count, loader->bad.known.count);
    }
    loader->failure = again;
    loader->failure_error = why;
    (void)pthread_mutex_unlock(&loader->lock);
    spsh__fetch_go_on(loader);
    return rc;
}

static spsh_status move_to(spsh_loader *loader, const spsh_position *position, spsh__bad *bad,
                           spsh_error *err)
{
    enter(loader);
    const bool closing = loader->closing;
    (void)pthread_mutex_unlock(&loader->lock);
    spsh_status rc = closing ? SPSH_FAIL(err, SPSH_E_CANCELED, NONE, "the loader is being closed")
                             : reposition(loader, position, bad, err);
    (void)pthread_mutex_lock(&loader->lock);
    leave(loader);
    return rc;
}

spsh_status spsh_loader_cursor_restore(spsh_loader *loader, const void *cursor, size_t size_bytes,
                                       spsh_error *err)
{
    const uint8_t *bytes = (const uint8_t *)cursor;
    spsh_position position;
    uint32_t extra_bytes = 0;
    spsh_status rc =
        spsh_cursor_decode(loader->plan, cursor, size_bytes, &position, &extra_bytes, err);
    if (rc != SPSH_OK)
        return rc;
    if (extra_bytes > size_bytes - SPSH_CURSOR_BYTES)
        return SPSH_FAIL(err, SPSH_E_TRUNCATED, size_bytes, "cursor: %zu bytes, it has %zu more",
                         size_bytes, (size_t)SPSH_CURSOR_BYTES + extra_bytes - size_bytes);
    spsh__bad bad = {.allocator = &loader->allocator, .limit = loader->bad.limit};
    rc = spsh__bad_decode(&bad, bytes + SPSH_CURSOR_BYTES, extra_bytes, loader->dataset_count, err);
    if (rc == SPSH_OK)
        rc = move_to(loader, &position, &bad, err);
    spsh__bad_free(&bad); /* the old one, after success */
    return rc;
}

spsh_status spsh_loader_seek(spsh_loader *loader, uint64_t epoch, uint64_t step, spsh_error *err)
{
    const uint64_t world = loader->opt.plan.virtual_world_size != 0
                               ? loader->opt.plan.virtual_world_size
                               : loader->opt.world_size;
    spsh_position position;
    uint64_t batches = 0;
    uint64_t batch = 0;
    spsh_status rc = spsh_plan_batch_count(loader->plan, epoch, &batches, err);
    if (rc != SPSH_OK)
        return rc;
    if (__builtin_mul_overflow(step, world, &batch) || batch >= batches)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, NONE, "step %llu of epoch %llu: it has %llu",
                         ULL(step), ULL(epoch), ULL((batches + world - 1) / world));
    rc = spsh_plan_find(loader->plan, epoch, batch, &position, err);
    return rc == SPSH_OK ? move_to(loader, &position, NULL, err) : rc;
}

spsh_status spsh_loader_call_count(const spsh_loader *loader, uint64_t epoch, uint64_t *ret_calls,
                                   spsh_error *err)
{
    const uint64_t world = loader->opt.world_size;
    const uint64_t wanted = loader->opt.plan.virtual_world_size;
    const uint64_t step = wanted != 0 ? wanted : world;
    uint64_t batches = 0;
    spsh_status rc = spsh_plan_batch_count(loader->plan, epoch, &batches, err);
    if (rc != SPSH_OK)
        return rc;
    uint64_t last = batches % step;
    if ((loader->opt.plan.flags & SPSH_PLAN_DROP_LAST) != 0)
        last = 0;
    *ret_calls = batches / step * ((step + world - 1) / world) + (last + world - 1) / world;
    return SPSH_OK;
}

/* ---- counters ---- */

static void fill_stats(const spsh_loader *loader, spsh_loader_stats *s)
{
    const spsh__counters *c = &loader->counters;
    *s = (spsh_loader_stats){.direct = atomic_load(&c->direct),
                             .slots = loader->slot_count,
                             .decode_threads = loader->worker_count,
                             .memory_bytes = loader->memory.size_bytes +
                                             atomic_load(&loader->budget.used_bytes),
                             .batches = loader->batches,
                             .empty_batches = loader->empty_batches,
                             .utterances = loader->utterances,
                             .microseconds = loader->microseconds,
                             .padded_microseconds = loader->padded_microseconds,
                             .reads = atomic_load(&c->reads),
                             .read_bytes = atomic_load(&c->read_bytes),
                             .needed_bytes = atomic_load(&c->needed_bytes),
                             .coalesced_reads = atomic_load(&c->coalesced_reads),
                             .range_reads = atomic_load(&c->range_reads),
                             .slow_reads = atomic_load(&c->slow_reads),
                             .retries = atomic_load(&c->retries),
                             .bad_records = loader->bad_records,
                             .decode_cpu_ns = spsh__decode_cpu_ns(loader),
                             .io_cpu_ns = spsh__fetch_cpu_ns(loader),
                             .wait_ns = loader->wait_ns,
                             .stalls = loader->stalls,
                             .gap_p50_ns = spsh__gaps_percentile(&loader->gaps, 0.50),
                             .gap_p99_ns = spsh__gaps_percentile(&loader->gaps, 0.99),
                             .gap_max_ns = loader->gaps.max_ns};
    (void)snprintf(s->engine, sizeof(s->engine), "%s", spsh__fetch_engine_name(loader));
}

void spsh_loader_stats_get(const spsh_loader *loader, spsh_loader_stats *ret_stats)
{
    (void)pthread_mutex_lock(loader->own_lock);
    fill_stats(loader, ret_stats);
    (void)pthread_mutex_unlock(loader->own_lock);
}

size_t spsh_loader_stats_json(const spsh_loader *loader, char *text, size_t capacity_bytes)
{
    spsh_loader_stats stats;
    (void)pthread_mutex_lock(loader->own_lock);
    fill_stats(loader, &stats);
    const size_t length =
        spsh__stats_json(&stats, loader->plan, loader->domain_units, text, capacity_bytes);
    (void)pthread_mutex_unlock(loader->own_lock);
    return length;
}

uint64_t spsh_loader_domain_units(const spsh_loader *loader, uint32_t domain)
{
    uint64_t units = 0;
    (void)pthread_mutex_lock(loader->own_lock);
    if (domain < spsh_plan_info_get(loader->plan)->domain_count)
        units = loader->domain_units[domain];
    (void)pthread_mutex_unlock(loader->own_lock);
    return units;
}

uint64_t spsh_loader_bad_count(const spsh_loader *loader)
{
    (void)pthread_mutex_lock(loader->own_lock);
    const uint64_t count = loader->bad.served.count;
    (void)pthread_mutex_unlock(loader->own_lock);
    return count;
}

spsh_status spsh_loader_bad_get(const spsh_loader *loader, uint64_t number,
                                spsh_bad_record *ret_bad, spsh_error *err)
{
    (void)pthread_mutex_lock(loader->own_lock);
    const uint64_t count = loader->bad.served.count;
    if (number < count)
        *ret_bad = loader->bad.served.records[number];
    (void)pthread_mutex_unlock(loader->own_lock);
    if (number >= count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, NONE, "bad record %llu, there are %llu",
                         ULL(number), ULL(count));
    return SPSH_OK;
}
