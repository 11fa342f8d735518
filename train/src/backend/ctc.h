/* ctc.h: connectionist temporal classification (Graves and others 2006) of one utterance, in
 * doubles and in floats: what the backends' operator calls for each.
 *
 * With l' = blank, l1, blank, l2, ... blank (2 L + 1 states) and probabilities p[t][k]:
 *
 *     alpha[t][s] = p[t][l'[s]] (alpha[t-1][s] + alpha[t-1][s-1] + alpha[t-1][s-2])
 *
 * (the last where l'[s] is no blank and not l'[s-2]) and beta backwards; d(-ln p)/d logit[t][k] =
 * softmax[t][k] - sum of posteriors of the states of k. Numbers are pairs of a mantissa and an
 * exponent of two (ctc_body.h): nothing underflows, and there is no logarithm in the recursion.
 * Sums have one order, so results repeat to the bit.
 *
 * Empty label: the path of blanks. Infeasible (frames < L + repeats, or a label that is the blank
 * or no symbol): loss infinite, gradient 0. No frames: loss 0 for an empty label, else infeasible.
 * A label of probability 0 (logits of minus infinity): loss infinite. A logit that is not a number
 * or is plus infinity, or a frame of nothing but minus infinity: loss not a number. Both: gradient
 * 0.
 */
#ifndef SPSH_TRAIN_CTC_H
#define SPSH_TRAIN_CTC_H

#include "backend.h"

/* Elements of scratch for an utterance; grows with each argument. Without gradients two rows of
 * alpha are enough, however many frames there are: then 1 frame is what to ask for. */
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

/* What spsh__ctc_f32 chooses from: by the machine alone. The second is NULL where it cannot run. */
typedef spsh__ctc_result (*spsh__ctc_f32_fn)(const spsh__ctc_utterance *u, const float *logits,
                                             float *dlogits, float *scratch);
spsh__ctc_f32_fn spsh__ctc_f32_simd128(void);
spsh__ctc_f32_fn spsh__ctc_f32_avx2(void);

/* Frames that the labels need: a blank between equal ones; UINT64_MAX: the blank or no symbol is
 * among them, or the blank is no symbol. */
uint64_t spsh__ctc_frames_min(const spsh__ctc_utterance *u);

#endif
