/* features.cu: the kernels of features, and the device's side of featgen_cuda.h.
 *
 *     frames_kernel      grid (blocks of frames, utterances)  samples --> rows, or values
 *     statistics_kernel  grid (1, utterances)                 rows --> input of norm and masks
 *     finish_kernel      grid (blocks of values, utterances)  rows --> values, masks, padding
 *
 * The second kernel runs if a norm or masks need it. The third runs if there is a norm, masks, or
 * padding, or if rows are stored separately. device_frames.h and device_norm.h describe the work of
 * a thread block. In an utterance with fewer frames than the longest, the excess blocks end at
 * once.
 *
 * A batch's table (its utterances and their masks) goes through one of SLOTS pinned slots, used in
 * turn. The event recorded after the batch's last kernel tells when a slot is free.
 */
#include <cuda_runtime.h>
#include <stdlib.h>

#include "device_entry.h"
#include "device_norm.h"
#include "device_tables.h"
#include "speechshard/cuda_plugin.h"

enum { SLOTS = 4, FINISH_BLOCKS_MAX = 1 << 20 };

typedef struct slot {
    spsh__device_utterance *pinned, *device;
    cudaEvent_t done;
    bool is_used;
} slot;

typedef struct state {
    uint32_t device;
    uint32_t utterance_count_max, mask_count;
    spsh__device_job job; /* fields common to all batches: tables, offsets, memory of the plug-in */
    size_t block_bytes;   /* shared memory of a block of frames */
    void *tables;
    slot slots[SLOTS];
    uint32_t next;
} state;

extern __shared__ float shared_memory[];

static __global__ void __launch_bounds__(SPSH__DEVICE_THREADS)
    frames_kernel(const __grid_constant__ spsh__device_job job)
{
    const spsh__device_utterance *utterance = &job.utterances[blockIdx.y];
    const uint64_t first = (uint64_t)blockIdx.x << job.lane_shift;
    if (first >= utterance->frame_count)
        return;
    const uint64_t left = utterance->frame_count - first;
    const uint32_t lanes = 1U << job.lane_shift;
    const spsh__device_block block = {
        &job, utterance, first, left < lanes ? (uint32_t)left : lanes, shared_memory, 0,
    };
    spsh__device_frames(&block);
}

static __global__ void __launch_bounds__(SPSH__DEVICE_THREADS)
    statistics_kernel(const __grid_constant__ spsh__device_job job)
{
    const spsh__device_stats stats = {
        &job, &job.utterances[blockIdx.y], blockIdx.y, shared_memory, 0,
    };
    spsh__device_statistics(&stats);
}

static __global__ void __launch_bounds__(SPSH__DEVICE_THREADS)
    finish_kernel(const __grid_constant__ spsh__device_job job)
{
    const uint64_t count = spsh__device_finish_count(&job, blockIdx.y);
    const uint64_t step = (uint64_t)gridDim.x * SPSH__DEVICE_THREADS;
    for (uint64_t at = (uint64_t)blockIdx.x * SPSH__DEVICE_THREADS + threadIdx.x; at < count;
         at += step)
        spsh__device_finish(&job, blockIdx.y, at);
}

/* ---- opening ---- */

static spsh_status new_memory(size_t count, size_t element_bytes, const char *what,
                              void **ret_memory, spsh_error *err)
{
    *ret_memory = NULL;
    if (count == 0)
        return SPSH_OK;
    if (count > SIZE_MAX / element_bytes)
        return spsh__cuda_fail(err, SPSH_E_NO_MEMORY, "%s: %zu elements", what, count);
    return spsh__cuda_check(cudaMalloc(ret_memory, count * element_bytes), what, err);
}

