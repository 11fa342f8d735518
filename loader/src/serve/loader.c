/* loader.c: next, release, cursors, counters. Opening is in loader_open.c.
 *
 * The loader's lock guards all state that is used here. next waits only for the head of the line.
 * The position after the batch that it returned last is the cursor. To seek, the fetch thread drops
 * everything and parks, its sampler is moved, and it continues.
 */
#include "speechshard/loader.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "decode.h"
#include "device_slots.h"
#include "fetch.h"
#include "speechshard/options.h"

#define ULL(value_) ((unsigned long long)(value_))
#define NONE        SPSH_OFFSET_NONE

enum {
    WATCH_MS = 250, /* interval at which a waiting next checks the other threads */
    STALL_NS = 1000000,
};

const spsh_plan *spsh_loader_plan(const spsh_loader *loader)
{
    return loader->plan;
}

/* ---- the process ---- */

static bool is_inherited(const spsh_loader *loader)
{
    return loader->pid != getpid();
}

/* A child has no threads to wait for, and a mutex may stay locked there. */
static spsh_status check_process(const spsh_loader *loader, spsh_error *err)
{
    return is_inherited(loader)
               ? SPSH_FAIL_AT(err, SPSH_E_INVALID_ARG, NONE,
                              "process %ld opened the loader, and this process was forked from it: "
                              "open a loader after the fork",
                              (long)loader->pid)
               : SPSH_OK;
}

/* ---- next ---- */

/* Units of an item in the plan's unit. The parts of an utterance add up to its units. */
static uint64_t units_of(const spsh_loader *loader, const spsh__job *job)
{
    const spsh_item *item = &job->item;
    switch (loader->plan_opt.unit) {
    case SPSH_UNIT_UTTERANCES: return item->part == 0;
    case SPSH_UNIT_TOKENS: break;
    case SPSH_UNIT_SECONDS: return item->microseconds == 0 ? 1 : item->microseconds;
    }
    const uint64_t tokens = job->row.text_bytes == 0 ? 1 : job->row.text_bytes;
    const uint32_t parts = item->part_count == 0 ? 1 : item->part_count;
    return tokens * (item->part + 1) / parts - tokens * item->part / parts;
}

/* Add the batch to the counters. */
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
    const spsh__line_place *head = &loader->line[loader->line_first];
    return loader->line_count > 0 &&
           (head->kind != SPSH__PLACE_BATCH || head->slot->state == SPSH__SLOT_READY);
}

static bool wait_until(spsh_loader *loader, uint64_t until_ns)
{
    struct timespec until = {.tv_sec = (time_t)(until_ns / UINT64_C(1000000000)),
                             .tv_nsec = (long)(until_ns % UINT64_C(1000000000))};
    return pthread_cond_timedwait(&loader->ready, &loader->lock, &until) == ETIMEDOUT;
}

void spsh__fail(spsh_loader *loader, spsh_status status, const spsh_error *error)
{
    if (loader->failure == SPSH_OK) {
        loader->failure = status;
        loader->failure_error = *error;
    }
    (void)pthread_cond_signal(&loader->ready);
}

static spsh_status return_failure(const spsh_loader *loader, spsh_error *err)
{
    if (err != NULL)
        *err = loader->failure_error;
    return loader->failure;
}

/* Wait until the head of the line is ready, or waiting is pointless. Check for a failure first: a
 * batch in progress may become ready after next has returned the failure. */
static spsh_status wait_for_head(spsh_loader *loader, uint64_t deadline_ns, spsh_error *err)
{
    while (!loader->closing && loader->failure == SPSH_OK && !head_is_ready(loader)) {
        const uint64_t now = spsh__now_ns();
        const uint64_t watch = now + (uint64_t)WATCH_MS * 1000000;
        if (loader->opt.is_asked && loader->asked_count == 0)
            return SPSH_FAIL_AT(err, SPSH_E_INVALID_ARG, NONE,
                                "no batch was requested: call spsh_loader_ask before next");
        if (loader->line_count == 0 && loader->lent_count == loader->slot_count)
            return SPSH_FAIL_AT(err, SPSH_E_LIMIT, NONE,
                                "all %u slots are borrowed: release a batch first",
                                loader->slot_count);
        if (now >= deadline_ns)
            return SPSH_FAIL_AT(err, SPSH_E_TIMEOUT, NONE, "the next batch is not ready yet");
        if (wait_until(loader, watch < deadline_ns ? watch : deadline_ns)) {
            spsh_error why = SPSH_ERROR_INIT;
            spsh_status rc = spsh__decode_watch(loader, &why);
            if (rc == SPSH_OK)
                rc = spsh__fetch_watch(loader, &why);
            if (rc != SPSH_OK)
                spsh__fail(loader, rc, &why);
        }
    }
    if (loader->closing)
        return SPSH_FAIL_AT(err, SPSH_E_CANCELED, NONE, "the loader is being closed");
    return return_failure(loader, err);
}

