/* corpus_file.h: read a file of a corpus, or a piece of one. The file may have any content and may
 * change during the read. */
#ifndef SPSH_CORPUS_FILE_H
#define SPSH_CORPUS_FILE_H

#include "ingest/scan/ingest.h"
#include "speechshard/io.h"

/** The bytes of a file, or the reason why it is rejected. */
typedef struct spsh__pack_source {
    bool rejected;
    spsh_reject_reason reason;
    char detail[160];
    uint8_t *data; /* allocated with malloc */
    size_t size_bytes;
} spsh__pack_source;

/**
 * Read a regular file, or a piece of one.
 *
 * Never blocks on a FIFO. A file that changes during the read is rejected. If a disk or a file
 * server fails (os_error.h), the read is repeated twice within a second.
 *
 * @param piece     the file must still have its file_bytes; if they are SPSH_SOURCE_BYTES_UNKNOWN,
 *                  the whole file is read, whatever its size
 * @param size_max  larger files are rejected as too_long
 * @return SPSH_OK, also if rejected; SPSH_E_IO or SPSH_E_NO_MEMORY: end the pack, because the
 *         file is not the cause
 */
spsh_status spsh__pack_source_read(const spsh_io *io, const spsh__piece *piece, uint64_t size_max,
                                   spsh__pack_source *ret_source, spsh_error *err);

#endif
