/* device_slots.h: batches in device memory.
 *
 * A slot is filled on the host, and has memory with the same layout on the device. If the device
 * computes features, its memory ends with the rows:
 *
 *     host      | samples, or rows of the host | packed | norms |           pinned
 *                  |  copies                     |        |
 *     device    | samples, or rows of the host | packed | norms | rows |
 *                  ^---------- decode -----------'          '-----^
 *                  '------------------- features -----------------'
 *
 * The thread that finishes the last job of a slot enqueues all of this on the slot's stream, and
 * then records the event `ready`. The batch is then ready for next: no host thread waits for the
 * device. All batches share the work space of one spsh_cuda_features. So the features of a batch
 * wait, on the device, for the features of the previous batch (event `made`).
 *
 * A released slot is LEAVING until its event `freed` completes. The slot's stream waits for the
 * borrower's event and then records `freed`. Both are enqueued at once, so that the borrower may
 * record its event again. One thread waits for these events in the order of release, and makes the
 * slots FREE. So neither host nor device memory is written while anything may still read it. Each
 * slot has its own stream, so a slow borrower delays only its own slot.
 */
#ifndef SPSH_DEVICE_SLOTS_H
#define SPSH_DEVICE_SLOTS_H

#include "loader_threads.h"

/* Open the device, and set in the recipe which steps the device takes over. Call after recipe and
 * plan are open. Does nothing if options.cuda is NULL. May return SPSH_E_INVALID_ARG, _NO_MEMORY,
 * _VERSION, _IO. */
spsh_status spsh__device_open(spsh_loader *loader, spsh_error *err);

/* Pin the slots, allocate their device memory, and start the thread. Call after the slots are
 * open. */
spsh_status spsh__device_start(spsh_loader *loader, spsh_error *err);

/* End the thread, and wait for all work on the slots' streams. Call after the decode threads have
 * ended, and before the slots' memory is freed. A NULL device is fine. */
void spsh__device_close(spsh_loader *loader);

/* Maximum utterances and PCM blocks of a batch that the device can process. */
uint32_t spsh__device_utterances_max(const spsh__device *device);
uint32_t spsh__device_blocks_max(const spsh__device *device);

/* Send a finished batch to the device. A failure is recorded in the slot. */
void spsh__device_send(spsh_loader *loader, spsh__slot *slot);

/* Make a LEAVING slot FREE after the event; NULL: after the loader's own work on its stream. Do not
 * hold the lock. */
void spsh__device_release(spsh_loader *loader, spsh__slot *slot, void *event);

/* Wait until no device work is in progress for slots that are being filled or are ready. Do not
 * hold the lock. No other thread may finish a slot meanwhile. */
void spsh__device_settle(spsh_loader *loader);

/* memory_bytes: allocated on the device. copied_bytes: copied to it so far. is_pinned: the host's
 * slots are pinned. */
typedef struct spsh__device_counts {
    uint64_t memory_bytes, copied_bytes;
    bool is_pinned;
} spsh__device_counts;
spsh__device_counts spsh__device_count(const spsh__device *device);

#endif
