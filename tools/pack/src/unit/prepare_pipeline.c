/* prepare_pipeline.c: a ring of job slots.
 *
 *     released <= handed out <= taken <= released + window
 *
 * Workers take jobs in order and finish them in any; the consumer waits for the oldest. Everything
 * is under one mutex: a job takes milliseconds, a lock less than a microsecond.
 */
#include "prepare_pipeline.h"

#include <pthread.h>
#include <stdlib.h>

#include "plan/plan_item.h"
#include "speechshard/inside.h"

#define SLOTS_PER_WORKER 16U

typedef struct job_slot {
    spsh__job_result result;
    bool done;
    spsh_status status;
    spsh_error error;
} job_slot;

struct spsh__pipeline {
    spsh__pipeline_options options;
    pthread_mutex_t mutex;
    pthread_cond_t may_take;
    pthread_cond_t may_hand_out;
    pthread_t *threads;
    size_t thread_count;
    job_slot *slots;
    size_t window;
    size_t taken;    /* next job for a worker */
    size_t released; /* next job for the consumer */
    uint64_t in_flight_bytes;
    bool stopping;
};

static void run_job(const spsh__pipeline *pipeline, job_slot *slot)
{
    const spsh_pack_options *pack = pipeline->options.pack;
    const spsh__prepare_job *job = slot->result.job;
    const uint8_t *at = pipeline->options.items.data + job->first_item_bytes;
    const spsh_bytes rest = {at, pipeline->options.items.size_bytes - job->first_item_bytes};
    spsh_ingest_item item;
    uint64_t sequence = 0;

    if (!spsh__item_read(rest, &item, &sequence)) {
        slot->status = SPSH_FAIL(&slot->error, SPSH_E_CORRUPT, "the plan is damaged");
        return;
    }
    slot->status = spsh__prepare(pack, &item, &slot->result.prepared, &slot->error);
    if (slot->status == SPSH_OK && item.sidecar.path != NULL && !slot->result.prepared.rejected)
        slot->status =
            spsh__prepare_text(pack->io, &item.sidecar, &slot->result.text,
                               &slot->result.text_reason, &slot->result.text_detail, &slot->error);
}

static bool may_take(const spsh__pipeline *pipeline)
{
    size_t next = pipeline->taken;
    if (next == pipeline->options.job_count || next - pipeline->released >= pipeline->window)
        return false;
    return next == pipeline->released ||
           pipeline->in_flight_bytes + pipeline->options.jobs[next].cost_bytes <=
               pipeline->options.pack->memory_bytes;
}

static void *work(void *user)
{
    spsh__pipeline *pipeline = user;

    (void)pthread_mutex_lock(&pipeline->mutex);
    for (;;) {
        while (!pipeline->stopping && !may_take(pipeline) &&
               pipeline->taken < pipeline->options.job_count)
            (void)pthread_cond_wait(&pipeline->may_take, &pipeline->mutex);
        if (pipeline->stopping || pipeline->taken == pipeline->options.job_count)
            break;
        size_t index = pipeline->taken++;
        job_slot *slot = &pipeline->slots[index % pipeline->window];
        slot->result =
            (spsh__job_result){.job = &pipeline->options.jobs[index], .job_index = index};
        slot->done = false;
        pipeline->in_flight_bytes += slot->result.job->cost_bytes;
        (void)pthread_mutex_unlock(&pipeline->mutex);
        run_job(pipeline, slot);
        (void)pthread_mutex_lock(&pipeline->mutex);
        slot->done = true;
        (void)pthread_cond_signal(&pipeline->may_hand_out);
    }
    (void)pthread_mutex_unlock(&pipeline->mutex);
    return NULL;
}

