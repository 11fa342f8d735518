/* layout_librispeech.h: parsers for SPEAKERS.TXT and for the ids of the LibriSpeech family. */
#ifndef SPSH_INGEST_LAYOUT_LIBRISPEECH_H
#define SPSH_INGEST_LAYOUT_LIBRISPEECH_H

#include "common/row_reader.h"

/** A reader (speaker) in SPEAKERS.TXT. */
typedef struct spsh__librispeech_reader {
    uint64_t id;
    uint32_t order; /* position in reading order */
    char sex[8];    /* as found, NUL-terminated */
} spsh__librispeech_reader;

/** Readers by id. All zero is empty. Free with spsh__librispeech_readers_free. */
typedef struct spsh__librispeech_readers {
    spsh__librispeech_reader *readers; /* sorted after spsh__librispeech_readers_add */
    size_t count, capacity;
} spsh__librispeech_readers;

/* Add the readers of a SPEAKERS.TXT. If a reader is already known, the first entry is kept. Lines
 * other than "ID | SEX | SUBSET | MINUTES | NAME" are ignored, because the fields are optional.
 */
SPSH_NODISCARD spsh_status spsh__librispeech_readers_add(const spsh__text_input *input,
                                                         spsh__librispeech_readers *readers,
                                                         spsh_error *err);
const spsh__librispeech_reader *
spsh__librispeech_readers_find(const spsh__librispeech_readers *readers, uint64_t id);
void spsh__librispeech_readers_free(spsh__librispeech_readers *readers);

/** The parts of "1089-134686-0000". */
typedef struct spsh__librispeech_key {
    spsh_bytes reader, chapter, index;
} spsh__librispeech_key;

/* Return false unless key consists of three runs of digits joined by '-'. */
bool spsh__librispeech_key_parse(spsh_bytes key, spsh__librispeech_key *ret_key);

#endif
