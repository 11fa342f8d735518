/* layout_librispeech.h: the two texts of the LibriSpeech family, apart from its folders. */
#ifndef SPSH_INGEST_LAYOUT_LIBRISPEECH_H
#define SPSH_INGEST_LAYOUT_LIBRISPEECH_H

#include "common/row_reader.h"

/** A reader of SPEAKERS.TXT. */
typedef struct spsh__librispeech_reader {
    uint64_t id;
    uint32_t order; /* in which it was read */
    char sex[8];    /* as found, NUL-terminated */
} spsh__librispeech_reader;

/** Readers by id. All zero is empty; free with spsh__librispeech_readers_free. */
typedef struct spsh__librispeech_readers {
    spsh__librispeech_reader *readers; /* sorted after spsh__librispeech_readers_add */
    size_t count, capacity;
} spsh__librispeech_readers;

/* Add what a SPEAKERS.TXT says; a reader that is known already keeps what the first file said.
 * Lines that are not "ID | SEX | SUBSET | MINUTES | NAME" are passed over: nothing depends on them.
 */
SPSH_NODISCARD spsh_status spsh__librispeech_readers_add(const spsh__text_input *input,
                                                         spsh__librispeech_readers *readers,
                                                         spsh_error *err);
const spsh__librispeech_reader *
spsh__librispeech_readers_find(const spsh__librispeech_readers *readers, uint64_t id);
void spsh__librispeech_readers_free(spsh__librispeech_readers *readers);

/** "1089-134686-0000" taken apart. */
typedef struct spsh__librispeech_key {
    spsh_bytes reader, chapter, index;
} spsh__librispeech_key;

/* False unless key is three runs of digits joined by '-'. */
bool spsh__librispeech_key_parse(spsh_bytes key, spsh__librispeech_key *ret_key);

#endif
