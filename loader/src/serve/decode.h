/* decode.h: the decode threads. */
#ifndef SPSH_DECODE_H
#define SPSH_DECODE_H

#include "loader_threads.h"

/* Start opt.decode_threads threads. Succeeds if at least one thread starts. */
spsh_status spsh__decode_start(spsh_loader *loader, spsh_error *err);
/* End the threads, and drop the queued jobs. NULL workers are fine. */
void spsh__decode_stop(spsh_loader *loader);

/* CPU time of the decode threads, and the part of it that augmentation and features take. */
uint64_t spsh__decode_cpu_ns(const spsh_loader *loader);
uint64_t spsh__feature_cpu_ns(const spsh_loader *loader);

/* Fail if a thread has worked on one utterance for longer than read_deadline_ms. Call with the lock
 * held. */
spsh_status spsh__decode_watch(spsh_loader *loader, spsh_error *err);

#endif
