/* frames_avx2.c: eight lanes. Four vectors hold four values each of frames i and i + 4, in their
 * two halves. Transposed within the halves, each holds one value of eight frames: frames 0 to 3 in
 * the lower half, frames 4 to 7 in the upper. */
#include "frames.h"
#include "frames_constants.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define NAME      "avx2"
#define LANES     8
#define TARGET    __attribute__((target("avx2")))
#define MM(name_) _mm256_##name_
#define INLINE    TARGET __attribute__((always_inline)) static inline

typedef float vec __attribute__((vector_size(32)));
typedef int32_t ivec __attribute__((vector_size(32)));
typedef __m256d doubles;

#include "frames_x86.h"

INLINE vec vec_load_i16(const int16_t *from)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128((const void *)from)));
}

INLINE void gather4(const float *const *windows, size_t at, vec *x)
{
    vec quads[4];
    for (size_t lane = 0; lane < 4; lane++)
        quads[lane] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(windows[lane] + at)),
                                           _mm_loadu_ps(windows[lane + 4] + at), 1);
    transpose4(quads, x);
}

INLINE void scatter4(float *const *rows, size_t at, const vec *y)
{
    vec quads[4];
    transpose4(y, quads);
    for (size_t lane = 0; lane < 4; lane++) {
        _mm_storeu_ps(rows[lane] + at, _mm256_castps256_ps128(quads[lane]));
        _mm_storeu_ps(rows[lane + 4] + at, _mm256_extractf128_ps(quads[lane], 1));
    }
}

#include "frames_body.h"

const spsh__frames_isa *spsh__frames_avx2(void)
{
    return __builtin_cpu_supports("avx2") ? &isa : NULL;
}

#else

const spsh__frames_isa *spsh__frames_avx2(void)
{
    return NULL;
}

#endif
