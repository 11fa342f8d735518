/* ctc_kit.h: an utterance for every build of ctc.h, in blocks of the exact size, and the tolerance
 * of each. */
#ifndef CTC_KIT_H
#define CTC_KIT_H

#include <math.h>

#include "backend/ctc.h"
#include "spsh_test.h"

typedef enum ctc_kind { CTC_F64, CTC_SIMD128, CTC_AVX2, CTC_KINDS } ctc_kind;

static const double ctc_tolerances[CTC_KINDS] = {1e-12, 2e-6, 2e-6};

/* This processor supports the kinds below the returned one. */
static inline ctc_kind ctc_kinds(void)
{
    return spsh__ctc_f32_avx2() == NULL ? CTC_AVX2 : CTC_KINDS;
}

static inline void *ctc_block(size_t bytes)
{
    unsigned char *block = (unsigned char *)malloc(bytes == 0 ? 1 : bytes);
    REQUIRE(block != NULL);
    memset(block, 0xa5, bytes);
    return block;
}

/* Elements of an utterance's logits: the last row ends with its symbols. */
static inline size_t ctc_count(const spsh__ctc_utterance *u)
{
    return u->frames == 0 ? 0 : (u->frames - 1) * u->stride + u->symbols;
}

static inline spsh__ctc_result ctc_run_f32(spsh__ctc_f32_fn function, const spsh__ctc_utterance *u,
                                           const double *logits, double *dlogits)
{
    const size_t count = ctc_count(u);
    const size_t scratch_count = spsh__ctc_scratch(u->frames, u->label_count, u->symbols);
    float *in = (float *)ctc_block(count * sizeof(float));
    float *out = (float *)ctc_block(count * sizeof(float));
    float *scratch = (float *)ctc_block(scratch_count * sizeof(float));
    for (size_t i = 0; i < count; i++) {
        in[i] = (float)logits[i];
        out[i] = dlogits == NULL ? 0 : (float)dlogits[i];
    }
    const spsh__ctc_result result = function(u, in, dlogits == NULL ? NULL : out, scratch);
    for (size_t i = 0; dlogits != NULL && i < count; i++)
        dlogits[i] = (double)out[i];
    free(scratch);
    free(out);
    free(in);
    return result;
}

static inline spsh__ctc_result ctc_run_f64(const spsh__ctc_utterance *u, const double *logits,
                                           double *dlogits)
{
    const size_t bytes = spsh__ctc_scratch(u->frames, u->label_count, u->symbols) * sizeof(double);
    double *scratch = (double *)ctc_block(bytes);
    const spsh__ctc_result result = spsh__ctc_f64(u, logits, dlogits, scratch);
    free(scratch);
    return result;
}

/* The values of the logits should be exact in float. */
static inline spsh__ctc_result ctc_run(ctc_kind kind, const spsh__ctc_utterance *u,
                                       const double *logits, double *dlogits)
{
    if (kind == CTC_F64)
        return ctc_run_f64(u, logits, dlogits);
    return ctc_run_f32(kind == CTC_AVX2 ? spsh__ctc_f32_avx2() : spsh__ctc_f32_simd128(), u, logits,
                       dlogits);
}

/* From -1 to 1, exact in float. */
static inline double ctc_random(uint64_t *random)
{
    return (double)(float)((double)(test_random(random) >> 11) / 4503599627370496.0 - 1);
}

static inline bool ctc_near(double got, double want, double tolerance)
{
    return fabs(got - want) <= tolerance * (1 + fabs(want));
}

#endif
