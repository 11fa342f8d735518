/* backend_cuda.c: the backend `cuda`: opening, lanes, and work that operators enqueue on streams.
 *
 *     library                                        plug-in
 *     backend_cuda*.c   operators, memory, order --> device_train.h   kernels, cuBLASLt, cuDNN
 *                                                --> cuda_plugin.h    memory, streams, graphs
 *
 * There are two lanes, with a stream each. The work of a lane runs in order. Only fork and join
 * order the lanes, with one event each. The state of the event is captured when the wait is
 * enqueued, so one event serves all forks. follow_fn orders two backends in the same way.
 */
#include "backend_cuda_state.h"

enum { WAVES = 8 }; /* maximum blocks of a kernel per multiprocessor */

/* Maximum work space of a convolution. With 16 bits, tensors are rearranged in it: 64 utterances of
 * 15 s need 0.4 GB. */
#define CONV_BYTES_MAX ((size_t)1 << 30)

/* ------------------------------------------------------------------------------------- failures */

void spsh__cuda_failed(spsh__backend *b, spsh_status rc, const spsh_error *err)
{
    spsh__cuda_state *self = spsh__cuda_of(b);
    if (rc == SPSH_OK || self->rc != SPSH_OK)
        return;
    self->rc = rc;
    self->err = *err;
}

bool spsh__cuda_has_failed(const spsh__backend *b)
{
    return spsh__cuda_of(b)->rc != SPSH_OK;
}

/* True after a failure, while operators are only counted, or while a launched graph does their
 * work. */
static bool is_idle(const spsh__backend *b)
{
    const spsh__cuda_state *self = spsh__cuda_of(b);
    return spsh__cuda_has_failed(b) || self->count.is_on || self->segments.is_replayed;
}

static spsh_status cuda_status(spsh__backend *b, spsh_error *err)
{
    const spsh__cuda_state *self = spsh__cuda_of(b);
    return spsh__fail_again(self->rc, &self->err, err);
}

/* --------------------------------------------------------------------------------------- streams
 */

void *spsh__cuda_stream(spsh__backend *b)
{
    const spsh__cuda_state *self = spsh__cuda_of(b);
    spsh__cuda_segment_refuse(b);
    return self->lanes[self->lane].stream;
}

uint32_t spsh__cuda_lane(const spsh__backend *b)
{
    return spsh__cuda_of(b)->lane;
}

static void *first_stream(spsh__backend *b)
{
    return spsh__cuda_of(b)->lanes[0].stream;
}

void spsh__cuda_choose_lane(spsh__backend *b, uint32_t lane)
{
    spsh__cuda_of(b)->lane = lane;
}

void spsh__cuda_put(spsh__backend *b, spsh__cuda_work_fn *work_fn, const void *arguments,
                    size_t size_bytes)
{
    const spsh__cuda_state *self = spsh__cuda_of(b);
    spsh_error err = SPSH_ERROR_INIT;
    if (is_idle(b))
        return;
    spsh__cuda_failed(b, work_fn(b, self->lanes[self->lane].stream, arguments, &err), &err);
    void *place = spsh__cuda_remember(b, work_fn, size_bytes);
    if (place != NULL)
        memcpy(place, arguments, size_bytes);
}

typedef struct follow_work { /* lane `to` waits for the work enqueued on `from` */
    void *event;
    uint32_t from, to;
} follow_work;

static spsh_status put_follow(spsh__backend *b, void *stream, const void *arguments,
                              spsh_error *err)
{
    const spsh__cuda_state *self = spsh__cuda_of(b);
    const follow_work *w = arguments;
    (void)stream;
    const spsh_status rc =
        self->plugin->event_record_fn(w->event, self->lanes[w->from].stream, err);
    return rc != SPSH_OK ? rc
                         : self->plugin->event_wait_fn(w->event, self->lanes[w->to].stream, err);
}

void spsh__cuda_fork(spsh__backend *b)
{
    const follow_work w = {spsh__cuda_of(b)->fork, 0, 1};
    spsh__cuda_put(b, put_follow, &w, sizeof(w));
}

void spsh__cuda_join(spsh__backend *b)
{
    const follow_work w = {spsh__cuda_of(b)->join, 1, 0};
    spsh__cuda_put(b, put_follow, &w, sizeof(w));
    spsh__cuda_choose_lane(b, 0);
}

