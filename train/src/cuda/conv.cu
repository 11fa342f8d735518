/* conv.cu: convolutions by cuDNN. Only this file calls functions that cuDNN 9 marks as deprecated:
 * one such call replaces about a page of code for cuDNN's graph API.
 *
 * Tensors are [N][C][F][T], as stored: bins are cuDNN's rows, frames its columns. The algorithm of
 * a shape is the first in the heuristic's list that needs at most the work space that the caller
 * allows and, with is_deterministic, has the same bits each time. It is cached as in gemm.cu. fp32
 * computes with float multiply-adds, tf32 and 16 bits on tensor cores. The kind of mathematics is
 * part of an algorithm, and is kept with its number.
 *
 * Gradients of filters in 16 bits: sums are floats, but algorithms that are not deterministic add
 * their parts in the 16-bit result, and round it each time. They are tried last.
 */
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

#include "train_state.h"

enum { CANDIDATES = 16 };

/* ---- descriptors for the library ---- */

static cudnnDataType_t type_of(const spsh__train_state *self)
{
    switch (self->plan.precision) {
    case SPSH__BF16: return CUDNN_DATA_BFLOAT16;
    case SPSH__FP16: return CUDNN_DATA_HALF;
    default: return CUDNN_DATA_FLOAT;
    }
}

/* Requested kind of mathematics. Each algorithm then reports its own. Conversion is not allowed:
 * bf16 runs only on tensor cores, and TENSOR_OP_MATH is documented for float16. */
