/* conv.cu: convolutions by cuDNN: the one file that calls functions which cuDNN 9 calls deprecated,
 * because they do in one call what its graphs need a page for.
 *
 * Tensors are [N][C][F][T] as they lie: bins are cuDNN's rows, frames its columns. The algorithm of
 * a shape is the first of the heuristic's that needs at most WORK_BYTES_MAX and, with
 * is_deterministic, has the same bits each time; it is kept as in gemm.cu. fp32 computes with
 * multiply-adds of floats, tf32 and 16 bits on tensor cores.
 *
 * Work space grows to what a shape needs. The old one stays until the end: work that was kept as a
 * graph has its address. It doubles, so that all of them are less than twice the last.
 */
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

#include "train_state.h"

enum { CANDIDATES = 16 };

static const size_t work_bytes_max = (size_t)256 << 20;
static const size_t work_bytes_first = (size_t)1 << 20;

/* ---- what the library needs to know ---- */

static cudnnDataType_t type_of(const spsh__train_state *self)
{
    switch (self->plan.precision) {
    case SPSH__BF16: return CUDNN_DATA_BFLOAT16;
    case SPSH__FP16: return CUDNN_DATA_HALF;
    default: return CUDNN_DATA_FLOAT;
    }
}

static cudnnMathType_t math_of(const spsh__train_state *self)
{
    switch (self->plan.precision) {
    case SPSH__FP32: return CUDNN_FMA_MATH;
    case SPSH__TF32: return CUDNN_DEFAULT_MATH;
    default: return CUDNN_TENSOR_OP_MATH;
    }
}

static cudnnStatus_t create(const spsh__library_calls *calls, spsh__conv_plan *plan)
{
    cudnnStatus_t status = calls->cudnnCreateTensorDescriptor(&plan->x);
    if (status == CUDNN_STATUS_SUCCESS)
        status = calls->cudnnCreateTensorDescriptor(&plan->y);
    if (status == CUDNN_STATUS_SUCCESS)
        status = calls->cudnnCreateFilterDescriptor(&plan->weight);
    if (status == CUDNN_STATUS_SUCCESS)
        status = calls->cudnnCreateConvolutionDescriptor(&plan->convolution);
    return status;
}

