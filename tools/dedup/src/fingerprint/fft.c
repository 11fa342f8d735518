/* fft.c: decimation in frequency, radix 4, with one leading radix-2 step if the size requires it.
 *
 * The result of a floating-point transform depends only on the order of the additions, if each
 * operation is rounded separately: no contraction to fused multiply-adds (this folder is built with
 * -ffp-contract=off), no extended precision, no reassociation. No operation combines two lanes. So
 * 128-bit registers, scalars, and any other hardware give the same bits.
 */
#include "fft.h"

#include <float.h>

#if FLT_EVAL_METHOD != 0
#error "fingerprints need floats that are evaluated as floats (on 32-bit x86: -msse2 -mfpmath=sse)"
#endif

/* While the upper halves of the vector registers are in use, each SSE instruction waits for them,
 * and a transform takes two to three times as long. They are in use from the start of a process
 * until an instruction clears them, and threads inherit that state. The result is the same. */
#if defined(__x86_64__)
__attribute__((target("avx"))) static void clear_upper_halves(void)
{
    __builtin_ia32_vzeroupper();
}

static void calm_processor(void)
{
    if (__builtin_cpu_supports("avx"))
        clear_upper_halves();
}
#else
static void calm_processor(void)
{
}
#endif

void spsh__fft_circle_init(spsh__fft_circle *circle)
{
    const float unit = 1.0F / SPSH__COSINE_1;
    for (int step = 0; step < SPSH__TURN; step++) {
        circle->cosine[step] = (float)spsh__cosine(step) * unit;
        circle->minus_sine[step] = (float)spsh__cosine(step + SPSH__TURN / 4) * unit;
    }
}

/* *re + i *im = (x + iy) * (c + is) */
static inline void turn(spsh__lanes x, spsh__lanes y, float c, float s, spsh__lanes *re,
                        spsh__lanes *im)
{
    *re = x * c - y * s;
    *im = x * s + y * c;
}

static void radix2(const spsh__fft_circle *circle, spsh__lanes *re, spsh__lanes *im, size_t size)
{
    const size_t half = size / 2;
    for (size_t k = 0; k < half; k++) {
        const size_t step = k * (SPSH__TURN / size);
        const spsh__lanes x = re[k] - re[k + half];
        const spsh__lanes y = im[k] - im[k + half];
        re[k] = re[k] + re[k + half];
        im[k] = im[k] + im[k + half];
        turn(x, y, circle->cosine[step], circle->minus_sine[step], &re[k + half], &im[k + half]);
    }
}

/* Compute one butterfly of four values that are `quarter` apart, with the twiddles of steps w, 2w,
 * and 3w. */
static inline void butterfly(const spsh__fft_circle *circle, spsh__lanes *re, spsh__lanes *im,
                             size_t quarter, size_t w)
{
    const spsh__lanes ar = re[0] + re[2 * quarter];
    const spsh__lanes ai = im[0] + im[2 * quarter];
    const spsh__lanes br = re[0] - re[2 * quarter];
    const spsh__lanes bi = im[0] - im[2 * quarter];
    const spsh__lanes cr = re[quarter] + re[3 * quarter];
    const spsh__lanes ci = im[quarter] + im[3 * quarter];
    /* minus i times the difference */
    const spsh__lanes dr = im[quarter] - im[3 * quarter];
    const spsh__lanes di = re[3 * quarter] - re[quarter];

    re[0] = ar + cr;
    im[0] = ai + ci;
    turn(br + dr, bi + di, circle->cosine[w], circle->minus_sine[w], &re[quarter], &im[quarter]);
    turn(ar - cr, ai - ci, circle->cosine[2 * w], circle->minus_sine[2 * w], &re[2 * quarter],
         &im[2 * quarter]);
    turn(br - dr, bi - di, circle->cosine[3 * w], circle->minus_sine[3 * w], &re[3 * quarter],
         &im[3 * quarter]);
}

/* Apply the radix-4 steps from one block of `size` values down to blocks of `last` values. */
static void radix4(const spsh__fft_circle *circle, spsh__lanes *re, spsh__lanes *im, size_t size,
                   size_t last)
{
    for (size_t block = size; block >= last; block /= 4) {
        const size_t quarter = block / 4;
        const size_t step = SPSH__TURN / block;
        for (size_t k = 0; k < quarter; k++)
            for (size_t start = k; start < size; start += block)
                butterfly(circle, re + start, im + start, quarter, k * step);
    }
}

/* Finish each group of 256 values (8 KB) before the next one. The data of a step over all values
 * would exceed the first-level cache of a processor. */
void spsh__fft_lanes(const spsh__fft_circle *circle, spsh__lanes *re, spsh__lanes *im, size_t size)
{
    enum { LARGE = 1024, SMALL = 256 };
    calm_processor();
    if (size == SPSH__FFT_LANE_MAX)
        radix2(circle, re, im, size);
    for (size_t large = 0; large < size; large += LARGE) {
        radix4(circle, re + large, im + large, LARGE, LARGE);
        for (size_t small = large; small < large + LARGE; small += SMALL)
            radix4(circle, re + small, im + small, SMALL, 4);
    }
}

size_t spsh__fft_position(size_t bin, size_t size)
{
    size_t position = 0;
    size_t block = size;
    if (size == SPSH__FFT_LANE_MAX) {
        position = (bin & 1) * (size / 2);
        bin >>= 1;
        block = size / 2;
    }
    for (; block > 1; block /= 4) {
        position += (bin & 3) * (block / 4);
        bin >>= 2;
    }
    return position;
}
