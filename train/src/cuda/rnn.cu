/* rnn.cu: recurrent layers on the device: kernels of kernels_rnn.h, and cuDNN's layers, which are
 * found with dlopen when the first one is asked for. device_rnn.h is the table.
 *
 * A persistent kernel's blocks wait for each other by a counter in global memory, 0 at the launch:
 * a block is through with frame f when all have added 1 for it, so at (f + 1) * blocks. Nothing is
 * set back: a launch that is done again from a graph has its counter zeroed before it. That all
 * blocks are on the device at once is what a cooperative launch promises (or refuses).
 */
#include "cuda/device_rnn.h"

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <new>

/* ---- kernels ---- */

extern __shared__ uint4 rnn_memory[];

static __device__ __forceinline__ spsh__block this_block(void)
{
    return {blockIdx.x, blockIdx.y, gridDim.x, gridDim.y, rnn_memory, 0};
}

/* What a block wrote before, all threads of all blocks see behind wait. */
static __device__ __forceinline__ void arrive(uint32_t *arrived)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1U);
    }
}

static __device__ __forceinline__ void wait(const uint32_t *arrived, uint32_t count)
{
    if (threadIdx.x == 0) {
        uint32_t seen = 0;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                         : "=r"(seen)
                         : "l"(arrived)
                         : "memory");
        } while (seen < count);
        __threadfence();
    }
    __syncthreads();
}

template <uint32_t KIND>
static __global__ void __launch_bounds__(SPSH__DEVICE_THREADS, 1)
    forward(const __grid_constant__ spsh__rnn_job job)
{
    const spsh__block block = this_block();
    spsh__rnn_forward_open(&job, &block, KIND);
    for (uint32_t t = 0; t < job.frames; t++) {
        spsh__rnn_forward_frame(&job, &block, t, KIND);
        if (t + 1 == job.frames)
            break;
        arrive(job.arrived);
        rnn_forward_ahead(&job, &block, t + 1, KIND, threadIdx.x);
        wait(job.arrived, (t + 1) * gridDim.x);
    }
}

template <uint32_t KIND>
static __global__ void __launch_bounds__(SPSH__DEVICE_THREADS, 1)
    backward(const __grid_constant__ spsh__rnn_job job)
{
    const spsh__block block = this_block();
    spsh__rnn_backward_open(&job, &block, KIND);
    for (uint32_t t = job.frames; t-- > 0;) {
        spsh__rnn_backward_frame(&job, &block, t, KIND);
        if (t == 0)
            break;
        arrive(job.arrived);
        rnn_backward_ahead(&job, &block, t - 1, KIND, threadIdx.x);
        wait(job.arrived, (job.frames - t) * gridDim.x);
    }
}

#define PLAIN(name_, job_)                                                                         \
    template <uint32_t KIND>                                                                       \
    static __global__ void __launch_bounds__(SPSH__DEVICE_THREADS)                                 \
        name_(const __grid_constant__ job_ job)                                                    \
    {                                                                                              \
        const spsh__block block = this_block();                                                    \
        spsh__kernel_rnn_##name_(&job, &block, KIND);                                              \
    }
PLAIN(forward_step, spsh__rnn_job)
PLAIN(backward_step, spsh__rnn_job)
PLAIN(bias, spsh__rnn_bias_job)
PLAIN(pack, spsh__rnn_pack_job)

#define KINDS(name_)                                                                               \
    {                                                                                              \
        (const void *)name_<SPSH__DEVICE_F32>, (const void *)name_<SPSH__DEVICE_BF16>,             \
            (const void *)name_<SPSH__DEVICE_FP16>                                                 \
    }
static const void *const kernels[SPSH__RNN_KERNELS][3] = {
    KINDS(forward),       KINDS(backward), KINDS(forward_step),
    KINDS(backward_step), KINDS(bias),     KINDS(pack),
};

