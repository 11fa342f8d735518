/* twin_runtime.h: streams, events, graphs, and memory of the host emulation of the CUDA plug-in,
 * for its other parts.
 *
 * Work is enqueued on a stream and runs later, only when a thread waits for it. The order among
 * streams is random within the limits of events. Memory that is freed, overwritten, or read too
 * early shows as wrong results. Each piece of work declares the memory that it uses. The program
 * stops if two streams use the same bytes, at least one of them writes, and no event orders the two
 * uses (vector clocks). It then prints the names of both.
 *
 * The NULL stream is an additional stream without a particular device.
 */
#ifndef SPSH_TWIN_RUNTIME_H
#define SPSH_TWIN_RUNTIME_H

#include <stdbool.h>

#include "speechshard/cuda_plugin.h"

typedef struct twin_work {
    const char *name;                /* static */
    void (*run_fn)(void *arguments); /* called at its turn, on any waiting thread */
    const void *arguments;           /* copied; each launch of a graph has a separate copy */
    size_t argument_bytes;
    const spsh__device_use *uses; /* copied; only device and pinned memory is checked */
    size_t use_count;
    /* Whether the work may run; NULL: at its turn. For work that depends on other processes or on
     * later work: polled repeatedly while a thread waits, with run_fn's arguments. It must not wait
     * itself. */
    bool (*is_ready_fn)(void *arguments);
} twin_work;

/* Enqueue work on a stream. SPSH_E_IO after the device was lost (controls), or if a graph may not
 * contain it. SPSH_E_INVALID_ARG: no such stream, or a use of device memory that does not exist or
 * belongs to another device. run_fn is called with the emulation's lock held. It may
 * call only the functions of the emulation below. */
spsh_status twin_enqueue(void *handle, const twin_work *work, spsh_error *err);

/* Plug-in functions for other parts, to allocate memory. Do not call them from run_fn. */
extern const spsh__cuda_plugin twin_table;

/* Stop the program: an error of the test itself, which no status can report. */
_Noreturn void twin_stop(const char *format, ...) SPSH_PRINTF(1, 2);
void *twin_new(size_t size_bytes); /* host memory, zeroed; never NULL */

/* Order of threads within a phase (spsh__device_turn), from the controls. */
uint32_t twin_order(void);

/* Shared memory of the running block, aligned to 16 bytes, filled with NaNs. At most
 * controls.memory_bytes; the same until the next call. */
void *twin_shared(size_t size_bytes);

#endif
