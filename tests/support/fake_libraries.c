/* fake_libraries.c: the parts of cuBLASLt and cuDNN that the trainer's part of the plug-in calls,
 * without CUDA: gemm.cu, conv.cu, and train_plugin.cu run with it over twin_runtime.h and
 * fake_cudart.c. Replaces library_calls.cu, which would load the libraries, and kernels.cu.
 *
 * Written from the libraries' documentation: matrices in column-major order, tensors by
 * descriptors. It checks its arguments: pointers have the promised alignment, work space has the
 * requested size, and the algorithm is the first offered one that fits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/device_half.h"
#include "cuda/library_calls.h"
#include "twin_kernels.h"
#include "twin_plugin.h"
#include "twin_runtime.h"

twin_controls *twin_controls_get(void);
spsh_status spsh__train_launch(void *opaque, void *stream, const spsh__kernel_launch *l,
                               spsh_error *err);

/* These functions have the names and arguments of the libraries that they replace. */
/* NOLINTBEGIN(readability-function-size,readability-identifier-naming) */

/* ---- elements ---- */

/* A caller that writes must have passed writable memory. */
static spsh__device_array array_of(const void *data, spsh__device_kind kind)
{
    spsh__device_array array = {NULL, kind};
    memcpy(&array.data, &data, sizeof(data));
    return array;
}

static spsh__device_array array_of_type(const void *data, cudaDataType_t type)
{
    return array_of(data, type == CUDA_R_32F    ? SPSH__DEVICE_F32
                          : type == CUDA_R_16BF ? SPSH__DEVICE_BF16
                                                : SPSH__DEVICE_FP16);
}

static size_t bytes_of(const spsh__device_array *a, size_t count)
{
    return count * (a->kind == SPSH__DEVICE_F32 ? 4 : 2);
}

/* ---- cuBLASLt: descriptors ---- */

typedef struct product {
    cublasComputeType_t compute;
    cublasOperation_t op[2];
} product;

typedef struct layout {
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t lead;
} layout;

typedef struct preference {
    uint64_t work_bytes;
    uint32_t alignment[4], schemes;
} preference;

typedef struct algorithm { /* the preference that the algorithm was chosen for */
    uint32_t alignment[4], schemes, magic;
} algorithm;

enum { MAGIC = 0x5eed };

static void *new_zeroed(size_t size_bytes)
{
    void *memory = calloc(1, size_bytes);
    if (memory == NULL)
        abort();
    return memory;
}

static cublasStatus_t fake_cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = new_zeroed(8);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t fake_cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

static const char *fake_cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "success" : "fake failure";
}

static size_t fake_cublasLtGetVersion(void)
{
    return CUBLAS_VER_MAJOR * 10000;
}

static cublasStatus_t fake_cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *descriptor,
                                                    cublasComputeType_t compute,
                                                    cudaDataType_t scale)
{
    product *p = new_zeroed(sizeof(*p));
    p->compute = compute;
    *descriptor = (void *)p;
    return scale == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

static cublasStatus_t fake_cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t descriptor)
{
    free(descriptor);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t fake_cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t descriptor,
                                                          cublasLtMatmulDescAttributes_t which,
                                                          const void *value, size_t size_bytes)
{
    product *p = (void *)descriptor;
    if (size_bytes != sizeof(p->op[0]) ||
        (which != CUBLASLT_MATMUL_DESC_TRANSA && which != CUBLASLT_MATMUL_DESC_TRANSB))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&p->op[which == CUBLASLT_MATMUL_DESC_TRANSB ? 1 : 0], value, size_bytes);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t fake_cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *ret)
{
    preference *p = new_zeroed(sizeof(*p));
    for (unsigned i = 0; i < 4; i++)
        p->alignment[i] = 256;
    p->schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
    *ret = (void *)p;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t fake_cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t descriptor)
{
    free(descriptor);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t
fake_cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t descriptor,
                                          cublasLtMatmulPreferenceAttributes_t which,
                                          const void *value, size_t size_bytes)
{
    preference *p = (void *)descriptor;
    void *to = which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES     ? (void *)&p->work_bytes
               : which == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK ? &p->schemes
               : which == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES ? &p->alignment[0]
               : which == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES ? &p->alignment[1]
               : which == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES ? &p->alignment[2]
               : which == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES ? &p->alignment[3]
                                                                     : NULL;
    const size_t wanted =
        which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? sizeof(uint64_t) : sizeof(uint32_t);
    if (to == NULL || size_bytes != wanted)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, value, size_bytes);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t fake_cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *ret,
                                                      cudaDataType type, uint64_t rows,
                                                      uint64_t columns, int64_t lead)
{
    layout *l = new_zeroed(sizeof(*l));
    *l = (layout){type, rows, columns, lead};
    *ret = (void *)l;
    return lead >= (int64_t)rows ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

static cublasStatus_t fake_cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t descriptor)
{
    free(descriptor);
    return CUBLAS_STATUS_SUCCESS;
}

