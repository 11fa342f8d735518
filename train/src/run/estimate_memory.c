/* estimate_memory.c: how much memory a run takes. Opens the objects of the run on a backend that
 * counts its buffers and backs them with inaccessible address space.
 *
 * The size of a model therefore needs no second computation that must be kept equal to the first.
 * Memory that operators of a device take while they run is counted in the same way
 * (estimate_work.c). The memory of host operators is not included.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backend_cuda/backend_cuda_count.h"
#include "base/whole_numbers.h"
#include "estimate.h"
#include "feed/frame_batch.h"
#include "run_setup.h"
#include "speechshard/inside.h"
#include "strategy/device_sum.h"
#include "strategy/gradient_sum.h"

enum { BUFFERS_MAX = 4096, CHECKPOINT_REST_BYTES = 65536 };

/* Device memory that is not counted: the CUDA context, graphs, and tables of the loader. */
#define DEVICE_RESERVE_BYTES 1e9

typedef struct counter {
    spsh__backend backend; /* first member: operators find the counter by it */
    spsh__backend_ops ops;
    uint64_t bytes;
    struct {
        void *data;
        size_t size;
    } buffers[BUFFERS_MAX];
    uint32_t count;
    bool is_working;        /* closing a buffer subtracts its size */
    uint64_t scratch_bytes; /* scratch memory that all models share */
} counter;

/* ---- a backend without memory ---- */

static counter *counter_of(spsh__backend *b)
{
    return (counter *)(void *)b;
}

static spsh_status count_buffer(spsh__backend *b, size_t count, spsh__backend_buffer *ret,
                                spsh_error *err)
{
    counter *c = counter_of(b);
    size_t size = 0;
    void *data = MAP_FAILED;
    if (c->count < BUFFERS_MAX && !__builtin_mul_overflow(count, b->ops->element_bytes, &size) &&
        size < SIZE_MAX)
        data = mmap(NULL, size + 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY,
                         "the model needs a buffer of %zu elements of %zu bytes, which exceeds the "
                         "address space; make the model or the batch smaller",
                         count, b->ops->element_bytes);
    c->buffers[c->count].data = data;
    c->buffers[c->count++].size = size + 1;
    c->bytes += size;
    ret->data = data;
    return SPSH_OK;
}

static void keep_buffer(spsh__backend *b, spsh__backend_buffer buffer)
{
    counter *c = counter_of(b);
    for (uint32_t i = 0; c->is_working && i < c->count; i++)
        if (c->buffers[i].data == buffer.data)
            c->bytes -= c->buffers[i].size - 1;
}

static spsh_status count_half_buffer(spsh__backend *b, size_t count, spsh__backend_buffer *ret,
                                     spsh_error *err)
{
    const size_t elements = sizeof(float) / sizeof(uint16_t);
    const spsh_status rc = count_buffer(b, count / elements + count % elements, ret, err);
    ret->is_half = true;
    return rc;
}

static void convert_nothing(spsh__backend *b, spsh__backend_buffer to, spsh__backend_buffer from,
                            size_t count)
{
    (void)b, (void)to, (void)from, (void)count;
}

static void write_nothing(spsh__backend *b, spsh__backend_buffer to, const float *from,
                          size_t count)
{
    (void)b, (void)to, (void)from, (void)count;
}

static void zero_nothing(spsh__backend *b, spsh__backend_buffer to, size_t count)
{
    (void)b, (void)to, (void)count;
}

static void *count_memory(void *user, size_t size_bytes)
{
    ((counter *)user)->bytes += size_bytes;
    return malloc(size_bytes);
}

static void free_memory(void *user, void *memory)
{
    (void)user;
    free(memory);
}

/* Open a counter. Operators other than those for buffers are the real backend's, with its state. */
static spsh_status open_counter(const spsh__backend *real, counter **ret, spsh_error *err)
{
    counter *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return SPSH_NO_MEMORY(err);
    c->ops = *real->ops;
    c->ops.alloc_fn = count_buffer;
    c->ops.alloc_half_fn = count_half_buffer;
    c->ops.convert_fn = convert_nothing;
    c->ops.free_fn = keep_buffer;
    c->ops.write_f32_fn = write_nothing;
    c->ops.zero_fn = zero_nothing;
    c->backend = *real;
    c->backend.ops = &c->ops;
    c->backend.allocator = (spsh_allocator){count_memory, free_memory, c};
    c->backend.threads = 1;
    *ret = c;
    return SPSH_OK;
}

