/* gemm.cu: products by cuBLASLt.
 *
 * The library's matrices are column-major, ours row-major. To the library, c = a b is the
 * transposed product c' = b' a' in the same memory: its first factor is our b, its rows our n.
 *
 * A plan holds the library's description of a product, and the first algorithm of its heuristic. It
 * is made when a shape first appears, and cached (spsh__train_place). Rows need not be aligned: the
 * minimum alignment of the pointers is part of the shape, and the library sees the strides itself.
 *
 * Partial sums over k of different blocks are added as floats: a result of 16 bits is rounded once,
 * at the end. With is_deterministic k is not split.
 */
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

#include "train_state.h"

enum {
    A_TRANSPOSED = 1U << 0,
    B_TRANSPOSED = 1U << 1,
    FACTORS_HALF = 1U << 2,
    C_HALF = 1U << 3,
    USED = 1U << 4, /* always set: flags 0 mark a free entry */
    ALIGNMENT_SHIFT = 8,
    ALIGNMENT_BITS = 4,
    ALIGNMENT_LOG_MAX = 8, /* 256 bytes */
    CANDIDATES = 8,
};

/* ---- descriptors for the library ---- */

static uint32_t alignment_log(const void *pointer)
{
    uint32_t log = 0;
    while (log < ALIGNMENT_LOG_MAX && ((uintptr_t)pointer >> log) % 2 == 0)
        log++;
    return log;
}

static spsh__gemm_key key_of(const spsh__gemm *g)
{
    spsh__gemm_key key;
    memset(&key, 0, sizeof(key));
    key.a_stride = g->a_stride;
    key.b_stride = g->b_stride;
    key.c_stride = g->c_stride;
    key.m = g->m;
    key.n = g->n;
    key.k = g->k;
    key.flags = USED | (g->a_transposed ? A_TRANSPOSED : 0) | (g->b_transposed ? B_TRANSPOSED : 0) |
                (g->a.is_half ? FACTORS_HALF : 0) | (g->c.is_half ? C_HALF : 0) |
                alignment_log(g->a.data) << ALIGNMENT_SHIFT |
                alignment_log(g->b.data) << (ALIGNMENT_SHIFT + ALIGNMENT_BITS) |
                alignment_log(g->c.data) << (ALIGNMENT_SHIFT + 2 * ALIGNMENT_BITS);
    return key;
}

/* number: 0 is a, 1 is b, 2 is c */
static uint32_t alignment_of(const spsh__gemm_key *key, uint32_t number)
{
    const uint32_t log = key->flags >> (ALIGNMENT_SHIFT + number * ALIGNMENT_BITS);
    return 1U << (log % (1U << ALIGNMENT_BITS));
}