/* The first of two results is unusable. */
static cublasStatus_t
fake_cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t p,
                                    cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                    cublasLtMatmulPreference_t preferred, int wanted,
                                    cublasLtMatmulHeuristicResult_t *results, int *ret_count)
{
    twin_controls_get()->heuristics++;
    const preference *own = (const void *)preferred;
    algorithm one = {.schemes = own->schemes, .magic = MAGIC};
    (void)handle, (void)p, (void)a, (void)b;
    if (c != d || wanted < 2 || own->work_bytes == 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(one.alignment, own->alignment, sizeof(one.alignment));
    memset(results, 0, 2 * sizeof(*results));
    results[0].state = CUBLAS_STATUS_NOT_SUPPORTED;
    results[1].state = CUBLAS_STATUS_SUCCESS;
    memcpy(&results[1].algo, &one, sizeof(one));
    *ret_count = 2;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- cuBLASLt: the product ---- */

typedef struct matrix {
    spsh__device_array values;
    layout shape;
    bool is_transposed;
} matrix;

typedef struct product_work {
    matrix a, b, c;
    bool is_tf32;
    float alpha, beta;
} product_work;

static float factor_of(const spsh__device_array *values, uint64_t at, bool is_tf32)
{
    const float value = spsh__device_get(values, at);
    return is_tf32 ? spsh__f32_of_bits(spsh__round_bits(spsh__bits_of_f32(value), 13) << 13)
                   : value;
}

/* `lines` rows (or columns) of a factor, of `depth` elements each. The caller frees them. */
static float *lines_of(const matrix *m, uint64_t lines, uint64_t depth, bool is_tf32, bool is_row)
{
    const uint64_t lead = (uint64_t)m->shape.lead;
    float *values = new_zeroed((lines * depth + 1) * sizeof(*values));
    for (uint64_t i = 0; i < lines; i++) {
        for (uint64_t k = 0; k < depth; k++) {
            const bool goes_along = m->is_transposed == is_row;
            values[i * depth + k] =
                factor_of(&m->values, goes_along ? i * lead + k : k * lead + i, is_tf32);
        }
    }
    return values;
}

static void run_product(void *arguments)
{
    const product_work *w = arguments;
    const uint64_t depth = w->a.is_transposed ? w->a.shape.rows : w->a.shape.columns;
    const uint64_t rows = w->c.shape.rows, columns = w->c.shape.columns;
    float *a = lines_of(&w->a, rows, depth, w->is_tf32, true);
    float *b = lines_of(&w->b, columns, depth, w->is_tf32, false);
    for (uint64_t j = 0; j < columns; j++) {
        for (uint64_t i = 0; i < rows; i++) {
            const uint64_t at = j * (uint64_t)w->c.shape.lead + i;
            float sum = 0;
            for (uint64_t k = 0; k < depth; k++)
                sum += a[i * depth + k] * b[j * depth + k];
            sum *= w->alpha;
            if (w->beta != 0)
                sum += w->beta * spsh__device_get(&w->c.values, at);
            spsh__device_set(&w->c.values, at, sum);
        }
    }
    free(a);
    free(b);
}

static spsh__device_use use_of(const matrix *m, uint32_t is_write)
{
    const uint64_t columns = m->shape.columns;
    const size_t count =
        columns == 0 ? 0 : (size_t)((columns - 1) * (uint64_t)m->shape.lead + m->shape.rows);
    return (spsh__device_use){m->values.data, bytes_of(&m->values, count), is_write};
}

static bool is_product(const product_work *w)
{
    const layout *a = &w->a.shape, *b = &w->b.shape, *c = &w->c.shape;
    const uint64_t a_rows = w->a.is_transposed ? a->columns : a->rows;
    const uint64_t a_depth = w->a.is_transposed ? a->rows : a->columns;
    const uint64_t b_depth = w->b.is_transposed ? b->columns : b->rows;
    const uint64_t b_columns = w->b.is_transposed ? b->rows : b->columns;
    const bool has_types = a->type == b->type && (c->type == CUDA_R_32F || c->type == a->type);
    return has_types && a_rows == c->rows && b_columns == c->columns && a_depth == b_depth;
}

/* Whether partial sums are added in float, not in 16 bits. */
static bool rounds_once(const product_work *w, const algorithm *one)
{
    const uint32_t in_floats = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    return w->c.shape.type == CUDA_R_32F || (one->schemes & ~in_floats) == 0;
}

static matrix matrix_of(const void *data, cublasLtMatrixLayout_t shape, bool is_transposed)
{
    const layout *l = (const void *)shape;
    return (matrix){array_of_type(data, l->type), *l, is_transposed};
}

static cublasStatus_t status_of(spsh_status rc)
{
    return rc == SPSH_OK ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

static cublasStatus_t fake_cublasLtMatmul(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t descriptor, const void *alpha, const void *a,
    cublasLtMatrixLayout_t a_shape, const void *b, cublasLtMatrixLayout_t b_shape, const void *beta,
    const void *c, cublasLtMatrixLayout_t c_shape, void *d, cublasLtMatrixLayout_t d_shape,
    const cublasLtMatmulAlgo_t *chosen, void *work_space, size_t work_bytes, cudaStream_t stream)
{
    const product *p = (const void *)descriptor;
    const void *pointers[4] = {a, b, c, d};
    algorithm one;
    product_work w;
    memcpy(&one, chosen, sizeof(one));
    (void)handle;
    if (one.magic != MAGIC || c != d || c_shape != d_shape || work_space == NULL || work_bytes == 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    for (unsigned i = 0; i < 4; i++) {
        if ((uintptr_t)pointers[i] % one.alignment[i] != 0)
            return CUBLAS_STATUS_INVALID_VALUE;
    }
    memset(&w, 0, sizeof(w));
    w.a = matrix_of(a, a_shape, p->op[0] == CUBLAS_OP_T);
    w.b = matrix_of(b, b_shape, p->op[1] == CUBLAS_OP_T);
    w.c = matrix_of(c, c_shape, false);
    w.is_tf32 = p->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    memcpy(&w.alpha, alpha, sizeof(w.alpha));
    memcpy(&w.beta, beta, sizeof(w.beta));
    if (!is_product(&w) || !rounds_once(&w, &one))
        return CUBLAS_STATUS_INVALID_VALUE;
    const spsh__device_use uses[] = {use_of(&w.a, 0), use_of(&w.b, 0), use_of(&w.c, 1)};
    const twin_work work = {"cublasLtMatmul", run_product, &w, sizeof(w), uses, 3, NULL};
    return status_of(twin_enqueue(stream, &work, NULL));
}

/* ---- cuDNN: descriptors ---- */

typedef struct tensor { /* or filters */
    cudnnDataType_t type;
    int size[4];
} tensor;

typedef struct convolution {
    int pad[2], stride[2];
    cudnnMathType_t math;
} convolution;

typedef struct dnn {
    cudaStream_t stream;
} dnn;

enum { GOOD = 1, HUGE_ONE = 5, ROUGH = 4, VARYING = 0, CANDIDATES = 5 };

static cudnnStatus_t fake_cudnnCreate(cudnnHandle_t *handle)
{
    *handle = new_zeroed(sizeof(dnn));
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t fake_cudnnDestroy(cudnnHandle_t handle)
{
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}

static size_t fake_cudnnGetVersion(void)
{
    return CUDNN_MAJOR * 10000;
}

static const char *fake_cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS ? "success" : "fake failure";
}

static cudnnStatus_t fake_cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    ((dnn *)(void *)handle)->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t fake_cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *ret)
{
    *ret = new_zeroed(sizeof(tensor));
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t fake_cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t descriptor)
{
    free(descriptor);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t fake_cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *ret)
{
    *ret = new_zeroed(sizeof(tensor));
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t fake_cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t descriptor)
{
    free(descriptor);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t fake_cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *ret)
{
    *ret = new_zeroed(sizeof(convolution));
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t fake_cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t descriptor)
{
    free(descriptor);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t fake_cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t descriptor,
                                                     cudnnTensorFormat_t format,
                                                     cudnnDataType_t type, int n, int c, int h,
                                                     int w)
{
    tensor *t = (void *)descriptor;
    *t = (tensor){
        type, {n, c, h, w}
    };
    return format == CUDNN_TENSOR_NCHW ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

static cudnnStatus_t fake_cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t descriptor,
                                                     cudnnDataType_t type,
                                                     cudnnTensorFormat_t format, int k, int c,
                                                     int h, int w)
{
    return fake_cudnnSetTensor4dDescriptor((void *)descriptor, format, type, k, c, h, w);
}

static cudnnStatus_t fake_cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t descriptor,
                                                          int pad_h, int pad_w, int u, int v,
                                                          int dilation_h, int dilation_w,
                                                          cudnnConvolutionMode_t mode,
                                                          cudnnDataType_t compute)
{
    convolution *c = (void *)descriptor;
    *c = (convolution){
        {pad_h, pad_w},
        {u,     v    },
        CUDNN_DEFAULT_MATH
    };
    return dilation_h == 1 && dilation_w == 1 && mode == CUDNN_CROSS_CORRELATION &&
                   compute == CUDNN_DATA_FLOAT
               ? CUDNN_STATUS_SUCCESS
               : CUDNN_STATUS_NOT_SUPPORTED;
}

static cudnnStatus_t fake_cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t descriptor,
                                                      cudnnMathType_t math)
{
    ((convolution *)(void *)descriptor)->math = math;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- cuDNN: algorithms: none, one too large, one that rounds floats to halves, one that varies, a
 * good one ---- */

static const int numbers[CANDIDATES] = {GOOD + 1, HUGE_ONE, ROUGH, VARYING, GOOD};

/* Math type of an algorithm. It differs from the descriptor's, to check that callers query it; it
 * also uses tensor cores if the descriptor asks for multiply-adds. */
static cudnnMathType_t math_of(int number)
{
    return number == ROUGH  ? CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION
           : number == GOOD ? CUDNN_TENSOR_OP_MATH
                            : CUDNN_DEFAULT_MATH;
}

#define FILL_ALGORITHMS(rows_, type_)                                                              \
    do {                                                                                           \
        memset((rows_), 0, CANDIDATES * sizeof(*(rows_)));                                         \
        for (unsigned i_ = 0; i_ < CANDIDATES; i_++) {                                             \
            (rows_)[i_].algo = (type_)numbers[i_];                                                 \
            (rows_)[i_].status = i_ == 0 ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;      \
            (rows_)[i_].mathType = math_of(numbers[i_]);                                           \
            (rows_)[i_].determinism =                                                              \
                numbers[i_] == VARYING ? CUDNN_NON_DETERMINISTIC : CUDNN_DETERMINISTIC;            \
        }                                                                                          \
    } while (0)

static cudnnStatus_t fake_cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t c, const cudnnTensorDescriptor_t y, const int wanted,
    int *ret_count, cudnnConvolutionFwdAlgoPerf_t *rows)
{
    (void)handle, (void)x, (void)w, (void)c, (void)y;
    twin_controls_get()->heuristics++;
    if (wanted < CANDIDATES)
        return CUDNN_STATUS_BAD_PARAM;
    FILL_ALGORITHMS(rows, cudnnConvolutionFwdAlgo_t);
    *ret_count = CANDIDATES;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t fake_cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t c, const cudnnTensorDescriptor_t dx, const int wanted,
    int *ret_count, cudnnConvolutionBwdDataAlgoPerf_t *rows)
{
    (void)handle, (void)w, (void)dy, (void)c, (void)dx;
    twin_controls_get()->heuristics++;
    if (wanted < CANDIDATES)
        return CUDNN_STATUS_BAD_PARAM;
    FILL_ALGORITHMS(rows, cudnnConvolutionBwdDataAlgo_t);
    *ret_count = CANDIDATES;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t fake_cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t c, const cudnnFilterDescriptor_t dw, const int wanted,
    int *ret_count, cudnnConvolutionBwdFilterAlgoPerf_t *rows)
{
    (void)handle, (void)x, (void)dy, (void)c, (void)dw;
    twin_controls_get()->heuristics++;
    if (wanted < CANDIDATES)
        return CUDNN_STATUS_BAD_PARAM;
    FILL_ALGORITHMS(rows, cudnnConvolutionBwdFilterAlgo_t);
    *ret_count = CANDIDATES;
    return CUDNN_STATUS_SUCCESS;
}

/* The algorithm that varies is offered first, and needs more work space than the good one. */
static size_t work_bytes_of(int number)
{
    return number == HUGE_ONE ? (size_t)2 << 30 : number == VARYING ? (size_t)3 << 20 : 65536;
}

static cudnnStatus_t work_of(int number, size_t *ret_bytes)
{
    *ret_bytes = work_bytes_of(number);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t fake_cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t c, const cudnnTensorDescriptor_t y,
    cudnnConvolutionFwdAlgo_t number, size_t *ret_bytes)
{
    (void)handle, (void)x, (void)w, (void)c, (void)y;
    return work_of((int)number, ret_bytes);
}

static cudnnStatus_t fake_cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t c, const cudnnTensorDescriptor_t dx,
    cudnnConvolutionBwdDataAlgo_t number, size_t *ret_bytes)
{
    (void)handle, (void)w, (void)dy, (void)c, (void)dx;
    return work_of((int)number, ret_bytes);
}