static const size_t job_bytes[SPSH__RNN_KERNELS] = {
    sizeof(spsh__rnn_job), sizeof(spsh__rnn_job),      sizeof(spsh__rnn_job),
    sizeof(spsh__rnn_job), sizeof(spsh__rnn_bias_job), sizeof(spsh__rnn_pack_job),
};

/* ---- cuDNN ---- */

#if __has_include(<cudnn.h>)
#include <cudnn.h>

#define CUDNN_FUNCTIONS(X)                                                                         \
    X(cudnnCreate)                                                                                 \
    X(cudnnDestroy)                                                                                \
    X(cudnnSetStream)                                                                              \
    X(cudnnGetErrorString)                                                                         \
    X(cudnnCreateTensorDescriptor)                                                                 \
    X(cudnnDestroyTensorDescriptor)                                                                \
    X(cudnnSetTensorNdDescriptor)                                                                  \
    X(cudnnGetTensorNdDescriptor)                                                                  \
    X(cudnnCreateDropoutDescriptor)                                                                \
    X(cudnnDestroyDropoutDescriptor)                                                               \
    X(cudnnSetDropoutDescriptor)                                                                   \
    X(cudnnCreateRNNDescriptor)                                                                    \
    X(cudnnDestroyRNNDescriptor)                                                                   \
    X(cudnnSetRNNDescriptor_v8)                                                                    \
    X(cudnnCreateRNNDataDescriptor)                                                                \
    X(cudnnDestroyRNNDataDescriptor)                                                               \
    X(cudnnSetRNNDataDescriptor)                                                                   \
    X(cudnnGetRNNWeightSpaceSize)                                                                  \
    X(cudnnGetRNNWeightParams)                                                                     \
    X(cudnnGetRNNTempSpaceSizes)                                                                   \
    X(cudnnRNNForward)                                                                             \
    X(cudnnRNNBackwardData_v8)                                                                     \
    X(cudnnRNNBackwardWeights_v8)

typedef struct cudnn_library {
    void *library;
    cudnnHandle_t handles[SPSH__DEVICE_LANES]; /* a stream and work space each */
#define X(name_) decltype(&::name_) name_;
    CUDNN_FUNCTIONS(X)
#undef X
} cudnn_library;

