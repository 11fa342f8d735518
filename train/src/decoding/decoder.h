/* decoder.h: symbols from log probabilities (greedy and prefix beam search), and the error counts
 * of a transcript.
 *
 *     rc = spsh__beam_open(64, frames_max, allocator, &beam, err);
 *     count = spsh__decode_beam(beam, &rows, labels, capacity, &score);
 *     spsh__vocabulary_decode(vocabulary, labels, count, text, sizeof(text));
 *     rc = spsh__errors_add_words(&words, reference, found, err);   // for each utterance
 *     wer = spsh__errors_rate(&words);
 */
#ifndef SPSH_TRAIN_DECODER_H
#define SPSH_TRAIN_DECODER_H

#include <stdbool.h>

#include "speechshard/base.h"

/* Row t has `width` log probabilities and begins at values + t * stride. */
typedef struct spsh__score_rows {
    const float *values;
    uint32_t frames, width;
    size_t stride;
    uint32_t blank;
} spsh__score_rows;

/* The most probable symbol of frame t is symbols[t * stride]. */
typedef struct spsh__best_symbols {
    const uint32_t *symbols;
    uint32_t frames;
    size_t stride;
    uint32_t blank;
} spsh__best_symbols;

/* Merge repeats, and drop blanks. Returns the number of labels written, at most capacity (one per
 * frame is enough). Any thread. */
uint32_t spsh__decode_greedy(const spsh__best_symbols *best, uint32_t *labels, uint32_t capacity);

/* Memory of one thread: about 30 bytes per frame and beam position. beam_width: at least 1.
 * SPSH_E_INVALID_ARG, _LIMIT, _NO_MEMORY. */
typedef struct spsh__beam spsh__beam;
spsh_status spsh__beam_open(uint32_t beam_width, uint32_t frames_max,
                            const spsh_allocator *allocator, spsh__beam **ret, spsh_error *err);
void spsh__beam_close(spsh__beam *beam);

/* Find the most probable prefix (Hannun and others 2014, without a language model). Of equals, the
 * prefix found first wins. *ret_score: its ln p over the paths that stayed in the beam. frames: at
 * most frames_max. Returns the number of labels written, at most capacity. No allocation. */
uint32_t spsh__decode_beam(spsh__beam *beam, const spsh__score_rows *rows, uint32_t *labels,
                           uint32_t capacity, double *ret_score);

/* Levenshtein distance, split by kind of edit. Of the cheapest alignments, the counts follow the
 * one that matches the most words or characters from the end. Sums over utterances: a rate covers
 * all of them. */
typedef struct spsh__errors {
    uint64_t substitutions, insertions, deletions, reference_count, utterances, wrong_utterances;
} spsh__errors;

/* Transcripts must be normalized by the vocabulary. Words are separated by blanks (spaces, tabs,
 * line feeds). Characters are code points: with_blanks ("cer") counts all, else ("cer_letters") all
 * except blanks. Nothing is added on failure. SPSH_E_SYNTAX: not UTF-8; _LIMIT: 2 GiB; _NO_MEMORY.
 * Any thread. */
spsh_status spsh__errors_add_words(spsh__errors *errors, spsh_bytes reference, spsh_bytes found,
                                   spsh_error *err);
spsh_status spsh__errors_add_letters(spsh__errors *errors, spsh_bytes reference, spsh_bytes found,
                                     bool with_blanks, spsh_error *err);

/* Edits per word or character of the references. If the references are empty: 0, or infinite if the
 * results are not. */
double spsh__errors_rate(const spsh__errors *errors);

#endif
