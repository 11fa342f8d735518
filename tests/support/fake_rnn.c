/* fake_rnn.c: the part of cuDNN that recurrent layers call, without CUDA: rnn_layers.cu runs with
 * it over fake_cudart.c. Replaces library_calls.cu.
 *
 * Written from the library's documentation: descriptors must agree with each other and with the
 * requested sizes. Features that are not implemented here (projections, several layers, different
 * lengths, an initial state) are rejected. twin_rnn.c defines the computation and the choice of
 * layers.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/library_calls.h"
#include "twin_layers.h"
#include "twin_plugin.h"
#include "twin_runtime.h"

twin_controls *twin_controls_get(void);

/* Names and arguments are the library's. */
/* NOLINTBEGIN(readability-function-size,readability-identifier-naming) */
/* NOLINTBEGIN(bugprone-macro-parentheses) */

typedef struct handle {
    cudaStream_t stream;
} handle;

typedef struct rnn {
    spsh__cudnn_plan plan; /* frames and batch are not set */
    cudnnDataType_t type;
} rnn;

typedef struct rows {
    cudnnDataType_t type;
    int frames, batch, width;
} rows;

typedef struct tensor {
    cudnnDataType_t type;
    int size[3];
} tensor;

typedef struct dropout {
    bool is_none;
} dropout;

#define DESCRIPTOR(name_, struct_, type_)                                                          \
    static cudnnStatus_t fake_cudnnCreate##name_(type_ *ret)                                       \
    {                                                                                              \
        *ret = twin_new(sizeof(struct_));                                                          \
        return CUDNN_STATUS_SUCCESS;                                                               \
    }                                                                                              \
    static cudnnStatus_t fake_cudnnDestroy##name_(type_ one)                                       \
    {                                                                                              \
        free(one);                                                                                 \
        return CUDNN_STATUS_SUCCESS;                                                               \
    }
DESCRIPTOR(, handle, cudnnHandle_t)
DESCRIPTOR(RNNDescriptor, rnn, cudnnRNNDescriptor_t)
DESCRIPTOR(RNNDataDescriptor, rows, cudnnRNNDataDescriptor_t)
DESCRIPTOR(TensorDescriptor, tensor, cudnnTensorDescriptor_t)
DESCRIPTOR(DropoutDescriptor, dropout, cudnnDropoutDescriptor_t)

static const char *fake_cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_NOT_SUPPORTED ? "not supported" : "fake failure";
}

static cudnnStatus_t good_if(bool is_good)
{
    return is_good ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

static cudnnStatus_t fake_cudnnSetStream(cudnnHandle_t of, cudaStream_t stream)
{
    handle *self = (void *)of;
    self->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t fake_cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t of,
                                                    cudnnHandle_t handle_of, float part,
                                                    void *states, size_t state_bytes,
                                                    unsigned long long seed)
{
    dropout *self = (void *)of;
    (void)seed;
    self->is_none = !(part > 0) && states == NULL && state_bytes == 0;
    return good_if(handle_of != NULL && self->is_none);
}

/* Tensors of three sizes, without gaps. */
static cudnnStatus_t fake_cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t of,
                                                     cudnnDataType_t type, int count,
                                                     const int *size, const int *stride)
{
    tensor *self = (void *)of;
    self->type = type;
    for (int i = 0; i < 3 && i < count; i++)
        self->size[i] = size[i];
    return good_if(count == 3 && stride[2] == 1 && stride[1] == size[2] &&
                   stride[0] == size[1] * size[2]);
}

static cudnnStatus_t fake_cudnnGetTensorNdDescriptor(cudnnTensorDescriptor_t of, int most,
                                                     cudnnDataType_t *type, int *count, int *size,
                                                     int *stride)
{
    const tensor *self = (const void *)of;
    *type = self->type;
    *count = 3;
    for (int i = 0; i < 3 && i < most; i++) {
        size[i] = self->size[i];
        stride[i] = i == 2 ? 1 : i == 1 ? self->size[2] : self->size[1] * self->size[2];
    }
    return good_if(most >= 3);
}

