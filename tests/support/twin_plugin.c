/* twin_plugin.c: the CUDA plug-in without CUDA. "Device" memory is host memory. The kernel source
 * (featgen/src/cuda/device_*.h) runs as C, the threads of a block one after another, phase
 * by phase. The libraries cannot distinguish it from the real one.
 *
 * With TWIN_THREADS the threads of a block are real threads, with a barrier after each phase: a
 * sanitizer then sees conflicts between two of them within a phase.
 *
 * A block's shared memory is filled with NaNs when it begins, and so is newly allocated memory:
 * reads of unwritten memory become visible.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef TWIN_THREADS
#include <pthread.h>
#include <stdbool.h>

/* The minimum for the partial sums of eight frames. */
#define SPSH__DEVICE_THREADS 32U
#define EACH_THREAD(block_, call_)                                                                 \
    do {                                                                                           \
        const uint32_t thread = twin_thread;                                                       \
        call_;                                                                                     \
        twin_wait();                                                                               \
    } while (0)

static _Thread_local uint32_t twin_thread;
static pthread_barrier_t twin_barrier;

static void twin_wait(void)
{
    (void)pthread_barrier_wait(&twin_barrier);
}
#endif

#include "cuda/device_entry.h"
#include "cuda/device_norm.h"
#include "cuda/device_tables.h"
#include "twin_internal.h"

SPSH_API const spsh__cuda_plugin *spsh_cuda_plugin(void);
SPSH_API const spsh__device_features_entry *spsh_cuda_features_entry(void);

SPSH_API const spsh__cuda_plugin *spsh_cuda_plugin(void)
{
    return &twin_table;
}

/* ---- features ---- */

typedef struct state {
    spsh__device_job job;
    uint32_t utterance_count_max;
    void *tables;
    size_t table_bytes, row_bytes;
    spsh__device_utterance *utterances; /* on the host; followed by masks */
} state;

static void close_state(void *opaque)
{
    state *self = opaque;
    twin_table.free_fn(self->job.rows);
    twin_table.free_fn(self->job.own_mean);
    twin_table.free_fn(self->job.own_scales);
    twin_table.free_fn(self->job.sums);
    twin_table.free_fn(self->job.mask_values);
    twin_table.free_fn(self->tables);
    free(self->utterances);
    free(self);
}

/* All persistent data, on the device. */
static spsh_status make_memory(state *self, const spsh__device_features_plan *plan, spsh_error *err)
{
    const uint32_t dim = plan->tables->dim;
    const size_t count = plan->utterance_count_max;
    spsh__device_job *job = &self->job;
    const struct {
        void **memory;
        size_t bytes;
    } pieces[] = {
        {&self->tables,              self->table_bytes                               },
        {(void **)&job->own_mean,    count * dim * sizeof(float)                     },
        {(void **)&job->own_scales,  count * dim * sizeof(float)                     },
        {(void **)&job->sums,        count * 2 * dim * sizeof(double)                },
        {(void **)&job->rows,        self->row_bytes                                 },
        {(void **)&job->mask_values, plan->mask_count > 0 ? count * sizeof(float) : 0},
    };
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; rc == SPSH_OK && i < sizeof(pieces) / sizeof(pieces[0]); i++)
        if (pieces[i].bytes > 0)
            rc = twin_table.alloc_fn(plan->device, pieces[i].bytes, pieces[i].memory, err);
    return rc;
}

static spsh_status open_state(const spsh__device_features_plan *plan, void **ret_state,
                              spsh_error *err)
{
    state *self = twin_new(sizeof(*self));
    spsh__device_job *job = &self->job;
    self->table_bytes = spsh__device_tables(plan->tables, NULL, NULL, &job->tables);
    self->row_bytes = plan->row_count_max * plan->tables->dim * sizeof(float);
    self->utterance_count_max = plan->utterance_count_max;
    self->utterances =
        twin_new(spsh__device_table_bytes(plan->utterance_count_max, plan->mask_count));
    job->layout = spsh__device_layout_of(&job->tables);
    spsh_status rc = make_memory(self, plan, err);
    if (rc == SPSH_OK &&
        !spsh__device_lanes(&job->layout, twin_state.memory_bytes, &job->lane_shift))
        rc = spsh__cuda_fail(err, SPSH_E_UNSUPPORTED, "a block's memory is too small");
    if (rc == SPSH_OK) {
        (void)spsh__device_tables(plan->tables, self->tables, self->tables, &job->tables);
        *ret_state = self;
    } else {
        close_state(self);
    }
    return rc;
}

