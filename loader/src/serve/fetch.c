/* fetch.c: lay out batches in slots, and read their records.
 *
 * Reads are submitted for one batch at a time. Reads of earlier batches may still be in flight. The
 * records of a batch are read in the order of storage, adjacent ones with one read:
 *
 *     slot->order:   [ 7 ][ 2 ][ 5 ][ 0 ][ 3 ] ...
 *                     request A | B  | C
 *
 * The engine completes reads in the order of submission, so the oldest read is always known. Its
 * age is checked against read_deadline_ms.
 *
 * The decode thread itself reads utterances that are cut from long recordings, and records whose
 * read failed here: a second attempt should use another way to read.
 */
#include "fetch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "device_slots.h"
#include "layout.h"
#include "plan/sampler_internal.h"
#include "policy.h"

#define NONE SPSH_OFFSET_NONE

enum {
    REQUESTS_MAX = 128,
    FILES_MAX = 160,
    MERGE_GAP_BYTES = 32 << 10,
    MERGE_BYTES_MAX = 1 << 20,
    POLL_MS = 10, /* longest wait for a read before checking for other work */
};

struct spsh__fetch {
    spsh_loader *loader;
    pthread_t thread;
    bool is_started;
    spsh_sampler *sampler;
    spsh_read_engine *engine;
    spsh__shard_files files;
    spsh__request *requests;
    spsh__request *idle;
    spsh__request **pending; /* a ring, in the order of submission */
    uint32_t pending_first, pending_count;
    spsh__slot *slot;         /* the batch being submitted, or NULL */
    uint32_t at, order_count; /* next job in slot->order, and their count */
    size_t merge_bytes_max;
    bool has_ended;             /* the plan or the engine failed */
    bool has_logged_unopened;   /* one shard that cannot be opened was logged; the others are not,
                                   because each bad record is logged anyway */
    pthread_mutex_t watch_lock; /* guards the two below */
    uint64_t opening_since_ns;  /* begin of opening a shard; 0: no shard is being opened */
    spsh__job opening_for;      /* the job that needs the shard */
};

/* ---- the line ---- */

static void line_put(spsh_loader *loader, const spsh__line_place *place)
{
    (void)pthread_mutex_lock(&loader->lock);
    const uint32_t at = (loader->line_first + loader->line_count) % loader->line_capacity;
    loader->line[at] = *place;
    loader->line_count++;
    (void)pthread_cond_signal(&loader->ready);
    (void)pthread_mutex_unlock(&loader->lock);
}

static void break_down(spsh__fetch *f, spsh_status status, const spsh_error *error)
{
    spsh_loader *loader = f->loader;
    f->has_ended = true;
    (void)pthread_mutex_lock(&loader->lock);
    spsh__fail(loader, status, error);
    (void)pthread_mutex_unlock(&loader->lock);
}

/* Take a slot for the next batch, if the line has space; with is_asked, also the next request. */
static spsh__slot *take_slot(spsh_loader *loader, spsh__ask *ret_ask)
{
    spsh__slot *slot = NULL;
    (void)pthread_mutex_lock(&loader->lock);
    for (uint32_t n = 0; n < loader->slot_count && slot == NULL; n++)
        if (loader->slots[n].state == SPSH__SLOT_FREE)
            slot = &loader->slots[n];
    if (loader->line_count + 1 >= loader->line_capacity)
        slot = NULL;
    if (loader->opt.is_asked && loader->asks_count == 0)
        slot = NULL;
    if (slot != NULL)
        slot->state = SPSH__SLOT_FILLING;
    if (slot != NULL && loader->opt.is_asked) {
        *ret_ask = loader->asks[loader->asks_first];
        loader->asks_first = (loader->asks_first + 1) % loader->slot_count;
        loader->asks_count--;
    }
    (void)pthread_mutex_unlock(&loader->lock);
    return slot;
}

static void set_state(spsh_loader *loader, spsh__slot *slot, spsh__slot_state state)
{
    (void)pthread_mutex_lock(&loader->lock);
    slot->state = state;
    (void)pthread_cond_signal(&loader->ready);
    (void)pthread_mutex_unlock(&loader->lock);
}

/* ---- a batch ---- */

