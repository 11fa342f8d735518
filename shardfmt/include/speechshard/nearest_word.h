/* nearest_word.h: what a wrong word was probably meant to be, for "did you mean" in messages.
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
 * The word that takes the fewest changes: a letter more, less or another, two neighbours swapped; a
 * beginning of two letters or more counts as one change. Of equals the first.
 *
 * @param text   size_bytes of it, NUL-terminated or not; borrowed during the call
 * @param words  NULL behind the last; those of more than 96 bytes are passed over
 * @return one of words; NULL when none is near. No allocation. Thread-safe.
 */
SPSH_API const char *spsh_nearest_word(const char *text, size_t size_bytes,
                                       const char *const *words);

#ifdef __cplusplus
}
#endif

#endif