static spsh_status bring_tables(state *self, const spsh__frame_tables *tables, spsh_error *err)
{
    spsh__frame_tables *moved = &self->job.tables;
    const size_t bytes = spsh__device_tables(tables, NULL, NULL, moved);
    void *host = NULL;
    spsh_status rc = new_memory(bytes, 1, "memory for tables of features", &self->tables, err);
    if (rc != SPSH_OK)
        return rc;
    host = malloc(bytes);
    if (host == NULL)
        return spsh__cuda_fail(err, SPSH_E_NO_MEMORY, "tables of features: %zu bytes", bytes);
    (void)spsh__device_tables(tables, host, self->tables, moved);
    rc = spsh__cuda_check(cudaMemcpy(self->tables, host, bytes, cudaMemcpyHostToDevice),
                          "copying tables of features", err);
    free(host);
    return rc;
}

/* Choose as many frames per block as allow four blocks on a multiprocessor. If not even one frame
 * does, choose the maximum for a single block. */
static spsh_status choose_lanes(state *self, spsh_error *err)
{
    int block_bytes = 0;
    int all_bytes = 0;
    spsh__device_job *job = &self->job;
    spsh_status rc = spsh__cuda_check(
        cudaDeviceGetAttribute(&block_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, self->device),
        "reading the shared memory per block", err);
    if (rc == SPSH_OK)
        rc = spsh__cuda_check(cudaDeviceGetAttribute(&all_bytes,
                                                     cudaDevAttrMaxSharedMemoryPerMultiprocessor,
                                                     self->device),
                              "reading the shared memory per multiprocessor", err);
    if (rc != SPSH_OK)
        return rc;
    job->layout = spsh__device_layout_of(&job->tables);
    const size_t most = (size_t)block_bytes;
    const size_t quarter = (size_t)all_bytes / 4 - 1024; /* each block needs 1024 bytes more */
    if (!spsh__device_lanes(&job->layout, quarter < most ? quarter : most, &job->lane_shift) &&
        !spsh__device_lanes(&job->layout, most, &job->lane_shift))
        return spsh__cuda_fail(err, SPSH_E_UNSUPPORTED,
                               "a transform of %u points needs %zu bytes of shared memory, but a "
                               "block of this device has %d; compute these features on the CPU",
                               job->tables.fft_size, job->layout.end * sizeof(float), block_bytes);
    self->block_bytes = ((size_t)job->layout.end << job->lane_shift) * sizeof(float);
    /* Set the maximum, not what this job needs: all users of the kernel share the setting. */
    return spsh__cuda_check(cudaFuncSetAttribute(frames_kernel,
                                                 cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                 block_bytes),
                            "setting the shared memory of the feature kernel", err);
}

/* Allocate the statistics for masks and per-utterance norms. */
static spsh_status make_statistics(state *self, spsh_error *err)
{
    spsh__device_job *job = &self->job;
    const uint32_t dim = job->tables.dim;
    const size_t count = self->utterance_count_max;
    const char *what = "memory for statistics of features";
    bool has_sums = self->mask_count > 0;
    job->stats_step = 0;
    switch (job->tables.features.norm) {
    case SPSH_NORM_NONE: break;
    case SPSH_NORM_SPEAKER:
    case SPSH_NORM_DATASET: job->stats_step = 1; break;
    case SPSH_NORM_WHISPER: job->stats_stride = 1; break;
    case SPSH_NORM_UTTERANCE:
        job->stats_stride = 1;
        has_sums = true;
        break;
    case SPSH_NORM_MEAN:
    case SPSH_NORM_MEAN_VARIANCE:
        job->stats_stride = dim;
        job->stats_step = 1;
        has_sums = true;
        break;
    }
    const size_t values = count * job->stats_stride;
    spsh_status rc = new_memory(values, sizeof(float), what, (void **)&job->own_mean, err);
    if (rc == SPSH_OK)
        rc = new_memory(values, sizeof(float), what, (void **)&job->own_scales, err);
    if (rc == SPSH_OK && has_sums)
        rc = new_memory(count * 2 * dim, sizeof(double), what, (void **)&job->sums, err);
    if (rc == SPSH_OK && self->mask_count > 0)
        rc = new_memory(count, sizeof(float), what, (void **)&job->mask_values, err);
    return rc;
}