static void follow(spsh__backend *b, spsh__backend *before)
{
    const spsh__cuda_state *self = spsh__cuda_of(b), *other = spsh__cuda_of(before);
    spsh_error err = SPSH_ERROR_INIT;
    if (is_idle(b))
        return;
    spsh_status rc = self->plugin->event_record_fn(other->passed, spsh__cuda_stream(before), &err);
    if (rc == SPSH_OK)
        rc = self->plugin->event_wait_fn(other->passed, spsh__cuda_stream(b), &err);
    spsh__cuda_failed(b, rc, &err);
}

uint32_t spsh__cuda_blocks(const spsh__backend *b, uint64_t count)
{
    const uint64_t blocks = count / SPSH__DEVICE_THREADS + (count % SPSH__DEVICE_THREADS != 0);
    const uint64_t most = (uint64_t)spsh__cuda_of(b)->about.multiprocessor_count * WAVES;
    if (blocks > most)
        return (uint32_t)most;
    return blocks == 0 ? 1 : (uint32_t)blocks;
}

/* A launch, followed by its job and its uses. */
typedef struct launch_work {
    _Alignas(16) spsh__kernel_launch launch; /* no pointer in the launch points into this copy */
} launch_work;

static spsh_status put_launch(spsh__backend *b, void *stream, const void *arguments,
                              spsh_error *err)
{
    const spsh__cuda_state *self = spsh__cuda_of(b);
    const launch_work *w = arguments;
    const char *after = (const char *)(w + 1);
    spsh__kernel_launch l = w->launch;
    l.job = after;
    l.uses = (const void *)(after + spsh__round_up(l.job_bytes, 16));
    return self->entry->launch_fn(self->train, stream, &l, err);
}

static void remember_launch(spsh__backend *b, const spsh__kernel_launch *l)
{
    const size_t uses_bytes = l->use_count * sizeof(*l->uses);
    launch_work *w = spsh__cuda_remember(
        b, put_launch, sizeof(launch_work) + spsh__round_up(l->job_bytes, 16) + uses_bytes);
    if (w == NULL)
        return;
    char *after = (char *)(w + 1);
    w->launch = *l;
    memcpy(after, l->job, l->job_bytes);
    if (uses_bytes != 0)
        memcpy(after + spsh__round_up(l->job_bytes, 16), l->uses, uses_bytes);
}

void spsh__cuda_launch(spsh__backend *b, const spsh__kernel_launch *l)
{
    const spsh__cuda_state *self = spsh__cuda_of(b);
    spsh_error err = SPSH_ERROR_INIT;
    if (is_idle(b) || l->blocks_x == 0 || l->blocks_y == 0)
        return;
    const spsh_status rc =
        self->entry->launch_fn(self->train, self->lanes[self->lane].stream, l, &err);
    spsh__cuda_failed(b, rc, &err);
    remember_launch(b, l);
}

spsh_status spsh__cuda_launch_on(spsh__backend *b, void *stream, const spsh__kernel_launch *l,
                                 spsh_error *err)
{
    const spsh__cuda_state *self = spsh__cuda_of(b);
    return self->entry->launch_fn(self->train, stream, l, err);
}

/* --------------------------------------------------------------------------------------- opening
 */

static void cuda_close(spsh__backend *b)
{
    spsh__cuda_state *self = spsh__cuda_of(b);
    spsh_error err = SPSH_ERROR_INIT;
    for (uint32_t i = 0; i < SPSH__DEVICE_LANES; i++) {
        if (self->lanes[i].stream != NULL)
            (void)self->plugin->synchronize_fn(self->lanes[i].stream, &err);
    }
    spsh__cuda_segments_close(b);
    spsh__cuda_rnn_close(b, self->rnn);
    if (self->train != NULL)
        self->entry->close_fn(self->train);
    spsh__cuda_memory_close(b);
    self->plugin->event_close_fn(self->fork);
    self->plugin->event_close_fn(self->join);
    self->plugin->event_close_fn(self->passed);
    for (uint32_t i = 0; i < SPSH__DEVICE_LANES; i++)
        self->plugin->stream_close_fn(self->lanes[i].stream);
    spsh__free(&b->allocator, self);
    b->state = NULL;
}

/* First compute capability that supports a precision: major * 10 + minor; 0: all. */
static const struct precision_row {
    const char *name;
    uint32_t capability;
} precisions[] = {
    [SPSH__FP32] = {"fp32", 0 },
    [SPSH__TF32] = {"tf32", 80},
    [SPSH__BF16] = {"bf16", 80},
    [SPSH__FP16] = {"fp16", 53},
};