static int compare_places(const void *left, const void *right)
{
    const spsh__job *a = *(spsh__job *const *)left;
    const spsh__job *b = *(spsh__job *const *)right;
    if (a->item.dataset != b->item.dataset)
        return a->item.dataset < b->item.dataset ? -1 : 1;
    if (a->row.payload_shard != b->row.payload_shard)
        return a->row.payload_shard < b->row.payload_shard ? -1 : 1;
    if (a->row.record_offset_bytes != b->row.record_offset_bytes)
        return a->row.record_offset_bytes < b->row.record_offset_bytes ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

/* Distribute the jobs: bad ones to the policy, jobs that the decode thread reads to the queue, and
 * the rest to slot->order, sorted by storage. If there is nothing to read, the last distributed job
 * may finish the slot. */
static void sort_jobs(spsh__fetch *f, spsh__slot *slot)
{
    spsh_loader *loader = f->loader;
    const uint32_t count = slot->job_count;
    f->order_count = 0;
    for (uint32_t n = 0; n < count; n++)
        if (slot->jobs[n].way == SPSH__WAY_WHOLE)
            slot->order[f->order_count++] = &slot->jobs[n];
    qsort((void *)slot->order, f->order_count, sizeof(spsh__job *), compare_places);
    f->slot = f->order_count > 0 ? slot : NULL;
    f->at = 0;
    for (uint32_t n = 0; n < count; n++) {
        spsh__job *job = &slot->jobs[n];
        spsh_error why = SPSH_ERROR_INIT;
        if (job->way == SPSH__WAY_SELF)
            spsh__queue_put(&loader->queue, job, job);
        else if (job->way == SPSH__WAY_BAD) {
            (void)spsh__layout_is_servable(loader, job, &why);
            spsh__job_failed(loader, job, &why);
        }
    }
}

/* Begin the next batch. false: no batch can be begun now. */
static bool begin_batch(spsh__fetch *f)
{
    spsh_loader *loader = f->loader;
    spsh_planned_batch planned = SPSH_PLANNED_BATCH_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    spsh__ask ask = {0, 0};
    if (f->has_ended)
        return false;
    spsh__slot *slot = take_slot(loader, &ask);
    if (slot == NULL)
        return false;
    spsh_status rc = SPSH_OK;
    if (loader->opt.is_asked)
        rc = spsh__sampler_seek_batch(f->sampler, ask.epoch, ask.step, &err);
    const bool is_refused = rc == SPSH_E_INVALID_ARG;
    if (rc == SPSH_OK)
        rc = spsh_sampler_next(f->sampler, &planned, &err);
    if (rc != SPSH_OK) {
        spsh__line_place place = {.kind = rc == SPSH_E_END ? SPSH__PLACE_END : SPSH__PLACE_FAILURE,
                                  .is_refused = is_refused,
                                  .next = spsh_sampler_tell(f->sampler),
                                  .error = err};
        f->has_ended = rc != SPSH_E_END && !is_refused;
        set_state(loader, slot, SPSH__SLOT_FREE);
        line_put(loader, &place);
        return !f->has_ended;
    }
    rc = spsh__layout(loader, slot, &planned, &err);
    const spsh__line_place place = {.kind = SPSH__PLACE_BATCH, .slot = slot};
    if (rc != SPSH_OK) {
        slot->job_count = 0;
        spsh__slot_fail(slot, SPSH_NONE_U32, rc, &err);
    }
    line_put(loader, &place);
    if (slot->job_count > 0)
        sort_jobs(f, slot);
    else
        spsh__slot_ready(loader, slot);
    return true;
}

/* ---- reads ---- */

/* Pass the next jobs of the order to the decode threads unread: they try to read them. */
static void hand_over_unread(spsh__fetch *f, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++) {
        spsh__job *job = f->slot->order[f->at++];
        job->retry = true;
        spsh__queue_put(&f->loader->queue, job, job);
    }
}

