/* train_state.h: shared declarations of the .cu files of the trainer's part of the plug-in.
 *
 *     train_plugin.cu    opening, closing, the entry
 *     kernels.cu         the kernels of kernels.h, and their launches
 *     library_calls.cu   cuBLASLt and cuDNN, loaded on request
 *     gemm.cu            products by cuBLASLt
 *     conv.cu            convolutions by cuDNN
 */
#ifndef SPSH_TRAIN_STATE_H
#define SPSH_TRAIN_STATE_H

#include <string.h>

#include "device_train.h"
#include "kernels.h"
#include "library_calls.h"

enum {
#define SPSH_X(number_, name_, job_) SPSH__DEVICE_KERNEL_##number_,
    SPSH__KERNELS(SPSH_X)
#undef SPSH_X
        SPSH__DEVICE_KERNEL_COUNT
};

enum {
    SPSH__GEMM_WORK_BYTES = 32 << 20,
    SPSH__PLAN_WAYS = 16, /* plans that share a set of a table */
    SPSH__GEMM_PLANS = 4096,
    SPSH__CONV_PLANS = 2048,
};

/* Properties that determine how a product is computed. A key must not have padding. */
typedef struct spsh__gemm_key {
    uint64_t a_stride, b_stride, c_stride;
    uint32_t m, n, k, flags; /* flags: transposes, kinds, alignments; not 0 */
} spsh__gemm_key;

typedef struct spsh__gemm_plan {
    spsh__gemm_key key; /* flags 0: free */
    uint64_t used;      /* value of the lane's plan_uses at the last use */
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
} spsh__gemm_plan;

typedef struct spsh__conv_key {
    spsh__conv_shape shape;
    uint32_t kind; /* spsh__conv_kind; 0: free */
} spsh__conv_key;

typedef struct spsh__conv_plan {
    spsh__conv_key key;
    uint64_t used; /* as in spsh__gemm_plan */
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t weight;
    cudnnConvolutionDescriptor_t convolution;
    int algorithm; /* value of the kind's enumeration */
    cudnnMathType_t math;
    size_t work_bytes;
} spsh__conv_plan;

typedef struct spsh__train_lane {
    cublasLtHandle_t blas;
    cudnnHandle_t dnn;
    void *gemm_work;        /* SPSH__GEMM_WORK_BYTES */
    void *dnn_stream;       /* current stream of the handle */
    spsh__gemm_plan *gemms; /* SPSH__GEMM_PLANS */
    spsh__conv_plan *convs; /* SPSH__CONV_PLANS */
    uint64_t plan_uses;
} spsh__train_lane;

typedef struct spsh__train_state {
    spsh__device_train_plan plan;
    const spsh__library_calls *calls;
    int shared_bytes_max;                         /* maximum shared memory of a block */
    bool is_large[SPSH__DEVICE_KERNEL_COUNT + 1]; /* may have more than 48 KiB */
    spsh__train_lane lanes[SPSH__DEVICE_LANES];
} spsh__train_state;

/* Hash a table key without padding between its fields (FNV-1a). */
static inline uint32_t spsh__train_hash(const void *key, size_t size_bytes)
{
    uint32_t hash = 2166136261U;
    for (size_t i = 0; i < size_bytes; i++)
        hash = (hash ^ ((const unsigned char *)key)[i]) * 16777619U;
    return hash ^ hash >> 16;
}

/* Find the entry of a key, whose hash chooses a set of the table, or the entry that the key shall
 * take: a free one, or the least recently used one of the set. Plans are descriptions on the host,
 * so another key may take an entry while its work is in flight. */
template <typename plan_type, typename key_type>
static inline plan_type *spsh__train_place(plan_type *plans, uint32_t count, const key_type *key)
{
    const uint32_t set = spsh__train_hash(key, sizeof(*key)) % (count / SPSH__PLAN_WAYS);
    plan_type *const ways = plans + (size_t)set * SPSH__PLAN_WAYS;
    plan_type *oldest = ways;
    for (uint32_t i = 0; i < SPSH__PLAN_WAYS; i++) {
        if (memcmp(&ways[i].key, key, sizeof(*key)) == 0)
            return &ways[i];
        if (ways[i].used < oldest->used)
            oldest = &ways[i];
    }
    return oldest;
}

extern "C" spsh_status spsh__train_launch(void *opaque, void *stream, const spsh__kernel_launch *l,
                                          spsh_error *err);

spsh_status spsh__train_gemm_open(spsh__train_state *self, spsh__train_lane *lane, spsh_error *err);
void spsh__train_gemm_close(const spsh__train_state *self, spsh__train_lane *lane);
spsh_status spsh__train_gemm(void *opaque, uint32_t lane, void *stream, const spsh__gemm *g,
                             spsh_error *err);

spsh_status spsh__train_conv_open(spsh__train_state *self, spsh__train_lane *lane, spsh_error *err);
void spsh__train_conv_close(const spsh__train_state *self, spsh__train_lane *lane);
spsh_status spsh__train_conv_space(void *opaque, uint32_t lane, const spsh__conv_work *w,
                                   size_t *ret_bytes, spsh_error *err);
spsh_status spsh__train_conv(void *opaque, uint32_t lane, void *stream, const spsh__conv_work *w,
                             spsh_error *err);

#endif
