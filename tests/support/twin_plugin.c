/* twin_plugin.c: the CUDA plug-in without CUDA. "Device" memory is the host's; the kernels' own
 * text (featgen/src/cuda/device_*.h) runs as C, the threads of a block one after the other, phase
 * by phase. The libraries cannot tell it from the real one.
 *
 * With TWIN_THREADS the threads of a block are threads, which wait for each other behind each phase
 * as a block's do: a sanitizer then sees whether two of them meet within one.
 *
 * A block's memory is full of NaNs when it begins, and so is memory that was just allocated: what
 * is read before it is written shows.
 */
#include "twin_plugin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef TWIN_THREADS
#include <pthread.h>
#include <stdbool.h>

/* As few as the partial sums of eight frames need. */
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
#include "speechshard/cuda_plugin.h"

enum { DEVICES = 2, POISON = 0xff };

SPSH_API twin_controls *twin_controls_get(void);
SPSH_API const spsh__cuda_plugin *spsh_cuda_plugin(void);
SPSH_API const spsh__device_features_entry *spsh_cuda_features_entry(void);

/* 99 KiB: of sm_86. */
#ifdef TWIN_THREADS
static twin_controls controls = {.memory_bytes = 101376, .has_threads = true};
#else
static twin_controls controls = {.memory_bytes = 101376};
#endif

SPSH_API twin_controls *twin_controls_get(void)
{
    return &controls;
}

static spsh_status fail(spsh_error *err, spsh_status status, const char *text)
{
    if (err != NULL) {
        err->status = status;
        (void)snprintf(err->message, sizeof(err->message), "%s", text);
    }
    return status;
}

/* ---- devices and memory ---- */

static spsh_status count_devices(uint32_t *ret_count, spsh_error *err)
{
    (void)err;
    *ret_count = DEVICES;
    return SPSH_OK;
}

static spsh_status get_device(uint32_t number, spsh_cuda_device *ret_device, spsh_error *err)
{
    (void)err;
    *ret_device = (spsh_cuda_device){.capability_major = 1, .multiprocessor_count = number + 1};
    (void)snprintf(ret_device->name, sizeof(ret_device->name), "twin %u", number);
    return SPSH_OK;
}

static void *new_memory(size_t size_bytes)
{
    void *memory = malloc(size_bytes);
    if (memory != NULL) {
        memset(memory, POISON, size_bytes);
        controls.open_memory++;
    }
    return memory;
}

static spsh_status alloc_memory(uint32_t device, size_t size_bytes, void **ret_memory,
                                spsh_error *err)
{
    void *memory = new_memory(size_bytes);
    (void)device;
    if (memory == NULL)
        return fail(err, SPSH_E_NO_MEMORY, "twin: no memory");
    *ret_memory = memory;
    return SPSH_OK;
}

static void free_memory(void *memory)
{
    if (memory != NULL)
        controls.open_memory--;
    free(memory);
}

static spsh_status copy(void *to, const void *from, size_t size_bytes, void *stream,
                        spsh_error *err)
{
    (void)stream, (void)err;
    memcpy(to, from, size_bytes);
    return SPSH_OK;
}

static spsh_status synchronize(void *stream, spsh_error *err)
{
    (void)stream, (void)err;
    return SPSH_OK;
}

SPSH_API const spsh__cuda_plugin *spsh_cuda_plugin(void)
{
    static const spsh__cuda_plugin plugin = {
        SPSH__CUDA_ABI, SPSH_VERSION_STRING, count_devices, get_device,
        alloc_memory,   free_memory,         copy,          synchronize,
    };
    return &plugin;
}

/* ---- features ---- */

typedef struct state {
    spsh__device_job job;
    void *tables;
    float *block_memory;
    spsh__device_utterance *utterances;
} state;

static void close_state(void *opaque)
{
    state *self = opaque;
    free_memory(self->job.rows);
    free_memory(self->job.own_mean);
    free_memory(self->job.own_scales);
    free_memory(self->job.sums);
    free_memory(self->tables);
    free_memory(self->block_memory);
    free_memory(self->utterances);
    free(self);
}

