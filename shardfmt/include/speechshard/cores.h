/* cores.h: what "0: as many threads as there are cores" means.
 *
 *     options.threads = spsh_core_count(16);
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

#ifdef __cplusplus
}
#endif

#endif
