/* featgen_state.h: the state of a featgen. */
#ifndef SPSH_FEATGEN_STATE_H
#define SPSH_FEATGEN_STATE_H

#include "frames.h"
#include "speechshard/featgen.h"
#include "speechshard/inside.h"

struct spsh_featgen {
    spsh_allocator allocator;
    spsh_featgen_options options; /* as given, threads not yet resolved */
    spsh__frame_tables tables;    /* tables.features: as given */
    const spsh__frames_isa *isa;
    uint64_t pad_samples;      /* samples of pad_us; 0: none */
    struct spsh__batch *batch; /* threads and their workers; NULL before the first batch */
};

#endif
