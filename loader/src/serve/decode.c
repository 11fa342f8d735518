/* decode.c: take a job, verify and decode its record, fetch its strings, and handle failures.
 *
 * A record that fails a check is read again, by a reader of the dataset: to other memory, with
 * other system calls, and, compared with O_DIRECT, through another path in the kernel. Only if that
 * fails too is the record bad. The reader's message then names dataset, shard, utterance, offset,
 * and the expected and found values. If the engine does not read a record (fetch.c), a reader makes
 * both attempts.
 */
#include "decode.h"

#include <inttypes.h>

#include "batch/render.h"
#include "device_slots.h"
#include "fetch.h"
#include "policy.h"

struct spsh__worker {
    spsh_loader *loader;
    pthread_t thread;
    bool is_started;
    spsh__renderer renderer;
    pthread_mutex_t lock; /* guards the two below, which spsh__decode_watch reads */
    uint64_t since_ns;    /* begin of the current job; 0: idle */
    spsh__job job;        /* a copy of it: the slot may have the next batch already */
};

/* ---- one job ---- */

/* Read and decode with a reader of the dataset. Errors name the utterance. */
static spsh_status read_self(spsh__worker *w, spsh__job *job, spsh_error *err)
{
    spsh_loader *loader = w->loader;
    bool named = false;
    const uint64_t begin = spsh__now_ns();
    spsh_status rc = spsh__render_self(&w->renderer, job, &named, err);
    const uint64_t took_ms = (spsh__now_ns() - begin) / 1000000;
    if (took_ms >= loader->opt.slow_read_ms) {
        spsh_error slow = SPSH_ERROR_INIT;
        spsh_error_set(&slow, SPSH_E_IO, 0, SPSH_OFFSET_NONE, "reading took %" PRIu64 " ms",
                       took_ms);
        spsh__job_name(loader, job, &slow);
        atomic_fetch_add(&loader->counters.slow_reads, 1);
        spsh__log(loader, SPSH_LOG_WARNING, "%s", slow.message);
    }
    if (rc != SPSH_OK && !named)
        spsh__job_name(loader, job, err);
    return rc;
}

/* First attempt: decode the record that the engine has read, or read it with a reader. If the
 * engine's read failed, fail without setting err: the second attempt will report. */
static spsh_status read_first(spsh__worker *w, spsh__job *job, spsh_error *err)
{
    spsh_loader *loader = w->loader;
    if (job->retry)
        return SPSH_E_IO;
    if (job->record == NULL) {
        if (job->item.samples > 0)
            atomic_fetch_add(&loader->counters.range_reads, 1);
        return read_self(w, job, err);
    }
    spsh_status rc = spsh__render_record(&w->renderer, job, job->request->file_id, err);
    if (rc != SPSH_OK)
        spsh__job_name(loader, job, err);
    return rc;
}

static spsh_status read_again(spsh__worker *w, spsh__job *job, const spsh_error *first,
                              spsh_error *err)
{
    atomic_fetch_add(&w->loader->counters.retries, 1);
    spsh__job_give_back(w->loader, job);
    spsh_status rc = read_self(w, job, err);
    if (rc == SPSH_OK && first->status != SPSH_OK)
        spsh__log(w->loader, SPSH_LOG_WARNING, "%s (a second read succeeded)", first->message);
    return rc;
}

static spsh_status fill_strings(spsh_loader *loader, const spsh__job *job, spsh_error *err)
{
    spsh_batch_utterance *utterance = &job->slot->utterances[job->number];
    const spsh_dataset *dataset = loader->datasets[job->item.dataset];
    if (loader->texts == NULL)
        return SPSH_OK;
    spsh_status rc = spsh__texts_get(loader->texts, job, &utterance->id, &utterance->text, err);
    if (rc == SPSH_OK)
        rc = spsh_dataset_name(dataset, SPSH_NAME_SPEAKER, job->row.speaker, &utterance->speaker,
                               err);
    if (rc == SPSH_OK)
        rc = spsh_dataset_name(dataset, SPSH_NAME_LANGUAGE, job->row.language, &utterance->language,
                               err);
    return rc;
}

static void work(spsh__worker *w, spsh__job *job)
{
    spsh_loader *loader = w->loader;
    spsh_error first = SPSH_ERROR_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = read_first(w, job, &first);
    if (rc == SPSH_E_AUDIO && spsh__render_is_undecodable(&w->renderer, job)) {
        spsh__job_undecodable(loader, job, &first);
        return;
    }
    if (rc != SPSH_OK && rc != SPSH_E_NO_MEMORY)
        rc = read_again(w, job, &first, &err);
    else if (rc != SPSH_OK)
        err = first;
    if (rc == SPSH_OK)
        rc = fill_strings(loader, job, &err);
    if (rc == SPSH_OK)
        spsh__job_done(loader, job);
    else
        spsh__job_failed(loader, job, &err);
}