static void close_counter(counter *c)
{
    for (uint32_t i = 0; c != NULL && i < c->count; i++)
        (void)munmap(c->buffers[i].data, c->buffers[i].size);
    free(c);
}

/* ---- what a run opens ---- */

static uint64_t taken(counter *c)
{
    const uint64_t bytes = c->bytes;
    c->bytes = 0;
    return bytes;
}

static spsh_status count_moments(const spsh__estimating *e, counter *c, spsh__learner *l,
                                 spsh_error *err)
{
    const int moments = e->config->is_adamw ? 2 : e->config->sgd.momentum > 0 ? 1 : 0;
    spsh_status rc = SPSH_OK;
    for (int m = 0; m < moments && rc == SPSH_OK; m++)
        rc = count_buffer(&c->backend, l->arena_elements, &l->moments[m], err);
    e->out->moment_bytes = taken(c);
    e->out->checkpoint_bytes =
        sizeof(float) * ((1 + (uint64_t)moments) * l->arena_elements + l->statistics_elements) +
        CHECKPOINT_REST_BYTES;
    e->out->snapshot_bytes = e->out->checkpoint_bytes; /* rank 0's copy of the arenas */
    return rc;
}

/* True on a device, unless the host exchanges gradients. In that case host memory holds a copy of
 * all arenas.
 */
static bool has_device_sums(const spsh__estimating *e)
{
    return e->compute.cuda != NULL && e->config->exchange != SPSH__EXCHANGE_HOST;
}

static spsh_status open_sums(const spsh__estimating *e, counter *c, spsh__learner *l,
                             spsh_error *err)
{
    spsh__sum sum = {NULL, NULL};
    spsh_status rc = SPSH_OK;
    if (has_device_sums(e)) {
        rc = spsh__device_sum_open(l, true, NULL, &c->backend.allocator, &sum, err);
    } else {
        c->ops.stream_fn = NULL; /* act as a host backend */
        rc = spsh__gradient_sum_open(l, true, &c->backend.allocator, &sum, err);
    }
    e->out->sum_bytes = taken(c);
    if (e->compute.cuda != NULL && !has_device_sums(e))
        e->out->sum_bytes += sizeof(float) * (l->arena_elements + l->statistics_elements);
    spsh__sum_close(&sum);
    return rc;
}

/* Number of arenas in addition to model and gradients, in host or device memory. Learners with
 * separate models use them for their own values and for other learners' values. */
static uint32_t strategy_arenas(const char *name, uint32_t world)
{
    static const struct {
        const char *name;
        uint32_t arenas;
    } known[] = {
        {"adpsgd-fixed",  1},
        {"adpsgd-random", 1},
        {"ps-async",      1},
        {"hogwild",       2},
        {"d1-grad",       2},
        {"d1-model",      3},
    };
    if (strcmp(name, "dpsgd-ring") == 0) /* two rounds per neighbor */
        return 2 * (world > 2 ? 2 : world - 1);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].arenas;
    return 0;
}

static spsh_status count_sums(const spsh__estimating *e, counter *c, const spsh__model *model,
                              const spsh__learner *learner, spsh_error *err)
{
    const spsh__config *config = e->config;
    const bool has_nodes = strcmp(config->strategy, "hierarchical") == 0;
    const uint32_t world = e->launch.world_size > 0 ? e->launch.world_size : 1;
    const uint32_t arenas = strategy_arenas(has_nodes ? config->outer : config->strategy, world);
    spsh__comm alone = {.world_size = e->launch.world_size};
    spsh__learner l = *learner; /* a copy, so that comm and buckets are set only here */
    spsh_status rc = SPSH_OK;
    spsh__slice *slices = spsh__learner_list_buckets(model);
    if (slices == NULL)
        return SPSH_NO_MEMORY(err);
    l.backend = &c->backend;
    l.comm = &alone;
    l.buckets = slices;
    l.bucket_count = spsh__model_bucket_count(model);
    l.virtual_world = spsh__feed_leaves(e->feed);
    l.accumulate = spsh__schedule_accumulate_most(config);
    l.sent_as = spsh__config_sent_as(config);
    if (arenas == 0 || has_nodes) /* otherwise gradients are not summed */
        rc = open_sums(e, c, &l, err);
    e->out->sum_bytes += arenas * sizeof(float) * l.arena_elements;
    free(slices);
    return rc;
}

/* Limits of the model's input: chunks, if utterances are cut into chunks. */
static spsh__model_limits limits_of(const spsh__estimating *e, const spsh__model_limits *limits)
{
    return e->alignments != NULL ? spsh__frame_limits(limits, e->config->model.chunk_frames)
                                 : *limits;
}

