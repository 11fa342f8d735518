/* device_stage.h: what a device has, in pinned memory of the host, for those who exchange it there
 * (gradient_sum.c): the arena, and behind it the running statistics.
 *
 *     down   behind what the backend's stream has come to, on a stream of its own; `slot` is asked
 *            for, or waited for, later
 *     up     behind what came down and went up before, and what was followed; the backend's stream
 *            waits for it, the host does not
 *
 * The backend computes on meanwhile. All that comes and goes does so in the order of calls.
 */
#ifndef SPSH_TRAIN_DEVICE_STAGE_H
#define SPSH_TRAIN_DEVICE_STAGE_H

#include "strategy.h"

typedef struct spsh__device_stage spsh__device_stage;

/* slots: as many, from 0 on. */
spsh_status spsh__device_stage_open(const spsh__learner *l, uint32_t slot_count,
                                    const spsh_allocator *allocator, spsh__device_stage **ret,
                                    spsh_error *err);
void spsh__device_stage_close(spsh__device_stage *s); /* NULL is fine; waits */

/* The pinned memory: floats, arena_elements + statistics_elements of them. */
float *spsh__device_stage_memory(const spsh__device_stage *s);

/* count elements of the device's buffer, to or from the place `offset` of the memory. */
spsh_status spsh__device_stage_down(spsh__device_stage *s, spsh__backend_buffer from,
                                    uint64_t offset, uint64_t count, uint32_t slot,
                                    spsh_error *err);
/* The backend's stream goes on behind it, before it writes there again. */
spsh_status spsh__device_stage_hold(spsh__device_stage *s, uint32_t slot, spsh_error *err);
/* What is done next comes behind what the backend's stream has come to. */
spsh_status spsh__device_stage_follow(spsh__device_stage *s, spsh_error *err);
bool spsh__device_stage_is_down(spsh__device_stage *s, uint32_t slot);
spsh_status spsh__device_stage_wait(spsh__device_stage *s, uint32_t slot, spsh_error *err);
spsh_status spsh__device_stage_up(spsh__device_stage *s, spsh__backend_buffer to, uint64_t offset,
                                  uint64_t count, spsh_error *err);
/* Behind the last `up`: the backend's stream waits. */
spsh_status spsh__device_stage_end(spsh__device_stage *s, spsh_error *err);
/* The host waits: the memory may be written. */
spsh_status spsh__device_stage_rest(spsh__device_stage *s, spsh_error *err);

#endif