/* Return the number of jobs from `at` on that one read can serve, and the range of this read. */
static uint32_t merge(const spsh__fetch *f, uint64_t *ret_begin, uint64_t *ret_end)
{
    const spsh__job *first = f->slot->order[f->at];
    uint64_t begin = first->row.record_offset_bytes;
    uint64_t end = begin + first->row.record_bytes;
    uint32_t count = 1;
    /* Once a bad record is known, gaps are not read: an unreadable record in a gap would make the
     * read of the adjacent records fail. */
    const bool any_bad = atomic_load(&f->loader->known_count) > 0;
    const uint64_t gap = any_bad ? 0 : MERGE_GAP_BYTES;
    while (f->at + count < f->order_count) {
        const spsh__job *job = f->slot->order[f->at + count];
        const uint64_t job_end = job->row.record_offset_bytes + job->row.record_bytes;
        const uint64_t both = job_end > end ? job_end : end;
        if (job->item.dataset != first->item.dataset ||
            job->row.payload_shard != first->row.payload_shard ||
            job->row.record_offset_bytes > end + gap ||
            (both > end && both - begin > f->merge_bytes_max))
            break;
        end = both;
        count++;
    }
    *ret_begin = begin;
    *ret_end = end;
    return count;
}

static void count_read(spsh__fetch *f, const spsh__request *request, uint64_t size_bytes)
{
    spsh__counters *c = &f->loader->counters;
    uint64_t needed = 0;
    uint64_t end = 0;
    for (uint32_t n = request->first; n < request->first + request->count; n++) {
        const spsh_row *row = &request->slot->order[n]->row;
        const uint64_t row_end = row->record_offset_bytes + row->record_bytes;
        if (row_end > end) /* segments may share a record */
            needed += row_end - (row->record_offset_bytes > end ? row->record_offset_bytes : end);
        end = row_end > end ? row_end : end;
    }
    atomic_fetch_add_explicit(&c->reads, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->read_bytes, size_bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->needed_bytes, needed, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->coalesced_reads, request->count - 1, memory_order_relaxed);
}

/* Record the begin (job NULL: the end) of opening a shard, which may take as long as a read. */
static void publish_opening(spsh__fetch *f, const spsh__job *job)
{
    (void)pthread_mutex_lock(&f->watch_lock);
    f->opening_since_ns = job == NULL ? 0 : spsh__now_ns();
    if (job != NULL)
        f->opening_for = *job;
    (void)pthread_mutex_unlock(&f->watch_lock);
}

spsh_status spsh__fetch_watch(spsh_loader *loader, spsh_error *err)
{
    spsh__fetch *f = loader->fetch;
    (void)pthread_mutex_lock(&f->watch_lock);
    const uint64_t since = f->opening_since_ns;
    const spsh__job job = f->opening_for;
    (void)pthread_mutex_unlock(&f->watch_lock);
    const uint64_t age_ms = since == 0 ? 0 : (spsh__now_ns() - since) / 1000000;
    if (since == 0 || age_ms < loader->opt.read_deadline_ms)
        return SPSH_OK;
    spsh_error_set(err, SPSH_E_IO, 0, NONE,
                   "opening the shard has taken %" PRIu64 " ms (read_deadline_ms is %" PRIu32 ")",
                   age_ms, loader->opt.read_deadline_ms);
    if (err != NULL)
        spsh__job_name(loader, &job, err);
    return SPSH_E_IO;
}