/* Count the device memory of operators: scratch, and buffers that the model keeps. The host memory
 * of the backend comes from another allocator and is not counted. */
static spsh_status count_work(const spsh__estimating *e, counter *c, const spsh__estimate_model *m,
                              spsh_error *err)
{
    const spsh__backend_buffer gradients = spsh__model_gradients(m->model);
    const spsh_allocator counting = c->backend.allocator;
    spsh_error failure = SPSH_ERROR_INIT;
    uint64_t bytes = 0;
    if (e->compute.cuda == NULL)
        return SPSH_OK;
    c->backend.allocator = e->compute.backend->allocator;
    c->is_working = true;
    spsh__cuda_count_begin(&c->backend);
    if (has_device_sums(e) && e->launch.world_size > 1)
        spsh__backend_spare(&c->backend, SPSH__NCCL_MULTIPROCESSORS);
    spsh_status rc = spsh__estimate_work(e, &c->backend, m, err);
    spsh__backend_spare(&c->backend, 0);
    if (gradients.data != NULL)
        (void)c->ops.square_sum_fn(&c->backend, gradients, spsh__model_arena_elements(m->model));
    const spsh_status counted = spsh__cuda_count_end(&c->backend, &bytes, &failure);
    c->is_working = false;
    c->backend.allocator = counting;
    if (rc == SPSH_OK)
        rc = spsh__fail_again(counted, &failure, err);
    c->scratch_bytes = bytes > c->scratch_bytes ? bytes : c->scratch_bytes;
    e->out->work_bytes += taken(c);
    return rc;
}

/* An evaluation adds a forward-only model. */
static spsh_status count_reader(const spsh__estimating *e, counter *c,
                                const spsh__model_shape *shape, const spsh__model *model,
                                spsh_error *err)
{
    spsh__model *reader = NULL;
    if (e->dev_limits.rows_max == 0)
        return SPSH_OK;
    const spsh__model_limits limits = limits_of(e, &e->dev_limits);
    spsh_status rc = spsh__model_open_forward(&c->backend, shape, &limits, model, &reader, err);
    e->out->activation_bytes += taken(c);
    const spsh__estimate_model m = {reader, *shape, limits, true};
    if (rc == SPSH_OK)
        rc = count_work(e, c, &m, err);
    spsh__model_close(reader);
    return rc;
}

/* Memory of the second backend of a learner, if others change its model while it computes: the
 * memory that a backend takes at its start, the part of the arena that arrived, and the gradients of
 * a server, or the snapshots that adpsgd has sent. */
static uint64_t arena_backend_bytes(const spsh__estimating *e, uint64_t open_bytes)
{
    const uint64_t arena = e->out->weight_bytes;
    const uint64_t parts = strcmp(e->config->strategy, "ps-async") == 0 ? 2 : 5;
    if (!spsh__run_is_asynchronous(e->config) || strcmp(e->config->strategy, "hogwild") == 0)
        return 0;
    return open_bytes + parts * (arena < SPSH__PART_BYTES ? arena : (uint64_t)SPSH__PART_BYTES);
}

static spsh_status count_device(const spsh__estimating *e, const counter *c, spsh_error *err)
{
    spsh_train_estimate *out = e->out;
    uint64_t all_bytes = 0;
    if (e->compute.cuda == NULL)
        return SPSH_OK;
    /* During an evaluation, the batches of training are in memory, too. */
    out->loader_device_bytes = spsh__feed_device_bytes(e->feed) + e->dev_device_bytes;
    /* Memory that the libraries use already: part of the run, and no longer free. */
    const uint64_t open_bytes = spsh__cuda_open_bytes(e->compute.backend);
    out->work_bytes += c->scratch_bytes + open_bytes + arena_backend_bytes(e, open_bytes);
    out->device_bytes = out->loader_device_bytes + out->weight_bytes + out->gradient_bytes +
                        out->copy_bytes + out->moment_bytes + out->activation_bytes +
                        out->work_bytes + (has_device_sums(e) ? out->sum_bytes : 0);
    const spsh_status rc = spsh_cuda_memory(e->compute.cuda, e->compute.backend->device,
                                            &out->device_free_bytes, &all_bytes, err);
    out->device_free_bytes += spsh__feed_device_bytes(e->feed) + open_bytes; /* in use by the run */
    return rc;
}

