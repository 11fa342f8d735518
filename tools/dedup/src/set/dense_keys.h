/* dense_keys.h: what the small side of an audit has at every frame: keys, and words with weak bits.
 *
 * Stored keys sit at onsets, four a second; a clip of a second may have lost the few that it shares
 * with its source. The test side is small enough to have a key at every active frame, made from its
 * audio again.
 */
#ifndef SPSH_DEDUP_DENSE_KEYS_H
#define SPSH_DEDUP_DENSE_KEYS_H

#include "print_set.h"

/* *ret_keys from malloc. reader: of the print's dataset. */
spsh_status spsh__dense_keys_make(const spsh__print_set *set, spsh_reader *reader, uint64_t print,
                                  spsh__dense_key **ret_keys, size_t *ret_count, spsh_error *err);
/* The same for words (frame_scan.h). */
spsh_status spsh__weak_words_make(const spsh__print_set *set, spsh_reader *reader, uint64_t print,
                                  spsh__weak_word **ret_words, size_t *ret_count, spsh_error *err);

#endif
