/* frames.h: a block of frames from windows of samples to values, lanes side by side.
 *
 *     window of lane l --> dc, energy, pre-emphasis, window --> FFT --> power --> mel --> log -->
 *     (DCT) --> row of lane l
 *
 * A vector holds the same value of several frames, one per lane. So lanes never interact, and the
 * order of operations within a frame is the same for every width: 1 (plain C), 4 (SSE2, NEON),
 * 8 (AVX2) and 16 (AVX-512) lanes give identical bits. frames_body.h is their only source, compiled
 * once for each instruction set (frames_scalar.c, frames_simd128.c, ...), without contraction into
 * fused multiply-adds.
 */
#ifndef SPSH_FRAMES_H
#define SPSH_FRAMES_H

#include "fft_plan.h"
#include "mel_bank.h"
#include "speechshard/featgen.h"

#define SPSH__LANES_MAX 16
/* Floats after a window that are read and ignored; they must be finite. */
#define SPSH__WINDOW_SLACK 3

/* Constants of a block; immutable. */
typedef struct spsh__frame_tables {
    spsh_feature_options features;
    uint32_t window_samples, hop_samples, fft_size, bin_count; /* bin_count: fft_size / 2 + 1 */
    uint32_t dim;
    float log_floor, energy_floor; /* normal numbers */
    float *window;                 /* window_samples, plus one 0 if that is odd */
    spsh__fft_plan fft;            /* real transform of fft_size */
    spsh__mel_bank mels;           /* MEL, MFCC */
    float *dct;                    /* MFCC: cepstrum_count rows of mel_count, including the
                                      lifter */
} spsh__frame_tables;

/* windows[l]: window_samples samples of lane l (already mirrored or padded, as values), and
 * SPSH__WINDOW_SLACK more floats. All lanes must have a window; those from lane_count on may repeat
 * one. rows: lane l's values go to rows + l * dim, l < lane_count. scratch:
 * spsh__frames_scratch_bytes, aligned to 64.
 */
typedef void spsh__frames_fn(const spsh__frame_tables *tables, const float *const *windows,
                             uint32_t lane_count, void *scratch, float *rows);

typedef struct spsh__frames_isa {
    const char *name;
    uint32_t lanes;
    spsh__frames_fn *frames_fn;
    /* Only the transform: scratch begins with fft_size values per lane, lanes side by side. The
     * powers (or magnitudes) are left in it. */
    void (*transform_fn)(const spsh__frame_tables *tables, void *scratch);
    /* Only the logarithms: count values per lane, in place, aligned to 64. */
    void (*logs_fn)(const spsh__frame_tables *tables, void *values, size_t count);
    /* Samples to values: scale * sample. Non-finite samples count as 0, and |sample| > 1024 as
     * 1024. scale is a power of two. */
    void (*i16_fn)(const int16_t *samples, size_t count, float scale, float *values);
    void (*f32_fn)(const float *samples, size_t count, float scale, float *values);
} spsh__frames_isa;

/* Return the best instruction set of this processor, or the one with a name (tests); NULL if it is
 * not available. */
const spsh__frames_isa *spsh__frames_isa_best(void);
const spsh__frames_isa *spsh__frames_isa_named(const char *name);

/* NULL if they were not compiled. */
const spsh__frames_isa *spsh__frames_scalar(void);
const spsh__frames_isa *spsh__frames_simd128(void);
const spsh__frames_isa *spsh__frames_avx2(void);
const spsh__frames_isa *spsh__frames_avx512(void);

/* Offsets in the scratch memory, in vectors. */
typedef struct spsh__frame_layout {
    size_t points; /* samples, then complex points in place, real and imaginary parts in turn */
    size_t powers; /* bin_count */
    size_t mels;   /* MFCC: mel_count */
    size_t values; /* dim */
    size_t spare;  /* for butterflies of large primes, and values of unused lanes */
    size_t end;
} spsh__frame_layout;

static inline spsh__frame_layout spsh__frame_layout_of(const spsh__frame_tables *tables)
{
    const size_t samples = (tables->window_samples + (size_t)3) / 4 * 4;
    const size_t points = (size_t)2 * tables->fft.point_count;
    const size_t spare = (size_t)2 * tables->fft.prime_max;
    spsh__frame_layout layout = {0};
    layout.powers = samples > points ? samples : points;
    layout.mels = layout.powers + tables->bin_count;
    layout.values = layout.mels + tables->mels.row_count;
    layout.spare = layout.values + tables->dim;
    layout.end = layout.spare + (spare > tables->dim ? spare : tables->dim);
    return layout;
}

static inline size_t spsh__frames_scratch_bytes(const spsh__frame_tables *tables, uint32_t lanes)
{
    return spsh__frame_layout_of(tables).end * lanes * sizeof(float);
}

#endif