spsh_status spsh__estimate_memory(spsh__estimating *e, spsh_error *err)
{
    spsh_train_estimate *out = e->out;
    spsh__model_shape shape = e->config->model;
    spsh__model *model = NULL;
    spsh__learner learner = {.step = 0};
    counter *c = NULL;
    spsh_status rc = open_counter(e->compute.backend, &c, err);
    if (rc != SPSH_OK)
        return rc;
    shape.inputs = spsh__feed_dim(e->feed);
    if (e->vocabulary != NULL)
        shape.outputs = spsh__vocabulary_size(e->vocabulary);
    const spsh__model_limits limits = limits_of(e, &e->limits);
    rc = spsh__model_open(&c->backend, &shape, &limits, &model, err);
    if (rc != SPSH_OK)
        goto out;
    out->weights = spsh__model_weight_count(model);
    out->buckets = spsh__model_bucket_count(model);
    learner.arena_elements = spsh__model_arena_elements(model);
    learner.statistics = spsh__model_statistics(model, &learner.statistics_elements);
    learner.weights = spsh__model_weights(model);
    learner.gradients = spsh__model_gradients(model);
    out->weight_bytes = out->gradient_bytes = learner.arena_elements * c->ops.element_bytes;
    if (c->backend.has_half)
        out->copy_bytes = learner.arena_elements * sizeof(uint16_t);
    out->activation_bytes = taken(c) - out->weight_bytes - out->gradient_bytes - out->copy_bytes;
    rc = count_work(e, c, &(spsh__estimate_model){model, shape, limits, false}, err);
    if (rc == SPSH_OK)
        rc = count_reader(e, c, &shape, model, err);
    if (rc == SPSH_OK)
        rc = count_moments(e, c, &learner, err);
    if (rc == SPSH_OK)
        rc = count_sums(e, c, model, &learner, err);
    if (rc == SPSH_OK)
        rc = count_device(e, c, err);
out:
    spsh__model_close(model);
    close_counter(c);
    return rc;
}

/* ---- the largest batch ---- */

enum { FIT_STEP_S = 20, FIT_STEPS = 1024 };

/* Limits of batches of other padded seconds. An epoch of few utterances has no larger ones. */
static spsh__estimating resized(const spsh__estimating *e, double factor)
{
    const uint64_t most = (uint64_t)e->limits.batch_max * e->limits.frames_max;
    spsh__estimating other = *e;
    other.limits.rows_max = spsh__least((uint64_t)((double)e->limits.rows_max * factor) + 1, most);
    other.ctc_pairs = (uint64_t)((double)e->ctc_pairs * factor);
    return other;
}

/* True if batches of `seconds` fit, with a reserve for memory that is not counted. */
static bool fits(const spsh__estimating *e, double seconds)
{
    const double factor = seconds / spsh__config_batch_seconds(e->config);
    spsh__estimating other = resized(e, factor);
    other.out = calloc(1, sizeof(*other.out));
    bool is_fit = false;
    if (other.out != NULL && spsh__estimate_memory(&other, NULL) == SPSH_OK) {
        const double more = (factor - 1) * (double)spsh__feed_device_bytes(e->feed);
        is_fit = (double)other.out->device_bytes + more + DEVICE_RESERVE_BYTES <=
                 (double)e->out->device_free_bytes;
    }
    free(other.out);
    return is_fit;
}

void spsh__estimate_fit(const spsh__estimating *e)
{
    uint32_t low = 0, high = FIT_STEPS; /* low fits, high does not */
    if (e->out->device_bytes == 0)
        return;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (fits(e, (double)middle * FIT_STEP_S))
            low = middle;
        else
            high = middle;
    }
    e->out->padded_seconds_fit = low * FIT_STEP_S;
}

static double gigabytes(uint64_t bytes)
{
    return (double)bytes * 1e-9;
}

spsh_status spsh__estimate_explain(spsh__estimating *e, spsh_status status, spsh_error *err)
{
    const spsh_train_estimate *out = e->out;
    if (spsh__estimate_memory(e, NULL) != SPSH_OK || out->device_bytes == 0)
        return status; /* err has the reason of the out-of-memory failure */
    return SPSH_FAIL(err, status,
                     "device %u has not enough memory: the run takes %.3g GB (weights and "
                     "gradients %.3g, moments %.3g, activations %.3g, batches %.3g, work %.3g), "
                     "but %.3g GB are free; a smaller data.max_padded_seconds takes less",
                     e->compute.backend->device, gigabytes(out->device_bytes),
                     gigabytes(out->weight_bytes + out->gradient_bytes + out->copy_bytes),
                     gigabytes(out->moment_bytes), gigabytes(out->activation_bytes),
                     gigabytes(out->loader_device_bytes), gigabytes(out->work_bytes),
                     gigabytes(out->device_free_bytes));
}
