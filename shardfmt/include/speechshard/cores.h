/* cores.h: the number of threads for "0: one per core", and numbered pieces of work for threads.
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

/** Number of cores that this thread may use, within the limits of taskset, a launcher, or a
 * container; 1 ... most. Thread-safe. */
SPSH_API uint32_t spsh_core_count(uint32_t most);

/** Process one piece. worker: 0 ... threads - 1, different for each thread. */
typedef spsh_status (*spsh_piece_fn)(void *user, uint32_t worker, uint64_t piece, spsh_error *err);

/**
 * Process the pieces 0 ... count - 1 on the calling thread, which is worker 0, and on up to
 * threads - 1 more (at most 1,023). Pieces start in order. After a failure no piece starts. If a
 * thread cannot be started, the others do its work.
 *
 * @return SPSH_OK, or the failure of the lowest piece that failed
 *
 * Thread-safe. Allocates nothing.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_cores_run(uint32_t threads, uint64_t count,
                                                   spsh_piece_fn piece_fn, void *user,
                                                   spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