static cudnnStatus_t fake_cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t c, const cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterAlgo_t number, size_t *ret_bytes)
{
    (void)handle, (void)x, (void)dy, (void)c, (void)dw;
    return work_of((int)number, ret_bytes);
}

/* ---- cuDNN: the three convolutions ---- */

typedef struct side {
    spsh__device_array values;
    tensor shape;
} side;

typedef struct conv_work {
    side x, w, y;
    int written; /* 0 x, 1 w, 2 y */
    convolution how;
    float alpha, beta;
} conv_work;

static side side_of(const void *data, const void *descriptor)
{
    const tensor *t = descriptor;
    return (side){
        array_of(data, t->type == CUDNN_DATA_FLOAT      ? SPSH__DEVICE_F32
                       : t->type == CUDNN_DATA_BFLOAT16 ? SPSH__DEVICE_BF16
                                                        : SPSH__DEVICE_FP16),
        *t,
    };
}

static size_t count_of(const side *s)
{
    return (size_t)s->shape.size[0] * (size_t)s->shape.size[1] * (size_t)s->shape.size[2] *
           (size_t)s->shape.size[3];
}

static size_t place_of(const side *s, const int at[4])
{
    const int *size = s->shape.size;
    return (((size_t)at[0] * (size_t)size[1] + (size_t)at[1]) * (size_t)size[2] + (size_t)at[2]) *
               (size_t)size[3] +
           (size_t)at[3];
}

