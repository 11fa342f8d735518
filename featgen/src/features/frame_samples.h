/* frame_samples.h: samples as windows see them, including positions before the first sample and
 * after the last.
 */
#ifndef SPSH_FRAME_SAMPLES_H
#define SPSH_FRAME_SAMPLES_H

#include "frames.h"
#include "speechshard/featgen.h"
#include "speechshard/inside.h"

/* An utterance, cut or padded to sample_count. Borrows the input's samples. */
typedef struct spsh__signal {
    const int16_t *i16; /* one of the two, or neither */
    const float *f32;
    uint64_t given_count;  /* samples given; the rest up to sample_count are 0 */
    uint64_t sample_count; /* below 2^62 */
    spsh_feature_edges edges;
    float scale;
    const spsh__frames_isa *isa;
} spsh__signal;

/* Read values first ... first + count - 1. sample_count is not 0. */
void spsh__signal_read(const spsh__signal *signal, int64_t first, size_t count, float *values);

/* Return the number of windows that sample_count samples give, and the first sample of a window. */
uint64_t spsh__signal_frame_count(const spsh__frame_tables *tables, uint64_t sample_count);
int64_t spsh__signal_frame_start(const spsh__frame_tables *tables, uint64_t frame);

#endif
