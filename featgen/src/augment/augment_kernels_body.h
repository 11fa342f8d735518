/* augment_kernels_body.h: the arithmetic of augment_kernels.h, for one instruction set. Included
 * once per file, after these definitions:
 *
 *     NAME            of the instruction set, a string
 *     VEC_LANES, vec  1, 4 or 8; a vector of VEC_LANES floats
 *     TARGET, INLINE  attributes of a function, and of one that is always inlined
 *     sum8(sums)      sum of eight lanes: add 4 to 7 to 0 to 3, 2 and 3 to 0 and 1, 1 to 0
 *
 * This file fixes the order of every sum, and every operation is rounded separately. So the results
 * do not depend on VEC_LANES.
 */
#include <string.h>

enum { LANES = SPSH__AUGMENT_LANES, VECS = LANES / VEC_LANES };

INLINE vec load(const float *from)
{
    vec value;
    memcpy(&value, from, sizeof(value));
    return value;
}

INLINE void store(float *to, vec value)
{
    memcpy(to, &value, sizeof(value));
}

INLINE vec splat(float value)
{
    vec zero;
    memset(&zero, 0, sizeof(zero));
    return zero + value;
}

/* ------------------------------------------------------------------------------------- speed */

/* Dot product: eight partial sums in turn, then upper halves are added to lower halves. count is a
 * multiple of 8. */
INLINE float dot(const float *a, const float *b, size_t count)
{
    vec sums[VECS];
    for (size_t v = 0; v < VECS; v++)
        sums[v] = splat(0);
    for (size_t i = 0; i < count; i += LANES)
        for (size_t v = 0; v < VECS; v++)
            sums[v] += load(a + i + v * VEC_LANES) * load(b + i + v * VEC_LANES);
    return sum8(sums);
}

TARGET static void resample(const spsh__resampler *resampler, const float *x, uint64_t count,
                            float *y)
{
    const size_t taps = (size_t)2 * resampler->half;
    const uint32_t whole = resampler->down / resampler->up;
    const uint32_t part = resampler->down % resampler->up;
    const float *first = x + 1 - (ptrdiff_t)resampler->half;
    uint32_t place = 0;
    for (uint64_t i = 0; i < count; i++) {
        y[i] = dot(first, resampler->weights + place * taps, taps);
        first += whole;
        place += part;
        if (place >= resampler->up) {
            place -= resampler->up;
            first++;
        }
    }
}

/* --------------------------------------------------------------------------------- transform */

typedef struct complex_vec {
    vec re, im;
} complex_vec;

INLINE complex_vec load_point(const float *point)
{
    return (complex_vec){load(point), load(point + LANES)};
}

INLINE void store_point(float *point, vec re, vec im)
{
    store(point, re);
    store(point + LANES, im);
}

/* Multiply by (cos, -sin) = turn[0 ... 1]. */
INLINE void store_turned(float *point, vec re, vec im, const float *turn)
{
    store_point(point, re * turn[0] - im * turn[1], re * turn[1] + im * turn[0]);
}

/* Multiply by (cos, sin). */
INLINE complex_vec load_turned(const float *point, const float *turn)
{
    const complex_vec z = load_point(point);
    return (complex_vec){z.re * turn[0] + z.im * turn[1], z.im * turn[0] - z.re * turn[1]};
}

/* Butterfly of four points, `step` floats apart, with their turns. */
INLINE void butterfly4(float *z, size_t step, const float *turns)
{
    const complex_vec a = load_point(z), b = load_point(z + step);
    const complex_vec c = load_point(z + 2 * step), d = load_point(z + 3 * step);
    const vec even_re = a.re + c.re, even_im = a.im + c.im;
    const vec odd_re = b.re + d.re, odd_im = b.im + d.im;
    const vec even_off_re = a.re - c.re, even_off_im = a.im - c.im;
    const vec odd_off_re = b.re - d.re, odd_off_im = b.im - d.im;
    store_point(z, even_re + odd_re, even_im + odd_im);
    store_turned(z + step, even_off_re + odd_off_im, even_off_im - odd_off_re, turns);
    store_turned(z + 2 * step, even_re - odd_re, even_im - odd_im, turns + 2);
    store_turned(z + 3 * step, even_off_re - odd_off_im, even_off_im + odd_off_re, turns + 4);
}

INLINE void inverse_butterfly4(float *z, size_t step, const float *turns)
{
    const complex_vec a = load_point(z), b = load_turned(z + step, turns);
    const complex_vec c = load_turned(z + 2 * step, turns + 2);
    const complex_vec d = load_turned(z + 3 * step, turns + 4);
    const vec even_re = a.re + c.re, even_im = a.im + c.im;
    const vec odd_re = b.re + d.re, odd_im = b.im + d.im;
    const vec even_off_re = a.re - c.re, even_off_im = a.im - c.im;
    const vec odd_off_re = b.re - d.re, odd_off_im = b.im - d.im;
    store_point(z, even_re + odd_re, even_im + odd_im);
    store_point(z + step, even_off_re - odd_off_im, even_off_im + odd_off_re);
    store_point(z + 2 * step, even_re - odd_re, even_im - odd_im);
    store_point(z + 3 * step, even_off_re + odd_off_im, even_off_im - odd_off_re);
}