static const char *cudnn_find(cudnn_library *c)
{
    c->library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    if (c->library == NULL)
        return "libcudnn.so.9 was not found";
#define X(name_)                                                                                   \
    c->name_ = (decltype(c->name_))dlsym(c->library, #name_);                                      \
    if (c->name_ == NULL)                                                                          \
        return "libcudnn.so.9 has no " #name_;
    CUDNN_FUNCTIONS(X)
#undef X
    return NULL;
}

static spsh_status check(const cudnn_library *c, cudnnStatus_t status, const char *what,
                         spsh_error *err)
{
    if (status == CUDNN_STATUS_SUCCESS)
        return SPSH_OK;
    const int category = (int)status / 1000; /* 2: bad parameters, 3: not supported */
    const spsh_status rc = category == 2 || category == 3        ? SPSH_E_UNSUPPORTED
                           : status == CUDNN_STATUS_ALLOC_FAILED ? SPSH_E_NO_MEMORY
                                                                 : SPSH_E_IO;
    return spsh__cuda_fail(err, rc, "cuDNN: %s: %s", what, c->cudnnGetErrorString(status));
}

static void cudnn_close(cudnn_library *c)
{
    for (uint32_t lane = 0; lane < SPSH__DEVICE_LANES; lane++)
        if (c->handles[lane] != NULL)
            (void)c->cudnnDestroy(c->handles[lane]);
    if (c->library != NULL)
        (void)dlclose(c->library);
    *c = cudnn_library();
}

static spsh_status cudnn_open(cudnn_library *c, spsh_error *err)
{
    const char *missing = NULL;
    spsh_status rc = SPSH_OK;
    if (c->library != NULL)
        return SPSH_OK;
    missing = cudnn_find(c);
    if (missing != NULL)
        rc = spsh__cuda_fail(err, SPSH_E_UNSUPPORTED, "cuDNN: %s", missing);
    for (uint32_t lane = 0; rc == SPSH_OK && lane < SPSH__DEVICE_LANES; lane++)
        rc = check(c, c->cudnnCreate(&c->handles[lane]), "a handle", err);
    if (rc != SPSH_OK)
        cudnn_close(c);
    return rc;
}
#else
typedef struct cudnn_library {
    void *library;
} cudnn_library;

static void cudnn_close(cudnn_library *c)
{
    (void)c;
}
#endif

/* ---- the state ---- */

typedef struct rnn_state {
    int device;
    int multiprocessors, shared_bytes;
    bool has_cooperative;
    spsh__precision precision;
    cudnn_library cudnn;
} rnn_state;

static void close_state(void *opaque)
{
    rnn_state *self = (rnn_state *)opaque;
    cudnn_close(&self->cudnn);
    delete self;
}

static spsh_status attribute(const rnn_state *self, cudaDeviceAttr which, int *value,
                             spsh_error *err)
{
    return spsh__cuda_check(cudaDeviceGetAttribute(value, which, self->device),
                            "an attribute of a device", err);
}

static spsh_status look(rnn_state *self, spsh_error *err)
{
    int major = 0, cooperative = 0;
    spsh_status rc = spsh__cuda_check(cudaSetDevice(self->device), "choosing a device", err);
    if (rc == SPSH_OK)
        rc = attribute(self, cudaDevAttrComputeCapabilityMajor, &major, err);
    if (rc == SPSH_OK)
        rc = attribute(self, cudaDevAttrCooperativeLaunch, &cooperative, err);
    if (rc == SPSH_OK)
        rc = attribute(self, cudaDevAttrMultiProcessorCount, &self->multiprocessors, err);
    if (rc == SPSH_OK)
        rc = attribute(self, cudaDevAttrMaxSharedMemoryPerBlockOptin, &self->shared_bytes, err);
    self->has_cooperative = cooperative != 0 && major >= 8;
    for (int kernel = SPSH__RNN_FORWARD; kernel <= SPSH__RNN_BACKWARD; kernel++)
        for (int kind = 0; rc == SPSH_OK && kind < 3; kind++)
            rc = spsh__cuda_check(cudaFuncSetAttribute(kernels[kernel][kind],
                                                       cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                       self->shared_bytes),
                                  "a kernel's shared memory", err);
    return rc;
}

static spsh_status open_state(const spsh__device_train_plan *plan, void **ret_state,
                              spsh_error *err)
{
    rnn_state *self = new (std::nothrow) rnn_state();
    if (self == NULL)
        return spsh__cuda_fail(err, SPSH_E_NO_MEMORY, "out of memory");
    self->device = (int)plan->device;
    self->precision = plan->precision;
    const spsh_status rc = look(self, err);
    if (rc != SPSH_OK) {
        close_state(self);
        return rc;
    }
    *ret_state = self;
    return SPSH_OK;
}

/* A block to a multiprocessor, whatever else would fit: then another lane's blocks, of whatever
 * size, find the other half. */
static spsh__rnn_limits limits(void *opaque)
{
    const rnn_state *self = (const rnn_state *)opaque;
    if (!self->has_cooperative)
        return {0, 0};
    return {(uint32_t)self->multiprocessors / 2, (uint32_t)self->shared_bytes};
}

static uint32_t resident(void *opaque, spsh__rnn_kernel kernel, spsh__device_kind kind,
                         uint32_t shared_bytes)
{
    const rnn_state *self = (const rnn_state *)opaque;
    int count = 0;
    if (!self->has_cooperative || shared_bytes > (uint32_t)self->shared_bytes ||
        cudaSetDevice(self->device) != cudaSuccess ||
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, kernels[kernel][kind],
                                                      (int)SPSH__DEVICE_THREADS,
                                                      shared_bytes) != cudaSuccess) {
        (void)cudaGetLastError();
        return 0;
    }
    return count > 0 ? (uint32_t)self->multiprocessors / 2 : 0;
}

