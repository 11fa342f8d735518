/* dense_keys.h: keys and words with weak bits at every frame, for the small side of an audit.
 *
 * Stored keys are at onsets, about four per second. A clip of one second may have lost the few keys
 * that it shares with its source. The test side is small enough to compute a key at every active
 * frame from its audio.
 */
#ifndef SPSH_DEDUP_DENSE_KEYS_H
#define SPSH_DEDUP_DENSE_KEYS_H

#include "print_set.h"

/* Make the dense keys of a print. reader: of the print's dataset. Free *ret_keys with free. */
spsh_status spsh__dense_keys_make(const spsh__print_set *set, spsh_reader *reader, uint64_t print,
                                  spsh__dense_key **ret_keys, size_t *ret_count, spsh_error *err);
/* Make the dense words of a print (frame_scan.h). Otherwise as spsh__dense_keys_make. */
spsh_status spsh__weak_words_make(const spsh__print_set *set, spsh_reader *reader, uint64_t print,
                                  spsh__weak_word **ret_words, size_t *ret_count, spsh_error *err);

#endif
