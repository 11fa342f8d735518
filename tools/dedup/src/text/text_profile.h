/* text_profile.h: transcripts made comparable, in ways that have names.
 *
 * A profile is named and versioned ("default-1"), and every result states it. default: NFKC, case
 * folding, punctuation, dashes and symbols as blanks, apostrophes made one and kept inside words,
 * white space collapsed. Digits stay. cjk: the same, each ideograph and kana a word. marks: the
 * same without diacritics.
 */
#ifndef SPSH_DEDUP_TEXT_PROFILE_H
#define SPSH_DEDUP_TEXT_PROFILE_H

#include "common/byte_builder.h"
#include "speechshard/dedup.h"

/* "default-1" */
const char *spsh__text_profile_name(spsh_text_profile profile);

/* Replaces what out holds by the normalised text: words with one blank between, nothing when no
 * letter or digit is in it or when it is not UTF-8. SPSH_E_NO_MEMORY is the only failure. Time is
 * linear; out takes 72 bytes at most for a code point of text. Thread-safe. */
spsh_status spsh__text_normalise(spsh_text_profile profile, spsh_bytes text, spsh__builder *out,
                                 spsh_error *err);

#endif