static spsh_status begin(void *opaque, spsh__device_utterance **ret_utterances, spsh_error *err)
{
    state *self = opaque;
    (void)err;
    *ret_utterances = self->utterances;
    return SPSH_OK;
}

static void complete(const state *self, const spsh__device_job *given, spsh__device_job *job)
{
    const spsh_feature_norm norm = self->job.tables.features.norm;
    const bool is_given = norm == SPSH_NORM_SPEAKER || norm == SPSH_NORM_DATASET;
    const bool is_one = norm == SPSH_NORM_WHISPER || norm == SPSH_NORM_UTTERANCE;
    *job = *given;
    job->tables = self->job.tables;
    job->layout = self->job.layout;
    job->lane_shift = self->job.lane_shift;
    job->rows = self->job.rows;
    job->own_mean = self->job.own_mean;
    job->own_scales = self->job.own_scales;
    job->sums = self->job.sums;
    job->mask_values = self->job.mask_values;
    job->utterances = NULL; /* passed with the work, as the masks are */
    job->stats_step = is_one ? 0 : 1;
    if (is_given)
        return;
    job->mean = job->own_mean;
    job->scales = job->own_scales;
    job->stats_stride = is_one ? 1 : job->tables.dim;
}

/* ---- code of the threads of a block; without TWIN_THREADS, one thread does the work of all
 * ---- */

typedef struct work {
    const spsh__device_job *job;
    float *memory; /* memory of a block of frames */
    float *tops;   /* SPSH__DEVICE_THREADS */
    uint32_t number;
} work;

/* Called by one thread while the others wait. */
static void poison(void *memory, size_t size_bytes)
{
#ifdef TWIN_THREADS
    if (twin_thread == 0)
        memset(memory, TWIN_POISON, size_bytes);
    twin_wait();
#else
    memset(memory, TWIN_POISON, size_bytes);
#endif
}

static void frames_of(const work *of, uint32_t number)
{
    const spsh__device_job *job = of->job;
    const spsh__device_utterance *utterance = &job->utterances[number];
    const uint64_t lanes = UINT64_C(1) << job->lane_shift;
    for (uint64_t first = 0; first < utterance->frame_count; first += lanes) {
        const uint64_t left = utterance->frame_count - first;
        const spsh__device_block block = {
            .job = job,
            .utterance = utterance,
            .first_frame = first,
            .lane_count = (uint32_t)(left < lanes ? left : lanes),
            .memory = of->memory,
            .order = twin_order(),
        };
        poison(block.memory, job->layout.end * lanes * sizeof(float));
        spsh__device_frames(&block);
    }
}

static void *run_thread(void *opaque)
{
    const work *of = opaque;
    const spsh__device_job *job = of->job;
    uint64_t first = 0, step = 1;
#ifdef TWIN_THREADS
    twin_thread = of->number;
    first = of->number;
    step = SPSH__DEVICE_THREADS;
#endif
    for (uint32_t u = 0; u < job->utterance_count; u++)
        frames_of(of, u);
    for (uint32_t u = 0; u < job->utterance_count; u++) {
        const spsh__device_stats stats = {job, &job->utterances[u], u, of->tops, twin_order()};
        poison(of->tops, SPSH__DEVICE_THREADS * sizeof(float));
        spsh__device_statistics(&stats);
    }
    for (uint32_t u = 0; u < job->utterance_count; u++)
        for (uint64_t at = first; at < spsh__device_finish_count(job, u); at += step)
            spsh__device_finish(job, u, at);
    return NULL;
}

