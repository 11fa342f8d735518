/* device_entry.h: interface between featgen's library and its part of the plug-in. The library
 * checks and lays out. The plug-in owns the device's memory and starts kernels. */
#ifndef SPSH_DEVICE_ENTRY_H
#define SPSH_DEVICE_ENTRY_H

#include "device_job.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPSH__DEVICE_FEATURES_SYMBOL "spsh_cuda_features_entry"

/* Tables and capacities that the plug-in allocates. */
typedef struct spsh__device_features_plan {
    const spsh__frame_tables *tables;
    uint32_t device;
    uint32_t utterance_count_max;
    uint32_t mask_count;    /* masks per utterance */
    uint64_t row_count_max; /* rows between frames and norm; 0 if none are needed */
} spsh__device_features_plan;

typedef struct spsh__device_features_entry {
    size_t tables_bytes, job_bytes; /* sizeof, as the plug-in was compiled */
    spsh_status (*open_fn)(const spsh__device_features_plan *plan, void **ret_state,
                           spsh_error *err);
    void (*close_fn)(void *state);
    /* Return memory for a batch's table. Waits until the device has finished reading its content.
     */
    spsh_status (*begin_fn)(void *state, spsh__device_utterance **ret_utterances, spsh_error *err);
    /* job: the caller sets samples to padding_value, mean, scales, stats_stride, time_masks, and
     * frequency_masks. The plug-in fills in the rest. frames_max: maximum frames of an utterance.
     */
    spsh_status (*run_fn)(void *state, void *stream, const spsh__device_job *job,
                          uint64_t frames_max, spsh_error *err);
} spsh__device_features_entry;

typedef const spsh__device_features_entry *spsh__device_features_entry_fn(void);

#ifdef __cplusplus
}
#endif

#endif