/* A whole tensor as floats. The caller frees them. */
static float *floats_of(const conv_work *w, const side *s)
{
    const bool is_tf32 = s->values.kind == SPSH__DEVICE_F32 && w->how.math != CUDNN_FMA_MATH;
    float *values = new_zeroed((count_of(s) + 1) * sizeof(*values));
    for (size_t i = 0; i < count_of(s); i++)
        values[i] = factor_of(&s->values, i, is_tf32);
    return values;
}

typedef struct conv_floats {
    float *x, *w, *y, *sums;
} conv_floats;

/* Apply the whole kernel for one output and one channel of the input. */
static void meet(const conv_work *w, const int y_at[4], int channel, const conv_floats *f)
{
    const size_t y = place_of(&w->y, y_at);
    for (int r = 0; r < w->w.shape.size[2]; r++) {
        for (int q = 0; q < w->w.shape.size[3]; q++) {
            const int h = y_at[2] * w->how.stride[0] + r - w->how.pad[0];
            const int v = y_at[3] * w->how.stride[1] + q - w->how.pad[1];
            if (h < 0 || v < 0 || h >= w->x.shape.size[2] || v >= w->x.shape.size[3])
                continue;
            const size_t x = place_of(&w->x, (const int[4]){y_at[0], channel, h, v});
            const size_t k = place_of(&w->w, (const int[4]){y_at[1], channel, r, q});
            if (w->written == 0)
                f->sums[x] += f->w[k] * f->y[y];
            else if (w->written == 1)
                f->sums[k] += f->x[x] * f->y[y];
            else
                f->sums[y] += f->x[x] * f->w[k];
        }
    }
}

