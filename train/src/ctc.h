/* ctc.h: connectionist temporal classification (Graves and others 2006) of one utterance, in
 * doubles and in floats: what the backends' operator calls for each.
 *
 * With l' = blank, l1, blank, l2, ... blank (2 L + 1 states) and log probabilities lp[t][k]:
 *     alpha[t][s] = lp[t][l'[s]] + lse(alpha[t-1][s], alpha[t-1][s-1], alpha[t-1][s-2] where l'[s]
 * is no blank and not l'[s-2]) and beta backwards; d(-ln p)/d logit[t][k] = softmax[t][k] - sum of
 * posteriors of the states of k. Sums go over states in ascending order, so results repeat to the
 * bit.
 *
 * Empty label: the path of blanks. Infeasible (frames < L + repeats): loss infinite, gradient 0. No
 * frames: loss 0 for an empty label, else infeasible.
 */
#ifndef SPSH_TRAIN_CTC_H
#define SPSH_TRAIN_CTC_H

#include "backend.h"

/* Elements of scratch for an utterance. */
size_t spsh__ctc_scratch(uint32_t frames, uint32_t labels, uint32_t symbols);

/* logits, dlogits: row t begins at t * stride. scale: of the gradient. dlogits NULL: not computed.
 */
typedef struct spsh__ctc_utterance {
    uint32_t frames, symbols, blank;
    size_t stride;
    const uint32_t *labels;
    uint32_t label_count;
    double scale;
} spsh__ctc_utterance;

spsh__ctc_result spsh__ctc_f64(const spsh__ctc_utterance *u, const double *logits, double *dlogits,
                               double *scratch);
spsh__ctc_result spsh__ctc_f32(const spsh__ctc_utterance *u, const float *logits, float *dlogits,
                               float *scratch);

#endif