static spsh_status launch(void *opaque, void *stream, const spsh__rnn_launch *l, spsh_error *err)
{
    const rnn_state *self = (const rnn_state *)opaque;
    const dim3 grid(l->blocks_x, l->blocks_y), threads(SPSH__DEVICE_THREADS);
    void *arguments[1] = {const_cast<void *>(l->job)};
    const void *kernel = kernels[l->kernel][l->kind];
    if (l->job_bytes != job_bytes[l->kernel])
        return spsh__cuda_fail(err, SPSH_E_INVALID_ARG, "a kernel's job has another size");
    const spsh_status rc = spsh__cuda_check(cudaSetDevice(self->device), "choosing a device", err);
    if (rc != SPSH_OK)
        return rc;
    if (l->kernel == SPSH__RNN_FORWARD || l->kernel == SPSH__RNN_BACKWARD)
        return spsh__cuda_check(cudaLaunchCooperativeKernel(kernel, grid, threads, arguments,
                                                            l->shared_bytes, (cudaStream_t)stream),
                                "a persistent recurrence", err);
    return spsh__cuda_check(
        cudaLaunchKernel(kernel, grid, threads, arguments, l->shared_bytes, (cudaStream_t)stream),
        "a kernel of a recurrent layer", err);
}

/* ---- layers of cuDNN's ---- */

#if __has_include(<cudnn.h>)

/* All utterances have all frames, so rows packed are rows as they are: what padded input and output
 * would add, persistent layers do not take. */
typedef struct layer {
    rnn_state *state;
    spsh__cudnn_plan plan;
    spsh__cudnn_sizes sizes;
    cudnnRNNDescriptor_t rnn;
    cudnnDropoutDescriptor_t dropout; /* none */
    cudnnRNNDataDescriptor_t x, y;
    cudnnTensorDescriptor_t h; /* and c */
} layer;

static void layer_close(void *opaque)
{
    layer *self = (layer *)opaque;
    const cudnn_library *c = &self->state->cudnn;
    if (self->h != NULL)
        (void)c->cudnnDestroyTensorDescriptor(self->h);
    if (self->y != NULL)
        (void)c->cudnnDestroyRNNDataDescriptor(self->y);
    if (self->x != NULL)
        (void)c->cudnnDestroyRNNDataDescriptor(self->x);
    if (self->rnn != NULL)
        (void)c->cudnnDestroyRNNDescriptor(self->rnn);
    if (self->dropout != NULL)
        (void)c->cudnnDestroyDropoutDescriptor(self->dropout);
    delete self;
}

static cudnnDataType_t data_type(spsh__device_kind kind)
{
    return kind == SPSH__DEVICE_BF16   ? CUDNN_DATA_BFLOAT16
           : kind == SPSH__DEVICE_FP16 ? CUDNN_DATA_HALF
                                       : CUDNN_DATA_FLOAT;
}

static cudnnMathType_t math_type(const layer *self)
{
    if (self->plan.kind != SPSH__DEVICE_F32)
        return CUDNN_TENSOR_OP_MATH;
    return self->state->precision == SPSH__TF32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
}