static void run_convolution(void *arguments)
{
    const conv_work *w = arguments;
    const side *to = w->written == 0 ? &w->x : w->written == 1 ? &w->w : &w->y;
    const int *size = w->y.shape.size;
    conv_floats f = {floats_of(w, &w->x), floats_of(w, &w->w), floats_of(w, &w->y),
                     new_zeroed((count_of(to) + 1) * sizeof(float))};
    for (int n = 0; n < size[0]; n++)
        for (int o = 0; o < size[1]; o++)
            for (int at = 0; at < size[2] * size[3]; at++)
                for (int c = 0; c < w->x.shape.size[1]; c++)
                    meet(w, (const int[4]){n, o, at / size[3], at % size[3]}, c, &f);
    for (size_t i = 0; i < count_of(to); i++) {
        const float before = w->beta == 0 ? 0 : w->beta * spsh__device_get(&to->values, i);
        spsh__device_set(&to->values, i, w->alpha * f.sums[i] + before);
    }
    free(f.x);
    free(f.w);
    free(f.y);
    free(f.sums);
}

static bool is_output(int out, int in, int kernel, int stride, int pad)
{
    return out == (in + 2 * pad - kernel) / stride + 1;
}

/* Arguments, other than tensors, that cuDNN's three functions share. */
typedef struct conv_call {
    cudnnHandle_t handle;
    const void *how, *alpha, *beta, *work_space;
    int number;
    size_t work_bytes;
} conv_call;

