/* augment_room.h: what a room does to samples: their convolution with its response, by transforms
 * (overlap-save).
 *
 * With a response of K numbers whose strongest is number p, output n is the sum of h[k] x[n + p -
 * k]: what is said stays where it was. A transform of S numbers gives B = S - K + 1 outputs of the
 * S inputs before their end; two such blocks are the real and the imaginary part of one transform,
 * as the response is real.
 *
 *     block b:  x[b B + p - K + 1 ...], S of them --> * h, cyclic --> the last B are y[b B ...]
 *
 * S is a power of two that K and the number of samples alone decide.
 */
#ifndef SPSH_AUGMENT_ROOM_H
#define SPSH_AUGMENT_ROOM_H

#include "augment_kernels.h"
#include "speechshard/augment.h"

typedef struct spsh__room_response {
    spsh__turns turns;
    uint32_t points_log2_max;
    float *turn_memory;
    float *points;   /* of a transform; SPSH__POINT_FLOATS each */
    float *response; /* its points; SPSH__RESPONSE_FLOATS each */
} spsh__room_response;

/* Float numbers: count of them. */
typedef struct spsh__signal_span {
    const float *x;
    uint64_t count;
} spsh__signal_span;

/* count_max: of the response, 1 ... SPSH_AUGMENT_ROOM_SAMPLES_MAX. SPSH_OK, SPSH_E_NO_MEMORY; then
 * nothing is left to close. */
spsh_status spsh__room_open(const spsh_allocator *allocator, uint64_t count_max,
                            spsh__room_response *room, spsh_error *err);
/* A room of zeros is fine. */
void spsh__room_close(const spsh_allocator *allocator, spsh__room_response *room);

/* y: as many as there are inputs; not the same memory. The response counts as -1 ... 1. */
void spsh__room_convolve(spsh__room_response *room, const spsh__augment_isa *isa,
                         const int16_t *response, uint64_t response_count, spsh__signal_span input,
                         float *y);

#endif