static spsh_status describe(const spsh__train_state *self, spsh__conv_plan *plan, spsh_error *err)
{
    const spsh__library_calls *calls = self->calls;
    const spsh__conv_shape *s = &plan->key.shape;
    const cudnnDataType_t type = type_of(self);
    cudnnStatus_t status = create(calls, plan);
    if (status == CUDNN_STATUS_SUCCESS)
        status = calls->cudnnSetTensor4dDescriptor(plan->x, CUDNN_TENSOR_NCHW, type, (int)s->batch,
                                                   (int)s->in_channels, (int)s->in_bins,
                                                   (int)s->in_frames);
    if (status == CUDNN_STATUS_SUCCESS)
        status = calls->cudnnSetTensor4dDescriptor(plan->y, CUDNN_TENSOR_NCHW, type, (int)s->batch,
                                                   (int)s->out_channels, (int)s->out_bins,
                                                   (int)s->out_frames);
    if (status == CUDNN_STATUS_SUCCESS)
        status = calls->cudnnSetFilter4dDescriptor(plan->weight, type, CUDNN_TENSOR_NCHW,
                                                   (int)s->out_channels, (int)s->in_channels,
                                                   (int)s->kernel_bins, (int)s->kernel_frames);
    if (status == CUDNN_STATUS_SUCCESS)
        status = calls->cudnnSetConvolution2dDescriptor(
            plan->convolution, (int)s->pad_bins, (int)s->pad_frames, (int)s->stride_bins,
            (int)s->stride_frames, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
    if (status == CUDNN_STATUS_SUCCESS)
        status = calls->cudnnSetConvolutionMathType(plan->convolution, math_of(self));
    return spsh__dnn_check(calls, status, "describing a convolution", err);
}

/* ---- algorithms ---- */

/* Of one of the three kinds, as all of them say it. */
typedef struct candidate {
    int algorithm;
    bool is_possible, is_deterministic;
} candidate;

template <typename performance>
static int note(const performance *rows, int count, candidate *candidates)
{
    for (int i = 0; i < count; i++)
        candidates[i] = {(int)rows[i].algo, rows[i].status == CUDNN_STATUS_SUCCESS,
                         rows[i].determinism == CUDNN_DETERMINISTIC};
    return count;
}

static cudnnStatus_t list(const spsh__train_state *self, const spsh__train_lane *lane,
                          const spsh__conv_plan *plan, candidate *candidates, int *ret_count)
{
    const spsh__library_calls *calls = self->calls;
    cudnnConvolutionFwdAlgoPerf_t forward[CANDIDATES];
    cudnnConvolutionBwdDataAlgoPerf_t data[CANDIDATES];
    cudnnConvolutionBwdFilterAlgoPerf_t filter[CANDIDATES];
    cudnnStatus_t status;
    int count = 0;
    if (plan->key.kind == SPSH__CONV_FORWARD) {
        status = calls->cudnnGetConvolutionForwardAlgorithm_v7(lane->dnn, plan->x, plan->weight,
                                                               plan->convolution, plan->y,
                                                               CANDIDATES, &count, forward);
        *ret_count = status == CUDNN_STATUS_SUCCESS ? note(forward, count, candidates) : 0;
    } else if (plan->key.kind == SPSH__CONV_DATA) {
        status = calls->cudnnGetConvolutionBackwardDataAlgorithm_v7(
            lane->dnn, plan->weight, plan->y, plan->convolution, plan->x, CANDIDATES, &count, data);
        *ret_count = status == CUDNN_STATUS_SUCCESS ? note(data, count, candidates) : 0;
    } else {
        status = calls->cudnnGetConvolutionBackwardFilterAlgorithm_v7(
            lane->dnn, plan->x, plan->y, plan->convolution, plan->weight, CANDIDATES, &count,
            filter);
        *ret_count = status == CUDNN_STATUS_SUCCESS ? note(filter, count, candidates) : 0;
    }
    return status;
}

static cudnnStatus_t ask_work(const spsh__train_state *self, const spsh__train_lane *lane,
                              const spsh__conv_plan *plan, int algorithm, size_t *ret_bytes)
{
    const spsh__library_calls *calls = self->calls;
    if (plan->key.kind == SPSH__CONV_FORWARD)
        return calls->cudnnGetConvolutionForwardWorkspaceSize(
            lane->dnn, plan->x, plan->weight, plan->convolution, plan->y,
            (cudnnConvolutionFwdAlgo_t)algorithm, ret_bytes);
    if (plan->key.kind == SPSH__CONV_DATA)
        return calls->cudnnGetConvolutionBackwardDataWorkspaceSize(
            lane->dnn, plan->weight, plan->y, plan->convolution, plan->x,
            (cudnnConvolutionBwdDataAlgo_t)algorithm, ret_bytes);
    return calls->cudnnGetConvolutionBackwardFilterWorkspaceSize(
        lane->dnn, plan->x, plan->y, plan->convolution, plan->weight,
        (cudnnConvolutionBwdFilterAlgo_t)algorithm, ret_bytes);
}

static spsh_status choose(const spsh__train_state *self, const spsh__train_lane *lane,
                          spsh__conv_plan *plan, spsh_error *err)
{
    const spsh__conv_shape *s = &plan->key.shape;
    candidate candidates[CANDIDATES];
    int count = 0;
    const cudnnStatus_t status = list(self, lane, plan, candidates, &count);
    if (status != CUDNN_STATUS_SUCCESS)
        return spsh__dnn_check(self->calls, status, "choosing how to convolve", err);
    for (int i = 0; i < count; i++) {
        size_t bytes = 0;
        if (!candidates[i].is_possible ||
            (self->plan.is_deterministic && !candidates[i].is_deterministic) ||
            ask_work(self, lane, plan, candidates[i].algorithm, &bytes) != CUDNN_STATUS_SUCCESS ||
            bytes > work_bytes_max)
            continue;
        plan->algorithm = candidates[i].algorithm;
        plan->work_bytes = bytes;
        return SPSH_OK;
    }
    return spsh__cuda_fail(err, SPSH_E_UNSUPPORTED,
                           "cuDNN has no algorithm%s for a convolution of %u x %u x %u x %u by "
                           "%u x %u x %u that needs at most %zu MiB",
                           self->plan.is_deterministic ? " with the same bits each time" : "",
                           s->batch, s->in_channels, s->in_bins, s->in_frames, s->out_channels,
                           s->kernel_bins, s->kernel_frames, work_bytes_max >> 20);
}

/* ---- the table ---- */

static void close_plan(const spsh__library_calls *calls, spsh__conv_plan *plan)
{
    if (plan->x != NULL)
        (void)calls->cudnnDestroyTensorDescriptor(plan->x);
    if (plan->y != NULL)
        (void)calls->cudnnDestroyTensorDescriptor(plan->y);
    if (plan->weight != NULL)
        (void)calls->cudnnDestroyFilterDescriptor(plan->weight);
    if (plan->convolution != NULL)
        (void)calls->cudnnDestroyConvolutionDescriptor(plan->convolution);
    memset(plan, 0, sizeof(*plan));
}

static void empty(const spsh__train_state *self, spsh__train_lane *lane)
{
    for (uint32_t i = 0; lane->convs != NULL && i < SPSH__CONV_PLANS; i++)
        close_plan(self->calls, &lane->convs[i]);
    lane->conv_count = 0;
}

static spsh__conv_plan *place_of(spsh__train_lane *lane, const spsh__conv_key *key)
{
    uint32_t at = spsh__train_hash(key, sizeof(*key)) % SPSH__CONV_PLANS;
    while (lane->convs[at].key.kind != 0 && memcmp(&lane->convs[at].key, key, sizeof(*key)) != 0)
        at = (at + 1) % SPSH__CONV_PLANS;
    return &lane->convs[at];
}

static spsh_status make_work(spsh__train_lane *lane, size_t size_bytes, spsh_error *err)
{
    size_t wanted = lane->conv_work_bytes == 0 ? work_bytes_first : 2 * lane->conv_work_bytes;
    void *memory = NULL;
    if (size_bytes <= lane->conv_work_bytes)
        return SPSH_OK;
    while (wanted < size_bytes)
        wanted *= 2;
    if (lane->conv_work_count == SPSH__CONV_WORKS)
        return spsh__cuda_fail(err, SPSH_E_LIMIT, "convolutions: %zu bytes of work space", wanted);
    const spsh_status rc =
        spsh__cuda_check(cudaMalloc(&memory, wanted), "work space of convolutions", err);
    if (rc != SPSH_OK)
        return rc;
    lane->conv_works[lane->conv_work_count++] = memory;
    lane->conv_work = memory;
    lane->conv_work_bytes = wanted;
    return SPSH_OK;
}

static spsh_status find_plan(const spsh__train_state *self, spsh__train_lane *lane,
                             const spsh__conv_key *key, const spsh__conv_plan **ret_plan,
                             spsh_error *err)
{
    spsh__conv_plan *plan = place_of(lane, key);
    if (plan->key.kind == 0) {
        if (lane->conv_count >= SPSH__CONV_PLANS * 3 / 4) {
            empty(self, lane);
            plan = place_of(lane, key);
        }
        plan->key = *key;
        spsh_status rc = describe(self, plan, err);
        if (rc == SPSH_OK)
            rc = choose(self, lane, plan, err);
        if (rc == SPSH_OK)
            rc = make_work(lane, plan->work_bytes, err);
        if (rc != SPSH_OK) {
            close_plan(self->calls, plan);
            return rc;
        }
        lane->conv_count++;
    }
    *ret_plan = plan;
    return SPSH_OK;
}

/* ---- the entry's ---- */

spsh_status spsh__train_conv_open(spsh__train_state *self, spsh__train_lane *lane, spsh_error *err)
{
    const spsh_status rc =
        spsh__dnn_check(self->calls, self->calls->cudnnCreate(&lane->dnn), "opening it", err);
    if (rc != SPSH_OK)
        return rc;
    lane->convs = (spsh__conv_plan *)calloc(SPSH__CONV_PLANS, sizeof(*lane->convs));
    return lane->convs != NULL
               ? SPSH_OK
               : spsh__cuda_fail(err, SPSH_E_NO_MEMORY, "convolutions: out of memory");
}

void spsh__train_conv_close(const spsh__train_state *self, spsh__train_lane *lane)
{
    empty(self, lane);
    free(lane->convs);
    if (lane->dnn != NULL)
        (void)self->calls->cudnnDestroy(lane->dnn);
    for (uint32_t i = 0; i < lane->conv_work_count; i++)
        (void)cudaFree(lane->conv_works[i]);
}

static spsh_status begin(spsh__train_state *self, spsh__train_lane *lane, void *stream,
                         spsh_error *err)
{
    if (lane->dnn_stream == stream)
        return SPSH_OK;
    const spsh_status rc =
        spsh__dnn_check(self->calls, self->calls->cudnnSetStream(lane->dnn, (cudaStream_t)stream),
                        "choosing a stream", err);
    if (rc == SPSH_OK)
        lane->dnn_stream = stream;
    return rc;
}

static spsh_status forward(spsh__train_state *self, spsh__train_lane *lane,
                           const spsh__conv_shape *s, const spsh__conv_call *c, spsh_error *err)
{
    const spsh__conv_key key = {*s, SPSH__CONV_FORWARD};
    const spsh__conv_plan *plan = NULL;
    const float alpha = 1.0f;
    const float beta = 0.0f;
    const spsh_status rc = find_plan(self, lane, &key, &plan, err);
    if (rc != SPSH_OK)
        return rc;
    return spsh__dnn_check(self->calls,
                           self->calls->cudnnConvolutionForward(
                               lane->dnn, &alpha, plan->x, c->x.data, plan->weight, c->weight.data,
                               plan->convolution, (cudnnConvolutionFwdAlgo_t)plan->algorithm,
                               lane->conv_work, lane->conv_work_bytes, &beta, plan->y, c->y.data),
                           "a convolution", err);
}

static spsh_status backward_data(spsh__train_state *self, spsh__train_lane *lane,
                                 const spsh__conv_shape *s, const spsh__conv_grad *g,
                                 spsh_error *err)
{
    const spsh__conv_key key = {*s, SPSH__CONV_DATA};
    const spsh__conv_plan *plan = NULL;
    const float alpha = 1.0f;
    const float beta = 0.0f;
    const spsh_status rc = find_plan(self, lane, &key, &plan, err);
    if (rc != SPSH_OK)
        return rc;
    return spsh__dnn_check(self->calls,
                           self->calls->cudnnConvolutionBackwardData(
                               lane->dnn, &alpha, plan->weight, g->weight.data, plan->y, g->dy.data,
                               plan->convolution, (cudnnConvolutionBwdDataAlgo_t)plan->algorithm,
                               lane->conv_work, lane->conv_work_bytes, &beta, plan->x, g->dx.data),
                           "a convolution's gradient of its input", err);
}

static spsh_status backward_filter(spsh__train_state *self, spsh__train_lane *lane,
                                   const spsh__conv_shape *s, const spsh__conv_grad *g,
                                   spsh_error *err)
{
    const spsh__conv_key key = {*s, SPSH__CONV_FILTER};
    const spsh__conv_plan *plan = NULL;
    const float alpha = 1.0f;
    const float beta = g->dweight.is_half ? 0.0f : 1.0f;
    const spsh_status rc = find_plan(self, lane, &key, &plan, err);
    if (rc != SPSH_OK)
        return rc;
    return spsh__dnn_check(self->calls,
                           self->calls->cudnnConvolutionBackwardFilter(
                               lane->dnn, &alpha, plan->x, g->x.data, plan->y, g->dy.data,
                               plan->convolution, (cudnnConvolutionBwdFilterAlgo_t)plan->algorithm,
                               lane->conv_work, lane->conv_work_bytes, &beta, plan->weight,
                               g->dweight.data),
                           "a convolution's gradient of its filters", err);
}

/* All tensors have the precision's kind: it is in the descriptors. */
static spsh_status check_kind(const spsh__train_state *self, bool is_half, spsh_error *err)
{
    if (is_half == (type_of(self) != CUDNN_DATA_FLOAT))
        return SPSH_OK;
    return spsh__cuda_fail(err, SPSH_E_INVALID_ARG,
                           "a convolution of floats with 16 bits, or of 16 bits with floats");
}

spsh_status spsh__train_conv_forward(void *opaque, uint32_t lane_number, void *stream,
                                     const spsh__conv_shape *s, const spsh__conv_call *c,
                                     spsh_error *err)
{
    spsh__train_state *self = (spsh__train_state *)opaque;
    spsh__train_lane *lane = &self->lanes[lane_number];
    int before = 0;
    spsh_status rc = check_kind(self, c->x.is_half, err);
    if (rc == SPSH_OK)
        rc = spsh__train_enter(self, &before, err);
    if (rc != SPSH_OK)
        return rc;
    rc = begin(self, lane, stream, err);
    if (rc == SPSH_OK)
        rc = forward(self, lane, s, c, err);
    spsh__train_leave(before);
    return rc;
}

spsh_status spsh__train_conv_backward(void *opaque, uint32_t lane_number, void *stream,
                                      const spsh__conv_shape *s, const spsh__conv_grad *g,
                                      spsh_error *err)
{
    spsh__train_state *self = (spsh__train_state *)opaque;
    spsh__train_lane *lane = &self->lanes[lane_number];
    int before = 0;
    spsh_status rc = check_kind(self, g->x.is_half, err);
    if (rc == SPSH_OK)
        rc = spsh__train_enter(self, &before, err);
    if (rc != SPSH_OK)
        return rc;
    rc = begin(self, lane, stream, err);
    if (rc == SPSH_OK && g->dx.data != NULL)
        rc = backward_data(self, lane, s, g, err);
    if (rc == SPSH_OK && g->dweight.data != NULL)
        rc = backward_filter(self, lane, s, g, err);
    spsh__train_leave(before);
    return rc;
}