/* Whether the call has the math type of the offer. The algorithm that varies is never offered if
 * sums would be rounded. */
static bool is_offered(const conv_work *w, int number)
{
    const bool is_float = w->x.shape.type == CUDNN_DATA_FLOAT;
    if (number == VARYING && w->written == 1 && !is_float)
        return false;
    return (number == GOOD || number == VARYING) &&
           (w->how.math == math_of(number) || (is_float && w->how.math == CUDNN_FMA_MATH));
}

static bool is_convolution(const conv_work *w)
{
    const int *x = w->x.shape.size, *k = w->w.shape.size, *y = w->y.shape.size;
    for (int i = 0; i < 2; i++) {
        if (!is_output(y[2 + i], x[2 + i], k[2 + i], w->how.stride[i], w->how.pad[i]))
            return false;
    }
    return x[0] == y[0] && x[1] == k[1] && y[1] == k[0] && w->x.shape.type == w->y.shape.type &&
           w->x.shape.type == w->w.shape.type;
}

static cudnnStatus_t convolve(conv_work *w, const conv_call *call)
{
    const side *sides[3] = {&w->x, &w->w, &w->y};
    const size_t work_bytes = work_bytes_of(call->number);
    spsh__device_use uses[4];
    memcpy(&w->how, call->how, sizeof(w->how));
    memcpy(&w->alpha, call->alpha, sizeof(w->alpha));
    memcpy(&w->beta, call->beta, sizeof(w->beta));
    for (int i = 0; i < 3; i++)
        uses[i] = (spsh__device_use){sides[i]->values.data,
                                     bytes_of(&sides[i]->values, count_of(sides[i])),
                                     i == w->written ? 1 : 0};
    uses[3] = (spsh__device_use){call->work_space, work_bytes, 1};
    if (call->work_space == NULL || call->work_bytes < work_bytes || !is_convolution(w) ||
        !is_offered(w, call->number))
        return CUDNN_STATUS_BAD_PARAM;
    const twin_work work = {"cudnnConvolution", run_convolution, w, sizeof(*w), uses, 4, NULL};
    const dnn *own = (const void *)call->handle;
    return twin_enqueue(own->stream, &work, NULL) == SPSH_OK ? CUDNN_STATUS_SUCCESS
                                                             : CUDNN_STATUS_EXECUTION_FAILED;
}

