/* plan_internal.h: the plan after the scan, and helpers for the code that samples from it. */
#ifndef SPSH_PLAN_INTERNAL_H
#define SPSH_PLAN_INTERNAL_H

#include <stdatomic.h>

#include "members.h"
#include "speechshard/inside.h"
#include "speechshard/sampler.h"

__extension__ typedef unsigned __int128 spsh__u128;

/* Purposes of draws: the last argument of spsh__draw, or part of an argument. */
enum {
    SPSH__DRAW_ORDER = 1,
    SPSH__DRAW_RUN = 2, /* the place of the short run of members */
    SPSH__DRAW_SPEAKER = 3,
    SPSH__DRAW_TIE = 4,
    SPSH__DRAW_BATCHES = 5,
    SPSH__DRAW_SUBSTITUTE = 6,
};

/* Maximum samples of an utterance: two years at 1 kHz. Its microseconds fit into 46 bits. */
#define SPSH__SAMPLES_MAX (UINT64_C(1) << 36)

/* A granule: rows whose columns are checked together, at the first access to one of them. */
#define SPSH__GRANULE_SHIFT 13

typedef struct spsh__granule {
    _Atomic(uint8_t) state; /* SPSH__GRANULE_CHECKED, or the number of reads from plan_lengths.h */
} spsh__granule;

#define SPSH__GRANULE_CHECKED 255

/* The index columns of a dataset. Columns point to their first element. An element may be read once
 * its granule has been checked. */
typedef struct spsh__plan_dataset {
    const spsh_dataset *dataset;
    uint64_t count;
    const uint8_t *samples, *rates, *channels, *text_bytes;
    spsh__granule *granules;
    uint64_t units;         /* units of all rows that pass; only while shares are computed */
    uint32_t rate_hz;       /* common rate of all rows that pass; 0: rates differ */
    uint32_t channel_count; /* common channel count of all rows that pass; 0: counts differ */
    const uint8_t *lengths, *length_hashes; /* in the cache file (plan_lengths.h), or NULL */
} spsh__plan_dataset;

typedef struct spsh__plan_domain {
    uint32_t dataset;
    uint32_t name; /* name number in the dataset; SPSH_NONE_U32: rows without a domain */
    uint64_t count;
    uint64_t ticks;
    uint64_t units;
    uint64_t extra_items; /* parts in addition to the first part of each utterance */
    uint64_t weight;      /* share of units, relative to weight_sum */
    uint64_t item_weight; /* rule OPEN: share of utterances, relative to item_weight_sum; else the
                             number of utterances per epoch */
    const spsh__member_run *runs;
    uint32_t run_count;
} spsh__plan_domain;

/* Limits of a batch; UINT64_MAX: no limit. Ticks are microseconds. */
typedef struct spsh__caps {
    uint64_t utterances;
    uint64_t ticks;
    uint64_t padded_ticks;
    uint64_t item_ticks; /* limit of one item */
} spsh__caps;

/* Number of utterances of a domain that an epoch serves. */
typedef enum spsh__epoch_rule {
    SPSH__EPOCH_ALL = 0,     /* each utterance once: proportional shares, or one domain */
    SPSH__EPOCH_COUNTED = 1, /* shares count utterances: a fixed number per epoch */
    SPSH__EPOCH_OPEN = 2,    /* shares count seconds or tokens: the number varies */
} spsh__epoch_rule;

typedef struct spsh__epoch_tables spsh__epoch_tables;

/* Damage of the lengths file. Any thread that uses the plan may set it. */
typedef struct spsh__damage {
    _Atomic(bool) is_found;
} spsh__damage;

struct spsh_plan {
    spsh_allocator allocator;
    spsh_plan_options options; /* pointers cleared */
    spsh_plan_info info;
    spsh__caps caps;
    spsh__epoch_rule epoch_rule;
    spsh__plan_dataset *datasets;
    uint32_t dataset_count;
    spsh__plan_domain *domains;
    uint32_t domain_count;
    uint32_t part_count_max;
    spsh__member_run *runs;
    uint64_t run_count;
    uint16_t **chunks; /* offsets of member lists */
    uint64_t chunk_count;
    char *cache_dir;          /* NULL: no cache */
    const uint8_t *cache_map; /* mapped scan file, or NULL */
    size_t cache_map_bytes;
    const uint8_t *lengths_map;
    size_t lengths_map_bytes;
    spsh__damage *damage;
    const uint16_t *cached_offsets; /* offsets in cache_map, used instead of chunks */
    uint64_t offset_count;
    uint64_t weight_sum;
    uint64_t item_weight_sum;
    uint64_t dataset_key, options_key, skips_key; /* keys in cursors */
    uint64_t scan_key;                            /* hash of the options that select utterances */
    uint64_t epoch_max;                           /* epoch numbers are below this */
    spsh__epoch_tables *tables;
};

