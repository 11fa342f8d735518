/* comm_nccl.h: sums and copies between the devices of all ranks: NCCL, on a stream of its own
 * beside the backend's.
 *
 *     spsh__collectives_open(comm, backend, allocator, &c, &err);
 *     spsh__collectives_behind(c, &err);            what follows comes behind the backend's stream
 *     spsh__collectives_start(c, &sum, "bucket 3", &err);
 *     ... the backend computes on ...
 *     spsh__collectives_join(c, &err);              the backend's stream goes on behind it
 *     spsh__collectives_wait(c, &err);              the host knows that it has
 *
 * The order of what is started is the same on all ranks. Nobody waits on a stream that a rank which
 * does not come would hold up for ever: wait looks at the event and at NCCL's own errors until the
 * communicator's deadline, and then aborts, so that the device is free again. Whoever waits for the
 * backend's stream behind a join calls wait first.
 *
 * Which rank is missing NCCL does not know; messages (comm.h) say it, for the error's text.
 */
#ifndef SPSH_COMM_NCCL_H
#define SPSH_COMM_NCCL_H

#include "backend/backend.h"
#include "comm.h"
#include "cuda/device_nccl.h"

typedef struct spsh__collectives spsh__collectives;

/* All ranks together. The same status on all where it is SPSH_E_UNSUPPORTED: a rank has no NCCL, or
 * two share a device, which NCCL refuses; the text says which and why. SPSH_E_TIMEOUT: a rank has
 * not come; SPSH_E_IO. step: borrowed, for messages. */
spsh_status spsh__collectives_open(spsh__comm *comm, spsh__backend *backend, const uint64_t *step,
                                   spsh__collectives **ret, spsh_error *err);
/* NULL is fine. With the others; after a failure, comm's too, without. */
void spsh__collectives_close(spsh__collectives *c);

uint32_t spsh__collectives_version(const spsh__collectives *c); /* of NCCL: 22809 */

spsh_status spsh__collectives_behind(spsh__collectives *c, spsh_error *err);
/* what: static, for messages. A count of 0 is nothing. */
spsh_status spsh__collectives_start(spsh__collectives *c, const spsh__collective *collective,
                                    const char *what, spsh_error *err);
spsh_status spsh__collectives_join(spsh__collectives *c, spsh_error *err);
spsh_status spsh__collectives_wait(spsh__collectives *c, spsh_error *err);

#endif
