/* decoder.h: symbols from log probabilities: greedy, and prefix beam search; and how wrong a
 * transcript is.
 *
 *     rc = spsh__beam_open(64, frames_max, allocator, &beam, err);
 *     count = spsh__decode_beam(beam, &rows, labels, capacity, &score);
 *     spsh__vocabulary_decode(vocabulary, labels, count, text, sizeof(text));
 *     rc = spsh__errors_add_words(&words, reference, found, err);   // of each utterance
 *     wer = spsh__errors_rate(&words);
 */
#ifndef SPSH_TRAIN_DECODER_H
#define SPSH_TRAIN_DECODER_H

#include <stdbool.h>

#include "speechshard/base.h"

/* Row t, of `width` log probabilities, begins at values + t * stride. */
typedef struct spsh__score_rows {
    const float *values;
    uint32_t frames, width;
    size_t stride;
    uint32_t blank;
} spsh__score_rows;

/* The most probable symbol of each frame, of equals the first; repeats merged, blanks dropped.
 * Returns how many were written: no more than capacity (frames are always enough). Any thread. */
uint32_t spsh__decode_greedy(const spsh__score_rows *rows, uint32_t *labels, uint32_t capacity);

/* Memory of one thread: about 30 bytes a frame and place of the beam. beam_width: from 1.
 * SPSH_E_INVALID_ARG, _LIMIT, _NO_MEMORY. */
typedef struct spsh__beam spsh__beam;
spsh_status spsh__beam_open(uint32_t beam_width, uint32_t frames_max,
                            const spsh_allocator *allocator, spsh__beam **ret, spsh_error *err);
void spsh__beam_close(spsh__beam *beam);

/* The most probable prefix (Hannun and others 2014, without a language model), of equals the one
 * found first; *ret_score: its ln p, of the paths that the beam held. frames: no more than
 * frames_max. Returns how many labels were written, no more than capacity. Allocates nothing. */
uint32_t spsh__decode_beam(spsh__beam *beam, const spsh__score_rows *rows, uint32_t *labels,
                           uint32_t capacity, double *ret_score);

/* Levenshtein's distance, split: of the cheapest edits those with the most words or letters
 * opposite each other from the end on. Sums over utterances: rates are of all of them together. */
typedef struct spsh__errors {
    uint64_t substitutions, insertions, deletions, reference_count, utterances, wrong_utterances;
} spsh__errors;

/* Texts are as the vocabulary's normalisation leaves them. Words: what blanks (spaces, tabs, ends
 * of lines) are around. Letters: code points; with_blanks ("cer"): of the whole text, else
 * ("cer_letters") of all but its blanks. Nothing is added on failure. SPSH_E_SYNTAX: not UTF-8;
 * _LIMIT: 2 GiB; _NO_MEMORY. Any thread. */
spsh_status spsh__errors_add_words(spsh__errors *errors, spsh_bytes reference, spsh_bytes found,
                                   spsh_error *err);
spsh_status spsh__errors_add_letters(spsh__errors *errors, spsh_bytes reference, spsh_bytes found,
                                     bool with_blanks, spsh_error *err);

/* Edits for each word or letter of the references; without any of those: 0, or infinite where
 * something was found. */
double spsh__errors_rate(const spsh__errors *errors);

#endif