/* cuDNN wants lengths above 0 in descending order. Here all must equal the longest. */
static cudnnStatus_t fake_cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t of,
                                                    cudnnDataType_t type,
                                                    cudnnRNNDataLayout_t layout, int frames,
                                                    int batch, int width, const int *lengths,
                                                    void *padding)
{
    rows *self = (void *)of;
    *self = (rows){type, frames, batch, width};
    for (int n = 0; n < batch; n++) {
        if (lengths[n] != frames)
            return CUDNN_STATUS_BAD_PARAM;
    }
    return good_if(frames > 0 && batch > 0 && width > 0 && padding == NULL &&
                   layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED);
}

/* ---- layers ---- */

static bool has_math(cudnnDataType_t type, cudnnMathType_t math)
{
    switch (type) {
    case CUDNN_DATA_HALF: return math == CUDNN_DEFAULT_MATH || math == CUDNN_TENSOR_OP_MATH;
    case CUDNN_DATA_BFLOAT16: return math == CUDNN_DEFAULT_MATH;
    default: return math == CUDNN_DEFAULT_MATH || math == CUDNN_FMA_MATH;
    }
}

static cudnnStatus_t fake_cudnnSetRNNDescriptor_v8(
    cudnnRNNDescriptor_t of, cudnnRNNAlgo_t algorithm, cudnnRNNMode_t cell, cudnnRNNBiasMode_t bias,
    cudnnDirectionMode_t direction, cudnnRNNInputMode_t input, cudnnDataType_t type,
    cudnnDataType_t sums, cudnnMathType_t math, int32_t inputs, int32_t hidden, int32_t projected,
    int32_t layers, cudnnDropoutDescriptor_t none, uint32_t flags)
{
    rnn *self = (void *)of;
    const dropout *d = (const void *)none;
    *self = (rnn){.type = type};
    self->plan.shape.cell = cell == CUDNN_LSTM ? SPSH__CELL_LSTM : SPSH__CELL_GRU;
    self->plan.shape.inputs = (uint32_t)inputs;
    self->plan.shape.hidden = (uint32_t)hidden;
    self->plan.has_two_biases = bias == CUDNN_RNN_DOUBLE_BIAS;
    self->plan.is_persistent = algorithm == CUDNN_RNN_ALGO_PERSIST_STATIC;
    self->plan.kind = type == CUDNN_DATA_FLOAT  ? SPSH__DEVICE_F32
                      : type == CUDNN_DATA_HALF ? SPSH__DEVICE_FP16
                                                : SPSH__DEVICE_BF16;
    const bool is_bias = bias == CUDNN_RNN_DOUBLE_BIAS || bias == CUDNN_RNN_SINGLE_INP_BIAS;
    return good_if((cell == CUDNN_LSTM || cell == CUDNN_GRU) && is_bias &&
                   direction == CUDNN_UNIDIRECTIONAL && input == CUDNN_LINEAR_INPUT &&
                   sums == CUDNN_DATA_FLOAT && has_math(type, math) && projected == hidden &&
                   layers == 1 && d->is_none && flags == CUDNN_RNN_PADDED_IO_DISABLED);
}

static cudnnStatus_t status_of(spsh_status rc)
{
    return rc == SPSH_OK              ? CUDNN_STATUS_SUCCESS
           : rc == SPSH_E_UNSUPPORTED ? CUDNN_STATUS_NOT_SUPPORTED
                                      : CUDNN_STATUS_EXECUTION_FAILED;
}

/* Open a layer of the emulation for this number of frames and utterances. */
static cudnnStatus_t open_layer(cudnnRNNDescriptor_t of, int frames, int batch, void **ret_layer,
                                spsh__cudnn_sizes *sizes)
{
    const rnn *self = (const void *)of;
    spsh__cudnn_plan plan = self->plan;
    plan.shape.frames = (uint32_t)frames;
    plan.shape.batch = (uint32_t)batch;
    return status_of(twin_layer_open(NULL, &plan, ret_layer, sizes, NULL));
}

