/* augmenter.h: the state of an augmenter. */
#ifndef SPSH_AUGMENTER_H
#define SPSH_AUGMENTER_H

#include "augment_room.h"
#include "augment_speed.h"
#include "speechshard/augment.h"

struct spsh_augmenter {
    spsh_allocator allocator;
    const spsh__augment_isa *isa;
    uint64_t sample_count_max, room_count_max;
    spsh__resampler resamplers[SPSH_AUGMENT_SPEEDS_MAX];
    uint32_t resampler_count;
    uint32_t margin;          /* zeros that resamplers need on each side */
    spsh__room_response room; /* if room_count_max > 0 */
    float *work;              /* buffer for the longest utterance after the change of speed */
    float *spare;             /* buffer for the utterance before it, with margins; later the output
                                 of rooms */
    uint64_t clipped_count;
};

#endif
