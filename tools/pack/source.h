/* source.h: open and read a file of somebody's corpus, which may be anything and may change
 * meanwhile. */
#ifndef SPSH_PACK_SOURCE_H
#define SPSH_PACK_SOURCE_H

#include "ingest.h"
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
 * Read a whole regular file.
 *
 * Never blocks on a FIFO; a file that changes while it is read is rejected.
 *
 * @param planned_bytes  size it must have, or SPSH_SOURCE_BYTES_UNKNOWN
 * @param size_max       larger files are rejected as too_long
 * @return SPSH_OK, also when rejected; SPSH_E_IO and SPSH_E_NO_MEMORY end a pack: they are not the
 * file's fault.
 */
spsh_status spsh__pack_source_read(const spsh_io *io, const char *path, uint64_t planned_bytes,
                                   uint64_t size_max, spsh__pack_source *ret_source,
                                   spsh_error *err);

#endif
