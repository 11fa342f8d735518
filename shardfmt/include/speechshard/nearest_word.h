/* nearest_word.h: find the closest known word, for "did you mean" in messages.
 *
 *     static const char *const words[] = {"keep", "flac", "pcm", NULL};
 *     const char *nearest = spsh_nearest_word("flca", 4, words);     // "flac"
 */
#ifndef SPEECHSHARD_NEAREST_WORD_H
#define SPEECHSHARD_NEAREST_WORD_H

#include "speechshard/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Return the word with the fewest changes: an inserted, deleted, or replaced character, or two
 * swapped adjacent ones. A prefix of at least two characters counts as one change. The first of
 * equal words wins.
 *
 * @param text   size_bytes bytes, with or without a NUL; borrowed during the call
 * @param words  NULL-terminated; words of more than 96 bytes are ignored
 * @return an element of words; NULL if none is close. Allocates nothing. Thread-safe.
 */
SPSH_API const char *spsh_nearest_word(const char *text, size_t size_bytes,
                                       const char *const *words);

#ifdef __cplusplus
}
#endif

#endif
