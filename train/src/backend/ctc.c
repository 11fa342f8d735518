/* ctc.c: the CTC loss: sizes, the choice of the code for floats, and the code for doubles.
 * ctc_body.h has the recursion, cuda/kernels_loss.h the one on a GPU. */
#include "ctc.h"

#include <math.h>
#include <string.h>

#include "ctc_layout.h"

size_t spsh__ctc_scratch(uint32_t frames, uint32_t labels, uint32_t symbols)
{
    const size_t row = 4 * spsh__ctc_row(labels);
    /* table of symbols; labels; alpha; beta; posteriors of states: see ctc_body.h */
    return 3 * spsh__ctc_padded(symbols) + row + ((size_t)frames + 1) * row + 2 * row;
}

uint64_t spsh__ctc_frames_min(const spsh__ctc_utterance *u)
{
    uint64_t frames = u->label_count;
    if (u->blank >= u->symbols)
        return UINT64_MAX;
    for (uint32_t i = 0; i < u->label_count; i++) {
        if (u->labels[i] >= u->symbols || u->labels[i] == u->blank)
            return UINT64_MAX;
        frames += i > 0 && u->labels[i] == u->labels[i - 1];
    }
    return frames;
}

spsh__ctc_result spsh__ctc_f32(const spsh__ctc_utterance *u, const float *logits, float *dlogits,
                               float *scratch)
{
    const spsh__ctc_f32_fn wide = spsh__ctc_f32_avx2();
    return (wide != NULL ? wide : spsh__ctc_f32_simd128())(u, logits, dlogits, scratch);
}

/* ---- doubles, one lane: for the backend reference */

typedef double real;
typedef double vec;
typedef uint64_t ivec;
enum { LANES = 1, MANTISSA_BITS = 52, BIAS = 1023, TERMS = 13 };

#define HEAD spsh__ctc_result spsh__ctc_f64
#define TARGET
#define INLINE static inline
/* high part of ln 2; its last 21 bits are 0 */
#define LN2_HIGH 6.93147180369123816490e-01
#define LN2_LOW  1.90821492927058770002e-10

INLINE vec vec_max(vec a, vec b)
{
    return a > b ? a : b;
}

#include "ctc_body.h"
