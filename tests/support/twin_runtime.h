/* twin_runtime.h: streams, events, graphs and memory of the twin of the CUDA plug-in, for the other
 * parts of the twin.
 *
 * Work is put onto a stream and done later: when somebody waits for it, and not before; among
 * streams in an order drawn from a seed that events alone bound. What is freed, written again or
 * read too early shows as wrong results; and each piece of work says what memory it uses, so that
 * two uses of the same bytes on two streams, at least one of them a write, without an event between
 * them stop the program, named (vector clocks).
 *
 * The NULL stream is one more stream, of no device in particular.
 */
#ifndef SPSH_TWIN_RUNTIME_H
#define SPSH_TWIN_RUNTIME_H

#include <stdbool.h>

#include "speechshard/cuda_plugin.h"

typedef struct twin_work {
    const char *name;                /* static */
    void (*run_fn)(void *arguments); /* when its turn has come; on whichever thread waits */
    const void *arguments;           /* copied; a graph's launch has a copy of its own each time */
    size_t argument_bytes;
    const spsh__device_use *uses; /* copied; outside of device memory: not looked at */
    size_t use_count;
    /* May it be done? NULL: when its turn has come. For work that needs others who are not on this
     * process's streams, or not yet: asked again and again while somebody waits, with run_fn's
     * arguments; must not wait itself. */
    bool (*is_ready_fn)(void *arguments);
} twin_work;

/* Onto a stream. SPSH_E_IO once the device was lost (controls), or where a graph may not have it;
 * SPSH_E_INVALID_ARG: no such stream, or a use that lies in device memory that is not there (any
 * more) or is another device's. run_fn is called with the twin's lock: it must call nothing of the
 * twin but what is below. */
spsh_status twin_enqueue(void *handle, const twin_work *work, spsh_error *err);

/* What twin_runtime.c has of the plug-in: for memory of other parts, not from run_fn. */
extern const spsh__cuda_plugin twin_table;

/* What a test did wrong, where there is no status to say so. */
_Noreturn void twin_stop(const char *format, ...) SPSH_PRINTF(1, 2);
void *twin_new(size_t size_bytes); /* of the host, zeroed; there is always some */

/* Of threads within a phase (spsh__device_turn): from the controls. */
uint32_t twin_order(void);

/* Of the work that is being done now: the block's shared memory, aligned to 16, full of NaNs. At
 * most controls.memory_bytes; the same until the next call. */
void *twin_shared(size_t size_bytes);

#endif
