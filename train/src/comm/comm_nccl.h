/* comm_nccl.h: sums and copies between the devices of all ranks with NCCL. They run on a separate
 * stream, next to the backend's stream.
 *
 *     spsh__collectives_open(comm, backend, allocator, &c, &err);
 *     spsh__collectives_behind(c, &err);            later collectives wait for the backend's stream
 *     spsh__collectives_start(c, &sum, "bucket 3", &err);
 *     ... the backend continues to compute ...
 *     spsh__collectives_join(c, &err);              the backend's stream waits for the collectives
 *     spsh__collectives_wait(c, &err);              the host waits for the collectives
 *
 * All ranks start the same collectives in the same order. No function here blocks on a stream that a
 * missing rank could hold up forever. spsh__collectives_wait polls the event and NCCL's own errors
 * until the communicator's deadline. Then it aborts NCCL, which frees the device. Call it before
 * you wait for the backend's stream after a join. Other calls of CUDA may block while collectives
 * are under way: a thread aborts NCCL if nothing is called here during the deadline, and the next
 * call here reports it. One thread may call.
 *
 * NCCL does not know which rank is missing. Messages (comm.h) find the rank for the error text.
 */
#ifndef SPSH_COMM_NCCL_H
#define SPSH_COMM_NCCL_H

#include "backend/backend.h"
#include "comm.h"
#include "cuda/device_nccl.h"

typedef struct spsh__collectives spsh__collectives;

/* Open the collectives. All ranks call together. Until close, the backend leaves
 * SPSH__NCCL_MULTIPROCESSORS to NCCL, which uses at most that many from
 * SPSH__NCCL_VERSION_LIMITED on. SPSH_E_UNSUPPORTED, on all ranks alike: a rank has no NCCL, or two
 * ranks share a device, which NCCL rejects; the message names the rank and the reason.
 * SPSH_E_TIMEOUT: a rank is missing; or SPSH_E_IO. step: borrowed, for error messages. */
spsh_status spsh__collectives_open(spsh__comm *comm, spsh__backend *backend, const uint64_t *step,
                                   spsh__collectives **ret, spsh_error *err);
/* Close the collectives. All ranks call together, except after a failure here or in comm. NULL is
 * fine. */
void spsh__collectives_close(spsh__collectives *c);

uint32_t spsh__collectives_version(const spsh__collectives *c); /* NCCL version, such as 22809 */
/* The stream of the collectives, for kernels between them. */
void *spsh__collectives_stream(const spsh__collectives *c);

spsh_status spsh__collectives_behind(spsh__collectives *c, spsh_error *err);
/* Start one collective. what: static string, for error messages. A count of 0 does nothing. */
spsh_status spsh__collectives_start(spsh__collectives *c, const spsh__collective *collective,
                                    const char *what, spsh_error *err);
spsh_status spsh__collectives_join(spsh__collectives *c, spsh_error *err);
spsh_status spsh__collectives_wait(spsh__collectives *c, spsh_error *err);

#endif
