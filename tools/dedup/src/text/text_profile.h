/* text_profile.h: normalize transcripts for comparison, by named profiles.
 *
 * A profile has a name with a version ("default-1"), which every result states. default: NFKC and
 * case folding. Punctuation, dashes, and symbols become blanks. Apostrophes become U+0027 and are
 * kept only inside words. White space is collapsed. Digits are kept. cjk: as default, with each
 * ideograph and kana as a word. marks: as default, without diacritics.
 */
#ifndef SPSH_DEDUP_TEXT_PROFILE_H
#define SPSH_DEDUP_TEXT_PROFILE_H

#include "common/byte_builder.h"
#include "speechshard/dedup.h"

/* Return the name of a profile: "default-1". */
const char *spsh__text_profile_name(spsh_text_profile profile);

/* Replace the content of out by the normalized text: words separated by one blank. out is empty if
 * the text has no letter or digit, or is not UTF-8. SPSH_E_NO_MEMORY is the only failure. The time
 * is linear. out needs at most 72 bytes per code point of text. Thread-safe. */
spsh_status spsh__text_normalise(spsh_text_profile profile, spsh_bytes text, spsh__builder *out,
                                 spsh_error *err);

#endif
