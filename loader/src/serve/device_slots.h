/* device_slots.h: batches in a device's memory.
 *
 * A slot is filled on the host as ever, and has a place of the same make on the device, with rows
 * of features behind it where those are made there:
 *
 *     host      | samples, or rows made here | packed | norms |           pinned
 *                  |  copies                   |        |
 *     device    | samples, or rows made here | packed | norms | rows |
 *                  ^---------- decode ---------'          '-----^
 *                  '------------------- features ---------------'
 *
 * Who finishes a slot's last job puts all of that onto the slot's own stream, with the event
 * `ready` behind it, and the batch is ready for next: nobody on the host waits for the device.
 * Features share the room of one spsh_cuda_features, so each batch's wait, on the device, for those
 * of the batch before (`made`).
 *
 * A slot that is given back is LEAVING until its stream has come to `freed`, which is recorded
 * behind a wait for the borrower's event: at once, so that the borrower may record that again. One
 * thread waits for these events, in the order of release, and makes the slots FREE; no memory, the
 * host's or the device's, is written while something may still read it. On one stream for each
 * slot, a borrower that is late holds up its own slot alone.
 */
#ifndef SPSH_DEVICE_SLOTS_H
#define SPSH_DEVICE_SLOTS_H

#include "loader_threads.h"

/* After recipe and plan: what the device will do is put into the recipe. Nothing where
 * options.cuda is NULL. SPSH_E_INVALID_ARG, _NO_MEMORY, _VERSION, _IO. */
spsh_status spsh__device_open(spsh_loader *loader, spsh_error *err);

/* With the slots there: pin them, take their places on the device, start the thread. */
spsh_status spsh__device_start(spsh_loader *loader, spsh_error *err);

/* Ends the thread and waits for the work of the slots. The threads that put it there have ended;
 * the slots' memory has not. NULL is fine. */
void spsh__device_close(spsh_loader *loader);

/* How many utterances of a batch it can see to. */
uint32_t spsh__device_utterances_max(const spsh__device *device);
uint32_t spsh__device_blocks_max(const spsh__device *device);

/* The slot's batch is finished on the host: bring it over. A failure becomes the slot's. */
void spsh__device_send(spsh_loader *loader, spsh__slot *slot);

/* The slot is LEAVING: FREE it when the event (NULL: what the loader itself has put there) has
 * come. Not under lock. */
void spsh__device_let_go(spsh_loader *loader, spsh__slot *slot, void *event);

/* Nothing is under way any more for slots that are neither lent nor leaving. Not under lock; nobody
 * finishes a slot meanwhile. */
void spsh__device_settle(spsh_loader *loader);

/* Bytes on the device, and brought there so far; is the host's side pinned? */
typedef struct spsh__device_counts {
    uint64_t memory_bytes, copied_bytes;
    bool is_pinned;
} spsh__device_counts;
spsh__device_counts spsh__device_count(const spsh__device *device);

#endif
