/* utterance_order.h: the sequence of utterances of an epoch, before they are sorted into batches.
 */
#ifndef SPSH_UTTERANCE_ORDER_H
#define SPSH_UTTERANCE_ORDER_H

#include "permutation.h"
#include "plan_internal.h"
#include "plan_states.h"
#include "quota.h"

enum { SPSH__AHEAD = 16 };

/* An utterance in the sequence. */
typedef struct spsh__stream_entry {
    uint64_t index; /* in its domain's stream, over all epochs */
    uint64_t position;
    uint64_t samples;
    uint64_t ticks;
    uint64_t units;
    uint32_t domain;
    uint32_t rate_hz;
    uint32_t channels;
} spsh__stream_entry;

/* A domain's utterances, pass after pass, each in an order of its own. */
typedef struct spsh__stream {
    uint64_t index;                /* that is next */
    uint64_t end;                  /* the epoch serves none from here on */
    uint64_t pass_first, pass_end; /* indexes of the pass that order is for */
    uint64_t short_run;            /* the pass: full runs before the short one */
    spsh__permutation order;
    uint32_t ahead, ahead_count; /* entries[ahead]: of index */
    spsh__stream_entry entries[SPSH__AHEAD];
} spsh__stream;

/* A place in the sequence; one thread. */
typedef struct spsh__walk {
    const spsh_plan *plan;
    bool is_valid; /* streams and quota are those of the beginning of window of epoch */
    uint64_t epoch;
    uint32_t window;
    spsh__stream *streams;
    spsh__quota quota;
    spsh__domain_state *states; /* scratch */
} spsh__walk;

spsh_status spsh__walk_open(spsh__walk *walk, const spsh_plan *plan, spsh_error *err);
void spsh__walk_close(spsh__walk *walk);

/* Utterances before a window of an epoch; window_count: all of them. */
uint64_t spsh__walk_window_first(const spsh_plan *plan, uint32_t window);

/* Go to the beginning of a window; past windows that are not known are gone through. */
spsh_status spsh__walk_seek(spsh__walk *walk, uint64_t epoch, uint32_t window, spsh_error *err);

/* The utterances of the window; then the walk is at the beginning of the next one. ret_entries has
 * room for all; NULL: go past them. */
spsh_status spsh__walk_window(spsh__walk *walk, spsh__stream_entry *ret_entries, spsh_error *err);

#endif