/* Like spsh_plan_open. threads 0: one per core. */
spsh_status spsh__plan_open(const spsh_dataset *const *datasets, uint32_t dataset_count,
                            const spsh_plan_options *options, uint32_t threads,
                            spsh_plan **ret_plan, spsh_error *err);

/* Fail with SPSH_E_CORRUPT because two results of the plan contradict each other. The message is
 * `what` and the cause: results in the cache directory, else the dataset or a bug. */
spsh_status spsh__plan_contradicted(const spsh_plan *plan, const char *what, spsh_error *err);

/* Duration in microseconds, rounded up. samples <= SPSH__SAMPLES_MAX. */
static inline uint64_t spsh__ticks(uint64_t samples, uint32_t rate_hz)
{
    uint64_t scaled = samples * UINT64_C(1000000);
    uint64_t ticks = 0;
    /* The quotient of two integers below 2^52 as doubles never rounds up to the next integer. This
     * division is several times as fast as that of integers. */
    if (samples < UINT64_C(1) << 32)
        ticks = (uint64_t)((double)scaled / (double)rate_hz);
    else
        ticks = scaled / rate_hz;
    return ticks + (ticks * rate_hz != scaled);
}

/* Microseconds. seconds: nonnegative, below 10^9. */
static inline uint64_t spsh__ticks_of_seconds(double seconds)
{
    return (uint64_t)(seconds * 1e6 + 0.5);
}

/* Maximum number of samples that last at most `ticks`. */
static inline uint64_t spsh__samples_in(uint64_t ticks, uint32_t rate_hz)
{
    if (ticks >= UINT64_C(1) << 46)
        return UINT64_MAX;
    return (uint64_t)((spsh__u128)ticks * rate_hz / 1000000);
}

/* Number of parts of an utterance, of at most item_ticks each; 0: not even one sample fits. */
static inline uint64_t spsh__part_count(uint64_t samples, uint32_t rate_hz, uint64_t item_ticks)
{
    uint64_t most = spsh__samples_in(item_ticks, rate_hz);
    if (most == 0)
        return 0;
    return samples <= most ? 1 : (samples - 1) / most + 1;
}

/* Units that an utterance adds to its domain's share. At least 1, so that utterances without
 * samples also use up their share. */
static inline uint64_t spsh__units(spsh_unit unit, uint64_t ticks, uint32_t text_bytes)
{
    uint64_t units = unit == SPSH_UNIT_SECONDS ? ticks : unit == SPSH_UNIT_TOKENS ? text_bytes : 1;
    return units == 0 ? 1 : units;
}

spsh_status spsh__plan_check_granule(const spsh_plan *plan, uint32_t dataset, uint64_t position,
                                     spsh_error *err);

static inline bool spsh__is_checked(const spsh__plan_dataset *dataset, uint64_t position)
{
    return atomic_load_explicit(&dataset->granules[position >> SPSH__GRANULE_SHIFT].state,
                                memory_order_acquire) == SPSH__GRANULE_CHECKED;
}

/* Check the granule of a position, so that its column elements may be read. */
static inline spsh_status spsh__plan_touch(const spsh_plan *plan, uint32_t dataset,
                                           uint64_t position, spsh_error *err)
{
    const spsh__plan_dataset *d = &plan->datasets[dataset];
    if (spsh__is_checked(d, position))
        return SPSH_OK;
    return spsh__plan_check_granule(plan, dataset, position, err);
}

static inline uint32_t spsh__get_u16le(const void *bytes)
{
    const uint8_t *b = (const uint8_t *)bytes;
    return (uint32_t)b[0] | ((uint32_t)b[1] << 8);
}

#endif
