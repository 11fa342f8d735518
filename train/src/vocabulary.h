/* vocabulary.h: transcripts to symbols and back: characters, or word pieces (byte pair merges).
 *
 * Symbol 0 is the blank. A file is YAML: kind, normalisation profile (the named ones of the text
 * tier: nfc, upper or lower, what is dropped), symbols in order; word pieces: merges in order. It
 * is made from a dataset's transcripts by counting; ties are broken by code points, so the file is
 * a function of the data.
 */
#ifndef SPSH_TRAIN_VOCABULARY_H
#define SPSH_TRAIN_VOCABULARY_H

#include "speechshard/dataset.h"

typedef struct spsh__vocabulary spsh__vocabulary;

typedef struct spsh__vocabulary_options {
    const char *kind;    /* "characters", "pieces" */
    const char *profile; /* how texts are normalised first */
    uint32_t symbols;    /* of pieces */
} spsh__vocabulary_options;

spsh_status spsh__vocabulary_make(const spsh_dataset *const *datasets, uint32_t count,
                                  const spsh__vocabulary_options *options, spsh__vocabulary **ret,
                                  spsh_error *err);
spsh_status spsh__vocabulary_read(const char *path, const spsh_io *io, spsh__vocabulary **ret,
                                  spsh_error *err);
spsh_status spsh__vocabulary_write(const spsh__vocabulary *v, const char *path, const spsh_io *io,
                                   spsh_error *err);
void spsh__vocabulary_free(spsh__vocabulary *v);
uint32_t spsh__vocabulary_size(const spsh__vocabulary *v); /* with the blank */

/* *ret_dropped: characters that no symbol stands for. No allocation. SPSH_E_LIMIT: capacity. Any
 * thread. */
spsh_status spsh__vocabulary_encode(const spsh__vocabulary *v, spsh_bytes text, uint32_t *labels,
                                    uint32_t capacity, uint32_t *ret_count, uint32_t *ret_dropped,
                                    spsh_error *err);
/* UTF-8, NUL-terminated, cut to capacity; returns the full length. */
size_t spsh__vocabulary_decode(const spsh__vocabulary *v, const uint32_t *labels, uint32_t count,
                               char *text, size_t capacity);

#endif
