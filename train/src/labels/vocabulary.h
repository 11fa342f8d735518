/* vocabulary.h: transcripts to symbols and back: characters, or word pieces (byte pair merges).
 *
 * The first symbol is the blank. A file is YAML (docs/TRAINING.md): kind, normalisation profile,
 * symbols in order; word pieces: merges in order. It is made from a dataset's transcripts by
 * counting; ties are broken by code points, so the file is a function of the data.
 *
 * Profiles are named and versioned; a name without its version is the newest one's:
 *     nfc-1     NFC, white space and control characters as one blank; case and punctuation stay
 *     lower-1   NFKC, lower case; letters, digits, marks, and apostrophes between them; all else is
 *               a blank
 *     upper-1   the same in upper case
 */
#ifndef SPSH_TRAIN_VOCABULARY_H
#define SPSH_TRAIN_VOCABULARY_H

#include "speechshard/dataset.h"
#include "speechshard/io.h"

#define SPSH__VOCABULARY_SYMBOLS_MAX    UINT32_C(65536) /* with the blank */
#define SPSH__VOCABULARY_PIECES_DEFAULT UINT32_C(1024)
#define SPSH__VOCABULARY_BLANK          UINT32_C(0) /* of CTC; no text has it */

typedef struct spsh__vocabulary spsh__vocabulary;

typedef struct spsh__vocabulary_options {
    const char *kind;          /* "characters", "pieces"; NULL: characters */
    const char *profile;       /* how texts are normalised first; NULL: lower-1 */
    uint32_t symbols;          /* with the blank, at most; of characters the most frequent ones; 0:
                                  all characters; SPSH__VOCABULARY_PIECES_DEFAULT pieces */
    const char *const *splits; /* of each dataset: names with commas between; NULL: all utterances,
                                  as where it is NULL itself */
} spsh__vocabulary_options;

/* Utterances in skip overlays do not count. SPSH_E_NOT_FOUND: a kind or a profile that is none, a
 * split that a dataset does not have, no text at all. */
spsh_status spsh__vocabulary_make(const spsh_dataset *const *datasets, uint32_t count,
                                  const spsh__vocabulary_options *options, spsh__vocabulary **ret,
                                  spsh_error *err);
spsh_status spsh__vocabulary_read(const char *path, const spsh_io *io, spsh__vocabulary **ret,
                                  spsh_error *err);
/* Of the text of a file, as in a checkpoint. name is for messages. SPSH_E_SYNTAX, _NOT_FOUND,
 * _LIMIT, _NO_MEMORY. */
spsh_status spsh__vocabulary_parse(const char *yaml, size_t size, const char *name,
                                   spsh__vocabulary **ret, spsh_error *err);
/* The file's text; caller frees. NULL: no memory. */
char *spsh__vocabulary_text(const spsh__vocabulary *v);
spsh_status spsh__vocabulary_write(const spsh__vocabulary *v, const char *path, const spsh_io *io,
                                   spsh_error *err);
void spsh__vocabulary_free(spsh__vocabulary *v);           /* NULL is fine */
uint32_t spsh__vocabulary_size(const spsh__vocabulary *v); /* with the blank */

/* *ret_dropped: characters that no symbol stands for. No allocation. SPSH_E_LIMIT: capacity. Any
 * thread. */
spsh_status spsh__vocabulary_encode(const spsh__vocabulary *v, spsh_bytes text, uint32_t *labels,
                                    uint32_t capacity, uint32_t *ret_count, uint32_t *ret_dropped,
                                    spsh_error *err);
/* Each character of a text that no symbol stands for, in order; SPSH__POINT_BAD: a byte that is not
 * UTF-8. Returns how many characters the text has. No allocation. Any thread. */
uint64_t spsh__vocabulary_unknown(const spsh__vocabulary *v, spsh_bytes text,
                                  void (*point_fn)(void *user, int32_t point), void *user);
/* UTF-8, NUL-terminated, cut to capacity; returns the full length. */
size_t spsh__vocabulary_decode(const spsh__vocabulary *v, const uint32_t *labels, uint32_t count,
                               char *text, size_t capacity);
/* A text as its profile has it, with the characters that no symbol stands for: what error rates are
 * counted against. UTF-8, NUL-terminated, cut to capacity; returns the full length. */
size_t spsh__vocabulary_normalise(const spsh__vocabulary *v, spsh_bytes text, char *normalised,
                                  size_t capacity);

#endif