/* Publish the current job for spsh__decode_watch. job NULL: idle. */
static void publish_job(spsh__worker *w, const spsh__job *job)
{
    (void)pthread_mutex_lock(&w->lock);
    w->since_ns = job == NULL ? 0 : spsh__now_ns();
    if (job != NULL)
        w->job = *job;
    (void)pthread_mutex_unlock(&w->lock);
}

static void *decode_main(void *opaque)
{
    spsh__worker *w = (spsh__worker *)opaque;
    spsh__job *job = spsh__queue_take(&w->loader->queue, false);
    while (job != NULL) {
        publish_job(w, job);
        work(w, job);
        publish_job(w, NULL);
        job = spsh__queue_take(&w->loader->queue, true);
    }
    return NULL;
}

spsh_status spsh__decode_watch(spsh_loader *loader, spsh_error *err)
{
    const uint64_t now = spsh__now_ns();
    const uint64_t limit_ns = (uint64_t)loader->opt.read_deadline_ms * 1000000;
    for (uint32_t n = 0; n < loader->worker_count; n++) {
        spsh__worker *w = &loader->workers[n];
        (void)pthread_mutex_lock(&w->lock);
        const uint64_t since = w->since_ns;
        const spsh__job job = w->job;
        (void)pthread_mutex_unlock(&w->lock);
        if (since == 0 || now < since || now - since < limit_ns)
            continue;
        spsh_error_set(err, SPSH_E_IO, 0, SPSH_OFFSET_NONE,
                       "reading and decoding have taken %" PRIu64 " ms (read_deadline_ms is "
                       "%" PRIu32 ")",
                       (now - since) / 1000000, loader->opt.read_deadline_ms);
        if (err != NULL)
            spsh__job_name(loader, &job, err);
        return SPSH_E_IO;
    }
    return SPSH_OK;
}

/* ---- threads ---- */

spsh_status spsh__decode_start(spsh_loader *loader, spsh_error *err)
{
    const uint32_t count = loader->opt.decode_threads;
    spsh_status rc = SPSH_OK;
    loader->workers =
        (spsh__worker *)spsh__new(&loader->allocator, count, sizeof(*loader->workers));
    if (loader->workers == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "loader: %u decode threads", count);
    for (uint32_t n = 0; n < count && rc == SPSH_OK; n++) {
        spsh__worker *w = &loader->workers[n];
        w->loader = loader;
        if (pthread_mutex_init(&w->lock, NULL) != 0)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "loader: mutex");
        w->renderer = (spsh__renderer){.allocator = &loader->allocator,
                                       .datasets = loader->datasets,
                                       .dataset_count = loader->dataset_count,
                                       .budget = &loader->budget,
                                       .recipe = &loader->recipe,
                                       .maker = &loader->makers[n],
                                       .channel = loader->opt.channel};
        if (loader->device != NULL) {
            w->renderer.utterances_max = spsh__device_utterances_max(loader->device);
            w->renderer.blocks_max = spsh__device_blocks_max(loader->device);
        }
        loader->worker_count++;
        rc = spsh__renderer_open(&w->renderer, err);
        if (rc != SPSH_OK)
            break;
        w->is_started = pthread_create(&w->thread, NULL, decode_main, w) == 0;
        if (!w->is_started && n == 0)
            rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "loader: cannot start a thread");
        if (!w->is_started)
            break;
    }
    return rc;
}

void spsh__decode_stop(spsh_loader *loader)
{
    if (loader->workers == NULL)
        return;
    spsh__queue_close(&loader->queue);
    for (uint32_t n = 0; n < loader->worker_count; n++) {
        if (loader->workers[n].is_started)
            (void)pthread_join(loader->workers[n].thread, NULL);
        spsh__renderer_close(&loader->workers[n].renderer);
        (void)pthread_mutex_destroy(&loader->workers[n].lock);
    }
    spsh__free(&loader->allocator, loader->workers);
    loader->workers = NULL;
    loader->worker_count = 0;
}

uint64_t spsh__feature_cpu_ns(const spsh_loader *loader)
{
    uint64_t sum = 0;
    for (uint32_t n = 0; n < loader->worker_count; n++)
        sum += atomic_load_explicit(&loader->makers[n].cpu_ns, memory_order_relaxed);
    return sum;
}

uint64_t spsh__decode_cpu_ns(const spsh_loader *loader)
{
    uint64_t sum = 0;
    for (uint32_t n = 0; n < loader->worker_count; n++)
        if (loader->workers[n].is_started)
            sum += spsh__thread_cpu_ns(loader->workers[n].thread);
    return sum;
}