static cudnnStatus_t fake_cudnnConvolutionForward(
    cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t x_shape, const void *x,
    const cudnnFilterDescriptor_t w_shape, const void *w, const cudnnConvolutionDescriptor_t how,
    cudnnConvolutionFwdAlgo_t number, void *work_space, size_t work_bytes, const void *beta,
    const cudnnTensorDescriptor_t y_shape, void *y)
{
    conv_work own = {
        .x = side_of(x, x_shape), .w = side_of(w, w_shape), .y = side_of(y, y_shape), .written = 2};
    const conv_call call = {handle, how, alpha, beta, work_space, (int)number, work_bytes};
    return convolve(&own, &call);
}

static cudnnStatus_t fake_cudnnConvolutionBackwardData(
    cudnnHandle_t handle, const void *alpha, const cudnnFilterDescriptor_t w_shape, const void *w,
    const cudnnTensorDescriptor_t dy_shape, const void *dy, const cudnnConvolutionDescriptor_t how,
    cudnnConvolutionBwdDataAlgo_t number, void *work_space, size_t work_bytes, const void *beta,
    const cudnnTensorDescriptor_t dx_shape, void *dx)
{
    conv_work own = {.x = side_of(dx, dx_shape),
                     .w = side_of(w, w_shape),
                     .y = side_of(dy, dy_shape),
                     .written = 0};
    const conv_call call = {handle, how, alpha, beta, work_space, (int)number, work_bytes};
    return convolve(&own, &call);
}

static cudnnStatus_t fake_cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t x_shape, const void *x,
    const cudnnTensorDescriptor_t dy_shape, const void *dy, const cudnnConvolutionDescriptor_t how,
    cudnnConvolutionBwdFilterAlgo_t number, void *work_space, size_t work_bytes, const void *beta,
    const cudnnFilterDescriptor_t dw_shape, void *dw)
{
    conv_work own = {.x = side_of(x, x_shape),
                     .w = side_of(dw, dw_shape),
                     .y = side_of(dy, dy_shape),
                     .written = 1};
    const conv_call call = {handle, how, alpha, beta, work_space, (int)number, work_bytes};
    return convolve(&own, &call);
}