static cudnnStatus_t sizes_of(cudnnRNNDescriptor_t of, int frames, int batch,
                              spsh__cudnn_sizes *sizes)
{
    void *layer = NULL;
    const cudnnStatus_t status = open_layer(of, frames, batch, &layer, sizes);
    if (status == CUDNN_STATUS_SUCCESS)
        twin_layer_close(layer);
    return status;
}

static cudnnStatus_t fake_cudnnGetRNNWeightSpaceSize(cudnnHandle_t handle_of,
                                                     cudnnRNNDescriptor_t of, size_t *ret_bytes)
{
    spsh__cudnn_sizes sizes;
    memset(&sizes, 0, sizeof(sizes));
    const cudnnStatus_t status = sizes_of(of, 1, 1, &sizes);
    *ret_bytes = sizes.weights;
    return handle_of == NULL ? CUDNN_STATUS_BAD_PARAM : status;
}

static cudnnStatus_t fake_cudnnGetRNNTempSpaceSizes(cudnnHandle_t handle_of,
                                                    cudnnRNNDescriptor_t of,
                                                    cudnnForwardMode_t mode,
                                                    cudnnRNNDataDescriptor_t x_of, size_t *ret_work,
                                                    size_t *ret_reserve)
{
    const rows *x = (const void *)x_of;
    spsh__cudnn_sizes sizes;
    memset(&sizes, 0, sizeof(sizes));
    const cudnnStatus_t status = sizes_of(of, x->frames, x->batch, &sizes);
    *ret_work = sizes.work;
    *ret_reserve = sizes.reserve;
    return handle_of == NULL || mode != CUDNN_FWD_MODE_TRAINING ? CUDNN_STATUS_BAD_PARAM : status;
}

