/* ctc_f32_avx2.c: ctc_body.h with 8 floats at once, for AVX2 without fused multiply-adds. The
 * results are identical to those of ctc_f32_simd128.c. */
#include <math.h>
#include <string.h>

#include "ctc.h"
#include "ctc_layout.h"

#if defined(__x86_64__)
#include <immintrin.h>

typedef float real;
typedef float vec __attribute__((vector_size(32)));
typedef uint32_t ivec __attribute__((vector_size(32)));
enum { LANES = 8, MANTISSA_BITS = 23, BIAS = 127, TERMS = 7 };

#define HEAD   static spsh__ctc_result ctc
#define TARGET __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))
/* high part of ln 2; its last 15 bits are 0 */
#define LN2_HIGH 0.693359375F
#define LN2_LOW  (-2.12194440e-4F)

#define vec_max(a_, b_) ((vec)_mm256_max_ps((a_), (b_)))

#include "ctc_body.h"

spsh__ctc_f32_fn spsh__ctc_f32_avx2(void)
{
    return __builtin_cpu_supports("avx2") ? ctc : NULL;
}

#else

spsh__ctc_f32_fn spsh__ctc_f32_avx2(void)
{
    return NULL;
}

#endif