/* Butterflies of adjacent pairs; the pass is its own inverse except for a factor. */
TARGET static void pass2(float *points, size_t point_count)
{
    for (float *z = points; z < points + point_count * SPSH__POINT_FLOATS;
         z += (size_t)2 * SPSH__POINT_FLOATS) {
        for (size_t v = 0; v < LANES; v += VEC_LANES) {
            const complex_vec a = load_point(z + v);
            const complex_vec b = load_point(z + v + SPSH__POINT_FLOATS);
            store_point(z + v, a.re + b.re, a.im + b.im);
            store_point(z + v + SPSH__POINT_FLOATS, a.re - b.re, a.im - b.im);
        }
    }
}

TARGET static void transform(const spsh__turns *turns, uint32_t points_log2, float *points)
{
    const size_t point_count = (size_t)1 << points_log2;
    uint32_t log2 = points_log2;
    for (; log2 >= 2; log2 -= 2) {
        const size_t quarter = (size_t)1 << (log2 - 2);
        const size_t step = quarter * SPSH__POINT_FLOATS;
        for (size_t block = 0; block < point_count; block += 4 * quarter) {
            for (size_t j = 0; j < quarter; j++) {
                float *z = points + (block + j) * SPSH__POINT_FLOATS;
                for (size_t v = 0; v < LANES; v += VEC_LANES)
                    butterfly4(z + v, step, turns->of_log2[log2] + 6 * j);
            }
        }
    }
    if (log2 == 1)
        pass2(points, point_count);
}

TARGET static void inverse(const spsh__turns *turns, uint32_t points_log2, float *points)
{
    const size_t point_count = (size_t)1 << points_log2;
    if (points_log2 % 2 == 1)
        pass2(points, point_count);
    for (uint32_t log2 = 2 + points_log2 % 2; log2 <= points_log2; log2 += 2) {
        const size_t quarter = (size_t)1 << (log2 - 2);
        const size_t step = quarter * SPSH__POINT_FLOATS;
        for (size_t block = 0; block < point_count; block += 4 * quarter) {
            for (size_t j = 0; j < quarter; j++) {
                float *z = points + (block + j) * SPSH__POINT_FLOATS;
                for (size_t v = 0; v < LANES; v += VEC_LANES)
                    inverse_butterfly4(z + v, step, turns->of_log2[log2] + 6 * j);
            }
        }
    }
}

TARGET static void multiply(const float *response, uint64_t point_count, float *points)
{
    for (uint64_t k = 0; k < point_count; k++) {
        const float *h = response + k * SPSH__RESPONSE_FLOATS;
        float *z = points + k * SPSH__POINT_FLOATS;
        vec re[VECS], im[VECS];
        for (size_t v = 0; v < VECS; v++)
            re[v] = im[v] = splat(0);
        for (size_t u = 0; u < LANES; u++) {
            const vec x_re = splat(z[u]), x_im = splat(z[u + LANES]);
            for (size_t v = 0; v < VECS; v++) {
                const vec h_re = load(h + LANES - u + v * VEC_LANES);
                const vec h_im = load(h + (size_t)3 * LANES - u + v * VEC_LANES);
                re[v] += x_re * h_re - x_im * h_im;
                im[v] += x_re * h_im + x_im * h_re;
            }
        }
        for (size_t v = 0; v < VECS; v++)
            store_point(z + v * VEC_LANES, re[v], im[v]);
    }
}

/* ---------------------------------------------------------------------------------- samples */

TARGET static void from_i16(const int16_t *samples, uint64_t count, float *x)
{
    for (uint64_t i = 0; i < count; i++)
        x[i] = (float)samples[i];
}

TARGET static void scale_all(const float *x, uint64_t count, float scale, float *y)
{
    for (uint64_t i = 0; i < count; i++)
        y[i] = x[i] * scale;
}

TARGET static void add_scaled(const int16_t *noise, uint64_t count, float scale, float *x)
{
    for (uint64_t i = 0; i < count; i++)
        x[i] += (float)noise[i] * scale;
}

TARGET static uint64_t to_i16(const float *x, uint64_t count, float scale, int16_t *samples)
{
    const float beyond = 65536;
    const float unit = 12582912; /* 1.5 * 2^23: a float there has no fraction bits */
    uint64_t clipped_count = 0;
    for (uint64_t i = 0; i < count; i++) {
        float value = x[i] * scale;
        value = value < beyond ? value : beyond;
        value = value > -beyond ? value : -beyond;
        const int32_t whole = (int32_t)((value + unit) - unit);
        int32_t clipped = whole < INT16_MAX ? whole : INT16_MAX;
        clipped = clipped > INT16_MIN ? clipped : INT16_MIN;
        clipped_count += clipped != whole ? 1 : 0;
        samples[i] = (int16_t)clipped;
    }
    return clipped_count;
}

static const spsh__augment_isa isa = {
    .name = NAME,
    .resample_fn = resample,
    .transform_fn = transform,
    .inverse_fn = inverse,
    .multiply_fn = multiply,
    .from_i16_fn = from_i16,
    .scale_fn = scale_all,
    .add_fn = add_scaled,
    .to_i16_fn = to_i16,
};