/* Submit as many reads as fit. true: the whole batch is submitted. */
static bool submit_batch(spsh__fetch *f)
{
    spsh_loader *loader = f->loader;
    while (f->at < f->order_count) {
        uint64_t begin = 0;
        uint64_t end = 0;
        const uint32_t count = merge(f, &begin, &end);
        const spsh__job *job = f->slot->order[f->at];
        spsh__shard_file *file = NULL;
        spsh_error err = SPSH_ERROR_INIT;
        spsh__request *request = f->idle;
        if (request == NULL || !spsh_read_has_space(f->engine, (size_t)(end - begin)))
            return false;
        publish_opening(f, job);
        spsh_status rc = spsh__shard_files_get(&f->files, job->item.dataset, job->row.payload_shard,
                                               &file, &err);
        publish_opening(f, NULL);
        if (rc != SPSH_OK) {
            if (!f->has_logged_unopened)
                spsh__log(loader, SPSH_LOG_WARNING, "%s", err.message);
            f->has_logged_unopened = true;
            hand_over_unread(f, count);
            continue;
        }
        rc = spsh_read_submit(f->engine, file->file, begin, (size_t)(end - begin),
                              (uint64_t)(request - f->requests), &err);
        if (rc != SPSH_OK) {
            break_down(f, rc, &err);
            return false;
        }
        f->idle = request->next;
        request->is_slow = false;
        request->submitted_ns = spsh__now_ns();
        request->offset_bytes = begin;
        request->file = file;
        memcpy(request->file_id, file->file_id, sizeof(request->file_id));
        request->slot = f->slot;
        request->first = f->at;
        request->count = count;
        atomic_store(&request->jobs_left, count);
        file->pending++;
        f->pending[(f->pending_first + f->pending_count++) % REQUESTS_MAX] = request;
        atomic_store_explicit(&loader->counters.direct,
                              spsh_read_file_direct(f->engine, file->file), memory_order_relaxed);
        count_read(f, request, end - begin);
        f->at += count;
    }
    f->slot = NULL;
    return true;
}

static void recycle(spsh__fetch *f, spsh__request *request)
{
    spsh_read_recycle(f->engine, &request->done);
    request->is_lent = false;
    request->next = f->idle;
    f->idle = request;
}

/* Log a slow read once. Fail if it exceeds read_deadline_ms. */
static void watch(spsh__fetch *f, spsh__request *request, bool is_pending)
{
    spsh_loader *loader = f->loader;
    const uint64_t age_ms = (spsh__now_ns() - request->submitted_ns) / 1000000;
    if (age_ms < loader->opt.slow_read_ms)
        return;
    const spsh__job *job = request->slot->order[request->first];
    spsh_error why = SPSH_ERROR_INIT;
    spsh_error_set(&why, SPSH_E_IO, 0, request->offset_bytes,
                   "a read has taken %" PRIu64 " ms (read_deadline_ms is %" PRIu32 ")", age_ms,
                   loader->opt.read_deadline_ms);
    spsh__job_name(loader, job, &why);
    if (!request->is_slow) {
        request->is_slow = true;
        atomic_fetch_add(&loader->counters.slow_reads, 1);
        spsh__log(loader, SPSH_LOG_WARNING, "%s", why.message);
    }
    if (is_pending && age_ms >= loader->opt.read_deadline_ms)
        break_down(f, SPSH_E_IO, &why);
}

/* Pass the jobs of the oldest read, which has completed, to the decode threads. */
static void deliver(spsh__fetch *f, const spsh_read_completion *done)
{
    spsh_loader *loader = f->loader;
    spsh__request *request = &f->requests[done->tag];
    spsh__job *first = NULL;
    spsh__job *last = NULL;
    f->pending_first = (f->pending_first + 1) % REQUESTS_MAX;
    f->pending_count--;
    request->file->pending--;
    watch(f, request, false);
    request->done = *done;
    request->is_lent = true;
    const uint32_t end = request->first + request->count;
    for (uint32_t n = request->first; n < end; n++) {
        spsh__job *job = request->slot->order[n];
        const uint64_t begin = job->row.record_offset_bytes - done->offset_bytes;
        job->request = request;
        job->record = NULL;
        if (begin + job->row.record_bytes <= done->got_bytes)
            job->record = done->data + begin;
        job->retry = job->record == NULL;
        if (first == NULL)
            first = job;
        else
            last->next = job;
        last = job;
    }
    spsh__queue_put(&loader->queue, first, last);
}

/* ---- requests of other threads ---- */

void spsh__fetch_poke(spsh_loader *loader)
{
    loader->poked = true;
    if (loader->fetch_sleeps)
        (void)pthread_cond_signal(&loader->wake);
}

