/* frames.h: a block of frames from windows of samples to values, lanes side by side.
 *
 *     window i of lane l --> dc, energy, pre-emphasis, window --> FFT --> power --> mel --> log -->
 * (DCT)
 *
 * A vector holds the same value of SPSH__LANES different frames, so that lanes never meet and the
 * order of operations within a frame is the same for every width: 1 (the plain twin), 4 (SSE2,
 * NEON), 8 (AVX2) and 16 (AVX-512) lanes give the same bits. frames_body.h is the one text of it,
 * compiled once for each instruction set (frames_scalar.c, frames_sse2.c, ...), without contraction
 * into fused multiply-adds.
 */
#ifndef SPSH_FRAMES_H
#define SPSH_FRAMES_H

#include "fft_plan.h"
#include "mel_bank.h"
#include "speechshard/featgen.h"

#define SPSH__LANES_MAX 16

/* What a block needs to know; immutable. */
typedef struct spsh__frame_tables {
    spsh_feature_options features;
    uint32_t window_samples, hop_samples, fft_size, bin_count; /* bin_count: fft_size / 2 + 1 */
    uint32_t dim;
    float *window;       /* window_samples */
    spsh__fft_plan fft;  /* real transform of fft_size */
    spsh__mel_bank mels; /* MEL, MFCC */
    float *dct;          /* MFCC: cepstrum_count * mel_count, the lifter in it */
} spsh__frame_tables;

/*
 * windows[l] is window_samples samples (already mirrored or padded, as values) of lane l. rows:
 * lane l's values go to rows + l * dim; lane_count <= lanes of the instruction set. scratch:
 * spsh__frames_scratch_bytes, aligned to 64.
 */
typedef void spsh__frames_fn(const spsh__frame_tables *tables, const float *const *windows,
                             uint32_t lane_count, void *scratch, float *rows);

typedef struct spsh__frames_isa {
    const char *name;
    uint32_t lanes;
    spsh__frames_fn *frames_fn;
} spsh__frames_isa;

/* The best that this processor has; or by name (tests), NULL when it is not there. */
const spsh__frames_isa *spsh__frames_isa_best(void);
const spsh__frames_isa *spsh__frames_isa_named(const char *name);
size_t spsh__frames_scratch_bytes(const spsh__frame_tables *tables, uint32_t lanes);

#endif