static spsh_status start_threads(spsh__pipeline *pipeline, spsh_error *err)
{
    uint32_t jobs = pipeline->options.pack->threads;

    while (pipeline->thread_count < jobs) {
        int error =
            pthread_create(&pipeline->threads[pipeline->thread_count], NULL, work, pipeline);
        if (error != 0 && pipeline->thread_count == 0)
            return SPSH_FAIL_OS(err, SPSH_E_NO_MEMORY, error, "no thread can be started");
        if (error != 0)
            break; /* fewer are slower, not wrong */
        pipeline->thread_count++;
    }
    return SPSH_OK;
}

spsh_status spsh__pipeline_start(const spsh__pipeline_options *options,
                                 spsh__pipeline **ret_pipeline, spsh_error *err)
{
    spsh__pipeline *pipeline = calloc(1, sizeof(*pipeline));
    spsh_status rc = SPSH_OK;

    if (pipeline == NULL)
        return SPSH_NO_MEMORY(err);
    pipeline->options = *options;
    pipeline->taken = options->first_job;
    pipeline->released = options->first_job;
    pipeline->window = (size_t)options->pack->threads * SLOTS_PER_WORKER;
    (void)pthread_mutex_init(&pipeline->mutex, NULL);
    (void)pthread_cond_init(&pipeline->may_take, NULL);
    (void)pthread_cond_init(&pipeline->may_hand_out, NULL);
    pipeline->slots = calloc(pipeline->window, sizeof(*pipeline->slots));
    pipeline->threads = calloc(options->pack->threads, sizeof(*pipeline->threads));
    rc = pipeline->slots == NULL || pipeline->threads == NULL ? SPSH_NO_MEMORY(err)
                                                              : start_threads(pipeline, err);
    if (rc != SPSH_OK) {
        spsh__pipeline_stop(pipeline);
        return rc;
    }
    *ret_pipeline = pipeline;
    return SPSH_OK;
}

spsh_status spsh__pipeline_next(spsh__pipeline *pipeline, spsh__job_result **ret_result,
                                spsh_error *err)
{
    if (pipeline->released == pipeline->options.job_count)
        return SPSH_E_END;
    job_slot *slot = &pipeline->slots[pipeline->released % pipeline->window];
    (void)pthread_mutex_lock(&pipeline->mutex);
    while (pipeline->taken == pipeline->released || !slot->done)
        (void)pthread_cond_wait(&pipeline->may_hand_out, &pipeline->mutex);
    (void)pthread_mutex_unlock(&pipeline->mutex);
    if (slot->status != SPSH_OK && err != NULL)
        *err = slot->error;
    *ret_result = &slot->result;
    return slot->status;
}

static void free_result(spsh__job_result *result)
{
    spsh__prepared_free(&result->prepared);
    spsh__builder_free(&result->text);
}

void spsh__pipeline_release(spsh__pipeline *pipeline)
{
    job_slot *slot = &pipeline->slots[pipeline->released % pipeline->window];

    free_result(&slot->result);
    (void)pthread_mutex_lock(&pipeline->mutex);
    slot->done = false;
    pipeline->in_flight_bytes -= slot->result.job->cost_bytes;
    pipeline->released++;
    (void)pthread_cond_broadcast(&pipeline->may_take);
    (void)pthread_mutex_unlock(&pipeline->mutex);
}

void spsh__pipeline_stop(spsh__pipeline *pipeline)
{
    if (pipeline == NULL)
        return;
    (void)pthread_mutex_lock(&pipeline->mutex);
    pipeline->stopping = true;
    (void)pthread_cond_broadcast(&pipeline->may_take);
    (void)pthread_mutex_unlock(&pipeline->mutex);
    for (size_t i = 0; i < pipeline->thread_count; i++)
        (void)pthread_join(pipeline->threads[i], NULL);
    for (size_t i = pipeline->released; i < pipeline->taken; i++)
        free_result(&pipeline->slots[i % pipeline->window].result);
    (void)pthread_cond_destroy(&pipeline->may_hand_out);
    (void)pthread_cond_destroy(&pipeline->may_take);
    (void)pthread_mutex_destroy(&pipeline->mutex);
    free(pipeline->threads);
    free(pipeline->slots);
    free(pipeline);
}