/* Draw substitutes until one can be served. */
static void find_substitute(spsh__fetch *f, spsh__job *job)
{
    spsh_loader *loader = f->loader;
    spsh_status rc = SPSH_OK;
    spsh_error err = SPSH_ERROR_INIT;
    while (job->attempts < SPSH__SUBSTITUTES_MAX && rc == SPSH_OK) {
        spsh_item item;
        rc = spsh_sampler_substitute(f->sampler, &job->slot->place, &job->planned, job->attempts++,
                                     &item, &err);
        if (rc != SPSH_OK)
            break;
        if (!spsh__layout_substitute(loader, job, &item))
            continue;
        spsh_error why = SPSH_ERROR_INIT;
        if (spsh__layout_is_servable(loader, job, &why)) {
            spsh__queue_put(&loader->queue, job, job);
            return;
        }
        if (spsh__job_note_bad(loader, job, &why) != SPSH_OK)
            break;
    }
    if (rc != SPSH_OK && rc != SPSH_E_NOT_FOUND)
        spsh__slot_fail(job->slot, job->number, rc, &err);
    spsh__job_left_out(loader, job);
}

static void serve_requests(spsh__fetch *f)
{
    spsh_loader *loader = f->loader;
    (void)pthread_mutex_lock(&loader->lock);
    spsh__request *finished = loader->finished;
    spsh__job *in_need = loader->in_need;
    loader->finished = NULL;
    loader->in_need = NULL;
    loader->poked = false;
    (void)pthread_mutex_unlock(&loader->lock);
    while (finished != NULL) {
        spsh__request *next = finished->next;
        recycle(f, finished);
        finished = next;
    }
    while (in_need != NULL) {
        spsh__job *next = in_need->next;
        find_substitute(f, in_need);
        in_need = next;
    }
}

/* ---- stopping ---- */

/* Drop all reads, jobs, and ready batches, and stay parked. Borrowed and leaving slots stay as they
 * are. */
static void drop_all(spsh__fetch *f)
{
    spsh_loader *loader = f->loader;
    spsh_read_completion done;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    spsh__queue_pause(&loader->queue);
    while (rc == SPSH_OK && spsh_read_pending(f->engine) > 0) {
        rc = spsh_read_wait(f->engine, &done, &err);
        if (rc == SPSH_OK) {
            f->requests[done.tag].done = done;
            f->requests[done.tag].is_lent = true;
        }
    }
    f->idle = NULL;
    f->pending_count = 0;
    for (uint32_t n = 0; n < REQUESTS_MAX; n++) {
        spsh__request *request = &f->requests[n];
        if (request->is_lent)
            spsh_read_recycle(f->engine, &request->done);
        request->is_lent = false;
        request->next = f->idle;
        f->idle = request;
    }
    for (uint32_t n = 0; n < f->files.count; n++)
        f->files.entries[n].pending = 0;
    f->slot = NULL;
    f->has_ended = rc != SPSH_OK; /* a failed engine could still complete the old requests */
    spsh__device_settle(loader);
    (void)pthread_mutex_lock(&loader->lock);
    loader->finished = NULL;
    loader->in_need = NULL;
    loader->line_count = 0;
    loader->failure = SPSH_OK;
    if (rc != SPSH_OK)
        spsh__fail(loader, rc, &err);
    for (uint32_t n = 0; n < loader->slot_count; n++)
        if (loader->slots[n].state != SPSH__SLOT_LENT &&
            loader->slots[n].state != SPSH__SLOT_LEAVING)
            loader->slots[n].state = SPSH__SLOT_FREE;
    loader->parked = true;
    (void)pthread_cond_broadcast(&loader->calm);
    while (loader->park && !loader->stop)
        (void)pthread_cond_wait(&loader->wake, &loader->lock);
    loader->parked = false;
    (void)pthread_mutex_unlock(&loader->lock);
    spsh__queue_resume(&loader->queue);
}

/* No read is in flight: wait until another thread has work for this one. */
static void sleep_until_poked(spsh_loader *loader)
{
    (void)pthread_mutex_lock(&loader->lock);
    loader->fetch_sleeps = true;
    while (!loader->poked && !loader->park && !loader->stop)
        (void)pthread_cond_wait(&loader->wake, &loader->lock);
    loader->fetch_sleeps = false;
    (void)pthread_mutex_unlock(&loader->lock);
}

/* ---- the thread ---- */

/* Deliver a completed read, or wait briefly for the oldest one. */
static void wait_for_read(spsh__fetch *f)
{
    spsh_read_completion done;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = spsh_read_wait_for(f->engine, POLL_MS, &done, &err);
    if (rc == SPSH_OK)
        deliver(f, &done);
    else if (rc == SPSH_E_TIMEOUT)
        watch(f, f->pending[f->pending_first], true);
    else
        break_down(f, rc, &err);
}

