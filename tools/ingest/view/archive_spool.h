/* archive_spool.h: spool files, which hold the unpacked bytes of archives. */
#ifndef SPSH_INGEST_ARCHIVE_SPOOL_H
#define SPSH_INGEST_ARCHIVE_SPOOL_H

#include "speechshard/io.h"

/** A compressed archive and its spool file. All pointers are borrowed. */
typedef struct spsh__spooling {
    const spsh_io *io;
    int archive; /* read from its start; may be a pipe */
    const char *archive_name;
    int spool; /* an empty file */
    const char *spool_path;
    /* position_bytes: how much of the archive was read. May cancel. */
    spsh_status (*progress_fn)(void *user, uint64_t position_bytes, spsh_error *err);
    void *user;
} spsh__spooling;

/**
 * Copy the decompressed stream of an archive to its spool file.
 *
 * @param ret_bytes   size of the spool file
 * @param ret_damage  SPSH_OK, or the reason why the rest of the archive cannot be read
 * @param cause       set if *ret_damage is not SPSH_OK
 * @return SPSH_OK, also for a damaged archive; SPSH_E_NO_SPACE; SPSH_E_IO; or any code of
 *         progress_fn
 */
SPSH_NODISCARD spsh_status spsh__spool_archive(const spsh__spooling *spooling, uint64_t *ret_bytes,
                                               spsh_status *ret_damage, spsh_error *cause,
                                               spsh_error *err);

/** Write unpacked bytes. SPSH_E_NO_SPACE, with advice; SPSH_E_IO */
SPSH_NODISCARD spsh_status spsh__spool_write(const spsh_io *io, int fd, const char *path,
                                             spsh_bytes data, uint64_t offset_bytes,
                                             spsh_error *err);

/** Sync a spool file and close it. A plan may refer to its bytes, so they must survive a power
 * failure like the plan. */
SPSH_NODISCARD spsh_status spsh__spool_close(const spsh_io *io, int fd, const char *path,
                                             spsh_error *err);

/** Strip the path from a message that begins with the path of an archive or of a spool file. */
const char *spsh__without_path(const char *message, const char *path);

#endif