static spsh_status make_slots(state *self, spsh_error *err)
{
    const size_t bytes = spsh__device_table_bytes(self->utterance_count_max, self->mask_count);
    spsh_status rc = SPSH_OK;
    for (uint32_t i = 0; rc == SPSH_OK && i < SLOTS; i++) {
        slot *one = &self->slots[i];
        rc = spsh__cuda_check(cudaEventCreateWithFlags(&one->done, cudaEventDisableTiming),
                              "creating an event", err);
        if (rc == SPSH_OK)
            rc = spsh__cuda_check(cudaHostAlloc((void **)&one->pinned, bytes, cudaHostAllocDefault),
                                  "pinned memory for tables of utterances", err);
        if (rc == SPSH_OK)
            rc =
                new_memory(bytes, 1, "memory for tables of utterances", (void **)&one->device, err);
    }
    return rc;
}

static void close_state(void *opaque)
{
    state *self = (state *)opaque;
    int before = 0;
    const bool has_entered = spsh__cuda_enter(self->device, &before, NULL) == SPSH_OK;
    for (uint32_t i = 0; i < SLOTS; i++) {
        slot *one = &self->slots[i];
        if (one->is_used)
            (void)cudaEventSynchronize(one->done);
        if (one->done != NULL)
            (void)cudaEventDestroy(one->done);
        (void)cudaFreeHost(one->pinned);
        (void)cudaFree(one->device);
    }
    (void)cudaFree(self->job.sums);
    (void)cudaFree(self->job.own_mean);
    (void)cudaFree(self->job.own_scales);
    (void)cudaFree(self->job.mask_values);
    (void)cudaFree(self->job.rows);
    (void)cudaFree(self->tables);
    if (has_entered)
        spsh__cuda_leave(before);
    free(self);
}

static spsh_status open_state(const spsh__device_features_plan *plan, void **ret_state,
                              spsh_error *err)
{
    int before = 0;
    const uint32_t dim = plan->tables->dim;
    spsh_status rc = spsh__cuda_enter(plan->device, &before, err);
    if (rc != SPSH_OK)
        return rc;
    state *self = (state *)calloc(1, sizeof(*self));
    if (self == NULL) {
        spsh__cuda_leave(before);
        return spsh__cuda_fail(err, SPSH_E_NO_MEMORY, "features: %zu bytes", sizeof(*self));
    }
    self->device = plan->device;
    self->utterance_count_max = plan->utterance_count_max;
    self->mask_count = plan->mask_count;
    rc = bring_tables(self, plan->tables, err);
    if (rc == SPSH_OK)
        rc = choose_lanes(self, err);
    if (rc == SPSH_OK)
        rc = make_statistics(self, err);
    if (rc == SPSH_OK)
        rc = new_memory((size_t)plan->row_count_max, dim * sizeof(float),
                        "memory for rows before normalization", (void **)&self->job.rows, err);
    if (rc == SPSH_OK)
        rc = make_slots(self, err);
    spsh__cuda_leave(before);
    if (rc == SPSH_OK)
        *ret_state = self;
    else
        close_state(self);
    return rc;
}

/* ---- a batch ---- */

static spsh_status begin(void *opaque, spsh__device_utterance **ret_utterances, spsh_error *err)
{
    state *self = (state *)opaque;
    slot *one = &self->slots[self->next];
    if (one->is_used) {
        const spsh__cuda_scope scope(self->device, err);
        if (scope.status != SPSH_OK)
            return scope.status;
        const spsh_status rc = spsh__cuda_check(
            cudaEventSynchronize(one->done), "waiting for the features of an earlier batch", err);
        if (rc != SPSH_OK)
            return rc;
    }
    *ret_utterances = one->pinned;
    return SPSH_OK;
}