static cudnnMathType_t math_of(const spsh__train_state *self)
{
    switch (self->plan.precision) {
    case SPSH__FP32: return CUDNN_FMA_MATH;
    case SPSH__FP16: return CUDNN_TENSOR_OP_MATH;
    default: return CUDNN_DEFAULT_MATH;
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

/* An algorithm of one of the three kinds, with the common fields. */
typedef struct candidate {
    int algorithm;
    cudnnMathType_t math;
    bool is_possible, is_deterministic;
} candidate;

template <typename performance>
static int note(const performance *rows, int count, candidate *candidates)
{
    for (int i = 0; i < count; i++)
        candidates[i] = {(int)rows[i].algo, rows[i].mathType,
                         rows[i].status == CUDNN_STATUS_SUCCESS,
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

/* Return true if the algorithm is usable, and adopt it: set its kind of mathematics in the plan. */
static bool suits(const spsh__train_state *self, const spsh__train_lane *lane,
                  spsh__conv_plan *plan, const candidate *c, size_t bytes_max)
{
    size_t bytes = 0;
    /* The heuristic may offer tensor cores for fp32, which must not use them. */
    const cudnnMathType_t math = self->plan.precision == SPSH__FP32 ? CUDNN_FMA_MATH : c->math;
    if (c->math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION || /* would convert floats to float16 */
        self->calls->cudnnSetConvolutionMathType(plan->convolution, math) != CUDNN_STATUS_SUCCESS ||
        ask_work(self, lane, plan, c->algorithm, &bytes) != CUDNN_STATUS_SUCCESS ||
        bytes > bytes_max)
        return false;
    plan->algorithm = c->algorithm;
    plan->math = math;
    plan->work_bytes = bytes;
    return true;
}

static spsh_status choose(const spsh__train_state *self, const spsh__train_lane *lane,
                          spsh__conv_plan *plan, size_t bytes_max, spsh_error *err)
{
    const spsh__conv_shape *s = &plan->key.shape;
    const bool adds_halves =
        plan->key.kind == SPSH__CONV_FILTER && type_of(self) != CUDNN_DATA_FLOAT;
    candidate candidates[CANDIDATES];
    int count = 0;
    const cudnnStatus_t status = list(self, lane, plan, candidates, &count);
    if (status != CUDNN_STATUS_SUCCESS)
        return spsh__dnn_check(self->calls, status, "choosing a convolution algorithm", err);
    for (int i = 0; i < count; i++) {
        const bool is_strict = self->plan.is_deterministic || adds_halves;
        if (candidates[i].is_possible && (candidates[i].is_deterministic || !is_strict) &&
            suits(self, lane, plan, &candidates[i], bytes_max))
            return SPSH_OK;
    }
    for (int i = 0; i < count && !self->plan.is_deterministic; i++) {
        if (candidates[i].is_possible && suits(self, lane, plan, &candidates[i], bytes_max))
            return SPSH_OK;
    }
    return spsh__cuda_fail(err, SPSH_E_UNSUPPORTED,
                           "cuDNN has no%s algorithm for a convolution of %u x %u x %u x %u by %u "
                           "x %u x %u that needs at most %zu MiB",
                           self->plan.is_deterministic ? " deterministic" : "", s->batch,
                           s->in_channels, s->in_bins, s->in_frames, s->out_channels,
                           s->kernel_bins, s->kernel_frames, bytes_max >> 20);
}

/* On failure the plan does not change. */
static spsh_status choose_less(const spsh__train_state *self, const spsh__train_lane *lane,
                               spsh__conv_plan *plan, size_t bytes_max, spsh_error *err)
{
    spsh__conv_plan before = *plan;
    spsh_status rc = spsh__dnn_check(
        self->calls, self->calls->cudnnSetConvolutionMathType(plan->convolution, math_of(self)),
        "describing a convolution", err);
    if (rc == SPSH_OK)
        rc = choose(self, lane, plan, bytes_max, err);
    if (rc != SPSH_OK) {
        (void)self->calls->cudnnSetConvolutionMathType(plan->convolution, before.math);
        *plan = before;
    }
    return rc;
}

/* ---- the table ---- */

static void close_plan(const spsh__library_calls *calls, spsh__conv_plan *plan)
{
    spsh__library_close(calls->cudnnDestroyTensorDescriptor, plan->x);
    spsh__library_close(calls->cudnnDestroyTensorDescriptor, plan->y);
    spsh__library_close(calls->cudnnDestroyFilterDescriptor, plan->weight);
    spsh__library_close(calls->cudnnDestroyConvolutionDescriptor, plan->convolution);
    memset(plan, 0, sizeof(*plan));
}

static void empty(const spsh__train_state *self, spsh__train_lane *lane)
{
    for (uint32_t i = 0; lane->convs != NULL && i < SPSH__CONV_PLANS; i++)
        close_plan(self->calls, &lane->convs[i]);
}

/* Find the plan of a shape, or choose it. A cached plan that needs more than bytes_max is
 * replaced. */
static spsh_status find_plan(const spsh__train_state *self, spsh__train_lane *lane,
                             const spsh__conv_key *key, size_t bytes_max,
                             const spsh__conv_plan **ret_plan, spsh_error *err)
{
    spsh__conv_plan *plan = spsh__train_place(lane->convs, SPSH__CONV_PLANS, key);
    const bool is_known = memcmp(&plan->key, key, sizeof(*key)) == 0;
    spsh_status rc = SPSH_OK;
    if (is_known && plan->work_bytes > bytes_max)
        rc = choose_less(self, lane, plan, bytes_max, err);
    if (!is_known) {
        close_plan(self->calls, plan);
        plan->key = *key;
        rc = describe(self, plan, err);
        if (rc == SPSH_OK)
            rc = choose(self, lane, plan, bytes_max, err);
        if (rc != SPSH_OK) {
            close_plan(self->calls, plan);
            return rc;
        }
    }
    plan->used = ++lane->plan_uses;
    *ret_plan = plan;
    return rc;
}

/* ---- functions that the entry calls ---- */

spsh_status spsh__train_conv_open(spsh__train_state *self, spsh__train_lane *lane, spsh_error *err)
{
    const spsh_status rc = spsh__dnn_check(self->calls, self->calls->cudnnCreate(&lane->dnn),
                                           "creating a handle", err);
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
    spsh__library_close(self->calls->cudnnDestroy, lane->dnn);
}

static spsh_status begin(spsh__train_state *self, spsh__train_lane *lane, void *stream,
                         spsh_error *err)
{
    if (lane->dnn_stream == stream)
        return SPSH_OK;
    const spsh_status rc =
        spsh__dnn_check(self->calls, self->calls->cudnnSetStream(lane->dnn, (cudaStream_t)stream),
                        "setting the stream", err);
    if (rc == SPSH_OK)
        lane->dnn_stream = stream;
    return rc;
}

/* All tensors have the kind of the precision, which the descriptors record. */
static spsh_status plan_of(const spsh__train_state *self, spsh__train_lane *lane,
                           const spsh__conv_work *w, const spsh__conv_plan **ret_plan,
                           spsh_error *err)
{
    const spsh__conv_key key = {w->shape, (uint32_t)w->kind};
    if (w->x.is_half != (type_of(self) != CUDNN_DATA_FLOAT))
        return spsh__cuda_fail(err, SPSH_E_INVALID_ARG,
                               "a convolution has buffers of both 32 and 16 bits");
    return find_plan(self, lane, &key, w->work_bytes_max, ret_plan, err);
}

static cudnnStatus_t convolve(const spsh__train_state *self, const spsh__train_lane *lane,
                              const spsh__conv_plan *plan, const spsh__conv_work *w)
{
    const spsh__library_calls *calls = self->calls;
    const float one = 1.0F;
    const float zero = 0.0F;
    switch (w->kind) {
    case SPSH__CONV_FORWARD:
        return calls->cudnnConvolutionForward(lane->dnn, &one, plan->x, w->x.data, plan->weight,
                                              w->weight.data, plan->convolution,
                                              (cudnnConvolutionFwdAlgo_t)plan->algorithm, w->work,
                                              w->work_bytes, &zero, plan->y, w->y.data);
    case SPSH__CONV_DATA:
        return calls->cudnnConvolutionBackwardData(
            lane->dnn, &one, plan->weight, w->weight.data, plan->y, w->y.data, plan->convolution,
            (cudnnConvolutionBwdDataAlgo_t)plan->algorithm, w->work, w->work_bytes, &zero, plan->x,
            w->x.data);
    default:
        return calls->cudnnConvolutionBackwardFilter(
            lane->dnn, &one, plan->x, w->x.data, plan->y, w->y.data, plan->convolution,
            (cudnnConvolutionBwdFilterAlgo_t)plan->algorithm, w->work, w->work_bytes,
            w->weight.is_half ? &zero : &one, plan->weight, w->weight.data);
    }
}

spsh_status spsh__train_conv_space(void *opaque, uint32_t lane_number, const spsh__conv_work *w,
                                   size_t *ret_bytes, spsh_error *err)
{
    spsh__train_state *self = (spsh__train_state *)opaque;
    const spsh__conv_plan *plan = NULL;
    int before = 0;
    spsh_status rc = spsh__cuda_enter(self->plan.device, &before, err);
    if (rc != SPSH_OK)
        return rc;
    rc = plan_of(self, &self->lanes[lane_number], w, &plan, err);
    if (rc == SPSH_OK)
        *ret_bytes = plan->work_bytes;
    spsh__cuda_leave(before);
    return rc;
}

spsh_status spsh__train_conv(void *opaque, uint32_t lane_number, void *stream,
                             const spsh__conv_work *w, spsh_error *err)
{
    static const char *const names[] = {NULL, "a convolution",
                                        "a convolution's gradient of its input",
                                        "a convolution's gradient of its filters"};
    spsh__train_state *self = (spsh__train_state *)opaque;
    spsh__train_lane *lane = &self->lanes[lane_number];
    const spsh__conv_plan *plan = NULL;
    int before = 0;
    spsh_status rc = spsh__cuda_enter(self->plan.device, &before, err);
    if (rc != SPSH_OK)
        return rc;
    rc = begin(self, lane, stream, err);
    if (rc == SPSH_OK)
        rc = plan_of(self, lane, w, &plan, err);
    if (rc == SPSH_OK)
        rc = spsh__dnn_check(self->calls, convolve(self, lane, plan, w), names[w->kind], err);
    spsh__cuda_leave(before);
    return rc;
}
