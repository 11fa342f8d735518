/* corpus_file.h: open and read a file of somebody's corpus, or a piece of one, which may be
 * anything and may change meanwhile. */
#ifndef SPSH_CORPUS_FILE_H
#define SPSH_CORPUS_FILE_H

#include "ingest/scan/ingest.h"
#include "speechshard/io.h"

/** A file's bytes, or why it is rejected. */
typedef struct spsh__pack_source {
    bool rejected;
    spsh_reject_reason reason;
    char detail[160];
    uint8_t *data; /* malloc */
    size_t size_bytes;
} spsh__pack_source;

/**
 * Read a regular file, or a piece of one.
 *
 * Never blocks on a FIFO; a file that changes while it is read is rejected.
 *
 * @param piece     the file must still have its file_bytes; when that is SPSH_SOURCE_BYTES_UNKNOWN,
 * it is read whole, whatever its size
 * @param size_max  larger ones are rejected as too_long
 * @return SPSH_OK, also when rejected; SPSH_E_IO and SPSH_E_NO_MEMORY end a pack: they are not the
 * file's fault.
 */
spsh_status spsh__pack_source_read(const spsh_io *io, const spsh__piece *piece, uint64_t size_max,
                                   spsh__pack_source *ret_source, spsh_error *err);

#endif