static cudnnStatus_t fake_cudnnGetRNNWeightParams(cudnnHandle_t handle_of, cudnnRNNDescriptor_t of,
                                                  int32_t pseudo, size_t space_bytes,
                                                  const void *space, int32_t number,
                                                  cudnnTensorDescriptor_t matrix_of,
                                                  void **ret_matrix,
                                                  cudnnTensorDescriptor_t bias_of, void **ret_bias)
{
    const rnn *self = (const void *)of;
    const int gates = self->plan.shape.cell == SPSH__CELL_LSTM ? 4 : 3;
    const int hidden = (int)self->plan.shape.hidden;
    const int columns = number < gates ? (int)self->plan.shape.inputs : hidden;
    tensor *matrix = (void *)matrix_of, *bias = (void *)bias_of;
    spsh__cudnn_sizes sizes;
    char *at = NULL;
    if (sizes_of(of, 1, 1, &sizes) != CUDNN_STATUS_SUCCESS || handle_of == NULL || pseudo != 0 ||
        number < 0 || number >= 2 * gates || space == NULL || space_bytes != sizes.weights)
        return CUDNN_STATUS_BAD_PARAM;
    memcpy(&at, &space, sizeof(at));
    const spsh__cudnn_part *part = &sizes.parts[number];
    *matrix = (tensor){
        self->type, {1, hidden, columns}
    };
    *bias = (tensor){
        self->type, {1, hidden, 1}
    };
    *ret_matrix = at + part->matrix;
    *ret_bias = part->bias == SIZE_MAX ? NULL : at + part->bias;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- calls ---- */

/* Arguments that the three functions share. */
typedef struct pass {
    cudnnHandle_t handle_of;
    cudnnRNNDescriptor_t of;
    const int32_t *lengths; /* on the device */
    cudnnRNNDataDescriptor_t x_of, y_of;
    cudnnTensorDescriptor_t h_of;
    size_t weight_bytes, work_bytes, reserve_bytes;
} pass;

static bool is_pass(const pass *p, const spsh__cudnn_sizes *sizes)
{
    const rnn *self = (const void *)p->of;
    const rows *x = (const void *)p->x_of, *y = (const void *)p->y_of;
    const tensor *h = (const void *)p->h_of;
    const int hidden = (int)self->plan.shape.hidden;
    return x->type == self->type && y->type == self->type && x->frames == y->frames &&
           x->batch == y->batch && x->width == (int)self->plan.shape.inputs && y->width == hidden &&
           h->type == self->type && h->size[0] == 1 && h->size[1] == x->batch &&
           h->size[2] == hidden && p->lengths == NULL && p->weight_bytes == sizes->weights &&
           p->work_bytes == sizes->work && p->reserve_bytes == sizes->reserve;
}

static cudnnStatus_t run_pass(const pass *p, const spsh__cudnn_call *call)
{
    const rows *x = (const void *)p->x_of;
    const handle *on = (const void *)p->handle_of;
    spsh__cudnn_sizes sizes;
    void *layer = NULL;
    cudnnStatus_t status = open_layer(p->of, x->frames, x->batch, &layer, &sizes);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    status = is_pass(p, &sizes) ? status_of(twin_layer_call(layer, on->stream, call, NULL))
                                : CUDNN_STATUS_BAD_PARAM;
    twin_layer_close(layer);
    return status;
}

static cudnnStatus_t
fake_cudnnRNNForward(cudnnHandle_t handle_of, cudnnRNNDescriptor_t of, cudnnForwardMode_t mode,
                     const int32_t *lengths, cudnnRNNDataDescriptor_t x_of, const void *x,
                     cudnnRNNDataDescriptor_t y_of, void *y, cudnnTensorDescriptor_t h_of,
                     const void *hx, void *hy, cudnnTensorDescriptor_t c_of, const void *cx,
                     void *cy, size_t weight_bytes, const void *weights, size_t work_bytes,
                     void *work, size_t reserve_bytes, void *reserve)
{
    const pass p = {handle_of, of,           lengths,    x_of,         y_of,
                    h_of,      weight_bytes, work_bytes, reserve_bytes};
    const spsh__cudnn_call call = {.step = SPSH__CUDNN_FORWARD,
                                   .x = x,
                                   .weights = weights,
                                   .y = y,
                                   .work = work,
                                   .reserve = reserve};
    if (mode != CUDNN_FWD_MODE_TRAINING || c_of != h_of || hx != NULL || hy != NULL || cx != NULL ||
        cy != NULL)
        return CUDNN_STATUS_BAD_PARAM;
    return run_pass(&p, &call);
}

static cudnnStatus_t fake_cudnnRNNBackwardData_v8(
    cudnnHandle_t handle_of, cudnnRNNDescriptor_t of, const int32_t *lengths,
    cudnnRNNDataDescriptor_t y_of, const void *y, const void *dy, cudnnRNNDataDescriptor_t x_of,
    void *dx, cudnnTensorDescriptor_t h_of, const void *hx, const void *dhy, void *dhx,
    cudnnTensorDescriptor_t c_of, const void *cx, const void *dcy, void *dcx, size_t weight_bytes,
    const void *weights, size_t work_bytes, void *work, size_t reserve_bytes, void *reserve)
{
    const pass p = {handle_of, of,           lengths,    x_of,         y_of,
                    h_of,      weight_bytes, work_bytes, reserve_bytes};
    spsh__cudnn_call call = {.step = SPSH__CUDNN_BACKWARD_DATA,
                             .weights = weights,
                             .dy = dy,
                             .dx = dx,
                             .work = work,
                             .reserve = reserve};
    memcpy(&call.y, &y, sizeof(call.y));
    if (c_of != h_of || hx != NULL || dhy != NULL || dhx != NULL || cx != NULL || dcy != NULL ||
        dcx != NULL)
        return CUDNN_STATUS_BAD_PARAM;
    return run_pass(&p, &call);
}

static cudnnStatus_t fake_cudnnRNNBackwardWeights_v8(
    cudnnHandle_t handle_of, cudnnRNNDescriptor_t of, cudnnWgradMode_t mode, const int32_t *lengths,
    cudnnRNNDataDescriptor_t x_of, const void *x, cudnnTensorDescriptor_t h_of, const void *hx,
    cudnnRNNDataDescriptor_t y_of, const void *y, size_t weight_bytes, void *dweights,
    size_t work_bytes, void *work, size_t reserve_bytes, void *reserve)
{
    const pass p = {handle_of, of,           lengths,    x_of,         y_of,
                    h_of,      weight_bytes, work_bytes, reserve_bytes};
    spsh__cudnn_call call = {.step = SPSH__CUDNN_BACKWARD_WEIGHTS,
                             .x = x,
                             .dweights = dweights,
                             .work = work,
                             .reserve = reserve};
    memcpy(&call.y, &y, sizeof(call.y));
    if (mode != CUDNN_WGRAD_MODE_ADD || hx != NULL)
        return CUDNN_STATUS_BAD_PARAM;
    return run_pass(&p, &call);
}

/* ---- replacements of library_calls.cu ---- */

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    *prop = (struct cudaDeviceProp){.major = 9, .multiProcessorCount = 2 + device};
    prop->totalGlobalMem = twin_controls_get()->device_bytes;
    return cudaSuccess;
}

