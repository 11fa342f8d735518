/* device_nccl.h: the interface between the trainer's library (comm_nccl.c) and the plug-in for
 * NCCL. The plug-in loads libnccl.so.2 on request, and calls it. The library decides on waits and
 * deadlines. tests/support/twin_nccl.c is the same table over the host emulation of CUDA.
 *
 * No function waits for another rank: a call that takes time is in progress (SPSH_E_TIMEOUT) until
 * state_fn reports its end, or abort_fn ends it. One thread at a time may call.
 */
#ifndef SPSH_DEVICE_NCCL_H
#define SPSH_DEVICE_NCCL_H

#include "speechshard/cuda_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPSH__DEVICE_NCCL_SYMBOL "spsh_cuda_nccl_entry"
#define SPSH__NCCL_ID_BYTES      128u

/* Multiprocessors for NCCL's kernels. NCCL uses at most this many blocks, and a persistent
 * recurrent layer leaves as many multiprocessors free (spare_fn of the backend). So neither waits
 * for the other. With 132 multiprocessors, LSTMs of 1,024 units have the same grid as without
 * NCCL. */
#define SPSH__NCCL_MULTIPROCESSORS 4u
#define SPSH__NCCL_VERSION_LIMITED 21700u /* first version whose number of blocks can be limited */

typedef struct spsh__nccl_id {
    char bytes[SPSH__NCCL_ID_BYTES];
} spsh__nccl_id;

typedef struct spsh__nccl_plan {
    uint32_t device, rank, world_size;
    uint32_t blocks_max; /* blocks per kernel of NCCL; ignored before SPSH__NCCL_VERSION_LIMITED */
    spsh__nccl_id id;    /* made by rank 0, the same on all ranks */
} spsh__nccl_plan;

typedef enum spsh__collective_kind {
    SPSH__COLLECTIVE_SUM = 0,          /* all-reduce: values[count], in place */
    SPSH__COLLECTIVE_SUM_PARTS = 1,    /* reduce-scatter: values[world][count], own row's sum */
    SPSH__COLLECTIVE_GATHER_PARTS = 2, /* all-gather: values[world][count], own row to all */
    SPSH__COLLECTIVE_BROADCAST = 3,    /* broadcast: values[count] of rank 0 */
    /* all-to-all of 16-bit values[2][world][count]: row p of the first half goes to rank p, and row
     * p of the second half comes from rank p */
    SPSH__COLLECTIVE_EXCHANGE_HALVES = 4,
    SPSH__COLLECTIVE_GATHER_HALVES = 5, /* GATHER_PARTS of 16-bit values[world][count] */
} spsh__collective_kind;

typedef struct spsh__collective {
    spsh__collective_kind kind;
    void *values; /* in the device's memory: floats, unless the kind is one of HALVES */
    size_t count; /* elements per row: not 0 */
} spsh__collective;

typedef struct spsh__device_nccl_entry {
    /* path NULL: libnccl.so.2, found by the system's linker. SPSH_E_NOT_FOUND: no such library;
     * SPSH_E_VERSION: too old. */
    spsh_status (*load_fn)(const char *path, void **ret_library, spsh_error *err);
    void (*unload_fn)(void *library);
    uint32_t (*version_fn)(void *library); /* NCCL's version code: 22809 is 2.28.9 */
    /* Key of a device, the same in every process. No two devices have the same key. */
    spsh_status (*key_fn)(uint32_t device, uint64_t *ret_key, spsh_error *err);
    spsh_status (*id_fn)(void *library, spsh__nccl_id *ret_id, spsh_error *err);
    /* Begin to join the communicator. */
    spsh_status (*open_fn)(void *library, const spsh__nccl_plan *plan, void **ret_state,
                           spsh_error *err);
    /* SPSH_OK; SPSH_E_TIMEOUT: the last call is still in progress; SPSH_E_IO: it failed, or work on
     * a stream failed. */
    spsh_status (*state_fn)(void *state, spsh_error *err);
    /* Enqueue a collective. It is on the stream only when state_fn returns SPSH_OK. */
    spsh_status (*start_fn)(void *state, const spsh__collective *c, void *stream, spsh_error *err);
    /* Begin to end the communicator. No collective may follow. */
    spsh_status (*finish_fn)(void *state, spsh_error *err);
    /* End the work on streams, whatever the other ranks do. For a separate thread, which may be
     * left with another device, while the user's thread waits for the device in a call of CUDA:
     * that call returns. Only close_fn may follow. The values of unfinished collectives are
     * undefined. */
    void (*abort_fn)(void *state);
    /* Call after finish_fn or abort_fn, or with is_aborted, which also aborts if abort_fn has not.
     */
    void (*close_fn)(void *state, uint32_t is_aborted);
} spsh__device_nccl_entry;

typedef const spsh__device_nccl_entry *spsh__device_nccl_entry_fn(void);

#ifdef __cplusplus
}
#endif

#endif
