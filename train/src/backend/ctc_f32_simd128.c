/* ctc_f32_simd128.c: ctc_body.h with 4 floats at once, on any machine. */
#include <math.h>
#include <string.h>

#include "ctc.h"
#include "ctc_layout.h"

typedef float real;
typedef float vec __attribute__((vector_size(16)));
typedef uint32_t ivec __attribute__((vector_size(16)));
enum { LANES = 4, MANTISSA_BITS = 23, BIAS = 127, TERMS = 7 };

#define HEAD static spsh__ctc_result ctc
#define TARGET
#define INLINE static inline __attribute__((always_inline))
/* high part of ln 2; its last 15 bits are 0 */
#define LN2_HIGH 0.693359375F
#define LN2_LOW  (-2.12194440e-4F)

/* Select lanes by masks, because C has no ?: for vectors. */
INLINE vec vec_max(vec a, vec b)
{
    const ivec mask = (ivec)(a > b);
    ivec bits_a, bits_b;
    memcpy(&bits_a, &a, sizeof(a));
    memcpy(&bits_b, &b, sizeof(b));
    const ivec bits = (bits_a & mask) | (bits_b & ~mask);
    memcpy(&a, &bits, sizeof(a));
    return a;
}

#include "ctc_body.h"

spsh__ctc_f32_fn spsh__ctc_f32_simd128(void)
{
    return ctc;
}
