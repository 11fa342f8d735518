/* vocabulary.h: transcripts to symbols and back: characters, or word pieces (byte pair merges).
 *
 * The first symbol is the blank. A file is YAML (TRAINING.md): kind, normalization profile,
 * symbols in order; word pieces: merges in order. A vocabulary is made by counting a dataset's
 * transcripts. Code points break ties, so the file is a function of the data.
 *
 * Profiles have a name and a version. A name without a version selects the newest one:
 *     nfc-1     NFC, white space and control characters as one blank; case and punctuation stay
 *     lower-1   NFKC, lower case; letters, digits, marks, and apostrophes between them; all other
 *               characters become a blank
 *     upper-1   the same in upper case
 */
#ifndef SPSH_TRAIN_VOCABULARY_H
#define SPSH_TRAIN_VOCABULARY_H

#include "speechshard/dataset.h"
#include "speechshard/io.h"

#define SPSH__VOCABULARY_SYMBOLS_MAX    UINT32_C(65536) /* including the blank */
#define SPSH__VOCABULARY_PIECES_DEFAULT UINT32_C(1024)
#define SPSH__VOCABULARY_BLANK                                                                     \
    UINT32_C(0) /* blank of CTC; does not occur in
                                                       transcripts */

typedef struct spsh__vocabulary spsh__vocabulary;

typedef struct spsh__vocabulary_options {
    const char *kind;          /* "characters", "pieces"; NULL: characters */
    const char *profile;       /* normalization of transcripts; NULL: lower-1 */
    uint32_t symbols;          /* maximum, including the blank; keeps the most frequent characters;
                                  0: all characters; SPSH__VOCABULARY_PIECES_DEFAULT pieces */
    const char *const *splits; /* per dataset: names separated by commas; NULL, also as an entry:
                                  all utterances */
} spsh__vocabulary_options;

/* Utterances in skip overlays do not count. SPSH_E_NOT_FOUND: unknown kind or profile, a split that
 * a dataset does not have, or no transcripts at all. */
spsh_status spsh__vocabulary_make(const spsh_dataset *const *datasets, uint32_t count,
                                  const spsh__vocabulary_options *options, spsh__vocabulary **ret,
                                  spsh_error *err);
spsh_status spsh__vocabulary_read(const char *path, const spsh_io *io, spsh__vocabulary **ret,
                                  spsh_error *err);
/* Parse the content of a file, also as stored in a checkpoint. name is for messages. SPSH_E_SYNTAX,
 * _NOT_FOUND, _LIMIT, _NO_MEMORY. */
spsh_status spsh__vocabulary_parse(const char *yaml, size_t size, const char *name,
                                   spsh__vocabulary **ret, spsh_error *err);
/* Return the content of the file. The caller frees it. NULL: out of memory. */
char *spsh__vocabulary_text(const spsh__vocabulary *v);
spsh_status spsh__vocabulary_write(const spsh__vocabulary *v, const char *path, const spsh_io *io,
                                   spsh_error *err);
void spsh__vocabulary_free(spsh__vocabulary *v);           /* NULL is fine */
uint32_t spsh__vocabulary_size(const spsh__vocabulary *v); /* including the blank */

/* *ret_dropped: number of characters without a symbol. No allocation. SPSH_E_LIMIT: capacity. Any
 * thread. */
spsh_status spsh__vocabulary_encode(const spsh__vocabulary *v, spsh_bytes text, uint32_t *labels,
                                    uint32_t capacity, uint32_t *ret_count, uint32_t *ret_dropped,
                                    spsh_error *err);
/* Call point_fn for each character without a symbol, in order. SPSH__POINT_BAD: a byte that is not
 * UTF-8. Returns the number of characters of the transcript. No allocation. Any thread. */
uint64_t spsh__vocabulary_unknown(const spsh__vocabulary *v, spsh_bytes text,
                                  void (*point_fn)(void *user, int32_t point), void *user);
/* UTF-8, NUL-terminated, truncated to capacity. Returns the full length. */
size_t spsh__vocabulary_decode(const spsh__vocabulary *v, const uint32_t *labels, uint32_t count,
                               char *text, size_t capacity);
/* Normalize a transcript by the profile, keeping characters without a symbol. Error rates compare
 * against the result. UTF-8, NUL-terminated, truncated to capacity. Returns the full length. */
size_t spsh__vocabulary_normalise(const spsh__vocabulary *v, spsh_bytes text, char *normalised,
                                  size_t capacity);

#endif