/* ---- replacements of library_calls.cu and kernels.cu ---- */

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    memset(prop, 0, sizeof(*prop));
    (void)snprintf(prop->name, sizeof(prop->name), "fake %d", device);
    prop->major = (int)twin_controls_get()->capability / 10;
    prop->minor = (int)twin_controls_get()->capability % 10;
    prop->multiProcessorCount = device + 1;
    prop->totalGlobalMem = twin_controls_get()->device_bytes;
    return cudaSuccess;
}

/* Recurrent layers are emulated in twin_rnn.c. */
#define CONVOLUTION_CALLS(X)                                                                       \
    X(cudnnCreate)                                                                                 \
    X(cudnnDestroy)                                                                                \
    X(cudnnGetVersion)                                                                             \
    X(cudnnGetErrorString)                                                                         \
    X(cudnnSetStream)                                                                              \
    X(cudnnCreateTensorDescriptor)                                                                 \
    X(cudnnDestroyTensorDescriptor)                                                                \
    X(cudnnCreateFilterDescriptor)                                                                 \
    X(cudnnDestroyFilterDescriptor)                                                                \
    X(cudnnCreateConvolutionDescriptor)                                                            \
    X(cudnnDestroyConvolutionDescriptor)                                                           \
    X(cudnnSetTensor4dDescriptor)                                                                  \
    X(cudnnSetFilter4dDescriptor)                                                                  \
    X(cudnnSetConvolution2dDescriptor)                                                             \
    X(cudnnSetConvolutionMathType)                                                                 \
    X(cudnnGetConvolutionForwardAlgorithm_v7)                                                      \
    X(cudnnGetConvolutionBackwardDataAlgorithm_v7)                                                 \
    X(cudnnGetConvolutionBackwardFilterAlgorithm_v7)                                               \
    X(cudnnGetConvolutionForwardWorkspaceSize)                                                     \
    X(cudnnGetConvolutionBackwardDataWorkspaceSize)                                                \
    X(cudnnGetConvolutionBackwardFilterWorkspaceSize)                                              \
    X(cudnnConvolutionForward)                                                                     \
    X(cudnnConvolutionBackwardData)                                                                \
    X(cudnnConvolutionBackwardFilter)

spsh_status spsh__library_calls_find(const spsh__library_calls **ret_calls, spsh_error *err)
{
    static const spsh__library_calls calls = {
#define SPSH_X(name_) .name_ = fake_##name_,
        SPSH__BLAS_CALLS(SPSH_X) CONVOLUTION_CALLS(SPSH_X)
#undef SPSH_X
    };
    (void)err;
    *ret_calls = &calls;
    return SPSH_OK;
}

spsh_status spsh__blas_check(const spsh__library_calls *calls, cublasStatus_t status,
                             const char *what, spsh_error *err)
{
    (void)calls;
    return status == CUBLAS_STATUS_SUCCESS
               ? SPSH_OK
               : spsh__cuda_fail(err, SPSH_E_IO, "%s: %d", what, (int)status);
}

spsh_status spsh__dnn_check(const spsh__library_calls *calls, cudnnStatus_t status,
                            const char *what, spsh_error *err)
{
    (void)calls;
    return status == CUDNN_STATUS_SUCCESS
               ? SPSH_OK
               : spsh__cuda_fail(err, SPSH_E_IO, "%s: %d", what, (int)status);
}

spsh_status spsh__train_launch(void *opaque, void *stream, const spsh__kernel_launch *l,
                               spsh_error *err)
{
    (void)opaque;
    return twin_launch(stream, l, err);
}
/* NOLINTEND(readability-function-size,readability-identifier-naming) */
