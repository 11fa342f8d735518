/* plan_cache.h: what scanning and going through epochs found out, kept in a directory for the next
 * time.
 *
 * A cache is never an error: a file that cannot be read, is damaged, or is of something else is as
 * good as none, and one that cannot be written is not written.
 */
#ifndef SPSH_PLAN_CACHE_H
#define SPSH_PLAN_CACHE_H

#include "filter.h"
#include "plan_states.h"
#include "speechshard/io.h"

typedef enum spsh__cache_kind {
    SPSH__CACHE_SCAN = 1,
    SPSH__CACHE_STATES = 2,
    SPSH__CACHE_LENGTHS = 3,
} spsh__cache_kind;

enum { SPSH__CACHE_HEAD_BYTES = 64 };

typedef struct spsh__cache_key {
    spsh__cache_kind kind;
    uint64_t values[5]; /* of dataset, options, skips; seed, epoch */
} spsh__cache_key;

typedef struct spsh__cache_mapping {
    const uint8_t *data;
    size_t size_bytes;
    uint64_t body_bytes; /* as the head has it: not checked */
} spsh__cache_mapping;

/* Starts a file; removes those that killed processes left of it. */
spsh_status spsh__cache_create(const spsh_plan *plan, const spsh__cache_key *key,
                               spsh_file_writer **ret_file);
void spsh__cache_head(const spsh__cache_key *key, uint64_t body_bytes,
                      uint8_t head[SPSH__CACHE_HEAD_BYTES]);
/* Maps a file that has the right head. */
bool spsh__cache_map(const spsh_plan *plan, const spsh__cache_key *key,
                     spsh__cache_mapping *ret_mapping);
void spsh__cache_unmap(const spsh__cache_mapping *mapping);
void spsh__cache_remove(const spsh_plan *plan, const spsh__cache_key *key);

/* Fills what spsh__plan_scan fills. */
bool spsh__cache_load_scan(spsh_plan *plan, const spsh__filter *filters, uint32_t threads);
void spsh__cache_save_scan(const spsh_plan *plan);
/* Give the mapping back. */
void spsh__cache_close(spsh_plan *plan);

/* The table of an epoch, as plan_states.c keeps it. */
typedef struct spsh__cache_states {
    uint64_t epoch;
    uint32_t window_count, kept_count;
    uint32_t *batches;          /* of window_count */
    uint8_t *known;             /* of kept_count */
    spsh__domain_state *states; /* kept_count times domain_count */
} spsh__cache_states;

/* Fills the arrays; false: untouched. */
bool spsh__cache_load_states(const spsh_plan *plan, const spsh__cache_states *states);
void spsh__cache_save_states(const spsh_plan *plan, const spsh__cache_states *states);

#endif