static spsh_status describe_rnn(layer *self, spsh_error *err)
{
    const cudnn_library *c = &self->state->cudnn;
    const spsh__rnn_shape *s = &self->plan.shape;
    spsh_status rc = check(c, c->cudnnCreateRNNDescriptor(&self->rnn), "a descriptor", err);
    if (rc == SPSH_OK)
        rc = check(c, c->cudnnCreateDropoutDescriptor(&self->dropout), "a descriptor", err);
    if (rc == SPSH_OK)
        rc = check(c, c->cudnnSetDropoutDescriptor(self->dropout, c->handles[0], 0.0F, NULL, 0, 0),
                   "no dropout", err);
    if (rc == SPSH_OK)
        rc = check(
            c,
            c->cudnnSetRNNDescriptor_v8(
                self->rnn,
                self->plan.is_persistent ? CUDNN_RNN_ALGO_PERSIST_STATIC : CUDNN_RNN_ALGO_STANDARD,
                s->cell == SPSH__CELL_LSTM ? CUDNN_LSTM : CUDNN_GRU,
                self->plan.has_two_biases ? CUDNN_RNN_DOUBLE_BIAS : CUDNN_RNN_SINGLE_INP_BIAS,
                CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, data_type(self->plan.kind),
                CUDNN_DATA_FLOAT, math_type(self), (int32_t)s->inputs, (int32_t)s->hidden,
                (int32_t)s->hidden, 1, self->dropout, CUDNN_RNN_PADDED_IO_DISABLED),
            "a recurrent layer", err);
    return rc;
}

static spsh_status describe_rows(const layer *self, cudnnRNNDataDescriptor_t *ret, uint32_t width,
                                 spsh_error *err)
{
    const cudnn_library *c = &self->state->cudnn;
    const spsh__rnn_shape *s = &self->plan.shape;
    int *lengths = new (std::nothrow) int[s->batch];
    if (lengths == NULL)
        return spsh__cuda_fail(err, SPSH_E_NO_MEMORY, "out of memory");
    for (uint32_t n = 0; n < s->batch; n++)
        lengths[n] = (int)s->frames;
    spsh_status rc = check(c, c->cudnnCreateRNNDataDescriptor(ret), "a descriptor", err);
    if (rc == SPSH_OK)
        rc = check(c,
                   c->cudnnSetRNNDataDescriptor(
                       *ret, data_type(self->plan.kind), CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED,
                       (int)s->frames, (int)s->batch, (int)width, lengths, NULL),
                   "rows of a recurrent layer", err);
    delete[] lengths;
    return rc;
}

static spsh_status describe_state(layer *self, spsh_error *err)
{
    const cudnn_library *c = &self->state->cudnn;
    const int batch = (int)self->plan.shape.batch, hidden = (int)self->plan.shape.hidden;
    const int extents[3] = {1, batch, hidden};
    const int strides[3] = {batch * hidden, hidden, 1};
    const spsh_status rc = check(c, c->cudnnCreateTensorDescriptor(&self->h), "a descriptor", err);
    if (rc != SPSH_OK)
        return rc;
    return check(
        c, c->cudnnSetTensorNdDescriptor(self->h, data_type(self->plan.kind), 3, extents, strides),
        "the state of a recurrent layer", err);
}

/* Elements of a matrix or bias; 0: there is none. */
static spsh_status count_of(const cudnn_library *c, cudnnTensorDescriptor_t d, uint64_t *ret_count,
                            spsh_error *err)
{
    cudnnDataType_t type;
    int dimensions = 0, extents[3] = {0, 0, 0}, strides[3];
    const spsh_status rc =
        check(c, c->cudnnGetTensorNdDescriptor(d, 3, &type, &dimensions, extents, strides),
              "the place of weights", err);
    *ret_count = (uint64_t)extents[0] * (uint64_t)extents[1] * (uint64_t)extents[2];
    return rc;
}

