/* twin_runtime.h: streams, events, graphs and memory of the twin of the CUDA plug-in, for the other
 * parts of the twin.
 *
 * Work is put onto a stream and done later: when somebody waits for it, and not before; among
 * streams in an order drawn from a seed that events alone bound. What is freed, written again or
 * read too early shows as wrong results; and each piece of work says what memory it uses, so that
 * two uses of the same bytes on two streams, at least one of them a write, without an event between
 * them stop the program, named (vector clocks).
 */
#ifndef SPSH_TWIN_RUNTIME_H
#define SPSH_TWIN_RUNTIME_H

#include <stdbool.h>

#include "speechshard/cuda_plugin.h"

typedef struct twin_work {
    const char *name;                /* static */
    void (*run_fn)(void *arguments); /* when its turn has come; on whichever thread waits */
    const void *arguments;           /* copied */
    size_t argument_bytes;
    const spsh__device_use *uses; /* copied; outside of device memory: not looked at */
    size_t use_count;
} twin_work;

/* SPSH_E_NO_MEMORY; SPSH_E_IO once the device was lost (controls); SPSH_E_INVALID_ARG: a use that
 * lies in device memory that is not there (any more). */
spsh_status twin_enqueue(void *stream, const twin_work *work, spsh_error *err);

/* Of threads within a phase (spsh__device_turn): from the controls. */
uint32_t twin_order(void);

/* Of the work that is being done now: the block's shared memory, full of NaNs. At most
 * controls.memory_bytes; the same until the next call. */
void *twin_shared(size_t size_bytes);

#endif
