/* utterance_order.h: the sequence of utterances of an epoch, before it is cut into batches. */
#ifndef SPSH_UTTERANCE_ORDER_H
#define SPSH_UTTERANCE_ORDER_H

#include "permutation.h"
#include "plan_internal.h"
#include "plan_states.h"
#include "quota.h"

enum { SPSH__AHEAD = 16 };

/* An utterance in the sequence. */
typedef struct spsh__stream_entry {
    uint64_t index; /* index in its domain's stream, over all epochs */
    uint64_t position;
    uint64_t samples;
    uint64_t ticks;
    uint64_t units;
    uint32_t domain;
    uint32_t rate_hz;
    uint32_t channels;
} spsh__stream_entry;

/* A domain's utterances, pass after pass, in a new order for each pass. */
typedef struct spsh__stream {
    uint64_t index;                /* index of the next utterance */
    uint64_t end;                  /* the epoch serves only indexes below */
    uint64_t pass_first, pass_end; /* indexes of the pass to which order applies */
    uint64_t short_run;            /* number of full runs before the short run of the pass */
    spsh__permutation order;
    uint32_t ahead, ahead_count; /* entries[ahead] is the utterance at index */
    spsh__stream_entry entries[SPSH__AHEAD];
} spsh__stream;

/* A position in the sequence. One thread. */
typedef struct spsh__walk {
    const spsh_plan *plan;
    bool is_valid; /* streams and quota have the state at the beginning of this window */
    uint64_t epoch;
    uint32_t window;
    spsh__stream *streams;
    spsh__quota quota;
    spsh__domain_state *states; /* scratch */
} spsh__walk;

spsh_status spsh__walk_open(spsh__walk *walk, const spsh_plan *plan, spsh_error *err);
void spsh__walk_close(spsh__walk *walk);

/* Number of utterances before a window of an epoch. window_count gives the length of the epoch. */
uint64_t spsh__walk_window_first(const spsh_plan *plan, uint32_t window);

/* Seek to the beginning of a window. Walks through earlier windows from the last known state. */
spsh_status spsh__walk_seek(spsh__walk *walk, uint64_t epoch, uint32_t window, spsh_error *err);

/* Return the utterances of the window, and advance to the beginning of the next window. ret_entries
 * must have capacity for all; NULL: only advance. */
spsh_status spsh__walk_window(spsh__walk *walk, spsh__stream_entry *ret_entries, spsh_error *err);

#endif
