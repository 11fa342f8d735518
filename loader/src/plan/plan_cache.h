/* plan_cache.h: a directory that keeps the results of scanning and of walking through epochs.
 *
 * A cache never causes an error. A file that cannot be read, is damaged, or has another key is
 * ignored. A file that cannot be written is not written.
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
    uint64_t values[5]; /* keys of dataset, options, skips; seed; epoch */
} spsh__cache_key;

typedef struct spsh__cache_mapping {
    const uint8_t *data;
    size_t size_bytes;
    uint64_t body_bytes; /* from the header, unchecked */
} spsh__cache_mapping;

/* Start a file. Removes temporary files for it that killed processes have left. */
spsh_status spsh__cache_create(const spsh_plan *plan, const spsh__cache_key *key,
                               spsh_file_writer **ret_file);
void spsh__cache_head(const spsh__cache_key *key, uint64_t body_bytes,
                      uint8_t head[SPSH__CACHE_HEAD_BYTES]);
/* Map a file if its header is right. */
bool spsh__cache_map(const spsh_plan *plan, const spsh__cache_key *key,
                     spsh__cache_mapping *ret_mapping);
void spsh__cache_unmap(const spsh__cache_mapping *mapping);
void spsh__cache_remove(const spsh_plan *plan, const spsh__cache_key *key);

/* Fill the same members as spsh__plan_scan. */
bool spsh__cache_load_scan(spsh_plan *plan, const spsh__filter *filters, uint32_t threads);
void spsh__cache_save_scan(const spsh_plan *plan);
/* Unmap the scan. */
void spsh__cache_close(spsh_plan *plan);

/* The table of an epoch in plan_states.c. */
typedef struct spsh__cache_states {
    uint64_t epoch;
    uint32_t window_count, kept_count;
    uint32_t *batches;          /* [window_count] */
    uint8_t *known;             /* [kept_count] */
    spsh__domain_state *states; /* [kept_count][domain_count] */
} spsh__cache_states;

/* Fill the arrays; false: nothing was written to them. */
bool spsh__cache_load_states(const spsh_plan *plan, const spsh__cache_states *states);
void spsh__cache_save_states(const spsh_plan *plan, const spsh__cache_states *states);

#endif