static cudaDataType_t type_of(const spsh__train_state *self, bool is_half)
{
    if (!is_half)
        return CUDA_R_32F;
    return self->plan.precision == SPSH__BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

static spsh_status describe(const spsh__train_state *self, spsh__gemm_plan *plan, spsh_error *err)
{
    const spsh__library_calls *calls = self->calls;
    const spsh__gemm_key *key = &plan->key;
    const bool a_transposed = (key->flags & A_TRANSPOSED) != 0;
    const bool b_transposed = (key->flags & B_TRANSPOSED) != 0;
    const cublasOperation_t first = b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cudaDataType_t factors = type_of(self, (key->flags & FACTORS_HALF) != 0);
    const cudaDataType_t c = type_of(self, (key->flags & C_HALF) != 0);
    const bool is_tf32 = self->plan.precision == SPSH__TF32;
    cublasStatus_t status = calls->cublasLtMatmulDescCreate(
        &plan->product, is_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = calls->cublasLtMatmulDescSetAttribute(plan->product, CUBLASLT_MATMUL_DESC_TRANSA,
                                                       &first, sizeof(first));
    if (status == CUBLAS_STATUS_SUCCESS)
        status = calls->cublasLtMatmulDescSetAttribute(plan->product, CUBLASLT_MATMUL_DESC_TRANSB,
                                                       &second, sizeof(second));
    if (status == CUBLAS_STATUS_SUCCESS)
        status = calls->cublasLtMatrixLayoutCreate(
            &plan->b, factors, b_transposed ? key->k : key->n, b_transposed ? key->n : key->k,
            (int64_t)key->b_stride);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = calls->cublasLtMatrixLayoutCreate(
            &plan->a, factors, a_transposed ? key->m : key->k, a_transposed ? key->k : key->m,
            (int64_t)key->a_stride);
    if (status == CUBLAS_STATUS_SUCCESS)
        status =
            calls->cublasLtMatrixLayoutCreate(&plan->c, c, key->n, key->m, (int64_t)key->c_stride);
    return spsh__blas_check(calls, status, "describing a matrix product", err);
}

static cublasStatus_t prefer(const spsh__train_state *self, const spsh__gemm_key *key,
                             cublasLtMatmulPreference_t preference)
{
    const uint32_t any = (key->flags & C_HALF) != 0 ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                                    : CUBLASLT_REDUCTION_SCHEME_MASK;
    const struct {
        cublasLtMatmulPreferenceAttributes_t which;
        uint32_t value;
    } rows[] = {
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         self->plan.is_deterministic ? (uint32_t)CUBLASLT_REDUCTION_SCHEME_NONE : any},
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,                          alignment_of(key,                               1)},
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,                          alignment_of(key,                               0)},
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,                          alignment_of(key,                               2)},
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,                          alignment_of(key,                               2)},
    };
    const size_t count = sizeof(rows) / sizeof(rows[0]);
    const uint64_t work_bytes = SPSH__GEMM_WORK_BYTES;
    cublasStatus_t status = self->calls->cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &work_bytes, sizeof(work_bytes));
    for (size_t i = 0; i < count && status == CUBLAS_STATUS_SUCCESS; i++)
        status = self->calls->cublasLtMatmulPreferenceSetAttribute(
            preference, rows[i].which, &rows[i].value, sizeof(rows[i].value));
    return status;
}

static spsh_status choose(const spsh__train_state *self, const spsh__train_lane *lane,
                          spsh__gemm_plan *plan, spsh_error *err)
{
    const spsh__library_calls *calls = self->calls;
    const spsh__gemm_key *key = &plan->key;
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t candidates[CANDIDATES];
    int count = 0;
    cublasStatus_t status = calls->cublasLtMatmulPreferenceCreate(&preference);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = prefer(self, key, preference);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = calls->cublasLtMatmulAlgoGetHeuristic(lane->blas, plan->product, plan->b, plan->a,
                                                       plan->c, plan->c, preference, CANDIDATES,
                                                       candidates, &count);
    spsh__library_close(calls->cublasLtMatmulPreferenceDestroy, preference);
    for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count; i++) {
        if (candidates[i].state == CUBLAS_STATUS_SUCCESS) {
            plan->algorithm = candidates[i].algo;
            return SPSH_OK;
        }
    }
    if (status == CUBLAS_STATUS_SUCCESS)
        status = CUBLAS_STATUS_NOT_SUPPORTED;
    return spsh__cuda_fail(err,
                           status == CUBLAS_STATUS_NOT_SUPPORTED ? SPSH_E_UNSUPPORTED : SPSH_E_IO,
                           "cuBLASLt has no algorithm for a matrix product of %u x %u x %u, "
                           "strides %llu, %llu, %llu: %s",
                           key->m, key->n, key->k, (unsigned long long)key->a_stride,
                           (unsigned long long)key->b_stride, (unsigned long long)key->c_stride,
                           calls->cublasLtGetStatusString(status));
}

/* ---- the table ---- */

