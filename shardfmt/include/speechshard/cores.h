/* cores.h: what "0: as many threads as there are cores" means, and numbered pieces of work for
 * threads.
 *
 *     options.threads = spsh_core_count(16);
 *     rc = spsh_cores_run(options.threads, piece_count, do_piece, &work, &err);
 */
#ifndef SPEECHSHARD_CORES_H
#define SPEECHSHARD_CORES_H

#include "speechshard/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Cores that this thread may run on, as taskset, a launcher or a container left it; 1 ... most.
 * Thread-safe. */
SPSH_API uint32_t spsh_core_count(uint32_t most);

/* Does one piece. worker: 0 ... threads - 1; no two threads have the same number. */
typedef spsh_status (*spsh_piece_fn)(void *user, uint32_t worker, uint64_t piece, spsh_error *err);

/**
 * Do the pieces 0 ... count - 1 with the calling thread, which is worker 0, and up to threads - 1
 * more (at most 1,023). Pieces begin in order. After a failure no new piece begins. Threads that
 * cannot be started are done without.
 *
 * @return SPSH_OK, or of the failures of piece_fn that of the lowest piece
 *
 * Thread-safe. No allocation.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_cores_run(uint32_t threads, uint64_t count,
                                                   spsh_piece_fn piece_fn, void *user,
                                                   spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
