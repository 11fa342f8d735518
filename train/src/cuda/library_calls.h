/* library_calls.h: the functions of cuBLASLt and cuDNN that are called. Both libraries are loaded
 * when a backend is opened (dlopen). The plug-in therefore loads without them, and works with any
 * release of the major versions that it was built for. Types come from the libraries' headers. */
#ifndef SPSH_LIBRARY_CALLS_H
#define SPSH_LIBRARY_CALLS_H

#include <cublasLt.h>
#include <cudnn.h>

#include "speechshard/cuda_plugin.h"

#define SPSH__BLAS_CALLS(X)                                                                        \
    X(cublasLtCreate)                                                                              \
    X(cublasLtDestroy)                                                                             \
    X(cublasLtGetStatusString)                                                                     \
    X(cublasLtGetVersion)                                                                          \
    X(cublasLtMatmul)                                                                              \
    X(cublasLtMatmulAlgoGetHeuristic)                                                              \
    X(cublasLtMatmulDescCreate)                                                                    \
    X(cublasLtMatmulDescDestroy)                                                                   \
    X(cublasLtMatmulDescSetAttribute)                                                              \
    X(cublasLtMatmulPreferenceCreate)                                                              \
    X(cublasLtMatmulPreferenceDestroy)                                                             \
    X(cublasLtMatmulPreferenceSetAttribute)                                                        \
    X(cublasLtMatrixLayoutCreate)                                                                  \
    X(cublasLtMatrixLayoutDestroy)

#define SPSH__DNN_CALLS(X)                                                                         \
    X(cudnnConvolutionBackwardData)                                                                \
    X(cudnnConvolutionBackwardFilter)                                                              \
    X(cudnnConvolutionForward)                                                                     \
    X(cudnnCreate)                                                                                 \
    X(cudnnCreateConvolutionDescriptor)                                                            \
    X(cudnnCreateDropoutDescriptor)                                                                \
    X(cudnnCreateFilterDescriptor)                                                                 \
    X(cudnnCreateRNNDataDescriptor)                                                                \
    X(cudnnCreateRNNDescriptor)                                                                    \
    X(cudnnCreateTensorDescriptor)                                                                 \
    X(cudnnDestroy)                                                                                \
    X(cudnnDestroyConvolutionDescriptor)                                                           \
    X(cudnnDestroyDropoutDescriptor)                                                               \
    X(cudnnDestroyFilterDescriptor)                                                                \
    X(cudnnDestroyRNNDataDescriptor)                                                               \
    X(cudnnDestroyRNNDescriptor)                                                                   \
    X(cudnnDestroyTensorDescriptor)                                                                \
    X(cudnnGetConvolutionBackwardDataAlgorithm_v7)                                                 \
    X(cudnnGetConvolutionBackwardDataWorkspaceSize)                                                \
    X(cudnnGetConvolutionBackwardFilterAlgorithm_v7)                                               \
    X(cudnnGetConvolutionBackwardFilterWorkspaceSize)                                              \
    X(cudnnGetConvolutionForwardAlgorithm_v7)                                                      \
    X(cudnnGetConvolutionForwardWorkspaceSize)                                                     \
    X(cudnnGetErrorString)                                                                         \
    X(cudnnGetRNNTempSpaceSizes)                                                                   \
    X(cudnnGetRNNWeightParams)                                                                     \
    X(cudnnGetRNNWeightSpaceSize)                                                                  \
    X(cudnnGetTensorNdDescriptor)                                                                  \
    X(cudnnGetVersion)                                                                             \
    X(cudnnRNNBackwardData_v8)                                                                     \
    X(cudnnRNNBackwardWeights_v8)                                                                  \
    X(cudnnRNNForward)                                                                             \
    X(cudnnSetConvolution2dDescriptor)                                                             \
    X(cudnnSetConvolutionMathType)                                                                 \
    X(cudnnSetDropoutDescriptor)                                                                   \
    X(cudnnSetFilter4dDescriptor)                                                                  \
    X(cudnnSetRNNDataDescriptor)                                                                   \
    X(cudnnSetRNNDescriptor_v8)                                                                    \
    X(cudnnSetStream)                                                                              \
    X(cudnnSetTensor4dDescriptor)                                                                  \
    X(cudnnSetTensorNdDescriptor)

#ifdef __cplusplus
#define SPSH__TYPE_OF(name_) decltype(&::name_)
#else
#define SPSH__TYPE_OF(name_) __typeof__(&(name_))
#endif

typedef struct spsh__library_calls {
#define SPSH_X(name_) SPSH__TYPE_OF(name_) name_; // NOLINT(bugprone-macro-parentheses)
    SPSH__BLAS_CALLS(SPSH_X)
    SPSH__DNN_CALLS(SPSH_X)
#undef SPSH_X
} spsh__library_calls;

#ifdef __cplusplus
extern "C" {
#endif

/* Load the libraries once per process; the pointer stays valid. SPSH_E_UNSUPPORTED: the message
 * names the library that is missing or has another version, and what to install. */
spsh_status spsh__library_calls_find(const spsh__library_calls **ret_calls, spsh_error *err);

/* Convert a library's status to ours. what: the attempted call, for the message. */
spsh_status spsh__blas_check(const spsh__library_calls *calls, cublasStatus_t status,
                             const char *what, spsh_error *err);
spsh_status spsh__dnn_check(const spsh__library_calls *calls, cudnnStatus_t status,
                            const char *what, spsh_error *err);

#ifdef __cplusplus
}

/* Close an object of a library with its function. NULL is fine. */
template <typename status, typename handle>
static inline void spsh__library_close(status (*close_fn)(handle), handle one)
{
    if (one != NULL)
        (void)close_fn(one);
}
#endif

#endif
