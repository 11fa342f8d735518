/* augment_room.c: see augment_room.h. */
#include "augment_room.h"

#include <math.h>
#include <stdlib.h>

#include "speechshard/featgen.h"
#include "speechshard/inside.h"

#define PI 3.14159265358979323846

enum { LANES = SPSH__AUGMENT_LANES, LANES_LOG2 = 3, POINTS_LOG2_MIN = 5 };

/* ---- sizes ---- */

/* The smaller of two transforms that are at least twice as long as the response. */
static uint32_t least_points_log2(uint64_t response_count)
{
    uint32_t log2 = POINTS_LOG2_MIN;
    while (((uint64_t)LANES << log2) < 2 * response_count)
        log2++;
    return log2;
}

/* Estimate the work: a transform and an inverse per pair of blocks, and two for the response. */
static double effort(uint32_t points_log2, uint64_t response_count, uint64_t count)
{
    const uint64_t size = (uint64_t)LANES << points_log2;
    const uint64_t outputs = 2 * (size - response_count + 1);
    const uint64_t pairs = (count + outputs - 1) / outputs;
    return (double)(pairs + 1) * (double)size * (points_log2 + 8);
}

static uint32_t points_log2_for(uint64_t response_count, uint64_t count)
{
    const uint32_t least = least_points_log2(response_count);
    return effort(least + 1, response_count, count) < effort(least, response_count, count)
               ? least + 1
               : least;
}

/* ---- tables ---- */

static void fill_turns(uint32_t log2, float *turns)
{
    const uint64_t length = UINT64_C(1) << log2;
    for (uint64_t j = 0; j < length / 4; j++) {
        for (uint64_t t = 1; t <= 3; t++) {
            const double angle = 2 * PI * (double)(j * t) / (double)length;
            *turns++ = (float)cos(angle);
            *turns++ = (float)-sin(angle);
        }
    }
}

spsh_status spsh__room_open(const spsh_allocator *allocator, uint64_t count_max,
                            spsh__room_response *room, spsh_error *err)
{
    *room = (spsh__room_response){.points_log2_max = least_points_log2(count_max) + 1};
    const size_t point_count = (size_t)1 << room->points_log2_max;
    room->turn_memory = spsh__new(allocator, 3 * point_count, sizeof(float));
    room->points = spsh__new(allocator, point_count, SPSH__POINT_FLOATS * sizeof(float));
    room->response = spsh__new(allocator, point_count, SPSH__RESPONSE_FLOATS * sizeof(float));
    if (room->turn_memory == NULL || room->points == NULL || room->response == NULL) {
        spsh__room_close(allocator, room);
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "augmentation: transforms of %zu points",
                         point_count);
    }
    float *next = room->turn_memory;
    for (uint32_t log2 = 2; log2 <= room->points_log2_max; log2++) {
        room->turns.of_log2[log2] = next;
        fill_turns(log2, next);
        next += ((size_t)6 << log2) / 4;
    }
    return SPSH_OK;
}

void spsh__room_close(const spsh_allocator *allocator, spsh__room_response *room)
{
    spsh__free(allocator, room->turn_memory);
    spsh__free(allocator, room->points);
    spsh__free(allocator, room->response);
    *room = (spsh__room_response){0};
}

/* ---- convolution ---- */

/* Transform undelayed lanes and lanes delayed by a point, as real and imaginary parts of one
 * transform. */
static void transform_response(spsh__room_response *room, const spsh__augment_isa *isa,
                               const int16_t *response, uint64_t count, uint32_t points_log2)
{
    const size_t point_count = (size_t)1 << points_log2;
    const float unit =
        1 / (32768.0F * (float)point_count); /* a power of two; of the inverse, too */
    for (int later = 0; later <= 1; later++) {
        memset(room->points, 0, point_count * SPSH__POINT_FLOATS * sizeof(float));
        for (uint64_t i = 0; i < count; i++) {
            const uint64_t point = i / LANES + (uint64_t)later;
            room->points[point * SPSH__POINT_FLOATS + i % LANES] = (float)response[i] * unit;
        }
        isa->transform_fn(&room->turns, points_log2, room->points);
        for (size_t k = 0; k < point_count; k++) {
            const float *from = room->points + k * SPSH__POINT_FLOATS;
            float *to = room->response + k * SPSH__RESPONSE_FLOATS + (later == 1 ? 0 : LANES);
            memcpy(to, from, LANES * sizeof(float));
            memcpy(to + 2 * (size_t)LANES, from + LANES, LANES * sizeof(float));
        }
    }
}

static uint64_t strongest(const int16_t *response, uint64_t count)
{
    uint64_t best = 0;
    for (uint64_t i = 1; i < count; i++)
        if (abs(response[i]) > abs(response[best]))
            best = i;
    return best;
}

/* point_count * 8 inputs from first on to the real (part 0) or imaginary (1) parts; zeros outside.
 */
static void read_block(spsh__signal_span input, int64_t first, size_t point_count, float *points)
{
    for (size_t point = 0; point < point_count; point++) {
        float *to = points + point * SPSH__POINT_FLOATS;
        const int64_t at = first + (int64_t)(point * LANES);
        if (at >= 0 && at + LANES <= (int64_t)input.count) {
            memcpy(to, input.x + at, LANES * sizeof(float));
            continue;
        }
        for (int64_t lane = 0; lane < LANES; lane++)
            to[lane] = at + lane >= 0 && at + lane < (int64_t)input.count ? input.x[at + lane] : 0;
    }
}

/* Copy `count` numbers to y, from number `first` on, out of points in the layout of read_block. */
static void write_block(const float *points, uint64_t first, uint64_t count, float *y)
{
    for (uint64_t i = 0; i < count; i++)
        y[i] = points[(first + i) / LANES * SPSH__POINT_FLOATS + (first + i) % LANES];
}

void spsh__room_convolve(spsh__room_response *room, const spsh__augment_isa *isa,
                         const int16_t *response, uint64_t response_count, spsh__signal_span input,
                         float *y)
{
    const uint32_t points_log2 = points_log2_for(response_count, input.count);
    const size_t point_count = (size_t)1 << points_log2;
    const uint64_t outputs = point_count * LANES - response_count + 1;
    const int64_t shift =
        (int64_t)strongest(response, response_count) - (int64_t)response_count + 1;
    transform_response(room, isa, response, response_count, points_log2);
    for (uint64_t at = 0; at < input.count; at += 2 * outputs) {
        for (uint64_t part = 0; part < 2; part++)
            read_block(input, (int64_t)(at + part * outputs) + shift, point_count,
                       room->points + part * LANES);
        isa->transform_fn(&room->turns, points_log2, room->points);
        isa->multiply_fn(room->response, point_count, room->points);
        isa->inverse_fn(&room->turns, points_log2, room->points);
        for (uint64_t part = 0; part < 2 && at + part * outputs < input.count; part++) {
            const uint64_t first = at + part * outputs;
            const uint64_t left = input.count - first;
            write_block(room->points + part * LANES, response_count - 1,
                        left < outputs ? left : outputs, y + first);
        }
    }
}