/* Part i of a weight space at `weights`. */
static spsh_status find_part(layer *self, char *weights, uint32_t i, cudnnTensorDescriptor_t m,
                             cudnnTensorDescriptor_t b, spsh_error *err)
{
    const cudnn_library *c = &self->state->cudnn;
    const spsh__rnn_shape *s = &self->plan.shape;
    const uint32_t gates = s->cell == SPSH__CELL_LSTM ? 4 : 3;
    const uint64_t columns = i < gates ? s->inputs : s->hidden;
    void *matrix = NULL, *bias = NULL;
    uint64_t matrix_count = 0, bias_count = 0;
    spsh_status rc =
        check(c,
              c->cudnnGetRNNWeightParams(c->handles[0], self->rnn, 0, self->sizes.weights, weights,
                                         (int32_t)i, m, &matrix, b, &bias),
              "the place of weights", err);
    if (rc == SPSH_OK)
        rc = count_of(c, m, &matrix_count, err);
    if (rc == SPSH_OK && bias != NULL)
        rc = count_of(c, b, &bias_count, err);
    if (rc != SPSH_OK)
        return rc;
    if (matrix == NULL || matrix_count != columns * s->hidden ||
        (bias != NULL && bias_count != s->hidden))
        return spsh__cuda_fail(err, SPSH_E_UNSUPPORTED,
                               "cuDNN: weights of a recurrent layer are laid out otherwise");
    self->sizes.parts[i].matrix = (size_t)((char *)matrix - weights);
    self->sizes.parts[i].bias = bias == NULL ? SIZE_MAX : (size_t)((char *)bias - weights);
    return SPSH_OK;
}

static spsh_status find_parts(layer *self, spsh_error *err)
{
    const cudnn_library *c = &self->state->cudnn;
    const uint32_t parts = self->plan.shape.cell == SPSH__CELL_LSTM ? 8 : 6;
    cudnnTensorDescriptor_t m = NULL, b = NULL;
    void *weights = NULL; /* only looked for places in, but there, as cuDNN wants it */
    spsh_status rc = spsh__cuda_check(cudaMalloc(&weights, self->sizes.weights),
                                      "memory for weights of a recurrent layer", err);
    if (rc == SPSH_OK)
        rc = check(c, c->cudnnCreateTensorDescriptor(&m), "a descriptor", err);
    if (rc == SPSH_OK)
        rc = check(c, c->cudnnCreateTensorDescriptor(&b), "a descriptor", err);
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
    const cudnn_library *c = &self->state->cudnn;
    spsh_status rc = describe_rnn(self, err);
    if (rc == SPSH_OK)
        rc = describe_rows(self, &self->x, self->plan.shape.inputs, err);
    if (rc == SPSH_OK)
        rc = describe_rows(self, &self->y, self->plan.shape.hidden, err);
    if (rc == SPSH_OK)
        rc = describe_state(self, err);
    if (rc == SPSH_OK)
        rc = check(c, c->cudnnGetRNNWeightSpaceSize(c->handles[0], self->rnn, &self->sizes.weights),
                   "the size of weights", err);
    if (rc == SPSH_OK)
        rc = check(c,
                   c->cudnnGetRNNTempSpaceSizes(c->handles[0], self->rnn, CUDNN_FWD_MODE_TRAINING,
                                                self->x, &self->sizes.work, &self->sizes.reserve),
                   "the size of work space", err);
    return rc == SPSH_OK ? find_parts(self, err) : rc;
}

static spsh_status layer_open(void *opaque, const spsh__cudnn_plan *plan, void **ret_layer,
                              spsh__cudnn_sizes *ret_sizes, spsh_error *err)
{
    rnn_state *state = (rnn_state *)opaque;
    spsh_status rc = spsh__cuda_check(cudaSetDevice(state->device), "choosing a device", err);
    if (rc == SPSH_OK)
        rc = cudnn_open(&state->cudnn, err);
    if (rc != SPSH_OK)
        return rc;
    layer *self = new (std::nothrow) layer();
    if (self == NULL)
        return spsh__cuda_fail(err, SPSH_E_NO_MEMORY, "out of memory");
    self->state = state;
    self->plan = *plan;
    rc = describe(self, err);
    if (rc != SPSH_OK) {
        layer_close(self);
        return rc;
    }
    *ret_layer = self;
    *ret_sizes = self->sizes;
    return SPSH_OK;
}