/* The arguments: the job, followed by its utterances. */
static void run_job(void *arguments)
{
    spsh__device_job *job = arguments;
    float tops[SPSH__DEVICE_THREADS];
    float *memory = twin_shared(((size_t)job->layout.end << job->lane_shift) * sizeof(float));
    spsh__device_utterance *utterances = (spsh__device_utterance *)(job + 1);
    job->utterances = utterances;
    job->masks = spsh__device_table_masks(utterances, job->utterance_count);
#ifdef TWIN_THREADS
    pthread_t threads[SPSH__DEVICE_THREADS];
    work works[SPSH__DEVICE_THREADS];
    if (pthread_barrier_init(&twin_barrier, NULL, SPSH__DEVICE_THREADS) != 0)
        twin_stop("no barrier");
    for (uint32_t i = 0; i < SPSH__DEVICE_THREADS; i++) {
        works[i] = (work){job, memory, tops, i};
        if (pthread_create(&threads[i], NULL, run_thread, &works[i]) != 0)
            twin_stop("no thread"); /* the other threads would wait at the barrier forever */
    }
    for (uint32_t i = 0; i < SPSH__DEVICE_THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    (void)pthread_barrier_destroy(&twin_barrier);
#else
    work all = {job, memory, tops, 0};
    (void)run_thread(&all);
#endif
}

/* Fill uses, which has capacity for two per utterance and OWN_USES. Return their number. */
enum { OWN_USES = 8 };

static size_t uses_of(const state *self, const spsh__device_job *job, spsh__device_use *uses)
{
    const size_t dim = job->tables.dim;
    const size_t all = (size_t)self->utterance_count_max * dim;
    const size_t value_bytes = job->dtype == SPSH_FLOAT16 ? sizeof(uint16_t) : sizeof(float);
    size_t count = 0;
    for (uint32_t u = 0; u < job->utterance_count; u++) {
        const spsh__device_utterance *one = &self->utterances[u];
        const uint64_t frames = job->padded_frames != 0 ? job->padded_frames : one->frame_count;
        if (one->given_count > 0)
            uses[count++] = (spsh__device_use){job->samples + one->first_sample,
                                               one->given_count * sizeof(int16_t), 0};
        if (frames > 0)
            uses[count++] =
                (spsh__device_use){(const char *)job->values + one->first_value * value_bytes,
                                   frames * dim * value_bytes, 1};
    }
    const size_t given = job->utterance_count == 0
                             ? 0
                             : (size_t)job->stats_stride * (job->utterance_count - 1) + dim;
    const bool is_given = job->mean != NULL && job->mean != job->own_mean;
    uses[count++] = (spsh__device_use){self->tables, self->table_bytes, 0};
    uses[count++] = (spsh__device_use){job->own_mean, all * sizeof(float), 1};
    uses[count++] = (spsh__device_use){job->own_scales, all * sizeof(float), 1};
    uses[count++] = (spsh__device_use){job->sums, 2 * all * sizeof(double), 1};
    uses[count++] = (spsh__device_use){job->rows, self->row_bytes, 1};
    uses[count++] = (spsh__device_use){
        job->mask_values, job->mask_values != NULL ? self->utterance_count_max * sizeof(float) : 0,
        1};
    uses[count++] = (spsh__device_use){job->mean, is_given ? given * sizeof(float) : 0, 0};
    uses[count++] = (spsh__device_use){job->scales, is_given ? given * sizeof(float) : 0, 0};
    return count;
}

static spsh_status run(void *opaque, void *stream, const spsh__device_job *given,
                       uint64_t frames_max, spsh_error *err)
{
    const state *self = opaque;
    const size_t table_bytes = spsh__device_table_bytes(given->utterance_count,
                                                        given->time_masks + given->frequency_masks);
    const size_t use_capacity = (size_t)given->utterance_count * 2 + OWN_USES;
    spsh__device_job *job = twin_new(sizeof(*job) + table_bytes);
    spsh__device_use *uses = twin_new(use_capacity * sizeof(*uses));
    (void)frames_max;
    complete(self, given, job);
    memcpy(job + 1, self->utterances, table_bytes);
    const twin_work features = {
        .name = "features",
        .run_fn = run_job,
        .arguments = job,
        .argument_bytes = sizeof(*job) + table_bytes,
        .uses = uses,
        .use_count = uses_of(self, job, uses),
    };
    const spsh_status rc = twin_enqueue(stream, &features, err);
    free(uses);
    free(job);
    return rc;
}

SPSH_API const spsh__device_features_entry *spsh_cuda_features_entry(void)
{
    static const spsh__device_features_entry entry = {
        sizeof(spsh__frame_tables), sizeof(spsh__device_job), open_state, close_state, begin, run,
    };
    return &entry;
}
