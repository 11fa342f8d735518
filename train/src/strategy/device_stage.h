/* device_stage.h: data of a device in pinned host memory, for strategies that exchange it on the
 * host (gradient_sum.c). The memory holds the arena, followed by the running statistics.
 *
 *     down   copy to the host on a separate stream, after the work enqueued on the backend's
 *            stream; poll or wait for `slot` later
 *     up     copy to the device after all earlier copies, and after the work that _follow recorded;
 *            the backend's stream waits for it (_end), the host does not
 *
 * The backend computes meanwhile. All copies run in the order of the calls.
 */
#ifndef SPSH_TRAIN_DEVICE_STAGE_H
#define SPSH_TRAIN_DEVICE_STAGE_H

#include "strategy.h"

typedef struct spsh__device_stage spsh__device_stage;

/* slot_count: number of slots, which are numbered from 0. */
spsh_status spsh__device_stage_open(const spsh__learner *l, uint32_t slot_count,
                                    const spsh_allocator *allocator, spsh__device_stage **ret,
                                    spsh_error *err);
void spsh__device_stage_close(spsh__device_stage *s); /* NULL is fine; waits for the copies */

/* Return the pinned memory: arena_elements + statistics_elements floats. */
float *spsh__device_stage_memory(const spsh__device_stage *s);

/* Copy count elements between a device buffer and the memory at `offset`. */
spsh_status spsh__device_stage_down(spsh__device_stage *s, spsh__backend_buffer from,
                                    uint64_t offset, uint64_t count, uint32_t slot,
                                    spsh_error *err);
/* Make the backend's stream wait for the copy of the slot before it overwrites the buffer. */
spsh_status spsh__device_stage_hold(spsh__device_stage *s, uint32_t slot, spsh_error *err);
/* Make later copies wait for the work that is enqueued on the backend's stream. */
spsh_status spsh__device_stage_follow(spsh__device_stage *s, spsh_error *err);
bool spsh__device_stage_is_down(spsh__device_stage *s, uint32_t slot);
spsh_status spsh__device_stage_wait(spsh__device_stage *s, uint32_t slot, spsh_error *err);
spsh_status spsh__device_stage_up(spsh__device_stage *s, spsh__backend_buffer to, uint64_t offset,
                                  uint64_t count, spsh_error *err);
/* Call after the last `up`: the backend's stream waits for the copies. */
spsh_status spsh__device_stage_end(spsh__device_stage *s, spsh_error *err);
/* Block the host until the copies of `up` are done. The memory may then be overwritten. */
spsh_status spsh__device_stage_rest(spsh__device_stage *s, spsh_error *err);

#endif
