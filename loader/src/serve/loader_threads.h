/* loader_threads.h: the state that the threads of a loader share, and the rules for access to it.
 *
 *     fetch (one thread)              decode (many)                next (the caller's)
 *     sampler: a planned batch
 *     -> takes a free slot ---------------------------------------- line: [3][4][END][5]...
 *     lays it out into jobs
 *     engine: reads records
 *     -> puts jobs into the queue --> takes a job
 *                                     checks, decodes into
 *                                     the slot
 *     recycles the request <--------- after its last job
 *                                     after the last job of the slot
 *                                     (-> device, see device_slots.h) -> batch 3 is ready
 *     a free slot <----------------------------------------------- release
 *                  (<- with a device, one thread waits until it is done with the slot <-)
 *
 * The line has the batches in the order of the plan or of the requests, no matter which one is
 * ready first. Ends of epochs and failures are entries of the line, too. So the results of next do
 * not depend on threads, except for a failure that does not belong to a batch: a read that takes
 * too long, the engine, or a device. Then next fails at once.
 *
 * Lock order: first `lock`, then a slot's or the queue's lock. Never hold the locks of two slots.
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

/* A requested step. */
typedef struct spsh__ask {
    uint64_t epoch, step;
} spsh__ask;

/* One entry of the line. */
typedef struct spsh__line_place {
    spsh__place_kind kind;
    bool is_refused;    /* FAILURE: only one request failed, not the loader */
    spsh__slot *slot;   /* BATCH: its slot */
    spsh_position next; /* END: the position after it */
    spsh_error error;   /* FAILURE: the error */
} spsh__line_place;

/* Counters that all threads add to. */
typedef struct spsh__counters {
    _Atomic uint64_t reads, read_bytes, needed_bytes, coalesced_reads, range_reads;
    _Atomic uint64_t slow_reads, retries, bad_sounds, undecodable;
    _Atomic bool direct;
} spsh__counters;

struct spsh_loader {
    /* fixed after open */
    spsh_allocator allocator;
    pid_t pid;               /* process that opened it: a forked child lacks its threads */
    spsh_loader_options opt; /* with defaults filled in; opt.plan is plan_opt */
    spsh_plan_options plan_opt;
    pthread_mutex_t *own_lock; /* &lock, for functions with a const loader */
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
    spsh__maker *makers;  /* one per decode thread */
    spsh__texts *texts;   /* NULL under NO_TEXT */
    spsh__device *device; /* NULL: batches are in host memory */
    bool has_cached;      /* reads use the page cache */

    spsh__queue queue;
    spsh__worker *workers;
    uint32_t worker_count;
    spsh__fetch *fetch;
    spsh__counters counters;

    pthread_mutex_t lock; /* guards everything below, and the states of slots */
    pthread_cond_t ready; /* for next: the head of the line, closing, or failure changed */
    pthread_cond_t wake;  /* for fetch: there is work */
    pthread_cond_t calm;  /* parked is set, or no thread is in a call */

    spsh__line_place *line; /* a ring */
    uint32_t line_capacity, line_first, line_count;
    spsh__ask *asks; /* a ring of slot_count: requests that fetch has not begun */
    uint32_t asks_first, asks_count;
    uint32_t asked_count; /* requests that next has not returned */
    uint32_t lent_count;
    spsh_position cursor; /* position after the last batch that next returned */
    spsh_status failure;  /* the first failure; next returns it until a seek. See spsh__fail */
    spsh_error failure_error;
    bool closing, is_entered; /* is_entered: a call for which close must wait */

    /* messages to the fetch thread */
    struct spsh__request *finished; /* requests to recycle, linked by next */
    spsh__job *in_need;             /* jobs that need a substitute, linked by next */
    bool fetch_sleeps, poked, park, parked, stop;

    spsh__bad bad;
    _Atomic uint64_t known_count; /* bad.known.count, to skip the lookup if it is 0 */

    /* counters of the batches that next has returned */
    uint64_t batches, empty_batches, utterances, microseconds, padded_microseconds, bad_records;
    uint64_t wait_ns, stalls, last_next_ns;
    spsh__gaps gaps;
    uint64_t *domain_units;
};

void spsh__log(const spsh_loader *loader, spsh_log_level level, const char *format, ...)
    SPSH_PRINTF(3, 4);

/* Record a persistent failure, unless there is one already, and wake next. Every next returns it
 * until spsh_loader_seek or spsh_loader_cursor_restore, even if batches become ready. Call with the
 * lock held. */
void spsh__fail(spsh_loader *loader, spsh_status status, const spsh_error *error);

/* Wake the fetch thread, because it has work. Call with the lock held. */
void spsh__fetch_poke(spsh_loader *loader);

#endif