static spsh_status open_state(const spsh__device_features_plan *plan, void **ret_state,
                              spsh_error *err)
{
    const uint32_t dim = plan->tables->dim;
    const size_t count = plan->utterance_count_max;
    state *self = calloc(1, sizeof(*self));
    if (self == NULL)
        return fail(err, SPSH_E_NO_MEMORY, "twin: no memory");
    spsh__device_job *job = &self->job;
    self->tables = new_memory(spsh__device_tables(plan->tables, NULL, NULL, &job->tables));
    (void)spsh__device_tables(plan->tables, self->tables, self->tables, &job->tables);
    job->room = spsh__device_room_of(&job->tables);
    if (!spsh__device_lanes(&job->room, controls.memory_bytes, &job->lane_shift)) {
        close_state(self);
        return fail(err, SPSH_E_UNSUPPORTED, "twin: a block's memory is too small");
    }
    if (plan->row_count_max != 0)
        job->rows = new_memory(plan->row_count_max * dim * sizeof(float));
    job->own_mean = new_memory(count * dim * sizeof(float));
    job->own_scales = new_memory(count * dim * sizeof(float));
    job->sums = new_memory(count * 2 * dim * sizeof(double));
    self->block_memory = new_memory(((size_t)job->room.end << job->lane_shift) * sizeof(float));
    self->utterances = new_memory(count * sizeof(*self->utterances));
    *ret_state = self;
    return SPSH_OK;
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
    job->room = self->job.room;
    job->lane_shift = self->job.lane_shift;
    job->rows = self->job.rows;
    job->own_mean = self->job.own_mean;
    job->own_scales = self->job.own_scales;
    job->sums = self->job.sums;
    job->utterances = self->utterances;
    job->stats_step = is_one ? 0 : 1;
    if (is_given)
        return;
    job->mean = job->own_mean;
    job->scales = job->own_scales;
    job->stats_stride = is_one ? 1 : job->tables.dim;
}

/* ---- what all threads of a block run; one, which stands for all of them, without TWIN_THREADS
 * ---- */

typedef struct work {
    const state *self;
    const spsh__device_job *job;
    float *tops; /* SPSH__DEVICE_THREADS */
    uint32_t number;
} work;

/* By one thread, while the others wait. */
static void poison(void *memory, size_t size_bytes)
{
#ifdef TWIN_THREADS
    if (twin_thread == 0)
        memset(memory, POISON, size_bytes);
    twin_wait();
#else
    memset(memory, POISON, size_bytes);
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
            .memory = of->self->block_memory,
            .order = controls.order,
        };
        poison(block.memory, job->room.end * lanes * sizeof(float));
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
        const spsh__device_stats stats = {job, &job->utterances[u], u, of->tops, controls.order};
        poison(of->tops, SPSH__DEVICE_THREADS * sizeof(float));
        spsh__device_statistics(&stats);
    }
    for (uint32_t u = 0; u < job->utterance_count; u++)
        for (uint64_t at = first; at < spsh__device_finish_count(job, u); at += step)
            spsh__device_finish(job, u, at);
    return NULL;
}

static spsh_status run(void *opaque, void *stream, const spsh__device_job *given,
                       uint64_t frames_max, spsh_error *err)
{
    const state *self = opaque;
    spsh__device_job job;
    float tops[SPSH__DEVICE_THREADS];
    (void)stream, (void)err, (void)frames_max;
    complete(self, given, &job);
#ifdef TWIN_THREADS
    pthread_t threads[SPSH__DEVICE_THREADS];
    work works[SPSH__DEVICE_THREADS];
    if (pthread_barrier_init(&twin_barrier, NULL, SPSH__DEVICE_THREADS) != 0)
        return fail(err, SPSH_E_IO, "twin: no barrier");
    for (uint32_t i = 0; i < SPSH__DEVICE_THREADS; i++) {
        works[i] = (work){self, &job, tops, i};
        if (pthread_create(&threads[i], NULL, run_thread, &works[i]) != 0)
            abort(); /* the others wait for it */
    }
    for (uint32_t i = 0; i < SPSH__DEVICE_THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    (void)pthread_barrier_destroy(&twin_barrier);
#else
    work all = {self, &job, tops, 0};
    (void)run_thread(&all);
#endif
    return SPSH_OK;
}

SPSH_API const spsh__device_features_entry *spsh_cuda_features_entry(void)
{
    static const spsh__device_features_entry entry = {
        sizeof(spsh__frame_tables), sizeof(spsh__device_job), open_state, close_state, begin, run,
    };
    return &entry;
}