static void leave_line(spsh_loader *loader)
{
    loader->line_first = (loader->line_first + 1) % loader->line_capacity;
    loader->line_count--;
    if (loader->opt.is_asked)
        loader->asked_count--;
    spsh__fetch_poke(loader);
}

/* Return the head of the line, which is ready: a batch, the end of the epoch, or an error. */
static spsh_status take_head(spsh_loader *loader, const spsh_batch **ret_batch, spsh_error *err)
{
    const spsh__line_place *head = &loader->line[loader->line_first];
    spsh__slot *slot = head->slot;
    if (head->kind == SPSH__PLACE_END) {
        loader->cursor = head->next;
        leave_line(loader);
        return SPSH_FAIL_AT(err, SPSH_E_END, NONE, "the epoch has ended");
    }
    if (head->kind == SPSH__PLACE_FAILURE && head->is_refused) {
        const spsh_error refusal = head->error;
        leave_line(loader);
        if (err != NULL)
            *err = refusal;
        return refusal.status;
    }
    spsh_error why = head->kind == SPSH__PLACE_FAILURE ? head->error : slot->error;
    spsh_status rc = head->kind == SPSH__PLACE_FAILURE ? why.status : slot->status;
    if (rc == SPSH_OK)
        rc = spsh__bad_serve(&loader->bad, slot->bads, slot->bad_count, &why);
    if (rc != SPSH_OK) {
        spsh__fail(loader, rc, &why);
        return return_failure(loader, err);
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

/* Begin a call that changes the position: close waits for it. Returns with the lock held. */
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
    spsh_status rc = check_process(loader, err);
    if (rc != SPSH_OK)
        return rc;
    enter(loader);
    rc = wait_for_head(loader, deadline_ns, err);
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

spsh_status spsh_loader_ask(spsh_loader *loader, uint64_t epoch, uint64_t step, spsh_error *err)
{
    spsh_status rc = check_process(loader, err);
    if (rc != SPSH_OK)
        return rc;
    if (!loader->opt.is_asked)
        return SPSH_FAIL_AT(err, SPSH_E_INVALID_ARG, NONE,
                            "this loader follows its plan: is_asked was not set at open");
    (void)pthread_mutex_lock(&loader->lock);
    if (loader->closing)
        rc = SPSH_FAIL_AT(err, SPSH_E_CANCELED, NONE, "the loader is being closed");
    else if (loader->asked_count == loader->slot_count)
        rc = SPSH_FAIL_AT(err, SPSH_E_LIMIT, NONE,
                          "%u requests are outstanding, one per slot: call spsh_loader_next first",
                          loader->slot_count);
    if (rc == SPSH_OK) {
        loader->asks[(loader->asks_first + loader->asks_count++) % loader->slot_count] =
            (spsh__ask){epoch, step};
        loader->asked_count++;
        spsh__fetch_poke(loader);
    }
    (void)pthread_mutex_unlock(&loader->lock);
    return rc;
}

void spsh_loader_release(spsh_loader *loader, const spsh_batch *batch)
{
    spsh_loader_release_after(loader, batch, NULL);
}

void spsh_loader_release_after(spsh_loader *loader, const spsh_batch *batch, void *event)
{
    spsh__slot *leaving = NULL;
    if (is_inherited(loader))
        return;
    (void)pthread_mutex_lock(&loader->lock);
    for (uint32_t n = 0; n < loader->slot_count; n++) {
        spsh__slot *slot = &loader->slots[n];
        if (&slot->batch != batch || slot->state != SPSH__SLOT_LENT)
            continue;
        if (loader->device != NULL)
            leaving = slot;
        slot->state = leaving != NULL ? SPSH__SLOT_LEAVING : SPSH__SLOT_FREE;
        loader->lent_count--;
        spsh__fetch_poke(loader);
    }
    (void)pthread_mutex_unlock(&loader->lock);
    if (leaving != NULL)
        spsh__device_release(loader, leaving, event);
}

uint32_t spsh_loader_slots_free(const spsh_loader *loader)
{
    if (is_inherited(loader))
        return 0;
    (void)pthread_mutex_lock(loader->own_lock);
    const uint32_t count = loader->slot_count - loader->lent_count;
    (void)pthread_mutex_unlock(loader->own_lock);
    return count;
}

/* ---- cursors ---- */

static spsh_status check_has_place(const spsh_loader *loader, spsh_error *err)
{
    return loader->opt.is_asked
               ? SPSH_FAIL_AT(
                     err, SPSH_E_INVALID_ARG, NONE,
                     "a loader with is_asked has no cursor: store the steps that were requested, "
                     "and request the next one")
               : check_process(loader, err);
}

spsh_status spsh_loader_cursor_save(const spsh_loader *loader, void *cursor, size_t capacity_bytes,
                                    size_t *ret_size, spsh_error *err)
{
    uint8_t *bytes = (uint8_t *)cursor;
    const spsh_status rc = check_has_place(loader, err);
    if (rc != SPSH_OK)
        return rc;
    (void)pthread_mutex_lock(loader->own_lock);
    const size_t extra_bytes = spsh__bad_extra_bytes(&loader->bad);
    *ret_size = SPSH_CURSOR_BYTES + extra_bytes;
    const bool fits = cursor != NULL && capacity_bytes >= *ret_size;
    if (fits) {
        spsh_cursor_encode(loader->plan, &loader->cursor, (uint32_t)extra_bytes, bytes);
        spsh__bad_encode(&loader->bad, bytes + SPSH_CURSOR_BYTES);
    }
    (void)pthread_mutex_unlock(loader->own_lock);
    if (cursor != NULL && !fits)
        return SPSH_FAIL_AT(err, SPSH_E_LIMIT, NONE,
                            "cursor: needs %zu bytes, but the buffer has %zu", *ret_size,
                            capacity_bytes);
    return SPSH_OK;
}

/* Drop everything, and move to a position. After a failure, return to the cursor. */
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
    if (again != SPSH_OK)
        spsh__fail(loader, again, &why);
    (void)pthread_mutex_unlock(&loader->lock);
    spsh__fetch_unpark(loader);
    return rc;
}

static spsh_status move_to(spsh_loader *loader, const spsh_position *position, spsh__bad *bad,
                           spsh_error *err)
{
    enter(loader);
    const bool closing = loader->closing;
    (void)pthread_mutex_unlock(&loader->lock);
    spsh_status rc = closing
                         ? SPSH_FAIL_AT(err, SPSH_E_CANCELED, NONE, "the loader is being closed")
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
    spsh_status rc = check_has_place(loader, err);
    if (rc == SPSH_OK)
        rc = spsh_cursor_decode(loader->plan, cursor, size_bytes, &position, &extra_bytes, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__bad bad = {.allocator = &loader->allocator, .limit = loader->bad.limit};
    rc = spsh__bad_decode(&bad, bytes + SPSH_CURSOR_BYTES, extra_bytes, loader->dataset_count, err);
    if (rc == SPSH_OK)
        rc = move_to(loader, &position, &bad, err);
    spsh__bad_free(&bad); /* after success this is the old quarantine */
    return rc;
}

spsh_status spsh_loader_seek(spsh_loader *loader, uint64_t epoch, uint64_t step, spsh_error *err)
{
    const uint64_t world = loader->plan_opt.virtual_world_size != 0
                               ? loader->plan_opt.virtual_world_size
                               : loader->opt.world_size;
    spsh_position position;
    uint64_t batches = 0;
    uint64_t batch = 0;
    spsh_status rc = check_has_place(loader, err);
    if (rc == SPSH_OK)
        rc = spsh_plan_batch_count(loader->plan, epoch, &batches, err);
    if (rc != SPSH_OK)
        return rc;
    if (__builtin_mul_overflow(step, world, &batch) || batch >= batches)
        return SPSH_FAIL_AT(err, SPSH_E_INVALID_ARG, NONE,
                            "step %llu does not exist: epoch %llu has %llu steps", ULL(step),
                            ULL(epoch), ULL((batches + world - 1) / world));
    rc = spsh_plan_find(loader->plan, epoch, batch, &position, err);
    return rc == SPSH_OK ? move_to(loader, &position, NULL, err) : rc;
}

spsh_status spsh_loader_call_count(const spsh_loader *loader, uint64_t epoch, uint64_t *ret_calls,
                                   spsh_error *err)
{
    const uint64_t world = loader->opt.world_size;
    const uint64_t wanted = loader->plan_opt.virtual_world_size;
    const uint64_t step = wanted != 0 ? wanted : world;
    uint64_t batches = 0;
    spsh_status rc = check_process(loader, err);
    if (rc == SPSH_OK)
        rc = spsh_plan_batch_count(loader->plan, epoch, &batches, err);
    if (rc != SPSH_OK)
        return rc;
    uint64_t last = batches % step;
    if ((loader->plan_opt.flags & SPSH_PLAN_DROP_LAST) != 0)
        last = 0;
    *ret_calls = batches / step * ((step + world - 1) / world) + (last + world - 1) / world;
    return SPSH_OK;
}

/* ---- counters ---- */

static void fill_stats(const spsh_loader *loader, spsh_loader_stats *s)
{
    const spsh__counters *c = &loader->counters;
    const spsh__device_counts device = spsh__device_count(loader->device);
    const uint64_t feature_ns =
        spsh__feature_cpu_ns(loader); /* read first: it is part of the next */
    const uint64_t thread_ns = spsh__decode_cpu_ns(loader);
    *s = (spsh_loader_stats){.direct = atomic_load(&c->direct),
                             .slots = loader->slot_count,
                             .decode_threads = loader->worker_count,
                             .memory_bytes = loader->memory.size_bytes +
                                             atomic_load(&loader->budget.used_bytes),
                             .device_bytes = device.memory_bytes,
                             .copied_bytes = device.copied_bytes,
                             .pinned = device.is_pinned,
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
                             .bad_sounds = atomic_load(&c->bad_sounds),
                             .undecodable_records = atomic_load(&c->undecodable),
                             .decode_cpu_ns = thread_ns - feature_ns,
                             .feature_cpu_ns = feature_ns,
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
    spsh_loader_stats stats = SPSH_LOADER_STATS_INIT;
    if (!is_inherited(loader)) {
        (void)pthread_mutex_lock(loader->own_lock);
        fill_stats(loader, &stats);
        (void)pthread_mutex_unlock(loader->own_lock);
    }
    spsh_result_give(ret_stats, &stats, sizeof(stats));
}

size_t spsh_loader_stats_json(const spsh_loader *loader, char *text, size_t capacity_bytes)
{
    spsh_loader_stats stats = SPSH_LOADER_STATS_INIT;
    if (is_inherited(loader))
        return spsh__stats_json(&stats, loader->plan, loader->domain_units, text, capacity_bytes);
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
    if (is_inherited(loader))
        return 0;
    (void)pthread_mutex_lock(loader->own_lock);
    if (domain < spsh_plan_info_get(loader->plan)->domain_count)
        units = loader->domain_units[domain];
    (void)pthread_mutex_unlock(loader->own_lock);
    return units;
}

uint64_t spsh_loader_bad_count(const spsh_loader *loader)
{
    if (is_inherited(loader))
        return 0;
    (void)pthread_mutex_lock(loader->own_lock);
    const uint64_t count = loader->bad.served.count;
    (void)pthread_mutex_unlock(loader->own_lock);
    return count;
}

spsh_status spsh_loader_bad_get(const spsh_loader *loader, uint64_t number,
                                spsh_bad_record *ret_bad, spsh_error *err)
{
    const spsh_status rc = check_process(loader, err);
    if (rc != SPSH_OK)
        return rc;
    (void)pthread_mutex_lock(loader->own_lock);
    const uint64_t count = loader->bad.served.count;
    if (number < count)
        *ret_bad = loader->bad.served.records[number];
    (void)pthread_mutex_unlock(loader->own_lock);
    if (number >= count)
        return SPSH_FAIL_AT(err, SPSH_E_INVALID_ARG, NONE,
                            "bad record %llu does not exist: there are %llu bad records",
                            ULL(number), ULL(count));
    return SPSH_OK;
}