static spsh_status take_stream(const layer *self, void *stream, uint32_t lane, spsh_error *err)
{
    const cudnn_library *c = &self->state->cudnn;
    const spsh_status rc =
        spsh__cuda_check(cudaSetDevice(self->state->device), "choosing a device", err);
    if (rc != SPSH_OK)
        return rc;
    return check(c, c->cudnnSetStream(c->handles[lane], (cudaStream_t)stream), "a stream", err);
}

static spsh_status layer_forward(void *opaque, void *stream, const spsh__cudnn_call *call,
                                 spsh_error *err)
{
    const layer *self = (const layer *)opaque;
    const cudnn_library *c = &self->state->cudnn;
    const spsh_status rc = take_stream(self, stream, call->lane, err);
    if (rc != SPSH_OK)
        return rc;
    return check(c,
                 c->cudnnRNNForward(c->handles[call->lane], self->rnn, CUDNN_FWD_MODE_TRAINING,
                                    NULL, self->x, call->x, self->y, call->y, self->h, NULL, NULL,
                                    self->h, NULL, NULL, self->sizes.weights, call->weights,
                                    self->sizes.work, call->work, self->sizes.reserve,
                                    call->reserve),
                 "a recurrent layer forward", err);
}

static spsh_status layer_backward_data(void *opaque, void *stream, const spsh__cudnn_call *call,
                                       spsh_error *err)
{
    const layer *self = (const layer *)opaque;
    const cudnn_library *c = &self->state->cudnn;
    const spsh_status rc = take_stream(self, stream, call->lane, err);
    if (rc != SPSH_OK)
        return rc;
    return check(c,
                 c->cudnnRNNBackwardData_v8(c->handles[call->lane], self->rnn, NULL, self->y,
                                            call->y, call->dy, self->x, call->dx, self->h, NULL,
                                            NULL, NULL, self->h, NULL, NULL, NULL,
                                            self->sizes.weights, call->weights, self->sizes.work,
                                            call->work, self->sizes.reserve, call->reserve),
                 "a recurrent layer backward", err);
}

static spsh_status layer_backward_weights(void *opaque, void *stream, const spsh__cudnn_call *call,
                                          spsh_error *err)
{
    const layer *self = (const layer *)opaque;
    const cudnn_library *c = &self->state->cudnn;
    const spsh_status rc = take_stream(self, stream, call->lane, err);
    if (rc != SPSH_OK)
        return rc;
    return check(c,
                 c->cudnnRNNBackwardWeights_v8(
                     c->handles[call->lane], self->rnn, CUDNN_WGRAD_MODE_ADD, NULL, self->x,
                     call->x, self->h, NULL, self->y, call->y, self->sizes.weights, call->dweights,
                     self->sizes.work, call->work, self->sizes.reserve, call->reserve),
                 "gradients of a recurrent layer's weights", err);
}

#else /* no cudnn.h: no layer is ever opened */

static spsh_status layer_open(void *, const spsh__cudnn_plan *, void **, spsh__cudnn_sizes *,
                              spsh_error *err)
{
    return spsh__cuda_fail(err, SPSH_E_UNSUPPORTED,
                           "cuDNN: the plug-in was built without its header");
}

static void layer_close(void *)
{
}

static spsh_status layer_call(void *, void *, const spsh__cudnn_call *, spsh_error *err)
{
    return spsh__cuda_fail(err, SPSH_E_UNSUPPORTED, "cuDNN: no layer is open");
}
#define layer_forward          layer_call
#define layer_backward_data    layer_call
#define layer_backward_weights layer_call
#endif

extern "C" SPSH_API const spsh__device_rnn_entry *spsh_cuda_rnn_entry(void)
{
    static const spsh__device_rnn_entry entry = {
        SPSH__RNN_JOBS_BYTES,
        open_state,
        close_state,
        limits,
        resident,
        launch,
        layer_open,
        layer_close,
        layer_forward,
        layer_backward_data,
        layer_backward_weights,
    };
    return &entry;
}
