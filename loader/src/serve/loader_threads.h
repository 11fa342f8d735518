/* loader_threads.h: what the threads of a loader share, and who may touch what.
 *
 *     fetch (one thread)              decode (many)                next (the caller's)
 *     sampler: a planned batch
 *     -> takes a free slot ---------------------------------------- line: [3][4][END][5]...
 *     lays it out into jobs
 *     engine: reads records
 *     -> puts jobs into the queue --> takes a job
 *                                     checks, decodes into
 *                                     the slot
 *     recycles the request <--------- was its last job
 *                                     last job of the slot
 *                                     (-> device, see device_slots.h) -> batch 3 is ready
 *     a free slot <----------------------------------------------- release
 *                  (<- one thread waits for the device to be done with it <-)
 *
 * The line has the batches in the order of the plan, or in that in which they are asked for,
 * whatever becomes ready first; ends of epochs and failures stand in it at their place. So what
 * next returns does not depend on threads, until something fails that belongs to no batch: a read
 * that takes too long, the engine, a device. Then next fails at once.
 *
 * `lock` guards what its comment says. Locks are taken in the order: lock, then a slot's or the
 * queue's; never two slots'.
 */
#ifndef SPSH_LOADER_THREADS_H
#define SPSH_LOADER_THREADS_H

#include <sys/types.h>

#include "bad_records.h"
#include "batch/maker.h"
#include "batch/recipe.h"
#include "batch/slot.h"
#include "batch/stats.h"
#include "queue.h"
#include "texts.h"

#define SPSH__SUBSTITUTES_MAX UINT32_C(8)

typedef struct spsh__fetch spsh__fetch;
typedef struct spsh__worker spsh__worker;
typedef struct spsh__device spsh__device;

typedef enum spsh__place_kind {
    SPSH__PLACE_BATCH = 0,
    SPSH__PLACE_END = 1,
    SPSH__PLACE_FAILURE = 2,
} spsh__place_kind;

/* A step that was asked for. */
typedef struct spsh__ask {
    uint64_t epoch, step;
} spsh__ask;

/* One place of the line. */
typedef struct spsh__line_place {
    spsh__place_kind kind;
    bool is_refused;    /* of a failure: no more than that one ask has failed */
    spsh__slot *slot;   /* of a batch */
    spsh_position next; /* behind an end */
    spsh_error error;   /* of a failure */
} spsh__line_place;

/* Counters that threads add to as they go. */
typedef struct spsh__counters {
    _Atomic uint64_t reads, read_bytes, needed_bytes, coalesced_reads, range_reads;
    _Atomic uint64_t slow_reads, retries, bad_sounds, undecodable;
    _Atomic bool direct;
} spsh__counters;

struct spsh_loader {
    /* fixed after open */
    spsh_allocator allocator;
    pid_t pid;               /* that opened it: a child does not have its threads */
    spsh_loader_options opt; /* with defaults filled in; opt.plan is plan_opt */
    spsh_plan_options plan_opt;
    pthread_mutex_t *own_lock; /* lock, for functions that take a const loader */
    const spsh_dataset **datasets;
    uint32_t dataset_count;
    spsh_plan *plan;
    spsh__memory memory;
    size_t staging_bytes;
    uint32_t slot_count;
    spsh__slot *slots;
    spsh__budget budget;
    spsh_allocator budget_allocator;
    spsh__recipe recipe;
    spsh__maker *makers;  /* one for each decode thread */
    spsh__texts *texts;   /* NULL under NO_TEXT */
    spsh__device *device; /* NULL: batches are the host's */
    bool has_cached;      /* reads go through the page cache */

    spsh__queue queue;
    spsh__worker *workers;
    uint32_t worker_count;
    spsh__fetch *fetch;
    spsh__counters counters;

    pthread_mutex_t lock; /* of all below, and of slots' states */
    pthread_cond_t ready; /* next: the head of the line, closing, failure */
    pthread_cond_t wake;  /* fetch: something to do */
    pthread_cond_t calm;  /* parked; nobody is in a call any more */

    spsh__line_place *line; /* a ring */
    uint32_t line_capacity, line_first, line_count;
    spsh__ask *asks; /* a ring of slot_count: not begun yet; NULL: the plan's order it is */
    uint32_t asks_first, asks_count;
    uint32_t asked_count; /* asked for, and not returned by next yet */
    uint32_t lent_count;
    spsh_position cursor; /* behind what next returned last */
    spsh_status failure;  /* the first one; next returns it until a seek. See spsh__fail */
    spsh_error failure_error;
    bool closing, is_entered; /* a call that close has to wait for */

    /* to the fetch thread */
    struct spsh__request *finished; /* to recycle, linked by next */
    spsh__job *in_need;             /* of a substitute, linked by next */
    bool fetch_sleeps, poked, park, parked, stop;

    spsh__bad bad;
    _Atomic uint64_t known_count; /* of bad: whether to look at all */

    /* of what next has returned */
    uint64_t batches, empty_batches, utterances, microseconds, padded_microseconds, bad_records;
    uint64_t wait_ns, stalls, last_next_ns;
    spsh__gaps gaps;
    uint64_t *domain_units;
};

void spsh__log(const spsh_loader *loader, spsh_log_level level, const char *format, ...)
    SPSH_PRINTF(3, 4);

/* Record a failure that lasts, unless there is one already, and wake next. Every next returns it
 * until spsh_loader_seek or spsh_loader_cursor_restore, whatever becomes ready later. Under lock.
 */
void spsh__fail(spsh_loader *loader, spsh_status status, const spsh_error *error);

/* The fetch thread has something to do. Under lock. */
void spsh__fetch_poke(spsh_loader *loader);

#endif
