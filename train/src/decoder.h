/* decoder.h: symbols from log probabilities: greedy, and prefix beam search; and how wrong a
 * transcript is. */
#ifndef SPSH_TRAIN_DECODER_H
#define SPSH_TRAIN_DECODER_H

#include "vocabulary.h"

/* rows: frames of width log probabilities, `stride` floats apart. Repeats merged, blanks dropped.
 */
uint32_t spsh__decode_greedy(const float *rows, uint32_t frames, uint32_t width, size_t stride,
                             uint32_t blank, uint32_t *labels, uint32_t capacity);

typedef struct spsh__beam spsh__beam; /* one thread's memory */
spsh_status spsh__beam_open(uint32_t beam_width, uint32_t frames_max,
                            const spsh_allocator *allocator, spsh__beam **ret, spsh_error *err);
void spsh__beam_close(spsh__beam *beam);
/* The most probable prefix (Hannun and others 2014, without a language model); *ret_score its ln p.
 */
uint32_t spsh__decode_beam(spsh__beam *beam, const float *rows, uint32_t frames, uint32_t width,
                           size_t stride, uint32_t blank, uint32_t *labels, uint32_t capacity,
                           double *ret_score);

/* Levenshtein's distance, split. WER: of words between blanks after the vocabulary's normalisation,
 * of all utterances together; CER: of code points, blanks counted ("cer") and not ("cer_letters",
 * as deepspeech.pytorch). */
typedef struct spsh__errors {
    uint64_t substitutions, insertions, deletions, reference_count, utterances, wrong_utterances;
} spsh__errors;
spsh_status spsh__errors_add_words(spsh__errors *errors, spsh_bytes reference, spsh_bytes found,
                                   spsh_error *err);
spsh_status spsh__errors_add_letters(spsh__errors *errors, spsh_bytes reference, spsh_bytes found,
                                     bool with_blanks, spsh_error *err);

#endif