static void close_plan(const spsh__library_calls *calls, spsh__gemm_plan *plan)
{
    spsh__library_close(calls->cublasLtMatrixLayoutDestroy, plan->a);
    spsh__library_close(calls->cublasLtMatrixLayoutDestroy, plan->b);
    spsh__library_close(calls->cublasLtMatrixLayoutDestroy, plan->c);
    spsh__library_close(calls->cublasLtMatmulDescDestroy, plan->product);
    memset(plan, 0, sizeof(*plan));
}

static void empty(const spsh__train_state *self, spsh__train_lane *lane)
{
    for (uint32_t i = 0; lane->gemms != NULL && i < SPSH__GEMM_PLANS; i++)
        close_plan(self->calls, &lane->gemms[i]);
}

static spsh_status find_plan(const spsh__train_state *self, spsh__train_lane *lane,
                             const spsh__gemm *g, const spsh__gemm_plan **ret_plan, spsh_error *err)
{
    const spsh__gemm_key key = key_of(g);
    spsh__gemm_plan *plan = spsh__train_place(lane->gemms, SPSH__GEMM_PLANS, &key);
    if (memcmp(&plan->key, &key, sizeof(key)) != 0) {
        close_plan(self->calls, plan);
        plan->key = key;
        spsh_status rc = describe(self, plan, err);
        if (rc == SPSH_OK)
            rc = choose(self, lane, plan, err);
        if (rc != SPSH_OK) {
            close_plan(self->calls, plan);
            return rc;
        }
    }
    plan->used = ++lane->plan_uses;
    *ret_plan = plan;
    return SPSH_OK;
}

/* ---- functions that the entry calls ---- */

spsh_status spsh__train_gemm_open(spsh__train_state *self, spsh__train_lane *lane, spsh_error *err)
{
    spsh_status rc = spsh__cuda_check(cudaMalloc(&lane->gemm_work, SPSH__GEMM_WORK_BYTES),
                                      "workspace of matrix products", err);
    if (rc == SPSH_OK)
        rc = spsh__blas_check(self->calls, self->calls->cublasLtCreate(&lane->blas),
                              "creating a handle", err);
    if (rc != SPSH_OK)
        return rc;
    lane->gemms = (spsh__gemm_plan *)calloc(SPSH__GEMM_PLANS, sizeof(*lane->gemms));
    return lane->gemms != NULL
               ? SPSH_OK
               : spsh__cuda_fail(err, SPSH_E_NO_MEMORY, "matrix products: out of memory");
}

void spsh__train_gemm_close(const spsh__train_state *self, spsh__train_lane *lane)
{
    empty(self, lane);
    free(lane->gemms);
    spsh__library_close(self->calls->cublasLtDestroy, lane->blas);
    (void)cudaFree(lane->gemm_work);
}

spsh_status spsh__train_gemm(void *opaque, uint32_t lane_number, void *stream, const spsh__gemm *g,
                             spsh_error *err)
{
    spsh__train_state *self = (spsh__train_state *)opaque;
    spsh__train_lane *lane = &self->lanes[lane_number];
    const spsh__gemm_plan *plan = NULL;
    const float alpha = 1.0f;
    const float beta = (float)g->keep;
    int before = 0;
    if (g->a.is_half != g->b.is_half)
        return spsh__cuda_fail(err, SPSH_E_INVALID_ARG,
                               "a matrix product has operands of both 32 and 16 bits");
    spsh_status rc = spsh__cuda_enter(self->plan.device, &before, err);
    if (rc != SPSH_OK)
        return rc;
    rc = find_plan(self, lane, g, &plan, err);
    if (rc == SPSH_OK)
        rc = spsh__blas_check(
            self->calls,
            self->calls->cublasLtMatmul(lane->blas, plan->product, &alpha, g->b.data, plan->b,
                                        g->a.data, plan->a, &beta, g->c.data, plan->c, g->c.data,
                                        plan->c, &plan->algorithm, lane->gemm_work,
                                        SPSH__GEMM_WORK_BYTES, (cudaStream_t)stream),
            "a matrix product", err);
    spsh__cuda_leave(before);
    return rc;
}