/* Complete the job of a batch: add the fields of the state to the caller's fields. */
static spsh__device_job complete(const state *self, const spsh__device_job *given)
{
    spsh__device_job job = self->job;
    const spsh_feature_norm norm = job.tables.features.norm;
    const bool is_given = norm == SPSH_NORM_SPEAKER || norm == SPSH_NORM_DATASET;
    job.scale = given->scale;
    job.first_start = given->first_start;
    job.samples = given->samples;
    job.utterances = self->slots[self->next].device;
    job.utterance_count = given->utterance_count;
    job.time_masks = given->time_masks;
    job.frequency_masks = given->frequency_masks;
    job.masks = spsh__device_table_masks(self->slots[self->next].device, given->utterance_count);
    job.values = given->values;
    job.dtype = given->dtype;
    job.padded_frames = given->padded_frames;
    job.padding_value = given->padding_value;
    job.mean = is_given ? given->mean : job.own_mean;
    job.scales = is_given ? given->scales : job.own_scales;
    if (is_given)
        job.stats_stride = given->stats_stride;
    return job;
}

static bool has_statistics(const spsh__device_job *job)
{
    const spsh_feature_norm norm = job->tables.features.norm;
    return spsh__device_has_masks(job) ||
           (norm != SPSH_NORM_NONE && norm != SPSH_NORM_SPEAKER && norm != SPSH_NORM_DATASET);
}

static spsh_status launch(const state *self, const spsh__device_job *job, uint64_t frames_max,
                          cudaStream_t stream, spsh_error *err)
{
    const unsigned utterances = job->utterance_count;
    const uint64_t lanes = (uint64_t)1 << job->lane_shift;
    const uint64_t rows = job->padded_frames != 0 ? job->padded_frames : frames_max;
    const uint64_t blocks =
        (rows * job->tables.dim + SPSH__DEVICE_THREADS - 1) / SPSH__DEVICE_THREADS;
    if (frames_max > 0) {
        const dim3 grid((unsigned)((frames_max + lanes - 1) / lanes), utterances);
        frames_kernel<<<grid, SPSH__DEVICE_THREADS, self->block_bytes, stream>>>(*job);
    }
    if (frames_max > 0 && has_statistics(job))
        statistics_kernel<<<dim3(1, utterances), SPSH__DEVICE_THREADS,
                            SPSH__DEVICE_THREADS * sizeof(float), stream>>>(*job);
    if (blocks > 0 && (!spsh__device_is_final(job) || job->padded_frames != 0)) {
        const uint64_t most = FINISH_BLOCKS_MAX;
        const dim3 grid((unsigned)(blocks < most ? blocks : most), utterances);
        finish_kernel<<<grid, SPSH__DEVICE_THREADS, 0, stream>>>(*job);
    }
    return spsh__cuda_check(cudaGetLastError(), "starting the feature kernels", err);
}

static spsh_status run(void *opaque, void *stream, const spsh__device_job *given,
                       uint64_t frames_max, spsh_error *err)
{
    state *self = (state *)opaque;
    slot *one = &self->slots[self->next];
    int before = 0;
    spsh_status rc = spsh__cuda_enter(self->device, &before, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh__device_job job = complete(self, given);
    const size_t table_bytes =
        spsh__device_table_bytes(job.utterance_count, job.time_masks + job.frequency_masks);
    rc = spsh__cuda_check(cudaMemcpyAsync(one->device, one->pinned, table_bytes,
                                          cudaMemcpyHostToDevice, (cudaStream_t)stream),
                          "copying a table of utterances", err);
    if (rc == SPSH_OK)
        rc = launch(self, &job, frames_max, (cudaStream_t)stream, err);
    /* The started work uses the slot even after a failure: record the event in any case. */
    const spsh_status marked =
        spsh__cuda_check(cudaEventRecord(one->done, (cudaStream_t)stream),
                         "recording the end of a batch", rc == SPSH_OK ? err : NULL);
    one->is_used = true;
    self->next = (self->next + 1) % SLOTS;
    spsh__cuda_leave(before);
    return rc != SPSH_OK ? rc : marked;
}

extern "C" SPSH_API const spsh__device_features_entry *spsh_cuda_features_entry(void)
{
    static const spsh__device_features_entry entry = {
        sizeof(spsh__frame_tables), sizeof(spsh__device_job), open_state, close_state, begin, run,
    };
    return &entry;
}
