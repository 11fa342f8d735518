/* pack_archives.h: unpack the compressed archives of a corpus once, by all parts together.
 *
 *     DATASET/.pack/archives           a journal: the archives of the corpus that is scanned
 *     DATASET/.pack/tar-<ID>.g<K>/tar  an unpacked archive, in the folder of a claim (claim.h)
 *     DATASET/.pack/tar-<ID>.done      a journal: K, the size of the tar, and the damage
 *
 * The process that makes the plan publishes the list and unpacks. Parts that wait for the plan help
 * it. ID is a hash of the archive's path, size, and times. So after a kill, the next process keeps
 * the tars that are complete, except those of replaced archives.
 */
#ifndef SPSH_PACK_ARCHIVES_H
#define SPSH_PACK_ARCHIVES_H

#include "pack_state.h"

/** See spsh__plan_unpacker. Returns when all archives are unpacked, also by other processes. user:
 * spsh__pack_state. */
SPSH_NODISCARD spsh_status spsh__archives_unpack(void *user, spsh__packed_archive *archives,
                                                 size_t count, spsh_error *err);

/**
 * Unpack archives of the published list until no free one is found. Each list is walked once: the
 * process that makes the plan takes over from processes that fail.
 *
 * @param list_hash    of the list that was walked last, 0 at first; updated
 * @param ret_helped  set to whether an archive was unpacked
 */
SPSH_NODISCARD spsh_status spsh__archives_help(const spsh__pack_state *state, uint64_t *list_hash,
                                               bool *ret_helped, spsh_error *err);

#endif