#define RECURRENT_CALLS(X)                                                                         \
    X(cudnnCreate)                                                                                 \
    X(cudnnCreateDropoutDescriptor)                                                                \
    X(cudnnCreateRNNDataDescriptor)                                                                \
    X(cudnnCreateRNNDescriptor)                                                                    \
    X(cudnnCreateTensorDescriptor)                                                                 \
    X(cudnnDestroy)                                                                                \
    X(cudnnDestroyDropoutDescriptor)                                                               \
    X(cudnnDestroyRNNDataDescriptor)                                                               \
    X(cudnnDestroyRNNDescriptor)                                                                   \
    X(cudnnDestroyTensorDescriptor)                                                                \
    X(cudnnGetErrorString)                                                                         \
    X(cudnnGetRNNTempSpaceSizes)                                                                   \
    X(cudnnGetRNNWeightParams)                                                                     \
    X(cudnnGetRNNWeightSpaceSize)                                                                  \
    X(cudnnGetTensorNdDescriptor)                                                                  \
    X(cudnnRNNBackwardData_v8)                                                                     \
    X(cudnnRNNBackwardWeights_v8)                                                                  \
    X(cudnnRNNForward)                                                                             \
    X(cudnnSetDropoutDescriptor)                                                                   \
    X(cudnnSetRNNDataDescriptor)                                                                   \
    X(cudnnSetRNNDescriptor_v8)                                                                    \
    X(cudnnSetStream)                                                                              \
    X(cudnnSetTensorNdDescriptor)

spsh_status spsh__library_calls_find(const spsh__library_calls **ret_calls, spsh_error *err)
{
    static const spsh__library_calls calls = {
#define SPSH_X(name_) .name_ = fake_##name_,
        RECURRENT_CALLS(SPSH_X)
#undef SPSH_X
    };
    (void)err;
    *ret_calls = &calls;
    return SPSH_OK;
}

spsh_status spsh__dnn_check(const spsh__library_calls *calls, cudnnStatus_t status,
                            const char *what, spsh_error *err)
{
    if (status == CUDNN_STATUS_SUCCESS)
        return SPSH_OK;
    return spsh__cuda_fail(
        err, status == CUDNN_STATUS_NOT_SUPPORTED ? SPSH_E_UNSUPPORTED : SPSH_E_INVALID_ARG,
        "cuDNN, %s: %s (%d)", what, calls->cudnnGetErrorString(status), (int)status);
}
/* NOLINTEND(bugprone-macro-parentheses) */
/* NOLINTEND(readability-function-size,readability-identifier-naming) */