/* Start the submitted reads before planning, which may take time: the engine starts them in a
 * wait. */
static void kick(spsh__fetch *f)
{
    spsh_read_completion done;
    if (f->pending_count > 0 && spsh_read_wait_for(f->engine, 0, &done, NULL) == SPSH_OK)
        deliver(f, &done);
}

static void *fetch_main(void *opaque)
{
    spsh__fetch *f = (spsh__fetch *)opaque;
    spsh_loader *loader = f->loader;
    for (;;) {
        (void)pthread_mutex_lock(&loader->lock);
        const bool stop = loader->stop;
        const bool park = loader->park;
        (void)pthread_mutex_unlock(&loader->lock);
        if (stop)
            break;
        if (park) {
            drop_all(f);
            continue;
        }
        serve_requests(f);
        bool can_plan = true;
        while (can_plan && (f->slot == NULL || submit_batch(f))) {
            kick(f);
            can_plan = begin_batch(f);
        }
        if (f->pending_count > 0)
            wait_for_read(f);
        else
            sleep_until_poked(loader);
    }
    return NULL;
}

spsh_sampler *spsh__fetch_park(spsh_loader *loader)
{
    (void)pthread_mutex_lock(&loader->lock);
    loader->park = true;
    (void)pthread_cond_signal(&loader->wake);
    while (!loader->parked)
        (void)pthread_cond_wait(&loader->calm, &loader->lock);
    (void)pthread_mutex_unlock(&loader->lock);
    return loader->fetch->sampler;
}

void spsh__fetch_unpark(spsh_loader *loader)
{
    (void)pthread_mutex_lock(&loader->lock);
    loader->park = false;
    (void)pthread_cond_signal(&loader->wake);
    (void)pthread_mutex_unlock(&loader->lock);
}

/* ---- opening and closing ---- */

/* Log if the engine cannot register its buffers. */
static void log_engine(const spsh__fetch *f)
{
    const spsh_loader *loader = f->loader;
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    const bool is_uring = strcmp(spsh_read_engine_name(f->engine), "io_uring") == 0;
    if (is_uring && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur < loader->staging_bytes)
        spsh__log(loader, SPSH_LOG_INFO,
                  "io_uring: RLIMIT_MEMLOCK is %" PRIu64 " bytes, so %zu bytes of read buffers are "
                  "registered with the kernel only for a privileged process",
                  (uint64_t)limit.rlim_cur, loader->staging_bytes);
}

static spsh_status open_engine(spsh__fetch *f, spsh_error *err)
{
    spsh_loader *loader = f->loader;
    const spsh_loader_options *opt = &loader->opt;
    spsh_read_engine_options engine = SPSH_READ_ENGINE_OPTIONS_INIT;
    spsh_error why = SPSH_ERROR_INIT;
    engine.allocator = &loader->allocator;
    engine.io = opt->io;
    engine.arena = loader->memory.data;
    engine.arena_bytes = loader->staging_bytes;
    engine.requests_max = REQUESTS_MAX;
    engine.files_max = FILES_MAX;
    engine.flags = loader->has_cached ? SPSH_READ_CACHED : 0;
    if ((opt->flags & SPSH_LOADER_SQPOLL) != 0)
        engine.flags |= SPSH_READ_SQPOLL;
    const uint32_t flags = engine.flags;
    spsh_status rc = SPSH_E_UNSUPPORTED;
    if (opt->engine != SPSH_ENGINE_PREAD) {
        engine.flags = flags | SPSH_READ_NO_PREAD;
        rc = spsh_read_engine_open(&engine, &f->engine, &why);
        if (rc != SPSH_OK && opt->engine == SPSH_ENGINE_URING) {
            if (err != NULL)
                *err = why;
            return rc;
        }
        if (rc != SPSH_OK)
            spsh__log(loader, SPSH_LOG_WARNING, "%s; reading with pread", why.message);
    }
    if (rc != SPSH_OK) {
        engine.flags = (flags & ~SPSH_READ_SQPOLL) | SPSH_READ_NO_URING;
        rc = spsh_read_engine_open(&engine, &f->engine, err);
    }
    if (rc == SPSH_OK)
        log_engine(f);
    return rc;
}

