/* fetch.h: the fetch thread, which plans batches and reads records. */
#ifndef SPSH_FETCH_H
#define SPSH_FETCH_H

#include "loader_threads.h"
#include "shard_files.h"

/* One read, of one record or of several adjacent ones. */
typedef struct spsh__request {
    struct spsh__request *next; /* in the list of idle or of finished requests */
    spsh_read_completion done;
    bool is_lent; /* delivered, and not yet recycled */
    bool is_slow; /* a slow read was logged */
    uint64_t submitted_ns;
    uint64_t offset_bytes;
    spsh__shard_file *file; /* valid until delivered */
    uint8_t file_id[16];
    spsh__slot *slot;
    uint32_t first, count; /* range of the slot's order */
    _Atomic uint32_t jobs_left;
} spsh__request;

/* Open sampler and engine. spsh__fetch_start starts the thread. */
spsh_status spsh__fetch_open(spsh_loader *loader, spsh_error *err);
spsh_status spsh__fetch_start(spsh_loader *loader, spsh_error *err);
/* End the thread. */
void spsh__fetch_stop(spsh_loader *loader);
/* Wait for reads in flight, and free everything. Call after the fetch and decode threads ended. */
void spsh__fetch_close(spsh_loader *loader);

/* In a forked child: free the engine, and the tables whose size is fixed at open. */
void spsh__fetch_close_inherited(spsh_loader *loader);

const char *spsh__fetch_engine_name(const spsh_loader *loader);
uint64_t spsh__fetch_cpu_ns(const spsh_loader *loader);

/* Fail if opening a shard has taken longer than read_deadline_ms. Call with the lock held. */
spsh_status spsh__fetch_watch(spsh_loader *loader, spsh_error *err);

/* park: drop everything that was decoded ahead, and pause the thread. go_on: continue. In between,
 * the caller may use the returned sampler. */
spsh_sampler *spsh__fetch_park(spsh_loader *loader);
void spsh__fetch_unpark(spsh_loader *loader);

#endif
