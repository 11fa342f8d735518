/* ctc.h: connectionist temporal classification (Graves and others 2006) of one utterance, in
 * doubles and in floats. The backends' operators call it per utterance.
 *
 * With l' = blank, l1, blank, l2, ... blank (2 L + 1 states) and probabilities p[t][k]:
 *
 *     alpha[t][s] = p[t][l'[s]] (alpha[t-1][s] + alpha[t-1][s-1] + alpha[t-1][s-2])
 *
 * (the last term only if l'[s] is neither blank nor l'[s-2]), and beta backwards; d(-ln p)/d
 * logit[t][k] = softmax[t][k] - sum of the posteriors of the states of k. Numbers are pairs of a
 * mantissa and a binary exponent (ctc_body.h): nothing underflows, and the recursion needs no
 * logarithm. Sums have one order, so results repeat to the bit.
 *
 * Empty label: the path of blanks. Infeasible (frames < L + repeats, or a label that is the blank
 * or out of range): loss infinite, gradient 0. No frames: loss 0 for an empty label, else
 * infeasible. A label of probability 0 (logits of minus infinity): loss infinite. A logit that is
 * NaN or plus infinity, or a frame with only minus infinity: loss NaN. In both cases the gradient
 * is 0.
 */
#ifndef SPSH_TRAIN_CTC_H
#define SPSH_TRAIN_CTC_H

#include "backend.h"

/* Elements of scratch for an utterance; grows with each argument. Without gradients, two rows of
 * alpha are enough for any number of frames: then pass frames = 1. */
size_t spsh__ctc_scratch(uint32_t frames, uint32_t labels, uint32_t symbols);

/* logits, dlogits: row t begins at t * stride. scale: of the gradient. */
typedef struct spsh__ctc_utterance {
    uint32_t frames, symbols, blank;
    size_t stride;
    const uint32_t *labels;
    uint32_t label_count;
    double scale;
} spsh__ctc_utterance;

/* dlogits: overwritten, not logits itself; NULL: not computed. scratch: any content. Any thread. */
spsh__ctc_result spsh__ctc_f64(const spsh__ctc_utterance *u, const double *logits, double *dlogits,
                               double *scratch);
spsh__ctc_result spsh__ctc_f32(const spsh__ctc_utterance *u, const float *logits, float *dlogits,
                               float *scratch);

/* Implementations for spsh__ctc_f32, which chooses by the processor only. The second is NULL if the
 * processor cannot run it. */
typedef spsh__ctc_result (*spsh__ctc_f32_fn)(const spsh__ctc_utterance *u, const float *logits,
                                             float *dlogits, float *scratch);
spsh__ctc_f32_fn spsh__ctc_f32_simd128(void);
spsh__ctc_f32_fn spsh__ctc_f32_avx2(void);

/* Number of frames that the labels need, with a blank between equal labels. UINT64_MAX: a label is
 * the blank or out of range, or the blank is out of range. */
uint64_t spsh__ctc_frames_min(const spsh__ctc_utterance *u);

#endif
