/* rnn_layers.cu: cuDNN's recurrent layers, one unidirectional pass each: STANDARD or
 * PERSIST_STATIC.
 *
 * Lengths: all utterances have all frames. cuDNN gets the lengths only on the host (the array for
 * the device may be NULL since 8.9.1), so that a captured call can be repeated. The offsets of
 * weights are queried, not assumed.
 */
#include "rnn_layers.h"

#include <cuda_runtime.h>
#include <new>

/* All utterances have all frames, so packed rows have the same layout as unpacked ones. Persistent
 * layers do not support padded input and output. */
typedef struct layer {
    spsh__rnn_layers *all;
    spsh__cudnn_plan plan;
    spsh__cudnn_sizes sizes;
    cudnnRNNDescriptor_t rnn;
    cudnnDropoutDescriptor_t dropout; /* no dropout */
    cudnnRNNDataDescriptor_t x, y;
    cudnnTensorDescriptor_t h; /* also for c */
} layer;

void spsh__rnn_layer_close(void *opaque)
{
    layer *self = (layer *)opaque;
    const spsh__library_calls *c = self->all->calls;
    const spsh__cuda_scope scope((uint32_t)self->all->device, NULL);
    spsh__library_close(c->cudnnDestroyTensorDescriptor, self->h);
    spsh__library_close(c->cudnnDestroyRNNDataDescriptor, self->y);
    spsh__library_close(c->cudnnDestroyRNNDataDescriptor, self->x);
    spsh__library_close(c->cudnnDestroyRNNDescriptor, self->rnn);
    spsh__library_close(c->cudnnDestroyDropoutDescriptor, self->dropout);
    delete self;
}

static cudnnDataType_t data_type(spsh__device_kind kind)
{
    return kind == SPSH__DEVICE_BF16   ? CUDNN_DATA_BFLOAT16
           : kind == SPSH__DEVICE_FP16 ? CUDNN_DATA_HALF
                                       : CUDNN_DATA_FLOAT;
}

/* TENSOR_OP_MATH is documented only for float16; bf16 always uses tensor cores. */
static cudnnMathType_t math_type(const layer *self)
{
    if (self->plan.kind == SPSH__DEVICE_FP16)
        return CUDNN_TENSOR_OP_MATH;
    return self->all->precision == SPSH__FP32 ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
}

static spsh_status describe_rnn(layer *self, spsh_error *err)
{
    const spsh__library_calls *c = self->all->calls;
    const spsh__rnn_shape *s = &self->plan.shape;
    spsh_status rc =
        spsh__dnn_check(c, c->cudnnCreateRNNDescriptor(&self->rnn), "creating a descriptor", err);
    if (rc == SPSH_OK)
        rc = spsh__dnn_check(c, c->cudnnCreateDropoutDescriptor(&self->dropout),
                             "creating a descriptor", err);
    if (rc == SPSH_OK)
        rc = spsh__dnn_check(
            c, c->cudnnSetDropoutDescriptor(self->dropout, self->all->handles[0], 0.0F, NULL, 0, 0),
            "describing dropout", err);
    if (rc == SPSH_OK)
        rc = spsh__dnn_check(
            c,
            c->cudnnSetRNNDescriptor_v8(
                self->rnn,
                self->plan.is_persistent ? CUDNN_RNN_ALGO_PERSIST_STATIC : CUDNN_RNN_ALGO_STANDARD,
                s->cell == SPSH__CELL_LSTM ? CUDNN_LSTM : CUDNN_GRU,
                self->plan.has_two_biases ? CUDNN_RNN_DOUBLE_BIAS : CUDNN_RNN_SINGLE_INP_BIAS,
                CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, data_type(self->plan.kind),
                CUDNN_DATA_FLOAT, math_type(self), (int32_t)s->inputs, (int32_t)s->hidden,
                (int32_t)s->hidden, 1, self->dropout, CUDNN_RNN_PADDED_IO_DISABLED),
            "describing a recurrent layer", err);
    return rc;
}

static spsh_status describe_rows(const layer *self, cudnnRNNDataDescriptor_t *ret, uint32_t width,
                                 spsh_error *err)
{
    const spsh__library_calls *c = self->all->calls;
    const spsh__rnn_shape *s = &self->plan.shape;
    int *lengths = new (std::nothrow) int[s->batch];
    if (lengths == NULL)
        return spsh__cuda_fail(err, SPSH_E_NO_MEMORY, "out of memory");
    for (uint32_t n = 0; n < s->batch; n++)
        lengths[n] = (int)s->frames;
    spsh_status rc =
        spsh__dnn_check(c, c->cudnnCreateRNNDataDescriptor(ret), "creating a descriptor", err);
    if (rc == SPSH_OK)
        rc = spsh__dnn_check(c,
                             c->cudnnSetRNNDataDescriptor(*ret, data_type(self->plan.kind),
                                                          CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED,
                                                          (int)s->frames, (int)s->batch, (int)width,
                                                          lengths, NULL),
                             "describing the input of a recurrent layer", err);
    delete[] lengths;
    return rc;
}