static spsh_status check_precision(const spsh__backend *b, spsh_error *err)
{
    const spsh_cuda_device *about = &spsh__cuda_of(b)->about;
    const struct precision_row *row = &precisions[b->precision];
    if (about->capability_major * 10 + about->capability_minor >= row->capability)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_UNSUPPORTED,
                     "backend cuda: %s needs a device of compute capability %u.%u or later, but "
                     "device %u (%.60s) has %u.%u; use fp32",
                     row->name, row->capability / 10, row->capability % 10, b->device, about->name,
                     about->capability_major, about->capability_minor);
}

/* Job sizes of the list of kernels, as compiled into this library. */
#define SPSH_X(number_, name_, job_) +sizeof(job_) // NOLINT(bugprone-macro-parentheses)
static const size_t jobs_bytes = 0 SPSH__KERNELS(SPSH_X);
#undef SPSH_X

static spsh_status find_entry(spsh__backend *b, spsh_error *err)
{
    spsh__cuda_state *self = spsh__cuda_of(b);
    spsh__device_train_entry_fn *entry_fn = NULL;
    void *symbol = spsh_cuda_symbol(b->cuda, SPSH__DEVICE_TRAIN_SYMBOL);
    if (symbol == NULL)
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED,
                         "backend cuda: the CUDA plug-in cannot train, because it was built "
                         "without cuDNN or cuBLASLt; install their headers and build it again");
    memcpy(&entry_fn, &symbol, sizeof(entry_fn));
    self->entry = entry_fn();
    if (self->entry->jobs_bytes != jobs_bytes || self->entry->kernel_count != SPSH__KERNEL_COUNT)
        return SPSH_FAIL(err, SPSH_E_VERSION,
                         "backend cuda: the CUDA plug-in and this library are from different "
                         "builds; install both from the same build");
    return SPSH_OK;
}

static spsh_status open_streams(spsh__backend *b, spsh_error *err)
{
    spsh__cuda_state *self = spsh__cuda_of(b);
    spsh_status rc = SPSH_OK;
    for (uint32_t i = 0; i < SPSH__DEVICE_LANES && rc == SPSH_OK; i++)
        rc = self->plugin->stream_open_fn(b->device, 0, &self->lanes[i].stream, err);
    if (rc == SPSH_OK)
        rc = self->plugin->event_open_fn(b->device, 0, &self->fork, err);
    if (rc == SPSH_OK)
        rc = self->plugin->event_open_fn(b->device, 0, &self->join, err);
    if (rc == SPSH_OK)
        rc = self->plugin->event_open_fn(b->device, 0, &self->passed, err);
    return rc;
}

#define SPSH_X(name_) , .name_##_fn = spsh__cuda_##name_
static const spsh__backend_ops cuda_ops = {
    .name = "cuda",
    .element_bytes = sizeof(float),
    .norm_adds_bias = true,
    .close_fn = cuda_close,
    .status_fn = cuda_status,
    .follow_fn = follow,
    .stream_fn = first_stream SPSH__CUDA_OPERATORS(SPSH_X),
};
#undef SPSH_X

spsh_status spsh__backend_cuda_open(spsh__backend *backend, const spsh__backend_options *options,
                                    spsh_error *err)
{
    spsh__cuda_state *self = spsh__new(&backend->allocator, 1, sizeof(*self));
    if (self == NULL)
        return SPSH_NO_MEMORY(err);
    backend->state = self;
    backend->ops = &cuda_ops;
    backend->batch_multiple = SPSH__CUDA_BATCH_MULTIPLE;
    self->conv_bytes_max = CONV_BYTES_MAX;
    self->plugin = spsh_cuda_plugin_of(options->cuda);
    self->about = (spsh_cuda_device)SPSH_CUDA_DEVICE_INIT;
    spsh_status rc = spsh_cuda_device_get(options->cuda, options->device, &self->about, err);
    if (rc == SPSH_OK)
        rc = check_precision(backend, err);
    if (rc == SPSH_OK)
        rc = find_entry(backend, err);
    if (rc == SPSH_OK)
        rc = open_streams(backend, err);
    if (rc == SPSH_OK)
        rc = spsh__cuda_memory_open(backend, err);
    if (rc == SPSH_OK)
        rc = spsh__cuda_segments_open(backend, options->has_graphs, err);
    const spsh__device_train_plan plan = {options->device, options->precision,
                                          options->is_deterministic};
    if (rc == SPSH_OK)
        rc = self->entry->open_fn(&plan, &self->train, err);
    if (rc == SPSH_OK)
        rc = spsh__cuda_rnn_open(backend, &self->rnn, err);
    if (rc != SPSH_OK) {
        cuda_close(backend);
        backend->ops = NULL;
    }
    return rc;
}

void *spsh__cuda_rnn_state(const spsh__backend *b)
{
    return spsh__cuda_of(b)->rnn;
}