static spsh_status open_tables(spsh__fetch *f, spsh_error *err)
{
    const spsh_allocator *allocator = &f->loader->allocator;
    f->requests = (spsh__request *)spsh__new(allocator, REQUESTS_MAX, sizeof(*f->requests));
    f->pending = (spsh__request **)spsh__new(allocator, REQUESTS_MAX, sizeof(spsh__request *));
    f->files.entries =
        (spsh__shard_file *)spsh__new(allocator, FILES_MAX, sizeof(*f->files.entries));
    if (f->requests == NULL || f->pending == NULL || f->files.entries == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE, "loader: tables of reads");
    f->files.allocator = allocator;
    f->files.datasets = f->loader->datasets;
    f->files.count = FILES_MAX;
    for (uint32_t n = 0; n < REQUESTS_MAX; n++) {
        f->requests[n].next = f->idle;
        f->idle = &f->requests[n];
    }
    return SPSH_OK;
}

spsh_status spsh__fetch_open(spsh_loader *loader, spsh_error *err)
{
    spsh__fetch *f = (spsh__fetch *)spsh__new(&loader->allocator, 1, sizeof(*f));
    if (f == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE, "loader: fetch thread");
    if (pthread_mutex_init(&f->watch_lock, NULL) != 0) {
        spsh__free(&loader->allocator, f);
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE, "loader: mutex");
    }
    loader->fetch = f;
    f->loader = loader;
    f->merge_bytes_max = loader->staging_bytes / 4;
    if (f->merge_bytes_max > MERGE_BYTES_MAX)
        f->merge_bytes_max = MERGE_BYTES_MAX;
    spsh_status rc = open_tables(f, err);
    if (rc == SPSH_OK)
        rc = spsh_sampler_open(loader->plan, loader->opt.rank, loader->opt.world_size, &f->sampler,
                               err);
    if (rc == SPSH_OK)
        rc = open_engine(f, err);
    if (rc != SPSH_OK)
        return rc; /* spsh__fetch_close frees the parts that exist */
    f->files.engine = f->engine;
    loader->cursor = spsh_sampler_tell(f->sampler);
    return SPSH_OK;
}

spsh_status spsh__fetch_start(spsh_loader *loader, spsh_error *err)
{
    int rc = pthread_create(&loader->fetch->thread, NULL, fetch_main, loader->fetch);
    if (rc != 0)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE, "loader: cannot start a thread");
    loader->fetch->is_started = true;
    return SPSH_OK;
}

void spsh__fetch_stop(spsh_loader *loader)
{
    if (loader->fetch == NULL || !loader->fetch->is_started)
        return;
    (void)pthread_mutex_lock(&loader->lock);
    loader->stop = true;
    (void)pthread_cond_signal(&loader->wake);
    (void)pthread_mutex_unlock(&loader->lock);
    (void)pthread_join(loader->fetch->thread, NULL);
    loader->fetch->is_started = false;
}

void spsh__fetch_close(spsh_loader *loader)
{
    if (loader->fetch == NULL)
        return;
    spsh_sampler_close(loader->fetch->sampler);
    (void)pthread_mutex_destroy(&loader->fetch->watch_lock);
    spsh__fetch_close_inherited(loader);
}

void spsh__fetch_close_inherited(spsh_loader *loader)
{
    spsh__fetch *f = loader->fetch;
    spsh_read_engine_close(f->engine);
    spsh__free(&loader->allocator, f->files.entries);
    spsh__free(&loader->allocator, (void *)f->pending);
    spsh__free(&loader->allocator, f->requests);
    spsh__free(&loader->allocator, f);
    loader->fetch = NULL;
}

const char *spsh__fetch_engine_name(const spsh_loader *loader)
{
    return spsh_read_engine_name(loader->fetch->engine);
}

uint64_t spsh__fetch_cpu_ns(const spsh_loader *loader)
{
    return loader->fetch->is_started ? spsh__thread_cpu_ns(loader->fetch->thread) : 0;
}