static spsh_status describe_state(layer *self, spsh_error *err)
{
    const spsh__library_calls *c = self->all->calls;
    const int batch = (int)self->plan.shape.batch, hidden = (int)self->plan.shape.hidden;
    const int extents[3] = {1, batch, hidden};
    const int strides[3] = {batch * hidden, hidden, 1};
    const spsh_status rc =
        spsh__dnn_check(c, c->cudnnCreateTensorDescriptor(&self->h), "creating a descriptor", err);
    if (rc != SPSH_OK)
        return rc;
    return spsh__dnn_check(
        c, c->cudnnSetTensorNdDescriptor(self->h, data_type(self->plan.kind), 3, extents, strides),
        "describing the state of a recurrent layer", err);
}

/* Number of elements of a matrix or bias; 0 if it does not exist. */
static spsh_status count_of(const spsh__library_calls *c, cudnnTensorDescriptor_t d,
                            uint64_t *ret_count, spsh_error *err)
{
    cudnnDataType_t type;
    int dimensions = 0, extents[3] = {0, 0, 0}, strides[3];
    const spsh_status rc = spsh__dnn_check(
        c, c->cudnnGetTensorNdDescriptor(d, 3, &type, &dimensions, extents, strides),
        "finding weights of a recurrent layer", err);
    *ret_count = (uint64_t)extents[0] * (uint64_t)extents[1] * (uint64_t)extents[2];
    return rc;
}

/* Part i of a weight space at `weights`. */
static spsh_status find_part(layer *self, char *weights, uint32_t i, cudnnTensorDescriptor_t m,
                             cudnnTensorDescriptor_t b, spsh_error *err)
{
    const spsh__library_calls *c = self->all->calls;
    const spsh__rnn_shape *s = &self->plan.shape;
    const uint32_t gates = spsh__rnn_gates(s);
    const uint64_t columns = i < gates ? s->inputs : s->hidden;
    void *matrix = NULL, *bias = NULL;
    uint64_t matrix_count = 0, bias_count = 0;
    spsh_status rc = spsh__dnn_check(c,
                                     c->cudnnGetRNNWeightParams(self->all->handles[0], self->rnn, 0,
                                                                self->sizes.weights, weights,
                                                                (int32_t)i, m, &matrix, b, &bias),
                                     "finding weights of a recurrent layer", err);
    if (rc == SPSH_OK)
        rc = count_of(c, m, &matrix_count, err);
    if (rc == SPSH_OK && bias != NULL)
        rc = count_of(c, b, &bias_count, err);
    if (rc != SPSH_OK)
        return rc;
    if (matrix == NULL || matrix_count != columns * s->hidden ||
        (bias != NULL && bias_count != s->hidden))
        return spsh__cuda_fail(err, SPSH_E_UNSUPPORTED,
                               "cuDNN: the weights of a recurrent layer have an unexpected layout");
    self->sizes.parts[i].matrix = (size_t)((char *)matrix - weights);
    self->sizes.parts[i].bias = bias == NULL ? SIZE_MAX : (size_t)((char *)bias - weights);
    return SPSH_OK;
}

static spsh_status find_parts(layer *self, spsh_error *err)
{
    const spsh__library_calls *c = self->all->calls;
    const uint32_t parts = 2 * spsh__rnn_gates(&self->plan.shape);
    cudnnTensorDescriptor_t m = NULL, b = NULL;
    void *weights = NULL; /* not read: cuDNN wants allocated memory to compute offsets */
    spsh_status rc = spsh__cuda_check(cudaMalloc(&weights, self->sizes.weights),
                                      "allocating the weights of a recurrent layer", err);
    if (rc == SPSH_OK)
        rc = spsh__dnn_check(c, c->cudnnCreateTensorDescriptor(&m), "creating a descriptor", err);
    if (rc == SPSH_OK)
        rc = spsh__dnn_check(c, c->cudnnCreateTensorDescriptor(&b), "creating a descriptor", err);
    for (uint32_t i = 0; rc == SPSH_OK && i < parts; i++)
        rc = find_part(self, (char *)weights, i, m, b, err);
    if (m != NULL)
        (void)c->cudnnDestroyTensorDescriptor(m);
    if (b != NULL)
        (void)c->cudnnDestroyTensorDescriptor(b);
    (void)cudaFree(weights);
    return rc;
}

