/* augment_room.h: convolve samples with a room impulse response, by transforms (overlap-save).
 *
 * Let a response have K numbers, the strongest at p. Output n is the sum of h[k] x[n + p - k], so
 * speech keeps its position in time. A transform of S numbers gives B = S - K + 1 outputs from the
 * S inputs before their end. Two such blocks are the real and the imaginary part of one transform,
 * as the response is real.
 *
 *     block b:  x[b B + p - K + 1 ...], S of them --> * h, cyclic --> the last B are y[b B ...]
 *
 * S is a power of two that depends only on K and the number of samples.
 */
#ifndef SPSH_AUGMENT_ROOM_H
#define SPSH_AUGMENT_ROOM_H

#include "augment_kernels.h"
#include "speechshard/augment.h"

typedef struct spsh__room_response {
    spsh__turns turns;
    uint32_t points_log2_max;
    float *turn_memory;
    float *points;   /* points of a transform; SPSH__POINT_FLOATS each */
    float *response; /* points of the response; SPSH__RESPONSE_FLOATS each */
} spsh__room_response;

/* A span of `count` floats. */
typedef struct spsh__signal_span {
    const float *x;
    uint64_t count;
} spsh__signal_span;

/* count_max: maximum size of a response, 1 ... SPSH_AUGMENT_ROOM_SAMPLES_MAX. Returns SPSH_OK or
 * SPSH_E_NO_MEMORY; after an error there is nothing to close. */
spsh_status spsh__room_open(const spsh_allocator *allocator, uint64_t count_max,
                            spsh__room_response *room, spsh_error *err);
/* Close a room. A zeroed struct is allowed. */
void spsh__room_close(const spsh_allocator *allocator, spsh__room_response *room);

/* y: one output per input; must not overlap the input. The response is scaled to -1 ... 1. */
void spsh__room_convolve(spsh__room_response *room, const spsh__augment_isa *isa,
                         const int16_t *response, uint64_t response_count, spsh__signal_span input,
                         float *y);

#endif
