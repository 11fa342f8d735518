/* decode.h: the threads that decode. */
#ifndef SPSH_DECODE_H
#define SPSH_DECODE_H

#include "loader_threads.h"

/* Starts opt.decode_threads; fewer will do, none will not. */
spsh_status spsh__decode_start(spsh_loader *loader, spsh_error *err);
/* Ends them; what is in the queue is dropped. NULL workers are fine. */
void spsh__decode_stop(spsh_loader *loader);

/* Of the threads, all they do; of it, what augmentation and features take. */
uint64_t spsh__decode_cpu_ns(const spsh_loader *loader);
uint64_t spsh__feature_cpu_ns(const spsh_loader *loader);

/* Fails when a thread has been at one utterance for longer than a read may take. Under lock. */
spsh_status spsh__decode_watch(spsh_loader *loader, spsh_error *err);

#endif