static spsh_status describe(layer *self, spsh_error *err)
{
    const spsh__library_calls *c = self->all->calls;
    spsh_status rc = describe_rnn(self, err);
    if (rc == SPSH_OK)
        rc = describe_rows(self, &self->x, self->plan.shape.inputs, err);
    if (rc == SPSH_OK)
        rc = describe_rows(self, &self->y, self->plan.shape.hidden, err);
    if (rc == SPSH_OK)
        rc = describe_state(self, err);
    if (rc == SPSH_OK)
        rc = spsh__dnn_check(
            c,
            c->cudnnGetRNNWeightSpaceSize(self->all->handles[0], self->rnn, &self->sizes.weights),
            "computing the size of the weights", err);
    if (rc == SPSH_OK)
        rc = spsh__dnn_check(c,
                             c->cudnnGetRNNTempSpaceSizes(self->all->handles[0], self->rnn,
                                                          CUDNN_FWD_MODE_TRAINING, self->x,
                                                          &self->sizes.work, &self->sizes.reserve),
                             "computing the size of the workspace", err);
    return rc == SPSH_OK ? find_parts(self, err) : rc;
}

static spsh_status open_handles(spsh__rnn_layers *all, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (all->calls == NULL)
        rc = spsh__library_calls_find(&all->calls, err);
    for (uint32_t lane = 0; rc == SPSH_OK && lane < SPSH__DEVICE_LANES; lane++)
        if (all->handles[lane] == NULL)
            rc = spsh__dnn_check(all->calls, all->calls->cudnnCreate(&all->handles[lane]),
                                 "creating a handle", err);
    return rc;
}

void spsh__rnn_layers_close(spsh__rnn_layers *all)
{
    const spsh__cuda_scope scope((uint32_t)all->device, NULL);
    for (uint32_t lane = 0; lane < SPSH__DEVICE_LANES; lane++) {
        if (all->handles[lane] != NULL)
            (void)all->calls->cudnnDestroy(all->handles[lane]);
        all->handles[lane] = NULL;
    }
}

spsh_status spsh__rnn_layer_open(spsh__rnn_layers *all, const spsh__cudnn_plan *plan,
                                 void **ret_layer, spsh__cudnn_sizes *ret_sizes, spsh_error *err)
{
    const spsh__cuda_scope scope((uint32_t)all->device, err);
    spsh_status rc = scope.status == SPSH_OK ? open_handles(all, err) : scope.status;
    if (rc != SPSH_OK)
        return rc;
    layer *self = new (std::nothrow) layer();
    if (self == NULL)
        return spsh__cuda_fail(err, SPSH_E_NO_MEMORY, "out of memory");
    self->all = all;
    self->plan = *plan;
    rc = describe(self, err);
    if (rc != SPSH_OK) {
        spsh__rnn_layer_close(self);
        return rc;
    }
    *ret_layer = self;
    *ret_sizes = self->sizes;
    return SPSH_OK;
}

static cudnnStatus_t do_step(const layer *self, const spsh__cudnn_call *call)
{
    const spsh__library_calls *c = self->all->calls;
    const spsh__cudnn_sizes *z = &self->sizes;
    const cudnnHandle_t handle = self->all->handles[call->lane];
    switch (call->step) {
    case SPSH__CUDNN_FORWARD:
        return c->cudnnRNNForward(handle, self->rnn, CUDNN_FWD_MODE_TRAINING, NULL, self->x,
                                  call->x, self->y, call->y, self->h, NULL, NULL, self->h, NULL,
                                  NULL, z->weights, call->weights, z->work, call->work, z->reserve,
                                  call->reserve);
    case SPSH__CUDNN_BACKWARD_DATA:
        return c->cudnnRNNBackwardData_v8(handle, self->rnn, NULL, self->y, call->y, call->dy,
                                          self->x, call->dx, self->h, NULL, NULL, NULL, self->h,
                                          NULL, NULL, NULL, z->weights, call->weights, z->work,
                                          call->work, z->reserve, call->reserve);
    default:
        return c->cudnnRNNBackwardWeights_v8(
            handle, self->rnn, CUDNN_WGRAD_MODE_ADD, NULL, self->x, call->x, self->h, NULL, self->y,
            call->y, z->weights, call->dweights, z->work, call->work, z->reserve, call->reserve);
    }
}

spsh_status spsh__rnn_layer_call(void *opaque, void *stream, const spsh__cudnn_call *call,
                                 spsh_error *err)
{
    static const char *const names[SPSH__CUDNN_STEPS] = {
        "running a recurrent layer forward", "running a recurrent layer backward",
        "computing the gradients of a recurrent layer's weights"};
    const layer *self = (const layer *)opaque;
    const spsh__library_calls *c = self->all->calls;
    const spsh__cuda_scope scope((uint32_t)self->all->device, err);
    spsh_status rc = scope.status;
    if (rc == SPSH_OK)
        rc = spsh__dnn_check(
            c, c->cudnnSetStream(self->all->handles[call->lane], (cudaStream_t)stream),
            "setting the stream", err);
    return rc == SPSH_OK ? spsh__dnn_check(c, do_step(self, call), names[call->step], err) : rc;
}
